"""The terms of an incremental form, as pictures draw them.

A term applies the operator to its inputs, each summed and delayed in some time dimensions. Inside
scopes the dimensions are the ticks and the iterations of each scope. The node is the sum of its
terms with their signs.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from dbsp.lazy_dataclass import dataclass

Sum: TypeAlias = Literal["delta", "new", "old"]
"""What an input holds in a time dimension: the delta, its sum up to now I(d), or the sum before now
z^-1(I(d))."""


@dataclass(frozen=True)
class DrawnTerm:
    """A term: its sign, and for each input what it holds in each time dimension."""

    sign: int
    inputs: tuple[tuple[Sum, ...], ...]
