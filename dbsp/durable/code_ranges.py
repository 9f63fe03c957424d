"""Check the codes of rows that were read from a file: each is the code of a value of its column."""

from __future__ import annotations

import numpy as np

from dbsp.data.decimals import LIMIT
from dbsp.data.distinct_codes import distinct_codes
from dbsp.data.interner import Interner
from dbsp.data.nested_values import list_elements, struct_columns, struct_layout
from dbsp.data.schema import Schema
from dbsp.data.timestamps import TIME_RANGES
from dbsp.data.types import NIL, Type
from dbsp.kernels.arrays import Codes
from dbsp.kernels.limits import INT64_MAX, INT64_MIN, NULL


def check_codes(rows: Codes, schema: Schema, interner: Interner) -> None:
    """Raise ValueError for a code that no value of the column has."""
    for place, (name, type_) in enumerate(zip(schema.names, schema.types, strict=True)):
        codes = rows[:, place]
        if type_.interned:
            outside = ~interner.has_ids(codes)
            if type_.kind == "record":
                outside &= codes != NIL
        else:
            low, high = _range(type_)
            outside = (codes < low) | (codes > high)
        if type_.nullable:
            outside &= codes != NULL
        if outside.any():
            code = int(codes[np.argmax(outside)])
            raise ValueError(f"column '{name}' of type {type_} has the code {code}")
        if type_.kind in ("list", "struct"):
            _check_parts(codes, type_, interner)


def _check_parts(codes: Codes, type_: Type, interner: Interner) -> None:
    """Raise ValueError unless the ids belong to lists or structs of the type."""
    present, _ = distinct_codes(codes[codes != NULL] if type_.nullable else codes)
    if type_.kind == "list":
        if not all(map(_is_list_of_codes, interner.decode_many(present))):
            raise ValueError(f"a value of type {type_} is not a list")
        columns = [list_elements(present, interner)[0]]
    else:
        if not interner.cells.has_layout(struct_layout(type_), present).all():
            raise ValueError(f"a value of type {type_} is not a struct")
        columns = struct_columns(type_, present, interner)
    for part, column in zip(type_.parts, columns, strict=True):
        check_codes(column[:, None], Schema((part.name or "element",), (part.type,)), interner)


def _is_list_of_codes(value: object) -> bool:
    return type(value) is tuple and all(
        type(code) is int and INT64_MIN <= code <= INT64_MAX for code in value
    )


def _range(type_: Type) -> tuple[int, int]:
    if type_.kind == "bool":
        return 0, 1
    if type_.kind in TIME_RANGES:
        return TIME_RANGES[type_.kind]
    if type_.kind == "decimal":
        return 1 - LIMIT, LIMIT - 1
    return INT64_MIN, INT64_MAX
