"""Filter: by expression and by function; None is false."""

from __future__ import annotations

import math

import pytest
from hypothesis import given

from dbsp import Circuit, EvaluationError, Stream, UserFunctionError, col
from tests import reference
from tests.harness import follow, start, view
from tests.reference import Z, add
from tests.strategies import Tick, deltas, nullable, rows, small, ticks, words

TRIPLE = rows(small, nullable, words)
COLUMNS = {"x": int, "y": int | None, "s": str}


@given(ticks({"a": TRIPLE}))
def test_by_expression(sequence: list[Tick]) -> None:
    follow(
        lambda c: c.input("a", schema=COLUMNS).filter((col("x") > col("y")) | (col("s") < "b")),
        lambda inputs: reference.select(
            inputs["a"], lambda r: (r[1] is not None and r[0] > r[1]) or r[2] < "b"
        ),
        sequence,
    )


@given(ticks({"a": TRIPLE}))
def test_by_function(sequence: list[Tick]) -> None:
    follow(
        lambda c: c.input("a", schema=COLUMNS).filter(lambda row: row.y and row.s != "a"),
        lambda inputs: reference.select(inputs["a"], lambda r: r[1] and r[2] != "a"),
        sequence,
    )


@given(ticks({"a": TRIPLE}))
def test_none_is_false_and_so_is_its_negation(sequence: list[Tick]) -> None:
    def build(c: Circuit) -> dict[str, Stream]:
        a = c.input("a", schema=COLUMNS)
        return {
            "yes": a.filter(col("y") == 1),
            "no": a.filter(~(col("y") == 1)),
            "null": a.filter(col("y").is_null()),
        }

    def model(inputs: dict[str, Z]) -> dict[str, Z]:
        a = inputs["a"]
        return {
            "yes": reference.select(a, lambda r: r[1] == 1),
            "no": reference.select(a, lambda r: r[1] is not None and r[1] != 1),
            "null": reference.select(a, lambda r: r[1] is None),
        }

    follow(build, model, sequence)


@given(deltas(TRIPLE), deltas(TRIPLE))
def test_linear(a: Z, b: Z) -> None:
    def kept(zset: Z) -> Z:
        run = start(lambda c: c.input("a", schema=COLUMNS).filter(col("x") >= 2))
        run.step({"a": zset})
        return view(run)

    assert kept(add(a, b)) == add(kept(a), kept(b))


@given(ticks({"a": rows(small, small)}))
def test_a_set_stays_a_set(sequence: list[Tick]) -> None:
    """Lowering drops a distinct after a filter of a set; the result must be the same."""
    follow(
        lambda c: c.input("a", x=int, y=int, kind="set").filter(col("x") > 1).distinct(),
        lambda inputs: reference.select(inputs["a"], lambda r: r[0] > 1),
        sequence,
        sets={"a"},
    )


def test_errors_name_the_operator_and_leave_everything() -> None:
    run = start(lambda c: c.input("a", x=int).filter(lambda row: 10 / row.x > 1))
    run.step({"a": [(1,), (2,)]})
    with pytest.raises(UserFunctionError) as caught:
        run.step({"a": [(3,), (0,)]})
    assert str(caught.value).startswith("Filter at test_filter.py:")
    assert "<lambda> raised ZeroDivisionError: division by zero for Row(x=0)" in str(caught.value)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert view(run) == {(1,): 1, (2,): 1}
    assert run.step({"a": [(3,)]})["out"].to_dict() == {(3,): 1}


def test_an_error_of_bool_is_an_error_of_the_function() -> None:
    class Unsure:
        def __bool__(self) -> bool:
            raise ValueError("undecided")

    run = start(lambda c: c.input("a", x=int).filter(lambda row: Unsure()))
    with pytest.raises(UserFunctionError, match="raised ValueError: undecided for Row"):
        run.step({"a": [(1,)]})


def test_division_by_zero_in_an_expression() -> None:
    run = start(lambda c: c.input("a", x=int).filter(10 // col("x") > 1))
    with pytest.raises(EvaluationError, match=r"^Filter at test_filter\.py:\d+: .*zero"):
        run.step({"a": [(3,), (0,)]})
    assert view(run) == {} and run.tick == 0


def test_rows_with_nan_are_kept_and_retracted() -> None:
    run = start(lambda c: c.input("a", x=float).filter(col("x") > 1.0))
    run.step({"a": [(math.nan,), (2.0,)]})
    assert len(run.view("out")) == 2  # NaN sorts after every other float
    run.step({"a": {(math.nan,): -1}})
    assert view(run) == {(2.0,): 1}
