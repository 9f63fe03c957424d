"""Partial sums: exchanged in place of rows, exact also where a part does not fit."""

from __future__ import annotations

import pytest

from dbsp import Circuit, SchemaError, col, count
from dbsp.data.schema import Schema
from dbsp.operators.groups import partial_sums
from dbsp.operators.groups.aggregate import Aggregate
from dbsp.operators.groups.aggregate_functions import AggregateFunction
from dbsp.operators.groups.partial_sums import PartialSums, SummedAggregate
from tests.shards.compared_shards import ComparedShards

BIG = 2**62


def compared(shards: int) -> ComparedShards:
    circuit = Circuit("sums")
    sale = circuit.input("sale", id=int, group=str, amount=int | None)
    grouped = sale.distinct().select("group", "amount").group_by("group")
    circuit.output("total", grouped.agg(n=count(), total=col("amount").sum(), mean=col("amount").mean()))
    circuit.output("ids", sale.group_by("id").agg(n=count()))
    return ComparedShards(circuit.circuit("physical"), shards, checked=True)


def test_one_row_per_group_and_shard_is_exchanged() -> None:
    both = compared(3)
    both.tick({"sale": [(n, "ab"[n % 2], None if n % 7 == 0 else n) for n in range(999)]})
    both.tick({"sale": {(n, "ab"[n % 2], None if n % 7 == 0 else n): -1 for n in range(3, 999)}})
    both.tick({"sale": {(n, "ab"[n % 2], None if n % 7 == 0 else n): -1 for n in range(3)}})
    assert sum(both.many.sent.values()) <= 3 * 2 * 3
    operators = [node.operator for node in both.graph.nodes]
    assert sum(isinstance(operator, PartialSums) for operator in operators) == 1
    assert sum(isinstance(operator, SummedAggregate) for operator in operators) == 1


def test_sums_of_a_shard_may_be_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    by_rows = partial_sums._row_by_row
    monkeypatch.setattr(partial_sums, "_row_by_row", lambda *given: calls.append(given) or by_rows(*given))
    both = compared(3)
    large = [(n, "a", BIG) for n in range(90)] + [(n, "a", -BIG) for n in range(100, 190)]
    both.tick({"sale": [*large, (400, "a", None), (401, "b", 5)]})
    assert calls, "no shard has a sum outside of 64 bits"
    both.tick({"sale": dict.fromkeys(large[3:], -1)})  # 3 * 2**62: an error in one process, too
    both.tick({"sale": dict.fromkeys(large, -1)})


def test_only_linear_functions_have_partial_sums() -> None:
    circuit = Circuit("least")
    amount = circuit.input("sale", amount=int)
    least = Aggregate(0, (AggregateFunction("min", 0),), ("least",))
    with pytest.raises(SchemaError, match="expected linear functions, such as count and sum"):
        PartialSums(least)(amount)


def test_the_input_of_a_summed_aggregate_is_checked() -> None:
    circuit = Circuit("count")
    amount = circuit.input("sale", amount=int, price=int)
    number = Aggregate(0, (AggregateFunction("count"),), ("n",))
    with pytest.raises(
        SchemaError, match=r"expected partial sums \(rows: int\), got \(amount: int, price: int\)"
    ):
        SummedAggregate(number, (), over=amount.schema)(amount)


def test_the_groups_keep_the_names_of_their_columns() -> None:
    schema = Schema.of(rows=int, amount=int)
    partial = PartialSums(Aggregate(1, (AggregateFunction("sum", 1),), ("rows", "total")))
    assert partial.checked_schema(schema).names == ("rows", "#rows", "#sum 1")
