"""Deletions in scopes that keep no iterations: exact, without a restart, within a budget."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from hypothesis import given, settings

from dbsp import Circuit, IterationLimitError, Run, Stream
from dbsp.operators.recursion import modes
from dbsp.operators.recursion.evaluation_options import describe_evaluation, evaluation_options
from dbsp.operators.recursion.fixpoint import Fixpoint
from dbsp.operators.recursion.iterated_scope import IteratedScope, IterationResult
from dbsp.operators.recursion.restart_budget import RestartBudget
from dbsp.operators.streams.join_methods import How
from tests.harness import apply_set, view
from tests.operators.recursion.closures import EDGE, then
from tests.operators.recursion.reachability import reach, then_from, ways
from tests.operators.recursion.test_recursion_modes import CIRCUITS, TICKS
from tests.profiles import examples
from tests.reference import Z, minus
from tests.strategies import Tick

pytestmark = pytest.mark.usefixtures("eager")


def closure(circuit: Circuit, mode: str = "auto", kind: str = "set", max_iterations: int = 100_000) -> Stream:
    edge = circuit.input("edge", schema=EDGE, kind=kind)
    with circuit.fixpoint("path", recursion=mode, max_iterations=max_iterations) as scope:
        path = scope.variable("path", EDGE)
        scope.define(path, (edge + then(path, edge)).distinct())
    return scope.leave(path)


def started(mode: str = "auto") -> Run:
    circuit = Circuit("test")
    circuit.output("out", closure(circuit, mode))
    return circuit.start()


@pytest.mark.parametrize("name", CIRCUITS)
@pytest.mark.usefixtures("unlimited")
def test_deletions_give_the_least_fixpoint_without_a_restart(name: str) -> None:
    build, model = CIRCUITS[name]

    @settings(max_examples=examples(200))
    @given(TICKS)
    def check(sequence: list[Tick]) -> None:
        circuit = Circuit("test")
        circuit.output("out", build(circuit, "insert-only"))
        run = circuit.start()
        inputs: dict[str, Z] = {"edge": {}, "shut": {}, "start": {}}
        before: Z = {}
        for tick in sequence:
            for relation, delta in tick.items():
                inputs[relation] = apply_set(inputs[relation], delta)
            after = model(*inputs.values())
            assert run.step(tick)["out"].to_dict() == minus(after, before)
            assert view(run) == after
            assert ways(run) == {"insert-only"}
            before = after

    check()


@pytest.mark.usefixtures("unlimited")
def test_rows_do_not_support_each_other() -> None:
    run = started()
    run.step({"edge": [(0, 1), (1, 2), (2, 1), (2, 3)]})
    assert run.step({"edge": {(0, 1): -1}})["out"].to_dict() == {(0, i): -1 for i in (1, 2, 3)}
    lost = run.step({"edge": {(1, 2): -1, (2, 1): -1}})["out"].to_dict()
    assert lost == dict.fromkeys(((1, 1), (1, 2), (1, 3), (2, 1), (2, 2)), -1)
    assert view(run) == {(2, 3): 1} and ways(run) == {"insert-only"}


@pytest.mark.usefixtures("unlimited")
def test_insertions_and_deletions_of_one_tick_do_not_meet() -> None:
    """An edge that is new in the tick meets neither rows nor edges that the tick removes."""
    run = started()
    run.step({"edge": [(0, 1), (1, 2), (5, 6)]})
    delta = run.step({"edge": {(1, 2): -1, (2, 3): 1, (6, 7): 1}})["out"].to_dict()
    assert delta == {(1, 2): -1, (0, 2): -1, (2, 3): 1, (6, 7): 1, (5, 7): 1}
    # The weights are the numbers of derivations still: each row leaves with its last derivation.
    assert run.step({"edge": {(5, 6): -1, (0, 1): -1}})["out"].to_dict() == {
        (5, 6): -1,
        (5, 7): -1,
        (0, 1): -1,
    }


@pytest.mark.usefixtures("unlimited")
def test_removing_and_inserting_a_negated_row() -> None:
    circuit = Circuit("test")
    circuit.output("out", reach(circuit, "auto"))
    run = circuit.start()
    run.step({"edge": [(i, i + 1) for i in range(9)], "start": [(0,)], "shut": [(7,)]})
    assert len(run.view("out")) == 8
    assert len(run.step({"shut": {(5,): 1, (7,): -1}})["out"]) == 2
    assert run.step({"shut": {(5,): -1}})["out"].to_dict() == {(i,): 1 for i in range(6, 10)}
    assert ways(run) == {"insert-only"}


def test_a_failed_deletion_leaves_the_state_as_it_was() -> None:
    circuit = Circuit("test")
    circuit.output("out", closure(circuit, max_iterations=30))
    run = circuit.start()
    run.step({"edge": [(i, i + 1) for i in range(20)] + [(100 + i, 101 + i) for i in range(12)]})
    before, kept = view(run), run.state_rows
    with pytest.raises(IterationLimitError, match="has not converged after 30 iterations"):
        # The deletion takes 2 iterations; the insertions more than are left.
        run.step({"edge": {(19, 20): -1} | {(200 + i, 201 + i): 1 for i in range(29)}})
    assert (view(run), run.state_rows, ways(run)) == (before, kept, {"insert-only"})
    assert run.step({"edge": {(19, 20): -1}})["out"].to_dict() == {(i, 20): -1 for i in range(20)}
    assert ways(run) == {"insert-only"}


def test_a_deletion_over_its_budget_restarts() -> None:
    """In a chain all removed rows stay away, in a dense graph most of them return."""
    run = started()
    run.step({"edge": [(i, i + 1) for i in range(60)]})
    assert len(run.step({"edge": {(59, 60): -1}})["out"]) == 60
    assert ways(run) == {"insert-only"}
    assert len(run.step({"edge": {(30, 31): -1}})["out"]) == 31 * 29
    assert ways(run) == {"insert-only, restarted once"}
    run = started()
    run.step({"edge": [(i, j) for i in range(12) for j in range(12)]})
    assert not run.step({"edge": {(3, 4): -1}})["out"]
    assert ways(run) == {"incremental, restarted once"}


def test_insert_only_never_keeps_iterations() -> None:
    run = started("insert-only")
    run.step({"edge": [(i, j) for i in range(12) for j in range(12)]})
    for times in ("once", "2 times"):
        assert not run.step({"edge": {(3, 4): -1}})["out"]
        assert not run.step({"edge": {(3, 4): 1}})["out"]
        assert ways(run) == {f"insert-only, restarted {times}"}


@pytest.fixture
def removals(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The scopes of the first phases so far."""
    calls: list[str] = []
    genuine = IteratedScope.run_deletion

    def noted(
        self: IteratedScope, where: str, negated: Collection[int], budget: RestartBudget
    ) -> tuple[IterationResult, modes.Removal] | modes.Removal:
        calls.append(where)
        return genuine(self, where, negated, budget)

    monkeypatch.setattr(IteratedScope, "run_deletion", noted)
    return calls


def tries_removal(run: Run, removals: list[str], edge: tuple[int, int]) -> bool:
    """Delete an edge of a chain of 60 and insert it again; return whether rows were removed."""
    removals.clear()
    change = run.step({"edge": {edge: -1}})["out"]
    assert len(change) == edge[1] * (61 - edge[1])
    tried = bool(removals)
    run.step({"edge": {edge: 1}})
    return tried


@pytest.mark.parametrize(("many", "tries"), [(2, [True, *[False] * 4, True]), (3, [True] * 6)])
def test_a_deletion_like_earlier_long_ones_restarts_at_once(
    many: int, tries: list[bool], removals: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the expectation has faded. Deletions of few rows may have any cost: they are tried.

    An edge enters as it is and sorted, which counts as two rows.
    """
    monkeypatch.setattr(modes, "MANY", many)
    run = started()
    run.step({"edge": [(i, i + 1) for i in range(60)]})
    assert [tries_removal(run, removals, (30, 31)) for _ in tries] == tries
    assert ways(run) == {"insert-only, restarted 6 times"}


def test_short_deletions_lower_the_expectation(removals: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    run = started()
    run.step({"edge": [(i, i + 1) for i in range(60)]})

    def tries(edge: tuple[int, int], many: int) -> bool:
        monkeypatch.setattr(modes, "MANY", many)
        return tries_removal(run, removals, edge)

    assert all(tries((59, 60), 2) for _ in range(5)) and ways(run) == {"insert-only"}
    assert [tries((30, 31), 2) for _ in range(4)] == [True, True, True, False]
    run = started()
    run.step({"edge": [(i, i + 1) for i in range(60)]})
    assert tries((30, 31), 2) and tries((59, 60), 3)
    assert not tries((30, 31), 2)
    assert all(tries((59, 60), 3) for _ in range(5))
    assert tries((30, 31), 2)


def test_the_mean_cost_of_a_retracted_row() -> None:
    history = modes.EvaluationHistory(timed=False)
    assert history.removed(50, 0, complete=True) == history
    assert history.removed(50, 10, complete=True).per_removal == 5
    assert history.removed(50, 10, complete=False).per_removal == 10
    assert history.removed(50, 10, complete=True).removed(100, 10, complete=True).per_removal == 6


def test_a_scope_keeps_iterations_when_rows_return_too_often() -> None:
    run = started()
    # Diamonds: each row over the removed edge has another derivation.
    run.step({"edge": [(i, i + d) for i in range(60) for d in (1, 2)]})
    modes_seen = []
    for _ in range(50):
        run.step({"edge": {(56, 57): -1}})
        run.step({"edge": {(56, 57): 1}})
        modes_seen += ways(run)
    assert modes_seen[:2] == ["insert-only", "insert-only"]
    assert modes_seen[-1] == "incremental, restarted once"
    run = started()
    run.step({"edge": [(i, i + 1) for i in range(60)]})
    for _ in range(100):  # no removed row returns
        run.step({"edge": {(57, 58): -1}})
        run.step({"edge": {(57, 58): 1}})
    assert ways(run) == {"insert-only"}


def options_of(circuit: Circuit) -> list[tuple[bool, str]]:
    bodies = [n.operator.body for n in circuit.circuit("physical").nodes if isinstance(n.operator, Fixpoint)]
    return [(evaluation_options(body).deletes, describe_evaluation(body)) for body in bodies]


@pytest.mark.parametrize("mode", ["auto", "insert-only"])
def test_a_relation_used_plainly_and_negated_is_deleted_by_a_restart(mode: str) -> None:
    circuit = Circuit("test")
    edge = circuit.input("edge", schema=EDGE, kind="set")
    shut = circuit.input("shut", x=int, kind="set")
    start = circuit.input("start", x=int, kind="set")
    with circuit.fixpoint("reach", recursion=mode) as scope:
        found = scope.variable("found", start.schema)
        held = scope.variable("held", start.schema)
        scope.define(held, found.join(shut, on=["x"], how="semi").distinct())
        scope.define(found, (start + then_from(found.join(shut, on=["x"], how="anti"), edge)).distinct())
    circuit.output("out", scope.leave(found))
    circuit.output("held", scope.leave(held))
    ((deletes, described),) = options_of(circuit)
    assert not deletes
    assert described == {
        "auto": "insert-only until a row is removed, then incremental by tick and iteration; restarts "
        "where that costs less",
        "insert-only": "insert-only; restarts when a row is removed",
    }.get(mode)
    run = circuit.start()
    run.step({"edge": [(i, i + 1) for i in range(100)], "start": [(0,)]})
    delta = run.step({"shut": [(90,)]})
    assert delta["out"].to_dict() == {(i,): -1 for i in range(91, 101)}
    assert delta["held"].to_dict() == {(90,): 1}
    mode = "incremental" if mode == "auto" else mode
    assert ways(run) == {f"{mode}, restarted once"}


@pytest.mark.parametrize("how", ["semi", "anti"])
def test_rows_of_no_negative_weight_with_partners_of_any_weight(how: How) -> None:
    """A semijoin or antijoin emits rows of its left side, whatever the weights of the other are."""
    circuit = Circuit("test")
    edge = circuit.input("edge", schema=EDGE, kind="set")
    other = circuit.input("other", schema=EDGE)
    kept = (edge + edge).join(other, on=["x"], how=how)
    with circuit.fixpoint("path") as scope:
        path = scope.variable("path", EDGE)
        scope.define(path, (kept + then(path, kept)).distinct())
    circuit.output("out", scope.leave(path))
    assert [deletes for deletes, _ in options_of(circuit)] == [True]
    run = circuit.start()
    run.step({"edge": [(1, 2), (2, 3), (3, 4)], "other": {(1, 0): -1, (2, 0): -2, (3, 0): 1}})
    run.step({"other": {(1, 0): 3, (2, 0): 3, (3, 0): 1}})
    run.step({"other": {(2, 0): -1, (3, 0): -1}, "edge": {(5, 1): 1}})
    rows = {(1, 2), (3, 4)} if how == "semi" else {(2, 3), (5, 1)}
    assert set(view(run)) == rows


def test_the_descriptions_of_scopes_that_delete_in_two_phases() -> None:
    found = []
    for mode in ("auto", "insert-only", "incremental"):
        circuit = Circuit("test")
        circuit.output("out", closure(circuit, mode))
        found += options_of(circuit)
    assert found == [
        (
            True,
            "insert-only while deletions are cheap, then incremental by tick and iteration; restarts where "
            "that costs less",
        ),
        (True, "insert-only; removes rows in two phases, or restarts where that costs less"),
        (False, "incremental by tick and iteration"),
    ]
