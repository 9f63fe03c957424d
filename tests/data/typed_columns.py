"""A strategy for the values of every type of column."""

from __future__ import annotations

import datetime as dt
import zoneinfo
from decimal import Decimal
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

from dbsp import Branch, Record
from dbsp.data import types
from dbsp.data.type_inference import as_type
from dbsp.data.types import Type

TEXTS = st.text("ab\0\n\x1f\ufdd0é\ud800", max_size=3)
INTS = st.integers(-3, 3) | st.sampled_from([2**63 - 1, -(2**63) + 1])
FLOATS = st.sampled_from([0.0, -0.0, 1.5, -1.5, float("nan"), float("inf"), float("-inf")])
ZONED = dt.datetime(2026, 3, 29, 1, 30, tzinfo=zoneinfo.ZoneInfo("Europe/Rome"))
TIMES = st.datetimes(dt.datetime(1960, 1, 1), dt.datetime(2030, 1, 1))
DECIMALS = st.sampled_from([Decimal("1.50"), Decimal("1.5"), Decimal("-0.25"), Decimal(0)])
OBJECTS = st.recursive(
    st.integers(-2, 2)
    | st.booleans()
    | FLOATS
    | TEXTS
    | st.binary(max_size=2)
    | st.sampled_from([2**70, -(2**70), Decimal("1.0"), Decimal("1.00"), Fraction(1, 3), 1j, ZONED])
    | st.sampled_from(
        [dt.date(2020, 1, 1), dt.timedelta(1), dt.time(1, 2), Branch("A", 1), Record((1, "a"))]
    ),
    lambda inner: st.lists(inner | st.none(), max_size=3).map(tuple) | st.frozensets(inner, max_size=2),
    max_leaves=5,
)
CHAINS = st.lists(TEXTS, max_size=4)


def chain(parts: list[Any]) -> Any:
    """Return nested pairs, the last one with nil."""
    made = None
    for part in parts:
        made = Record((part, made))
    return made


def _tree(depth: int) -> st.SearchStrategy[Any]:
    leaf = st.builds(lambda: Branch("Leaf"))
    if not depth:
        return leaf
    pair = st.none() | st.tuples(INTS, TEXTS).map(Record)
    return leaf | st.builds(lambda a, b, c: Branch("Node", a, b, c), _tree(depth - 1), pair, _tree(depth - 1))


STRUCT = types.struct_type({"a": types.STR, "b": types.INT.optional(), "c": types.list_type(types.STR)})
COLUMNS: dict[Type, st.SearchStrategy[Any]] = {
    types.INT: INTS,
    types.FLOAT: FLOATS,
    types.BOOL: st.booleans(),
    types.STR: TEXTS,
    types.BYTES: st.binary(max_size=3),
    types.DATE: st.dates(),
    types.TIME: st.times(),
    types.TIMESTAMP: TIMES,
    as_type("timestamptz(Europe/Rome)"): TIMES.map(lambda value: value.replace(tzinfo=dt.UTC)),
    types.DURATION: st.timedeltas(dt.timedelta(-5), dt.timedelta(5)),
    types.decimal_type(3): DECIMALS,
    types.OBJECT: OBJECTS,
    types.list_type(types.INT): st.lists(INTS, max_size=3).map(tuple),
    types.list_type(types.STR.optional()): st.lists(st.none() | TEXTS, max_size=3).map(tuple),
    types.list_type(STRUCT): st.lists(
        st.tuples(TEXTS, st.none() | INTS, st.lists(TEXTS, max_size=2).map(tuple)), max_size=2
    ).map(tuple),
    STRUCT: st.tuples(TEXTS, st.none() | INTS, st.lists(TEXTS, max_size=2).map(tuple)),
    as_type("@Chain = [head: str, tail: @Chain]"): CHAINS.map(chain),
    as_type(
        "@Tree = $Leaf{} | $Node{left: @Tree, value: @Pair, right: @Tree}; @Pair = [a: int, b: str]"
    ): _tree(2),
}
"""A strategy of values by type; the types that are not nullable."""


def values_of(type_: Type) -> st.SearchStrategy[Any]:
    """Return a strategy of the values of a type, None among them if it is nullable."""
    values = COLUMNS[type_.required()]
    if type_ == types.INT:
        return values | st.just(-(2**63))
    return st.none() | values if type_.nullable else values


TYPES = st.sampled_from([*COLUMNS, *(type_.optional() for type_ in COLUMNS)])
