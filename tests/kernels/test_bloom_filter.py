"""The Bloom filter of rows: it misses no earlier row, and mistakes few new rows for earlier."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp.kernels import note_rows
from dbsp.kernels.arrays import Codes
from dbsp.kernels.tiers import COMPILED, INTERPRETED
from tests.kernels.support import codes


@st.composite
def deltas(draw: st.DrawFn) -> list[Codes]:
    width = draw(st.integers(1, 3))
    rows = st.lists(st.tuples(*[codes] * width), max_size=12)
    return [np.array(part, np.int64).reshape(len(part), width) for part in draw(st.lists(rows, max_size=6))]


@given(deltas(), st.sampled_from([8, 16, 1024]))
def test_every_earlier_row_is_found(parts: list[Codes], size: int) -> None:
    words = np.zeros(size, np.uint64)
    before: set[tuple[int, ...]] = set()
    for part in parts:
        found = note_rows(part, words).tolist()
        rows = [tuple(row) for row in part.tolist()]
        # A row that occurs twice in a part was in the filter the second time.
        repeated = [at for at, row in enumerate(rows) if row in before or row in rows[:at]]
        assert found == sorted(set(found)) and set(repeated) <= set(found)
        before.update(rows)


def test_few_new_rows_are_mistaken(tier: str) -> None:
    """For random rows, and for the neighbours that the iterations of a recursion visit."""
    size = {COMPILED: 1 << 14, INTERPRETED: 1 << 8}[tier]
    chance = np.random.default_rng(0)
    spread = list(chance.integers(-(2**40), 2**40, (32, size // 16, 2)))
    nodes = np.arange(size // 16)
    chain = [np.column_stack((nodes, nodes + length)) for length in range(32)]
    for parts in (spread, chain):
        words = np.zeros(size, np.uint64)
        mistaken = sum(len(note_rows(np.ascontiguousarray(part), words)) for part in parts)
        # Two rows per word in the end: the most that `dbsp.state.seen_rows` allows.
        assert mistaken <= size // 500


@pytest.mark.parametrize("width", [1, 2, 3])
def test_each_column_counts(width: int) -> None:
    """Rows that differ in one column only do not look equal."""
    for column in range(width):
        rows = np.zeros((256, width), np.int64)
        rows[:, column] = np.arange(256) * 1_000
        assert len(note_rows(rows, np.zeros(1 << 12, np.uint64))) <= 1
