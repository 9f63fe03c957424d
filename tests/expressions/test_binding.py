"""Binding of expressions to a schema: types of results, and errors."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest

from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.data.types import BOOL, DATE, FLOAT, INT, OBJECT, STR, TIMESTAMP, Type
from dbsp.errors import DbspError, EvaluationError, SchemaError, ValueOutOfRangeError
from dbsp.expressions import Expression, bind, call, cat, col, lit, min_of, when
from tests.expressions.reference_expressions import ROW, SCHEMA, values_of


@pytest.mark.parametrize(
    ("expression", "type_"),
    [
        (col("i") + 1, INT),
        (col("i") + 1.0, FLOAT),
        (col("i") / 2, FLOAT),
        (col("oi") + 1, INT.optional()),
        (col("s") + "x", STR),
        (col("s") == col("os"), BOOL.optional()),
        (when(col("b")).then(1).otherwise(2.5), FLOAT),
        (when(col("ob")).then(1).otherwise(2), INT),
        (when(col("b")).then(1).otherwise(None), INT.optional()),
        (when(col("b")).then(lit((1,))).otherwise(2), OBJECT),
        (lit(None), OBJECT.optional()),
        (lit(None, DATE), DATE.optional()),
        (lit(1, float), FLOAT),
        (lit(dt.datetime(2020, 1, 1)), TIMESTAMP),
        (col("os").is_null(), BOOL),
    ],
)
def test_types_of_results(expression: Expression, type_: Type) -> None:
    assert bind(expression, SCHEMA).type == type_


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (
            col("i") + col("s"),
            'col("i") + col("s"): + expects two numbers, two strings, or a time and a duration, '
            'got col("i") (int) and col("s") (str) [wrong-type]',
        ),
        (col("nn") + 1, "unknown column 'nn'; the columns are (i: int,"),
        (
            col("i") & True,
            '& expects two booleans (band is the bitwise and), got col("i") (int) and True (bool)',
        ),
        (col("s") < 1, '< expects two values of one type, got col("s") (str) and 1 (int)'),
        (~col("i"), '~ expects a boolean (bnot is the bitwise not), got col("i") (int)'),
        (col("os").cast(int).str.upper(), 'upper expects a string, got col("os").cast(int) (int?)'),
        (when(col("i")).then(1).otherwise(2), "when expects a boolean and two values of one type"),
        (when(col("b")).then(1).otherwise("a"), "got col(\"b\") (bool) and 1 (int) and 'a' (str)"),
        (min_of(1, "a"), "min_of expects values of one type"),
        (col("i").length(), "length expects a string, bytes or a list"),
        (col("b") + col("b"), "+ expects two numbers, two strings, or a time and a duration"),
        (call("qqq", 1), "unknown function 'qqq' [invalid-expression]"),
        (call("upperr", "a"), "unknown function 'upperr'; did you mean 'upper'? [invalid-expression]"),
        (Expression(), "expected an expression over columns, got <"),
    ],
)
def test_binding_names_the_operands_that_do_not_fit(expression: Expression, message: str) -> None:
    with pytest.raises(SchemaError) as error:
        bind(expression, SCHEMA)
    assert message in str(error.value)


def test_constants_must_fit() -> None:
    with pytest.raises(ValueOutOfRangeError, match=r"expected an int from .*, got 9223372036854775808"):
        bind(col("i") + 2**63, SCHEMA)
    with pytest.raises(DbspError, match="cannot be a value: it is not hashable"):
        bind(col("i") == {1}, SCHEMA)


def test_errors_name_the_expression_and_the_row() -> None:
    expression = col("i") * 2 + col("j")
    with pytest.raises(ValueOutOfRangeError) as error:
        values_of(expression, Schema.of(j=int, other=str, i=int), [(1, "a", 1), (5, "b", 2**62)])
    assert str(error.value) == (
        'the result does not fit in 64 bits: col("i") * 2 with i = 4611686018427387904 [value-out-of-range]'
    )
    with pytest.raises(EvaluationError, match=r"^division by zero: lit\(1\) // 0 \[division-by-zero\]$"):
        values_of(lit(1) // 0, Schema.of(x=int), [(1,)])


def test_a_failing_constant_matters_only_where_there_are_rows() -> None:
    assert values_of(lit(1) // 0, Schema.of(x=int), []) == []
    with pytest.raises(EvaluationError, match="division by zero"):
        values_of(lit(1) // 0, Schema.of(x=int), [(1,)] * 20)


def test_bound_expressions_know_their_columns_and_serve_several_interners() -> None:
    bound = bind(cat(col("t"), "x", col("s")), SCHEMA)
    assert bound.columns == (3, 4) and cat(col("t"), "x", col("s")).columns == ("t", "s")
    assert repr(bound).startswith('<cat(col("t"), \'x\', col("s")): str over (i: int')
    for n in (1, 20):
        for start in ("", "other"):
            interner = Interner()
            interner.encode(start)
            codes = bound.evaluate(SCHEMA.encode_rows([ROW] * n, interner), interner)
            assert interner.decode_many(codes) == ["1xaB"] * n


def test_no_rows() -> None:
    interner = Interner()
    for expression in [
        col("i"),
        col("i") + 1,
        cat(col("s"), "x"),
        when(col("b")).then(1 // col("i")).otherwise(2),
        lit(5),
    ]:
        assert (
            bind(expression, SCHEMA).evaluate(np.empty((0, SCHEMA.arity), np.int64), interner).tolist() == []
        )
    assert bind(lit(5), Schema((), ())).evaluate(np.empty((1, 0), np.int64), interner).tolist() == [5]
    assert (
        bind(lit(5), SCHEMA).evaluate(np.empty((20, SCHEMA.arity), np.int64), interner).tolist() == [5] * 20
    )
