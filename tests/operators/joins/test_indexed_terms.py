"""Terms of large deltas: indexed runs, marked lists, merged runs and loops over the last levels
give what plain searches give."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dbsp import Circuit, DbspError, Run, Stream, col, multiway_join
from dbsp.kernels import last_levels, level_values, multiway, value_marks
from dbsp.kernels.limits import INT64_MAX
from dbsp.operators.joins import merged_runs, multiway_term, small_terms
from dbsp.state.merging_stack import MergingStack
from tests.live_program import Subject
from tests.profiles import examples
from tests.random_conjunctions import Conjunction, Function, canonical, conjunctions
from tests.random_datalog import programs
from tests.reference import add
from tests.test_programs import VALUES, program_changes


@contextmanager
def searching(indexed: bool, merged: bool, places: int) -> Iterator[None]:
    """Index, mark and loop over the last levels for any delta or for none; merge runs or not.

    Values share `places` places of marks. The kernel of the join is interpreted.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(small_terms, "FEW", -1)
        patch.setattr(multiway_term, "extend_by_levels", multiway.extend_by_levels)
        patch.setattr(multiway, "FEWEST", 0 if indexed else INT64_MAX)
        patch.setattr(multiway, "SEARCHES", 1000)
        patch.setattr(multiway, "VALUES", 1000)
        for module in (level_values, last_levels):
            patch.setattr(module, "MARKING", 1000 if indexed else 0)
            patch.setattr(module, "MOST_MARKED", 1000 if indexed else 0)
        if not indexed:
            patch.setattr(multiway, "is_plain", lambda plan, last: False)
        patch.setattr(value_marks, "MARKS", places)
        patch.setattr(merged_runs, "LARGE", 1 if merged else INT64_MAX)
        patch.setattr(merged_runs, "SHARE", 1000)
        yield


@settings(max_examples=examples(60))
@given(st.data(), st.sampled_from([value_marks.MARKS, 64, 2]), st.booleans())
def test_random_joins(data: st.DataObject, places: int, merged: bool) -> None:
    query = data.draw(conjunctions())
    one, other = query.started(), query.started()
    for tick in data.draw(query.ticks()):
        with searching(True, merged, places):
            delta = canonical(one.step(tick)["out"].to_dict())
        with searching(False, False, places):
            assert delta == canonical(other.step(tick)["out"].to_dict())
    if not merged:  # a merge drops the rows that cancel, and so some prefixes
        assert [*one.join_terms().values()] == [*other.join_terms().values()]


RELATIONS = {"e": ("int", "int?"), "f": ("int?", "int"), "w": ("int", "int?", "int"), "n": ("int",)}
QUERIES_OF_RELATIONS: dict[str, tuple[tuple[str, tuple[str | None, ...]], ...]] = {
    "cycle": (("e", ("a", "b")), ("f", ("b", "c")), ("e", ("c", "d")), ("f", ("d", "a"))),
    "columns that are equal": (
        ("f", ("a", "b")),
        ("e", ("b", "c")),
        ("w", ("d", "d", "c")),
        ("f", ("d", "a")),
    ),
    "a column that nothing reads": (("e", ("a", "b")), ("f", ("b", "c")), ("w", ("c", "a", None))),
    "two common columns": (("e", ("a", "b")), ("w", ("a", "b", "c")), ("w", ("b", "d", "c"))),
    "a set of nodes": (("f", ("a", "b")), ("e", ("b", "c")), ("n", ("c",)), ("n", ("d",))),
    "separate pairs": (
        ("e", ("a", "b")),
        ("f", ("a", "c")),
        ("f", ("b", "c")),
        ("e", ("a", "d")),
        ("e", ("b", "d")),
    ),
}
CONDITIONS = [(), (Function("differ", ("a", "c")),), (Function("less", ("a", "c")),)]
OPTIONAL: dict[str, tuple[int | None, ...]] = {
    "int": (0, 1, 2, 3, 0, -(2**63)),
    "int?": (0, 1, 2, 3, 0, None),
}
"""None does not match -2**63, which has the same code."""


@settings(max_examples=examples(80))
@given(
    st.sampled_from(sorted(QUERIES_OF_RELATIONS)),
    st.sampled_from(CONDITIONS),
    st.integers(0, 2**32),
    st.sampled_from([64, 2]),
    st.booleans(),
)
def test_kinds_of_last_levels(
    name: str, where: tuple[Function, ...], seed: int, places: int, merged: bool
) -> None:
    chance = np.random.default_rng(seed)
    query = Conjunction(RELATIONS, QUERIES_OF_RELATIONS[name], {}, where, ())
    variables = chance.permutation(query.variables()).tolist()
    query = replace(query, select=tuple(variables[: int(chance.integers(1, len(variables) + 1))]))
    one, other = query.started(), query.started()
    present: dict[str, dict[Any, int]] = {relation: {} for relation in RELATIONS}
    result: dict[Any, int] = {}
    for count in (14, 3, 8, 14):
        tick = {
            relation: {
                tuple(OPTIONAL[kind][chance.integers(6)] for kind in kinds): int(chance.choice([1, 1, 2, -1]))
                for _ in range(count)
            }
            for relation, kinds in RELATIONS.items()
        }
        with searching(True, merged, places):
            delta = one.step(tick)["out"].to_dict()
        with searching(False, False, places):
            assert delta == other.step(tick)["out"].to_dict()
        present = {relation: add(present[relation], tick[relation]) for relation in RELATIONS}
        result = add(result, delta)
        assert result == query.evaluate(present)
    if not merged:
        assert [*one.join_terms().values()] == [*other.join_terms().values()]


@pytest.mark.parametrize("looped", [True, False])
def test_equal_rows_with_a_sum_outside_int64(looped: bool) -> None:
    """Rows that follow may cancel the sum."""
    query = Conjunction(
        RELATIONS, (("e", ("a", "b")), ("w", ("a", "b", "c")), ("f", ("b", "c"))), {}, (), ("a",)
    )
    large = 2**62
    edges = {"e": {(0, 0): 1}, "f": {(0, c): 1 for c in range(5)}}
    run = query.started()
    with searching(looped, False, 64):
        with pytest.raises(DbspError, match="weight"):
            run.step({**edges, "w": {(0, 0, c): large for c in range(3)}})
        tick = {**edges, "w": {(0, 0, c): large if c < 3 else -large for c in range(5)}}
        assert run.step(tick)["out"].to_dict() == {(0,): large}


RECURSION = """
.decl start(x: number, y: number) .input start
.decl e(x: number, y: number) .input e
.decl r(x: number, y: number) .output r
r(x, y) :- start(x, y).
r(x, z) :- r(x, y), e(y, z), e(x, z).
r(x, z) :- r(x, y), e(y, z), e(z, w), e(w, x).
"""


@pytest.mark.parametrize("recursion", ["incremental", "auto"])
def test_rows_with_times_are_not_listed_in_loops(recursion: str) -> None:
    chance = np.random.default_rng(3)
    subject = Subject(RECURSION, strategy="wcoj", recursion=recursion)
    edges = sorted(set(map(tuple, chance.integers(0, 9, (50, 2)).tolist())))
    with searching(True, True, 64):
        live = subject.start([*(("start", (n, n), 1) for n in range(9)), *(("e", edge, 1) for edge in edges)])
        for x, y in edges[:6]:
            live.tick([("e", (x, y), -1), ("e", (x, 10), 1)])


# --- graphs with hubs -----------------------------------------------------------------------------


NODES = 200


def cycles(edge: Stream) -> Stream:
    return multiway_join([edge("a", "b"), edge("b", "c"), edge("c", "d"), edge("d", "a")])


def rising(edge: Stream) -> Stream:
    atoms = [edge("a", "b"), edge("b", "c"), edge("a", "c"), edge("c", "d"), edge("b", "d")]
    return multiway_join(atoms, where=[col("a") < col("c"), col("d") != col("a")])


def bent(edge: Stream) -> Stream:
    atoms = [edge("a", "b"), edge("b", "c"), edge("c", "d"), edge("d", "a")]
    return multiway_join(atoms, where=[col("a") != col("c")])


def diamonds(edge: Stream) -> Stream:
    return multiway_join([edge(x, y) for x, y in ("ab", "ac", "bc", "ad", "bd")])


def cliques(edge: Stream) -> Stream:
    return multiway_join([edge(x, y) for x, y in ("ab", "ac", "ad", "bc", "bd", "cd")])


QUERIES = [cycles, bent, rising, diamonds, cliques]


def counted(w: Any, query: Any) -> int:
    """The sum of all weights of the result, from the matrix of the weights of the edges."""
    if query is cycles:
        return int(np.trace(w @ w @ w @ w))
    if query is bent:
        return int(np.trace(w @ w @ w @ w) - ((w @ w).diagonal() ** 2).sum())
    if query is diamonds:
        return int((w * (w @ w.T) ** 2).sum())
    total = 0
    nodes = np.arange(len(w))
    for a, b in np.argwhere(w).tolist():
        if query is cliques:
            both = w[a] * w[b]
            total += w[a, b] * (both @ w @ both)
        else:
            total += w[a, b] * ((w[b] * w[a] * (nodes > a)) @ (w @ (w[b] * (nodes != a))))
    return int(total)


def changes(chance: np.random.Generator, weights: Any, count: int, units: bool) -> dict[tuple[int, int], int]:
    """Change a number of edges, most of which are edges of hubs."""
    nodes = len(weights)
    ends = (nodes * chance.random((4 * count, 2)) ** 2).astype(np.int64)
    found: dict[tuple[int, int], int] = {}
    for x, y in dict.fromkeys(map(tuple, ends.tolist())):
        present = int(weights[x, y])
        if len(found) == count:
            break
        if units:
            found[x, y] = -1 if present else 1
        else:
            found[x, y] = -present if present and chance.random() < 0.5 else int(chance.integers(1, 4))
    return found


def start(query: Any) -> Run:
    circuit = Circuit("graph")
    edge = circuit.input("e", x=int, y=int)
    circuit.output("out", query(edge))
    return circuit.start()


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize(("units", "scale"), [(True, 1), (False, 1), (True, 2**40)])
def test_loads_and_large_changes_of_graphs(query: Any, units: bool, scale: int) -> None:
    """The kernels are compiled, and values that are not dense share buckets of the index."""
    chance = np.random.default_rng(len(query.__name__) + units)
    run = start(query)
    weights = np.zeros((NODES, NODES), np.int64)
    before: dict[Any, int] = {}
    for count in (1300, 1100, 1, 70, 0, 1200):
        tick = changes(chance, weights, count, units)
        for (x, y), weight in tick.items():
            weights[x, y] += weight
        delta = run.step({"e": {(x * scale, y * scale): w for (x, y), w in tick.items()}})["out"].to_dict()
        for row, weight in delta.items():
            before[row] = before.get(row, 0) + weight
            if not before[row]:
                del before[row]
        assert sum(before.values()) == counted(weights, query)
    fresh = start(query)
    nonzero = {(int(x) * scale, int(y) * scale): int(weights[x, y]) for x, y in np.argwhere(weights)}
    assert before == fresh.step({"e": nonzero})["out"].to_dict()


def test_a_merge_without_memory_undoes_the_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = np.random.default_rng(5)
    run = start(cycles)
    weights = np.zeros((NODES, NODES), np.int64)
    load = changes(chance, weights, 1500, True)
    run.step({"e": load})
    before = run.view("out").to_dict(), run.state_rows
    retraction = dict.fromkeys([*load][:1200], -1)

    def fail(self: MergingStack, count: int) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(MergingStack, "oldest", fail)
        with pytest.raises(DbspError, match="memory"):
            run.step({"e": retraction})
    assert (run.view("out").to_dict(), run.state_rows, run.tick) == (*before, 1)
    run.step({"e": retraction})
    rest = start(cycles)
    rest.step({"e": dict.fromkeys([*load][1200:], 1)})
    assert run.view("out").to_dict() == rest.view("out").to_dict()


@pytest.mark.parametrize(("changed", "merges"), [(merged_runs.LARGE, True), (merged_runs.LARGE - 1, False)])
def test_runs_are_merged_for_large_deltas_only(
    changed: int, merges: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    genuine = MergingStack.oldest

    def oldest(self: MergingStack, count: int) -> Any:
        asked.append(count)
        return genuine(self, count)

    monkeypatch.setattr(MergingStack, "oldest", oldest)
    run = start(cycles)
    run.step({"e": {(n, n + 1): 1 for n in range(3000)}})
    assert not asked  # a load reads single runs
    run.step({"e": {(n, n + 2): 1 for n in range(changed)}})
    assert asked == ([2, 2] if merges else [])  # once for each arrangement, with the delta


@settings(max_examples=examples(30), suppress_health_check=[*HealthCheck])
@given(programs(cyclic=True), st.sampled_from(["incremental", "auto"]), st.data())
def test_random_programs_with_recursion(text: str, recursion: str, data: st.DataObject) -> None:
    """Inside a recursion, rows have times, and a value several rows."""
    subject = Subject(text, strategy="wcoj", recursion=recursion)
    initial, *others = data.draw(program_changes(subject, VALUES))
    with searching(True, True, 64):
        live = subject.start(initial)
        for tick in others:
            live.tick(tick)


@settings(max_examples=examples(24))
@given(
    st.integers(0, 2**32),
    st.sampled_from(QUERIES),
    st.sampled_from([64, 2]),
    st.booleans(),
    st.booleans(),
)
def test_small_graphs(seed: int, query: Any, places: int, merged: bool, units: bool) -> None:
    """Lists are met again, in one run or several, and their values share places of marks."""
    chance = np.random.default_rng(seed)
    one, other = start(query), start(query)
    weights = np.zeros((12, 12), np.int64)
    total = 0
    for count in (40, 10, 20):
        tick = changes(chance, weights, count, units)
        for edge, weight in tick.items():
            weights[edge] += weight
        with searching(True, merged, places):
            delta = one.step({"e": tick})["out"].to_dict()
        with searching(False, False, places):
            assert delta == other.step({"e": tick})["out"].to_dict()
        total += sum(delta.values())
        assert total == counted(weights, query)
    if not merged:
        assert [*one.join_terms().values()] == [*other.join_terms().values()]


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize(("scale", "other"), [(1, 100), (2, 1)])
def test_lists_at_the_same_place_of_other_runs(query: Any, scale: int, other: int) -> None:
    """Two graphs of the same form, each in a run: their lists differ in the run only.

    The nodes of the second graph follow those of the first, or alternate with them.
    """
    chance = np.random.default_rng(5)
    looped, plain = start(query), start(query)
    graph, more = (changes(chance, np.zeros((12, 12), np.int64), count, True) for count in (60, 30))

    def copy(edges: Any, node: int) -> dict[tuple[int, int], int]:
        return {(scale * a + node, scale * b + node): 1 for a, b in edges}

    last = copy(more.keys() - graph, 0) | copy(more.keys() - graph, other)
    for tick in (copy(graph, 0), copy(graph, other), last):
        with searching(True, False, 64):
            delta = looped.step({"e": tick})["out"].to_dict()
        with searching(False, False, 64):
            assert delta == plain.step({"e": tick})["out"].to_dict()
    assert delta


def test_the_same_rows_in_two_columns() -> None:
    """The values of y and of z below x = 0 are in the same rows; marks of one are not of both."""
    circuit = Circuit("test")
    d, t = circuit.input("d", a=int, b=int, c=int), circuit.input("t", x=int, y=int, z=int)
    atoms = [d("a", "b", "c"), t("a", "v", "w"), t("b", "c", "v")]
    orders = [("v", "w"), ("b", "c"), ("a", "w")]
    circuit.output("out", multiway_join(atoms, orders=orders, select=["a", "v", "w"]))
    run = circuit.start()
    rows = [(a, v, 0) for a in (-3, -2, -1) for v in (4, 5, 6)]
    rows += [(0, 0, z) for z in range(5, 15)] + [(1, 0, 0)]
    run.step({"t": dict.fromkeys(rows, 1)})
    with searching(True, True, 64):
        delta = run.step({"d": {(-3, 0, 0): 1, (-2, 0, 0): 1, (-1, 0, 0): 1, (0, 1, 0): 1}})["out"]
    found = {(a, v, 0): 1 for a in (-3, -2, -1) for v in (5, 6)}
    assert delta.to_dict() == found | {(0, 0, w): 1 for w in range(5, 15)}
