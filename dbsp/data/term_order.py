"""The order of constructed values: nil, then what is nested less deep before what is nested deeper.

Of values equally deep the constructor declared first comes first, then the fields decide from left to right.
So a shorter list comes before a longer one, and ranks can be given level by level.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from dbsp.data.interner import Interner
from dbsp.data.types import NIL, Constructor, Structure, Type
from dbsp.kernels.arrays import Codes


def rank_terms(
    structure: Structure, codes: Codes, interner: Interner, rank: Callable[[Type, Codes], Codes]
) -> Codes:
    """Numbers that compare like the values with these codes; `rank` gives such for plain columns.

    Cost O(v log v) for the v values that are these or parts of them.
    """
    inside = any(field.type.structure for one in structure.constructors for field in one.fields)
    return _nested(structure, codes, interner, rank) if inside else _flat(structure, codes, interner, rank)


def _flat(
    structure: Structure, codes: Codes, interner: Interner, rank: Callable[[Type, Codes], Codes]
) -> Codes:
    """Ranks of values without constructed parts, a column at a time."""
    distinct, inverse = np.unique(codes, return_inverse=True)
    ranks = np.zeros(len(distinct), np.int64)
    begin = 1
    for constructor in structure.constructors:
        at = np.flatnonzero(interner.cells.made_by(constructor.layout, distinct))
        columns = [
            rank(field.type, interner.cells.field(constructor.layout, distinct[at], position, 0))
            for position, field in enumerate(constructor.fields)
        ]
        order = np.lexsort(columns[::-1]) if columns else np.arange(len(at))
        ranks[at[order]] = np.arange(begin, begin + len(at))
        begin += len(at)
    return ranks[inverse]


class _Found:
    """The values of one structure that were met, and the ranks that they get."""

    def __init__(self) -> None:
        self.codes: set[int] = set()
        self.ranks: dict[int, int] = {NIL: 0}


def _nested(
    structure: Structure, codes: Codes, interner: Interner, rank: Callable[[Type, Codes], Codes]
) -> Codes:
    distinct, inverse = np.unique(codes, return_inverse=True)
    met: dict[Structure, _Found] = defaultdict(_Found)
    rows: dict[tuple[Structure, int], tuple[int, Constructor, list[int]]] = {}
    waiting = [(structure, code) for code in distinct.tolist() if code != NIL]
    while waiting:
        of, code = waiting.pop()
        if code in met[of].codes:
            continue
        met[of].codes.add(code)
        layout, fields = interner.cells.cell(code)
        constructor = of.by_layout[layout]
        rows[of, code] = (of.positions[constructor.name], constructor, fields)
        for field, part in zip(constructor.fields, fields, strict=True):
            if field.type.structure is not None and part != NIL:
                waiting.append((field.type.structure, part))
    plain = _plain_ranks(rows, rank)
    levels: dict[int, list[tuple[Structure, int]]] = defaultdict(list)
    for of, found in met.items():
        listed = np.fromiter(found.codes, np.int64, len(found.codes))
        for code, depth in zip(listed.tolist(), interner.cells.depths(listed).tolist(), strict=True):
            levels[depth].append((of, code))
    begin = 1

    def key(one: tuple[Structure, int]) -> tuple[Any, ...]:
        place, constructor, fields = rows[one]
        parts = []
        for field, part in zip(constructor.fields, fields, strict=True):
            inner = field.type.structure
            parts.append(plain[field.type, part] if inner is None else met[inner].ranks[part])
        return place, parts

    for depth in sorted(levels):
        level = levels[depth]
        if len(level) > 1:
            level.sort(key=key)
        for number, (of, code) in enumerate(level, begin):
            met[of].ranks[code] = number
        begin += len(level)
    ranks = met[structure].ranks
    return np.array([ranks[code] for code in distinct.tolist()], np.int64)[inverse]


def _plain_ranks(
    rows: dict[tuple[Structure, int], tuple[int, Constructor, list[int]]],
    rank: Callable[[Type, Codes], Codes],
) -> dict[tuple[Type, int], int]:
    """The rank of every code in a field that is not constructed, by the type of the field."""
    by_type: dict[Type, set[int]] = defaultdict(set)
    for _, constructor, fields in rows.values():
        for field, part in zip(constructor.fields, fields, strict=True):
            if field.type.structure is None:
                by_type[field.type].add(part)
    ranks: dict[tuple[Type, int], int] = {}
    for type_, found in by_type.items():
        codes = np.fromiter(found, np.int64, len(found))
        for code, number in zip(codes.tolist(), rank(type_, codes).tolist(), strict=True):
            ranks[type_, code] = number
    return ranks
