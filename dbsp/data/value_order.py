"""The order of values: None first, then the order of Python, which ids of strings do not have."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np

from dbsp.data.distinct_codes import distinct_codes
from dbsp.data.interner import Interner
from dbsp.data.key_order import key_order
from dbsp.data.nested_values import list_keys, struct_columns
from dbsp.data.schema import Schema
from dbsp.data.term_order import rank_terms
from dbsp.data.timestamps import EPOCH
from dbsp.data.types import Type
from dbsp.errors import full_repr
from dbsp.kernels.arrays import Codes
from dbsp.kernels.limits import NULL


def order_key(value: Any) -> tuple[Any, ...]:
    """Return a sort key that orders all values of an object column, also of different classes.

    None is first, then numbers (NaN last), then the other values by the name of their class; tuples
    compare element by element, values of classes without an order by their `repr`. Booleans are not
    numbers here.
    """
    if value is None:
        return ("",)
    cls = type(value)
    if cls is int or cls is float:
        return (" number", value != value, value if value == value else 0, cls.__name__)
    if cls is bool or cls is str or cls is bytes or cls is dt.date or cls is dt.timedelta:
        return (cls.__name__, value)
    if cls is Decimal:
        return (cls.__name__, not value.is_finite(), value if value.is_finite() else str(value))
    if isinstance(value, tuple):
        return ("tuple", tuple(map(order_key, value)), cls.__name__)
    if cls is dt.datetime:
        offset = value.utcoffset() or dt.timedelta(0)
        return (cls.__name__, value.replace(tzinfo=None) - EPOCH - offset, value.tzinfo is not None)
    if cls is dt.time and value.tzinfo is None:
        return (cls.__name__, "", value)
    if isinstance(value, frozenset):
        return (cls.__name__, tuple(sorted(map(order_key, value))))
    return (cls.__name__, full_repr(value), 0)


def rank_codes(type_: Type, codes: Codes, interner: Interner) -> Codes:
    """Return numbers that compare like the values of a column: the codes if they are ordered.

    Ranks of interned types are comparable within one call only. O(n + d log d) for d distinct
    values.
    """
    if type_.ordered_codes:
        return codes
    if type_.structure is not None:
        ranks = rank_terms(
            type_.structure, codes, interner, lambda inner, part: rank_codes(inner, part, interner)
        )
        return np.where(codes == NULL, -1, ranks)
    distinct, inverse = distinct_codes(codes)
    if type_.kind == "struct":
        # Field by field, so the order is that of the types of the fields.
        present = distinct[distinct != NULL]
        fields = struct_columns(type_, present, interner)
        keys = [rank_codes(part.type, c, interner) for part, c in zip(type_.parts, fields, strict=True)]
        ranks = np.full(len(distinct), -1, np.int64)
        places = np.empty(len(present), np.int64)
        places[key_order(keys)] = np.arange(len(present))
        ranks[len(distinct) - len(present) :] = places
        return ranks[inverse]
    first = 1 if len(distinct) and distinct[0] == NULL else 0  # None stays first
    if type_.kind == "list":
        values = list_keys(type_, distinct[first:], interner, rank_codes)
    else:
        values = interner.decode_many(distinct[first:])
    if type_.kind == "object":
        values = list(map(order_key, values))
    ranks = np.zeros(len(distinct), np.int64)
    ranks[np.array(sorted(range(len(values)), key=values.__getitem__), np.int64) + first] = (
        np.arange(len(values)) + first
    )
    return ranks[inverse]


def value_order(schema: Schema, rows: Codes, interner: Interner) -> Codes | None:
    """Return the permutation that sorts code rows by value;

    None if sorted codes are in that order.
    """
    if all(type_.ordered_codes for type_ in schema.types):
        return None
    ranks = [rank_codes(type_, rows[:, j], interner) for j, type_ in enumerate(schema.types)]
    return key_order(ranks)
