"""Multi-way joins in circuits: sets, sharing, interchange, splits of the changes, many rows."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbsp import Circuit, Run, Stream, ZSet, col, from_json, lit, multiway_join, when
from dbsp.circuit.graph import Graph
from dbsp.circuit.stage import Stage
from dbsp.operators.joins.multiway_term import CHUNK
from tests.harness import view
from tests.profiles import examples
from tests.random_conjunctions import Conjunction, canonical, conjunctions, orders
from tests.reference import Z, add, distinct
from tests.strategies import resplit


def circuit_of(query: Conjunction, kind: str = "zset") -> tuple[Circuit, Stream]:
    circuit = Circuit("test")
    streams = {name: circuit.input(name, schema=query.schema(name), kind=kind) for name in query.relations}
    return circuit, query.joined(streams)


def started(query: Conjunction) -> Run:
    circuit, joined = circuit_of(query)
    circuit.output("out", joined)
    return circuit.start()


# --- independence of order ------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=examples(100))
@given(st.data())
def test_any_split_of_the_changes_gives_the_same_view(data: st.DataObject) -> None:
    query = data.draw(conjunctions())
    sequence = data.draw(query.ticks())
    run, other = started(query), started(query)
    for tick in sequence:
        run.step(tick)
    for tick in data.draw(resplit(sequence)):
        other.step(tick)
    assert canonical(view(run)) == canonical(view(other))


@pytest.mark.slow
@settings(max_examples=examples(100))
@given(st.data())
def test_any_orders_give_the_same_deltas(data: st.DataObject) -> None:
    query = replace(data.draw(conjunctions()), orders=None)
    runs = [started(query), *(started(replace(query, orders=data.draw(orders(query)))) for _ in range(3))]
    for tick in data.draw(query.ticks()):
        deltas = [canonical(run.step(tick)["out"].to_dict()) for run in runs]
        assert all(delta == deltas[0] for delta in deltas)


@settings(max_examples=examples(60))
@given(st.data())
def test_any_sequence_of_the_atoms_gives_the_same_deltas(data: st.DataObject) -> None:
    query = replace(data.draw(conjunctions()), orders=None)
    turned = replace(query, atoms=tuple(data.draw(st.permutations(query.atoms))))
    one, other = started(query), started(turned)
    for tick in data.draw(query.ticks()):
        assert canonical(one.step(tick)["out"].to_dict()) == canonical(other.step(tick)["out"].to_dict())


@given(st.data())
def test_linear_in_each_relation(data: st.DataObject) -> None:
    """An atom over a sum of streams is the sum over the streams."""
    query = data.draw(conjunctions(most=3))
    (relation, terms), *others = query.atoms
    query = replace(query, atoms=(("own", terms), *others), orders=None)
    circuit = Circuit("test")
    streams = {name: circuit.input(name, schema=query.schema(name)) for name in query.relations}
    own, more = streams[relation], circuit.input("more", schema=query.schema(relation))
    circuit.output("whole", query.joined({**streams, "own": own + more}))
    circuit.output("parts", query.joined({**streams, "own": own}) + query.joined({**streams, "own": more}))
    run = circuit.start()
    for number, tick in enumerate(data.draw(query.ticks())):
        result = run.step({**tick, "more": tick.get(relation, {})} if number % 2 else tick)
        assert canonical(result["whole"].to_dict()) == canonical(result["parts"].to_dict())


def test_all_variables_are_the_result_if_none_are_selected() -> None:
    circuit = Circuit("test")
    e, s = circuit.input("e", x=int, y=int | None), circuit.input("s", w=str, x=int)
    joined = multiway_join([s("word", "b"), e("a", "b"), e("a", None), e("_", 3)], let={"n": col("b") + 1})
    assert joined.schema.names == ("word", "b", "a", "n")
    assert [str(type_) for type_ in joined.schema.types] == ["str", "int", "int", "int"]


# --- sets -----------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=examples(200))
@given(st.data())
def test_distinct_over_a_join_of_sets(data: st.DataObject) -> None:
    """A distinct is dropped exactly where it changes nothing."""
    query = data.draw(conjunctions())
    circuit, joined = circuit_of(query, "set")
    circuit.output("set", joined.distinct())
    circuit.output("bag", joined)
    run = circuit.start()
    inputs: dict[str, Z] = {name: {} for name in query.relations}
    for tick in data.draw(query.ticks()):
        for name, delta in tick.items():
            kept = {row: w for row, w in inputs[name].items() if delta.get(row, 0) >= 0}
            inputs[name] = {**kept, **{row: 1 for row, w in delta.items() if w > 0}}
        run.step(tick)
        assert canonical(view(run, "bag")) == query.evaluate(inputs)
        assert canonical(view(run, "set")) == distinct(query.evaluate(inputs))


def kept_distincts(build: Any) -> int:
    circuit = Circuit("test")
    e = circuit.input("e", x=int, y=int, kind="set")
    bag = circuit.input("bag", x=int, y=int)
    circuit.output("out", build(e, bag).distinct())
    return sum("Distinct" in node.label for node in circuit.start().graph.walk())


def test_where_distinct_is_dropped() -> None:
    triangle = [("a", "b"), ("b", "c"), ("a", "c")]
    assert not kept_distincts(lambda e, bag: multiway_join([e(*terms) for terms in triangle]))
    computed = {"z": when(col("a") < col("b")).then(1).otherwise(2)}
    assert not kept_distincts(lambda e, bag: multiway_join([e("a", "b"), e("b", "a")], let=computed))
    below = {"b": lit(3)}
    assert not kept_distincts(lambda e, bag: multiway_join([e("a", "b"), e("b", "c")], ["a", "c"], let=below))
    assert kept_distincts(lambda e, bag: multiway_join([e(*terms) for terms in triangle], ["a", "b"]))
    assert kept_distincts(lambda e, bag: multiway_join([e("a", "b"), e("a", None)]))
    assert kept_distincts(lambda e, bag: multiway_join([e("a", "b"), e("b", "c")], ["a", "c"]))
    assert kept_distincts(lambda e, bag: multiway_join([e("a", "b"), bag("b", "a")]))


# --- sharing and interchange ----------------------------------------------------------------------


def square(circuit: Circuit) -> dict[str, Stream]:
    e = circuit.input("e", x=int, y=int)
    atoms = [e("a", "b"), e("b", "c"), e("c", "d"), e("d", "a"), e("a", 1)]
    where = (col("a") < col("b")) & (col("c") + col("d") < 7)
    with circuit.fixpoint("closure") as scope:
        path = scope.variable("path", e.schema)
        longer = multiway_join([path("x", "m"), path("m", "y")], ["x", "y"])
        scope.define(path, (e + longer).distinct())
    return {
        "one": multiway_join(atoms, ["a", "c", "z"], where=where, let={"z": col("b") + 1}),
        "same": multiway_join(atoms, ["a", "c", "z"], where=where, let={"z": col("b") + 1}),
        "ordered": multiway_join([e("a", "b"), e("b", "c"), e("a", "c")], orders=[["c"], ["a"], ["b"]]),
        "path": scope.leave(path),
    }


def squares() -> Circuit:
    circuit = Circuit("squares")
    for name, stream in square(circuit).items():
        circuit.output(name, stream)
    return circuit


def test_round_trips_through_json_in_every_stage() -> None:
    circuit = squares()
    assert squares().content_hash() == circuit.content_hash()
    again = from_json(circuit.to_json())
    assert isinstance(again, Circuit) and again.same_as(circuit)
    graphs: list[Graph] = [circuit.circuit(stage) for stage in Stage]
    for graph in graphs:
        assert from_json(graph.to_json()).content_hash() == graph.content_hash()
    runs = [circuit.start(stage) for stage in Stage] + [again.start(stage) for stage in Stage]
    runs += [Run(from_json(graph.to_json())) for graph in graphs[1:]]
    rng = random.Random(5)
    for _ in range(12):
        tick = {"e": {(rng.randrange(5), rng.randrange(5)): rng.choice([1, 1, -1]) for _ in range(4)}}
        results = [{n: z.to_dict() for n, z in run.step(tick).items()} for run in runs]
        assert all(result == results[0] for result in results)
    assert any(results[0].values())


@pytest.mark.parametrize(
    "change",
    [
        {"atoms": (("x", "y"), ("y", 2))},
        {"where": col("x") < 1},
        {"let": {"z": lit(2)}},
        {"select": ["y", "x", "z"]},
        {"orders": [["z"], []]},
    ],
)
def test_different_joins_have_different_hashes_and_are_not_shared(change: Mapping[str, Any]) -> None:
    def built(*queries: Mapping[str, Any]) -> Circuit:
        circuit = Circuit("test")
        e = circuit.input("e", x=int, y=int)
        for number, query in enumerate(queries):
            given_ = {"atoms": (("x", "y"), ("y", 1)), "let": {"z": col("x")}, **query}
            atoms = [e(*terms) for terms in given_.pop("atoms")]
            if "orders" in given_:
                atoms, given_["orders"] = [e("x", "y"), e("y", "w")], [["w"], ["x"]]
            circuit.output(f"out{number}", multiway_join(atoms, **given_))
        return circuit

    assert built(change).content_hash() != built({}).content_hash()
    assert built(change).content_hash() == built(change).content_hash()
    assert joins(built({}, change)) == 2
    assert joins(built(change, change)) == 1


def joins(circuit: Circuit) -> int:
    return sum(node.operator.name == "MultiwayJoin" for node in circuit.start().graph.walk())


def test_self_joins_share_their_traces() -> None:
    """The triangle and the 4-clique over one relation need the two orders of its columns."""
    circuit = Circuit("test")
    e = circuit.input("e", x=int, y=int)
    pairs = [("a", "b"), ("a", "c"), ("a", "d"), ("b", "c"), ("b", "d"), ("c", "d")]
    circuit.output("clique", multiway_join([e(*pair) for pair in pairs]))
    circuit.output("triangle", multiway_join([e("a", "b"), e("b", "c"), e("a", "c")]))
    traces = [node for node in circuit.start().graph.walk() if "Arrange" in node.label]
    of_edges = [node.label for node in traces if node.schema.arity == 2]
    assert sorted(of_edges) == ["Arrange by 0, 1", "Arrange by 1, 0"]


@pytest.mark.slow
@settings(max_examples=examples(100))
@given(st.data())
def test_several_joins_in_one_circuit_share_traces(data: st.DataObject) -> None:
    """All joins share the smallest set of column orders, also within a scope."""
    first = data.draw(conjunctions(most=4))
    queries = [first, *(data.draw(conjunctions(most=4, relations=first.relations)) for _ in range(3))]
    circuit = Circuit("test")
    streams = {name: circuit.input(name, schema=first.schema(name)) for name in first.relations}
    for number, query in enumerate(queries):
        circuit.output(f"out{number}", query.joined(streams))
    name = next(iter(streams))
    with circuit.fixpoint("scope") as scope:
        same = scope.variable("same", streams[name].schema)
        scope.define(same, streams[name])
        inside = [query.joined({**streams, name: same}) for query in queries]
    for number, stream in enumerate(inside):
        circuit.output(f"in{number}", scope.leave(stream))
    run = circuit.start()
    inputs: dict[str, Z] = {name: {} for name in streams}
    for tick in data.draw(first.ticks()):
        inputs = {name: add(rows, tick.get(name, {})) for name, rows in inputs.items()}
        run.step(tick)
        for number, query in enumerate(queries):
            wanted = query.evaluate(inputs)
            assert canonical(view(run, f"out{number}")) == wanted
            assert canonical(view(run, f"in{number}")) == wanted


# --- many rows ------------------------------------------------------------------------------------


def edges(rng: np.random.Generator, n: int, nodes: int) -> np.ndarray[Any, Any]:
    return rng.integers(0, nodes, (n, 2), dtype=np.int64)


def paths(circuit: Circuit) -> dict[str, Stream]:
    e = circuit.input("e", x=int, y=int)
    few = circuit.constant([(n, n * n) for n in range(0, 60, 7)], {"x": int, "y": int})
    three = [e("a", "b"), e("b", "c"), e("c", "d")]
    return {
        "conditions": multiway_join(three, ["a", "d"], where=[col("a") < col("c"), col("b") != col("d")]),
        "computed": multiway_join(
            [e("a", "b"), few("c", "d"), e("d", "f")],
            ["a", "f"],
            let={"c": col("b") + 1},
            where=col("d") < col("a"),
        ),
    }


@pytest.mark.slow
def test_deltas_that_are_processed_in_chunks() -> None:
    """Conditions and computed variables between the levels require chunks."""
    rng = np.random.default_rng(3)
    runs = []
    for stage in (Stage.PHYSICAL, Stage.QUERY):
        circuit = Circuit("test")
        for name, stream in paths(circuit).items():
            circuit.output(name, stream)
        runs.append(circuit.start(stage))
    rows = edges(rng, CHUNK + 20_000, 60_000)
    more = edges(rng, CHUNK + 1, 60_000)
    gone = np.concatenate((rows[: CHUNK + 3], more[:5]))
    sizes = []
    for changed, weight in ((rows, 1), (more, 1), (gone, -1), (more[10:40_000], 3)):
        delta = ZSet.from_numpy(changed, weights=np.full(len(changed), weight, np.int64))
        one, other = (run.step({"e": delta}) for run in runs)
        for name in one:
            assert one[name] == other[name]
            assert runs[0].view(name) == runs[1].view(name)
            sizes.append(len(one[name]))
    assert min(sizes) > 0 and max(sizes) > CHUNK


@pytest.mark.slow
def test_traces_of_many_runs_that_are_merged() -> None:
    """Small ticks after large ones: a triangle count over a graph that grows and shrinks."""
    rng = np.random.default_rng(7)
    circuit = Circuit("test")
    e = circuit.input("e", x=int, y=int)
    atoms = [e("a", "b"), e("b", "c"), e("a", "c")]
    circuit.output("triangles", multiway_join(atoms, where=col("a") != col("c")))
    run = circuit.start()
    present = np.zeros((70, 70), np.int64)
    for number in range(120):
        tick = edges(rng, 1500 if number % 30 == 0 else int(rng.integers(0, 12)), 70)
        weight = -1 if number % 4 == 3 else 1
        if weight < 0:
            there = np.argwhere(present > 0)
            tick = there[rng.integers(0, len(there), len(tick))]
        np.add.at(present, (tick[:, 0], tick[:, 1]), weight)
        run.step({"e": ZSet.from_numpy(tick, weights=np.full(len(tick), weight, np.int64))})
        if number % 20 == 19 or number < 3:
            want = present[:, :, None] * present[None, :, :] * present[:, None, :]
            want[np.arange(70), :, np.arange(70)] = 0
            found = {row: int(want[row]) for row in map(tuple, np.argwhere(want).tolist())}
            assert view(run, "triangles") == found
