"""EDN values as JSON and back."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dbsp.edn import (
    Char,
    EdnList,
    EdnMap,
    Keyword,
    Symbol,
    Tagged,
    from_json,
    read,
    read_json_lines,
    to_json,
)
from dbsp.edn.edn_writer import MAX_DEPTH
from dbsp.errors import ArgumentError, EdnError
from tests.edn.edn_strategies import VALUES, same

K = Keyword

PAIRS: list[tuple[str, Any]] = [
    ("null", None),
    ("true", True),
    ("12", 12),
    (str(2**80), 2**80),
    ("1.0", 1.0),
    ('"Ada"', "Ada"),
    ('""', ""),
    ('"#inst"', "#inst"),
    ('":person/name"', K("person/name")),
    ('{"#string": ":)"}', ":)"),
    ('{"#symbol": "?x"}', Symbol("?x")),
    ('{"#char": "a"}', Char("a")),
    ('{"#char": ":"}', Char(":")),
    ('{"#decimal": "1.50"}', Decimal("1.50")),
    ('{"#ratio": "2/3"}', Fraction(2, 3)),
    ('{"#float": "Inf"}', math.inf),
    ('{"#float": "-Inf"}', -math.inf),
    ("[]", ()),
    ('[1, [":a"]]', (1, (K("a"),))),
    ('{"#list": [1]}', EdnList([1])),
    ('{"#set": [1, 2]}', frozenset({1, 2})),
    ("{}", EdnMap()),
    ('{":db/id": -1, ":a": [1]}', EdnMap({K("db/id"): -1, K("a"): (1,)})),
    ('{"#map": [["a", 1], [2, 3]]}', EdnMap({"a": 1, 2: 3})),
    ('{"#inst": "2024-01-31T00:00:00.000Z"}', read('#inst "2024-01-31"')),
    (
        '{"#uuid": "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"}',
        read('#uuid "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"'),
    ),
    ('{"#bytes": "AP8="}', b"\0\xff"),
    ('{"#my/point": [1, 2]}', Tagged("my/point", (1, 2))),
    ('{"#tag": ["set", [1]]}', Tagged("set", (1,))),
    ('{"#tag": ["tag", 1]}', Tagged("tag", 1)),
]


@pytest.mark.parametrize(("text", "value"), PAIRS, ids=[text[:30] for text, _ in PAIRS])
def test_both_directions(text: str, value: Any) -> None:
    assert same(from_json(text), value)
    assert to_json(value) == text


def test_nan() -> None:
    assert math.isnan(from_json('{"#float": "NaN"}')) and to_json(math.nan) == '{"#float": "NaN"}'


def test_names_of_members_may_omit_the_colon() -> None:
    assert from_json('{"person/name": 1, ":b": {"#inst": "2024"}}') == {
        K("person/name"): 1,
        K("b"): read('#inst "2024"'),
    }


class Datom(NamedTuple):
    e: int
    a: Keyword
    v: Any


def test_datoms_are_arrays() -> None:
    assert to_json(Datom(1, K("name"), "Ada")) == '[1, ":name", "Ada"]'


@given(VALUES)
def test_reading_what_was_written_returns_the_value(value: Any) -> None:
    text = to_json(value)
    assert len(text.splitlines()) == 1
    json.loads(text)
    assert same(from_json(text), value)
    (form,) = read_json_lines([f" {text} \n"])
    assert same(form.value, value)


_MARKS = ["#set", "#list", "#map", "#tag", "#inst", "#uuid", "#bytes", "#string", "#char", "#float", "#ratio"]
_NAMES = st.sampled_from(
    [*_MARKS, "#decimal", "#symbol", "#a/b", "#:a", "#", "#_", "##Inf", ":a", "a", "a b", ""]
)
_TEXTS = st.one_of(
    _NAMES, st.sampled_from(["1/2", "1/0", "NaN", "set", ":x y", "2024", "\ud800", "nil"]), st.text()
)
_JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), _TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_NAMES, inner, max_size=2)),
    max_leaves=12,
)


@given(_JSON.map(json.dumps) | st.text('[]{}",:0123456789.eE-#abn\\u ', max_size=20))
@example('{"#tag": ["inst", "2024"]}')
@example('{"#tag": [":a", {}]}')
@example('{"#symbol": ""}')
@example("1" * 5000)
def test_any_json_is_read_or_an_edn_error(text: str) -> None:
    try:
        value = from_json(text)
    except EdnError as error:
        assert str(error).startswith("<json>:")
        return
    assert repr(from_json(to_json(value))) == repr(value)


ERRORS = [
    ("[1, 2", "invalid-json", "1:6", "invalid JSON: Expecting ',' delimiter", None),
    ('{"a": 1,\n b}', "invalid-json", "2:2", "invalid JSON: Expecting property name", None),
    ("", "invalid-json", "1:1", "invalid JSON: Expecting value", None),
    ("[NaN]", "invalid-json", "1:1", "expected JSON, got NaN", 'write {"#float": "NaN"}'),
    ("-Infinity", "invalid-json", "1:1", "expected JSON, got -Infinity", 'write {"#float": "-Inf"}'),
    ("1e999", "edn-number", "1:1", "the number 1e999 is outside the range of a float", None),
    ("1" * 4301, "edn-number", "1:1", "expected a number of at most 4300 digits", None),
    ('[":a b"]', "edn-token", "1:1", "expected a keyword, got ':a b'", '{"#string": ":..."}'),
    ('{"a b": 1}', "edn-token", "1:1", "expected a keyword as name of a member, got 'a b'", '{"#map": ['),
    ('{"#set": [1], "b": 1}', "edn-token", "1:1", "got '#set'", '{"#map": ['),
    ('{"a": 1, ":a": 2}', "edn-duplicate", "1:1", "duplicate key :a", None),
    ('{"#set": [1, true]}', "edn-duplicate", "1:1", "the elements 1 and true are equal", "Python compares"),
    ('"\\ud800"', "edn-escape", "1:1", "has half of a surrogate pair", None),
    ('{"#set": 1}', "edn-tag", "1:1", "expected an array after #set, got 1", None),
    ('{"#list": {"a": 1}}', "edn-tag", "1:1", 'expected an array after #list, got [["a", 1]]', None),
    (
        '{"#map": [[1]]}',
        "edn-tag",
        "1:1",
        "expected an array of arrays [key, value] after #map, got [[1]]",
        None,
    ),
    (
        '{"#tag": [1, 2]}',
        "edn-tag",
        "1:1",
        "expected an array of a tag and a value after #tag, got [1, 2]",
        None,
    ),
    ('{"#symbol": "a b"}', "edn-tag", "1:1", "expected the text of a symbol", None),
    ('{"#symbol": "1"}', "edn-tag", "1:1", "expected the text of a symbol", None),
    ('{"#char": "ab"}', "edn-tag", "1:1", 'expected a text of one character after #char, got "ab"', None),
    ('{"#decimal": 1.5}', "edn-tag", "1:1", 'expected a text such as "1.50" after #decimal, got 1.5', None),
    ('{"#decimal": "x"}', "edn-tag", "1:1", 'expected a text such as "1.50" after #decimal, got "x"', None),
    ('{"#ratio": "1/0"}', "edn-tag", "1:1", 'expected a text such as "2/3" after #ratio, got "1/0"', None),
    ('{"#float": "1"}', "edn-tag", "1:1", 'expected "Inf", "-Inf" or "NaN" after #float, got "1"', None),
    ('{"#string": 1}', "edn-tag", "1:1", "expected a text after #string, got 1", None),
    ('{"#inst": "soon"}', "edn-tag", "1:1", 'after #inst, got "soon"', None),
    ('{"#": 1}', "edn-tag", "1:1", "expected a tag, got '#'", "starts with a letter"),
    ('{"#:a": {}}', "edn-tag", "1:1", "expected a tag, got '#:a'", "namespace in front of each name"),
]


@pytest.mark.parametrize(
    ("text", "code", "place", "message", "hint"), ERRORS, ids=[case[0][:30] for case in ERRORS]
)
def test_errors(text: str, code: str, place: str, message: str, hint: str | None) -> None:
    with pytest.raises(EdnError) as caught:
        from_json(text, "f.json")
    rendered = str(caught.value)
    assert caught.value.code == code
    assert rendered.startswith(f"f.json:{place}: error: ")
    assert message in rendered
    assert (hint is None) == ("hint:" not in rendered)
    assert hint is None or hint in rendered


@pytest.mark.parametrize(
    ("opener", "closer"),
    [
        ("[", "]"),
        ('{"a":', "}"),
        ('{"#set":[', "]}"),
        ('{"#t":', "}"),
        ('{"#map":[[1,', "]]}"),
        ('{"#list":[', "]}"),
    ],
)
def test_depth(opener: str, closer: str) -> None:
    def text(depth: int) -> str:
        return opener * depth + "0" + closer * depth

    value = from_json(text(MAX_DEPTH))
    assert same(from_json(to_json(value)), value)
    for depth in (MAX_DEPTH + 1, 10**5):
        with pytest.raises(EdnError, match="expected at most 128 nested collections, got more") as caught:
            from_json(text(depth))
        assert caught.value.code == "edn-depth"
    with pytest.raises(EdnError, match="expected at most 128 nested") as caught:
        to_json([value])
    assert caught.value.code == "edn-depth"


def test_values_without_json() -> None:
    for value in (object(), [1j], float, "\ud800", Decimal("NaN")):
        with pytest.raises(EdnError) as caught:
            to_json(value)
        assert caught.value.code == "edn-not-writable"


def test_lines_are_forms_with_the_place_of_the_line() -> None:
    lines = ['{":a": [1, {"#set": [2]}]}\n', "\n", '  ":b"\n', "[1"]
    stream = read_json_lines(lines, "tx.jsonl")
    first, second = next(stream), next(stream)
    assert first.value == {K("a"): (1, frozenset({2}))} and second.value == K("b")
    assert [str(form.span) for form in (first, *first.items, *first.items[1].items)] == ["tx.jsonl:1:1"] * 5
    assert (str(second.span), second.span.end_column) == ("tx.jsonl:3:3", 7)
    assert str(second.error("no", code="edn-token")).split("\n")[1:] == ['      ":b"', "      ^^^^"]
    with pytest.raises(EdnError, match=r"tx\.jsonl:4:3: error: invalid JSON"):
        next(stream)


def test_separators_of_lines_are_escaped() -> None:
    text = to_json("a\u2028b\x85c\né")
    assert text == '"a\\u2028b\\u0085c\\né"'
    assert from_json(text) == "a\u2028b\x85c\né"


def test_wrong_arguments() -> None:
    with pytest.raises(ArgumentError, match="text: expected a str of JSON, got 1"):
        from_json(1)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="lines: expected lines, such as an open file"):
        list(read_json_lines("[1]"))
