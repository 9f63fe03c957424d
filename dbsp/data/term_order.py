"""The order of constructed values: nil first, then by nesting depth, less deep values first.

Among values of equal depth, the constructor declared first is first; then the fields decide from
left to right. So a shorter list comes before a longer one, and ranks are computed level by level.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from dbsp.data.distinct_codes import distinct_codes
from dbsp.data.interner import Interner
from dbsp.data.key_order import key_order
from dbsp.data.types import NIL, Constructor, Structure, Type
from dbsp.kernels.arrays import Codes


def rank_terms(
    structure: Structure, codes: Codes, interner: Interner, rank: Callable[[Type, Codes], Codes]
) -> Codes:
    """Return numbers that compare like the values of these codes; `rank` does so for plain columns.

    O(v log v) for v values, including their parts.
    """
    inside = any(
        field.type.structure for constructor in structure.constructors for field in constructor.fields
    )
    return _nested(structure, codes, interner, rank) if inside else _flat(structure, codes, interner, rank)


def _flat(
    structure: Structure, codes: Codes, interner: Interner, rank: Callable[[Type, Codes], Codes]
) -> Codes:
    """Return the ranks of values without constructed parts, computed column by column."""
    distinct, inverse = distinct_codes(codes)
    ranks = np.zeros(len(distinct), np.int64)
    begin = 1
    for constructor in structure.constructors:
        at = np.flatnonzero(interner.cells.has_layout(constructor.layout, distinct))
        columns = [
            rank(field.type, interner.cells.field(constructor.layout, distinct[at], position, 0))
            for position, field in enumerate(constructor.fields)
        ]
        order = key_order(columns) if columns else np.arange(len(at))
        ranks[at[order]] = np.arange(begin, begin + len(at))
        begin += len(at)
    return ranks[inverse]


class _StructureValues:
    """The values to rank of one structure, and their ranks."""

    def __init__(self) -> None:
        self.codes: set[int] = set()
        self.ranks: dict[int, int] = {NIL: 0}


def _nested(
    structure: Structure, codes: Codes, interner: Interner, rank: Callable[[Type, Codes], Codes]
) -> Codes:
    distinct, inverse = distinct_codes(codes)
    values_of: dict[Structure, _StructureValues] = defaultdict(_StructureValues)
    rows: dict[tuple[Structure, int], tuple[int, Constructor, list[int]]] = {}
    waiting = [(structure, code) for code in distinct.tolist() if code != NIL]
    while waiting:
        owner, code = waiting.pop()
        if code in values_of[owner].codes:
            continue
        values_of[owner].codes.add(code)
        layout, fields = interner.cells.cell(code)
        constructor = owner.by_layout[layout]
        rows[owner, code] = (owner.positions[constructor.name], constructor, fields)
        for field, part in zip(constructor.fields, fields, strict=True):
            if field.type.structure is not None and part != NIL:
                waiting.append((field.type.structure, part))
    plain = _plain_ranks(rows, rank)
    levels: dict[int, list[tuple[Structure, int]]] = defaultdict(list)
    for owner, values in values_of.items():
        listed = np.fromiter(values.codes, np.int64, len(values.codes))
        for code, depth in zip(listed.tolist(), interner.cells.depths(listed).tolist(), strict=True):
            levels[depth].append((owner, code))
    begin = 1

    def key(row: tuple[Structure, int]) -> tuple[Any, ...]:
        place, constructor, fields = rows[row]
        parts = []
        for field, part in zip(constructor.fields, fields, strict=True):
            inner = field.type.structure
            parts.append(plain[field.type, part] if inner is None else values_of[inner].ranks[part])
        return place, parts

    for depth in sorted(levels):
        level = levels[depth]
        if len(level) > 1:
            level.sort(key=key)
        for number, (owner, code) in enumerate(level, begin):
            values_of[owner].ranks[code] = number
        begin += len(level)
    ranks = values_of[structure].ranks
    return np.array([ranks[code] for code in distinct.tolist()], np.int64)[inverse]


def _plain_ranks(
    rows: dict[tuple[Structure, int], tuple[int, Constructor, list[int]]],
    rank: Callable[[Type, Codes], Codes],
) -> dict[tuple[Type, int], int]:
    """Return the rank of every code in a plain field, by the type of the field."""
    by_type: dict[Type, set[int]] = defaultdict(set)
    for _, constructor, fields in rows.values():
        for field, part in zip(constructor.fields, fields, strict=True):
            if field.type.structure is None:
                by_type[field.type].add(part)
    ranks: dict[tuple[Type, int], int] = {}
    for type_, codes_of_type in by_type.items():
        codes = np.fromiter(codes_of_type, np.int64, len(codes_of_type))
        for code, number in zip(codes.tolist(), rank(type_, codes).tolist(), strict=True):
            ranks[type_, code] = number
    return ranks
