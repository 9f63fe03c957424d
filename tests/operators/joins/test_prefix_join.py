"""Multi-way joins on shards: prefixes are exchanged before each extension."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dbsp
from dbsp import Circuit, CircuitError, SchemaError
from dbsp.operators.joins.prefix_join import CountMatches, PrefixJoin
from dbsp.operators.shards.exchange import Gather
from dbsp.operators.traces.arrange import Arrange
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
    extended = {node: step for run in both.many.runs for node, step in run.scope.by_node.items()}
    assert any(isinstance(node.operator, CountMatches) for node in extended)
    # Joining the star with itself has 249,001 rows through the centre.
    assert sum(both.many.sent.values()) < 20_000


def test_inputs_are_checked() -> None:
    circuit = Circuit("test")
    a, b = circuit.input("a", x=int, s=str), circuit.input("b", x=int)
    rows = Arrange((0,))(b)
    with pytest.raises(CircuitError, match="expected an arrangement, got Input"):
        PrefixJoin((0,), True, (0,), ("x",))(a, b)
    with pytest.raises(SchemaError, match=r"expected a key of at most 1 columns, got \(0, 1\)"):
        CountMatches((0, 1), True, "n")(a, rows)
    with pytest.raises(SchemaError, match="cannot join 's: str' with 'x: int': the types differ"):
        PrefixJoin((1,), False, (0,), ("x",))(a, rows)
    with circuit.fixpoint("scope") as scope:
        inside = scope.variable("v", {"x": int})
        with pytest.raises(
            CircuitError, match="expected the circuit for CountMatches, got the scope 'scope'"
        ):
            CountMatches((0,), True, "n")(inside, rows)
        scope.define(inside, inside.distinct())
