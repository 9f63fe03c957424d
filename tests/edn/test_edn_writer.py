"""Writing EDN: one line, several lines, values without EDN text."""

from __future__ import annotations

import datetime as dt
import enum
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp.edn import Char, EdnList, EdnMap, Keyword, Symbol, Tagged, read, write, write_pretty
from dbsp.edn.edn_writer import MAX_DEPTH
from dbsp.errors import EdnError
from tests.edn.edn_strategies import VALUES, same


class Point(NamedTuple):
    x: int
    y: int


class Size(enum.IntEnum):
    SMALL = 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "nil"),
        ([True, False], "[true false]"),
        (2**63 - 1, "9223372036854775807"),
        (2**63, "9223372036854775808N"),
        (-(2**63) - 1, "-9223372036854775809N"),
        (1e16, "1e+16"),
        (float("inf"), "##Inf"),
        (float("-inf"), "##-Inf"),
        (float("nan"), "##NaN"),
        (Decimal("1.50"), "1.50M"),
        (Fraction(-1, 2), "-1/2"),
        ('a"\\\n\t\r\x07\u2028é', '"a\\"\\\\\\n\\t\\r\\u0007\\u2028é"'),
        (Char("a"), "\\a"),
        (Char(" "), "\\space"),
        (Char("\x07"), "\\u0007"),
        (Char("😀"), "\\😀"),
        (Keyword("a/b"), ":a/b"),
        (Symbol("?x"), "?x"),
        ((1, EdnList([2, []])), "[1 (2 [])]"),
        ({Keyword("a"): 1, "b": {}}, '{:a 1, "b" {}}'),
        ({"b", "a"}, '#{"a" "b"}'),
        (frozenset({10, 9}), "#{10 9}"),
        (Tagged("p", (1,)), "#p [1]"),
        (UUID(int=1), '#uuid "00000000-0000-0000-0000-000000000001"'),
        (b"\x00\xff", '#bytes "AP8="'),
        (dt.datetime(2024, 1, 2, tzinfo=dt.UTC), '#inst "2024-01-02T00:00:00.000Z"'),
        (dt.datetime(2024, 1, 2, microsecond=1, tzinfo=dt.UTC), '#inst "2024-01-02T00:00:00.000001Z"'),
        (
            dt.datetime(2024, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=1))),
            '#inst "2024-01-01T23:00:00.000Z"',
        ),
        (Point(1, 2), "[1 2]"),
        (Size.SMALL, "1"),
    ],
)
def test_write(value: Any, text: str) -> None:
    assert write(value) == text


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (object, "expected a value of EDN, got <class 'object'> of type type, which EDN does not have"),
        ([1, {2: 1j}], "expected a value of EDN, got 1j of type complex, which EDN does not have; convert"),
        (dt.date(2024, 1, 1), "of type date, which EDN does not have"),
        (dt.datetime(2024, 1, 1), "which has no zone; add one: value.replace(tzinfo=UTC)"),
        (
            dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))),
            "which is outside the years 1 to 9999 in UTC",
        ),
        (Decimal("NaN"), "got Decimal('NaN') of type Decimal, which EDN does not have; use a float"),
        ("a\ud800", "which is half of a surrogate pair; correct the text"),
        (Char("\ud800"), "which is half of a surrogate pair; correct the text"),
        (10**5000, "got an int of 16610 bits of type int, which has more than 4300 digits"),
        (Fraction(1, 10**5000), "which has more than 4300 digits"),
    ],
    ids=range(10),
)
def test_values_without_edn_text(value: Any, message: str) -> None:
    with pytest.raises(EdnError) as caught:
        write(value)
    assert message in str(caught.value)
    assert caught.value.code == "edn-not-writable"
    with pytest.raises(EdnError):
        write_pretty([value])


@pytest.mark.parametrize(
    "wrap", [lambda v: [v], lambda v: {1: v}, lambda v: EdnList([v]), lambda v: Tagged("t", v)]
)
def test_values_that_are_too_deep(wrap: Any) -> None:
    value: Any = 0
    for _ in range(MAX_DEPTH):
        value = wrap(value)
    assert read(write(value)) is not None
    assert read(write_pretty(value, 10)) == read(write(value))
    for depth in (1, 10**5):
        for _ in range(depth):
            value = wrap(value)
        with pytest.raises(EdnError, match="expected at most 128 nested collections, got more") as caught:
            write(value)
        assert caught.value.code == "edn-depth"


def test_instants_count_no_level() -> None:
    value: Any = (dt.datetime(2024, 1, 1, tzinfo=dt.UTC), b"", UUID(int=0))
    for _ in range(MAX_DEPTH - 1):
        value = (value,)
    assert same(read(write(value)), value)


@given(VALUES, st.integers(1, 60))
def test_pretty_text_is_read_as_the_value(value: Any, width: int) -> None:
    assert same(read(write_pretty(value, width)), value)


@given(st.recursive(st.integers(0, 99), lambda inner: st.lists(inner, max_size=5), max_leaves=40))
def test_pretty_text_is_as_narrow_as_the_width(value: Any) -> None:
    assert max(map(len, write_pretty(value, 30).splitlines())) <= 30


def test_pretty_text() -> None:
    value = {
        Keyword("name"): "Ada",
        Keyword("numbers"): list(range(20)),
        Keyword("friends"): [{Keyword("id"): 1, Keyword("tags"): {Keyword("a"), Keyword("b")}}, EdnList([1])],
        Keyword("p"): Tagged("my/point", EdnMap({Keyword("x"): "a" * 10, Keyword("y"): "b" * 10})),
    }
    assert write_pretty(value, 32) == (
        '{:name "Ada"\n'
        " :numbers [0 1 2 3 4 5 6 7 8 9\n"
        "           10 11 12 13 14 15\n"
        "           16 17 18 19]\n"
        " :friends [{:id 1\n"
        "            :tags #{:a :b}}\n"
        "           (1)]\n"
        ' :p #my/point {:x "aaaaaaaaaa"\n'
        '               :y "bbbbbbbbbb"}}'
    )
    assert write_pretty([1, 2]) == "[1 2]"
