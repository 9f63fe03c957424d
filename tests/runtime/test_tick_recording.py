"""Recordings: every delta and every integral, compared with runs that start from scratch."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbsp
from dbsp import (
    ArgumentError,
    Circuit,
    CircuitError,
    InputError,
    IterationLimitError,
    Run,
    Stream,
    col,
    lit,
)
from dbsp.runtime.tick_recording import Recording

from ..harness import apply
from ..random_circuits import Choices, build, choices
from ..random_datalog import INPUTS
from ..reference import Z, minus
from ..strategies import Tick, nullable, rows, set_ticks, small, ticks, words

CHANGES = set_ticks({name: rows(*[st.integers(0, 3)] * arity) for name, arity in INPUTS.items()}, 3, 4)
PATHS = """
    .decl edge(x: number, y: number)
    .input edge
    .decl path(x: number, y: number)
    .output path
    path(x, y) :- edge(x, y).
    path(x, z) :- path(x, y), edge(y, z).
"""


def integrals_from_scratch(run: Run, inputs: Mapping[str, Z]) -> dict[str, Z]:
    """Return the integral of every stream of a new run: what it emits for all rows in one tick.

    Inside a scope, this is the sum over the iterations of an evaluation from scratch.
    """
    recording = run.record()
    run.step(inputs)
    return {path: delta.to_dict() for path, delta in recording.deltas().items()}


def check_streams(recording: Recording, states: list[dict[str, Z]], place: int) -> None:
    """Compare all deltas, and the integrals as of one of the ticks."""
    for number, (before, after) in enumerate(pairwise(states), 1):
        for path, node in recording.streams(number).items():
            name = f"{path} {node.label} at tick {number}"
            expected = minus(after.get(path, {}), before.get(path, {}))
            assert recording.delta(path, number).to_dict() == expected, name
            if number == place % (len(states) - 1) + 1:
                assert recording.integral(path, number).to_dict() == after.get(path, {}), name


@pytest.mark.parametrize("mode", ["auto", "incremental"])
def test_a_scope_that_converges_early_or_restarts(mode: str) -> None:
    graph = dbsp.compile(PATHS, recursion=mode).circuit("physical")
    run = Run(graph)
    recording = run.record()
    chain = [(x, x + 1) for x in range(24)]
    states: list[dict[str, Z]] = [{}]
    edges: dict[str, Z] = {"edge": {}}
    for tick in ({"edge": dict.fromkeys(chain, 1)}, {"edge": {(2, 3): -1}}, {"edge": {(2, 3): 1}}):
        run.step(tick)
        apply(edges, tick, ["edge"])
        states.append(integrals_from_scratch(Run(graph), edges))
    evaluated = [recording.scopes(number)["path"] for number in recording.ticks]
    assert evaluated == ["changes", "restart" if mode == "auto" else "converged early", "changes"]
    for place in range(3):
        check_streams(recording, states, place)


@settings(max_examples=5)
@given(choices(), ticks({name: rows(small, nullable, words) for name in "ab"}, max_ticks=3, max_size=3))
def test_streams_of_the_query_have_the_same_deltas_in_every_stage(
    chosen: Choices, changes: list[Tick]
) -> None:
    circuit = build(chosen)
    runs = [circuit.start(stage) for stage in ("physical", "incremental")]
    physical, incremental = (run.record() for run in runs)
    for tick in [{}, *changes]:
        try:
            runs[0].step(tick)
        except IterationLimitError:
            return
        runs[1].step(tick)
    compared = 0
    for node in circuit.nodes:
        stream = Stream(node)
        try:
            physical.delta(stream, 1)
        except InputError as error:
            assert error.code == "unknown-stream"
            continue
        compared += 1
        for number in physical.ticks:
            one, other = physical.delta(stream, number), incremental.delta(stream, number)
            assert one.to_dict() == other.to_dict(), f"{node.label} at tick {number}"
    assert compared >= 1


# --- bounds ---------------------------------------------------------------------------------------


def shop() -> Circuit:
    circuit = Circuit("shop")
    sale = circuit.input("sale", shop=str, euro=int)
    big = sale.filter(col("euro") > 5)
    circuit.output("sums", big.group_by("shop").agg(euro=col("euro").sum()))
    return circuit


def test_the_oldest_ticks_are_dropped() -> None:
    run = shop().start()
    recording = run.record(ticks=3)
    for n in range(5):
        run.step({"sale": [("a", 10 + n)]})
    assert (recording.ticks, recording.dropped, recording.truncated) == ((3, 4, 5), 2, ())
    assert [recording.integral("sums", number).rows() for number in (2, 3, 4, 5)] == [
        [("a", 21)],
        [("a", 33)],
        [("a", 46)],
        [("a", 60)],
    ]
    with pytest.raises(InputError, match="the recording has ticks 3 to 5, got tick 2; choose one of them"):
        recording.delta("sums", 2)
    with pytest.raises(InputError, match="got tick 1"):
        recording.integral("sums", 1)


def test_rows_are_bounded_and_a_larger_tick_says_so() -> None:
    run = shop().start()
    recording = run.record(max_rows=20)
    run.step({"sale": [("a", 10)]})
    run.step({"sale": [("a", 10 + n) for n in range(100)]})
    run.step({"sale": [("b", 10)]})
    assert recording.truncated == (2,)
    assert recording.rows <= 20
    assert recording.ticks == (1, 2, 3)
    assert recording.delta("sale", 3).to_dict() == {("b", 10): 1}
    for read in (recording.delta, recording.by_iteration):
        with pytest.raises(
            InputError, match=r"tick 2 has more rows than max_rows .* record fewer streams"
        ) as caught:
            read("sale", 2)
        assert caught.value.code == "not-recorded"
    assert recording.integral("sums", 2).rows() == [("a", 1000 + 4950 + 10)]
    with pytest.raises(InputError, match="tick 2 has more rows"):
        recording.integral("sums", 1)
    for n in range(12):
        run.step({"sale": [("b", 11 + n)]})
        assert recording.rows <= 20
    assert recording.dropped == 15 - len(recording.ticks)


def test_some_streams() -> None:
    circuit = shop()
    run = circuit.start()
    recording = run.record(streams=["sums"])
    run.step({"sale": [("a", 10)]})
    assert recording.rows == 1
    assert recording.delta("sums").to_dict() == {("a", 10): 1}
    with pytest.raises(InputError, match=r"leaves out the stream of Input .*; add it to streams="):
        recording.delta("sale")


def test_wrong_arguments() -> None:
    run = shop().start()
    with pytest.raises(ArgumentError, match="ticks: expected a number of 1 or more, got 0 of type int"):
        run.record(0)
    with pytest.raises(ArgumentError, match="max_rows: expected a number of 1 or more"):
        run.record(max_rows=True)
    with pytest.raises(ArgumentError, match="streams: expected a list of streams, got the text 'sums'"):
        run.record(streams="sums")
    with pytest.raises(ArgumentError, match="stream: expected the name of a relation, a stream or a node"):
        run.record(streams=[3])  # type: ignore[list-item]
    with pytest.raises(InputError, match="unknown stream 'sum'; did you mean 'sums'"):
        run.record(streams=["sum"])
    with pytest.raises(InputError, match=r"unknown stream '9'; the relations are sale, sums, and a node is"):
        run.record(streams=["9"])
    with pytest.raises(InputError, match=r"does not compute the stream of Input .*: it belongs to another"):
        run.record(streams=[Circuit("other").input("a", x=int)])
    with pytest.raises(InputError, match="the recording has no tick yet; step the run first"):
        run.record().delta("sums")
    assert not run.observers or len(run.observers) == 1


def test_unknown_scopes() -> None:
    run = dbsp.compile(PATHS).start()
    recording = run.record()
    run.step()
    with pytest.raises(InputError, match="unknown scope 'paths'; the scopes are path"):
        recording.iterations("paths")
    plain = shop().start()
    others = plain.record()
    plain.step()
    with pytest.raises(InputError, match="unknown scope 'path'; the circuit has no scopes"):
        others.iterations("path")


def test_an_integral_that_does_not_follow_from_the_state() -> None:
    circuit = Circuit("weights")
    a = circuit.input("a", x=int)
    circuit.output("all", a.filter(col("x") > 3).map(x=lit(1)))
    run = circuit.start()
    recording = run.record()
    run.step({"a": [(5,)]})
    with pytest.raises(CircuitError, match="the integral of this stream is not kept") as caught:
        recording.integral("a")
    assert caught.value.code == "rows-not-kept"


# --- the life of a run ----------------------------------------------------------------------------


def test_a_tick_that_fails_is_not_recorded() -> None:
    circuit = Circuit("division")
    circuit.output("half", circuit.input("a", x=int).map(x=10 // col("x")))
    run = circuit.start()
    recording = run.record()
    run.step({"a": [(5,)]})
    with pytest.raises(dbsp.EvaluationError):
        run.step({"a": [(0,)]})
    run.preview(run.prepare({"a": [(1,)]}))
    run.step({"a": [(2,)]})
    assert recording.ticks == (1, 2)
    assert recording.delta("half").rows() == [(5,)]


def test_a_transaction_is_one_tick() -> None:
    run = dbsp.compile(PATHS).start()
    recording = run.record()
    with run.transaction() as tx:
        tx.step({"edge": [(1, 2)]})
        tx.step({"edge": [(2, 3), (3, 4)]})
        tx.step({"edge": {(3, 4): -1}})
    assert recording.ticks == (1,)
    assert (
        recording.delta("path").to_dict() == tx.result["path"].to_dict() == {(1, 2): 1, (2, 3): 1, (1, 3): 1}
    )
    assert recording.delta("edge").to_dict() == {(1, 2): 1, (2, 3): 1}
    with pytest.raises(ValueError, match="abandoned"), run.transaction() as tx:
        tx.step({"edge": [(7, 8)]})
        raise ValueError("abandoned")
    run.step({"edge": [(5, 6)]})
    assert recording.delta("edge").to_dict() == {(5, 6): 1}
    with run.transaction() as tx, pytest.raises(CircuitError, match="record was called inside a transaction"):
        run.record()


def test_a_recording_follows_the_run_to_another_circuit() -> None:
    run = shop().start()
    recording = run.record()
    run.step({"sale": [("a", 10)]})
    old = next(node for node in run.graph.nodes if node.operator.name == "Filter")
    run.replan(shop().circuit("physical"))
    run.step({"sale": [("a", 20), ("b", 30)]})
    assert recording.delta("sums").to_dict() == {("a", 10): -1, ("a", 30): 1, ("b", 30): 1}
    assert [recording.integral("sums", number).rows() for number in (0, 1, 2)] == [
        [],
        [("a", 10)],
        [("a", 30), ("b", 30)],
    ]
    assert recording.delta(old, 1).rows() == [("a", 10)]
    with pytest.raises(InputError, match="it belongs to another circuit"):
        recording.delta(old, 2)


def test_values_that_the_run_has_freed_are_shown() -> None:
    run = shop().start()
    recording = run.record()
    run.step({"sale": [(f"shop {n}", 10) for n in range(50)]})
    run.step({"sale": {(f"shop {n}", 10): -1 for n in range(49)}})
    run.compact()
    run.step({"sale": [("new", 7)]})
    assert len(recording.integral("sums", 1)) == 50
    assert recording.integral("sums", 1).rows()[0] == ("shop 0", 10)
    assert recording.delta("sale", 2).to_dict() == {(f"shop {n}", 10): -1 for n in range(49)}
    assert recording.integral("sums", 3).rows() == [("new", 7), ("shop 49", 10)]


def test_a_stopped_recording_keeps_its_deltas() -> None:
    run = shop().start()
    recording = run.record()
    run.step({"sale": [("a", 10)]})
    recording.stop()
    recording.stop()
    assert run.observers == []
    assert run.scope.observers == []
    assert recording.integral("sums").rows() == [("a", 10)]
    run.step({"sale": [("a", 20)]})
    assert recording.delta("sums").rows() == [("a", 10)]
    with pytest.raises(InputError, match="the run is at tick 2, and the recording ends with tick 1"):
        recording.integral("sums")
    del run
    with pytest.raises(CircuitError, match="the run of this recording has been released"):
        recording.integral("sums")


TWO_SCOPES = """
    .decl edge(x: number, y: number)
    .decl link(x: number, y: number)
    .input edge, link
    .decl path(x: number, y: number)
    .decl way(x: number, y: number)
    .output path, way
    path(x, y) :- edge(x, y).
    path(x, z) :- path(x, y), edge(y, z).
    way(x, y) :- link(x, y).
    way(x, z) :- way(x, y), link(y, z).
"""


@pytest.mark.parametrize(("removed", "other"), [("link", "path"), ("edge", "way")])
def test_a_restart_leaves_the_passes_of_another_scope(removed: str, other: str) -> None:
    run = dbsp.compile(TWO_SCOPES).start()
    recording = run.record()
    kept = {"link": "edge", "edge": "link"}[removed]
    run.step({removed: [(1, 2), (2, 3)], kept: [(1, 2)]})
    run.step({removed: {(1, 2): -1}, kept: [(2, 3)]})
    assert sorted(recording.scopes().values()) == ["changes", "restart"]
    assert [iteration.time for iteration in recording.iterations(other)] == [(0,), (1,)]
    assert recording.delta(other).to_dict() == {(1, 3): 1, (2, 3): 1}


def test_a_restart_in_a_transaction_leaves_the_passes_of_earlier_parts() -> None:
    run = dbsp.compile(PATHS).start()
    recording = run.record()
    with run.transaction() as tx:
        tx.step({"edge": [(1, 2), (2, 3)]})
        tx.step({"edge": {(2, 3): -1}})
    times = [iteration.time for iteration in recording.iterations("path")]
    assert times == [(0,), (1,), (2,), (0,), (1,)]


def test_freed_values_are_evaluated() -> None:
    """The integral of a stream that no node keeps, as of a tick whose values are gone."""
    circuit = Circuit("names")
    name = circuit.input("name", s=str, kind="set")
    loud = name.map(s=col("s").str.concat("!"))
    circuit.output("long", loud.filter(col("s").length() > 5).group_by().agg(n=lit(1).sum()))
    run = circuit.start()
    recording = run.record()
    run.step({"name": [(f"person {n}",) for n in range(30)]})
    run.step({"name": {(f"person {n}",): -1 for n in range(29)}})
    run.compact()
    run.step({"name": [("somebody",)]})
    streams = [path for path, node in recording.streams().items() if node.schema.names == ("s",)]
    for path in streams:
        assert len(recording.integral(path, 1)) == 30
        assert sorted(recording.integral(path, 1).rows())[0][0].startswith("person 0")
