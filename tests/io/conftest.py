"""All tests of files run with both readers and writers: for small files, and in bulk."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dbsp.io import facts, written_lines


@pytest.fixture(scope="module", params=["small", "bulk"], autouse=True)
def size(request: pytest.FixtureRequest) -> Iterator[None]:
    """Choose the reader and the writer."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (facts, written_lines) if request.param == "bulk" else ():
            patch.setattr(module, "_SMALL", 0)
        yield
