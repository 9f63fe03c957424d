"""Least upper bounds of rows that agree in their columns without a lattice, pair by pair."""

from __future__ import annotations

from typing import Any

from dbsp.compiler.datalog.meaning import checked
from dbsp.data.terms import Branch
from tests.reference_datalog.values import Row


def join_rows(rows: set[Row], relation: checked.Relation, program: checked.CheckedProgram) -> set[Row]:
    """One row for each key, with the joins of the lattice columns."""
    found: dict[Row, Row] = {}
    for row in rows:
        key = tuple(v for v, column in zip(row, relation.attributes, strict=True) if not column.lattice)
        other = found.get(key, row)
        found[key] = tuple(
            join(column.lattice.join, a, b, program) if column.lattice else a
            for column, a, b in zip(relation.attributes, other, row, strict=True)
        )
    return set(found.values())


def join(name: str, a: Any, b: Any, program: checked.CheckedProgram) -> Any:
    match name:
        case "min":
            return a if a <= b else b
        case "max":
            return a if a >= b else b
        case "bor":
            return a | b
        case "band":
            return a & b
        case "flat":
            return a if a == b else Branch("Top")
        case _:
            return program.functors[name].function(a, b)
