"""Linear recursion: iterations in one call of a kernel agree with the steps of the scope."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbsp
from dbsp import Circuit, IterationLimitError, Run
from dbsp.kernels import narrow_rows
from dbsp.kernels.arrays import Codes, Words
from dbsp.operators.recursion import (
    iterated_scope,
    linear_iterations,
    modes,
    row_table,
    row_tables,
    value_table,
)
from dbsp.operators.recursion.fixpoint_step import FixpointStep
from dbsp.operators.recursion.group_table import GroupTable
from dbsp.operators.recursion.linear_iterations import LinearIterations
from dbsp.operators.recursion.modes import EvaluationHistory
from dbsp.operators.recursion.row_tables import RowTables
from dbsp.operators.time.delay import DelayStep
from dbsp.operators.traces.arrange import DeferredArrangeStep
from dbsp.state import seen_rows
from dbsp.state.seen_rows import SeenRows
from dbsp.state.sorted_run import SortedRun
from tests.harness import apply_set, view
from tests.operators.recursion.closures import (
    EDGE,
    PAIR,
    SETS,
    chain,
    closure_of,
    expect_recomputation,
    reachable,
    started,
)
from tests.parallel.small_pieces import small_pieces
from tests.profiles import examples
from tests.reference import Z
from tests.strategies import Tick, ticks

LINEAR = ("right linear", "left linear", "both linear")
LIMITS = st.fixed_dictionaries(
    {
        "FEW_ROWS": st.sampled_from([0, 1, 3, 1000]),
        "SOME_ROWS": st.sampled_from([1, 3, 1000]),
        "GROUPED_ROWS": st.sampled_from([0, 3, 1000]),
        "MANY_ROWS": st.sampled_from([1, 4, 1000]),
        "GROUP_ROWS": st.sampled_from([4, 1000]),
    }
)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The numbers of iterations of each call."""
    found: list[int] = []
    run = LinearIterations.run

    def counted(self: LinearIterations, *arguments: object) -> linear_iterations.Iterated:
        result = run(self, *arguments)  # type: ignore[arg-type]
        found.append(result.iterations)
        return result

    monkeypatch.setattr(LinearIterations, "run", counted)
    yield found


def fixpoint_of(run: Run) -> FixpointStep:
    (fixpoint,) = (step for step in run._scope.steps if isinstance(step, FixpointStep))
    return fixpoint


@pytest.mark.parametrize("step", LINEAR)
@settings(max_examples=examples(60))
@given(
    sequence=SETS,
    limits=LIMITS,
    room=st.sampled_from([1, 64]),
    piece=st.sampled_from([1, 4, 1 << 15]),
    places=st.sampled_from([0, 8, 1000]),
    call=st.sampled_from([0, 3, 1000]),
    filtered=st.sampled_from([1, 5, 1000]),
    removal=st.sampled_from([0.25, 1e9]),
    large=st.sampled_from([2, 4096]),
    threads=st.sampled_from([1, 3]),
)
def test_every_tick_agrees_with_a_recomputation(
    step: str,
    sequence: list[Tick],
    limits: dict[str, int],
    room: int,
    piece: int,
    places: int,
    call: int,
    filtered: int,
    removal: float,
    large: int,
    threads: int,
) -> None:
    with small_pieces(threads), pytest.MonkeyPatch.context() as patch:
        patch.setattr(modes, "REMOVAL", removal)
        patch.setattr(row_table, "ROOM", room)
        patch.setattr(row_table, "PIECE", piece)
        patch.setattr(value_table, "PIECE", piece)
        patch.setattr(value_table, "PLACES", places)
        patch.setattr(row_tables, "CALL", call)
        patch.setattr(narrow_rows, "LARGE", large)
        patch.setattr(narrow_rows, "LOAD", large)
        patch.setattr(seen_rows, "LEAST_FILTERED", filtered)
        patch.setattr(seen_rows, "LEAST", 2 * filtered)
        for name, value in limits.items():
            patch.setattr(linear_iterations, name, value)
        run = started(step)
        expect_recomputation(run, sequence)


@settings(max_examples=examples(60))
@given(sequence=SETS, step=st.sampled_from(LINEAR))
def test_work_and_traces_are_those_of_the_steps(sequence: list[Tick], step: str) -> None:
    """So the modes of later ticks do not depend on how iterations run."""
    found: list[tuple[EvaluationHistory, int, list[dict[tuple[int, ...], int]]]] = []
    deletes = any(weight < 0 for tick in sequence for weight in tick.get("edge", {}).values())
    for few, places, threads in ((0, 0, 1), *((1000, p, t) for p in (0, 1000) for t in (1, 2))):
        with small_pieces(threads), pytest.MonkeyPatch.context() as patch:
            patch.setattr(value_table, "PLACES", places)
            patch.setattr(linear_iterations, "FEW_ROWS", few)
            patch.setattr(linear_iterations, "SOME_ROWS", few)
            patch.setattr(linear_iterations, "GROUPED_ROWS", few)
            run = started(step, "insert-only")
            for tick in sequence:
                run.step(tick)
            fixpoint = fixpoint_of(run)
            scope = fixpoint._inner.scope
            traces = [
                dict(zip(map(tuple, rows.tolist()), weights.tolist(), strict=True))
                for rows, weights in ((t.contents().rows, t.contents().weights) for t in scope.traces)
            ]
            history = replace(fixpoint.history, arrivals=())
            if deletes:  # derivations that cancel in an iteration count here, but emit no rows
                history = replace(history, restart_work=0, wasted=0, per_removal=0)
            found.append((history, scope.iterations, traces))
    assert all(each == found[0] for each in found)


@pytest.mark.parametrize("step", LINEAR)
@settings(max_examples=examples(40))
@given(sequence=ticks({"edge": PAIR}, st.sampled_from([1, 2, 3, -1]), max_ticks=6))
def test_bags_agree_with_the_steps(step: str, sequence: list[Tick]) -> None:
    """Rows of an entering stream may have any weight, also one below 0."""
    found: list[list[Z]] = []
    for few, places in ((0, 0), (1000, 0), (1000, 1000)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(value_table, "PLACES", places)
            patch.setattr(linear_iterations, "FEW_ROWS", few)
            patch.setattr(linear_iterations, "SOME_ROWS", few)
            patch.setattr(linear_iterations, "GROUPED_ROWS", few)
            run = started(step, kind="zset")
            outcomes: list[Z] = []
            # A loop of weight -1 has no fixpoint: its row is there if it is not.
            with suppress(IterationLimitError):
                for tick in sequence:
                    outcomes.append(run.step(tick)["out"].to_dict())
            found.append([*outcomes, view(run)])
    assert all(each == found[0] for each in found)


def test_equal_edges_of_a_bag_count_once(calls: list[int]) -> None:
    run = started("right linear", kind="zset")
    run.step({"edge": dict.fromkeys(chain(0, 30), 3)})
    assert view(run) == closure_of(0, 30) and len(calls) == 1


@pytest.mark.parametrize("step", LINEAR)
def test_many_tables_in_one_tick(step: str, monkeypatch: pytest.MonkeyPatch, calls: list[int]) -> None:
    """Each table finds the rows of the earlier ones; the chords derive rows again."""
    # With both steps no column is carried, so that all rows are one group.
    monkeypatch.setattr(value_table, "PLACES", 0)  # tables by value set nothing aside
    monkeypatch.setattr(linear_iterations, "GROUP_ROWS", 500 if step == "both linear" else 20)
    monkeypatch.setattr(row_table, "PIECE", 64)
    monkeypatch.setattr(seen_rows, "LEAST_FILTERED", 1)
    monkeypatch.setattr(seen_rows, "LEAST", 2)
    size = 60
    ring = [(x, (x + 1) % size) for x in range(size)]
    run = started(step)
    run.step({"edge": [(100, 101)]})  # then the next tick returns what its iterations have found
    assert run.step({"edge": [*ring, *((x, x + 9) for x in range(0, 50, 5))]})["out"].to_dict() == {
        (x, y): 1 for x in range(size) for y in range(size)
    }
    assert len(calls) > 3
    lost = run.step({"edge": {(59, 0): -1}})["out"].to_dict()
    assert lost == {(x, y): -1 for x in range(size) for y in range(x + 1)}


def test_rows_that_are_set_aside_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear_iterations, "GROUP_ROWS", 2)
    monkeypatch.setattr(value_table, "PLACES", 0)  # tables by value set nothing aside
    found: list[tuple[int, int]] = []
    take = RowTables.take

    def counted(self: RowTables) -> tuple[SortedRun | None, SortedRun | None]:
        derived, present = take(self)
        found.append((self.queued - self.given, 0 if present is None else len(present)))
        return derived, present

    monkeypatch.setattr(RowTables, "take", counted)
    run = started("left linear")
    run.step({"edge": chain(0, 20)})
    assert view(run) == closure_of(0, 20)
    assert len(found) > 1 and all(queued == new for queued, new in found)


def test_threads_divide_the_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """No part divides a group."""
    parts: list[list[int]] = []
    genuine = row_tables._by_groups

    def divided(rows: Codes, carried: int, number: int) -> list[Codes]:
        found = genuine(rows, carried, number)
        parts.append([len(part) for part in found])
        leading = [set(part[:, 0].tolist()) for part in found]
        assert sum(map(len, leading)) == len(set().union(*leading))
        return found

    monkeypatch.setattr(row_tables, "_by_groups", divided)
    edges = [(x, y) for x in range(6) for y in range(x + 1, 8)] + [(9, y) for y in range(20)]
    with small_pieces(2):
        run = started("right linear", "insert-only")
        run.step({"edge": edges})
        assert view(run) == reachable(dict.fromkeys(edges, 1))
    assert parts == [[11, 9, 20]]


@pytest.mark.parametrize("step", ["right linear", "both linear"])
def test_a_limit_of_work_counts_all_groups(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[linear_iterations.Iterated] = []
    genuine = LinearIterations.run

    def limited(
        self: LinearIterations, iterations: int, prices: linear_iterations.Prices
    ) -> linear_iterations.Iterated:
        found.append(genuine(self, iterations, prices._replace(most=4000)))
        return found[-1]

    monkeypatch.setattr(LinearIterations, "run", limited)
    calls: list[list[tuple[int, int]]] = []
    for threads in (1, 2):
        with small_pieces(threads):
            run = started(step, "insert-only")
            run.step({"edge": chain(0, 30)})
            assert view(run) == closure_of(0, 30)
        calls.append([(each.iterations, each.work) for each in found])
        found.clear()
    assert calls[0] == calls[1] and len(calls[0]) > 1


@pytest.mark.parametrize(
    ("cut", "ends"),
    [
        (99, "early"),  # 100 groups lose 100 rows each: about four budgets
        (179, "at the limit"),  # 180 groups lose 20 rows each: less than two budgets
        (197, "complete"),  # 198 groups lose two rows each
    ],
)
def test_the_first_groups_show_that_a_deletion_will_exceed_its_budget(
    cut: int, ends: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[linear_iterations.Iterated] = []
    genuine = LinearIterations.run

    def noted(
        self: LinearIterations, iterations: int, prices: linear_iterations.Prices
    ) -> linear_iterations.Iterated:
        found.append(genuine(self, iterations, prices))
        return found[-1]

    run = started("right linear")
    run.step({"edge": chain(0, 200)})
    monkeypatch.setattr(LinearIterations, "run", noted)
    change = run.step({"edge": {(cut, cut + 1): -1}})["out"].to_dict()
    assert change == {(i, j): -1 for i in range(cut + 1) for j in range(cut + 1, 200)}
    removal = found[0]
    assert removal.left == (ends != "complete") and len(found) == (2 if removal.left else 1)
    assert removal.out is not None
    removed = len(removal.out) / (len(change) - cut - 1)  # the first iteration takes its steps
    least, most = {"early": (0, 0.1), "at the limit": (0.75, 0.9), "complete": (1, 1)}[ends]
    assert least <= removed <= most


def test_rows_that_the_table_has_need_no_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    filtered: list[int] = []
    genuine = SeenRows.filter

    def counted(self: SeenRows, runs: Sequence[SortedRun]) -> Words:
        filtered.append(sum(len(run) for run in runs))
        return genuine(self, runs)

    monkeypatch.setattr(SeenRows, "filter", counted)
    run = started("right linear", "insert-only")
    run.step({"edge": chain(0, 20)})  # all rows of the distinct wait
    assert not filtered
    run.step({"edge": [(30, 0)]})
    assert filtered
    assert view(run) == closure_of(0, 20) | {(30, x): 1 for x in range(20)}


@pytest.mark.parametrize("places", [0, 8])
@pytest.mark.parametrize("threads", [1, 2])
def test_signals_arrive_between_full_tables(
    threads: int, places: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds: list[int] = []
    genuine = row_tables._called

    def counted(tables: list[GroupTable], *arguments: object) -> list[GroupTable]:
        rounds.append(len(tables))
        return genuine(tables, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(row_tables, "_called", counted)
    monkeypatch.setattr(row_tables, "CALL", 200)
    monkeypatch.setattr(row_table, "PIECE", 64)
    monkeypatch.setattr(value_table, "PIECE", 64)
    monkeypatch.setattr(value_table, "PLACES", places)
    with small_pieces(threads):
        run = started("right linear", "insert-only")
        run.step({"edge": chain(0, 60)})
    assert view(run) == closure_of(0, 60)
    assert len(rounds) > 3 and rounds[:2] == ([1, 1] if threads == 1 else [1, 5])


RULES: dict[str, tuple[str, Callable[[Z], Z]]] = {
    "one column": ("p(0). p(y) :- p(x), edge(x, y).", lambda e: _grown({(0,): 1}, e, lambda p, x: (x[1],))),
    "no key": ("p(x) :- edge(x, 0). p(y) :- p(_), edge(y, _).", lambda e: _without_a_key(e)),
    "a constant": (
        "p(x, 0) :- edge(x, 1). p(y, 7) :- p(x, _), edge(x, y).",
        lambda e: _grown({(x, 0): 1 for x, y in e if y == 1}, e, lambda p, x: (x[1], 7)),
    ),
}


def _grown(start: Z, edges: Z, derive: Callable[[tuple[int, ...], tuple[int, ...]], tuple[int, ...]]) -> Z:
    found = dict(start)
    while new := {derive(p, x): 1 for p in found for x in edges if x[0] == p[0]}.keys() - found.keys():
        found |= dict.fromkeys(new, 1)
    return found


def _without_a_key(edges: Z) -> Z:
    start = {(x,): 1 for x, y in edges if y == 0}
    return start | {(x,): 1 for x, _ in edges} if start else {}


@pytest.mark.parametrize("name", RULES)
@settings(max_examples=examples(40))
@given(sequence=SETS)
def test_rules(name: str, sequence: list[Tick]) -> None:
    rules, model = RULES[name]
    columns = ", ".join(f"{c}: number" for c in "xy"[: 1 if name != "a constant" else 2])
    run = dbsp.compile(
        f".decl edge(x: number, y: number)\n.input edge\n.decl p({columns})\n.output p\n{rules}"
    ).start()
    edges: Z = {}
    for tick in sequence:
        edges = apply_set(edges, tick.get("edge", {}))
        run.step(tick)
        assert run.view("p").to_dict() == model(edges)


@pytest.mark.usefixtures("unlimited")
def test_a_chain_takes_one_call(calls: list[int]) -> None:
    run = started("right linear")
    run.step({"edge": chain(0, 300)})
    assert view(run) == closure_of(0, 300) and calls == [299]
    run.step({"edge": {(150, 151): -1}})
    assert view(run) == closure_of(0, 151) | closure_of(151, 300)
    run.step({"edge": {(150, 151): 1}})
    assert view(run) == closure_of(0, 300)
    assert list(run.evaluations().values()) == ["insert-only"] and len(calls) == 3


@pytest.mark.usefixtures("unlimited")
def test_rows_that_return_after_a_deletion(calls: list[int]) -> None:
    run = started("right linear")
    run.step({"edge": [*chain(0, 40), *((x + 100, x + 101) for x in range(40)), (0, 100), (140, 39)]})
    lost = run.step({"edge": {(20, 21): -1}})["out"].to_dict()
    # Only 0 has a second way, to the end of the chain.
    assert lost == {(x, y): -1 for x in range(21) for y in range(21, 40) if (x, y) != (0, 39)}
    assert len(calls) == 3  # the load, the rows that leave, the row that returns


def test_iterations_that_release_deltas_compare_their_rows(
    calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One call runs all iterations from the first one with fewer rows than the one before."""
    monkeypatch.setattr(iterated_scope, "MANY_ROWS", 0)
    monkeypatch.setattr(linear_iterations, "GROUPED_ROWS", 0)
    monkeypatch.setattr(linear_iterations, "FEW_ROWS", 0)
    run = started("right linear")
    run.step({"edge": chain(0, 30)})
    assert view(run) == closure_of(0, 30)
    assert len(calls) == 1 and calls[0] > 20


def test_an_observed_run_steps_each_iteration(calls: list[int]) -> None:
    run = started("right linear")
    run.watch("out", lambda change: None)
    run.step({"edge": chain(0, 30)})
    assert view(run) == closure_of(0, 30) and calls == []


def test_the_limit_of_iterations_is_that_of_the_steps() -> None:
    """A chain of n nodes takes n iterations."""
    run = started("right linear", most=30)
    run.step({"edge": chain(0, 30)})
    assert view(run) == closure_of(0, 30)
    with pytest.raises(IterationLimitError, match="has not converged after 30 iterations"):
        run.step({"edge": chain(29, 70)})
    assert view(run) == closure_of(0, 30)
    run.step({"edge": [(40, 41)]})
    assert view(run) == closure_of(0, 30) | {(40, 41): 1}


@pytest.mark.parametrize("failing", [DeferredArrangeStep, DelayStep])
@pytest.mark.parametrize("change", [{(29, 30): 1}, {(15, 16): -1}])
def test_a_fault_changes_nothing(
    failing: type, change: dict[tuple[int, int], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = started("right linear")
    run.step({"edge": chain(0, 30)})
    name = "receive" if failing is DeferredArrangeStep else "hold"
    with monkeypatch.context() as patch:
        patch.setattr(failing, name, _out_of_memory)
        with pytest.raises(dbsp.DbspError, match="memory"):
            run.step({"edge": change})
    assert view(run) == closure_of(0, 30)
    run.step({"edge": change})
    assert view(run) == reachable(apply_set(dict.fromkeys(chain(0, 30), 1), change))


def _out_of_memory(*arguments: object) -> None:
    raise MemoryError


def test_a_variable_without_columns_runs_its_steps(calls: list[int]) -> None:
    rules = ".decl e(x: number)\n.input e\n.decl p()\n.output p\np() :- e(1). p() :- p(), e(_)."
    run = dbsp.compile(rules).start()
    run.step({"e": [(1,)]})
    assert run.view("p").to_dict() == {(): 1}
    run.step({"e": {(1,): -1, (2,): 1}})
    assert run.view("p").to_dict() == {} and calls == []


JOINS: dict[str, Any] = {
    "range": lambda p, e: p.range_join(e, left="y", right="x", low=1, high=2, select=["x", "y_right"]),
    "interval": lambda p, e: p.interval_join(e, left="y", first="x", last="y", select=["x", "y_right"]),
}
HOLDS: dict[str, Callable[[int, int, int], bool]] = {
    "range": lambda y, first, last: y + 1 <= first <= y + 2,
    "interval": lambda y, first, last: first <= y <= last,
}


@pytest.mark.parametrize("join", JOINS)
@settings(max_examples=examples(40))
@given(sequence=SETS)
def test_joins_with_other_conditions_than_a_key(join: str, sequence: list[Tick]) -> None:
    circuit = Circuit("test")
    edge = circuit.input("edge", schema=EDGE, kind="set")
    with circuit.fixpoint("reached") as scope:
        path = scope.variable("path", EDGE)
        scope.define(path, (edge + JOINS[join](path, edge).rename(y="y_right")).distinct())
    circuit.output("out", scope.leave(path))
    run = circuit.start()
    edges: Any = {}
    for tick in sequence:
        edges = apply_set(edges, tick.get("edge", {}))
        found = set(edges)
        while more := {(x, v) for x, y in found for u, v in edges if HOLDS[join](y, u, v)} - found:
            found |= more
        run.step(tick)
        assert set(run.view("out").rows()) == found
