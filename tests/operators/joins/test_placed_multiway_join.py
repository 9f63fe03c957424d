"""Multi-way joins on shards: the prefixes of their terms travel between the shards."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dbsp
from dbsp import Circuit
from dbsp.operators.shards.exchange import Gather
from tests.random_conjunctions import conjunctions
from tests.shards.compared_shards import ComparedShards

TRIANGLES = """
.decl e(x: number, y: number) .input e
.decl t(x: number, y: number, z: number) .output t
t(x, y, z) :- e(x, y), e(y, z), e(z, x).
"""


@given(st.data(), st.sampled_from([2, 3, 5]))
def test_random_queries(data: st.DataObject, shards: int) -> None:
    query = data.draw(conjunctions(("int", "int", "int?", "str")))
    circuit = Circuit("test")
    streams = {name: circuit.input(name, schema=query.schema(name)) for name in query.relations}
    circuit.output("out", query.joined(streams))
    compared = ComparedShards(circuit.circuit("physical"), shards, checked=True)
    for tick in data.draw(query.ticks()):
        compared.tick(tick)


@pytest.mark.parametrize("shards", [2, 4])
def test_a_shard_has_its_share_of_each_order(shards: int) -> None:
    both = ComparedShards(dbsp.compile(TRIANGLES, "wcoj").circuit("physical"), shards, checked=True)
    assert not any(isinstance(node.operator, Gather) for node in both.graph.nodes)
    draw = random.Random(1)
    edges = [(draw.randrange(3000), draw.randrange(3000)) for _ in range(12_000)]
    both.tick({"e": edges})
    both.tick({"e": dict.fromkeys(edges[::7], -1)})
    both.one.compact()
    for run in both.many.runs:
        run.compact()
    for run in both.many.runs:
        assert run.state_rows <= 1.15 * both.one.state_rows / shards


def test_the_atom_with_fewest_matches_extends_a_prefix() -> None:
    both = ComparedShards(dbsp.compile(TRIANGLES, "wcoj").circuit("physical"), 2)
    star = [(0, n) for n in range(1, 500)] + [(n, 0) for n in range(1, 500)]
    both.tick({"e": star})
    # Joining the star with itself has 249,001 rows through the centre.
    assert sum(both.many.sent.values()) < 20_000


CLIQUES = """
.decl e(x: {type}, y: {type}) .input e
.decl q(a: {type}, b: {type}, c: {type}, d: {type}) .output q
q(a, b, c, d) :- e(a, b), e(a, c), e(b, c), e(a, d), e(b, d), e(c, d){where}.
"""


@pytest.mark.parametrize("type_", ["number", "symbol"])
@pytest.mark.parametrize("shards", [2, 3])
def test_cliques(type_: str, shards: int) -> None:
    where = "" if type_ == "symbol" else ", a < b, b != c, c <= d + 1"
    program = dbsp.compile(CLIQUES.format(type=type_, where=where), "wcoj")
    both = ComparedShards(program.circuit("physical"), shards, checked=True)
    draw = random.Random(shards)
    nodes = [f"n{number}" if type_ == "symbol" else number for number in range(30)]
    # A few nodes have many edges, so that all sides of the join propose values.
    edges = list({(draw.choice(nodes[: draw.choice([4, 30])]), draw.choice(nodes)) for _ in range(300)})
    for _ in range(8):
        both.tick({"e": {edge: draw.choice([1, -1, 2, 3]) for edge in draw.sample(edges, 60)}})
    assert both.one.view("q")


def triangles(shards: int) -> ComparedShards:
    """The triangles of three relations, so that each term starts alone."""
    circuit = Circuit("test")
    p, q, r = (circuit.input(name, schema={"x": int, "y": int}, kind="zset") for name in "pqr")
    joined = dbsp.multiway_join([p("a", "b"), q("b", "c"), r("a", "c")])
    circuit.output("out", joined)
    return ComparedShards(circuit.circuit("physical"), shards)


@pytest.mark.parametrize("shards", [2, 3, 5])
def test_only_products_of_complete_rows_overflow(shards: int) -> None:
    both = triangles(shards)
    large = 2**62
    both.tick({"p": {(n, n + 1): large for n in range(20)}, "r": {(n, n + 2): 1 for n in range(0, 20, 2)}})
    # The products of p and q are too large, and no row of r meets them.
    both.tick({"q": {(n + 1, n + 2): 4 for n in range(1, 20, 2)}})
    assert both.one.tick == 2
    both.tick({"q": {(n + 1, n + 2): 4 for n in range(20)}})
    assert both.one.tick == 2, "some row has all its parts"
    both.tick({"q": {(n + 1, n + 2): 1 for n in range(0, 20, 2)}})
    assert len(both.one.view("out")) == 10


def test_rounds_end_when_no_prefix_is_left() -> None:
    both = triangles(2)
    both.tick({"p": [(1, 2)], "q": [(2, 3)], "r": [(1, 3)]})
    rounds = []
    for changes in ({}, {"p": [(1, 4)]}, {"p": [(1, 2)]}):
        both.tick(changes)
        sent = sum(run.scope.link.calls for run in both.many.runs)
        rounds.append(sent // 2)
    nothing, without_match, with_match = rounds
    assert nothing < without_match < with_match


def test_counts_of_terms_add_up() -> None:
    both = ComparedShards(dbsp.compile(TRIANGLES, "wcoj").circuit("physical"), 3)
    draw = random.Random(3)
    both.tick({"e": {(draw.randrange(20), draw.randrange(20)): 1 for _ in range(150)}})

    def counts(run: dbsp.Run) -> list[tuple[int, int, int]]:
        (terms,) = run.join_terms().values()
        return [(term.atom, term.changed, term.levels[-1][1]) for term in terms]

    found = [counts(run) for run in both.many.runs]
    sums = [
        (atoms[0][0], sum(c for _, c, _ in atoms), sum(n for *_, n in atoms))
        for atoms in zip(*found, strict=True)
    ]
    assert sums == counts(both.one)


def test_lists_of_interned_values_are_sorted_again() -> None:
    program = dbsp.compile(TRIANGLES.replace("number", "symbol"), "wcoj")
    both = ComparedShards(program.circuit("physical"), 2, seed=4)
    draw = random.Random(4)
    names = [f"n{number}" for number in range(40)]
    edges = list({(draw.choice(names), draw.choice(names)) for _ in range(600)})
    both.tick({"e": edges[:300]})
    both.tick({"e": edges[300:]})
    assert len(both.one.view("t")) > 1000
