"""The structure of expressions and their notation as Python code."""

from __future__ import annotations

import math

import pytest
from hypothesis import given

from dbsp.data.types import STR
from dbsp.errors import ArgumentError, SchemaError
from dbsp.expressions import FUNCTIONS, Expression, as_expression, bind, cat, col, lit, max_of, min_of, when
from dbsp.expressions.functions import define
from tests.expressions.random_expressions import EXPRESSIONS
from tests.expressions.reference_expressions import SCHEMA, STRICT


def test_structure_is_compared_by_same_as() -> None:
    assert (col("x") + 1).same_as(col("x") + 1) and hash(col("x") + 1) == hash(col("x") + 1)
    for other in [
        col("x") + 1.0,
        col("x") + True,
        col("y") + 1,
        col("x") - 1,
        1 + col("x"),
        lit(None),
        "col",
    ]:
        assert not (col("x") + 1).same_as(other)
    assert lit((1,)).key != lit((True,)).key != lit((1.0,)).key
    assert lit(math.nan).same_as(lit(math.nan)) and not lit(0.0).same_as(lit(-0.0))
    assert len({(col("x") + 1).key, (col("x") + 1).key, (col("x") + 2).key}) == 2


def test_an_expression_has_no_truth_value() -> None:
    with pytest.raises(ArgumentError, match=r"use & \| ~ instead of and, or, not.* \[invalid-expression\]"):
        bool(col("x") == 1)
    with pytest.raises(ArgumentError):
        1 < col("x") < 3  # noqa: B015
    with pytest.raises(AttributeError):
        col("x").name = "y"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "text",
    [
        'col("x") + 1',
        '(col("x") + 1) * 2',
        'col("x") + 1 * col("y")',
        'col("x") - (col("y") - 1)',
        'col("x") - col("y") - 1',
        '2 ** col("x") ** 3',
        '(col("x") ** 2) ** 3',
        '-col("x") ** 2',
        '(-col("x")) ** 2',
        'col("x") * -1',
        '(-1) ** col("x")',
        '(col("x") > 1) & ~(col("y") == 2) | col("b")',
        '((col("x") == 1) == col("b")) & col("b")',
        'col("s").str.substr(1, 2).str.upper()',
        "(col(\"s\") + 'x').length()",
        "lit('a').str.concat(col(\"s\"))",
        "lit(1) + 2",
        "when(col(\"b\")).then(1).otherwise('a')",
        'min_of(col("x"), 1, col("y"))',
        'abs(col("x") - 1)',
        "-lit(1)",
        'lit(0) < col("x")',
        'col("x").fill_null(lit(None, STR))',
    ],
)
def test_notation_is_python_code(text: str) -> None:
    names = {"col": col, "lit": lit, "when": when, "min_of": min_of, "cat": cat, "STR": STR}
    expression = eval(text, names)
    assert eval(repr(expression), names).same_as(expression)
    if "concat" not in text:
        assert repr(expression) == text


@given(EXPRESSIONS)
def test_notation_can_be_read_back(expression: Expression) -> None:
    names = {
        "col": col,
        "lit": lit,
        "when": when,
        "min_of": min_of,
        "max_of": max_of,
        "cat": cat,
        "nan": math.nan,
        "inf": math.inf,
    }
    back = as_expression(eval(repr(expression), names))
    assert repr(back) == repr(expression)
    # A negative constant and the negation of one look alike, so compare what they compute.
    assert bind(back, SCHEMA).type == bind(expression, SCHEMA).type


def test_a_function_is_defined_once() -> None:
    # A front end may add functions of its own, but not change these.
    assert {*STRICT, "and", "or", "when", "is_null", "fill_null", "ord"} <= set(FUNCTIONS)
    with pytest.raises(SchemaError, match="a function 'add' exists already"):
        define("add", "nothing", lambda arguments: None)
