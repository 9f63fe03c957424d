"""Multi-way joins inside fixpoints: every tick must come to what plain iteration from scratch comes to."""

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
from tests.operators.recursion.test_scopes import ALL, PAIR, alternating_model, follow, graph_ticks
from tests.random_conjunctions import Conjunction, Constant, conjunctions, orders
from tests.reference import Row, Z, add, flat_map, minus
from tests.strategies import Tick, rows, set_ticks, small

LEVELS = 3
HEAVIEST = 2**40

# --- random queries, anything fed back one level up -------------------------------------------------

LEVELLED = {"p": ("int", "int", "int?"), "q": ("int", "int"), "r": ("int", "int")}
"""The first column is a level in p and q, which change within the scope; r only comes from outside."""


@st.composite
def levelled(draw: st.DrawFn, most: int) -> Conjunction:
    """A query that tells the levels of all rows it is made of, and one more variable."""
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
    """What a row of the result makes of itself in p: one level above all rows it is made of."""
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


LEVEL = st.integers(0, 1)
VALUE = st.integers(0, 2)


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
@settings(max_examples=150)
@given(levelled(4), levelled_ticks(5))
def test_random_queries_in_a_scope(query: Conjunction, sequence: list[Tick]) -> None:
    follow_stages(nested(query, 1), nested_model(query, 1), sequence, ALL)


@pytest.mark.slow
@settings(max_examples=60)
@given(levelled(3), levelled_ticks(4))
def test_random_queries_two_scopes_deep(query: Conjunction, sequence: list[Tick]) -> None:
    follow_stages(nested(query, 2), nested_model(query, 2), sequence, ALL)


@pytest.mark.parametrize("depth", [1, 2])
def test_a_product_with_a_relation_that_was_empty(depth: int) -> None:
    """No column of r matters, and its delta comes when q has no row yet."""
    query = Conjunction(LEVELLED, (("q", ("l0", "a")), ("r", ("b", "c"))), {}, (), ("l0", "a"))
    q: Z = {(1, 2): 3, (0, 1): 1, (0, 2): 1}
    r: Z = {(1, 1): 1, (1, 2): 1}
    sequence: list[Tick] = [{"r": r}, {"q": q}, {"q": reference.negate(q), "r": reference.negate(r)}]
    follow_stages(nested(query, depth), nested_model(query, depth), sequence, ALL)


# --- recursion over sets ---------------------------------------------------------------------------


def joined_sets(query: Conjunction, **relations: set[Row]) -> set[Row]:
    return set(query.evaluate({name: dict.fromkeys(rows, 1) for name, rows in relations.items()}))


RULES = {"p": ("int", "int"), "e": ("int", "int"), "s": ("int", "int", "int")}
"""p is defined by the rule; e and s come from outside."""


@st.composite
def rules(draw: st.DrawFn) -> Conjunction:
    """A rule that makes pairs of at least one p, of values that are there."""
    query = draw(conjunctions(most=4, extremes=True, relations=RULES))
    names = [*query.variables(), *(name for name in query.let if name not in query.variables())]
    assume(len(names) > 1 and any(name == "p" for name, _ in query.atoms))
    head = tuple(draw(st.permutations(names))[:2])
    atoms = tuple(
        (name, tuple(Constant(0) if isinstance(term, Constant) else term for term in terms))
        for name, terms in query.atoms
    )
    return replace(query, atoms=atoms, select=head)


PAIRS = rows(VALUE, VALUE)
RULE_TICKS = set_ticks({"e": PAIRS, "p": PAIRS, "s": rows(VALUE, VALUE, VALUE)}, max_ticks=6, max_size=7)


def recursive(query: Conjunction, depth: int) -> Callable[[Circuit], Stream]:
    def build(circuit: Circuit) -> Stream:
        given = {name: circuit.input(name, schema=query.schema(name), kind="set") for name in RULES}

        def solve(owner: Any, begun: Stream, depth: int) -> Stream:
            with owner.fixpoint(f"scope{depth}") as scope:
                p = scope.variable("p", begun.schema)
                inside = p if depth == 1 else solve(scope, p, depth - 1)
                result = query.joined({**given, "p": inside})
                c0, c1 = query.select
                scope.define(p, (begun + result.map(c0=col(c0), c1=col(c1))).distinct())
            left: Stream = scope.leave(p)
            return left

        return solve(circuit, given["p"], depth)

    return build


def least(query: Conjunction) -> Callable[..., set[Row]]:
    def model(e: set[Row], p: set[Row], s: set[Row]) -> set[Row]:
        found = set(p)
        while more := joined_sets(query, e=e, p=found, s=s) - found:
            found |= more
        return found

    return model


@pytest.mark.slow
@settings(max_examples=150)
@given(rules(), RULE_TICKS)
def test_random_rules(query: Conjunction, sequence: list[Tick]) -> None:
    follow(recursive(query, 1), least(query), sequence, ALL)


@settings(max_examples=60)
@given(rules(), RULE_TICKS)
def test_random_rules_two_scopes_deep(query: Conjunction, sequence: list[Tick]) -> None:
    """What the inner scope makes of p is closed under the rule; the outer one finds nothing to add."""
    follow(recursive(query, 2), least(query), sequence, ALL)


def closure(steps: int) -> Callable[[Circuit], Stream]:
    """path = edge + path x ... x path, as a multi-way join of `steps` recursive atoms."""

    def build(circuit: Circuit) -> Stream:
        edge = circuit.input("edge", schema=PAIR, kind="set")
        with circuit.fixpoint("closure") as scope:
            path = scope.variable("path", PAIR)
            atoms = [path(f"v{i}", f"v{i + 1}") for i in range(steps)]
            longer = multiway_join(atoms, select=["v0", f"v{steps}"])
            scope.define(path, (edge + longer.rename(x="v0", y=f"v{steps}")).distinct())
        return scope.leave(path)

    return build


def closure_model(steps: int) -> Callable[[set[Row]], set[Row]]:
    def model(edge: set[Row]) -> set[Row]:
        path = set(edge)
        while True:
            ends = set(path)
            for _ in range(steps - 1):
                ends = {(x, z) for x, y in ends for w, z in path if w == y}
            if ends <= path:
                return path
            path |= ends

    return model


@pytest.mark.parametrize("steps", [2, 3, 4])
@settings(max_examples=30)
@given(sequence=set_ticks({"edge": rows(small, small)}, max_ticks=6))
def test_closure_by_paths_of_paths(steps: int, sequence: list[Tick]) -> None:
    follow(closure(steps), closure_model(steps), sequence, ALL)


@pytest.mark.parametrize("steps", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_closure_of_a_larger_graph(steps: int, seed: int) -> None:
    follow(closure(steps), closure_model(steps), graph_ticks(24, 36, 25, seed))


def triangles(circuit: Circuit) -> Stream:
    """Marked edges mark the third side of their triangles, whichever two of the sides they are."""
    edge = circuit.input("edge", schema=PAIR, kind="set")
    seed = circuit.input("seed", schema=PAIR, kind="set")
    with circuit.fixpoint("marks") as scope:
        marked = scope.variable("marked", PAIR)
        third = multiway_join([marked("a", "b"), edge("a", "c"), marked("b", "c")], select=["a", "c"])
        first = multiway_join([edge("a", "b"), marked("a", "c"), marked("b", "c")], select=["a", "b"])
        both = third.rename(x="a", y="c") + first.rename(x="a", y="b")
        scope.define(marked, (seed + both).distinct())
    return scope.leave(marked)


def triangles_model(edge: set[Row], seed: set[Row]) -> set[Row]:
    marked = set(seed)
    while True:
        third = {(a, c) for a, b in marked for b2, c in marked if b == b2 and (a, c) in edge}
        first = {(a, b) for a, c in marked for b, c2 in marked if c == c2 and (a, b) in edge}
        if third | first <= marked:
            return marked
        marked |= third | first


@settings(max_examples=100)
@given(set_ticks({"edge": rows(small, small), "seed": rows(small, small)}, max_size=9))
def test_recursion_through_a_triangle(sequence: list[Tick]) -> None:
    follow(triangles, triangles_model, sequence, ALL)


@pytest.mark.parametrize("seed", range(4))
def test_recursion_through_the_triangles_of_a_larger_graph(seed: int) -> None:
    edges = graph_ticks(14, 70, 20, seed)
    seeds = graph_ticks(14, 12, 20, seed + 100)
    both: list[Tick] = [{**e, "seed": s["edge"]} for e, s in zip(edges, seeds, strict=True)]
    follow(triangles, triangles_model, both)


def turns(circuit: Circuit) -> Stream:
    """Any number of steps of a, then one of b, and so on; the atoms are of three different depths."""
    a, b = (circuit.input(name, schema=PAIR, kind="set") for name in "ab")
    with circuit.fixpoint("turns") as outer:
        begun = outer.variable("begun", PAIR)
        with outer.fixpoint("steps") as inner:
            made = inner.variable("made", PAIR)
            longer = multiway_join([a("y", "z"), made("x", "y")], select=["x", "z"]).rename(y="z")
            again = multiway_join([begun("x", "y"), a("y", "z"), made("x", "z")], select=["x", "z"])
            inner.define(made, (begun + a + longer + again.rename(y="z")).distinct())
        reached = inner.leave(made)
        step = multiway_join([b("y", "z"), reached("x", "y")], select=["x", "z"])
        outer.define(begun, step.rename(y="z").distinct())
    return outer.leave(reached)


@settings(max_examples=60)
@given(set_ticks({"a": rows(small, small), "b": rows(small, small)}, max_ticks=6))
def test_atoms_of_several_depths(sequence: list[Tick]) -> None:
    follow(turns, alternating_model, sequence, ALL)


@pytest.mark.parametrize("seed", range(3))
def test_atoms_of_several_depths_in_a_larger_graph(seed: int) -> None:
    both: list[Tick] = [
        {"a": e["edge"], "b": f["edge"]}
        for e, f in zip(graph_ticks(12, 14, 15, seed), graph_ticks(12, 6, 15, seed + 50), strict=True)
    ]
    follow(turns, alternating_model, both)


# --- functions and failures within a scope ---------------------------------------------------------


def lengths(circuit: Circuit) -> Stream:
    """Walks with their lengths, of two walks put together, and of one whose end has a next node."""
    edge = circuit.input("edge", schema=PAIR, kind="set")
    with circuit.fixpoint("walks") as scope:
        walk = scope.variable("walk", {"x": int, "y": int, "n": int})
        one = edge.map(x=col("x"), y=col("y"), n=1)
        total = {"n": col("k") + col("l")}
        both = multiway_join(
            [walk("x", "m", "k"), walk("m", "y", "l")], ["x", "y", "n"], let=total, where=col("n") < 5
        )
        hop = multiway_join(
            [walk("x", "m", "k"), edge("next", "y")],
            ["x", "y", "k"],
            let={"next": col("m") + 1},
            where=[col("x") != col("y")],
        )
        scope.define(walk, (one + both + hop.rename(n="k")).distinct())
    return scope.leave(walk)


def lengths_model(edge: set[Row]) -> set[Row]:
    walks = {(x, y, 1) for x, y in edge}
    while True:
        more = {(x, y, k + n) for x, m, k in walks for m2, y, n in walks if m == m2 and k + n < 5} | {
            (x, y, k) for x, m, k in walks for w, y in edge if w == m + 1 and x != y
        }
        if more <= walks:
            return walks
        walks |= more


@settings(max_examples=25)
@given(set_ticks({"edge": rows(small, small)}, max_ticks=5, max_size=4))
def test_functions_within_a_scope(sequence: list[Tick]) -> None:
    follow(lengths, lengths_model, sequence, ALL)


@pytest.mark.parametrize("stage", ALL)
def test_a_tick_that_fails_within_a_scope_leaves_no_trace(stage: Stage) -> None:
    """Rows that wait for later iterations when the tick fails are forgotten."""
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
    """More rows than are kept at a time, of which most wait: a graph in layers, its paths of two layers."""
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
