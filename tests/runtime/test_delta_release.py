"""Ticks of many rows release each delta after its last reader, and return the same deltas."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbsp
from dbsp import Circuit, CircuitError, Run, UserFunctionError, col, count
from dbsp.data import batch as batches
from dbsp.data import piece_batch
from dbsp.data.piece_batch import PieceBatch
from dbsp.kernels.arrays import Codes
from dbsp.operators.ports.output import OutputStep
from dbsp.operators.recursion import iterated_scope
from dbsp.operators.recursion.fixpoint_step import FixpointStep
from dbsp.runtime import ticks as run_ticks
from dbsp.runtime.delta_release import release_plan
from tests.harness import deltas_of, views
from tests.profiles import examples
from tests.random_circuits import Choices, build, choices
from tests.runtime.test_scheduler import changes, started
from tests.strategies import Tick


@contextmanager
def releasing() -> Iterator[None]:
    """Release the deltas in every tick and iteration, sort every batch in its own memory if it is
    the only one, and sum the matches of joins where they are read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_ticks, "MANY", -1)
        patch.setattr(iterated_scope, "MANY_ROWS", 0)
        patch.setattr(batches, "LEAST_IN_PLACE", 1)
        patch.setattr(piece_batch, "LARGE", 1)
        yield


@pytest.fixture
def always() -> Iterator[None]:
    with releasing():
        yield


def shop() -> Circuit:
    circuit = Circuit("shop")
    orders = circuit.input("orders", o=int, c=int, amount=int, kind="set")
    customers = circuit.input("customers", c=int, region=int)
    sales = orders.join(customers, on=["c"], select=["o", "region", "amount"])
    circuit.output("sales", sales)
    circuit.output("regions", sales.distinct().group_by("region").agg(n=count()))
    return circuit


def table(rows: int) -> dict[str, Any]:
    values = np.random.default_rng(rows).permutation(rows)
    keys = np.arange(rows // 10)
    return {
        "orders": {"o": values, "c": values % (rows // 10), "amount": values % 7},
        "customers": {"c": keys, "region": keys % 5},
    }


def compared(run: Run, other: Run, ticks: list[Tick]) -> None:
    for tick in ticks:
        with releasing():
            found = deltas_of(run.step(tick))
        assert found == deltas_of(other.step(tick))
        assert views(run) == views(other)


@settings(max_examples=examples(25))
@given(choices())
def test_random_circuits(chosen: Choices) -> None:
    ticks: list[Tick] = [
        {"a": {(1, 2, "s"): 1, (2, 3, "t"): 2}, "b": {(2, 1, "s"): 1}},
        {"a": {(1, 2, "s"): -1, (3, 1, "t"): 1}, "b": {(3, 3, "u"): 1}},
        {"b": {(2, 1, "s"): -1}},
    ]
    run, other = build(chosen).start(), build(chosen).start()
    names = {name: port.columns.arity for name, port in run.input_ports.items()}
    assert set(names) <= {"a", "b"}
    compared(run, other, [{n: d for n, d in tick.items() if n in names} for tick in ticks])


@settings(max_examples=examples(6), deadline=None)
@given(changes(), changes(), changes())
def test_every_stateful_operator(first: Tick, second: Tick, third: Tick) -> None:
    compared(started(), started(), [first, second, third])


RULES = """
    .decl p(x: number, z: number)
    .decl q(x: number, r: number, z: number)
    .decl s(r: number, q: number)
    .input p, q, s
    .output p, q
    p(x, z) :- p(x, y), p(y, z).
    p(x, z) :- p(y, w), q(w, r, z), q(x, r, y).
    q(x, r, z) :- p(x, y), q(y, r, z).
    q(x, t, z) :- q(x, r, z), s(r, t).
    .decl apart(x: number, z: number)
    .output apart
    apart(x, z) :- p(x, _), p(_, z), !p(x, z).
"""


def facts(columns: int) -> st.SearchStrategy[dict[tuple[int, ...], int]]:
    return st.dictionaries(st.tuples(*[st.integers(0, 3)] * columns), st.sampled_from([1, 1, -1]), max_size=6)


@pytest.mark.parametrize("mode", ["auto", "incremental", "insert-only"])
def test_recursive_unions_of_joins(mode: str) -> None:
    program = dbsp.compile(RULES, recursion=mode)
    ticks = st.lists(st.fixed_dictionaries({"p": facts(2), "q": facts(3), "s": facts(2)}), max_size=4)

    @settings(max_examples=examples(40), deadline=None)
    @given(ticks)
    def check(changes: list[Tick]) -> None:
        compared(program.start(), program.start(), changes)

    check()


@pytest.mark.parametrize("mode", ["auto", "incremental"])
def test_released_iterations_count_the_same_work(mode: str) -> None:
    """The work decides when a scope restarts, so it must not depend on the release of deltas."""
    program = dbsp.compile(RULES, recursion=mode)
    runs = program.start(), program.start()
    for tick in (
        {"p": [(x, x + 1) for x in range(9)], "q": [(x, 1, x + 1) for x in range(4)], "s": [(1, 2)]},
        {"p": {(9, 10): 1}, "q": {(4, 1, 5): 1}},
        {"p": {(3, 4): -1}},
    ):
        with releasing():
            runs[0].step(tick)
        runs[1].step(tick)
        work = [[step.history for step in run._scope.steps if isinstance(step, FixpointStep)] for run in runs]
        assert work[0] and work[0][0].restart_work > 100
        assert str(work[0]) == str(work[1])


@pytest.mark.usefixtures("always")
def test_joins_leave_their_matches_to_a_union(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    genuine = PieceBatch.take

    def take(self: PieceBatch) -> list[tuple[Codes, Codes]]:
        taken.append(1)
        return genuine(self)

    monkeypatch.setattr(PieceBatch, "take", take)
    circuit = Circuit("paths")
    a, b = circuit.input("a", x=int, y=int), circuit.input("b", y=int, z=int)
    joined = a.join(b, on=["y"], select=["x", "z"])
    other = b.join(a, on=[("z", "x")], select=["y", "y_right"]).rename(x="y", z="y_right")
    circuit.output("all", joined + other)
    run = circuit.start()
    found = run.step({"a": [(1, 2), (3, 2)], "b": [(2, 1), (2, 3), (2, 1)]})["all"]
    assert found.to_dict() == {(1, 1): 2, (1, 3): 1, (3, 1): 2, (3, 3): 1, (2, 2): 3}
    assert len(taken) == 2
    circuit.output("one", joined)  # another reader
    taken.clear()
    again = circuit.start()
    assert again.step({"a": [(1, 2), (3, 2)], "b": [(2, 1), (2, 3), (2, 1)]})["all"] == found
    assert len(taken) == 1


@pytest.mark.usefixtures("always")
def test_matches_that_are_sorted_are_merged_by_a_union(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    monkeypatch.setattr(PieceBatch, "take", lambda _: taken.append(1))
    circuit = Circuit("outer")
    a, b = circuit.input("a", x=int, y=int), circuit.input("b", y=int, z=int)
    circuit.output("all", a.join(b, on="y", how="left"))  # the check for -2**63 reads the matches
    found = circuit.start().step({"a": [(1, 2), (3, 2), (4, 4)], "b": [(2, 1), (2, 3), (2, 1)]})["all"]
    assert found.to_dict() == {(1, 2, 1): 2, (1, 2, 3): 1, (3, 2, 1): 2, (3, 2, 3): 1, (4, 4, None): 1}
    assert not taken


@pytest.mark.usefixtures("always")
def test_a_failed_tick_is_rolled_back() -> None:
    def refuse(row: Any) -> bool:
        if row.n == 3:
            raise RuntimeError("three")
        return True

    circuit = shop()
    bombs = circuit.input("bombs", n=int)
    circuit.output("checked", bombs.filter(refuse))
    run = circuit.start()
    run.step({**table(200), "bombs": [(1,)]})
    before = views(run)
    with pytest.raises(UserFunctionError):
        run.step({"orders": [(1000, 1, 1)], "bombs": [(3,)]})
    assert views(run) == before
    found = deltas_of(run.step({"orders": [(1000, 1, 1)]}))
    assert found["sales"] == {(1000, 1, 1): 1}


def test_deltas_that_nobody_reads_again_are_released(monkeypatch: pytest.MonkeyPatch) -> None:
    run = shop().start()
    run.kept_changes = 100
    left: list[set[str]] = []
    widths: list[set[bool]] = []
    genuine = OutputStep.step

    def step(self: OutputStep) -> None:
        genuine(self)
        newest = [trace.current[-1] for trace in run.scope.traces if trace.current]
        widths.append({each.narrow for each in newest if each.size >= 4_096})
        left.append({each.node.operator.name for each in run.scope.steps if each.out is not None})

    monkeypatch.setattr(OutputStep, "step", step)
    run.step(table(5_000))
    assert left[-1].isdisjoint({"Input", "Join", "Distinct"})
    assert True in widths[-1]  # before the end of the tick
    run.step({"orders": [(9_999, 1, 1)]})  # a small tick keeps them
    assert left[-1] >= {"Input", "Join", "Distinct"}
    narrow = [each.narrow for trace in run.scope.traces for each in trace.runs if each.size >= 4096]
    assert narrow and all(narrow)


def test_the_plan_keeps_what_is_read_later() -> None:
    circuit = Circuit("plan")
    a = circuit.input("a", x=int)
    delayed = a.distinct().delay()
    circuit.output("late", delayed)
    circuit.output("changes", a.filter(col("x") > 1).differentiate())
    pair = circuit.input("p", x=int, r=tuple)
    circuit.output("pairs", pair.filter(col("x") > 0))
    run = circuit.start()
    steps = run.scope.steps
    released = [step for _, finished in release_plan(steps) for step in finished]
    assert len(set(released)) == len(released)
    place = {step.node: at for at, step in enumerate(steps)}
    for at, (_, finished) in enumerate(release_plan(steps)):
        for step in finished:
            readers = [
                place[each.node]
                for each in steps
                if step.node in [stream.node for stream in (*each.node.inputs, *each.node.strict)]
            ]
            assert at == max([place[step.node], *readers])
    names = {step.node.operator.name for step in steps} - {step.node.operator.name for step in released}
    assert names >= {"Output", "Distinct", "Filter"}


@pytest.mark.parametrize("kept", [10, 100_000])
def test_changed_after_a_large_tick(kept: int) -> None:
    run = shop().start()
    run.kept_changes = kept
    run.step(table(5_000))
    if kept == 10:
        with pytest.raises(CircuitError, match="the tick changed more than 10 rows"):
            run.changed("orders")
    else:
        assert len(run.changed("orders")) == 5_000
    run.step({"orders": {(-1, 1, 1): 1}})
    assert run.changed("orders").to_dict() == {(-1, 1, 1): 1}


def test_observers_of_a_large_tick_receive_every_delta() -> None:
    circuit = Circuit("watched")
    received: list[int] = []
    source = circuit.input("a", x=int)
    circuit.output("out", source.filter(col("x") >= 0).inspect(lambda change: received.append(len(change))))
    run = circuit.start()
    rows = {"a": {"x": np.arange(5_000)}}
    run.step(rows)
    recording = run.record(ticks=1)
    run.step(rows)
    assert received == [5_000, 5_000]
    assert len(recording.delta("a", 2)) == len(recording.delta("out", 2)) == 5_000


def test_a_transaction_of_large_parts() -> None:
    run, other = shop().start(), shop().start()
    run.kept_changes = 100
    with run.transaction() as transaction:
        for part in table(5_000).items():
            transaction.step(dict([part]))
    result = other.step(table(5_000))
    assert deltas_of(transaction.result) == deltas_of(result)
    assert views(run) == views(other)
    with pytest.raises(CircuitError, match="does not keep"):
        run.changed("orders")
