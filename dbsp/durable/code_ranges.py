"""Check the codes of rows that were read from a file: each is the code of a value of its column."""

from __future__ import annotations

import datetime as dt

import numpy as np

from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.data.types import NIL, Type
from dbsp.kernels.arrays import Codes
from dbsp.kernels.limits import INT64_MAX, INT64_MIN, NULL

_EPOCH = dt.datetime(1970, 1, 1)
_DAYS = tuple((moment - _EPOCH).days for moment in (dt.datetime.min, dt.datetime.max))
_MICROSECOND = dt.timedelta(microseconds=1)
_MOMENTS = tuple((moment - _EPOCH) // _MICROSECOND for moment in (dt.datetime.min, dt.datetime.max))


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
    if type_.kind == "date":
        return _DAYS[0], _DAYS[1]
    if type_.kind == "timestamp":
        return _MOMENTS[0], _MOMENTS[1]
    return INT64_MIN, INT64_MAX
