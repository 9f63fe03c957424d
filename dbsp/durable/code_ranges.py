"""Check the codes of rows that were read from a file: each is the code of a value of its column."""

from __future__ import annotations

import numpy as np

from dbsp.data.decimals import LIMIT
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.data.timestamps import TIME_RANGES
from dbsp.data.types import NIL, Type
from dbsp.kernels.arrays import Codes
from dbsp.kernels.limits import INT64_MAX, INT64_MIN, NULL


def check_codes(rows: Codes, schema: Schema, interner: Interner) -> None:
    """Raise ValueError for a code that no value of the column has."""
    for place, (name, type_) in enumerate(zip(schema.names, schema.types, strict=True)):
        codes = rows[:, place]
        low, high = _range(type_, len(interner))
        outside = (codes < low) | (codes > high)
        if type_.nullable:
            outside &= codes != NULL
        if outside.any():
            code = int(codes[np.argmax(outside)])
            raise ValueError(f"column '{name}' of type {type_} has the code {code}")


def _range(type_: Type, values: int) -> tuple[int, int]:
    if type_.interned:
        return (NIL if type_.kind == "record" else 0), values - 1
    if type_.kind == "bool":
        return 0, 1
    if type_.kind in TIME_RANGES:
        return TIME_RANGES[type_.kind]
    if type_.kind == "decimal":
        return 1 - LIMIT, LIMIT - 1
    return INT64_MIN, INT64_MAX
