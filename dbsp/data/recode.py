"""Conversion of codes from one schema and interner to another."""

from __future__ import annotations

import numpy as np

from dbsp.data.columns import decode_column, encode_column, float_codes
from dbsp.data.distinct_codes import distinct_codes
from dbsp.data.interner import Interner
from dbsp.data.plain_codes import NULL_AS_INT
from dbsp.data.schema import Schema
from dbsp.data.types import INT, NIL, Type
from dbsp.data.values import as_tuples
from dbsp.errors import DbspError, InputError, SchemaError, ValueOutOfRangeError, at_place, counted
from dbsp.kernels.arrays import Codes
from dbsp.kernels.limits import NULL


def recode_rows(
    rows: Codes, source: Schema, source_interner: Interner, target: Schema, interner: Interner
) -> Codes:
    """Return the code rows of the same values under `target` and its interner, int64[n, k].

    Columns match by position. Each distinct string or object is interned once. Returns `rows`
    itself if nothing changes. Raises SchemaError for another arity, InputError for a value that
    does not fit.
    """
    if source.arity != target.arity:
        raise SchemaError(
            f"expected {counted(target.arity, 'column')} ({target.describe()}), "
            f"got {source.arity} ({source.describe()})",
            code="schema-mismatch",
        )
    same_interner = source_interner is interner
    result = rows
    for j, (old, new) in enumerate(zip(source.types, target.types, strict=True)):
        if old == new and (same_interner or not new.interned):
            continue
        try:
            column = _recode(rows[:, j], old, source_interner, new, interner)
        except DbspError as error:
            raise at_place(error, f"column {target.names[j]!r}") from None
        if column is not None:
            if result is rows:
                result = rows.copy()
            result[:, j] = column
    return result


def _recode(codes: Codes, old: Type, source: Interner, new: Type, interner: Interner) -> Codes | None:
    """Return the column under the new type; None if its codes stay the same."""
    if old.nullable:
        null = codes == NULL
        if null.any():
            as_nil = not new.nullable and new.structure is not None and new.structure.is_record
            if not (new.nullable or as_nil):
                raise InputError(
                    f"expected {new}, got None; to allow None, declare the column optional",
                    code="missing-value",
                )
            present = _recode(codes[~null], old.required(), source, new, interner)
            if present is None:
                return None
            result = np.full(len(codes), NIL if as_nil else NULL, np.int64)
            result[~null] = present
            return result
    if (
        old.coding == new.coding
        and old.structure == new.structure
        and (source is interner or not new.interned)
    ):
        if new == INT.optional() and not old.nullable and (codes == NULL).any():
            raise ValueOutOfRangeError(NULL_AS_INT)
        return None
    if old.kind == "int" and new.kind == "float":
        return float_codes(codes.astype(np.float64))
    if {old.kind, new.kind} == {"int", "float"} or _is_unlike(old, new):
        raise InputError(f"expected a column of type {new}, got one of type {old}", code="schema-mismatch")
    distinct, inverse = distinct_codes(codes)
    values = decode_column(old.required(), distinct, source)
    if new.kind == "object" and old.kind in ("list", "struct"):
        values = list(map(as_tuples, values))  # a caller does not know the class of a struct
    return encode_column(new, values, interner)[inverse]


def _is_unlike(old: Type, new: Type) -> bool:
    """Return whether one is a list where the other is a struct, at any depth: both are tuples."""
    if {old.kind, new.kind} == {"list", "struct"}:
        return True
    if old.kind != new.kind or new.kind not in ("list", "struct"):
        return False
    types = {part.name: part.type for part in new.parts}
    return any(part.name in types and _is_unlike(part.type, types[part.name]) for part in old.parts)
