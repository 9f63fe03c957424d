"""Recursive rules evaluated by multi-way joins, compared with plain iteration over sets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dbsp import Circuit, Stream, col, multiway_join
from tests.operators.recursion.nested_scopes import ALL, PAIR, alternating_model, follow, graph_ticks
from tests.profiles import examples
from tests.random_conjunctions import Conjunction, Constant, conjunctions
from tests.reference import Row
from tests.strategies import Tick, rows, set_ticks, small

VALUE = st.integers(0, 2)


def joined_sets(query: Conjunction, **relations: set[Row]) -> set[Row]:
    return set(query.evaluate({name: dict.fromkeys(rows, 1) for name, rows in relations.items()}))


RULES = {"p": ("int", "int"), "e": ("int", "int"), "s": ("int", "int", "int")}
"""p is defined by the rule; e and s are inputs."""


@st.composite
def rules(draw: st.DrawFn) -> Conjunction:
    """A rule that derives pairs from at least one p, without new values."""
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

        def solve(owner: Any, first: Stream, depth: int) -> Stream:
            with owner.fixpoint(f"scope{depth}") as scope:
                p = scope.variable("p", first.schema)
                inside = p if depth == 1 else solve(scope, p, depth - 1)
                result = query.joined({**given, "p": inside})
                c0, c1 = query.select
                scope.define(p, (first + result.map(c0=col(c0), c1=col(c1))).distinct())
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
@settings(max_examples=examples(150))
@given(rules(), RULE_TICKS)
def test_random_rules(query: Conjunction, sequence: list[Tick]) -> None:
    follow(recursive(query, 1), least(query), sequence, ALL)


@settings(max_examples=examples(60))
@given(rules(), RULE_TICKS)
def test_random_rules_two_scopes_deep(query: Conjunction, sequence: list[Tick]) -> None:
    """The result of the inner scope is closed under the rule; the outer scope adds nothing."""
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
@settings(max_examples=examples(30))
@given(sequence=set_ticks({"edge": rows(small, small)}, max_ticks=6))
def test_closure_by_paths_of_paths(steps: int, sequence: list[Tick]) -> None:
    follow(closure(steps), closure_model(steps), sequence, ALL)


@pytest.mark.parametrize("steps", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_closure_of_a_larger_graph(steps: int, seed: int) -> None:
    follow(closure(steps), closure_model(steps), graph_ticks(24, 36, 25, seed))


def triangles(circuit: Circuit) -> Stream:
    """Two marked sides of a triangle mark its third side, for any two sides."""
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


@settings(max_examples=examples(100))
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
    """Alternate any number of steps of a with one step of b; the atoms have three depths."""
    a, b = (circuit.input(name, schema=PAIR, kind="set") for name in "ab")
    with circuit.fixpoint("turns") as outer:
        first = outer.variable("first", PAIR)
        with outer.fixpoint("steps") as inner:
            made = inner.variable("made", PAIR)
            longer = multiway_join([a("y", "z"), made("x", "y")], select=["x", "z"]).rename(y="z")
            again = multiway_join([first("x", "y"), a("y", "z"), made("x", "z")], select=["x", "z"])
            inner.define(made, (first + a + longer + again.rename(y="z")).distinct())
        reached = inner.leave(made)
        step = multiway_join([b("y", "z"), reached("x", "y")], select=["x", "z"])
        outer.define(first, step.rename(y="z").distinct())
    return outer.leave(reached)


@settings(max_examples=examples(60))
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


# --- functions and failures within a scope --------------------------------------------------------


def lengths(circuit: Circuit) -> Stream:
    """Walks with their lengths: concatenate two walks, or extend one by a node."""
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


@settings(max_examples=examples(25))
@given(set_ticks({"edge": rows(small, small)}, max_ticks=5, max_size=4))
def test_functions_within_a_scope(sequence: list[Tick]) -> None:
    follow(lengths, lengths_model, sequence, ALL)
