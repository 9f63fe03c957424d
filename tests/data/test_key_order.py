"""The order of rows by several keys, compared with NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from dbsp.data import key_order as module
from dbsp.data.key_order import key_order
from dbsp.kernels.limits import INT64_MAX, INT64_MIN

RANGES = [(0, 0), (0, 3), (-5, 1000), (INT64_MIN, INT64_MAX)]


@pytest.mark.parametrize("few", [0, 10_000], ids=["kernel", "numpy"])
@pytest.mark.parametrize("size", [0, 1, 2, 40, 3_000])
@pytest.mark.parametrize("first", RANGES)
@pytest.mark.parametrize("second", RANGES)
def test_the_order_is_that_of_numpy(
    monkeypatch: pytest.MonkeyPatch,
    few: int,
    size: int,
    first: tuple[int, int],
    second: tuple[int, int],
) -> None:
    monkeypatch.setattr(module, "_FEW", few)
    draw = np.random.default_rng(size)
    bounds = (first, second, (0, 9))
    keys = [draw.integers(low, high, size, endpoint=True) for low, high in bounds]
    for count in (1, 2, 3):
        chosen = keys[:count]
        expected = np.lexsort(chosen[::-1]).tolist()
        assert key_order(chosen).tolist() == expected
        assert key_order(np.array(chosen)).tolist() == expected
        table = np.array(chosen).T.copy()
        assert key_order(table.T).tolist() == expected
