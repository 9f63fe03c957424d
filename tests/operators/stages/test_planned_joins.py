"""Joins built by hand and planned: the same rows and weights as those of the joins as written."""

from __future__ import annotations

import contextlib
import pickle
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbsp import (
    ArgumentError,
    Circuit,
    CircuitError,
    InputError,
    Stream,
    WeightOverflowError,
    col,
    from_json,
    from_networkx,
)
from dbsp.circuit.graph import Graph
from dbsp.circuit.stage import Stage
from dbsp.operators.joins.join import DeltaJoin, Join
from dbsp.operators.joins.multiway_join import DeltaMultiwayJoin
from dbsp.operators.ports.output import Output
from dbsp.operators.stages.join_strategy import JoinStrategy
from tests.harness import apply, deltas_of, views
from tests.profiles import examples
from tests.random_join_trees import INPUTS, JoinTree, join_trees, tree_ticks
from tests.reference import Z, minus
from tests.strategies import Tick

EDGES = {(0, 1): 1, (1, 2): 2, (0, 2): 1, (2, 0): -1, (2, 2): 1}


def edge_of(circuit: Circuit) -> Stream:
    return circuit.input("e", x=int, y=int)


def closed(wedge: Stream, edge: Stream) -> Stream:
    """Join paths (x, y, y_right) with the edges from x to y_right."""
    return wedge.join(edge.rename(u="x", v="y"), on=[("x", "u"), ("y_right", "v")])


def triangles(strategy: str = "auto") -> Circuit:
    circuit = Circuit("triangles", strategy=strategy)
    edge = edge_of(circuit)
    wedge = edge.join(edge, on=[("y", "x")])
    circuit.output("triangle", closed(wedge, edge))
    return circuit


def joins_of(graph: Graph) -> tuple[int, int]:
    """Return the number of binary joins and of multi-way joins in a physical circuit."""
    operators = [node.operator for node in graph.walk()]
    return (
        sum(isinstance(operator, DeltaJoin) for operator in operators),
        sum(isinstance(operator, DeltaMultiwayJoin) for operator in operators),
    )


# --- random trees ---------------------------------------------------------------------------------


def circuit_of(tree: JoinTree, strategy: str) -> Circuit:
    circuit = Circuit("tree", strategy=strategy)
    streams = {name: circuit.input(name, schema=columns) for name, columns in INPUTS.items()}
    for name, stream in tree.streams(streams).items():
        circuit.output(name, stream)
    return circuit


@settings(max_examples=examples(160))
@given(
    join_trees(),
    st.sampled_from([JoinStrategy.BINARY, JoinStrategy.WCOJ]),
    st.sampled_from([Stage.PHYSICAL, Stage.DISTRIBUTED]),
    tree_ticks(),
)
def test_every_plan_has_the_deltas_of_the_definition(
    tree: JoinTree, other: JoinStrategy, stage: Stage, ticks: list[Tick]
) -> None:
    circuits = [circuit_of(tree, strategy) for strategy in (JoinStrategy.AUTO, other)]
    runs = [circuit.start(stage) for circuit in circuits]
    inputs: dict[str, Z] = {}
    before: dict[str, Z] = {name: {} for name in runs[0].outputs}
    for tick in ticks:
        apply(inputs, tick)
        expected = tree.model(inputs)
        deltas = {name: minus(value, before[name]) for name, value in expected.items()}
        for run in runs:
            assert deltas_of(run.step(tick)) == {name: delta for name, delta in deltas.items() if delta}
            assert views(run) == expected
        before = expected
    for circuit, run in zip(circuits, runs, strict=True):
        assert schemas_of(run.graph) == schemas_of(circuit)


def schemas_of(graph: Graph) -> dict[str, str]:
    """Return the columns of the output; a physical circuit has no names of columns."""
    outputs = (node for node in graph.nodes if isinstance(node.operator, Output))
    return {node.label: str(node.schema.types) for node in outputs}


# --- which joins are replaced ---------------------------------------------------------------------


def test_explain_names_the_replaced_joins_and_the_reason() -> None:
    lines = triangles().explain().splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("  plan_joins"))
    assert lines[at] == "  plan_joins: 5 -> 3 nodes"
    here = "Join at test_planned_joins.py"
    replaced, reason = lines[at + 1].strip().split("; ", 1)
    places, plan = replaced.split(": replaced by ")
    assert [place.split(":")[0] for place in places.split(", ")] == [here, here]
    assert plan == "multiway(e(x, y), e(y, y_right), e(x, y_right))"
    assert reason == (
        "cyclic: Graham's reduction leaves 3 atoms; a multi-way join of the core, because two-way joins "
        "may create more rows than the largest result; no row counts for e"
    )


def test_the_plan_of_a_mixed_chain_is_explained() -> None:
    circuit = Circuit("mixed", strategy="auto")
    edge = edge_of(circuit)
    wedge = edge.join(edge, on=[("y", "x")])
    triangle = closed(wedge, edge)
    circuit.output("out", triangle.join(edge.rename(s="x", t="y"), on=[("x", "s")]))
    assert "replaced by join(multiway(e(x, y), e(y, y_right), e(x, y_right)), e(x, t) on x); " in (
        circuit.explain()
    )


def test_joins_can_be_kept_as_written() -> None:
    written, planned = triangles("as-written"), triangles()
    assert joins_of(written.circuit("physical")) == (2, 0)
    assert joins_of(planned.circuit("physical")) == (0, 1)
    assert "plan_joins: 5 nodes, nothing changed" in written.explain()
    assert written.strategy is JoinStrategy.AS_WRITTEN
    runs = [circuit.start() for circuit in (written, planned)]
    first, second = (run.step({"e": EDGES})["triangle"].to_dict() for run in runs)
    assert first == second != {}


def test_an_unknown_strategy_is_refused() -> None:
    with pytest.raises(ArgumentError, match="expects one of 'auto', 'binary', 'wcoj', 'as-written'"):
        Circuit("c", strategy="fast")


def wedges_then(circuit: Circuit, use: str) -> None:
    """Find triangles over an intermediate join that something else reads."""
    edge = edge_of(circuit)
    wedge = edge.join(edge, on=[("y", "x")])
    if use == "output":
        circuit.output("wedge", wedge)
    elif use == "inspect":
        wedge = wedge.inspect(lambda change: None)
    elif use == "two readers":
        circuit.output("ends", wedge.select("x", "y_right").distinct())
    elif use == "distinct":
        wedge = wedge.distinct()
    elif use == "a function":
        wedge = wedge.filter(lambda row: row.x > 0)
    elif use == "a condition that can fail":
        wedge = wedge.filter(10 // col("x") > 0)
    elif use == "a computed column":
        wedge = wedge.map(x=col("x"), y=col("y"), y_right=col("y_right") + 1)
    circuit.output("triangle", closed(wedge, edge))


@pytest.mark.parametrize(
    "use",
    [
        "output",
        "inspect",
        "two readers",
        "distinct",
        "a function",
        "a condition that can fail",
        "a computed column",
    ],
)
def test_a_join_that_something_else_reads_is_an_atom(use: str) -> None:
    circuit = Circuit("shared")
    wedges_then(circuit, use)
    assert joins_of(circuit.circuit("physical"))[1] == 0
    assert "replaced by" not in circuit.explain()


def test_a_join_of_an_optional_with_a_required_int_keeps_its_type() -> None:
    circuit = Circuit("optional")
    edge = circuit.input("e", x=int | None, y=int | None)
    node = circuit.input("n", x=int, y=int)
    wedge = edge.join(edge, on=[("y", "x")])
    found = closed(wedge, node)
    circuit.output("out", found)
    assert joins_of(circuit.circuit("physical")) == (2, 0)
    run = circuit.start()
    run.step({"e": {(1, None): 1, (None, 2): 1, (None, None): 1}, "n": {(1, 2): 1}})
    assert run.view("out").to_dict() == {(1, None, 2): 1}


def test_none_equals_none_in_a_planned_join() -> None:
    views_by_strategy = []
    for strategy in ("auto", "as-written"):
        circuit = Circuit("optional", strategy=strategy)
        edge = circuit.input("e", x=int | None, y=int | None)
        wedge = edge.join(edge, on=[("y", "x")])
        circuit.output("out", closed(wedge, edge))
        run = circuit.start()
        run.step({"e": {(1, None): 1, (None, 2): 2, (None, None): 1, (1, 2): 3}})
        views_by_strategy.append((run.view("out").to_dict(), joins_of(run.graph)))
    (planned, multiway), (written, binary) = views_by_strategy
    assert planned == written
    assert planned[1, None, 2] == 6
    assert (multiway, binary) == ((0, 1), (2, 0))


def test_joins_inside_of_a_scope_stay_as_written() -> None:
    circuit = Circuit("scope")
    edge = edge_of(circuit)
    with circuit.fixpoint("closed") as scope:
        path = scope.variable("path", edge.schema)
        wedge = path.join(path, on=[("y", "x")])
        found = closed(wedge, path).select("x", "y")
        scope.define(path, (edge + found).distinct())
    circuit.output("out", scope.leave(path))
    assert joins_of(circuit.circuit("physical")) == (2, 0)


def test_joins_of_rows_outside_of_the_circuit_stay_as_written() -> None:
    circuit = Circuit("external")
    edge = circuit.input("e", x=int, y=int, kind="external")
    other = circuit.input("o", x=int, y=int)
    wedge = other.join(edge, on=[("y", "x")])
    circuit.output("out", closed(wedge, other))
    assert joins_of(circuit.circuit("physical")) == (2, 0)


def ring(atoms: int) -> Circuit:
    circuit = Circuit("ring")
    edge = edge_of(circuit)
    path = edge.rename(first="x", last="y")
    for _ in range(atoms - 2):
        path = path.join(edge, on=[("last", "x")], select=["first", "y"]).rename(first="first", last="y")
    circuit.output("out", path.join(edge, on=[("last", "x"), ("first", "y")]))
    return circuit


def test_a_chain_of_too_many_atoms_stays_as_written() -> None:
    assert joins_of(ring(41).circuit("physical")) == (40, 0)
    assert joins_of(ring(8).circuit("physical")) == (0, 1)


def test_conditions_and_equal_columns_of_one_atom_are_tested() -> None:
    circuit = Circuit("loops")
    edge = edge_of(circuit)
    wedge = edge.join(edge.rename(u="x", v="y"), on=[("y", "u")], select=["x", "y", "u", "v"])
    loop = circuit.input("l", p=int, q=int)
    looped = wedge.filter(col("x") <= col("v")).join(loop, on=[("y", "p"), ("u", "q")])
    circuit.output("out", looped.join(edge.rename(s="x", t="y"), on=[("v", "s"), ("x", "t")], select=["v"]))
    assert joins_of(circuit.circuit("physical"))[1] == 1
    run = circuit.start()
    # The rings are 1 -> 2 -> 3 -> 1, from each node; (1, 4) has no equal columns, and 3 > 2.
    run.step({"e": {(1, 2): 1, (2, 3): 1, (3, 1): 1}, "l": {(2, 2): 2, (2, 4): 1, (1, 1): 1}})
    assert run.view("out").to_dict() == {(3,): 2}


def test_two_way_joins_in_a_better_order() -> None:
    shown = {}
    for strategy in ("as-written", "binary"):
        circuit = Circuit("product", strategy=strategy)
        a, b = circuit.input("a", x=int), circuit.input("b", x=int, y=int)
        pairs = a.join(circuit.input("c", y=int), on=[])
        circuit.output("out", pairs.join(b, on=["x", "y"]))
        run = circuit.start()
        run.step({"a": [(1,), (2,)], "b": {(1, 5): 2}, "c": [(5,), (6,)]})
        assert run.view("out").to_dict() == {(1, 5): 2}
        shown[strategy] = [line.strip() for line in circuit.explain().splitlines() if "replaced by" in line]
        assert ("Product" in {node.operator.name for node in run.graph.nodes}) == (strategy == "as-written")
    assert shown["as-written"] == []
    (line,) = shown["binary"]
    assert "replaced by join(join(a(x), b(x, y) on x), c(y) on y)" in line


def test_a_tree_is_planned_once() -> None:
    circuit = Circuit("clique")
    edge = edge_of(circuit)
    found = edge.rename(a="x", b="y")
    for x, y in ("bc", "ac", "ad", "bd", "cd"):
        found = found.join(edge.rename(**{x: "x", y: "y"}), on=[n for n in (x, y) if n in found.schema.names])
    circuit.output("out", found)
    assert circuit.explain().count("replaced by") == 1
    assert joins_of(circuit.circuit("physical")) == (0, 1)


# --- what the rest of a run sees ------------------------------------------------------------------


def test_the_stream_of_a_replaced_join_is_not_computed() -> None:
    circuit = Circuit("streams")
    edge = edge_of(circuit)
    wedge = edge.join(edge, on=[("y", "x")])
    triangle = closed(wedge, edge)
    circuit.output("triangle", triangle.distinct())
    run = circuit.start()
    seen = []
    run.watch(triangle, lambda change: seen.append(change))
    run.step({"e": EDGES})
    assert len(seen) == 1
    with pytest.raises(InputError, match="the optimised circuit does not need it; make the stream an output"):
        run.watch(wedge, lambda change: None)


def test_an_error_names_the_line_of_the_last_join() -> None:
    circuit = Circuit("heavy")
    edge = edge_of(circuit)
    wedge = edge.join(edge, on=[("y", "x")])
    circuit.output(
        "triangle",
        closed(wedge, edge),  # the line of the error
    )
    line = [node.source for node in circuit.nodes if isinstance(node.operator, Join)][-1]
    run = circuit.start()
    with pytest.raises(WeightOverflowError) as error:
        run.step({"e": {(1, 2): 2**30, (2, 3): 2**30, (1, 3): 2**30}})
    assert error.value.where == f"MultiwayJoin at {line}"
    assert run.tick == 0


def test_shards_run_the_planned_joins() -> None:
    alone, shared = triangles().start(), triangles().start(shards=2)
    with contextlib.closing(shared):
        for tick in (EDGES, {(1, 2): -2, (2, 1): 1}, {(0, 2): -1}):
            assert deltas_of(shared.step({"e": tick})) == deltas_of(alone.step({"e": tick}))
        assert "MultiwayJoin" in triangles().explain(shared)


@pytest.mark.parametrize("strategy", ["auto", "as-written"])
def test_a_circuit_file_keeps_the_strategy(strategy: str) -> None:
    circuit = triangles(strategy)
    for again in (from_json(circuit.to_json()), from_networkx(circuit.to_networkx())):
        assert isinstance(again, Circuit)
        assert again.strategy == strategy
        assert again.same_as(circuit)
    assert triangles("auto").same_as(circuit) == (strategy == "auto")
    assert pickle.loads(pickle.dumps(circuit)).strategy == strategy


@pytest.mark.parametrize("settings", ['{"strategy": "fast"}', "[1]", '{"strategy": [2]}'])
def test_a_circuit_file_with_a_wrong_strategy_is_refused(settings: str) -> None:
    text = triangles("as-written").to_json().replace('{"strategy": "as-written"}', settings)
    with pytest.raises(CircuitError, match="expected the settings of a circuit, such as") as error:
        from_json(text)
    assert error.value.code == "invalid-circuit-file"


@pytest.mark.parametrize(("before", "after"), [("as-written", "auto"), ("auto", "as-written")])
def test_a_checkpoint_continues_with_its_own_plan(tmp_path: Path, before: str, after: str) -> None:
    run = triangles(before).start(checkpoint=tmp_path)
    run.step({"e": EDGES})
    run.snapshot()
    run.step({"e": {(0, 1): -1, (2, 1): 1}})
    expected, joins = views(run), joins_of(run.graph)
    run.log.close()
    again = triangles(after).start(checkpoint=tmp_path)
    assert again.tick == 2
    assert views(again) == expected
    assert joins_of(again.graph) == joins
    again.log.close()
    assert views(triangles(after).open(tmp_path, as_of=1)) != expected
