"""Functions that cut, replace, pad, split and search strings, against plain Python."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbsp import Circuit, col, lit
from dbsp.data.schema import Schema
from dbsp.errors import EvaluationError, SchemaError, ValueOutOfRangeError
from dbsp.expressions import Expression, bind, call
from tests.expressions.agreement import agree
from tests.profiles import examples

SCHEMA = Schema.of(s=str | None, a=str, b=str, n=int)
TEXTS = st.text(" aAß1-.\n", max_size=6)
ROWS = st.tuples(st.none() | TEXTS, TEXTS, st.text("a1-.", max_size=2), st.integers(-2, 9))
S, A, B, N = col("s"), col("a"), col("b"), col("n")


def reference(pattern: str, group: int) -> Any:
    def meaning(s: str | None, *_: Any) -> str | None:
        match = None if s is None else re.search(pattern, s)
        return match.group(group) if match else None

    return meaning


def padded(text: str | None, width: int, fill: str, start: bool) -> Any:
    if text is None:
        return None
    if len(fill) != 1:
        return EvaluationError
    missing = fill * max(0, width - len(text))
    return missing + text if start else text + missing


MEANINGS: dict[str, tuple[Expression, Any]] = {
    "strip": (S.str.strip(), lambda s, a, b, n: s if s is None else s.strip()),
    "lstrip": (S.str.lstrip(), lambda s, a, b, n: s if s is None else s.lstrip()),
    "rstrip": (S.str.rstrip(), lambda s, a, b, n: s if s is None else s.rstrip()),
    "strip b": (S.str.strip(B), lambda s, a, b, n: s if s is None else s.strip(b) if b else s),
    "lstrip 1": (S.str.lstrip("1a"), lambda s, a, b, n: s if s is None else s.lstrip("1a")),
    "rstrip 1": (S.str.rstrip("1a"), lambda s, a, b, n: s if s is None else s.rstrip("1a")),
    "title": (S.str.title(), lambda s, a, b, n: s if s is None else s.title()),
    "replace": (S.str.replace(B, A), lambda s, a, b, n: s if s is None else s.replace(b, a)),
    "replace .": (A.str.replace(".", "+"), lambda s, a, b, n: "+".join(a.split("."))),
    "pattern": (A.str.replace_pattern("a|.", r"<\g<0>>"), lambda s, a, b, n: re.sub("a|.", r"<\g<0>>", a)),
    "group": (S.str.extract(r"(a)|(\d)", 2), reference(r"(a)|(\d)", 2)),
    "first": (S.str.extract(r"(-*)a"), reference(r"(-*)a", 1)),
    "match": (S.str.extract(r"-.", 0), reference(r"-.", 0)),
    "split": (S.str.split(), lambda s, a, b, n: s if s is None else tuple(s.split())),
    "split b": (A.str.split(B), lambda s, a, b, n: tuple(a.split(b)) if b else EvaluationError),
    "parts": (S.str.split("-").length(), lambda s, a, b, n: s if s is None else s.count("-") + 1),
    "pad": (S.str.pad_start(N, "0"), lambda s, a, b, n: padded(s, n, "0", True)),
    "pad space": (S.str.pad_end(N), lambda s, a, b, n: padded(s, n, " ", False)),
    "pad b": (S.str.pad_end(4, B), lambda s, a, b, n: padded(s, 4, b, False)),
    "nested": (S.str.strip().str.upper().str.replace("A", ""), lambda s, a, b, n: upper(s)),
}


def upper(text: str | None) -> str | None:
    return None if text is None else text.strip().upper().replace("A", "")


@pytest.mark.parametrize("name", MEANINGS)
@settings(max_examples=examples(20), deadline=None)
@given(rows=st.lists(ROWS, min_size=1, max_size=6))
def test_string_functions(name: str, rows: list[tuple[Any, ...]]) -> None:
    expression, meaning = MEANINGS[name]
    agree(expression, SCHEMA, rows, meaning)
    assert eval(repr(expression), {"col": col, "lit": lit}).same_as(expression)


@pytest.mark.parametrize(
    ("expression", "error", "message"),
    [
        (S.str.extract("("), EvaluationError, r"'\(' is not a regular expression"),
        (S.str.extract("a", 1), EvaluationError, r"'a' has groups 0 to 0, expected group 1"),
        (S.str.extract("a", -1), EvaluationError, r"'a' has groups 0 to 0, expected group -1"),
        (S.str.replace_pattern("a", r"\1"), EvaluationError, r"'\\\\1' does not fit the groups of 'a' \(inv"),
        (S.str.replace_pattern("(", ""), EvaluationError, r"'\(' is not a regular expression"),
        (S.str.pad_start(3, "ab"), EvaluationError, "expected one character to fill with, got 'ab': col"),
        (S.str.pad_end(10**7 + 1), ValueOutOfRangeError, "the width is 10000001; the maximum is 10,000,000"),
        (S.str.split(""), EvaluationError, "expected a separator of one character or more, got ''"),
    ],
)
def test_strings_without_a_result(expression: Expression, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        bind(expression, SCHEMA).evaluate(
            SCHEMA.encode_rows([("a", "a", "b", 1)], interner := new()), interner
        )


def new() -> Any:
    from dbsp.data.interner import Interner

    return Interner()


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (N.str.strip(), r"strip expects a string, and the characters to remove as a string, got .*\(int\)"),
        (N.str.title(), r"title expects a string, got"),
        (S.str.replace("a", 1), r"replace expects a string, the part to replace and its replacement, got"),
        (S.str.replace_pattern("a", 1), r"replace_pattern expects a string, a pattern and the replacement"),
        (S.str.extract("a", "b"), r"extract expects a string, a pattern and the number of a group, got"),
        (S.str.pad_start("a"), r"pad_start expects a string, a width and a character, got"),
        (S.str.pad_end("a"), r"pad_end expects a string, a width and a character, got"),
        (S.str.split(1), r"split expects a string, and the separator as a string, got"),
    ],
)
def test_strings_of_other_types(expression: Expression, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        bind(expression, SCHEMA)


def test_a_namespace_is_not_a_value() -> None:
    assert repr(S.str) == 'col("s").str'
    circuit = Circuit("strings")
    source = circuit.input("a", s=str)
    with pytest.raises(Exception, match=r'call a method, such as col\("s"\)\.str\.upper\(\)'):
        source.map(v=S.str)
    with pytest.raises(Exception, match=r'call a method, such as col\("t"\)\.dt\.year\(\)'):
        source.map(v=S.dt)


def test_extract_allows_none_and_changes_with_its_row() -> None:
    circuit = Circuit("strings")
    source = circuit.input("a", s=str)
    number = source.map(n=col("s").str.extract(r"#(\d+)").cast(int))
    assert number.schema.describe() == "n: int?"
    circuit.output("n", number)
    run = circuit.start()
    run.step({"a": {("see #17",): 1, ("see",): 2}})
    assert run.view("n").to_dict() == {(17,): 1, (None,): 2}
    run.step({"a": {("see #17",): -1, ("see",): -1}})
    assert run.view("n").to_dict() == {(None,): 1}


def test_contains_of_strings_and_of_lists() -> None:
    circuit = Circuit("parts")
    a = circuit.input("a", s=str, l=list[str])
    circuit.output("out", a.select("s", part=a["s"].str.contains("b"), element=a["l"].contains(a["s"])))
    rows = [("ab", ["ab"]), ("a", ["ab"])]
    assert circuit.start().step({"a": rows})["out"].rows() == [("a", False, False), ("ab", True, True)]
    with pytest.raises(SchemaError, match=r"write x\.str\.contains\(part\) for a part of a string, got col"):
        a.select(v=col("s").contains("b"))
    with pytest.raises(SchemaError, match=r"str\.contains expects two strings; write x\.contains\(element\)"):
        a.select(v=col("s").str.contains(1))
    # Circuits of earlier versions have one function for both.
    old = a.select(v=call("contains", col("l"), "ab"))
    assert repr(col("s").str.contains("b")) == """col("s").str.contains('b')"""
    assert repr(col("l").contains("b")) == """col("l").contains('b')"""
    assert old.schema.describe() == "v: bool"
