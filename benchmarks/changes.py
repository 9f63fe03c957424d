"""The data of all contestants: rows of numbers, and signed changes."""

from __future__ import annotations

import random
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Codes: TypeAlias = npt.NDArray[np.int64]
Row: TypeAlias = tuple[int, ...]
Change: TypeAlias = tuple[str, int, Row]
"""Relation, +1 or -1, row."""


def take(rows: list[Row], chance: random.Random) -> Row:
    """Remove a random row in O(1)."""
    place = chance.randrange(len(rows))
    rows[place], rows[-1] = rows[-1], rows[place]
    return rows.pop()
