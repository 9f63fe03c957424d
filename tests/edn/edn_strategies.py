"""Generators of EDN values and of texts that resemble EDN."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from dbsp.edn import Char, EdnList, EdnMap, Keyword, Symbol, Tagged, write

_NAME_START = "abcxyzÄλ?$%&*=<>!_|"
_NAME_REST = _NAME_START + "0123456789.+-'#:"
_PART = st.builds(str.__add__, st.sampled_from(_NAME_START), st.text(_NAME_REST, max_size=5))
_NAME = st.one_of(_PART, st.builds("{}/{}".format, _PART, _PART))
SYMBOLS = st.one_of(st.sampled_from(["/", "-", "->", "...", ".", "+", "-a", "+.a"]), _NAME).map(Symbol)
KEYWORDS = st.one_of(_NAME, st.sampled_from(["1", "a/1", "-1", "nil", "true/false"])).map(Keyword)
TAGS = st.sampled_from(["my/point", "point", "db/id", "λ.x/y"]).map(Symbol)
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_ZONES = st.integers(-1439, 1439).map(lambda minutes: dt.timezone(dt.timedelta(minutes=minutes)))
_ATOMS: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(10**40), 10**40),
    st.floats(allow_nan=False),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.decimals(allow_nan=False, allow_infinity=False, places=3),
    st.fractions(),
    _TEXT,
    st.characters(exclude_categories=["Cs"]).map(Char),
    KEYWORDS,
    SYMBOLS,
    st.uuids(),
    st.binary(max_size=8),
    st.datetimes(dt.datetime(2, 1, 1), dt.datetime(9998, 1, 1), timezones=_ZONES),
    st.sampled_from([Decimal("-0"), Decimal("1E+30"), Decimal("1E-30"), -0.0, 1e22, 5e-324]),
)
ATOMS = st.deferred(lambda: _ATOMS)  # whose repr is short


def _collections(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    items = st.lists(inner, max_size=4)
    return st.one_of(
        items.map(tuple),
        items.map(EdnList),
        items.map(frozenset),
        st.dictionaries(inner, inner, max_size=4).map(EdnMap),
        st.builds(Tagged, TAGS, inner),
    )


VALUES = st.recursive(ATOMS, _collections, max_leaves=15)

# Pieces that occur in EDN, so that random texts reach every part of the reader.
_PIECES = [
    *"()[]{}#\"\\;,:/'@^`~_+-.?$%0179aeEMNu\n\t \ufeffλ\u0301\u2028\x00😀",
    *[
        "#{",
        "#_",
        "##Inf",
        "##",
        "#:a",
        "#:a{",
        "#inst",
        "#uuid",
        "#bytes",
        "#a/b",
        '#"',
        "\\u00e9",
        "\\newline",
    ],
    *['"2024-01-31"', '"a\\n"', '"\\ud83d\\ude00"', '"\\ud83d"', ":a", ":a/b", "::a", "nil", "1/2", "1/0"],
    *["0.5e10", "1e999", "1M", "2N", "[:find ?x]", "{:a 1}", "\\o101", "\\o777", "-0", "007", "\r\n"],
]
TEXTS = st.one_of(
    st.lists(st.sampled_from(_PIECES), max_size=25).map("".join),
    st.lists(st.sampled_from(_PIECES), max_size=25).map(" ".join),
    st.text(max_size=30),
)


def same(left: Any, right: Any) -> bool:
    """Whether two values are equal, with equal classes in every part."""
    if type(left) is not type(right):
        return False
    if isinstance(left, tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, frozenset):
        return left == right and sorted(map(write, left)) == sorted(map(write, right))
    if isinstance(left, dict):
        pairs = zip(left.items(), right.items(), strict=True)
        return len(left) == len(right) and all(same(a, c) and same(b, d) for (a, b), (c, d) in pairs)
    if isinstance(left, Tagged):
        return left.tag is right.tag and same(left.value, right.value)
    if isinstance(left, float | Decimal):
        return repr(left) == repr(right)
    return bool(left == right)
