"""Random multi-way joins inside fixpoints, compared with plain iteration from scratch."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st

from dbsp import Circuit, Stream, WeightOverflowError, col, multiway_join
from dbsp.circuit.stage import Stage
from tests import reference
from tests.harness import Model, view
from tests.operators.recursion.nested_scopes import ALL, PAIR
from tests.profiles import examples
from tests.random_conjunctions import Conjunction, conjunctions, orders
from tests.reference import Row, Z, add, flat_map, minus
from tests.strategies import Tick

LEVELS = 3
HEAVIEST = 2**40


LEVELLED = {"p": ("int", "int", "int?"), "q": ("int", "int"), "r": ("int", "int")}
"""The first column of p and q is a level; both change within the scope. r is an input."""


@st.composite
def levelled(draw: st.DrawFn, most: int) -> Conjunction:
    """A query that returns the levels of all joined rows, and one more variable."""
    query = draw(conjunctions(most=most, extremes=True, relations=LEVELLED))
    atoms = []
    for number, (name, terms) in enumerate(query.atoms):
        level = draw(st.sampled_from([f"l{number}", f"l{number}", "l0"]))
        atoms.append((name, terms if name == "r" else (level, *terms[1:])))
    assume(any(name != "r" for name, _ in atoms))
    query = replace(query, atoms=tuple(atoms), let={}, where=())
    names = query.variables()
    rest = [name for name in names if not name.startswith("l")]
    chosen = draw(st.sampled_from(rest or [names[0]]))
    select = dict.fromkeys([*(name for name in names if name.startswith("l")), chosen])
    query = replace(query, select=tuple(select), orders=None)
    return replace(query, orders=draw(st.none() | orders(query)))


def fed(row: Row) -> list[Row]:
    """Return the row of p for a result row: one level above all joined rows."""
    level = max(value for value in row[:-1] if value is not None) + 1 if len(row) > 1 else row[0] + 1
    return [(level, row[-1] or 0, row[0])] if level < LEVELS else []


def turned(row: Row) -> list[Row]:
    return [(row[0] + 1, (row[1] + 1) % 3)] if row[0] + 1 < LEVELS else []


def nested(query: Conjunction, depth: int) -> Callable[[Circuit], Stream]:
    def solve(owner: Any, p0: Stream, q0: Stream, r: Stream, depth: int) -> Stream:
        with owner.fixpoint(f"scope{depth}") as scope:
            p, q = scope.variable("p", p0.schema), scope.variable("q", q0.schema)
            relations = {"p": p, "q": q, "r": r}
            result = query.joined(relations) if depth == 1 else solve(scope, p, q, r, depth - 1)
            scope.define(p, p0 + result.flat_map(lambda row: fed(tuple(row)), p0.schema))
            scope.define(q, q0 + q.flat_map(lambda row: turned(tuple(row)), q0.schema))
        left: Stream = scope.leave(result)
        return left

    def build(circuit: Circuit) -> Stream:
        given = {name: circuit.input(name, schema=query.schema(name)) for name in LEVELLED}
        return solve(circuit, given["p"], given["q"], given["r"], depth)

    return build


def nested_model(query: Conjunction, depth: int) -> Model:
    def solve(p0: Z, q0: Z, r: Z, depth: int) -> Z:
        def result(p: Z, q: Z) -> Z:
            return query.evaluate({"p": p, "q": q, "r": r}) if depth == 1 else solve(p, q, r, depth - 1)

        def body(now: Mapping[str, Z]) -> dict[str, Z]:
            made = result(now["p"], now["q"])
            if any(abs(weight) > HEAVIEST for weight in made.values()):
                reject()  # products of weights grow from level to level
            return {"p": add(p0, flat_map(made, fed)), "q": add(q0, flat_map(now["q"], turned))}

        last = reference.fixpoint(body, ["p", "q"])
        return result(last["p"], last["q"])

    return lambda inputs: solve(inputs["p"], inputs["q"], inputs["r"], depth)


def follow_stages(
    build: Callable[[Circuit], Stream], model: Model, sequence: Sequence[Tick], stages: Sequence[Stage]
) -> None:
    runs = {}
    for stage in stages:
        circuit = Circuit("test")
        circuit.output("out", build(circuit))
        runs[stage] = circuit.start(stage)
    inputs: dict[str, Z] = {}
    before: Z = {}
    for number, tick in enumerate(sequence, 1):
        inputs = {name: add(inputs.get(name, {}), tick.get(name, {})) for name in LEVELLED}
        after = model(inputs)
        for stage, run in runs.items():
            told = f"{stage}, tick {number} of {sequence}"
            delta = run.step(tick)["out"].to_dict()
            assert view(run) == after, told
            assert delta == minus(after, before), told
        before = after


@st.composite
def levelled_ticks(draw: st.DrawFn, size: int) -> list[Tick]:
    rng = random.Random(draw(st.integers(0, 2**32)))

    def row(name: str) -> Row:
        first, second = rng.randrange(2), rng.randrange(3)
        return (first, second) if name != "p" else (first, second, rng.choice([0, 1, 2, None]))

    sequence: list[Tick] = []
    for number in range(draw(st.integers(2, 6))):
        tick: Tick = {}
        for name in LEVELLED:
            for _ in range(size if number == 0 else rng.choice([0, 0, 1, 2])):
                tick[name] = add(tick.get(name, {}), {row(name): rng.choice([1, 1, 1, -1, 2])})
        if sequence and rng.random() < 0.3:
            back = rng.choice(sequence)
            tick = {name: reference.scale(-1, back.get(name, {})) for name in LEVELLED}
        sequence.append(tick)
    return sequence


@pytest.mark.slow
@settings(max_examples=examples(150))
@given(levelled(4), levelled_ticks(5))
def test_random_queries_in_a_scope(query: Conjunction, sequence: list[Tick]) -> None:
    follow_stages(nested(query, 1), nested_model(query, 1), sequence, ALL)


@pytest.mark.slow
@settings(max_examples=examples(60))
@given(levelled(3), levelled_ticks(4))
def test_random_queries_two_scopes_deep(query: Conjunction, sequence: list[Tick]) -> None:
    follow_stages(nested(query, 2), nested_model(query, 2), sequence, ALL)


@pytest.mark.parametrize("depth", [1, 2])
def test_a_product_with_a_relation_that_was_empty(depth: int) -> None:
    """No column of r is read, and its delta is in a tick in which q has no row."""
    query = Conjunction(LEVELLED, (("q", ("l0", "a")), ("r", ("b", "c"))), {}, (), ("l0", "a"))
    q: Z = {(1, 2): 3, (0, 1): 1, (0, 2): 1}
    r: Z = {(1, 1): 1, (1, 2): 1}
    sequence: list[Tick] = [{"r": r}, {"q": q}, {"q": reference.negate(q), "r": reference.negate(r)}]
    follow_stages(nested(query, depth), nested_model(query, depth), sequence, ALL)


@pytest.mark.parametrize("stage", ALL)
def test_a_tick_that_fails_within_a_scope_is_rolled_back(stage: Stage) -> None:
    """A failing tick drops the rows that wait for later iterations."""
    query = Conjunction(LEVELLED, (("p", ("l0", "a", None)), ("q", ("l1", "a"))), {}, (), ("l0", "l1", "a"))
    circuit = Circuit("test")
    circuit.output("out", nested(query, 1)(circuit))
    run, model = circuit.start(stage), nested_model(query, 1)
    small_: dict[str, Z] = {"p": {(0, 1, 2): 1, (1, 2, 0): 2}, "q": {(0, 1): 1, (0, 2): 1}, "r": {}}
    run.step(small_)
    expected = model(small_)
    assert view(run) == expected
    for _ in range(2):
        with pytest.raises(WeightOverflowError, match=r"(MultiwayJoin|Nested) at random_conjunctions"):
            run.step({"p": {(0, 2, 0): 2**62, (0, 0, 1): 1}, "q": {(1, 2): 3, (0, 0): 1}})
        assert view(run) == expected and run.tick == 1
    more: Tick = {"p": {(0, 2, 0): 2, (0, 0, 1): 1}, "q": {(1, 2): 3, (0, 0): 1}}
    run.step(more)
    assert view(run) == model({name: add(rows_, more.get(name, {})) for name, rows_ in small_.items()})


def test_long_deltas_within_a_scope() -> None:
    """Several chunks whose rows mostly wait: the paths over two layers of a layered graph."""
    layers, width = 4, 170
    rng = random.Random(11)
    pairs = {
        (layer * width + i, (layer + 1) * width + j)
        for layer in range(layers)
        for i in range(width)
        for j in range(width)
        if rng.random() < 0.9
    }
    circuit = Circuit("test")
    edge = circuit.input("edge", schema=PAIR)
    with circuit.fixpoint("layers") as scope:
        seen = scope.variable("seen", PAIR)
        atoms = [seen("a", "b"), edge("b", "c"), seen("a", "c")]
        triangle = multiway_join(atoms, ["a", "c"], where=[col("a") < col("b"), col("b") < col("c")])
        scope.define(seen, (edge + triangle.rename(x="a", y="c")).distinct())
    circuit.output("out", scope.leave(triangle))
    run = circuit.start()
    run.step({"edge": dict.fromkeys(pairs, 1)})
    assert view(run) == {}
    ends = [(layer * width, (layer + 2) * width) for layer in range(layers - 1)]
    run.step({"edge": dict.fromkeys(ends, 1)})
    middles = {(a, c): sum((a, b) in pairs and (b, c) in pairs for b in range(a + width, c)) for a, c in ends}
    assert {row: view(run)[row] for row in ends} == middles
    run.step({"edge": dict.fromkeys(pairs, -1)})
    assert view(run) == {}
