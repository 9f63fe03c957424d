"""All tests of kernels run in both tiers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dbsp.kernels.tiers import COMPILED, INTERPRETED, choose_tier
from tests.kernels.compiling_children import CALLED, CALLING


@pytest.fixture(scope="module", params=[COMPILED, INTERPRETED], autouse=True)
def tier(request: pytest.FixtureRequest) -> Iterator[str]:
    """Choose the tier of all kernels."""
    choose_tier(request.param)
    yield request.param
    choose_tier(COMPILED)


@pytest.fixture
def kernel_folder(tmp_path: Path) -> Path:
    """A folder with two kernels; one calls the other."""
    folder = tmp_path / "kernels"
    folder.mkdir()
    (folder / "called_kernel.py").write_text(CALLED.format(3))
    (folder / "calling_kernel.py").write_text(CALLING)
    return folder
