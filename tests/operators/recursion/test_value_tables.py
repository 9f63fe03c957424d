"""Linear recursion by the value of one column: which recursion takes it, and that it is exact."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbsp
from dbsp import IterationLimitError
from dbsp.kernels import narrow_rows
from dbsp.kernels.limits import INT64_MAX, INT64_MIN
from dbsp.operators.recursion import linear_iterations, modes, row_table, row_tables, value_table
from dbsp.operators.recursion.linear_iterations import Iterated, LinearIterations, Prices
from dbsp.operators.recursion.value_table import ValueTable
from dbsp.state import sorted_run
from dbsp.state.sorted_run import SortedRun
from tests.harness import apply_set, view
from tests.operators.recursion.closures import chain, closure_of, reachable, started
from tests.parallel.small_pieces import small_pieces
from tests.profiles import examples
from tests.reference import Z
from tests.strategies import Tick, rows, set_ticks, small


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[ValueTable]]:
    """The tables of all loads."""
    found: list[ValueTable] = []
    begin = ValueTable.__init__

    def noted(self: ValueTable, *arguments: object) -> None:
        begin(self, *arguments)  # type: ignore[arg-type]
        found.append(self)

    monkeypatch.setattr(ValueTable, "__init__", noted)
    yield found


# --- rules, each with a plain iteration over sets -------------------------------------------------

Facts = dict[str, Z]


def _closed(start: Z, step: Callable[[tuple[int, ...]], Iterator[tuple[int, ...]]]) -> Z:
    found = dict(start)
    waiting = list(start)
    while waiting:
        for row in step(waiting.pop()):
            if row not in found:
                found[row] = 1
                waiting.append(row)
    return found


def _two_relations(facts: Facts) -> Z:
    """Two joins of the variable, over different relations."""
    edges = [*facts["e"], *facts["f"]]
    return _closed(facts["e"], lambda row: ((row[0], y) for x, y in edges if x == row[1]))


def _carried_pair(facts: Facts) -> Z:
    """Two carried columns, which are not the first ones, and a joined row with its key last."""
    start = {(x, y, y): 1 for x, y in facts["e"]}
    return _closed(start, lambda row: ((v, *row[1:]) for v, u in facts["f"] if u == row[0]))


def _leading_pair(facts: Facts) -> Z:
    """Two carried columns, which lead."""
    start = {(x, y, y): 1 for x, y in facts["e"]}
    return _closed(start, lambda row: ((*row[:2], v) for u, v in facts["f"] if u == row[2]))


def _equal_rows(facts: Facts) -> Z:
    """One value has several derivations in each iteration."""
    edges = {(u, v): 1 for u, _ in facts["f"] for _, v in facts["f"]}
    return _closed(facts["e"], lambda row: ((row[0], y) for x, y in edges if x == row[1]))


RULES: dict[str, tuple[str, str, Callable[[Facts], Z]]] = {
    "two relations": (
        "x: number, y: number",
        "p(x, y) :- e(x, y). p(x, z) :- p(x, y), e(y, z). p(x, z) :- p(x, y), f(y, z).",
        _two_relations,
    ),
    "two carried columns": (
        "x: number, y: number, z: number",
        "p(x, y, y) :- e(x, y). p(v, y, z) :- p(u, y, z), f(v, u).",
        _carried_pair,
    ),
    "two leading columns": (
        "x: number, y: number, z: number",
        "p(x, y, y) :- e(x, y). p(x, y, v) :- p(x, y, u), f(u, v).",
        _leading_pair,
    ),
    "several derivations": (
        "x: number, y: number",
        ".decl g(x: number, y: number) g(u, v) :- f(u, _), f(_, v)."
        "p(x, y) :- e(x, y). p(x, z) :- p(x, y), g(y, z).",
        _equal_rows,
    ),
}


def started_rules(rules: str, columns: str = "x: number, y: number") -> dbsp.Run:
    """Start rules that define p from the inputs e and f."""
    inputs = "".join(f".decl {r}(x: number, y: number) .input {r} " for r in "ef")
    return dbsp.compile(f"{inputs} .decl p({columns}) .output p {rules}").start()


@pytest.mark.parametrize("name", RULES)
@settings(max_examples=examples(60))
@given(
    sequence=set_ticks({"e": rows(small, small), "f": rows(small, small)}, max_ticks=4),
    piece=st.sampled_from([0, 3, 1 << 15]),
    call=st.sampled_from([0, 3, 1000]),
    threads=st.sampled_from([1, 2, 3]),
    large=st.sampled_from([2, narrow_rows.LARGE]),
)
def test_rules_agree_with_plain_iterations(
    name: str, sequence: list[Tick], piece: int, call: int, threads: int, large: int
) -> None:
    columns, rules, model = RULES[name]
    with small_pieces(threads), pytest.MonkeyPatch.context() as patch:
        patch.setattr(value_table, "PIECE", piece)
        patch.setattr(value_table, "PLACES", 1000)
        patch.setattr(row_tables, "CALL", call)
        patch.setattr(narrow_rows, "LARGE", large)
        patch.setattr(sorted_run, "ROWS_OF_VALUE", 1)
        run = started_rules(rules, columns)
        facts: Facts = {"e": {}, "f": {}}
        for tick in sequence:
            facts = {r: apply_set(rows, tick.get(r, {})) for r, rows in facts.items()}
            run.step(tick)
            assert run.view("p").to_dict() == model(facts)


# --- which recursion takes it ---------------------------------------------------------------------


@pytest.mark.parametrize("name", RULES)
def test_loads_search_values(name: str, tables: list[ValueTable]) -> None:
    columns, rules, model = RULES[name]
    run = started_rules(rules, columns)
    facts = {"e": dict.fromkeys(chain(0, 120), 1), "f": dict.fromkeys(chain(30, 60), 1)}
    run.step({r: list(rows) for r, rows in facts.items()})
    assert run.view("p").to_dict() == model(facts)
    assert len(tables) == 1


OTHERS = {
    "no carried column": "p(x, y) :- e(x, y). p(x, z) :- p(x, y), e(y, z). p(x, z) :- e(x, y), p(y, z).",
    "a key with a carried column": "p(x, y) :- e(x, y). p(x, y + 1) :- p(x, y), e(x, y).",
    "a constant": "p(x, y) :- e(x, y). p(x, 7) :- p(x, y), e(y, _).",
    "no key": "p(x, y) :- e(x, y). p(x, z) :- p(x, _), e(3, z).",
    "a carried key": "p(x, y) :- e(x, y). p(x, z) :- p(x, _), e(x, z).",
    "a carried value": "p(x, y) :- e(x, y). p(x, x) :- p(x, y), e(y, _).",
    "two columns that change": ".decl g(x: number, y: number, z: number) g(x, x, y) :- e(x, y)."
    ".decl q(x: number, y: number, z: number) q(x, x, y) :- e(x, y)."
    "q(x, u, v) :- q(x, _, z), g(z, u, v). p(x, z) :- q(x, _, z).",
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_recursion_finds_rows_by_hash(name: str, tables: list[ValueTable]) -> None:
    run = started_rules(OTHERS[name])
    run.step({"e": chain(0, 20)})
    assert len(run.view("p")) and not tables


@pytest.mark.parametrize(
    ("edges", "by_value"),
    [
        (chain(0, 20), True),
        (chain(-20, 0), True),
        (chain(INT64_MAX - 15, INT64_MAX), True),
        (chain(INT64_MIN, INT64_MIN + 15), True),
        ([*chain(0, 20), (19, 150)], True),
        ([*chain(0, 20), (19, 170)], False),
        ([*chain(0, 20), (INT64_MIN, INT64_MAX), (INT64_MAX, 0)], False),
        ([*chain(0, 20), (INT64_MAX, INT64_MIN)], False),
        ([*chain(0, 20), (0, 1 << 62), (1 << 62, -(1 << 62))], False),
    ],
)
def test_values_are_close_to_each_other(
    edges: list[tuple[int, int]], by_value: bool, tables: list[ValueTable]
) -> None:
    run = started("right linear")
    run.step({"edge": edges})
    assert view(run) == reachable(dict.fromkeys(edges, 1))
    assert bool(tables) == by_value


def test_edges_beyond_the_values_are_left_out(tables: list[ValueTable]) -> None:
    """No row reaches the key of such an edge, so its place is not counted."""
    rules = "p(x, y) :- e(x, y). p(x, z) :- p(x, y), f(y, z)."
    run = started_rules(rules)
    run.step({"e": [(1 << 50, y) for y in range(9)], "f": [(3, 20), (-(1 << 60), 4), (1 << 60, 5)]})
    assert run.view("p").to_dict() == {(1 << 50, y): 1 for y in [*range(9), 20]}
    assert len(tables) == 1


@pytest.mark.parametrize(("size", "by_value"), [(8, True), (9, False)])
def test_many_edges_for_few_rows(size: int, by_value: bool, tables: list[ValueTable]) -> None:
    """Eight edges for each of the nine given rows are listed, but not more."""
    rules = "p(x, y) :- e(x, y). p(x, z) :- p(x, y), f(y, z)."
    run = started_rules(rules)
    run.step({"e": [(100, y) for y in range(9)], "f": [(x, y) for x in range(size) for y in range(9)]})
    assert len(run.view("p")) == 9 and bool(tables) == by_value


def test_the_greatest_value_was_present(tables: list[ValueTable]) -> None:
    """In groups whose rows are read, since they are few."""
    run = started("right linear", "insert-only")
    edges = [(x, 50) for x in range(40)]
    run.step({"edge": edges})
    tables.clear()
    more = [(x, 40 + x % 7) for x in range(40)] + [(40 + y, 50) for y in range(7)]
    change = run.step({"edge": more})["out"].to_dict()
    assert change == dict.fromkeys(more, 1) and tables
    assert view(run) == reachable(dict.fromkeys(edges + more, 1))


def test_a_small_change_lists_no_edges(tables: list[ValueTable]) -> None:
    """The list costs as much as all edges, also if nothing was derived before."""
    run = started("right linear")
    run.step({"edge": [(0, 1)]})
    run.step({"edge": chain(1, 40)})
    run.step({"edge": {(1, 2): -1}})
    tables.clear()
    run.step({"edge": [(100, 0)]})
    assert view(run) == reachable(dict.fromkeys([(0, 1), *chain(2, 40), (100, 0)], 1))
    assert not tables


# --- limits and errors ----------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2])
def test_the_limit_of_iterations(threads: int, tables: list[ValueTable]) -> None:
    with small_pieces(threads):
        run = started("right linear", most=29)
        with pytest.raises(IterationLimitError, match="has not converged after 29 iterations"):
            run.step({"edge": chain(0, 30)})
        assert view(run) == {} and tables
        run.step({"edge": chain(0, 29)})
        assert view(run) == closure_of(0, 29)


def test_the_rows_that_wait_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting: list[list[tuple[int, ...]]] = []
    rest = row_tables.RowTables.waiting

    def noted(self: row_tables.RowTables) -> dbsp.data.batch.Batch | None:
        found = rest(self)
        if found is not None:
            waiting.append(sorted(map(tuple, found.rows.tolist())))
        return found

    monkeypatch.setattr(row_tables.RowTables, "waiting", noted)
    for step in ("right linear", "left linear"):
        with pytest.raises(IterationLimitError):
            started(step, most=5).step({"edge": chain(0, 10)})
    # The search from 0 stops after 5 edges, and so does the one back from 5; then all end.
    assert waiting == [[(0, 5), *chain(1, 10)], [(0, 5), *chain(5, 10)]]


def test_a_number_of_derivations_outside_of_int64_changes_nothing() -> None:
    run = started("right linear", kind="zset")
    edges = {(0, 1): 1} | {(1, y): 1 for y in range(2, 6)} | {(y, 6): 1 << 61 for y in range(2, 6)}
    with pytest.raises(dbsp.WeightOverflowError, match="closure"):
        run.step({"edge": edges})
    assert view(run) == {}
    run.step({"edge": edges | {(5, 6): (1 << 61) - 1}})
    assert len(view(run)) == 6 + 5 + 4


LAYERS = [(x, y) for low in (0, 12) for x in range(low, low + 12) for y in range(low + 12, low + 24)]


@pytest.mark.parametrize(
    ("edges", "limits"),
    [
        ([*chain(0, 25), *((x, x + 7) for x in range(0, 18, 2))], range(200, 12_000, 400)),
        (LAYERS, range(500, 12_000, 500)),
    ],
)
@pytest.mark.parametrize("step", ["right linear", "left linear"])
def test_a_limit_of_work_is_that_of_tables_by_hash(
    step: str, edges: list[tuple[int, int]], limits: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that wait at the limit have no matches yet."""
    genuine = LinearIterations.run

    def outcomes(places: int, most: float) -> list[object]:
        found: list[object] = []

        def limited(self: LinearIterations, iterations: int, prices: Prices) -> Iterated:
            done = genuine(self, iterations, prices._replace(most=most))
            rows = {} if done.out is None else done.out.rows.tolist()
            found.append((done.iterations, done.work, done.left, rows))
            return done

        with monkeypatch.context() as patch:
            patch.setattr(value_table, "PLACES", places)
            patch.setattr(LinearIterations, "run", limited)
            run = started(step, "insert-only")
            run.step({"edge": edges})
        assert view(run) == expected
        return found

    expected = reachable(dict.fromkeys(edges, 1))
    lengths = set()
    for most in limits:
        found = outcomes(8, most)
        assert found == outcomes(0, most), most
        lengths.add(len(found))
    assert len(lengths) > 1


@pytest.mark.parametrize("removal", [0.25, 1e9])
@pytest.mark.parametrize("step", ["right linear", "left linear"])
def test_ticks_whose_groups_have_many_rows(step: str, removal: float, tables: list[ValueTable]) -> None:
    """Few values are searched for in the runs, of many they are read."""
    rng = np.random.default_rng(7)
    edges = np.unique(rng.integers(0, 300, (420, 2)), axis=0)
    batches = [rng.permutation(edges)[:size] for size in (40, 60, 90, 150, 60)]
    found = []
    for places in (1000, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(value_table, "PLACES", places)
            patch.setattr(modes, "REMOVAL", removal)
            run = started(step, "insert-only")
            changes = [run.step({"edge": list(map(tuple, edges.tolist()))})["out"].to_dict()]
            for batch in batches:
                for weight in (-1, 1):
                    change = {tuple(row): weight for row in batch.tolist()}
                    changes.append(run.step({"edge": change})["out"].to_dict())
            assert view(run) == changes[0]
            found.append(changes)
    assert found[0] == found[1] and len(tables) > 10


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("jumps", [range(0, 90, 3), ()])
@pytest.mark.parametrize("step", ["right linear", "left linear"])
def test_an_arrangement_by_the_value_is_a_transposition(
    step: str, jumps: Sequence[int], threads: int
) -> None:
    """The ticks with it and those that sort have the same results, and the same state.

    Without jumps, all rows have one derivation.
    """
    in_line = [*chain(0, 99), *((x, x + 7) for x in jumps)]
    edges = [(37 * x % 101, 37 * y % 101) for x, y in in_line]
    middle, later = edges[48], edges[60]
    # The first jump is one of two derivations of its rows; the middle edge restarts the recursion.
    jump = edges[98 % len(edges)]
    ticks = [dict.fromkeys(edges, 1), {jump: -1}, {middle: -1, later: -1, (120, middle[1]): 1}]
    ticks += [{jump: 1}, {middle: 1}]
    outcomes: list[list[object]] = []
    transposed: list[bool] = []
    genuine = SortedRun.transposed

    def noted(*arguments: Any) -> SortedRun | None:
        transposed.append((run := genuine(*arguments)) is not None)
        return run

    ways = [
        (value_table.PLACES, sorted_run.MOST_VALUES),
        (value_table.PLACES, 0),
        (0, sorted_run.MOST_VALUES),
    ]
    for places, values in ways:
        with small_pieces(threads), pytest.MonkeyPatch.context() as patch:
            patch.setattr(value_table, "PLACES", places)
            patch.setattr(value_table, "PIECE", 500)
            patch.setattr(row_table, "PIECE", 512)
            patch.setattr(sorted_run, "MOST_VALUES", values)
            patch.setattr(SortedRun, "transposed", staticmethod(noted))
            run = started(step, "insert-only")
            outcomes.append([])
            facts: Z = {}
            for tick in ticks:
                outcomes[-1] += [run.step({"edge": tick})["out"].to_dict(), run.state_bytes]
                facts = apply_set(facts, tick)
                fresh = started(step, "insert-only")
                fresh.step({"edge": facts})
                assert view(run) == view(fresh)
    assert outcomes[0] == outcomes[1] == outcomes[2]
    assert set(transposed) == {True, False}


@pytest.mark.parametrize("nodes", [5_000, 70_000])
def test_many_values(nodes: int, tables: list[ValueTable]) -> None:
    """The bits of the values of a group are in more than one word of words."""
    rng = np.random.default_rng(nodes)
    x = rng.integers(0, nodes, nodes // 2)
    edges = np.unique(np.stack([x, rng.permutation(nodes)[: nodes // 2]], 1), axis=0)
    found: list[dict[tuple[int, ...], int]] = []
    for places in (value_table.PLACES, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(value_table, "PLACES", places)
            run = started("right linear")
            run.step({"edge": list(map(tuple, edges.tolist()))})
            found.append(view(run))
    assert found[0] == found[1] and len(found[0]) > len(edges)
    assert len(tables) == 1


def test_memory_that_cannot_be_allocated_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    run = started("right linear")
    with monkeypatch.context() as patch:
        patch.setattr(linear_iterations, "RowTables", _out_of_memory)
        with pytest.raises(dbsp.DbspError, match="memory"):
            run.step({"edge": chain(0, 30)})
    assert view(run) == {}
    run.step({"edge": chain(0, 30)})
    assert view(run) == closure_of(0, 30)


def _out_of_memory(*arguments: object) -> None:
    raise MemoryError
