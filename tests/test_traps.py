"""Known pitfalls of incremental recursion, by name, with expected results written by hand."""

from __future__ import annotations

import random
from collections import Counter
from itertools import permutations, product
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbsp
from tests.compiler.support import AS_WRITTEN
from tests.profiles import examples

from .live_program import Change, LiveProgram, Subject, apply

pytestmark = pytest.mark.usefixtures("every_recursion")

Pair: TypeAlias = tuple[int, int]

NON_LINEAR = """
.decl edge(x: number, y: number)
.decl path(x: number, y: number)
.input edge
.output path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), path(y, z).
"""

REACH = """
.decl base(x: number)
.decl edge(x: number, y: number)
.decl reach(x: number)
.decl unreached(x: number)
.input base, edge
.output reach, unreached
reach(x) :- base(x).
reach(y) :- reach(x), edge(x, y).
unreached(x) :- edge(x, _), !reach(x).
unreached(x) :- edge(_, x), !reach(x).
"""

MUTUAL = """
.decl edge(x: number, y: number)
.decl even, odd(x: number, y: number)
.input edge
.output even, odd
odd(x, y) :- edge(x, y).
odd(x, z) :- even(x, y), odd(y, z).
even(x, z) :- odd(x, y), odd(y, z).
"""


def edges(*pairs: Pair, weight: int = 1) -> list[Change]:
    return [("edge", pair, weight) for pair in pairs]


def rows(live: LiveProgram, name: str) -> list[Any]:
    return live.run.view(name).rows()


# --- by name --------------------------------------------------------------------------------------


def test_rows_deferred_to_the_same_iteration_accumulate() -> None:
    live = Subject(NON_LINEAR, rewrites=AS_WRITTEN).start()
    live.tick(edges((0, 3), (2, 0), (4, 2)))
    live.tick(edges((0, 4)))
    assert (2, 2) in rows(live, "path")
    assert rows(live, "path") == [
        *[(0, 0), (0, 2), (0, 3), (0, 4)],
        *[(2, 0), (2, 2), (2, 3), (2, 4)],
        *[(4, 0), (4, 2), (4, 3), (4, 4)],
    ]


def test_a_cycle_does_not_support_itself() -> None:
    live = Subject(REACH).start()
    live.tick([("base", (0,), 1), *edges((0, 1), (1, 2), (2, 1))])
    live.tick(edges((0, 1), weight=-1))
    assert rows(live, "reach") == [(0,)]
    assert rows(live, "unreached") == [(1,), (2,)]


def test_a_cycle_with_two_entries_survives_until_both_are_deleted() -> None:
    live = Subject(REACH).start([("base", (0,), 1), *edges((0, 1), (1, 2), (2, 3), (3, 1), (0, 3))])
    live.tick(edges((0, 1), weight=-1))
    assert rows(live, "reach") == [(0,), (1,), (2,), (3,)]
    live.tick([("edge", (0, 1), 1), ("edge", (0, 3), -1)])
    live.tick(edges((0, 1), weight=-1))
    assert rows(live, "reach") == [(0,)]
    live.tick(edges((0, 2)))
    assert rows(live, "reach") == [(0,), (1,), (2,), (3,)]


def test_support_moves_to_a_later_iteration_and_back() -> None:
    """4 is reached in one step or in four; the nodes behind it must follow."""
    live = Subject(REACH).start([("base", (0,), 1), *edges((0, 4), (4, 5), (5, 6))])
    live.tick(edges((0, 1), (1, 2), (2, 3), (3, 4)))
    live.tick(edges((0, 4), weight=-1))
    assert rows(live, "reach") == [(i,) for i in range(7)]
    live.tick(edges((2, 3), weight=-1))
    assert rows(live, "reach") == [(0,), (1,), (2,)]
    assert rows(live, "unreached") == [(3,), (4,), (5,), (6,)]
    live.tick([*edges((0, 4)), *edges((1, 2), weight=-1)])
    assert rows(live, "reach") == [(0,), (1,), (4,), (5,), (6,)]


def test_deletions_inside_a_dense_component() -> None:
    everyone = list(product(range(6), repeat=2))
    live = Subject(NON_LINEAR, rewrites=AS_WRITTEN).start(edges(*everyone))
    for pair in everyone[::5]:
        live.tick(edges(pair, weight=-1))
    assert rows(live, "path") == everyone
    # Delete the edges into 0, then the edges out of 1.
    live.tick(edges(*((x, 0) for x in range(6)), weight=-1))
    assert rows(live, "path") == [pair for pair in everyone if pair[1] != 0]
    live.tick(edges(*((1, y) for y in range(6)), weight=-1))
    assert rows(live, "path") == [pair for pair in everyone if pair[1] != 0 and pair[0] != 1]


def test_mutual_recursion_with_both_sides_recursive() -> None:
    live = Subject(MUTUAL).start(edges((0, 1), (1, 2), (2, 3)))
    assert rows(live, "even") == [(0, 2), (1, 3)]
    live.tick(edges((3, 0)))
    assert rows(live, "even") == [(x, y) for x, y in product(range(4), repeat=2) if (x + y) % 2 == 0]
    live.tick(edges((3, 1)))  # a cycle of three: every distance is odd and even
    assert rows(live, "even") == rows(live, "odd") == list(product(range(4), repeat=2))
    live.tick(edges((3, 0), weight=-1))
    live.tick(edges((3, 1), weight=-1))
    assert (rows(live, "even"), rows(live, "odd")) == ([(0, 2), (1, 3)], [(0, 1), (0, 3), (1, 2), (2, 3)])


def test_a_row_replaced_by_itself_in_one_tick_changes_nothing() -> None:
    live = Subject(NON_LINEAR, rewrites=AS_WRITTEN).start(edges((0, 1), (1, 2)))
    live.tick([*edges((0, 1), weight=-1), *edges((0, 1))], "staged")
    assert rows(live, "path") == [(0, 1), (0, 2), (1, 2)]
    live.tick([*edges((5, 6)), *edges((5, 6), weight=-1)], "staged")
    assert rows(live, "path") == [(0, 1), (0, 2), (1, 2)]


def test_a_match_that_never_exists_is_not_evaluated() -> None:
    """The divisor is deleted in the tick that inserts its dividend, and vice versa."""
    subject = Subject(
        """
        .decl a(x: number, k: number)
        .decl b(y: number, k: number)
        .decl q(z: number)
        .input a, b
        .output q
        q(x / y) :- a(x, k), b(y, k).
        """
    )
    live = subject.start([("b", (0, 1), 1)])
    live.tick([("a", (5, 1), 1), ("b", (0, 1), -1)])
    live.tick([("a", (5, 1), -1), ("b", (0, 1), 1)])
    live.tick([("a", (5, 1), 1), ("b", (0, 1), -1), ("b", (2, 1), 1)])
    assert rows(live, "q") == [(2,)]
    assert live.refused == 0


def test_a_value_is_not_computed_for_rows_that_a_condition_discards() -> None:
    """For every order of the body: x * y overflows for the discarded rows."""
    for body in permutations(["r(x, y)", "z = x * y + w", "w = x + 1", "x < 5", "!bad(y)"]):
        run = dbsp.compile(
            f"""
            .decl r(x: number, y: number)
            .decl bad(y: number)
            .decl q(z: number)
            .input r, bad
            .output q
            q(z) :- {", ".join(body)}.
            """
        ).start()
        result = run.step({"r": [(2**62, 4), (-4, 2**62), (3, 4)], "bad": [(2**62,)]})
        assert result["q"].to_dict() == {(16,): 1}


# --- exhaustive -----------------------------------------------------------------------------------


def test_every_split_into_ticks() -> None:
    """Nine changes cut into ticks in each of the 2**8 ways."""
    changes = [
        *edges((0, 1), (1, 2), (2, 0), (2, 3)),
        *edges((1, 2), weight=-1),
        *edges((3, 1), (0, 2)),
        *edges((0, 1), weight=-1),
        *edges((1, 2)),
    ]
    subject = Subject(NON_LINEAR, rewrites=AS_WRITTEN)
    for cuts in product([False, True], repeat=len(changes) - 1):
        live = subject.start()
        tick: list[Change] = []
        for change, cut in zip(changes, [*cuts, True], strict=True):
            tick.append(change)
            if cut:
                live.tick(tick)
                tick = []


@pytest.mark.parametrize("text", [NON_LINEAR, REACH, MUTUAL], ids=["non-linear", "reach", "mutual"])
def test_every_sequence_of_a_few_changes(text: str) -> None:
    """All sequences of four changes that each insert or retract one of four rows."""
    subject = Subject(text, rewrites=AS_WRITTEN)
    toggled: list[Change] = edges((0, 1), (1, 0), (1, 1), (1, 2))
    if "base" in subject.program.inputs:
        toggled[2] = ("base", (0,), 1)
    for sequence in product(toggled, repeat=4):
        live = subject.start()
        for name, row, _ in sequence:
            live.tick([(name, row, -1 if row in live.inputs[name] else 1)])


# --- rolled-back ticks ----------------------------------------------------------------------------


@settings(max_examples=examples(25), deadline=None)
@given(
    st.lists(
        st.lists(
            st.tuples(st.tuples(st.integers(0, 5), st.integers(0, 5)), st.sampled_from([1, 1, -1])),
            max_size=4,
        ),
        min_size=6,
        max_size=12,
    ),
    st.integers(3, 5),
)
def test_ticks_over_the_iteration_limit_change_nothing(ticks: list[list[tuple[Pair, int]]], cap: int) -> None:
    live = LINEAR.start(max_iterations=cap)
    for tick in ticks:
        live.tick([("edge", pair, weight) for pair, weight in tick])


LINEAR = Subject(NON_LINEAR.replace("path(y, z)", "edge(y, z)"))


def test_the_iteration_limit_error_names_the_scope_and_the_next_tick_is_right() -> None:
    live = LINEAR.start(max_iterations=8)
    live.tick(edges(*((i, i + 1) for i in range(5)), (90, 91)))
    live.tick(edges((90, 91), weight=-1))
    with pytest.raises(dbsp.errors.IterationLimitError) as refused:
        live.run.step({"edge": [(i, i + 1) for i in range(5, 20)]})
    assert str(refused.value).startswith(
        "<program>:3:7: error: scope 'path' has not converged after 8 iterations"
    )
    assert "max_iterations" in str(refused.value)
    live.check_views()
    live.tick(edges((2, 3), weight=-1))
    live.tick(edges(*((i, i + 1) for i in range(5, 8))))
    assert live.run.tick == 4


# --- many ticks -----------------------------------------------------------------------------------

LIVE = Path(__file__).parent / "programs" / "live"


def churn_views(pairs: set[Pair], nodes: set[int]) -> dict[str, set[Any]]:
    """Return the outputs of churn.dl, in plain Python."""
    following: dict[int, set[int]] = {}
    for x, y in pairs:
        following.setdefault(x, set()).add(y)
    reached: dict[int, set[int]] = {}
    for x in following:
        waiting, seen = [x], reached.setdefault(x, set())
        while waiting:
            new = following.get(waiting.pop(), set()) - seen
            seen |= new
            waiting.extend(new)
    path = {(x, y) for x, seen in reached.items() for y in seen}
    cyclic = {x for x, y in path if x == y}
    later = {x: [y for y in reached.get(x, ()) if y > x] for x in nodes}
    return {
        "path": path,
        "twice": path,
        "two_steps": {(x, z) for x, y in pairs for z in following.get(y, ()) if x != z},
        "cyclic": {(x,) for x in cyclic},
        "sink": {(x,) for x in nodes if x not in following},
        "reached": {(x, len(reached.get(x, ()))) for x in nodes},
        "nearest": {(x, min(ys)) for x, ys in later.items() if ys},
        "unreached": {(x, y) for x in cyclic for y in nodes if (x, y) not in path},
    }


@pytest.mark.parametrize("small", [2, 512])
def test_hundreds_of_ticks_on_a_larger_graph(small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sorted runs accumulate and are merged; the deltas add up to the views, and no state is left.

    In one case, a sorted run of more than two rows counts as large, and a merge does little work at
    a time, so that all kinds of merges occur.
    """
    generator = random.Random(small)
    monkeypatch.setattr("dbsp.state.merging_stack.SMALL", small)
    monkeypatch.setattr("dbsp.runtime.scope_state.MERGE_FUEL", 8 * small)
    run = dbsp.compile(LIVE / "churn.dl").start()
    pairs: set[Pair] = set()
    nodes = set(range(30))
    views: dict[str, dict[Any, int]] = {name: {} for name in run.outputs}
    change: dict[str, dict[Any, int]] = {"node": {(x,): 1 for x in nodes}, "edge": {}}
    for tick in range(250):
        for _ in range(generator.choice([0, 1, 1, 1, 2, 5, 20]) if tick else 45):
            if generator.random() < len(pairs) / 90:
                change["edge"][generator.choice(sorted(pairs))] = -1
            else:
                change["edge"][generator.randrange(30), generator.randrange(30)] = 1
        if generator.random() < 0.3:
            change["node"][(generator.randrange(30),)] = generator.choice([1, -1])
        delta = run.step(change)
        for pair, weight in change["edge"].items():
            (pairs.add if weight > 0 else pairs.discard)(pair)
        for (x,), weight in change["node"].items():
            (nodes.add if weight > 0 else nodes.discard)(x)
        change = {"node": {}, "edge": {}}
        add_up(views, delta, run, churn_views(pairs, nodes))
    run.step({"edge": dict.fromkeys(pairs, -1), "node": dict.fromkeys(((x,) for x in nodes), -1)})
    run.compact()
    assert run.state_rows == 0


def add_up(
    views: dict[str, dict[Any, int]], delta: dbsp.TickResult, run: dbsp.Run, expected: dict[str, set[Any]]
) -> None:
    """Add the delta to the views, and compare them with `expected` and the views of the run."""
    for name, view in views.items():
        for row, weight in delta[name].items():
            view[row] = view.get(row, 0) + weight
            if not view[row]:
                del view[row]
        assert view == dict.fromkeys(expected[name], 1), f"{name} at tick {delta.number}"
        assert run.view(name).to_dict() == view, f"{name} at tick {delta.number}"


def large_views(inputs: dict[str, set[Any]]) -> dict[str, set[Any]]:
    """Return the outputs of large.dl, in plain Python."""
    s: dict[int, list[int]] = {}
    for y, z in inputs["s"]:
        s.setdefault(y, []).append(z)
    r: dict[int, list[int]] = {}
    for x, y in inputs["r"]:
        r.setdefault(x, []).append(y)
    tags = Counter(t for _, t in inputs["tag"])
    joined = {(x, z) for x, y in inputs["r"] for z in s.get(y, ()) if (z,) not in inputs["blocked"]}
    return {
        "joined": joined,
        "groups": {(x, len(ys), sum(ys), min(ys), max(ys)) for x, ys in r.items()},
        "only": {(x, y) for x, y in inputs["r"] if y not in s},
        "mirrored": {(x, y) for x, y in inputs["r"] if (y, x) in inputs["r"]},
        "totals": {(len(joined), sum(y for _, y in inputs["r"]))},
        "tags": {(t, tags[t]) for x, t in inputs["tag"] if x in r},
    }


@pytest.mark.parametrize(("size", "values"), [(8_000, 2_000), (1_500, 150)])
def test_ticks_of_thousands_of_rows(size: int, values: int) -> None:
    """Large deltas use other code paths in sorting, joining and merging than small deltas."""
    generator = random.Random(size)
    far = [generator.randrange(-(2**40), 2**40) for _ in range(values)]

    def value() -> int:
        return generator.choice(far) if generator.random() < 0.5 else generator.randrange(-values, values)

    new = {
        "r": lambda: (value(), value()),
        "s": lambda: (value(), value()),
        "blocked": lambda: (value(),),
        "tag": lambda: (value(), f"t{generator.randrange(values)}"),
    }
    run = dbsp.compile(LIVE / "large.dl").start()
    inputs: dict[str, set[Any]] = {name: set() for name in new}
    views = {name: run.view(name).to_dict() for name in run.outputs}
    for tick in range(6):
        changes: dict[str, dict[Any, int]] = {}
        for name, rows in inputs.items():
            count = generator.choice([1, 20, size // 2, size]) if tick else size
            count = count // 50 if name == "blocked" else count
            changes[name] = {new[name](): 1 for _ in range(count)}
            deleted = generator.sample(sorted(rows), min(len(rows), count // 2))
            changes[name].update(dict.fromkeys(deleted, -1))
        delta = run.step(changes)
        apply(inputs, [(name, row, weight) for name in new for row, weight in changes[name].items()])
        add_up(views, delta, run, large_views(inputs))
