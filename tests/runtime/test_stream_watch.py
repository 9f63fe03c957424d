"""Watches of streams and traces of ticks: their content and their errors."""

from __future__ import annotations

import datetime as dt
import warnings
from typing import Any

import pytest
from hypothesis import given, settings

import dbsp
from dbsp import ArgumentError, Circuit, CircuitError, InputError, Run, UserFunctionError, col
from dbsp.runtime.stream_watch import WatchedTick

from ..harness import deltas_of, views
from ..random_datalog import programs
from ..reference import add
from .test_tick_recording import CHANGES, PATHS


def paths() -> Run:
    return dbsp.compile(PATHS).start()


def node_of(run: Run, operator: str) -> Any:
    return next(node for node in run.graph.walk() if node.operator.name == operator)


def test_a_watch_has_the_delta_the_iterations_and_the_integral() -> None:
    run = paths()
    seen: list[tuple[Any, ...]] = []

    def note(tick: WatchedTick) -> None:
        pieces = {time: delta.to_dict() for time, delta in tick.by_iteration.items()}
        seen.append((tick.number, tick.delta.to_dict(), pieces, tick.integral().rows()))

    run.watch(node_of(run, "Join"), note)
    run.step({"edge": [(1, 2), (2, 3), (3, 4)]})
    run.step({})
    run.step({"edge": [(4, 5)]})
    first = {(1,): {(1, 3): 1, (2, 4): 1}, (2,): {(1, 4): 1}}
    longer = [(1, 3), (1, 4), (2, 4)]
    second = {(1, 5): 1, (2, 5): 1, (3, 5): 1}
    assert seen == [
        (1, dict.fromkeys(longer, 1), first, longer),
        (3, second, {(0,): second}, sorted([*longer, *second])),
    ]


def test_a_watch_of_every_stream_has_the_deltas_of_the_recording() -> None:
    run = paths()
    recording = run.record()
    watches = {path: run.watch(node) for path, node in recording.streams().items()}
    for tick in ([(1, 2), (2, 3)], {(2, 3): -1}, [(3, 1), (2, 3)]):
        run.step({"edge": tick})
        for path, watch in watches.items():
            pieces = recording.by_iteration(path)
            if watch.latest is not None and watch.latest.number == run.tick:
                assert watch.latest.by_iteration == pieces
            else:
                assert pieces == {}


def test_a_watch_ends() -> None:
    run = paths()
    seen: list[int] = []

    def note(tick: WatchedTick) -> None:
        seen.append(tick.number)
        watch.stop()

    watch = run.watch("path", note)
    other = run.watch("edge")
    assert repr(watch) == "<watch of path>"
    run.step({"edge": [(1, 2)]})
    run.step({"edge": [(2, 3)]})
    assert seen == [1]
    assert other.latest is not None
    assert other.latest.delta.rows() == [(2, 3)]
    assert repr(other.latest) == "<tick 2 of edge: 1 row changed>"
    other.stop()
    assert run.observers == run.scope.observers == []
    assert run.scope.listeners == []


def test_a_callback_that_raises_leaves_the_tick_committed() -> None:
    run = paths()

    def fail(tick: WatchedTick) -> None:
        raise ValueError("no disk")

    run.watch("path", fail)
    later = run.watch("edge")
    with pytest.raises(
        UserFunctionError,
        match=r"callback of the watch of path raised ValueError: no disk; it was called after the commit",
    ) as caught:
        run.step({"edge": [(1, 2)]})
    assert isinstance(caught.value.__cause__, ValueError)
    assert run.tick == 1
    assert run.view("path").rows() == [(1, 2)]
    assert later.latest is not None
    assert run.step({})["path"].rows() == []


def test_a_callback_must_not_change_the_run() -> None:
    run = paths()
    refused: list[str] = []

    def change(tick: WatchedTick) -> None:
        for call in (run.step, lambda: run.watch("edge"), run.record, run.trace_tick):
            with pytest.raises(CircuitError) as caught:
                call()
            refused.append(caught.value.message.split(" ")[0])

    run.watch("path", change)
    run.step({"edge": [(1, 2)]})
    assert refused == ["step", "watch", "record", "trace_tick"]


def test_wrong_watches() -> None:
    run = paths()
    with pytest.raises(ArgumentError, match="callback: expected a function of a watched tick, got 3"):
        run.watch("path", 3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="unknown stream 'pth'; did you mean 'path'"):
        run.watch("pth")
    watch = run.watch("path")
    run.step({"edge": [(1, 2)]})
    first = watch.latest
    run.step({"edge": [(2, 3)]})
    assert first is not None
    with pytest.raises(InputError, match=r"the run is past tick 1, so the watch has no integral as of it"):
        first.integral()


def test_a_tick_that_fails_notifies_no_watch() -> None:
    circuit = Circuit("division")
    circuit.output("half", circuit.input("a", x=int).map(x=10 // col("x")))
    run = circuit.start()
    watch = run.watch("a")
    with pytest.raises(dbsp.EvaluationError):
        run.step({"a": [(0,)]})
    run.step({})
    assert watch.latest is None


def test_a_watch_in_a_tick_that_restarts_the_scope() -> None:
    run = paths()
    inner, outer = run.watch(node_of(run, "Join")), run.watch("path")
    run.step({"edge": [(1, 2), (2, 3)]})
    run.step({"edge": {(2, 3): -1}})
    assert outer.latest is not None
    assert inner.latest is not None
    assert outer.latest.delta.to_dict() == {(1, 3): -1, (2, 3): -1}
    with pytest.raises(InputError, match=r"tick 2 restarted scope 'path', so no iteration emitted"):
        _ = inner.latest.delta
    assert inner.latest.integral().rows() == []


def test_a_watch_follows_the_run_or_says_that_it_has_ended() -> None:
    run = paths()
    relation, node = run.watch("path"), run.watch(node_of(run, "Join"))
    run.step({"edge": [(1, 2)]})
    run.replan(dbsp.compile(PATHS).circuit("physical"))
    with pytest.warns(UserWarning, match="has ended: before tick 2, the run switched to a circuit without"):
        run.step({"edge": [(2, 3)]})
    assert relation.latest is not None
    assert relation.latest.delta.rows() == [(1, 3), (2, 3)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run.step({"edge": [(3, 4)]})
    assert node.latest is None


# --- traces ---------------------------------------------------------------------------------------


@settings(max_examples=5)
@given(programs(), CHANGES)
def test_a_traced_tick_is_the_tick_that_step_makes(text: str, changes: list[Any]) -> None:
    graph = dbsp.compile(text).circuit("physical")
    run, plain = Run(graph), Run(graph)
    recording = run.record()
    for tick in [{}, *changes]:
        before = (views(run), run.tick, run.state_rows)
        dry = run.trace_tick(tick, commit=False)
        assert (views(run), run.tick, run.state_rows) == before
        assert len(recording.ticks) == run.tick
        trace = run.trace_tick(tick)
        expected = plain.step(tick)
        assert deltas_of(trace.result) == deltas_of(dry.result) == deltas_of(expected)
        assert [(s.path, s.time, s.emitted, dict(s.read)) for s in trace] == [
            (s.path, s.time, s.emitted, dict(s.read)) for s in dry
        ]
        sums: dict[str, Any] = {}
        for step in trace:
            sums[step.path] = add(sums.get(step.path, {}), step.emitted.to_dict())
        recorded = {path: delta.to_dict() for path, delta in recording.deltas().items()}
        assert {path: rows for path, rows in sums.items() if rows} == recorded
        top = [step.node for step in trace if not step.time]
        assert top == list(run.graph.nodes)
        assert views(run) == views(plain)


def test_the_steps_of_a_tick() -> None:
    run = paths()
    run.step({"edge": [(1, 2), (2, 3)]})
    trace = run.trace_tick({"edge": [(3, 4)]})
    assert repr(trace) == f"<trace of tick 2: {len(trace)} steps, 27 rows>"
    assert trace.at(0).emitted.to_dict() == {(3, 4): 1}
    assert trace.at(-1) is trace[-1] is trace.steps[-1]
    assert trace[:2] == trace.steps[:2]
    inside = [(step.scope, step.time) for step in trace if step.time]
    scope = node_of(run, "Fixpoint").operator.body
    assert inside == [("path", (i,)) for i in (0, 1) for _ in scope.nodes]
    places = [step.node.operator.name for step in trace]
    assert places.index("Fixpoint") > places.index("Delay")
    join = next(step for step in trace if step.node.operator.name == "Join")
    assert join.emitted.to_dict() == {(1, 4): 1, (2, 4): 1}
    assert [zset.to_dict() for zset in join.read.values() if zset] == [{(3, 4): 1}]
    delays = [step for step in trace if step.node.operator.name == "Delay"]
    assert [step.emitted.to_dict() for step in delays] == [{}, {(1, 4): 1, (2, 4): 1, (3, 4): 1}]
    assert next(iter(delays[1].read.values())) == delays[1].emitted
    lines = str(join).splitlines()
    assert lines[0].startswith(f"{join.index}: {join.path} {join.label} at path 0, ")
    assert lines[-1] == "  emitted {(1, 4): 1, (2, 4): 1}"
    assert all(step.seconds > 0 for step in trace)
    inner = sum(step.seconds for step in trace if step.time)
    assert inner < sum(step.seconds for step in trace if not step.time) < trace.seconds


def test_a_traced_tick_applies_what_was_staged() -> None:
    run = paths()
    run.input("edge").insert([(1, 2)])
    assert run.trace_tick(commit=False).result["path"].rows() == [(1, 2)]
    assert run.trace_tick().result["path"].rows() == [(1, 2)]
    assert run.trace_tick().result["path"].rows() == []
    assert run.tick == 2


def test_a_traced_tick_with_too_many_rows() -> None:
    run = paths()
    trace = run.trace_tick({"edge": [(x, x + 1) for x in range(9)]}, max_rows=50)
    assert run.tick == 1
    assert len(trace.result["path"]) == 45
    with pytest.raises(InputError, match=r"tick 1 has more rows than max_rows in the recorded streams"):
        trace.at(0)


def test_a_traced_tick_that_fails_leaves_nothing() -> None:
    circuit = Circuit("division")
    circuit.output("half", circuit.input("a", x=int).map(x=10 // col("x")))
    run = circuit.start()
    for commit in (True, False):
        with pytest.raises(dbsp.EvaluationError):
            run.trace_tick({"a": [(0,)]}, commit=commit)
    assert run.observers == run.scope.observers == run.scope.listeners == []
    assert run.step({"a": [(5,)]})["half"].rows() == [(2,)]


def test_a_traced_step_shows_rows_that_are_equal_in_python() -> None:
    circuit = Circuit("t")
    circuit.output("o", circuit.input("a", at="timestamptz(Europe/Rome)"))
    night = dt.datetime(2024, 10, 27, tzinfo=dt.UTC)
    rows = [(night + dt.timedelta(minutes=minutes),) for minutes in (30, 90)]
    trace = circuit.start().trace_tick({"a": rows})
    assert str(trace[0]).count("datetime(2024, 10, 27, 2, 30, ") == 2
