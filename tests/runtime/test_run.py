"""Runs: results of steps, unknown names and other errors, statistics, kept state."""

from __future__ import annotations

import gc
import re
import weakref
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from dbsp import (
    ArgumentError,
    Circuit,
    CircuitError,
    InputError,
    Run,
    Stream,
    TickResult,
    UserFunctionError,
    WeightOverflowError,
    ZSet,
    col,
    count,
)
from dbsp.data.batch import Batch
from tests.harness import deltas_of, start, view, views
from tests.reference import add
from tests.strategies import Tick, rows, small, ticks, totals, words

EDGE = {"x": int, "y": int}


def closure(c: Circuit) -> dict[str, Stream]:
    e = c.input("edge", schema=EDGE, kind="set")
    names = c.input("name", x=int, s=str)
    with c.fixpoint("closure") as scope:
        p = scope.variable("p", EDGE)
        step = p.join(e, on=[("y", "x")], select=["x", "y_right"]).rename(y="y_right")
        scope.define(p, (e + step).distinct())
    path = scope.leave(p)
    return {"path": path, "named": path.join(names, on=["x"]), "sizes": path.group_by("x").agg(n=count())}


# --- what a step returns --------------------------------------------------------------------------


def test_a_tick_result_is_a_mapping_of_every_output() -> None:
    run = start(closure)
    result = run.step({"edge": [(1, 2), (2, 3)]})
    assert isinstance(result, TickResult)
    assert list(result) == ["path", "named", "sizes"] and len(result) == 3
    assert {name: len(delta) for name, delta in result.items()} == {"path": 3, "named": 0, "sizes": 2}
    assert result.number == run.tick == 1 and result.seconds > 0
    assert repr(result).startswith(
        "<tick 1: path: ZSet({(1, 2): 1, (1, 3): 1, (2, 3): 1}, x: int, y: int), sizes:"
    )
    assert repr(run.step()) == "<tick 2: no change>"
    assert result.get("edge") is None and "edge" not in result and result.get("path") == result["path"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("paths", "unknown output 'paths'; did you mean 'path'? [unknown-output]"),
        ("zzz", "unknown output 'zzz'; the outputs are path, named, sizes [unknown-output]"),
        (7, "unknown output 7; the outputs are path, named, sizes [unknown-output]"),
        ("edge", "'edge' is an input, not an output; the outputs are path, named, sizes [unknown-output]"),
    ],
)
def test_an_unknown_output_is_an_input_error_and_a_key_error(name: Any, message: str) -> None:
    run = start(closure)
    result = run.step()
    for look_up in (result.__getitem__, run.view):
        for class_ in (InputError, KeyError):
            with pytest.raises(class_) as caught:
                look_up(name)
            assert str(caught.value) == message


def test_messages_list_the_first_names_only() -> None:
    run = start(lambda c: {f"o{i}": c.input(f"i{i}", x=int) for i in range(12)})
    with pytest.raises(InputError, match=r"the outputs are o0, .*, o9 and 2 more \[unknown-output\]$"):
        run.view("zzz")
    with pytest.raises(InputError, match=r"the inputs are i0, .*, i9 and 2 more \[unknown-input\]$"):
        run.input("zzz")
    with pytest.raises(
        InputError, match=r"^unknown input 'zzz'; the circuit has no inputs \[unknown-input\]$"
    ):
        start(lambda c: c.constant([(1,)], {"x": int})).input("zzz")


def test_the_repr_of_a_handle_and_of_statistics() -> None:
    run = start(closure)
    handle = run.input("edge")
    assert repr(handle) == "<input 'edge' (x: int, y: int): 0 rows staged>"
    handle.insert([(1, 2), (2, 3)])
    handle.delete([(1, 2)])
    assert repr(handle) == "<input 'edge' (x: int, y: int): 3 rows staged>"
    run.observe()
    run.step()
    stats = next(stats for stats in run.stats() if stats.node.label == "Input edge")
    stats.seconds = 0.25
    assert re.fullmatch(r"<Input edge at test_run\.py:\d+: 1 step, 1 row, 0\.250000 s>", repr(stats))


def test_inputs_and_outputs_with_their_schemas() -> None:
    run = start(closure)
    assert {name: schema.describe() for name, schema in run.inputs.items()} == {
        "edge": "x: int, y: int",
        "name": "x: int, s: str",
    }
    assert {name: schema.describe() for name, schema in run.outputs.items()} == {
        "path": "x: int, y: int",
        "named": "x: int, y: int, s: str",
        "sizes": "x: int, n: int",
    }


@given(ticks({"edge": rows(small, small), "name": rows(small, words)}))
def test_ticks_and_empty_ticks(sequence: list[Tick]) -> None:
    """A tick without changes, or with changes whose sum is empty, changes nothing."""
    run = start(closure)
    for number, tick in enumerate(sequence, 1):
        run.step(tick)
        before = views(run)
        assert deltas_of(run.step()) == {}
        assert deltas_of(run.step({})) == {}
        assert deltas_of(run.step({"name": {(1, "a"): 0}, "edge": []})) == {}
        assert views(run) == before and run.tick == 4 * number


@given(ticks({"name": rows(small, words)}))
def test_runs_of_one_circuit_are_independent(sequence: list[Tick]) -> None:
    circuit = Circuit()
    for name, stream in closure(circuit).items():
        circuit.output(name, stream)
    first = circuit.start()
    for tick in sequence:
        first.step(tick)
    second = circuit.start()
    assert not any(views(second).values()) and second.tick == 0
    second.step({"name": totals(sequence).get("name", {}), "edge": [(1, 2)]})
    first.step({"edge": [(1, 2)]})
    assert views(first) == views(second)


def test_interned_values_in_every_column() -> None:
    """A join finds equal strings of two inputs in any order of arrival."""
    run = start(lambda c: c.input("a", x=str, y=bytes).join(c.input("b", x=str, o=object), on=["x"]))
    run.step({"b": [("zeta", (1, "x")), ("alpha", (2.5, b"y"))]})
    run.step({"a": [("alpha", b"1"), ("beta", b"2"), ("zeta", b"3")]})
    assert view(run) == {("alpha", b"1", (2.5, b"y")): 1, ("zeta", b"3", (1, "x")): 1}
    assert run.view("out").rows() == [("alpha", b"1", (2.5, b"y")), ("zeta", b"3", (1, "x"))]


# --- errors ---------------------------------------------------------------------------------------


def test_unknown_names() -> None:
    run = start(closure)
    unknown = r"^unknown input 'edges'; did you mean 'edge'\? \[unknown-input\]$"
    with pytest.raises(InputError, match=unknown):
        run.step({"edges": [(1, 2)]})
    with pytest.raises(InputError, match=unknown):
        run.input("edges")
    with pytest.raises(InputError) as caught:
        run.step({"path": [(1, 2)]})
    assert str(caught.value) == (
        "'path' is an output, so it cannot be changed directly; the inputs are edge, name [not-an-input]"
    )
    with pytest.raises(InputError, match=r"unknown output \['path'\]"):
        run.view(["path"])  # type: ignore[arg-type]
    for method in (run.changed, run.asserted, run.input):
        with pytest.raises(InputError, match=r"unknown input \['edge'\]"):
            method(["edge"])  # type: ignore[arg-type]
    assert run.tick == 0


def test_one_bad_relation_keeps_the_others_from_changing() -> None:
    run = start(closure)
    run.input("name").insert([(1, "staged")])
    with pytest.raises(InputError):
        run.step({"edge": [(1, 2)], "name": [(1, 2)]})
    run.step()
    assert not any(views(run).values())


def test_a_step_within_a_step() -> None:
    runs: list[Run] = []

    def again(row: Any) -> bool:
        runs[0].step({"a": [(2,)]})
        return True

    runs.append(start(lambda c: c.input("a", x=int).filter(again)))
    with pytest.raises(UserFunctionError) as caught:
        runs[0].step({"a": [(1,)]})
    assert isinstance(caught.value.__cause__, CircuitError)
    assert "step was called inside a tick" in str(caught.value)
    assert caught.value.__cause__.code == "tick-in-progress"
    with pytest.raises(UserFunctionError):
        runs[0].step({"a": [(1,)]})
    assert runs[0].tick == 0


def test_a_circuit_may_be_started_before_it_is_finished() -> None:
    circuit = Circuit()
    a = circuit.input("a", x=int)
    circuit.output("a", a)
    run = circuit.start()
    circuit.output("b", a.map(x=col("x") + 1))
    later = circuit.start()
    assert list(run.outputs) == ["a"] and list(later.outputs) == ["a", "b"]
    run.step({"a": [(1,)]})
    later.step({"a": [(1,)]})
    assert views(run) == {"a": {(1,): 1}} and views(later) == {"a": {(1,): 1}, "b": {(2,): 1}}


# --- statistics and state -------------------------------------------------------------------------


def test_statistics_per_node_while_observed() -> None:
    run = start(closure)
    assert run.stats() == []
    run.step({"edge": [(1, 2)]})
    run.observe()
    run.step({"edge": [(2, 3), (3, 4)]})
    by_label = {stats.node.label: stats for stats in run.stats()}
    edge = by_label["Input edge"]
    assert (edge.steps, edge.rows_out) == (1, 2) and edge.seconds > 0
    assert by_label["Output path"].rows_out == 5
    # rows per iteration inside: the distinct emits each new path once
    inside = [stats for stats in run.stats() if stats.node.graph.parent is not None]
    assert {stats.steps for stats in inside} == {run.iterations()["closure"]}
    assert sum(stats.rows_out for stats in inside if stats.node.operator.name == "Distinct") == 5
    run.observe(False)
    assert run.stats() == []
    run.observe()
    assert all(stats.steps == 0 for stats in run.stats())


def test_iterations_of_the_latest_tick() -> None:
    run = start(closure)
    assert run.iterations() == {"closure": 0}
    run.step({"edge": [(i, i + 1) for i in range(6)]})
    assert run.iterations() == {"closure": 7}
    run.step({"name": [(1, "a")]})
    assert run.iterations() == {"closure": 0}


def test_replanning_inside_a_step_is_refused() -> None:
    runs: list[Run] = []

    def replan(row: Any) -> bool:
        runs[0].replan()
        return True

    runs.append(start(lambda c: c.input("a", x=int).filter(replan)))
    with pytest.raises(UserFunctionError, match="raised CircuitError: replan was called inside a tick"):
        runs[0].step({"a": [(1,)]})


def test_the_rows_of_an_input_that_the_circuit_does_not_keep() -> None:
    run = start(lambda c: c.input("a", x=int).map(x=col("x") + 1))
    with pytest.raises(CircuitError, match=r"does not keep the rows of its input 'a'; .* \[rows-not-kept\]"):
        run.asserted("a")


def test_state_is_counted_and_released() -> None:
    run = start(closure)
    run.step({"edge": [(1, 2), (8, 9)], "name": [(1, "a")]})
    run.step({"edge": {(8, 9): -1}})  # a scope keeps more rows after the first retraction
    run.compact()
    rows_before, bytes_before = run.state_rows, run.state_bytes
    assert rows_before > 0 and bytes_before > rows_before * 16
    for i in range(50):
        change = {"edge": {(2, 3 + i): 1}, "name": {(1, str(i)): 1}}
        run.step(change)
        run.step({name: dict.fromkeys(delta, -1) for name, delta in change.items()})
    run.compact()
    assert (run.state_rows, run.state_bytes) == (rows_before, bytes_before)
    run.step({"edge": {(1, 2): -1}, "name": {(1, "a"): -1}})
    run.compact()
    assert (run.state_rows, run.state_bytes) == (0, 0)


def test_large_ticks_and_small_ones() -> None:
    """A large tick releases the deltas inside the circuit, but not rows kept for the next tick."""

    def build(c: Circuit) -> dict[str, Stream]:
        a = c.input("a", x=int, y=int)
        return {
            "before": a.delay(),
            "change": a.differentiate(),
            "sum": a.integrate(),
            "groups": a.group_by("y").agg(n=count()),
            "pairs": a.join(a.delay(), on=["x", "y"]),
        }

    large = {(i, i % 10): 1 for i in range(5000)}
    run = start(build)
    run.step({"a": large})
    run.step({"a": {(1, 1): 1}})
    assert view(run, "before") == large
    assert view(run, "change") == {(1, 1): 1}
    assert view(run, "sum") == add(large, large, {(1, 1): 1})
    assert view(run, "groups") == {(y, 501 if y == 1 else 500): 1 for y in range(10)}
    assert view(run, "pairs")[1, 1] == 2 and len(view(run, "pairs")) == 5000
    run.step({"a": dict.fromkeys(large, -1)})
    run.step({"a": {(1, 1): -1}})
    assert view(run, "before") == {(1, 1): 1} and view(run, "groups") == {}
    run.step()
    assert view(run, "before") == {} and view(run, "pairs") == {}


def test_a_deleted_run_releases_its_memory() -> None:
    run = start(closure)
    run.step({"edge": [(i, i + 1) for i in range(30)]})
    kept = run.view("path")
    traces, reference = run.scope.traces, weakref.ref(run)
    del run
    gc.collect()
    assert reference() is None and not any(trace.nbytes for trace in traces)
    assert len(kept) == 465


def test_a_z_set_matches_the_columns_of_an_input_by_name() -> None:
    run = start(lambda c: c.input("edge", src=int, dst=int))
    turned = ZSet({(2, 1): 1, (3, 1): 1}, {"dst": int, "src": int})
    assert run.step({"edge": turned})["out"].to_dict() == {(1, 2): 1, (1, 3): 1}
    other = ZSet({(5, 6): 1}, {"a": int, "b": int})
    with pytest.raises(InputError) as caught:
        run.step({"edge": other})
    assert str(caught.value) == (
        "relation 'edge': expected the columns (src: int, dst: int), got (a, b); to match them by position, "
        "rename them: zset.renamed('src', 'dst'), table.rename_columns(['src', 'dst']) for an Arrow table, "
        "or frame.columns = ['src', 'dst'] for a data frame [unknown-column]"
    )
    assert run.step({"edge": other.renamed("src", "dst")})["out"].to_dict() == {(5, 6): 1}
    assert run.step({"edge": ZSet([(7, 8)])})["out"].to_dict() == {(7, 8): 1}  # has no names
    misspelt = ZSet({(20, 10): 1}, {"dst": int, "source": int})
    with pytest.raises(InputError, match=r"relation 'edge': .*missing: 'src'; unknown: 'source'"):
        run.step({"edge": misspelt})
    assert run.tick == 3


def test_a_change_of_one_row_has_the_forms_of_larger_changes() -> None:
    circuit = Circuit("one")
    circuit.output("out", circuit.input("a", x=int, y=str))
    circuit.output("none", circuit.input("empty", schema={}))
    run = circuit.start()
    for change, delta in [
        ({(1, "p"): 2}, {(1, "p"): 2}),
        ({(1, "p"): np.int64(-1)}, {(1, "p"): -1}),
        ({(1, "p"): 0}, {}),
        ({(1, "p"): -(2**63)}, {(1, "p"): -(2**63)}),
        ({(1, "p"): 2**63 - 1}, {(1, "p"): 2**63 - 1}),
        (MappingProxyType({(1, "p"): -1}), {(1, "p"): -1}),
    ]:
        assert run.step({"a": change})["out"].to_dict() == delta
    assert run.step({"empty": {(): 3}})["none"].to_dict() == {(): 3}
    for wrong, error, message in [
        ({(1, "p"): True}, InputError, "expected an int as the weight of a row, got True of type bool"),
        ({(1, "p"): 1.0}, InputError, "expected an int as the weight of a row, got 1.0 of type float"),
        ({(1, "p"): 2**63}, WeightOverflowError, "the weight 9223372036854775808 is outside the 64-bit"),
        ({(1, "p"): -(2**63) - 1}, WeightOverflowError, "the weight -9223372036854775809 is outside"),
        ({(1, 2): 1}, InputError, "relation 'a': row (1, 2), column 'y': expected str, got 2"),
        ({("x",): 1}, InputError, "relation 'a'"),
        ({"x": 1}, InputError, "relation 'a': column 'x': expected an array or a list of values"),
    ]:
        with pytest.raises(error, match=re.escape(message)):
            run.step({"a": wrong})
    assert run.view("out").to_dict() == {(1, "p"): -1}


def test_staged_batches_that_do_not_fit_are_refused() -> None:
    run = start(closure)
    batch = run.prepare({"edge": [(1, 2)]})["edge"]
    batches = "staged: expected batches by input, as run.prepare(changes) returns them"
    columns = "staged['edge']: expected a batch of 2 columns, as run.prepare(changes) returns it"
    for staged, error, message in [
        (5, ArgumentError, f"{batches}, got 5 of type int"),
        ([batch], ArgumentError, f"{batches}, got [Batch"),
        ({"edge": [(1, 2)]}, ArgumentError, f"{columns}, got [(1, 2)] of type list"),
        ({"edge": Batch.empty(3)}, ArgumentError, f"{columns}, got Batch"),
        ({"egde": batch}, InputError, "unknown input 'egde'; did you mean 'edge'?"),
    ]:
        with pytest.raises(error, match=re.escape(message)):
            run.preview(staged)  # type: ignore[arg-type]
        with pytest.raises(error, match=re.escape(message)):
            run.step_staged(staged)  # type: ignore[arg-type]
    assert run.preview({"edge": batch})["path"].to_dict() == {(1, 2): 1}
    assert run.tick == 0
    with pytest.raises(
        ArgumentError, match="worthwhile: expected a fraction of all values, got 'all' of type"
    ):
        run.free_values("all")  # type: ignore[arg-type]
    assert run.rows(["edge"]) is None  # type: ignore[arg-type]
