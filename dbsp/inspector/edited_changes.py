"""Changes of inputs from the texts that the page sends: one text per cell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dbsp.data.int_range import IntRange
from dbsp.data.schema import Schema
from dbsp.data.types import Type
from dbsp.errors import InputError, counted, shorten
from dbsp.io.cell_text import CELLS, code_of, in_range
from dbsp.io.term_text import value_of

MOST_ROWS = 1_000
"""The number of rows that one edit may change."""

Ranges = Mapping[str, Mapping[str, IntRange]]
Changes = dict[str, dict[tuple[Any, ...], int]]


def read_edits(edits: object, inputs: Mapping[str, Schema], ranges: Ranges) -> Changes:
    """Return the changes for `Run.step` that a list of edits describes.

    An edit is an object with `relation`, `weight` (1 inserts, -1 retracts) and `cells`: a text for
    each column, or null for nil. Of several edits of one row the last one counts.

    Raises:
        InputError: the edits have another form, or a cell does not fit its column.
    """
    if not isinstance(edits, list) or not edits:
        raise _refusal("expected a list of edited rows, got " + _shown(edits))
    if len(edits) > MOST_ROWS:
        raise _refusal(
            f"expected up to {MOST_ROWS:,} edited rows, got {len(edits):,}; apply them in several ticks"
        )
    changes: Changes = {}
    for number, edit in enumerate(edits, 1):
        place = f"edited row {number}"
        if not isinstance(edit, dict) or edit.get("weight") not in (1, -1):
            raise _refusal(f"{place}: expected a weight of 1 or -1, got {_shown(edit)}")
        relation, cells = edit.get("relation"), edit.get("cells")
        schema = inputs.get(relation) if isinstance(relation, str) else None
        if schema is None or not isinstance(relation, str):
            known = ", ".join(inputs) or "none"
            raise InputError(
                f"{place}: expected an input ({known}), got {_shown(relation)}", code="unknown-input"
            )
        row = _row(cells, schema, f"{place} of '{relation}'", ranges.get(relation, {}))
        rows = changes.setdefault(relation, {})
        rows.pop(row, None)  # the order of the mapping is that of the last edits
        rows[row] = int(edit["weight"])
    return changes


def editable(type_: Type) -> bool:
    """Return whether a cell of this type can be written as text."""
    return type_.structure is not None or type_.kind in CELLS


def _row(cells: object, schema: Schema, place: str, ranges: Mapping[str, IntRange]) -> tuple[Any, ...]:
    if not isinstance(cells, list) or len(cells) != schema.arity:
        got = counted(len(cells), "value") if isinstance(cells, list) else _shown(cells)
        raise InputError(
            f"{place}: expected {counted(schema.arity, 'value')} ({schema.describe()}), got {got}",
            code="wrong-arity",
        )
    return tuple(
        _value(type_, cell, f"{place}, column '{name}'", ranges.get(name))
        for name, type_, cell in zip(schema.names, schema.types, cells, strict=True)
    )


def _value(type_: Type, cell: object, place: str, range_: IntRange | None) -> Any:
    if cell is None and (type_.nullable or type_.structure is not None):
        return None
    if not isinstance(cell, str):
        raise InputError(f"{place}: expected a text, got {_shown(cell)}", code="wrong-type")
    if not editable(type_):
        raise InputError(
            f"{place}: a value of type {type_} cannot be written in the page; insert the row with run.step",
            code="wrong-type",
        )
    try:
        cell.encode()
        value = in_range(range_, value_of, type_.required(), cell)
    except UnicodeEncodeError:
        raise InputError(f"{place}: expected UTF-8 text, got half a character", code="wrong-type") from None
    except ValueError as error:
        raise InputError(f"{place}: expected {error}, got {_shown(cell)}", code=code_of(error)) from None
    return value


def _shown(value: object) -> str:
    return "nothing" if value is None else shorten(value)


def _refusal(message: str) -> InputError:
    return InputError(message, code="invalid-change")
