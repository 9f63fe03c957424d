"""Bounds of rows by watermarks, and how to calculate with them.

A bound ({w1, w2, ...}, column) -> offset of the changes of a stream means: in every tick, each row
of its change has

    row[column] >= min(w1, w2, ...) + offset        the watermarks of the tick before

So no change after a tick has a row below the watermarks of this tick.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from dbsp.circuit.graph import Node

Marks: TypeAlias = frozenset[Node]
"""Nodes of watermarks, of which the least counts."""

Bounds: TypeAlias = Mapping[tuple[Marks, int], int]
"""By watermarks and column, the offset."""

NONE: Bounds = {}


def moved(bounds: Bounds, columns: Iterable[int | None]) -> Bounds:
    """Return the bounds of rows whose column i was column columns[i], or none of the old ones."""
    return {
        (marks, new): offset
        for new, old in enumerate(columns)
        for (marks, column), offset in bounds.items()
        if column == old
    }


def strongest(parts: Iterable[Bounds]) -> Bounds:
    """Return the bounds that hold if all of these hold."""
    result: dict[tuple[Marks, int], int] = {}
    for part in parts:
        for key, offset in part.items():
            result[key] = max(offset, result.get(key, offset))
    return result


def weakest(parts: Iterable[Bounds]) -> Bounds:
    """Return the bounds that hold for every row if one of these holds for it; none of no parts."""
    result: Bounds | None = None
    for part in parts:
        result = part if result is None else _either(result, part)
    return result or NONE


def _either(a: Bounds, b: Bounds) -> Bounds:
    found: dict[tuple[Marks, int], int] = {}
    for (marks, column), offset in a.items():
        for (others, other), limit in b.items():
            if column == other:
                key, least = (marks | others, column), min(offset, limit)
                found[key] = max(least, found.get(key, least))
    return {
        (marks, column): offset
        for (marks, column), offset in found.items()
        if not any(
            column == other and fewer < marks and limit >= offset for (fewer, other), limit in found.items()
        )
    }
