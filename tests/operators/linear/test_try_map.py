"""try_map: the rows with a result and the failed rows, against a model in Python, tick by tick."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp import Circuit, Stream, col, count, from_json
from dbsp.errors import ArgumentError, MemoryLimitError, SchemaError
from dbsp.operators.linear.try_map import attempt
from tests import reference
from tests.harness import follow
from tests.reference import Z
from tests.strategies import Tick, rows, small, ticks

COLUMNS = {"x": int, "s": str}
TEXTS = st.sampled_from(["7", "-1", "", "a", "9223372036854775808", "0x10"])


def number(row: Any) -> Any:
    """A function with every kind of failure: it raises, or returns another value than a row."""
    if row.x == 0:
        raise KeyError(row.s)
    if row.x == 1:
        return (row.s, 1)
    return (row.x * 2**62,) if row.x > 1 else [row.x]


def tried(c: Circuit) -> dict[str, Stream]:
    a = c.input("a", schema=COLUMNS)
    good, failed = a.try_map(n=col("s").cast(int), q=10 // col("x"), s=col("s"))
    by_function = a.try_map(number, {"n": int}, reason="why")
    return {
        "good": good,
        "failed": failed,
        "called": by_function.good,
        "refused": by_function.failed,
        "first": failed.drop("reason"),
        "counted": failed.group_by("s").agg(n=count()),
        "joined": good.join(failed.select("x", "s").distinct(), on="s", select=["n", "x"]),
    }


def outcome(row: Any) -> Any:
    x, s = row
    try:
        n = int(s, 16 if s.startswith("0x") else 10)
    except ValueError:
        return f"the string is not an integer: col(\"s\").cast(int) with s = '{s}'"
    if not -(2**63) <= n < 2**63:
        return f"the result does not fit in 64 bits: col(\"s\").cast(int) with s = '{s}'"
    return (n, 10 // x, s) if x else 'division by zero: 10 // col("x") with x = 0'


def called(row: Any) -> Any:
    x, s = row
    if x == 0:
        return f"KeyError: {s!r}"
    if x == 1:
        return f"expected 1 value (n: int), got 2: ({s!r}, 1)"
    if x > 1:
        return f"column 'n': expected an int from -2**63 to 2**63 - 1, got {x * 2**62}"
    return (x,)


def parts(a: Z, f: Callable[[Any], Any]) -> tuple[Z, Z]:
    good = reference.flat_map(a, lambda r: [] if isinstance(f(r), str) else [f(r)])
    return good, reference.flat_map(a, lambda r: [(*r, f(r))] if isinstance(f(r), str) else [])


def model(inputs: dict[str, Z]) -> dict[str, Z]:
    good, failed = parts(inputs["a"], outcome)
    called_rows, refused = parts(inputs["a"], called)
    counts: dict[Any, int] = {}
    for (_, s, _), weight in failed.items():
        counts[s] = counts.get(s, 0) + weight
    present = reference.distinct(reference.map_rows(failed, lambda r: r[:2]))
    joined: Z = {}
    for (n, _, s), weight in good.items():
        for x, t in present:
            if s == t:
                joined[n, x] = joined.get((n, x), 0) + weight
    return {
        "good": good,
        "failed": failed,
        "called": called_rows,
        "refused": refused,
        "first": reference.map_rows(failed, lambda r: r[:2]),
        "counted": {(s, n): 1 for s, n in counts.items() if n > 0},
        "joined": {row: weight for row, weight in joined.items() if weight},
    }


@given(ticks({"a": rows(small, TEXTS)}))
def test_equals_the_model_tick_by_tick(sequence: list[Tick]) -> None:
    follow(tried, model, sequence)


@given(ticks({"a": rows(small, small)}))
def test_the_results_of_a_set_may_be_a_bag(sequence: list[Tick]) -> None:
    def of_a_set(c: Circuit) -> dict[str, Stream]:
        a = c.input("a", x=int, y=int, kind="set")
        good, failed = a.try_map(q=2 // col("x"))
        return {"good": good, "once": good.distinct(), "failed": failed.distinct()}

    def model_of_a_set(inputs: dict[str, Z]) -> dict[str, Z]:
        good = reference.flat_map(inputs["a"], lambda r: [(2 // r[0],)] if r[0] else [])
        reason = 'division by zero: 2 // col("x") with x = 0'
        failed = reference.flat_map(inputs["a"], lambda r: [] if r[0] else [(*r, reason)])
        return {"good": good, "once": reference.distinct(good), "failed": failed}

    follow(of_a_set, model_of_a_set, sequence, sets={"a"})


@pytest.mark.parametrize("failing", [[], [0], [999], [3, 4, 500], range(1000)])
def test_large_ticks_find_every_failing_row(failing: Any) -> None:
    circuit = Circuit("readings")
    a = circuit.input("a", x=int, y=int)
    good, failed = a.try_map(x=col("x"), q=1 // col("y"))
    circuit.output("good", good)
    circuit.output("failed", failed)
    run = circuit.start()
    zero = set(failing)
    deltas = run.step({"a": [(x, int(x not in zero)) for x in range(1000)]})
    assert deltas["good"].rows() == [(x, 1) for x in range(1000) if x not in zero]
    reason = 'division by zero: 1 // col("y") with y = 0'
    assert deltas["failed"].rows() == [(x, 0, reason) for x in sorted(zero)]


def test_a_part_is_evaluated_few_times() -> None:
    calls: list[int] = []

    def evaluate(rows: Any) -> Any:
        from dbsp.errors import EvaluationError

        calls.append(len(rows))
        if (rows == 700).any():
            raise EvaluationError("no value")
        return rows * 2

    outcome = attempt(evaluate, np.arange(1024).reshape(-1, 1), 1)
    assert outcome.reasons == ["no value"] and outcome.good.tolist() == [x != 700 for x in range(1024)]
    assert (outcome.results[outcome.good][:, 0] == [2 * x for x in range(1024) if x != 700]).all()
    assert len(calls) == 2 * 10 + 1 and sum(calls) == 3 * 1024 - 2


def test_an_error_of_the_tick_is_not_a_failed_row() -> None:
    def evaluate(rows: Any) -> Any:
        raise MemoryLimitError("full")

    with pytest.raises(MemoryLimitError):
        attempt(evaluate, np.zeros((3, 1), np.int64), 1)


def test_the_columns_of_the_two_streams() -> None:
    a = Circuit("a").input("a", x=int, y=str | None)
    good, failed = a.try_map(n=col("y").cast(int))
    assert good.schema.describe() == "n: int?"
    assert failed.schema.describe() == "x: int, y: str?, reason: str"
    assert a.try_map(number, {"n": int}, reason="why").failed.schema.describe() == (
        "x: int, y: str?, why: str"
    )
    assert [stream.node.operator.name for stream in (good, failed)] == ["TryMap", "FailedMap"]
    assert good.node.operator.label == 'TryMap n = col("y").cast(int)'


def test_a_circuit_with_try_map_can_be_written_and_read() -> None:
    circuit = Circuit("a")
    good, failed = circuit.input("a", x=int).try_map(q=1 // col("x"))
    circuit.output("good", good)
    circuit.output("failed", failed)
    run = from_json(circuit.to_json()).start()
    deltas = run.step({"a": [(0,), (1,)]})
    assert deltas["good"].rows() == [(1,)] and len(deltas["failed"].rows()) == 1


@pytest.mark.parametrize(
    ("build", "kind", "message"),
    [
        (lambda a: a.try_map(), SchemaError, r"try_map needs at least one column, such as try_map\(n="),
        (lambda a: a.try_map(number), SchemaError, "try_map expects either a function and the schema of its"),
        (
            lambda a: a.try_map(number, {"n": int}, n=col("x")),
            SchemaError,
            "try_map expects either a function and the schema of its rows, or named expressions",
        ),
        (lambda a: a.try_map(n=col("z")), SchemaError, "unknown column 'z'"),
        (
            lambda a: a.try_map(n=col("x"), reason="s"),
            SchemaError,
            "FailedMap at .*: 's' is already a column; name the column of the reasons with reason=",
        ),
        (
            lambda a: a.try_map(n=col("x"), reason=3),
            ArgumentError,
            "reason: expected a column name, got 3",
        ),
    ],
)
def test_wrong_arguments(build: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        build(Circuit("a").input("a", schema=COLUMNS))
