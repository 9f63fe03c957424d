"""A run that switches to another circuit of its query returns the same results as before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from dbsp import Circuit, CircuitError, DbspError, Run, Schema, UserFunctionError, col, count
from dbsp.circuit.graph import Node
from dbsp.circuit.operator import Operator
from dbsp.circuit.step import Step
from dbsp.circuit.step_scope import StepScope
from dbsp.runtime.scope_state import State
from tests.harness import deltas_of, view, views
from tests.profiles import examples
from tests.random_plans import Plan, build, changes, outputs, plans
from tests.strategies import Tick

CAP = 42

disguises = st.frozensets(st.integers(0, 14), max_size=4)
"""Which streams of a plan are written differently."""

schedules = st.lists(st.lists(disguises, max_size=2), min_size=1, max_size=6)
"""For some ticks the circuits to which the run switches before the tick, one after the other."""


def answer(run: Run, tick: Tick) -> Any:
    try:
        return deltas_of(run.step(tick)), views(run)
    except DbspError as error:
        return type(error).__name__


def follow_both(plan: Plan, out: list[int], sequence: list[Tick], schedule: Any, refusals: bool) -> None:
    """Step a replanned run and a run that is never replanned; both must return the same results."""
    run, other = (build(plan, out, CAP).start() for _ in range(2))
    for number, tick in enumerate(sequence):
        for disguised in schedule[number % len(schedule)]:
            before = views(run)
            try:
                done = run.replan(build(plan, out, CAP, disguised).circuit("physical"))
                event("rebuilt" if done.rebuilt else "kept all")
                event("kept and rebuilt" if done.kept and done.rebuilt else "not both")
                assert done.kept + done.rebuilt == len(run.scope.traces) + len(run.scope.tables)
            except CircuitError as error:
                event("refused")
                assert refusals, error
                assert "the run continues with its current circuit" in str(error)
            assert views(run) == before
        expected = answer(other, tick)
        assert answer(run, tick) == expected, f"tick {number} of {sequence}"
        assert run.tick == other.tick


@pytest.mark.slow
@settings(max_examples=examples(150))
@given(plans(timeless=True), outputs, changes(), schedules)
def test_ticks_after_replanning(plan: Plan, out: list[int], sequence: list[Tick], schedule: Any) -> None:
    """The circuit need not keep every row of the bag, so replanning may be refused."""
    follow_both(plan, out, sequence, schedule, refusals=True)


@pytest.mark.slow
@settings(max_examples=examples(80))
@given(plans(), outputs, changes(), schedules)
def test_state_that_depends_on_ticks_is_kept_or_refused(
    plan: Plan, out: list[int], sequence: list[Tick], schedule: Any
) -> None:
    follow_both(plan, out, sequence, schedule, refusals=True)


@pytest.mark.slow
@settings(max_examples=examples(60))
@given(plans(failing=True), outputs, changes(), schedules)
def test_after_ticks_that_failed(plan: Plan, out: list[int], sequence: list[Tick], schedule: Any) -> None:
    follow_both(plan, out, sequence, schedule, refusals=True)


# --- by hand --------------------------------------------------------------------------------------


def triangles(first: str, kind: str = "set") -> Circuit:
    """Triangles over three relations, joined in one of two orders."""
    circuit = Circuit("triangles")
    e, f, g = (
        circuit.input(name, schema={a: int, b: int}, kind=kind)
        for name, a, b in (("e", "x", "y"), ("f", "y", "z"), ("g", "z", "x"))
    )
    found = (
        e.join(f, on=["y"]).join(g, on=["z", "x"])
        if first == "f"
        else e.join(g, on=["x"]).join(f, on=["y", "z"])
    )
    circuit.output("triangle", found.select("x", "y", "z"))
    circuit.output("degree", e.group_by("x").agg(n=count(), most=col("y").max()))
    return circuit


EDGES = {"e": [(1, 2), (4, 2)], "f": [(2, 3)], "g": [(3, 1)]}


def test_state_that_both_circuits_keep_is_taken_over() -> None:
    run = triangles("f").start()
    run.step(EDGES)
    before = {id(trace) for trace in run.scope.traces}
    done = run.replan(triangles("f").circuit("physical"))
    assert (done.kept, done.rebuilt, done.dropped) == (len(before), 0, 0)
    assert {id(trace) for trace in run.scope.traces} == before
    done = run.replan(triangles("g").circuit("physical"))
    after = {id(trace) for trace in run.scope.traces}
    assert len(before & after) == done.kept > 0 < done.rebuilt == len(after - before)
    assert done.dropped == len(before - after)
    assert run.graph.same_as(triangles("g").circuit("physical"))
    assert str(done).startswith(f"{done.kept} traces kept, {done.rebuilt} rebuilt, {done.dropped} dropped")


def test_handles_staged_changes_statistics_and_tick_numbers_continue() -> None:
    run = triangles("f").start()
    run.observe()
    run.step(EDGES)
    stepped = {stats.node.label: stats.steps for stats in run.stats()}
    handle = run.input("f")
    handle.insert([(2, 5)])
    run.replan(triangles("g").circuit("physical"))
    assert view(run, "triangle") == {(1, 2, 3): 1}
    assert {s.node.label: s.steps for s in run.stats() if s.node.label == "Input e"} == {
        "Input e": stepped["Input e"]
    }
    result = run.step({"g": [(5, 4)]})
    assert result.number == run.tick == 2
    assert result["triangle"].to_dict() == {(4, 2, 5): 1}
    handle.delete([(2, 3)])
    assert run.step()["triangle"].to_dict() == {(1, 2, 3): -1}


def test_before_the_first_tick_any_circuit_is_accepted() -> None:
    run = triangles("f").start()
    run.input("e").insert([(1, 2)])
    assert run.replan(triangles("g").circuit("physical")).kept == 0
    assert run.step({"f": [(2, 3)], "g": [(3, 1)]})["triangle"].to_dict() == {(1, 2, 3): 1}


def test_an_error_while_rebuilding_leaves_the_run_as_it_was() -> None:
    def built(function: Any) -> Circuit:
        circuit = Circuit("c")
        a = circuit.input("a", x=int, kind="set")
        circuit.output("small", a.filter(function))
        circuit.output("all", a.distinct())
        return circuit

    def refuse(row: Any) -> bool:
        raise ValueError("no")

    run = built(lambda row: row.x < 5).start()
    run.step({"a": [(1,), (7,)]})
    graph, kept = run.graph, run.state_rows
    with pytest.raises(UserFunctionError, match="no") as raised:
        run.replan(built(refuse).circuit("physical"))
    assert "the run continues with its current circuit" in raised.value.__notes__[0]
    assert run.graph is graph and run.state_rows == kept
    assert deltas_of(run.step({"a": [(2,)]})) == {"small": {(2,): 1}, "all": {(2,): 1}}
    with pytest.raises(CircuitError, match="belongs to another query: output 'small' would have other rows"):
        run.replan(built(lambda row: row.x < 2).circuit("physical"))
    assert run.step({"a": {(1,): -1}})["small"].to_dict() == {(1,): -1}


def test_other_inputs_or_outputs_are_refused() -> None:
    run = triangles("f").start()
    with pytest.raises(CircuitError, match="belongs to another query: input 'e' is not the same in both"):
        run.replan(triangles("f", "zset").circuit("physical"))
    with pytest.raises(CircuitError, match="this run has no planner"):
        run.replan()


def test_a_circuit_that_needs_rows_that_are_not_kept_is_refused() -> None:
    def built(late: bool) -> Circuit:
        circuit = Circuit("c")
        a, b = circuit.input("a", x=int), circuit.input("b", x=int)
        condition = col("x") > 1
        joined = (a if late else a.filter(condition)).join(b, on=["x"])
        circuit.output("out", joined.filter(lambda row: row.x > 1) if late else joined)
        return circuit

    run = built(late=False).start()
    run.step({"a": [(1,), (2,)], "b": [(1,), (2,)]})
    with pytest.raises(
        CircuitError, match=r"Input at .*needs all past rows of this node.* \[rows-not-kept\]$"
    ):
        run.replan(built(late=True).circuit("physical"))
    assert run.step({"b": [(2,)]})["out"].to_dict() == {(2,): 1}


def test_a_watermark_is_kept_and_a_new_one_refused() -> None:
    def built(lateness: int, flipped: bool) -> Circuit:
        circuit = Circuit("c")
        a = circuit.input("a", t=int, k=int)
        b = circuit.input("b", k=int, v=int, kind="set")
        timely = a.watermark("t", lateness=lateness).on_time
        circuit.output(
            "joined",
            timely.join(b, on=["k"]) if not flipped else b.join(timely, on=["k"]).select("t", "k", "v"),
        )
        return circuit

    run, other = built(5, False).start(), built(5, False).start()
    for each_run in (run, other):
        each_run.step({"a": [(10, 1)], "b": [(1, 7)]})
    run.replan(built(5, True).circuit("physical"))
    with pytest.raises(CircuitError, match=r"depends on the past ticks.* \[different-circuits\]$"):
        run.replan(built(6, True).circuit("physical"))
    for tick in ({"a": [(4, 1), (5, 1)]}, {"b": {(1, 7): -1}}, {"b": [(1, 8)]}):
        assert deltas_of(run.step(tick)) == deltas_of(other.step(tick))


def test_state_that_replanning_cannot_copy_is_refused() -> None:
    run = counted(0).start()
    run.step({"a": [(1,)]})
    with pytest.raises(CircuitError, match=r"define `memory` and `recall`.* \[state-not-copied\]$"):
        run.replan(counted(0).circuit("physical"))
    assert run.step({"a": [(2,)]})["out"].to_dict() == {(2,): 1}


@dataclass(frozen=True)
class Secretive(Operator):
    """Emits its input; its step keeps state that is neither a trace nor a table."""

    n: int

    def schema(self, *inputs: Schema) -> Schema:
        return inputs[0]

    def start(self, node: Node, sources: Sequence[Step], scope: StepScope) -> Step:
        return SecretiveStep(sources[0], scope)


class SecretiveStep(Step):
    def __init__(self, source: Step, scope: StepScope) -> None:
        super().__init__()
        self.source = source
        self.scope = scope
        self.seen = 0

    def step(self) -> None:
        self.out = self.source.out
        self.scope.journal.append(self)

    def commit(self) -> None:
        self.seen += 1

    def rollback(self) -> None:
        """Restore nothing, since a tick is counted at its commit."""


@dataclass(frozen=True)
class Late(Operator):
    """An operator whose step gets a table in its first step instead of in `start`."""

    def schema(self, *inputs: Schema) -> Schema:
        return inputs[0]

    def start(self, node: Node, sources: Sequence[Step], scope: StepScope) -> Step:
        return LateStep(scope)


class LateStep(Step):
    def __init__(self, scope: StepScope) -> None:
        super().__init__()
        self.scope = scope

    def step(self) -> None:
        self.scope.new_table()


def test_state_must_be_created_at_the_start() -> None:
    circuit = Circuit("c")
    circuit.output("out", Late()(circuit.input("a", x=int)))
    with pytest.raises(CircuitError, match=r"must get its traces and tables in Operator.start.* \[scope-mis"):
        circuit.start().step({"a": [(1,)]})


def counted(n: int) -> Circuit:
    circuit = Circuit("c")
    circuit.output("out", Secretive(n)(circuit.input("a", x=int)))
    return circuit


def test_live_rows_and_drift() -> None:
    run = triangles("f").start()
    assert run.drift() == 1.0
    run.step({"e": [(2, 1), (1, 2), (1, 3)]})
    rows = run.rows("e")
    assert rows is not None and rows.tolist() == [[1, 2], [1, 3], [2, 1]]
    assert run.drift() == 4.0
    assert run.rows("nothing of that name") is None
    run.replan(triangles("g").circuit("physical"))
    assert run.drift() == 1.0
    rows = run.rows("e")
    assert rows is not None and rows.tolist() == [[1, 2], [1, 3], [2, 1]]


def test_an_equal_recursion_keeps_all_of_its_state() -> None:
    def built(extra: bool) -> Circuit:
        circuit = Circuit("c")
        edge = circuit.input("edge", x=int, y=int, kind="set")
        colour = circuit.input("colour", y=int, c=int, kind="set")
        with circuit.fixpoint("path") as scope:
            path = scope.variable("path", edge.schema)
            step = path.join(edge, on=[("y", "x")], select=["x", "y_right"]).rename(y="y_right")
            scope.define(path, (edge + step).distinct())
        found = scope.leave(path)
        if extra:
            joined = colour.join(found, on=["y"]).select("x", "y", "c")
            circuit.output("out", joined.group_by("c").agg(n=count()))
        else:
            circuit.output("out", found.join(colour, on=["y"]).group_by("c").agg(n=count()))
        return circuit

    run = built(False).start()
    run.step({"edge": [(1, 2), (2, 3), (3, 1)], "colour": [(1, 0), (3, 1)]})
    inner = {
        id(trace) for child in run.scope.children for kept in child.state.by_node.values() for trace in kept
    }
    run.replan(built(True).circuit("physical"))
    assert inner == {id(state) for state in inner_states(run)}
    assert run.iterations()["path"] > 1
    assert deltas_of(run.step({"edge": {(3, 1): -1}})) == {"out": {(0, 3): -1, (1, 3): -1, (1, 2): 1}}


def inner_states(run: Run) -> list[State]:
    """Return the state of the nested scopes of a run."""
    return [
        state for child in run.scope.children for states in child.state.by_node.values() for state in states
    ]
