"""Cases of a compiler pass: the input, and the expected text right after the pass.

A file holds several:

    === title
    input
    ---
    expected text
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class PassCase(NamedTuple):
    """One case of the pass that the file is named after."""

    name: str
    title: str
    given: str
    expected: str


def pass_cases(folder: Path) -> Iterator[PassCase]:
    """Yield every case of every file, in order."""
    for path in sorted(folder.glob("*.txt")):
        _, *parts = f"\n{path.read_text()}".split("\n=== ")
        for part in parts:
            title, rest = part.split("\n", 1)
            given, expected = rest.split("\n---\n")
            yield PassCase(path.stem, title, given, expected.strip("\n"))
