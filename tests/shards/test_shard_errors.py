"""A sharded run raises the errors of one process: class, code, place and message; it continues."""

from __future__ import annotations

import gc
import os
import resource
from collections.abc import Iterator

import pytest

import dbsp
from dbsp import Circuit, DbspError, Run, ShardError, WeightOverflowError
from dbsp.shards.abortable_link import TickAbortedError
from dbsp.shards.sharded_run import ShardedRun
from dbsp.shards.shipped_errors import receive_error, ship_error
from tests.harness import deltas_of, views
from tests.shards.failing_circuit import BIG, FAILURES, Failure, Tick, failing


@pytest.fixture(scope="module", params=[1, 2, 3])
def runs(request: pytest.FixtureRequest) -> Iterator[tuple[Run, ShardedRun]]:
    with failing().start(shards=request.param) as many:
        yield failing().start(), many


def described(error: DbspError) -> tuple[object, ...]:
    cause = error.__cause__
    return type(error), error.code, error.where, str(error), type(cause), str(cause)


def test_an_abort_that_numba_reports_as_an_error_of_the_system_is_an_abort() -> None:
    disguised = SystemError("a function returned a result with an exception set")
    disguised.__cause__ = TickAbortedError()
    found = receive_error(ship_error(disguised))
    assert type(found) is TickAbortedError and found.__cause__ is None


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: failure.name)
def test_a_failure(runs: tuple[Run, ShardedRun], failure: Failure) -> None:
    one, many = runs
    done = many.tick
    for tick in failure.before:
        assert deltas_of(many.step(tick)) == deltas_of(one.step(tick))
    with pytest.raises(DbspError) as expected:
        one.step(failure.fails)
    with pytest.raises(DbspError) as found:
        many.step(failure.fails)
    assert described(found.value) == described(expected.value)
    assert many.tick == done + len(failure.before)
    assert views(many) == views(one)
    # The rows of before leave, so no failure sees those of another.
    for tick in failure.before:
        back = {name: _undone(rows) for name, rows in tick.items()}
        assert deltas_of(many.step(back)) == deltas_of(one.step(back))


def test_the_sum_of_the_views_of_shards_is_checked(runs: tuple[Run, ShardedRun]) -> None:
    """Where no operator brings equal rows together, only the view has their sum."""
    one, many = runs
    ticks: list[Tick] = [{"projection": {(n, 1): BIG}} for n in range(4)]
    done: list[Tick] = []
    one.step(ticks[0])
    with pytest.raises(WeightOverflowError, match="the sum of weights is outside the 64-bit range"):
        one.step(ticks[1])
    with pytest.raises(WeightOverflowError, match="the sum of weights is outside the 64-bit range"):
        for tick in ticks:
            many.step(tick)
            done.append(tick)
            many.view("projected")
    for tick in done:
        many.step({"projection": dict.fromkeys(tick["projection"], -BIG)})
    one.step({"projection": {(0, 1): -BIG}})
    assert views(many) == views(one)


def _undone(rows: object) -> dict[tuple[int, ...], int]:
    weights = rows if isinstance(rows, dict) else dict.fromkeys(rows, 1)  # type: ignore[call-overload]
    return {row: -weight for row, weight in weights.items()}


RULES = """
    .decl n(x: number, y: number) .input n
    .decl part(x: number) .output part
    part(100 / x) :- n(x, y), y < 5.
    .decl edge(x: number, y: number) .input edge
    .decl power(x: number, y: number) .output power
    power(x, y) :- edge(x, y).
    power(x, z * z * 4) :- power(x, z), edge(x, _).
    .decl total(y: number, n: number) .output total
    total(y, t) :- n(_, y), t = sum x : { n(x, y) }.
    .decl text(t: symbol) .input text
    .decl value(v: number) .output value
    value(v) :- text(t), v = to_number(t).
"""


@pytest.mark.parametrize("shards", [1, 2, 3])
def test_failures_of_rules_show_their_line(shards: int) -> None:
    program = dbsp.compile(RULES)
    one = program.start()
    with program.start(shards=shards) as many:
        for change in (
            {"n": [(1, 1), (0, 2)]},
            {"edge": [(1, 3)]},
            {"n": {(BIG, 9): 1, (BIG - 1, 9): 1, (1, 9): 1}},
            {"text": [("12",), ("twelve",)]},
        ):
            with pytest.raises(DbspError) as expected:
                one.step(change)
            with pytest.raises(DbspError) as found:
                many.step(change)
            assert described(found.value) == described(expected.value)
            assert found.value.diagnostic == expected.value.diagnostic is not None
            assert deltas_of(many.step({"n": [(7, many.tick)]})) == deltas_of(
                one.step({"n": [(7, one.tick)]})
            )
            assert views(many) == views(one)


def test_more_shards_than_the_system_allows() -> None:
    circuit = Circuit("counted")
    circuit.output("out", circuit.input("a", x=int))
    with circuit.start(shards=2):
        pass
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 40, before[1]))
    try:
        with pytest.raises(ShardError, match=r"^cannot start 9 shards: Too many open files; start fewer"):
            circuit.start(shards=9)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == opened
