"""Distributed circuits return what the physical circuit returns, on any number of shards."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbsp
from dbsp import Circuit, InvariantError, col, from_json
from dbsp.circuit.graph import Graph
from dbsp.circuit.graph_copy import GraphCopy
from dbsp.operators.ports.input import DealtInput
from dbsp.operators.shards.exchange import Placing
from dbsp.operators.stages.passes.distribute import distribute
from dbsp.operators.stages.placing.wanted_columns import wanted_columns
from tests.profiles import examples
from tests.random_circuits import FUNCTIONS, Choices, build, choices
from tests.shards.compared_shards import ComparedShards
from tests.shards.thread_link import ThreadShards

SHARDS = (1, 2, 3, 5)


def random_ticks(seed: int, ticks: int) -> list[dict[str, dict[Any, int]]]:
    """Return changes of 'a' and 'b' of `tests.random_circuits`; no weight becomes negative."""
    draw = random.Random(seed)
    held: dict[str, dict[Any, int]] = {"a": {}, "b": {}}
    changes = []
    for _ in range(ticks):
        tick: dict[str, dict[Any, int]] = {}
        for name, rows in held.items():
            change = {row: -weight for row, weight in rows.items() if draw.random() < 0.3}
            for _ in range(draw.randrange(6)):
                row = draw.randrange(5), draw.choice([None, 0, 1, 2, 3]), draw.choice("abc")
                change.setdefault(row, 1 + (name == "a" and draw.randrange(2)))
            for row, weight in change.items():
                present = rows.get(row, 0) + weight if name == "a" else max(weight, 0)
                rows[row] = present
            held[name] = {row: weight for row, weight in rows.items() if weight}
            tick[name] = change
        changes.append(tick)
    return changes


def compare(physical: Graph, shards: int, ticks: list[dict[str, Any]], seed: int = 0) -> ComparedShards:
    """Run a circuit on shards, which check the places of their rows, beside one process."""
    compared = ComparedShards(physical, shards, seed, checked=True)
    for tick in ticks:
        compared.tick(tick)
    return compared


@settings(max_examples=examples(40))
@given(choices(), st.integers(0, 999), st.sampled_from(SHARDS))
def test_random_circuits(chosen: Choices, seed: int, shards: int) -> None:
    compare(build(chosen).circuit("physical"), shards, random_ticks(seed, 4), seed)


@given(choices())
def test_distributed_circuits_go_through_json(chosen: Choices) -> None:
    graph = distribute(build(chosen).circuit("physical"), checked=True)
    again = from_json(graph.to_json(), functions=FUNCTIONS)
    assert again.content_hash() == graph.content_hash()


def test_the_distributed_circuit_depends_on_the_query_only() -> None:
    circuit = build([("join", 0, 1), ("closed", 0, 1), ("grouped", 0, 0)])
    first, second = (circuit.circuit("distributed").content_hash() for _ in range(2))
    assert first == second


# --- reasons and placements -----------------------------------------------------------------------


def placed(text: str, strategy: Any = "binary") -> tuple[list[str], list[str]]:
    """Return the nodes of a distributed program that place rows, and the reasons of exchanges."""
    reasons: list[str] = []
    graph = distribute(dbsp.compile(text, strategy).circuit("physical"), reasons)
    labels = [node.label for node in graph.nodes if isinstance(node.operator, Placing | DealtInput)]
    return labels, [reason.replace("<program>:", "") for reason in reasons]


DECLARED = """
.decl sale(id: number, shop: number, amount: number) .input sale
.decl shop(id: number, town: number) .input shop
.decl out(a: number, b: number) .output out
"""


def test_inputs_are_dealt_by_the_key_of_their_first_reader() -> None:
    labels, reasons = placed(DECLARED + "out(i, t) :- sale(i, s, _), shop(s, t).")
    assert labels[:2] == ["Input sale, dealt by shop", "Input shop, dealt by id"]
    assert labels[2:] == ["Exchange by 0, 1"], "the result is a set of other columns"
    assert reasons == [
        "No exchange for Join -> a, b (5:1): its rows are placed by (id) and (s)",
        "Exchange of Join -> a, b (5:1): for Distinct (4:7), equal (a, b) must meet; "
        "the rows are on unknown shards and must be placed by (a, b)",
    ]


def test_the_reasons_name_what_was_not_chosen() -> None:
    _, reasons = placed(REGIONS)
    assert reasons == [
        "Input shop (3:7) is dealt by (id), not by (town) for Join -> t, n, total (8:1), "
        "which reads rows made from these",
        "No exchange for Join -> id, town, amount (6:1): its rows are placed by (shop) and (id)",
        "Exchange of Join -> id, town, amount (6:1): for Distinct (4:7), equal (id, town, amount) must meet "
        "(not by (town) for Aggregate #1, #2 (8:45), whose partial sums move instead); "
        "the rows are on unknown shards and must be placed by (id, town, amount)",
        "Exchange of Project t, a#2 (8:45): for Aggregate #1, #2 (8:45), "
        "one row with sums per shard and (t), since the function is linear",
        "Exchange of Project t (8:45): for Join -> t, n, total (8:1), equal (t) must meet "
        "(no broadcast: no side is known to be small); "
        "the rows are on unknown shards and must be placed by (t)",
        "No exchange for Distinct (5:7): its rows are placed by (t)",
    ]


def test_gathered_operators_say_why() -> None:
    circuit = Circuit("gathered")
    rows = circuit.input("a", x=int, y=int)
    circuit.output("least", rows.group_by().agg(least=col("y").min()))
    reasons: list[str] = []
    distribute(circuit.circuit("physical"), reasons)
    (line,) = (line for line in reasons if line.startswith("Gather"))
    assert "all rows must meet, since the key has no columns" in line


def test_a_circuit_in_place_moves_no_row() -> None:
    circuit = Circuit("together")
    rows = circuit.input("a", x=int, y=int)
    circuit.output("out", rows.join(circuit.input("b", x=int, z=int), on="x"))
    header, line = circuit.explain().splitlines()[-2:]
    assert header == "on several shards, no row moves"
    assert re.fullmatch(r"  No exchange for Join .*: its rows are placed by \(x\)", line)


def test_linear_aggregates_exchange_sums() -> None:
    rule = "out(t, n) :- shop(_, t), n = sum a : { sale(_, s, a), shop(s, t) }."
    _, reasons = placed(DECLARED + rule)
    assert any("one row with sums per shard and (t), since the function is linear" in r for r in reasons)


def test_a_small_side_of_a_product_is_broadcast() -> None:
    _, reasons = placed(DECLARED + "out(i, n) :- sale(i, _, a), n = count : { shop(_, _) }, a > n.")
    assert any(
        r.startswith("Broadcast of ") and "it is small, and the rows of the other side stay" in r
        for r in reasons
    )
    assert not any(r.startswith("Gather of Input sale") for r in reasons)


REGIONS = """
.decl sale(id: number, shop: number, amount: number) .input sale
.decl shop(id: number, town: number) .input shop
.decl sold(id: number, town: number, amount: number)
.decl out(town: number, n: number, total: number) .output out
sold(i, t, a) :- sale(i, s, a), shop(s, t).
// Without w > -1 every group of the aggregate would be a town of the rule, without a join.
out(t, n, total) :- shop(w, t), w > -1, n = count : { sold(_, t, _) }, n > 0,
    total = sum a : { sold(_, t, a) }.
"""


def test_few_groups_do_not_place_the_rows_of_their_sums() -> None:
    labels, _ = placed(REGIONS)
    assert labels[:2] == ["Input sale, dealt by shop", "Input shop, dealt by id"], "not by the town"
    assert "Exchange by 0, 1, 2" in labels, "the set of sold rows is placed by whole rows"


@pytest.mark.parametrize("shards", [2, 3, 4])
def test_each_shard_has_its_share_of_a_join_and_totals(shards: int) -> None:
    compared = ComparedShards(dbsp.compile(REGIONS).circuit("physical"), shards, checked=True)
    draw = random.Random(1)
    shops = [(number, draw.randrange(5)) for number in range(400)]
    sales = [(number, draw.randrange(400), draw.randrange(99)) for number in range(4000)]
    compared.tick({"shop": shops, "sale": sales})
    largest = max(run.state_rows for run in compared.many.runs)
    assert largest * shards <= 1.15 * compared.one.state_rows
    compared.tick({"shop": dict.fromkeys(shops[::3], -1), "sale": dict.fromkeys(sales[::7], -1)})


def test_wishes_of_many_readers_are_merged() -> None:
    circuit = Circuit("doubled")
    rows = circuit.input("a", x=int, y=int)
    for _ in range(30):
        rows = rows.join(rows, on=["x"], select=["x", "y"])
    circuit.output("out", rows)
    physical = circuit.circuit("physical")
    assert max(map(len, wanted_columns(physical, {}).values())) < 200


def test_a_checked_circuit_finds_rows_on_other_shards() -> None:
    circuit = build([("distinct", 2, 0)])
    graph = distribute(circuit.circuit("physical"), checked=True)
    wrong = Graph(graph.name)
    dealt = {
        node: replace(node.operator, dealt=(1,))
        for node in graph.nodes
        if isinstance(node.operator, DealtInput)
    }
    GraphCopy(lambda node: True, dealt).fill(graph, wrong)
    shards = ThreadShards(wrong, 3)
    with pytest.raises(InvariantError, match=r"rows on shard \d of 3 belong to other shards"):
        shards.step(random_ticks(3, 1)[0] | {"a": {(n, n % 4, "a"): 1 for n in range(20)}})
