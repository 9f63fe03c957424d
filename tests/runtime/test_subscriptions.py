"""Subscriptions of a run: deliveries, sharing, freeing, errors, faults, threads and coroutines."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dbsp
from benchmarks.faults import Injector
from dbsp import (
    ArgumentError,
    Circuit,
    CircuitError,
    CompileError,
    DbspError,
    EvaluationError,
    InputError,
    Run,
    UserFunctionError,
    ZSet,
    col,
)
from dbsp.durable import Store
from dbsp.runtime.run_subscription import RunSubscription
from dbsp.runtime.subscription_hub import SubscriptionHub

GRAPH = """
    .decl edge(x: number, y: number) .input edge
    .decl colour(x: number, c: symbol) .input colour
    .decl path(x: number, y: number) .output path
    path(x, y) :- edge(x, y).
    path(x, z) :- path(x, y), edge(y, z).
    .decl hidden(x: number, c: symbol)
    hidden(y, c) :- path(x, y), colour(x, c).
"""
ROWS: dict[str, list[Any]] = {
    "edge": [(1, 2), (2, 3), (3, 4), (7, 8)],
    "colour": [(1, "red"), (2, "blue"), (7, "red")],
}


def started(text: str = GRAPH) -> Run:
    return dbsp.compile(text).start(ROWS)


def hub(run: Run) -> SubscriptionHub:
    assert run._live is not None
    return run._live


def rows_kept(run: Run) -> int:
    """Return the rows that only subscriptions keep."""
    return sum(scope.rows for scope in hub(run).scopes)


def total(deltas: list[ZSet]) -> dict[Any, int]:
    rows: Counter[Any] = Counter()
    for delta in deltas:
        rows.update(delta.to_dict())
    return {row: weight for row, weight in rows.items() if weight}


# --- deliveries -----------------------------------------------------------------------------------


def test_the_first_delta_has_all_rows_even_if_there_are_none() -> None:
    run = started()
    many, none = run.subscribe("path"), run.subscribe("path(9, x)")
    assert [delta.to_dict() for delta in none.deltas()] == [{}]
    (first,) = many.deltas()
    assert first == run.view("path")
    run.step({"edge": {(7, 8): 1}})  # changes nothing
    assert many.deltas() == none.deltas() == []


def test_one_delta_for_each_tick_that_changes_a_row() -> None:
    run = started()
    seen = run.subscribe("path(1, x), colour(x, c)")
    assert seen.columns.names == ("x", "c")
    run.step({"edge": [(20, 21)]})
    run.step({"edge": {(1, 2): -1}})
    run.step({"edge": [(1, 2)], "colour": [(4, "green")]})
    assert [delta.to_dict() for delta in seen.deltas()] == [
        {(2, "blue"): 1},
        {(2, "blue"): -1},
        {(2, "blue"): 1, (4, "green"): 1},
    ]
    assert (seen.tick, seen.target, seen.closed, seen.error) == (4, "path(1, x), colour(x, c)", False, None)
    assert repr(seen) == "<subscription to path(1, x), colour(x, c), tick 4>"


def test_the_steps_of_a_transaction_are_one_delta() -> None:
    run = started()
    seen, edges = run.subscribe("path(7, x)"), run.subscribe("edge")
    with run.transaction() as transaction:
        transaction.step({"edge": [(8, 9), (8, 10)]})
        transaction.step({"edge": {(8, 9): -1, (10, 11): 1}})
        assert sorted(seen.view().rows()) == [(8,), (10,), (11,)]
        assert len(seen.deltas()) == 1
        with pytest.raises(CircuitError, match="subscribe was called inside a transaction"):
            run.subscribe("path")
    assert [delta.to_dict() for delta in seen.deltas()] == [{(10,): 1, (11,): 1}]
    assert edges.deltas()[1].to_dict() == {(8, 10): 1, (10, 11): 1}


def test_a_transaction_that_is_undone_delivers_nothing() -> None:
    run = started()
    seen = [run.subscribe(each) for each in ("path(7, x)", "hidden", "edge(x, 8)", "edge")]
    before = [each.view() for each in seen]
    with pytest.raises(ZeroDivisionError), run.transaction() as transaction:
        transaction.step({"edge": [(8, 9), (6, 8)], "colour": [(8, "black")]})
        assert [each.view() for each in seen] != before
        raise ZeroDivisionError
    assert [each.view() for each in seen] == before
    assert all(len(each.deltas()) == 1 for each in seen)
    run.step({"edge": [(8, 11)]})
    assert seen[0].deltas()[0].to_dict() == {(11,): 1}
    assert total(seen[1].deltas()) == {(11, "red"): 1}


def test_functions_and_queues_get_the_deltas_before_step_returns() -> None:
    run = started()
    calls: list[ZSet] = []
    waiting: queue.Queue[ZSet] = queue.Queue()
    called, queued = run.subscribe("path", calls.append), run.subscribe("path(7, x)", waiting)
    run.step({"edge": [(8, 9)]})
    assert total(calls) == called.view().to_dict()
    assert [waiting.get_nowait().to_dict() for _ in range(2)] == [{(8,): 1}, {(9,): 1}]
    assert called.deltas() == queued.deltas() == []


def test_a_function_that_raises_leaves_the_tick_and_the_others() -> None:
    run = started()
    fails = [False]

    def receive(delta: ZSet) -> None:
        if fails[0]:
            raise KeyError("missing")

    failing, other = run.subscribe("path", receive), run.subscribe("edge")
    other.deltas()
    fails[0] = True
    message = "the receiver of the subscription to path raised KeyError: 'missing'; it was called after the"
    with pytest.raises(UserFunctionError, match=message):
        run.step({"edge": [(8, 9)]})
    assert run.tick == 2
    assert other.deltas()[0].to_dict() == {(8, 9): 1}
    assert not failing.closed
    with pytest.raises(UserFunctionError, match="the receiver of the subscription to edge raised"):
        run.subscribe("edge", receive)
    assert run.subscriptions == (failing, other)


def test_a_function_may_close_subscriptions_and_read_but_not_step_or_subscribe() -> None:
    run = started()
    found: list[Any] = []

    def receive(delta: ZSet) -> None:
        if not found:
            found.append(())
            return
        for method in (run.step, lambda: run.subscribe("edge"), lambda: run.update(dbsp.compile(GRAPH))):
            with pytest.raises(CircuitError, match="was called inside a tick"):
                method()
        found.append(len(other.view()))
        other.close()
        own.close()

    other = run.subscribe("path(1, x)")
    own = run.subscribe("path", receive)
    run.step({"edge": [(4, 5)]})
    run.step({"edge": [(5, 6)]})
    assert found == [(), 4]
    assert run.subscriptions == ()
    assert not hub(run).scopes


@pytest.mark.parametrize("to", [5, asyncio.Queue(), "text"])
def test_other_receivers_are_refused(to: Any) -> None:
    with pytest.raises(ArgumentError, match="to: expected a function of a delta, a queue with a method put"):
        started().subscribe("path", to)


# --- what is shared, and what is freed ------------------------------------------------------------


def test_queries_of_one_form_are_one_circuit() -> None:
    run = started()
    first = [run.subscribe(f"path({x}, y), y > {x % 3}") for x in range(1, 5)]
    assert len(hub(run).scopes) == 2  # the circuit, and path sorted for it
    first += [run.subscribe("path( 1 ,other),other>1"), run.subscribe("path(1, y), y > 1")]
    assert len(hub(run).scopes) == 2
    run.subscribe("path(1, y), y < 1")
    assert len(hub(run).scopes) == 3
    run.step({"edge": {(4, 5): 1, (2, 3): -1}})
    for x, each in zip((1, 2, 3, 4, 1, 1), first, strict=True):
        wanted = {y for a, y in run.view("path").rows() if a == x and y > (x % 3)}
        assert {y for (y,) in each.view().rows()} == wanted
        assert total(each.deltas()) == each.view().to_dict()
    assert first[4].columns.names == ("other",)


def test_a_relation_is_sorted_once_in_each_order() -> None:
    run = started()
    run.subscribe("edge(x, 3)")  # by the second column, which the run does not need
    traces = len(hub(run).scopes)
    assert traces == 2
    run.subscribe("edge(x, 4), x < 4")
    run.subscribe("edge(x, 4), colour(x, c)")
    run.subscribe("edge(x, 4), edge(x, y)")
    assert len(hub(run).scopes) == traces + 3
    run.subscribe('colour(x, "red")')
    run.subscribe('colour(x, "red"), edge(x, 3)')
    assert len(hub(run).scopes) == traces + 3 + 3


def test_what_only_a_closed_subscription_used_is_freed() -> None:
    run = started()
    own = run.state_rows
    kept = run.subscribe("path(1, x)")
    rows, circuits = rows_kept(run), len(hub(run).scopes)
    for _ in range(3):
        others = [
            run.subscribe("path(2, x)"),
            run.subscribe("edge(x, 3)"),
            run.subscribe("hidden"),
            run.subscribe('hidden(x, "red")'),
            run.subscribe("n = count : { path(_, _) }"),
            run.subscribe("colour"),
        ]
        assert rows_kept(run) > rows
        for each in others:
            each.close()
            each.close()
        hub(run)._parts._stepped.clear()
        assert len(hub(run).scopes) == circuits
        run.step()
    run.compact()
    assert rows_kept(run) == rows
    kept.close()
    assert not hub(run).scopes
    assert not hub(run)._parts._readers
    assert run.state_rows == own


def test_relations_that_the_run_lacks_are_computed_once() -> None:
    run = started()
    whole, red = run.subscribe("hidden"), run.subscribe('hidden(x, "red")')
    assert "hidden" not in run.graph.named
    before = len(hub(run).scopes)
    third = run.subscribe("hidden(x, c), path(x, y)")
    assert len(hub(run).scopes) <= before + 2  # its circuit, and a trace
    run.step({"edge": {(8, 9): 1, (1, 2): -1}})
    expected = {(y, c) for x, y in run.view("path").rows() for z, c in run_rows(run, "colour") if x == z}
    assert set(whole.view().rows()) == expected
    assert total(whole.deltas()) == whole.view().to_dict()
    assert {x for (x,) in red.view().rows()} == {x for x, c in expected if c == "red"}
    assert total(third.deltas()) == third.view().to_dict()


def run_rows(run: Run, name: str) -> list[Any]:
    return list(run.asserted(name).rows())


SPECIAL = {
    "an equivalence of given pairs": ".decl of(x: number, y: number) eqrel .input of",
    "an equivalence": ".decl of(x: number, y: number) eqrel\n of(x, y) :- edge(x, y).",
    "a recursive equivalence": """
        .decl of(x: number, y: number) eqrel
        of(x, y) :- edge(x, y).
        of(x, z) :- of(x, y), of(y, z), x < z.
    """,
    "a choice among given rows": ".decl of(x: number, y: number) choice-domain x .input of",
    "a choice": ".decl of(x: number, y: number) choice-domain x\n of(x, y) :- edge(x, y).",
    "a lattice": ".decl of(x: number, y: number<min>)\n of(x, y) :- edge(x, y).",
    "a subsumption": """
        .decl of(x: number, y: number)
        of(x, y) :- edge(x, y).
        of(x, y) <= of(x, z) :- y < z.
    """,
    "an aggregate": ".decl of(x: number, y: number)\n of(x, y) :- edge(x, _), y = max z : edge(x, z).",
}
"""Relations of groups of rows."""


@pytest.mark.parametrize("rows", [[], [(1, 2), (1, 3), (3, 3), (5, 6)]])
@pytest.mark.parametrize("declared", SPECIAL.values(), ids=SPECIAL)
def test_relations_of_groups_that_the_run_lacks(declared: str, rows: list[tuple[int, int]]) -> None:
    edges = f".decl edge(x: number, y: number) .input edge {declared}\n"
    own, without = dbsp.compile(f"{edges}.output of"), dbsp.compile(f"{edges}.output edge")
    given = "of" if ".input of" in declared else "edge"
    run, twin = without.start({given: rows}), own.start({given: rows})
    seen, few = run.subscribe("of"), run.subscribe("of(x, y), x < y")
    deltas: list[ZSet] = []
    for change in ({(1, 2): 1, (2, 6): 1}, {(1, 3): -1}, {}, {(6, 1): 1, (5, 6): -1, (2, 6): -1}):
        run.step({given: change})
        twin.step({given: change})
        deltas += seen.deltas()
        assert total(deltas) == seen.view().to_dict() == twin.view("of").to_dict()
        assert few.view().rows() == [(x, y) for x, y in twin.view("of").rows() if x < y]
    run.update(
        dbsp.compile(f"{edges}.output edge .decl more(x: number) .output more\n more(x) :- edge(x, _).")
    )
    run.step({given: [(8, 9)]})
    twin.step({given: [(8, 9)]})
    assert total(deltas + seen.deltas()) == seen.view().to_dict() == twin.view("of").to_dict()


def test_a_relation_with_facts_and_rules_has_both() -> None:
    text = """
        .decl a(x: number, y: number) .input a
        .decl same(x: number, y: number) eqrel
        .decl q(x: number) .output q
        same(x, y) :- a(x, y).
        same(0, 2) :- same(0, 5).
        same(1, 0).
        q(x) :- a(x, x), n = count : { same(x, _) }, n > 1.
    """
    run = dbsp.compile(text).start({"a": [(3, 4)]})
    whole, pairs = run.subscribe("same"), run.subscribe("same(x, 0)")
    run.step({"a": [(0, 5), (4, 6)]})
    classes: tuple[set[int], ...] = ({0, 1, 2, 5}, {3, 4, 6})
    assert set(whole.view().rows()) == {(x, y) for each in classes for x in each for y in each}
    assert set(pairs.view().rows()) == {(x,) for x in classes[0]}
    assert total(whole.deltas()) == whole.view().to_dict()


def test_the_circuit_and_the_state_of_the_run_stay_as_they_are() -> None:
    run, other = started(), started()
    graph = run.graph
    subscriptions = [run.subscribe(each) for each in ("path", "hidden", "edge(x, 3)", "path(1, x)")]
    assert run.graph is graph
    for tick in ({"edge": {(4, 5): 1}}, {"edge": {(2, 3): -1}, "colour": [(3, "blue")]}):
        assert run.step(tick)["path"] == other.step(tick)["path"]
    assert run.state_rows == other.state_rows
    assert len(subscriptions) == len(run.subscriptions)


def test_deltas_of_a_large_tick_are_complete() -> None:
    run = started(
        GRAPH
        + """
        .decl pair(y: number, c: symbol)
        pair(y, c) :- edge(x, y), colour(x, c).
        .decl one(y: number) .output one
        .decl two(c: symbol) .output two
        one(y) :- pair(y, _).
        two(c) :- pair(_, c).
    """
    )
    assert "pair" in run.graph.named
    seen = [run.subscribe(each) for each in ("edge(x, y), x < y, colour(x, c)", "edge", "pair", "pair(y, c)")]
    rows = [(2 * n, 2 * n + 1) for n in range(50, 900)]
    run.step({"edge": rows, "colour": [(n, "new") for n in range(500)]})
    for each in seen:
        assert total(each.deltas()) == each.view().to_dict()
    assert len(seen[1].view()) == len({*rows, *ROWS["edge"]})


# --- errors and refusals --------------------------------------------------------------------------

DIVISION = ".decl a(x: number) .input a .decl b(x: number) .output b b(x) :- a(x)."


def test_deltas_of_a_large_tick_after_an_undone_transaction_are_complete() -> None:
    """A large tick releases the deltas that nobody holds."""
    program = dbsp.compile("""
        .decl sale(shop: number, amount: number) .input sale
        .decl open(shop: number) .output open
        open(s) :- sale(s, a), a > 0.
        .decl best(shop: number) .output best
        best(s) :- open(s), sale(s, s).
    """)
    run = program.start({"sale": [(1, 1)]})
    subscription = run.subscribe("open")
    with pytest.raises(KeyError), run.transaction() as tx:
        tx.step({"sale": [(2, 2)]})
        raise KeyError
    run.step({"sale": [(shop, 1) for shop in range(1, 3_000)]})
    assert [len(delta) for delta in subscription.deltas()] == [1, 2_998]


def test_an_error_in_a_query_ends_it_and_leaves_the_tick_and_the_others() -> None:
    run = dbsp.compile(DIVISION).start({"a": [(1,), (2,)]})
    calls: list[ZSet] = []
    failing = [run.subscribe("a(x), y = 6 / x"), run.subscribe("a(x), y = 6 / x", calls.append)]
    other = run.subscribe("a(x), y = 6 / (x + 1)")
    with pytest.warns(
        UserWarning, match=r"the subscription to a\(x\), y = 6 / x has ended at tick 2: .*division"
    ):
        run.step({"a": [(0,)]})
    assert run.tick == 2
    assert run.subscriptions == (other,)
    assert other.view().to_dict() == {(0, 6): 1, (1, 3): 1, (2, 2): 1}
    assert isinstance(failing[0].error, EvaluationError)
    assert [delta.to_dict() for delta in failing[0].deltas()] == [{(1, 6): 1, (2, 3): 1}]
    for read in (failing[0].deltas, failing[0].view, lambda: list(failing[0])):
        with pytest.raises(EvaluationError, match="division by zero"):
            read()
    assert repr(failing[0]) == "<subscription to a(x), y = 6 / x, ended by EvaluationError>"
    assert failing[0].tick == 2
    with pytest.raises(EvaluationError, match="division by zero"):
        run.subscribe("a(x), y = 6 / x")
    run.step({"a": {(0,): -1, (3,): 1}})
    assert run.subscribe("a(x), y = 6 / x").view().to_dict() == {(1, 6): 1, (2, 3): 1, (3, 2): 1}
    assert total(other.deltas()) == other.view().to_dict()


def test_an_error_ends_everything_that_depends_on_it() -> None:
    text = DIVISION + " .decl q(x: number, y: number) q(x, 6 / x) :- a(x)."
    run = dbsp.compile(text).start({"a": [(1,)]})
    ended = [run.subscribe(each) for each in ("q", "q(x, 6)", "q(x, y), b(y)")]
    other = run.subscribe("b")
    with run.transaction() as transaction:
        transaction.step({"a": [(0,)]})
        transaction.step({"a": {(0,): -1, (2,): 1}})  # the whole transaction would be fine
    assert run.subscriptions == (other,)
    assert {type(each.error) for each in ended} == {EvaluationError}
    assert total(other.deltas()) == {(1,): 1, (2,): 1}
    assert run.subscribe("q").view().to_dict() == {(1, 6): 1, (2, 3): 1}


def test_an_error_of_a_tick_that_is_rolled_back_ends_nothing() -> None:
    text = DIVISION + " .decl c(x: number) .output c c(1 / (x - 5)) :- a(x)."
    run = dbsp.compile(text).start({"a": [(1,)]})
    seen = run.subscribe("a(x), y = 6 / x")
    with pytest.raises(EvaluationError):
        run.step({"a": [(0,), (5,)]})
    run.step({"a": [(2,)]})
    assert total(seen.deltas()) == {(1, 6): 1, (2, 3): 1}


def test_constants_of_a_query_that_can_fail_are_not_shared() -> None:
    run = dbsp.compile(DIVISION).start({"a": [(1,)]})
    first, second = run.subscribe("a(x), x != 5, y = 6 / x"), run.subscribe("a(x), x != 0, y = 6 / x")
    run.step({"a": [(0,), (2,)]})
    assert (first.closed, second.closed) == (True, False)
    assert total(second.deltas()) == second.view().to_dict() == {(1, 6): 1, (2, 3): 1}


@pytest.mark.parametrize(
    ("target", "kind", "message"),
    [
        ("paths", InputError, "unknown relation 'paths'; did you mean 'path'"),
        ("path(1, x), bad(x)", CompileError, "unknown relation 'bad'"),
        ("path(1, x) :-", CompileError, "expected|unexpected"),
        ("path(1, x), !edge(x, y)", CompileError, "y"),
        ("colour(x, c), x = autoinc()", DbspError, "autoinc"),
    ],
)
def test_targets_that_are_refused(target: str, kind: type[DbspError], message: str) -> None:
    run = started()
    with pytest.raises(kind, match=message):
        run.subscribe(target)
    assert run.subscriptions == ()
    assert not hub(run).scopes


def test_numbered_rows_that_the_run_does_not_keep_are_refused() -> None:
    text = (
        GRAPH
        + ".decl n(i: number, x: number) n(autoinc(), x) :- edge(x, _). .decl m(x: number) m(x) :- n(x, _)."
    )
    for target in ("n", "m", "m(1)", "n(0, x)"):
        with pytest.raises(InputError, match="the run does not keep the rows of 'n': autoinc"):
            started(text).subscribe(target)
    run = started(text + " .output n")
    assert run.subscribe("n(0, x)").view().rows() == [(1,)]


def test_runs_on_shards_and_of_the_past_are_refused(tmp_path: Path) -> None:
    program = dbsp.compile(GRAPH)
    with program.start(ROWS, shards=2) as shards, pytest.raises(CircuitError, match="subscribe"):
        shards.subscribe("path")
    program.start(ROWS, checkpoint=tmp_path).log.close()  # type: ignore[union-attr]
    with pytest.raises(CircuitError, match="subscribe"):
        program.open(tmp_path).subscribe("path")


# --- circuits by hand -----------------------------------------------------------------------------


def test_streams_of_a_circuit_by_hand() -> None:
    circuit = Circuit("shop")
    sale = circuit.input("sale", item=str, price=int)
    big = sale.filter(col("price") > 5)
    circuit.output("counted", big.select("item"))
    run = circuit.start()
    run.step({"sale": {("tea", 7): 2, ("pen", 1): 1}})
    seen = run.subscribe("counted")
    run.step({"sale": {("tea", 7): -1, ("bag", 9): 1}})
    assert [delta.to_dict() for delta in seen.deltas()] == [{("tea",): 2}, {("tea",): -1, ("bag",): 1}]
    assert seen.view() == run.view("counted")
    with pytest.raises(InputError, match="unknown stream 'count'"):
        run.subscribe("count")
    with pytest.raises(CircuitError, match="integral"):
        run.subscribe("sale")  # nothing keeps the rows of a Z-set
    with pytest.raises(CircuitError, match="a query needs a run of a compiled program in its physical stage"):
        run.subscribe("sale(x, y), y > 5")
    assert run.subscriptions == (seen,)


def test_a_stream_inside_a_fixpoint_is_that_of_the_fixpoint() -> None:
    run = started()
    inside = run.graph.named["path"]
    assert inside.node.graph.parent is not None
    seen = run.subscribe(inside)
    run.step({"edge": [(4, 5)]})
    assert total(seen.deltas()) == run.view("path").to_dict()
    body = next(node for node in run.graph.walk() if node.graph.parent and node.operator.name == "Join")
    with pytest.raises(CircuitError, match="it does not leave its fixpoint"):
        run.subscribe(body)


# --- other circuits of the run --------------------------------------------------------------------


def test_an_update_delivers_the_difference_of_the_programs() -> None:
    run = started()
    path, hidden, near = run.subscribe("path"), run.subscribe("hidden"), run.subscribe("path(1, x)")
    edges = run.subscribe("edge")
    for each in run.subscriptions:
        each.deltas()
    run.update(dbsp.compile(GRAPH.replace("path(x, z) :- path(x, y), edge(y, z).", "") + "edge(30, 31)."))
    assert near.deltas()[0].to_dict() == {(3,): -1, (4,): -1}
    assert path.deltas()[0].to_dict() == {(1, 3): -1, (1, 4): -1, (2, 4): -1, (30, 31): 1}
    assert hidden.deltas()[0].to_dict() == {(4, "blue"): -1, (4, "red"): -1, (3, "red"): -1}
    assert edges.deltas()[0].to_dict() == {(30, 31): 1}
    assert path.tick == 2
    run.step({"edge": [(1, 9)]})
    assert near.deltas()[0].to_dict() == {(9,): 1}


def test_an_update_ends_what_the_new_program_lacks() -> None:
    run = started()
    ended = [run.subscribe(each) for each in ("hidden", "hidden(x, c)", "colour(1, c)")]
    stays = run.subscribe("path(1, x)")
    text = GRAPH.split(".decl hidden")[0].replace(
        "colour(x: number, c: symbol)", "shade(x: number, c: symbol)"
    )
    run.update(dbsp.compile(text.replace(".input colour", ".input shade")))
    assert run.subscriptions == (stays,)
    assert "unknown relation 'hidden'" in str(ended[0].error)
    assert {type(each.error) for each in ended} == {InputError, CompileError}
    run.step({"edge": [(1, 9)]})
    assert total(stays.deltas()) == stays.view().to_dict()


def test_an_update_ends_what_has_other_columns() -> None:
    run = started()
    seen = run.subscribe("hidden")
    text = GRAPH.replace("hidden(x: number, c: symbol)", "hidden(c: symbol, x: number)")
    run.update(dbsp.compile(text.replace("hidden(y, c)", "hidden(c, y)")))
    message = r"an update changed its columns: expected \(x: int, c: str\), got \(c: str, x: int\)"
    seen.deltas()
    with pytest.raises(CircuitError, match=message):
        seen.deltas()
    assert not hub(run).scopes


def test_a_refused_update_changes_nothing() -> None:
    run = started()
    seen = run.subscribe("path(1, x)")
    with pytest.raises(CircuitError):
        run.update(
            dbsp.compile(
                GRAPH.replace("colour(x: number, c: symbol)", "colour(x: symbol, c: symbol)").replace(
                    "hidden(y, c) :- path(x, y), colour(x, c).", ""
                )
            )
        )
    run.step({"edge": [(1, 9)]})
    assert total(seen.deltas()) == seen.view().to_dict() == {(2,): 1, (3,): 1, (4,): 1, (9,): 1}


def test_values_of_subscriptions_are_not_freed() -> None:
    run = started()
    seen = [run.subscribe('colour(x, "violet")'), run.subscribe('hidden(x, c), c != "blue"')]
    run.step({"colour": [(n, f"name {n}") for n in range(100)]})
    run.step({"colour": {(n, f"name {n}"): -1 for n in range(100)}})
    run.step()
    assert run.compact().values >= 90
    run.step({"colour": [(3, "violet"), (1, "black")]})
    assert seen[0].view().rows() == [(3,)]
    for each in seen:
        assert total(each.deltas()) == each.view().to_dict()
    assert ("black" in {c for _, c in seen[1].view().rows()}) and len(seen[1].view()) > 3


def test_a_checkpoint_does_not_know_subscriptions(tmp_path: Path) -> None:
    program = dbsp.compile(GRAPH)
    run = program.start(ROWS, checkpoint=Store(tmp_path, snapshot_every=2))
    seen = [run.subscribe(each) for each in ("path", "hidden", "edge(x, 3)")]
    for n in range(5):
        run.step({"edge": [(n + 30, n + 31)]})
    run.snapshot()
    for each in seen:
        assert total(each.deltas()) == each.view().to_dict()
    assert run.log is not None
    run.log.close()
    again = program.start(checkpoint=tmp_path)
    assert again.view("path") == run.view("path")
    assert again.subscriptions == ()
    for target, before in zip(("path", "hidden", "edge(x, 3)"), seen, strict=True):
        assert again.subscribe(target).view() == before.view()
    assert again.log is not None
    again.log.close()


def test_a_run_that_is_gone_ends_its_subscriptions() -> None:
    run = started()
    seen = run.subscribe("path(1, x)")
    del run
    assert seen.closed
    assert len(list(seen)) == 1
    with pytest.raises(CircuitError, match=r"the subscription to path\(1, x\) has been closed, so"):
        seen.view()
    seen.close()


# --- threads and coroutines -----------------------------------------------------------------------


def test_another_thread_reads_the_deltas_and_closes() -> None:
    run = started()
    seen = run.subscribe("path(1, x)")
    found: list[ZSet] = []

    def read() -> None:
        for delta in seen:
            found.append(delta)
            if (99,) in delta:
                seen.close()

    reader = threading.Thread(target=read)
    reader.start()
    for n in (5, 6, 99):
        run.step({"edge": [(4, n)]})
    reader.join(60)
    assert not reader.is_alive()
    assert total(found) == dict.fromkeys([(2,), (3,), (4,), (5,), (6,), (99,)], 1)
    run.step({"edge": [(4, 100)]})  # frees what the other thread has closed
    assert run.subscriptions == ()
    assert not hub(run).scopes


def test_coroutines_read_the_deltas() -> None:
    run = started()
    seen = [run.subscribe("path(1, x)"), run.subscribe("edge")]

    async def read(subscription: RunSubscription) -> dict[Any, int]:
        return total([delta async for delta in subscription])

    async def write() -> None:
        for n in range(5, 9):
            await asyncio.get_running_loop().run_in_executor(None, run.step, {"edge": [(4, n)]})
        for each in seen:
            each.close()

    async def main() -> list[Any]:
        return list(await asyncio.gather(read(seen[0]), read(seen[1]), write()))

    first, second, _ = asyncio.run(main())
    assert sorted(first) == [(n,) for n in range(2, 9)]
    assert len(second) == 4 + len(ROWS["edge"])


# --- faults ---------------------------------------------------------------------------------------

TARGETS = ("path(1, x)", "hidden", "edge(x, 3)", "path")


class Followed:
    """A run with subscriptions, and what they have delivered."""

    def __init__(self) -> None:
        self.run = started()
        self.rows: dict[str, Counter[Any]] = {}
        self.subscriptions = {each: self.run.subscribe(each) for each in TARGETS}
        self.check()

    def check(self) -> None:
        self.run.step()  # delivers what an interrupt has prevented
        for target, each in self.subscriptions.items():
            kept = self.rows.setdefault(target, Counter())
            for delta in each.deltas():
                kept.update(delta.to_dict())
            view = each.view().to_dict()
            assert {row: weight for row, weight in kept.items() if weight} == view, target
        fresh = dbsp.compile(GRAPH).start({name: self.run.asserted(name) for name in ROWS})
        for target, each in self.subscriptions.items():
            assert each.view() == fresh.subscribe(target).view(), target


def stepping(followed: Followed) -> None:
    followed.run.step({"edge": {(4, 5): 1, (2, 3): -1}, "colour": {(4, "blue"): 1}})


def subscribing(followed: Followed) -> None:
    followed.run.subscribe("edge(x, y), hidden(y, c)").close()


def closing(followed: Followed) -> None:
    followed.subscriptions.pop("edge(x, 3)", followed.subscriptions["path"]).close()


def updating(followed: Followed) -> None:
    followed.run.update(PREPARED)


PREPARED = dbsp.compile(GRAPH + " path(x, x) :- colour(x, _).")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("kind", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("act", [stepping, subscribing, closing])
def test_faults_at_sampled_steps(act: Callable[[Followed], None], kind: type[BaseException]) -> None:
    followed, at, faults = Followed(), 7 if kind is MemoryError else 90, 0
    subscribing(followed)  # loads what the first call loads
    while True:
        if act is closing and "edge(x, 3)" not in followed.subscriptions:
            followed.subscriptions["edge(x, 3)"] = followed.run.subscribe("edge(x, 3)")
            followed.rows.pop("edge(x, 3)", None)
        injector = Injector(kind, at, None, False)
        injector.call(lambda: act(followed))
        if act is closing and followed.subscriptions.get("edge(x, 3)", followed.subscriptions["path"]).closed:
            followed.subscriptions.pop("edge(x, 3)", None)
        for each in set(followed.run.subscriptions) - set(followed.subscriptions.values()):
            each.close()  # the caller did not get it
        followed.check()
        if act is stepping:
            followed.run.step({"edge": {(4, 5): -1, (2, 3): 1}, "colour": {(4, "blue"): -1}})
            followed.check()
        faults += bool(injector.place)
        if not injector.place:
            break
        at += 31 if act is closing else 3301 if act is subscribing else 401
    assert faults > 3
    for each in followed.subscriptions.values():
        each.close()
    assert not hub(followed.run).scopes


def test_an_interrupted_switch_to_another_program_is_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    followed = Followed()
    genuine, interrupts = SubscriptionHub._attach, [KeyboardInterrupt]

    def interrupted(self: SubscriptionHub, new: RunSubscription) -> Any:
        if new.target == "edge(x, 3)" and interrupts:
            raise interrupts.pop()
        return genuine(self, new)

    monkeypatch.setattr(SubscriptionHub, "_attach", interrupted)
    with pytest.raises(KeyboardInterrupt):
        updating(followed)
    assert followed.run.tick == 3
    stepping(followed)
    for target, each in followed.subscriptions.items():
        rows = followed.rows[target]
        for delta in each.deltas():
            rows.update(delta.to_dict())
        assert {row: weight for row, weight in rows.items() if weight} == each.view().to_dict(), target
    assert (7, 7) in followed.subscriptions["path"].view()
