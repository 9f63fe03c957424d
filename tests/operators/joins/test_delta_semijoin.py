"""Semijoins and antijoins as one node: its arrangements, its cost, and where it is not used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbsp
from dbsp import Circuit, EvaluationError, Run, Stream, WeightOverflowError, col, lit
from dbsp.circuit.graph import Graph
from dbsp.circuit.pictures.circuit_picture import circuit_picture
from dbsp.operators.joins.delta_semijoin import DeltaSemijoin
from dbsp.operators.shards.exchange import Placing
from tests import reference
from tests.harness import apply_set, final_views, follow, start, view, views
from tests.operators.stages.test_distribute import compare
from tests.parallel.small_pieces import small_pieces
from tests.profiles import examples
from tests.reference import Z, minus
from tests.strategies import Tick, resplit, rows, set_ticks, small, ticks

PAIR = rows(small, small)
PAIRS = {"x": int, "y": int}


def names(graph: Graph) -> list[str]:
    """The names of the operators of a circuit and its scopes, without ports and arrangements."""
    found = (node.operator.name for node in graph.walk())
    return [name for name in found if name not in ("Input", "Output", "Arrange")]


def arranged(graph: Graph) -> int:
    return sum(node.operator.name == "Arrange" for node in graph.walk())


def stored_rows(run: Run) -> int:
    return sum(trace.rows for trace in run.scope.traces)


def half_join(stream: Stream, other: Stream, kind: str, on: list[Any]) -> Stream:
    return stream.join(other, on=on, how="semi" if kind == "semijoin" else "anti")


KINDS = ("semijoin", "antijoin")


def composed(a: Stream, b: Stream, kind: str, on: str) -> Stream:
    """The definition, as nodes of the query."""
    keys = b.select(on).distinct()
    partnered = a.join(keys, on=[on], select=list(a.schema.names))
    return partnered if kind == "semijoin" else a - partnered


# --- the circuit ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_one_node_over_two_arrangements(kind: str) -> None:
    circuit = Circuit("one node")
    a, b = circuit.input("a", schema=PAIRS), circuit.input("b", schema=PAIRS)
    circuit.output("out", half_join(a, b, kind, ["y"]).filter(col("x") > 0))
    physical = circuit.circuit("physical")
    assert names(physical) == ["Filter", "Project", kind.capitalize()]
    assert arranged(physical) == 3  # the rows of a, the keys of b, and the view
    keys = next(node for node in physical.nodes if node.operator.name == "Project")
    assert keys.schema.arity == 1


def test_pictures_name_the_columns_of_both_sides() -> None:
    circuit = Circuit("pictures")
    a, b = circuit.input("a", schema=PAIRS), circuit.input("b", p=int, q=int)
    circuit.output("out", a.join(b, on=[("y", "q")], how="anti").select("x"))
    for stage, expected in (
        ("incremental", "Sum of the terms of Antijoin"),
        ("physical", "Antijoin on y = q"),
    ):
        titles = {node.title: node.columns for node in circuit_picture(circuit.circuit(stage)).nodes}
        assert expected in titles
    assert titles["Antijoin on y = q"] == "x: int"


@pytest.mark.parametrize("kind", KINDS)
def test_arrangements_are_shared(kind: str) -> None:
    """A key of all columns needs no projection; joins and distincts read the same traces."""
    circuit = Circuit("shared")
    a, b = circuit.input("a", schema=PAIRS), circuit.input("b", schema={"y": int})
    alone = Circuit("alone")
    c, d = alone.input("a", schema=PAIRS), alone.input("b", schema={"y": int})
    alone.output("joined", c.join(d, on=["y"]))
    alone.output("set", d.distinct())
    circuit.output("joined", a.join(b, on=["y"]))
    circuit.output("set", b.distinct())
    circuit.output("out", half_join(a, b, kind, ["y"]))
    before, after = alone.circuit("physical"), circuit.circuit("physical")
    assert arranged(after) == arranged(before) + 1  # the view of the new output
    assert sorted(names(after)) == sorted([*names(before), kind.capitalize()])


def test_a_projection_becomes_a_part_of_the_node() -> None:
    def build(c: Circuit) -> Stream:
        a, b = c.input("a", schema=PAIRS), c.input("b", schema=PAIRS)
        return a.join(b, on=["y"], how="anti").select("x")

    graph = start(build).graph
    assert names(graph) == ["Project", "Antijoin"]
    node = next(node for node in graph.nodes if isinstance(node.operator, DeltaSemijoin))
    assert node.schema.names == ("x",)
    assert not node.operator.yields_set([True, True])
    follow(
        build,
        lambda z: reference.project(reference.antijoin(z["a"], z["b"], [(1, 1)]), [0]),
        [{"a": {(1, 1): 1, (1, 2): 1, (1, 3): -1}}, {"b": {(0, 1): 1, (0, 3): 1}}, {"b": {(0, 1): -1}}],
    )


def test_the_keys_of_a_group_are_one_row() -> None:
    """The state follows the number of keys of B, and a row of a large group visits one of them."""
    run = start(
        lambda c: c.input("a", schema=PAIRS).join(c.input("b", schema=PAIRS), on=["y"], how="anti"),
    )
    run.step({"a": [(1, 7)], "b": [(x, 7) for x in range(500)]})
    run.compact()
    assert stored_rows(run) == 2  # a row of a, a key of b, and no row of the view
    assert not run.step({"b": {(x, 7): -1 for x in range(499)}})["out"]
    assert run.step({"b": {(499, 7): -1}})["out"].to_dict() == {(1, 7): 1}


def test_a_scope_has_the_composition() -> None:
    circuit = Circuit("scope")
    a, b = circuit.input("a", schema=PAIRS), circuit.input("b", schema=PAIRS)
    with circuit.fixpoint("reach") as scope:
        reach = scope.variable("reach", a.schema)
        longer = reach.join(a, on=[("y", "x")], select=["x", "y_right"]).rename(y="y_right")
        outside = a.join(b, on=["x"], how="anti")  # independent of the scope
        scope.define(reach, (outside + longer.join(b, on=["y"], how="anti")).distinct())
    circuit.output("out", scope.leave(reach))
    physical = circuit.circuit("physical")
    (body,) = (child for node in physical.nodes for child in node.operator.children())
    assert [node.operator.name for node in physical.nodes].count("Antijoin") == 1
    inside = [node.operator.name for node in body.nodes]
    assert "Minus" in inside
    assert "Antijoin" not in inside


# --- results --------------------------------------------------------------------------------------


@settings(max_examples=examples(40))
@given(ticks({"a": rows(small, small, small), "b": PAIR, "xs": rows(small), "qs": rows(small)}), st.data())
def test_keys_in_two_orders(sequence: list[Tick], data: st.DataObject) -> None:
    """Other readers want the columns of a and b in other orders, so that the key is realigned."""

    def build(c: Circuit) -> dict[str, Stream]:
        a, b = c.input("a", x=int, y=int, z=int), c.input("b", p=int, q=int)
        xs, qs = c.input("xs", x=int), c.input("qs", q=int)
        on = [("x", "p"), ("y", "q")]
        return {
            "by x": a.join(xs, on=["x"]),
            "by q": b.join(qs, on=["q"]),
            "with": a.join(b, on=on, how="semi"),
            "without": a.join(b, on=on, how="anti"),
            "narrow": a.join(b, on=on, how="anti").select("z", "x"),
        }

    def model(inputs: dict[str, Z]) -> dict[str, Z]:
        a, b = inputs["a"], inputs["b"]
        on = [(0, 0), (1, 1)]
        without = reference.antijoin(a, b, on)
        return {
            "by x": reference.join(a, inputs["xs"], [(0, 0)], [(0, 0), (0, 1), (0, 2)]),
            "by q": reference.join(b, inputs["qs"], [(1, 0)], [(0, 0), (0, 1)]),
            "with": reference.semijoin(a, b, on),
            "without": without,
            "narrow": reference.project(without, [2, 0]),
        }

    run = follow(build, model, sequence)
    realigned = [
        node.operator.realign for node in run.graph.walk() if isinstance(node.operator, DeltaSemijoin)
    ]
    assert len(realigned) == 3 and all(realigned)
    assert final_views(build, sequence) == final_views(build, data.draw(resplit(sequence)))


@pytest.mark.parametrize("kind", KINDS)
def test_none_of_one_side_matches_no_later_key(kind: str) -> None:
    """The code of None is that of the lowest int, in changes of either side."""
    lowest = -(2**63)
    for left, right, low, none in ((int | None, int, "b", "a"), (int, int | None, "a", "b")):
        inputs: dict[str, Z] = {"a": {}, "b": {}}
        run = start(
            lambda c, left=left, right=right: half_join(
                c.input("a", x=left, z=int), c.input("b", x=right, z=int), kind, ["x"]
            )
        )
        for change in (
            {none: {(None, 0): 1, (1, 0): 1}},
            {low: {(lowest, 0): 1, (1, 0): 1}},
            {none: {(None, 0): -1, (None, 1): 2}},
            {low: {(lowest, 0): -1}, none: {(1, 0): -1}},
            {low: {(lowest, 5): 1}},
        ):
            run.step(change)
            for name, delta in change.items():
                inputs[name] = reference.add(inputs[name], delta)
            assert view(run) == getattr(reference, kind)(inputs["a"], inputs["b"], [(0, 0)])


def test_weights_of_a_key_that_cancel() -> None:
    """The presence of a key is the sign of the sum of the weights of its rows."""

    def build(c: Circuit) -> dict[str, Stream]:
        a, b = c.input("a", schema=PAIRS), c.input("b", schema=PAIRS)
        return {kind: half_join(a, b, kind, ["y"]) for kind in KINDS}

    sequence: list[Tick] = [
        {"a": {(1, 7): 3, (2, 7): -2, (1, 8): 1}, "b": {(0, 7): 2, (1, 7): -2}},
        {"b": {(2, 7): 1}},
        {"b": {(2, 7): 4, (3, 7): -5}, "a": {(1, 7): -3, (5, 7): 1}},
        {"b": {(9, 7): -1, (0, 8): -1}},
        {"b": {(8, 7): 2, (0, 8): 1}, "a": {(5, 7): 1}},
        {"b": {(8, 8): 10**12}},
        {"b": {(8, 8): -(10**12), (8, 7): -1}},
    ]
    on = [(1, 1)]
    follow(
        build,
        lambda z: {
            "semijoin": reference.semijoin(z["a"], z["b"], on),
            "antijoin": reference.antijoin(z["a"], z["b"], on),
        },
        sequence,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_the_weights_of_a_change_are_not_sorted_in_place(kind: str) -> None:
    """The result has another column order than the trace, which keeps the weights of the change."""
    many = {(x, 500 - x): x + 1 for x in range(300)}
    b = {(500 - x, 0): 1 for x in range(0, 300, 3)}
    follow(
        lambda c: half_join(c.input("a", schema=PAIRS), c.input("b", schema=PAIRS), kind, [("y", "x")]),
        lambda z: getattr(reference, kind)(z["a"], z["b"], [(1, 0)]),
        [
            {"a": many},
            {"b": b},
            {"a": {row: -weight for row, weight in many.items()}},
            {"b": many},
            {"a": many},
        ],
    )


@settings(max_examples=examples(20))
@given(ticks({"a": rows(small, small, small), "b": PAIR}, max_ticks=3, max_size=25))
def test_large_changes_in_pieces(sequence: list[Tick]) -> None:
    on = [(1, 0)]
    with small_pieces(2):
        follow(
            lambda c: c.input("a", x=int, y=int, z=int).join(
                c.input("b", y=int, w=int), on=["y"], how="anti"
            ),
            lambda z: reference.antijoin(z["a"], z["b"], on),
            sequence,
        )


# --- faults ---------------------------------------------------------------------------------------


def test_a_tick_that_fails_changes_nothing() -> None:
    """The traces of both sides have received their changes when a later node raises."""

    def build(c: Circuit) -> Stream:
        a, b = c.input("a", schema=PAIRS), c.input("b", schema=PAIRS)
        return a.join(b, on=["y"], how="anti").map(x=col("x"), q=lit(12) // col("x"))

    run, other = start(build), start(build)
    for one in (run, other):
        one.step({"a": [(1, 1), (2, 2), (0, 3)], "b": [(5, 1), (6, 3)]})
    before = views(run)
    for failing in ({"b": {(6, 3): -1, (5, 1): -1, (1, 2): 1}}, {"a": {(0, 9): 1, (3, 2): 1}}):
        with pytest.raises(EvaluationError):
            run.step(failing)
        assert views(run) == before
    after: list[Tick] = [{"b": {(5, 1): -1}, "a": {(4, 2): 1}}, {"b": {(1, 2): 1}}, {"a": {(0, 3): -1}}]
    for tick in after:
        assert run.step(tick)["out"].to_dict() == other.step(tick)["out"].to_dict()
    assert views(run) == views(other)


def test_weights_outside_of_64_bits() -> None:
    run = start(lambda c: c.input("a", schema=PAIRS).join(c.input("b", schema=PAIRS), on=["y"], how="anti"))
    run.step({"a": {(1, 1): -(2**63)}})
    with pytest.raises(WeightOverflowError, match=r"Antijoin at test_delta_semijoin\.py"):
        run.step({"b": [(1, 1)]})
    assert run.tick == 1
    assert run.step({"b": [(1, 2)]})["out"].to_dict() == {}


# --- state ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(15))
@given(sequence=ticks({"a": PAIR, "b": PAIR}, max_ticks=6))
def test_a_run_switches_between_the_node_and_the_composition(kind: str, sequence: list[Tick]) -> None:
    """`replan` rebuilds the state of the other form from the rows of both sides."""
    circuits = []
    for one_node in (False, True):
        circuit = Circuit("query")
        a, b = (circuit.input(name, schema=PAIRS, kind="set") for name in "ab")
        circuit.output("out", half_join(a, b, kind, ["y"]) if one_node else composed(a, b, kind, "y"))
        circuits.append(circuit.circuit("physical"))
    assert [kind.capitalize() in names(graph) for graph in circuits] == [False, True]
    run, inputs = Run(circuits[0]), {"a": {}, "b": {}}
    model = getattr(reference, kind)
    for number, tick in enumerate(sequence, 1):
        done = run.replan(circuits[number % 2])
        assert done.kept + done.rebuilt == len(run.scope.traces)
        before = view(run)
        result = run.step(tick)["out"].to_dict()
        inputs = {name: apply_set(inputs[name], tick.get(name, {})) for name in inputs}
        after = model(inputs["a"], inputs["b"], [(1, 1)])
        assert view(run) == after
        assert result == minus(after, before)


PARTNERS = """
.decl a(x: number, y: number) .input a
.decl b(x: number, y: number) .input b
.decl out(x: number, y: number) .output out
out(x, y) :- a(x, y), {negated}b(_, y).
"""


@pytest.mark.parametrize("kind", KINDS)
def test_a_checkpoint_with_the_composition_goes_on(kind: str, tmp_path: Path) -> None:
    """A snapshot stores its circuit; a run continues this circuit until it is replanned."""

    program = dbsp.compile(PARTNERS.format(negated="!" if kind == "antijoin" else ""), folders=[])
    old = Circuit("query")
    a, b = (old.input(name, schema=PAIRS, kind="set") for name in "ab")
    old.output("out", composed(a, b, kind, "y"))
    run = program.start(circuit=old, checkpoint=tmp_path)
    run.step({"a": [(1, 1), (2, 2)], "b": [(5, 1), (6, 1), (7, 3)]})
    run.snapshot()
    before = views(run)
    del run, a, b
    run = program.start(checkpoint=tmp_path)
    assert "Distinct" in names(run.graph)
    assert kind.capitalize() not in names(run.graph)
    assert views(run) == before
    done = run.replan(program.circuit("physical"))
    assert (done.rebuilt, done.dropped) == (1, 2)
    assert kind.capitalize() in names(run.graph)
    sign = 1 if kind == "semijoin" else -1
    change = run.step({"b": {(5, 1): -1, (6, 1): -1, (8, 2): 1}})["out"].to_dict()
    assert change == {(1, 1): -sign, (2, 2): sign}


# --- rules ----------------------------------------------------------------------------------------

STRATA = """
.decl n(x: number) .input n
.decl e(x: number, y: number) .input e
.decl lonely(x: number) .output lonely
.decl busy(x: number) .output busy
.decl calm(x: number, y: number) .output calm
.decl far(x: number, y: number) .output far
.decl nothing() .output nothing
lonely(x) :- n(x), !e(x, _).
busy(x) :- n(x), !lonely(x), !e(x, x).
calm(x, y) :- e(x, y), !busy(x), !busy(y), !e(y, x).
far(x, y) :- e(x, y), !calm(x, y).
far(x, z) :- far(x, y), e(y, z), !lonely(z), !calm(_, z).
nothing() :- !far(_, _).
"""


def strata(n: set[int], e: set[tuple[int, int]]) -> dict[str, Z]:
    """The relations of STRATA, recomputed from the facts."""
    lonely = {x for x in n if all(a != x for a, _ in e)}
    busy = {x for x in n if x not in lonely and (x, x) not in e}
    calm = {(x, y) for x, y in e if x not in busy and y not in busy and (y, x) not in e}
    far = e - calm
    ends = lonely | {y for _, y in calm}
    while True:
        longer = {(x, z) for x, y in far for a, z in e if a == y and z not in ends}
        if longer <= far:
            break
        far = far | longer
    return {
        "lonely": {(x,): 1 for x in lonely},
        "busy": {(x,): 1 for x in busy},
        "calm": dict.fromkeys(calm, 1),
        "far": dict.fromkeys(far, 1),
        "nothing": {} if far else {(): 1},
    }


@settings(max_examples=examples(30))
@given(set_ticks({"n": rows(small), "e": PAIR}, max_ticks=5))
def test_rules_with_negation_over_several_strata(sequence: list[Tick]) -> None:
    run = dbsp.compile(STRATA, folders=[]).start()
    assert names(run.graph).count("Antijoin") >= 6
    facts: dict[str, Z] = {"n": {}, "e": {}}
    before = strata(set(), set())
    for number, tick in enumerate(sequence):
        result = run.step(tick)
        facts = {name: apply_set(facts[name], tick.get(name, {})) for name in facts}
        after = strata({x for (x,) in facts["n"]}, {(x, y) for x, y in facts["e"]})
        assert views(run) == after, f"tick {number} of {sequence}"
        if number:
            assert {name: result[name].to_dict() for name in after} == {
                name: minus(after[name], before[name]) for name in after
            }
        before = after


def test_a_negation_without_a_key_moves_no_row_of_the_left_side() -> None:
    """The other side has no columns, so every shard gets its only row."""
    text = PARTNERS.format(negated="!").replace("b(_, y)", "b(_, _)")
    graph = dbsp.compile(text, folders=[]).circuit("distributed")
    moved = [node for node in graph.nodes if isinstance(node.operator, Placing)]
    assert [(node.operator.name, node.schema.arity) for node in moved] == [("Broadcast", 0)]


@pytest.mark.parametrize("shards", [1, 2, 3])
def test_rules_with_negation_on_shards(shards: int) -> None:
    physical = dbsp.compile(STRATA, folders=[]).circuit("physical")
    edges = [(x, y) for x in range(6) for y in range(6) if (x * y + x) % 4 < 2]
    compared = compare(
        physical,
        shards,
        [
            {"n": [(x,) for x in range(5)], "e": edges},
            {"e": {(x, y): -1 for x, y in edges if x == 2}, "n": {(5,): 1}},
            {"e": {(2, 2): 1, (2, 5): 1, (5, 2): 1, **{row: -1 for row in edges if row[0] == 3}}},
            {"n": {(0,): -1}, "e": dict.fromkeys(edges, -1)},
        ],
    )
    assert compared.many.view("nothing") == {(): 1} or compared.many.view("far")
