"""All tests of kernels run in both tiers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dbsp.kernels.tiers import COMPILED, INTERPRETED, choose_tier


@pytest.fixture(scope="module", params=[COMPILED, INTERPRETED], autouse=True)
def tier(request: pytest.FixtureRequest) -> Iterator[str]:
    """Choose the tier of all kernels."""
    choose_tier(request.param)
    yield request.param
    choose_tier(COMPILED)
