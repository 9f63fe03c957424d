"""Reading EDN: every form, its value, and its place."""

from __future__ import annotations

import datetime as dt
import math
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dbsp.edn import (
    Char,
    EdnList,
    EdnMap,
    Form,
    Keyword,
    Symbol,
    Tagged,
    read,
    read_all,
    read_forms,
    read_stream,
    write,
)
from dbsp.edn.edn_writer import MAX_DEPTH
from dbsp.errors import ArgumentError, EdnError
from tests.edn.edn_strategies import TEXTS, VALUES, same

K, S = Keyword, Symbol


def utc(*parts: int) -> dt.datetime:
    return dt.datetime(*parts, tzinfo=dt.UTC)  # type: ignore[misc, arg-type]


FORMS: list[tuple[str, Any]] = [
    ("nil", None),
    ("true", True),
    ("false", False),
    ('""', ""),
    ('"a b;,[{"', "a b;,[{"),
    ('"two\nlines"', "two\nlines"),
    (r'"\t\r\n\\\"\b\f"', '\t\r\n\\"\b\f'),
    (r'"\u00e9\u20AC\101\0\377"', "é€A\0ÿ"),
    (r'"\1012"', "A2"),
    (r'"\ud83d\ude00"', "😀"),
    ('"😀"', "😀"),
    (r"\a", Char("a")),
    (r"\newline", Char("\n")),
    (r"\space", Char(" ")),
    (r"\tab", Char("\t")),
    (r"\return", Char("\r")),
    (r"\formfeed", Char("\f")),
    (r"\backspace", Char("\b")),
    (r"\u00e9", Char("é")),
    (r"\o101", Char("A")),
    (r"\u", Char("u")),
    (r"\o", Char("o")),
    (r"\\", Char("\\")),
    (r"\"", Char('"')),
    (r"\;", Char(";")),
    (r"\,", Char(",")),
    (r"\(", Char("(")),
    (r"\]", Char("]")),
    (r"\1", Char("1")),
    ("\\😀", Char("😀")),
    ("0", 0),
    ("-0", 0),
    ("42", 42),
    ("+7", 7),
    ("-7N", -7),
    ("0N", 0),
    (str(2**70), 2**70),
    (f"{2**70}N", 2**70),
    ("0.5", 0.5),
    ("-1.25", -1.25),
    ("1e3", 1000.0),
    ("1E-3", 0.001),
    ("+1.5e+3", 1500.0),
    ("1.50M", Decimal("1.50")),
    ("3M", Decimal(3)),
    ("-1.5e-20M", Decimal("-1.5e-20")),
    ("1e400M", Decimal("1e400")),
    ("1/2", Fraction(1, 2)),
    ("-4/6", Fraction(-2, 3)),
    ("4/2", Fraction(2)),
    ("##Inf", math.inf),
    ("##-Inf", -math.inf),
    *((text, S(text)) for text in ("/", "foo/bar", "?x", "$", "%", "...", ".", "-", "->", "+", "_", "..")),
    *((text, S(text)) for text in ("a.b/c-d", "<=", "not=", "x'", "a#", "a:b", "-a", ".-x", "*'", "&", "|a")),
    *((text, S(text)) for text in ("nil?", "truefalse", "N", "e5", "λ", "हिन्दी", "foo/->bar", "x1", "=/=")),
    *(
        (f":{text}", K(text))
        for text in ("a", "person/name", "a.b/c", "1", "2024/q1", "nil", "-1", "+", "a#", "λ")
    ),
    ("()", EdnList()),
    ("[]", ()),
    ("{}", EdnMap()),
    ("#{}", frozenset()),
    ("(1 :a)", EdnList([1, K("a")])),
    ("[1,2,,3]", (1, 2, 3)),
    ("[[] (()) [{}]]", ((), EdnList([EdnList()]), (EdnMap(),))),
    ("{:a 1, :b [2]}", EdnMap({K("a"): 1, K("b"): (2,)})),
    ("{[1] {#{2} 3}}", EdnMap({(1,): EdnMap({frozenset({2}): 3})})),
    ("#{1 :a}", frozenset({1, K("a")})),
    ('[a"b"c\\d(e)]', (S("a"), "b", S("c"), Char("d"), EdnList([S("e")]))),
    (
        '#:person{:name 1, :o/x 2, :_/y 3, sym 4, "t" 5, _/z 6}',
        EdnMap({K("person/name"): 1, K("o/x"): 2, K("y"): 3, S("person/sym"): 4, "t": 5, S("z"): 6}),
    ),
    ("#:a {}", EdnMap()),
    ("#:a #_ 1 {:b #:c{:d 2}}", EdnMap({K("a/b"): EdnMap({K("c/d"): 2})})),
    ("; comment\n1 ; another", 1),
    (";;;\n;\n 1", 1),
    ("\ufeff1", 1),
    ("1 #_ 2", 1),
    ("#_1 2", 2),
    ("#_ #_ 1 2 3", 3),
    ("#_#_#_1 2 3 4", 4),
    ("[1 #_ 2]", (1,)),
    ("[#_ [1 #_ 2 {3 4}]]", ()),
    ("{:a #_ 1 2 #_ :b}", EdnMap({K("a"): 2})),
    ("#_ #foo bar 1", 1),
    ("#foo #_ 1 2", Tagged("foo", 2)),
    ("#_foo 1", 1),
    ("#point [1 2]", Tagged("point", (1, 2))),
    ("#my.app/point{:x 1}", Tagged("my.app/point", EdnMap({K("x"): 1}))),
    ("#a #b 1", Tagged("a", Tagged("b", 1))),
    ("#db/id[:db.part/user -1]", Tagged("db/id", (K("db.part/user"), -1))),
    (r'#"\d+\"[a]"', Tagged("regex", r"\d+\"[a]")),
    (r'#regex "\\d+"', Tagged("regex", r"\d+")),
    ('#bytes "AP8="', b"\0\xff"),
    ('#uuid "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"', UUID("f81d4fae-7dec-11d0-a765-00a0c91e6bf6")),
    ('#inst "2024"', utc(2024, 1, 1)),
    ('#inst "2024-02"', utc(2024, 2, 1)),
    ('#inst "2024-02-29"', utc(2024, 2, 29)),
    ('#inst "2024-02-29T10"', utc(2024, 2, 29, 10)),
    ('#inst "2024-02-29T10:20"', utc(2024, 2, 29, 10, 20)),
    ('#inst "2024-02-29T10:20:30"', utc(2024, 2, 29, 10, 20, 30)),
    ('#inst "2024-02-29T10:20:30Z"', utc(2024, 2, 29, 10, 20, 30)),
    ('#inst "2024-02-29T10:20:30.5Z"', utc(2024, 2, 29, 10, 20, 30, 500000)),
    ('#inst "2024-02-29T10:20:30.123456-00:00"', utc(2024, 2, 29, 10, 20, 30, 123456)),
    ('#inst "2024-02-29T10:20:30.123456000+01:30"', utc(2024, 2, 29, 8, 50, 30, 123456)),
    ('#inst "1985-04-12t23:20:50.52z"', utc(1985, 4, 12, 23, 20, 50, 520000)),
    ('#inst "2024-01-01T00:00:00-02:00"', utc(2024, 1, 1, 2)),
]


@pytest.mark.parametrize(("text", "value"), FORMS, ids=[text for text, _ in FORMS])
def test_every_form(text: str, value: Any) -> None:
    assert same(read(text), value)
    assert same(read_forms(text)[0].value, value)


def test_nan() -> None:
    assert math.isnan(read("##NaN"))


def test_zero_keeps_its_sign_in_a_float() -> None:
    assert math.copysign(1, read("-0.0")) == -1


def test_read_all_returns_every_value() -> None:
    assert read_all("") == read_all(" ;x\n,") == read_all("#_ 1") == []
    assert read_all("1 [2](3)") == [1, (2,), EdnList([3])]


def test_a_repeated_token_has_the_same_value() -> None:
    values = read_all("1 1.0 1M 1N true :a :a a a \\a \\a 1 1.0 true")
    assert [type(value).__name__ for value in values[:5]] == ["int", "float", "Decimal", "int", "bool"]
    assert values[5] is values[6] and values[7] is values[8]
    assert [type(value).__name__ for value in values[11:]] == ["int", "float", "bool"]


@given(VALUES)
def test_reading_what_was_written_returns_the_value(value: Any) -> None:
    text = write(value)
    assert "\n" not in text
    assert same(read(text), value)
    (form,) = read_forms(text)
    assert same(form.value, value)
    assert len(text.splitlines()) == 1


def outcome(text: str) -> tuple[list[Any], str]:
    """The values of a text, or its error."""
    try:
        return read_all(text), ""
    except EdnError as error:
        return [], str(error)


@given(TEXTS)
@example("[" * 1000)
@example("#_" * 1000)
@example('"\\')
@example("#:a{_/nil 1}")
@example("\\u \\ud800")
@example("1e99999999999999999999M")
def test_any_text_is_read_or_an_edn_error(text: str) -> None:
    values, message = outcome(text)
    if message:
        assert message.startswith("<edn>:") and "error: " in message
        with pytest.raises(EdnError):
            list(read_stream(text.splitlines(keepends=True)))
        return
    forms = read_forms(text)
    assert repr([form.value for form in forms]) == repr(values)
    lines = [f"{line}\n" for line in text.split("\n")]
    streamed = list(read_stream(lines))
    assert repr([form.value for form in streamed]) == repr(values)
    assert all_spans(streamed) == all_spans(forms)
    assert repr([read(write(value)) for value in values]) == repr(values)


def all_spans(forms: Any) -> list[str]:
    """The places of forms and of all their elements."""
    return [
        place
        for form in forms
        for place in (
            f"{form.span}-{form.span.end_line}:{form.span.end_column} {type(form.value)}",
            *all_spans(form.items),
        )
    ]


def slice_of(text: str, form: Form) -> str:
    """The text at the place of a form, from its lines and columns."""
    span = form.span
    lines = [f"{line}\n" for line in text.split("\n")]
    start = sum(map(len, lines[: span.line - 1])) + span.column - 1
    end = sum(map(len, lines[: span.end_line - 1])) + span.end_column - 1
    return text[start:end]


@given(st.lists(VALUES, min_size=1, max_size=3), st.sampled_from([" ", "\n", " ; c\n", "\n\n #_ x,"]))
def test_the_text_at_the_place_of_a_form_is_its_value(values: list[Any], between: str) -> None:
    text = between + between.join(map(write, values))

    def check(form: Form) -> None:
        assert same(read(slice_of(text, form)), form.value)
        for item in form.items:
            check(item)

    forms = read_forms(text)
    assert len(forms) == len(values)
    for form in forms:
        check(form)


def test_elements_keep_their_places() -> None:
    text = '[:find ?x ; why\n :where [?x :name "a\nb"]\n #{1 (2)} #p {:a\n 1}]'
    (form,) = read_forms(text, "q.edn")
    assert form.kind == "vector"
    assert [str(item.span) for item in form.items] == [
        "q.edn:1:2", "q.edn:1:8", "q.edn:2:2", "q.edn:2:9", "q.edn:4:2", "q.edn:4:11",
    ]  # fmt: skip
    assert [item.kind for item in form.items[3:]] == ["vector", "set", "tagged"]
    assert [slice_of(text, item) for item in form.items[3].items] == ["?x", ":name", '"a\nb"']
    assert [item.value for item in form.items[4].items] == [1, EdnList([2])]
    (tagged,) = form.items[5].items
    assert [(key.value, str(value.span)) for key, value in tagged.pairs()] == [(K("a"), "q.edn:5:2")]


def test_namespaced_maps_have_forms_with_qualified_keys() -> None:
    (form,) = read_forms("#:a{:b 1 :c/d 2}")
    assert form.value == EdnMap({K("a/b"): 1, K("c/d"): 2})
    assert [(item.value, str(item.span)) for item in form.items[:3:2]] == [
        (K("a/b"), "<edn>:1:5"),
        (K("c/d"), "<edn>:1:10"),
    ]
    assert str(form.span) == "<edn>:1:1"


def test_a_form_makes_messages_about_its_place() -> None:
    (form,) = read_forms("[1\n  (bad 2)]", "tx.edn")
    error = form.items[1].items[0].error("unknown function bad", code="edn-token", hint="say good", note="n")
    assert str(error) == (
        "tx.edn:2:4: error: unknown function bad [edn-token]\n      (bad 2)]\n       ^^^\n"
        "    hint: say good\n    note: n"
    )
    assert (error.code, error.where, error.message) == ("edn-token", "tx.edn:2:4", "unknown function bad")
    assert repr(form.items[0]) == "Form(1 at tx.edn:1:2)"


def test_a_stream_yields_each_form_after_its_last_line() -> None:
    read_lines = []

    def lines() -> Any:
        for line in ["{:a 1} [2\n", "] 3\n", "\n", '("x\n', "\\\n", 'y" 4)\n', "#foo\n", "; c\n", " bar"]:
            read_lines.append(line)
            yield line

    stream = read_stream(lines(), "s.edn")
    assert [(next(stream).value, len(read_lines)) for _ in range(2)] == [(EdnMap({K("a"): 1}), 1), ((2,), 2)]
    assert next(stream).value == 3
    with pytest.raises(EdnError, match=r"s\.edn:5:1: error: unknown escape at the end of a line"):
        next(stream)


def test_a_stream_has_places_of_the_whole_file() -> None:
    lines = ["1\n", '[2 "a\n', 'b" 3\n', "\n", "4] #t\n", "x :k\n"]
    forms = list(read_stream(lines, "s.edn"))
    assert all_spans(forms) == all_spans(read_forms("".join(lines), "s.edn"))
    assert [str(form.span) for form in forms] == ["s.edn:1:1", "s.edn:2:1", "s.edn:5:4", "s.edn:6:3"]
    assert [form.value for form in read_stream([line.rstrip("\n") for line in lines])] == [
        form.value for form in forms
    ]


def test_a_stream_yields_the_forms_before_an_error() -> None:
    stream = read_stream(["1 2 ] 3\n"], "s.edn")
    assert [next(stream).value, next(stream).value] == [1, 2]
    with pytest.raises(EdnError, match=r"s\.edn:1:5: error: \] closes nothing"):
        next(stream)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["1\n", "[2\n", "3"], "s.edn:2:1: error: the vector that starts here does not end"),
        (["1\n", 'a "b\n', "c\n"], "s.edn:2:3: error: the string does not end"),
        (["1\n", '(#"b\n', "c\n"], "s.edn:2:2: error: the regular expression does not end"),
        (["#foo\n", "\n"], "s.edn:1:1: error: expected a value after #foo, got the end of the text"),
    ],
)
def test_a_stream_that_ends_too_early(lines: list[str], message: str) -> None:
    with pytest.raises(EdnError) as caught:
        list(read_stream(lines, "s.edn"))
    assert str(caught.value).startswith(message)


def test_a_long_string_in_a_stream_takes_linear_time() -> None:
    count = 20_000
    lines = ['"\n', *['quote \\" line\n'] * count, '"\n']
    (form,) = read_stream(lines)
    assert form.value == "\n" + 'quote " line\n' * count


def test_a_stream_of_one_str_is_refused() -> None:
    with pytest.raises(ArgumentError, match="lines: expected lines, such as an open file"):
        list(read_stream("[1]"))
    with pytest.raises(ArgumentError, match="text: expected a str of EDN, got b'1'"):
        read(b"1")  # type: ignore[arg-type]


BRACKETS = [("[", "]"), ("(", ")"), ("#{", "}"), ("{1 ", "}"), ("{", " 1}"), ("#t ", ""), ("#_ ", "")]


@pytest.mark.parametrize(("opener", "closer"), BRACKETS[:-1])
def test_the_deepest_values_can_be_used_in_every_way(opener: str, closer: str) -> None:
    text = opener * MAX_DEPTH + "0" + closer * MAX_DEPTH
    value = read(text)
    assert hash(value) == hash(read(text))
    assert value == read(text)
    assert read(write(value)) == value
    assert repr(value)
    assert read_forms(text)[0].value == value


@pytest.mark.parametrize(("opener", "closer"), BRACKETS[:-1])
@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 10**6])
def test_deeper_values_are_refused(opener: str, closer: str, depth: int) -> None:
    column = MAX_DEPTH * len(opener) + 1
    with pytest.raises(EdnError, match=rf"^<edn>:1:{column}: error: expected at most 128 nested") as caught:
        read(opener * depth + "0" + closer * depth)
    assert caught.value.code == "edn-depth"
    with pytest.raises(EdnError, match="expected at most 128"):
        read(opener * depth)


def test_neighbours_are_not_nested() -> None:
    assert len(read("[" + '[] (1) #t 2 #t [3] #inst "2024" #:a{} #_ [4] ' * MAX_DEPTH + "]")) == 6 * MAX_DEPTH


def test_many_discards() -> None:
    count = 10**5
    assert read_all("#_ " * count + "1 " * count + "2") == [2]


@pytest.mark.parametrize(
    "text", [" " * 10**6, "," * 10**6 + "1", ";" * 10**6, "; \n" * 10**5, '"' + "\\\\" * 10**6]
)
def test_long_texts_take_linear_time(text: str) -> None:
    outcome(text)


def test_reading_loads_no_large_library() -> None:
    code = (
        "import sys, dbsp.edn; print([m for m in ('numpy', 'lark', 'numba', 'networkx') if m in sys.modules])"
    )
    bare = "import sys, dbsp; print([m for m in ('numpy', 'lark', 'numba', 'networkx') if m in sys.modules])"
    loaded = [
        subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout
        for text in (code, bare)
    ]
    assert loaded[0] == loaded[1]
