"""Runs that read the traces of an index outside of them, and previews of ticks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp import Circuit, col, count, fold, lit
from dbsp.data.batch import Batch
from dbsp.errors import CircuitError, EvaluationError
from dbsp.kernels import consolidate, project
from dbsp.operators.streams.multiway_atoms import multiway_join
from dbsp.operators.streams.stream import Stream
from dbsp.runtime.run import Run
from dbsp.state.external_traces import ExternalTraces
from dbsp.state.journal import Journalled
from dbsp.state.sorted_run import SortedRun
from dbsp.state.trace import Trace

Row = tuple[int, int]


class Index:
    """Relations of two ints in traces, as a database keeps them."""

    def __init__(self, **rows: set[Row]) -> None:
        self.rows = rows
        self.journal: list[Journalled] = []
        self.traces: dict[tuple[str, tuple[int, ...]], Trace] = {}

    def trace(self, relation: str, order: tuple[int, ...]) -> Trace:
        if (relation, order) not in self.traces:
            trace = self.traces[relation, order] = Trace(2, self.journal)
            batch = as_batch(dict.fromkeys(self.rows[relation], 1))
            if len(batch):
                trace.restore([SortedRun(*project(batch.rows, batch.weights, np.array(order)))])
        return self.traces[relation, order]

    def change(self, relation: str, delta: dict[Row, int]) -> Batch:
        """Append a change to the traces; `commit` decides it."""
        batch = as_batch(delta)
        for (name, order), trace in self.traces.items():
            if name == relation:
                trace.append(*project(batch.rows, batch.weights, np.array(order)))
        for row, weight in delta.items():
            (self.rows[relation].add if weight > 0 else self.rows[relation].discard)(row)
        return batch

    def commit(self) -> None:
        for state in self.journal:
            state.commit()
        self.journal.clear()


def as_batch(delta: dict[Row, int]) -> Batch:
    rows = np.array(list(delta), np.int64).reshape(-1, 2)
    return Batch(*consolidate(rows, np.array(list(delta.values()), np.int64)))


def friends_of_friends(query: Stream, friend: Stream) -> Stream:
    return multiway_join([query("x"), friend("x", "y"), friend("y", "z")], ("x", "z")).distinct()


def start(index: Index) -> tuple[Run, dict[str, Batch]]:
    circuit = Circuit("friends")
    query = circuit.input("query", x=int)
    friend = circuit.input("friend", a=int, b=int, kind="external")
    circuit.output("found", friends_of_friends(query, friend))
    run = Run(circuit.circuit("physical"), traces=ExternalTraces(index))
    return run, run.prepare({"query": [(1,)]})


def expected(rows: set[Row]) -> set[Row]:
    return {(1, z) for x, y in rows if x == 1 for w, z in rows if w == y}


def test_a_preview_answers_from_the_index_and_changes_nothing() -> None:
    rows = {(1, 2), (2, 3), (2, 4), (3, 1)}
    run, staged = start(Index(friend=rows))
    for _ in range(3):
        assert set(run.preview(staged)["found"].rows()) == expected(rows)
    assert run.tick == 0
    assert run.view("found").rows() == []
    assert run.state_rows == 0


PAIRS = st.tuples(st.integers(1, 4), st.integers(1, 4))


@given(st.sets(PAIRS, max_size=8), st.lists(st.lists(PAIRS, max_size=4), max_size=6))
def test_a_live_run_follows_the_index(rows: set[Row], changes: list[list[Row]]) -> None:
    index = Index(friend=set(rows))
    run, staged = start(index)
    run.step_staged(staged)
    known: Counter[Row] = Counter(expected(index.rows["friend"]))
    assert set(run.view("found").rows()) == set(known)
    for change in changes:
        delta = {row: -1 if row in index.rows["friend"] else 1 for row in change}
        batch = index.change("friend", delta)
        result = run.step_staged({"friend": batch} if len(batch) else {})["found"]
        index.commit()
        known.update(result.to_dict())
        assert set(known.values()) <= {0, 1}
        assert {row for row, weight in known.items() if weight} == expected(index.rows["friend"])
        assert set(run.preview({})["found"].rows()) == set()


GROUPED: dict[str, Callable[[Stream], Stream]] = {
    "distinct": lambda pairs: pairs.map(b=col("b")).distinct(),
    "sum": lambda pairs: pairs.group_by("a").agg(n=count(), total=col("b").sum()),
    "minimum": lambda pairs: pairs.group_by("a").agg(least=col("b").min()),
    "median": lambda pairs: pairs.group_by("a").agg(middle=col("b").median()),
    "values": lambda pairs: pairs.group_by("a").agg(n=col("b").count_distinct()),
    "fold": lambda pairs: pairs.group_by("a").agg(all=fold(repr, "b", type=str)),
    "top": lambda pairs: pairs.top_k(1, "b", partition=["a"]),
    "rank": lambda pairs: pairs.rank("b", partition=["a"]),
    "lag": lambda pairs: pairs.lag("b", by="b", partition=["a"]),
    "classes": lambda pairs: pairs.equivalence_classes(),
}
"""Operators that treat groups of rows of a relation separately."""


@pytest.mark.parametrize("name", GROUPED)
@given(st.lists(st.lists(PAIRS, max_size=4), max_size=6))
def test_groups_of_rows_of_an_index(name: str, changes: list[list[Row]]) -> None:
    index = Index(friend=set())
    for order in ((0, 1), (1, 0)):
        index.trace("friend", order)
    outside, inside = Circuit("outside"), Circuit("inside")
    outside.output("found", GROUPED[name](outside.input("friend", a=int, b=int, kind="external")))
    inside.output("found", GROUPED[name](inside.input("friend", a=int, b=int)))
    run, twin = Run(outside.circuit("physical"), traces=ExternalTraces(index)), inside.start()
    for change in changes:
        delta = {row: -1 if row in index.rows["friend"] else 1 for row in change}
        batch = index.change("friend", delta)
        result = run.step_staged({"friend": batch} if len(batch) else {})["found"]
        index.commit()
        assert result.to_dict() == twin.step({"friend": delta})["found"].to_dict()


def test_another_source_of_traces_can_be_read() -> None:
    run, staged = start(Index(friend={(1, 2), (2, 3)}))
    traces = run.scope.external_traces("friend")
    assert run.preview(staged)["found"].rows() == [(1, 3)]
    traces.source = Index(friend={(1, 2), (2, 7)})
    assert run.preview(staged)["found"].rows() == [(1, 7)]


def test_unread_columns_are_read_from_the_index() -> None:
    """A projection of an external relation would have to be stored."""
    circuit = Circuit("people")
    query = circuit.input("query", x=int)
    friend = circuit.input("friend", a=int, b=int, kind="external")
    circuit.output("found", multiway_join([query(None), friend("a", None)], ("a",)).distinct())
    run = Run(circuit.circuit("physical"), traces=ExternalTraces(Index(friend={(1, 2), (1, 3), (4, 4)})))
    assert run.preview(run.prepare({"query": [(1,)]}))["found"].rows() == [(1,), (4,)]


def test_the_traces_are_required() -> None:
    circuit = Circuit("friends")
    circuit.output("all", circuit.input("friend", a=int, b=int, kind="external"))
    with pytest.raises(CircuitError, match="input 'friend' are kept outside of the circuit; start the run"):
        circuit.start()


def test_a_failing_preview_changes_nothing() -> None:
    circuit = Circuit("ratio")
    circuit.output("ratio", circuit.input("sale", x=int).map(y=lit(12) // col("x")))
    run = circuit.start()
    with pytest.raises(EvaluationError, match="division by zero"):
        run.preview(run.prepare({"sale": [(0,)]}))
    assert run.tick == 0
    assert run.step({"sale": [(3,)]})["ratio"].rows() == [(4,)]
