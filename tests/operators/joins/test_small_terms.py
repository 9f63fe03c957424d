"""Deltas of few rows: one kernel call for all terms gives what one call for each term gives."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbsp import Circuit, Run, Stream, WeightOverflowError, multiway_join
from dbsp.operators.joins import small_terms
from dbsp.operators.joins.small_terms import FEW
from tests.harness import view
from tests.profiles import examples
from tests.random_conjunctions import canonical, conjunctions
from tests.reference import Z, add


@contextmanager
def one_by_one() -> Iterator[None]:
    """Run each term by its own calls."""
    with mock.patch.object(small_terms, "FEW", -1):
        yield


def triangles(circuit: Circuit, edge: Stream) -> None:
    circuit.output("out", multiway_join([edge("a", "b"), edge("b", "c"), edge("c", "a")]))


def started() -> Run:
    circuit = Circuit("triangles")
    triangles(circuit, circuit.input("e", x=int, y=int))
    return circuit.start()


def found(edges: Z) -> Z:
    """The triangles of some edges, with their weights."""
    result: Z = {}
    for (a, b), w in edges.items():
        for (other, c), v in edges.items():
            if other == b and (u := edges.get((c, a), 0)):
                result[a, b, c] = w * v * u
    return result


@settings(max_examples=examples(60))
@given(st.data())
def test_one_call_gives_what_a_call_for_each_term_gives(data: st.DataObject) -> None:
    query = data.draw(conjunctions())
    one, other = query.started(), query.started()
    for tick in data.draw(query.ticks()):
        delta = canonical(one.step(tick)["out"].to_dict())
        with one_by_one():
            assert delta == canonical(other.step(tick)["out"].to_dict())
    assert [*one.join_terms().values()] == [*other.join_terms().values()]


def test_few_and_many_rows_alternate() -> None:
    rng = np.random.default_rng(7)
    run, edges = started(), {}
    before: Z = {}
    for size in (FEW + 1, 1, FEW, FEW + 1, 3, FEW, 1):
        rows = {(a, b): 1 for a, b in rng.integers(0, 12, (8 * size, 2)).tolist() if (a, b) not in edges}
        delta = dict([*rows.items()][:size])
        if len(delta) < size:  # most edges are stored, so retract some
            delta = {row: -w for row, w in [*edges.items()][:size]}
        edges = {row: w for row, w in add(edges, delta).items() if w}
        after = found(edges)
        expected = {row: after.get(row, 0) - before.get(row, 0) for row in {*before, *after}}
        assert run.step({"e": delta})["out"].to_dict() == {row: w for row, w in expected.items() if w}
        before = after
    assert view(run) == before


def test_a_tick_of_few_rows_takes_one_call() -> None:
    run = started()
    with mock.patch.object(small_terms, "sum_terms", wraps=small_terms.sum_terms) as called:
        run.step({"e": {(1, 2): 1, (2, 3): 1}})
        run.step({"e": {(3, 1): 2}})
        run.step({})
        assert called.call_count == 2
        run.step({"e": {(n, n): 1 for n in range(FEW)}})
        assert called.call_count == 3
        run.step({"e": {(n, n): 1 for n in range(FEW + 1)}})
        assert called.call_count == 3
    (terms,) = run.join_terms().values()
    assert [term.changed for term in terms] == [3 + 2 * FEW + 1] * 3


def test_rows_of_opposite_terms_cancel() -> None:
    run = started()
    run.step({"e": {(1, 2): 1, (2, 3): 1, (3, 1): 1}})
    assert run.step({"e": {(1, 2): -1, (3, 1): 1}})["out"].to_dict() == dict.fromkeys(
        [(1, 2, 3), (2, 3, 1), (3, 1, 2)], -1
    )


def test_a_product_outside_of_int64_undoes_the_tick() -> None:
    run = started()
    run.step({"e": {(1, 2): 2**31, (2, 3): 2**31}})
    with pytest.raises(WeightOverflowError, match="product of weights"):
        run.step({"e": {(3, 1): 2}})
    assert run.step({"e": {(3, 1): 1}})["out"].to_dict() == dict.fromkeys(
        [(1, 2, 3), (2, 3, 1), (3, 1, 2)], 2**62
    )


def test_a_constant_in_an_atom_needs_more_than_the_kernel() -> None:
    circuit = Circuit("test")
    e = circuit.input("e", x=int, y=int)
    circuit.output("out", multiway_join([e("a", "b"), e("b", 3)]))
    run = circuit.start()
    with mock.patch.object(small_terms, "sum_terms", wraps=small_terms.sum_terms) as called:
        assert run.step({"e": {(1, 2): 1, (2, 3): 1}})["out"].to_dict() == {(1, 2): 1}
        assert not called.called


def test_a_tick_after_a_compaction_reads_the_new_run_tables() -> None:
    run = started()
    run.step({"e": {(1, 2): 1, (2, 3): 1}})
    run.compact()
    assert len(run.step({"e": {(3, 1): 1}})["out"]) == 3
