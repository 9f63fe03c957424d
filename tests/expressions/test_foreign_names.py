"""Attributes that expressions do not have, with the advice of their error."""

from __future__ import annotations

import copy
import pickle
import re
from typing import Any

import pytest

import dbsp
from dbsp import ArgumentError, col
from dbsp.expressions import foreign_names


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('col("s").upper', "an expression has no 'upper'; write x.str.upper(...)"),
        ('col("t").year', "an expression has no 'year'; write x.dt.year(...)"),
        ('col("x").is_in', "an expression has no 'is_in'; write x.isin([...])"),
        ('col("x").to_int', "an expression has no 'to_int'; write x.cast(int)"),
        ('col("x").flor', "an expression has no 'flor'; did you mean 'floor'?"),
        ('col("s").like', "an expression has no 'like'; write x.str.matches(pattern)"),
        ('col("x").over', "an expression has no 'over'; write s.group_by(...).agg(...) and a join"),
        ('col("x").qqqq', "an expression has no 'qqqq'"),
        ('col("s").str.to_uppercase', "an expression has no 'str.to_uppercase'; write x.str.upper()"),
        ('col("s").str.is_null', "an expression has no 'str.is_null'; write x.is_null(...)"),
        ('col("s").str.uper', "an expression has no 'str.uper'; did you mean 'upper'?"),
        ('col("s").str.year', "an expression has no 'str.year'; write x.dt.year(...)"),
        ('col("t").dt.date', "an expression has no 'dt.date'; write x.cast(\"date\")"),
        ('col("t").dt.yaer', "an expression has no 'dt.yaer'; did you mean 'year'?"),
    ],
)
def test_unknown_attributes(text: str, message: str) -> None:
    with pytest.raises(AttributeError) as error:
        eval(text, {"col": col})
    assert str(error.value) == message


def test_the_advice_names_attributes_that_exist() -> None:
    x: Any = col("x")
    for table in foreign_names._TABLES.values():
        for advice in table.values():
            for path in re.findall(r"\bx((?:\.\w+)+)", advice):
                value = x
                for name in path[1:].split("."):
                    value = getattr(value, name)
    for namespace, table in foreign_names._TABLES.items():
        for name in table:
            owner = getattr(x, namespace[1:]) if namespace else x
            assert not hasattr(owner, name), name


def test_expressions_can_be_copied_and_pickled() -> None:
    x = col("x") + 1
    assert copy.deepcopy(x).same_as(x) and pickle.loads(pickle.dumps(x)).same_as(x)
    assert repr(copy.copy(x.str)) == repr(x.str)
    assert not hasattr(dbsp.lit(1).str, "__array__")


@pytest.mark.parametrize("use", [lambda x: x[0], lambda x: x[0:2], lambda x: x["a"], list, max, sum])
def test_an_expression_is_not_a_sequence(use: Any) -> None:
    with pytest.raises(
        ArgumentError, match=r'col\("x"\) cannot be indexed or iterated.*write \.element\(0\)'
    ):
        use(col("x"))
