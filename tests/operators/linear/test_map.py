"""Map and flat_map: rows that become equal add up; every expression and function is linear."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given

from dbsp import (
    Circuit,
    DbspError,
    EvaluationError,
    InputError,
    Stream,
    UserFunctionError,
    ValueOutOfRangeError,
    WeightOverflowError,
    col,
    lit,
)
from tests import reference
from tests.harness import follow, start, view
from tests.reference import Z, add, scale
from tests.strategies import Tick, deltas, nullable, rows, small, ticks, words

TRIPLE = rows(small, nullable, words)
COLUMNS = {"x": int, "y": int | None, "s": str}


def mapped(c: Circuit) -> dict[str, Stream]:
    a = c.input("a", schema=COLUMNS)
    return {
        "expressions": a.map(half=col("x") // 2, sum=col("x") + col("y"), up=col("s").str.upper()),
        "constant": a.map(one=1, x=col("x")),
        "columns": a.map(s=col("s"), t=col("s")),
        "function": a.map(lambda row: (row.s * row.x, row.y), {"t": str, "y": int | None}),
        "names": a.map(lambda row: {"y": row.y, "t": row.s}, {"t": str, "y": int | None}),
        "flat": a.flat_map(lambda row: [(i, row.y) for i in range(row.x)], {"i": int, "y": int | None}),
    }


def mapped_model(inputs: dict[str, Z]) -> dict[str, Z]:
    a = inputs["a"]
    return {
        "expressions": reference.map_rows(
            a, lambda r: (r[0] // 2, None if r[1] is None else r[0] + r[1], r[2].upper())
        ),
        "constant": reference.map_rows(a, lambda r: (1, r[0])),
        "columns": reference.map_rows(a, lambda r: (r[2], r[2])),
        "function": reference.map_rows(a, lambda r: (r[2] * r[0], r[1])),
        "names": reference.map_rows(a, lambda r: (r[2], r[1])),
        "flat": reference.flat_map(a, lambda r: [(i, r[1]) for i in range(r[0])]),
    }


@given(ticks({"a": TRIPLE}))
def test_equals_the_batch_map_tick_by_tick(sequence: list[Tick]) -> None:
    follow(mapped, mapped_model, sequence)


@given(deltas(TRIPLE), deltas(TRIPLE))
def test_linear(a: Z, b: Z) -> None:
    def mapped_rows(zset: Z) -> dict[str, Z]:
        run = start(mapped)
        run.step({"a": zset})
        return {name: view(run, name) for name in run.outputs}

    one, other, both, twice = (
        mapped_rows(a),
        mapped_rows(b),
        mapped_rows(add(a, b)),
        mapped_rows(scale(-2, a)),
    )
    for name in one:
        assert both[name] == add(one[name], other[name])
        assert twice[name] == scale(-2, one[name])


@given(ticks({"a": rows(small, small)}))
def test_a_map_of_a_set_may_be_a_bag(sequence: list[Tick]) -> None:
    follow(
        lambda c: {
            "bag": (bag := c.input("a", x=int, y=int, kind="set").map(x=col("x") % 2)),
            "set": bag.distinct(),
        },
        lambda inputs: {
            "bag": (bag := reference.map_rows(inputs["a"], lambda r: (r[0] % 2,))),
            "set": reference.distinct(bag),
        },
        sequence,
        sets={"a"},
    )


def raising(row: Any) -> Iterator[tuple[int]]:
    yield (row.x,)
    raise KeyError(row.x)


FAILURES: list[tuple[Any, type[DbspError], str]] = [
    (lambda s: s.map(y=1 // col("x")), EvaluationError, r"Map at test_map\.py:\d+: .*zero"),
    (lambda s: s.map(y=col("x") + (2**63 - 1)), ValueOutOfRangeError, r"Map at test_map\.py:\d+: "),
    (
        lambda s: s.map(lambda row: (1 // row.x,), {"y": int}),
        UserFunctionError,
        r"Map at test_map\.py:\d+: function <lambda> raised ZeroDivisionError: .* for Row\(x=0\)",
    ),
    (
        lambda s: s.map(lambda row: ("a" if row.x == 0 else 1,), {"y": int}),
        InputError,
        r"Map at test_map\.py:\d+: row 0, column 'y': expected int, got 'a' of type str",
    ),
    (
        lambda s: s.map(lambda row: (2**63 if row.x == 0 else 1,), {"y": int}),
        ValueOutOfRangeError,
        r"Map at test_map\.py:\d+: row 0, column 'y': expected an int from .*, got 9223372036854775808",
    ),
    (
        lambda s: s.filter(col("x") == 0).flat_map(raising, {"y": int}),
        UserFunctionError,
        r"FlatMap at test_map\.py:\d+: function raising raised KeyError: 0 for Row\(x=0\)",
    ),
    (
        lambda s: s.flat_map(lambda row: [(row.x,)] if row.x else 5, {"y": int}),
        UserFunctionError,
        r"FlatMap at test_map\.py:\d+: function <lambda> raised TypeError: 'int' object is not iterable",
    ),
    (
        lambda s: s.flat_map(lambda row: [(row.x, row.x)] if row.x == 0 else [], {"y": int}),
        InputError,
        r"FlatMap at test_map\.py:\d+: row 0: expected 1 value \(y: int\), got 2: \(0, 0\)",
    ),
]


@pytest.mark.parametrize("number", range(len(FAILURES)))
def test_errors_name_operator_line_and_row_and_leave_everything(number: int) -> None:
    build, kind, message = FAILURES[number]
    if kind is ValueOutOfRangeError and number == 1:
        good, bad = [(-1,), (-2,)], [(1,), (5,)]
    else:
        good, bad = [(1,), (2,)], [(0,), (3,)]
    run = start(lambda c: build(c.input("a", x=int)))
    run.step({"a": good})
    before = run.view("out").items()
    with pytest.raises(kind, match=f"^{message.replace('function <lambda>', 'function .*<lambda>')}"):
        run.step({"a": bad})
    assert run.view("out").items() == before and run.tick == 1
    run.step({"a": dict.fromkeys(good, -1)})
    assert view(run) == {}


def test_rows_that_become_equal_may_leave_int64() -> None:
    run = start(lambda c: c.input("a", x=int).map(y=col("x") * 0))
    with pytest.raises(
        WeightOverflowError, match=r"^Map at test_map\.py:\d+: the sum of weights is outside the 64-bit range"
    ):
        run.step({"a": {(1,): 2**62, (2,): 2**62}})
    run.step({"a": {(1,): 2**62, (2,): -(2**62)}})
    assert view(run) == {}


def test_step_from_inside_a_step_is_refused() -> None:
    runs: list[Any] = []

    def again(row: Any) -> tuple[int]:
        runs[0].step()
        return (row.x,)

    runs.append(start(lambda c: c.input("a", x=int).map(again, {"y": int})))
    with pytest.raises(UserFunctionError, match="step was called inside a tick"):
        runs[0].step({"a": [(1,)]})
    assert runs[0].step()["out"].to_dict() == {}


def test_a_map_that_keeps_every_column_keeps_a_set() -> None:
    def kept(**columns: Any) -> bool:
        circuit = Circuit("set")
        a = circuit.input("a", x=int, y=int, kind="set")
        circuit.output("out", a.map(**columns).distinct())
        names = [node.operator.name for node in circuit.circuit("physical").nodes]
        run = circuit.start()
        run.step({"a": [(1, 2), (2, 1), (3, 0)]})
        assert {weight for _, weight in run.view("out").items()} == {1}
        return "Distinct" in names

    assert not kept(x=col("x"), y=col("y"), z=col("x") + col("y"))
    assert not kept(y=col("y"), z=lit(3), x=col("x"))
    assert kept(x=col("x"), z=col("x") + col("y"))
