"""Updates of a running program: afterwards the run equals a fresh start of the new program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

import dbsp
from dbsp import ArgumentError, CircuitError, DbspError, InputError, IterationLimitError, Run
from dbsp.compiler.program import Program
from dbsp.runtime.update_report import Updated
from tests.faulted_updates import expect_all_or_nothing
from tests.harness import deltas_of, view, views
from tests.profiles import examples
from tests.random_datalog import CONSTANTS, INPUTS
from tests.random_edits import layered_versions, versions, versions_over_operators

Inputs = dict[str, set[tuple[Any, ...]]]


def compiled(text: str, strategy: str = "auto") -> Program:
    return dbsp.compile(text, strategy=strategy)


def fresh(program: Program, inputs: Mapping[str, set[tuple[Any, ...]]]) -> Run:
    """Return a run of the program that starts with exactly these rows in its inputs."""
    run = program.start()
    facts = {name: set(rows) for name, rows in program.facts.items()}
    changes = {
        name: dict.fromkeys(inputs[name] - facts.get(name, set()), 1)
        | dict.fromkeys(facts.get(name, set()) - inputs[name], -1)
        for name in program.inputs
    }
    run.step(changes)
    return run


def with_facts(program: Program, before: Program | None, inputs: Inputs) -> Inputs:
    """Return the rows of the inputs of a program when it replaces another one."""
    after: Inputs = {}
    for name in program.inputs:
        old = set(before.facts.get(name, ())) if before else set()
        new = set(program.facts.get(name, ()))
        after[name] = (inputs.get(name, set()) - (old - new)) | (new - old)
    return after


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, dict[Any, int]]:
    """Return the differences of the views `after`, by output, without the empty ones."""
    found = {}
    for name, rows in after.items():
        weights = {row: 1 for row in rows if row not in before.get(name, {})}
        weights |= {row: -1 for row in before.get(name, {}) if row not in rows}
        if weights:
            found[name] = weights
    return found


@st.composite
def row_changes(draw: st.DrawFn) -> dict[str, dict[tuple[int, ...], int]]:
    found: dict[str, dict[tuple[int, ...], int]] = {}
    for name, arity in INPUTS.items():
        values = st.tuples(*[st.sampled_from([int(each) for each in CONSTANTS])] * arity)
        found[name] = draw(st.dictionaries(values, st.sampled_from([1, 1, -1]), max_size=4))
    return found


def follow(
    texts: list[str], ticks: list[list[dict[str, dict[tuple[int, ...], int]]]], strategy: str = "auto"
) -> None:
    """Update a run through all versions; compare every delta and view with a fresh start."""
    programs = [compiled(text, strategy) for text in texts]
    inputs = with_facts(programs[0], None, {})
    run = programs[0].start()
    number, before = run.tick, views(run)
    for place, program in enumerate(programs):
        other = run
        if place:
            facts = with_facts(program, programs[place - 1], inputs)
            # The change of a fact may restart a recursion, which gets new traces.
            restarts = any(facts[name] != inputs.get(name, set()) for name in facts)
            inputs = facts
            states = {id(state) for state in (*run.scope.traces, *run.scope.tables)}
            done = run.update(program)
            number += 1
            check_sharing(done, run, states, restarts)
            other = fresh(program, inputs)
            expected = views(other)
            assert views(run) == expected, place
            assert deltas_of(done.deltas) == changed(before, expected), place
            assert done.deltas.number == run.tick == number
            assert list(run.inputs) == list(program.inputs)
            assert dict(run.outputs) == dict(program.outputs)
        for tick in ticks[place]:
            result = deltas_of(run.step(tick))
            number += 1
            for name, weights in tick.items():
                inputs[name] |= {row for row, weight in weights.items() if weight > 0}
                inputs[name] -= {row for row, weight in weights.items() if weight < 0}
            if other is not run:
                assert result == deltas_of(other.step(tick)), place
                assert views(run) == views(other), place
        before = views(run)


def check_sharing(done: Updated, run: Run, before: set[int], restarts: bool) -> None:
    """Check the counts of an update against the objects that hold the state."""
    after = {id(state) for state in (*run.scope.traces, *run.scope.tables)}
    if not restarts:
        shared = len(after & before), len(after - before), len(before - after)
        assert (done.kept + done.changed, done.rebuilt, done.dropped) == shared
    event("kept and rebuilt" if done.kept and done.rebuilt else "not both")
    event("changed" if done.changed else "not changed")
    assert all(state == "kept" for name, state in done.relations.items() if name in INPUTS)


strategies = st.sampled_from(["auto", "wcoj"])
ticks_of = st.lists(st.lists(row_changes(), min_size=1, max_size=2), min_size=3, max_size=3)


@settings(max_examples=examples(60))
@given(
    versions(3) | versions(3, cyclic=True) | versions(3, kinds=True) | layered_versions(3),
    ticks_of,
    strategies,
)
def test_every_version_equals_a_fresh_start(texts: list[str], ticks: Any, strategy: str) -> None:
    follow(texts, ticks, strategy)


@settings(max_examples=examples(60))
@given(versions_over_operators(3), ticks_of, strategies)
def test_an_edited_relation_over_every_operator_equals_a_fresh_start(
    texts: list[str], ticks: Any, strategy: str
) -> None:
    follow(texts, ticks, strategy)


# --- by hand --------------------------------------------------------------------------------------

GRAPH = """
    .decl edge(x: number, y: number) .input edge
    .decl colour(x: number, c: symbol) .input colour
    .decl path(x: number, y: number) .output path
    path(x, y) :- edge(x, y).
    path(x, z) :- path(x, y), edge(y, z).
    .decl red(x: number) .output red
"""
RED = GRAPH + 'red(y) :- path(x, y), colour(x, "red").'
OTHER = GRAPH + 'red(x) :- path(x, y), colour(y, "red").'
ROWS: Any = {"edge": [(n, n + 1) for n in range(9)], "colour": [(2, "red"), (5, "red")]}


def started(text: str = RED) -> Run:
    return compiled(text).start(ROWS)


def states(run: Run) -> set[int]:
    return {id(state) for state in (*run.scope.traces, *run.scope.tables)}


def test_an_update_keeps_what_the_edit_does_not_reach() -> None:
    run = started()
    path = {id(state) for scope in run.scope.children for state in (*scope.traces, *scope.tables)}
    done = run.update(compiled(OTHER))
    assert done.deltas["red"].to_dict() == {
        **{(n,): 1 for n in range(3)},
        **{(n,): -1 for n in range(5, 10)},
    }
    assert not done.deltas["path"]
    assert dict(done.relations) == {"edge": "kept", "colour": "kept", "path": "kept", "red": "changed"}
    assert path <= states(run)
    assert (done.changed, done.rebuilt) == (1, 2)
    # The old rule again for its rows, and the new rule.
    assert done.replayed_rows == len(run.view("path")) + 2 + 7
    assert run.step({"colour": [(9, "red")]})["red"].to_dict() == {(n,): 1 for n in range(5, 9)}


def test_explain_ends_with_the_latest_update() -> None:
    run, program = started(), compiled(OTHER)
    assert "update (tick" not in compiled(RED).explain(run)
    run.preview_update(program)
    with pytest.raises(DbspError, match="division by zero"):
        run.update(compiled(GRAPH + "red(1 / (x - 3)) :- edge(x, _)."))
    assert run.latest_update is None
    run.update(program)
    run.step({"edge": [(20, 21)]})
    assert program.explain(run).splitlines()[-4:] == [
        "",
        "update (tick 2)",
        "  kept: colour, edge, path",
        "  changed: red",
    ]
    run.update(program)
    assert program.explain(run).splitlines()[-2:] == ["update (tick 4)", "  kept: colour, edge, path, red"]


def test_a_program_that_differs_in_its_text_only_changes_nothing() -> None:
    run = started()
    before = states(run)
    lines = RED.strip().splitlines()
    other = "// a comment\n" + "\n".join([*lines[1:3], lines[0], *lines[3:]])
    done = run.update(compiled(other))
    assert states(run) == before
    assert (done.rebuilt, done.dropped, done.replayed_rows) == (0, 0, 0)
    assert done.names("kept") == ("colour", "edge", "path", "red")
    assert not any(done.deltas.values())
    assert (done.deltas.number, run.tick) == (2, 2)
    assert str(done).splitlines()[1:] == ["  kept: colour, edge, path, red"]


def test_a_renamed_relation_keeps_its_state() -> None:
    run = started()
    done = run.update(compiled(RED.replace("red(", "crimson(").replace("output red", "output crimson")))
    assert (done.rebuilt, done.replayed_rows) == (0, 0)
    assert done.relations["crimson"] == "kept"
    assert done.relations["red"] == "dropped"
    assert done.deltas["crimson"].to_dict() == {(n,): 1 for n in range(3, 10)}


def test_the_plan_of_a_kept_rule_stays_although_other_counts_have_chosen_it() -> None:
    """The join order of the first tick suits its counts; the new program has no counts."""
    text = """
        .decl a(x: number, y: number) .input a
        .decl b(y: number, z: number) .input b
        .decl c(z: number, w: number) .input c
        .decl out(x: number, w: number) .output out
        out(x, w) :- a(x, y), b(y, z), c(z, w).
    """
    program = compiled(text)
    rows: Any = {
        "a": [(n, n % 10) for n in range(500)],
        "b": [(n % 10, n) for n in range(50)],
        "c": [(0, 0)],
    }
    run = program.start(rows)
    assert not run.graph.same_as(program.circuit("physical"))
    run.step({"a": dict.fromkeys(rows["a"][1:], -1), "c": [(n % 50, n) for n in range(500)]})
    before = states(run)
    more = compiled("\n" + text + ".decl n(x: number) .output n n(x) :- c(x, x), x > 200.")
    assert run.update(more).relations["out"] == "kept"
    assert before <= states(run)
    assert more.explain(run).count("<program>:7:") == 1  # with its new place
    assert run.replan().changes  # another order suits the counts now


def test_facts_follow_the_text_of_the_program() -> None:
    run = started(RED + " edge(20, 21). edge(30, 31).")
    run.step({"edge": {(30, 31): -1}})
    done = run.update(compiled(RED + " edge(30, 31). edge(40, 41)."))
    assert done.deltas["path"].to_dict() == {(20, 21): -1, (40, 41): 1}
    assert done.deltas.number == 3
    assert done.relations["path"] == "kept"
    assert run.changed_output("path").to_dict() == {(20, 21): -1, (40, 41): 1}


def test_inputs_are_added_and_dropped() -> None:
    run = started()
    handle = run.input("colour")
    handle.insert([(1, "red")])
    without = compiled(GRAPH.replace(".decl colour(x: number, c: symbol) .input colour", ""))
    with pytest.raises(CircuitError, match=r"no input 'colour', and changes of it are staged.*-refused\]$"):
        run.update(without)
    assert run.step()["red"].to_dict() == {(2,): 1}
    run.update(without)
    assert list(run.inputs) == ["edge", "red"]
    with pytest.raises(InputError, match=r"an update of the run has dropped the input 'colour'; run.inputs"):
        handle.insert([(1, "red")])
    assert run.step({"red": [(7,)]})["red"].to_dict() == {(7,): 1}
    done = run.update(compiled(RED))
    assert done.deltas["red"].to_dict() == {(7,): -1}
    run.input("edge").insert([(9, 10)])
    assert run.step({"colour": [(8, "red")]})["red"].to_dict() == {(9,): 1, (10,): 1}


def test_staged_changes_stay_staged() -> None:
    run = started()
    run.input("edge").insert([(9, 10)])
    assert len(run.update(compiled(OTHER)).deltas["path"]) == 0
    assert len(run.step()["path"]) == 10


def test_before_the_first_tick() -> None:
    run = compiled(RED).start()
    assert run.tick == 0
    done = run.update(compiled(OTHER + ' edge(1, 2). colour(2, "red"). red(7) :- true.'))
    assert done.deltas["red"].to_dict() == {(1,): 1, (7,): 1}
    assert run.tick == 1


def test_an_output_with_other_types_emits_its_rows() -> None:
    run = started()
    done = run.update(compiled(GRAPH.replace("red(x: number)", "red(c: symbol)") + "red(c) :- colour(_, c)."))
    assert done.deltas["red"].to_dict() == {("red",): 1}


def test_another_order_of_columns_is_another_output() -> None:
    text = ".decl a(x: number, y: number) .input a .decl b(x: number, y: number) .output b "
    run = compiled(text + "b(x, y) :- a(x, y).").start({"a": [(1, 2), (3, 3)]})
    assert run.update(compiled(text + "b(y, x) :- a(x, y).")).deltas["b"].to_dict() == {(1, 2): -1, (2, 1): 1}


def test_statistics_continue() -> None:
    run = started()
    run.observe()
    run.step({"edge": [(20, 21)]})
    run.update(compiled(OTHER))
    assert {stats.steps for stats in run.stats() if stats.node.label == "Input edge"} == {1}


def test_replan_after_an_update_uses_the_new_program() -> None:
    run = started()
    program = compiled(OTHER)
    run.update(program)
    assert all("red(x) :- path" in change for change in run.replan().changes)
    assert "red(x) :- path(x, y)" in program.explain(run)
    assert view(run, "red") == {(n,): 1 for n in range(5)}


def test_questions_about_the_tick_of_an_update() -> None:
    run, program = started(), compiled(OTHER)
    run.update(program)
    message = (
        r"tick 2 was an update to another program, so.*ask again after the next tick.*changes-not-kept\]$"
    )
    with pytest.raises(CircuitError, match=message):
        run.changed("edge")
    with pytest.raises(CircuitError, match=message):
        program.why_changed(run, "red", (0,))
    run.step({"edge": {(3, 4): -1}})
    assert "edge(3, 4)" in str(program.why_changed(run, "red", (3,)))
    run.kept_changes = 2
    run.update(compiled(RED))
    with pytest.raises(CircuitError, match="because the tick changed more than 2 rows"):
        run.changed_output("red")


def test_a_recursion_limit_stays() -> None:
    run = compiled(RED).start(ROWS, max_iterations=15)
    run.update(compiled(OTHER))
    with pytest.raises(IterationLimitError):
        run.step({"edge": [(n, n + 1) for n in range(9, 30)]})


# --- all or nothing -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "clause",
    [
        'red(10 / (x - 3)) :- path(x, y), colour(y, "red").',  # raises while the relation is rebuilt
        'red(10 / (x - 50)) :- path(x, y), colour(y, "red"). edge(50, 5).',  # raises for the fact
    ],
)
def test_an_error_leaves_the_run_as_it_was(clause: str) -> None:
    run, other = started(), started()
    before, graph = states(run), run.graph
    with pytest.raises(DbspError, match="division by zero"):
        run.update(compiled(GRAPH + clause))
    assert states(run) == before
    assert run.graph is graph
    assert run.tick == 1
    assert list(run.inputs) == list(other.inputs)
    assert views(run) == views(other)
    ticks: list[Any] = [{"edge": [(50, 5)]}, {"edge": {(3, 4): -1}, "colour": [(3, "red")]}]
    for tick in ticks:
        assert deltas_of(run.step(tick)) == deltas_of(other.step(tick))
        assert views(run) == views(other)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("kind", [KeyboardInterrupt, MemoryError])
def test_faults_at_sampled_steps_of_an_update(kind: type[BaseException]) -> None:
    program = compiled(OTHER + " edge(20, 21). .decl n(x: number) .output n n(x) :- edge(x, 21).")
    expect_all_or_nothing(started, program, {"edge": {(3, 4): -1, (21, 5): 1}}, kind, 1301)


@pytest.mark.parametrize("method", ["drop_handles", "commit_update", "record_sizes"])
def test_an_interrupted_commit_is_completed(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run, program = started(), compiled(OTHER + " edge(20, 21).")
    genuine, interrupts = getattr(Run, method), [KeyboardInterrupt]

    def interrupted(*arguments: Any) -> Any:
        if interrupts:
            raise interrupts.pop()
        return genuine(*arguments)

    monkeypatch.setattr(Run, method, interrupted)
    with pytest.raises(KeyboardInterrupt):
        run.update(program)
    assert run.tick == 2
    right = fresh(program, {"edge": {*ROWS["edge"], (20, 21)}, "colour": set(ROWS["colour"])})
    assert views(run) == views(right)
    tick: Any = {"edge": {(3, 4): -1, (21, 5): 1}}
    assert deltas_of(run.step(tick)) == deltas_of(right.step(tick))
    assert run.update(compiled(RED)).names("changed") == ("red",)


# --- refused --------------------------------------------------------------------------------------


def test_an_input_with_other_columns_is_refused() -> None:
    run = started()
    with pytest.raises(
        CircuitError,
        match=r"input 'colour' with its columns \(x: int, c: str\), got \(x: int, "
        r"c: int\).*changed-input\]$",
    ):
        run.update(compiled(GRAPH.replace("c: symbol", "c: number") + "red(x) :- colour(x, 1)."))
    other = dbsp.compile(GRAPH, word_size=32)
    with pytest.raises(
        CircuitError, match=r"input 'edge' with its ranges of ints, got other.*changed-input\]$"
    ):
        run.update(other)
    assert run.step({"colour": [(1, "red")]})["red"].to_dict() == {(2,): 1}


def test_new_numbers_of_rows_are_refused() -> None:
    text = ".decl a(x: number) .input a .decl b(n: number, x: number) .output b "
    numbered = text + "b(autoinc(), x) :- a(x)."
    run = compiled(text + "b(x, x) :- a(x).").start({"a": [(7,)]})
    with pytest.raises(CircuitError, match=r"depends on the past ticks.*\[different-circuits\]$"):
        run.update(compiled(numbered))
    assert view(run, "b") == {(7, 7): 1}
    run = compiled(numbered).start({"a": [(7,)]})
    more = numbered + ".decl c(x: number) .output c c(x) :- b(_, x), x > 7."
    assert run.update(compiled(more)).relations["b"] == "kept"
    assert deltas_of(run.step({"a": [(8,)]})) == {"b": {(1, 8): 1}, "c": {(8,): 1}}


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda: compiled(RED).start(stage="query"), "update needs a run of a compiled program"),
        (lambda: compiled(RED).circuit_for(compiled(RED).plans).start(), "update needs a run of a compiled"),
    ],
)
def test_runs_that_cannot_be_updated(run: Callable[[], Run], message: str) -> None:
    with pytest.raises(CircuitError, match=rf"{message}.*\[update-refused\]$"):
        run().update(compiled(OTHER))


def test_a_text_is_not_a_program() -> None:
    run = started()
    with pytest.raises(ArgumentError, match=r"program: expected a compiled program, as dbsp.compile\(text\)"):
        run.update(OTHER)
    with run.transaction() as transaction:
        with pytest.raises(CircuitError, match="update was called inside a transaction"):
            run.update(compiled(OTHER))
        transaction.step({"edge": [(9, 10)]})


@pytest.mark.parametrize("text", [OTHER + " edge(20, 21).", RED, RED + "red(x + 100) :- red(x), x < 100."])
def test_a_preview_says_what_an_update_does_and_changes_nothing(text: str) -> None:
    run, program = started(), compiled(text)
    held, before, state = views(run), run.tick, states(run)
    would = run.preview_update(program)
    assert (views(run), run.tick, states(run)) == (held, before, state)
    tick: Any = {"edge": {(3, 4): -1, (21, 5): 1}}
    other = started()
    assert deltas_of(run.step(tick)) == deltas_of(other.step(tick))
    run = started()
    assert deltas_of(run.preview_update(program).deltas) == deltas_of(would.deltas)
    done = run.update(program)
    assert deltas_of(would.deltas) == deltas_of(done.deltas)
    assert replace(would, deltas=done.deltas) == done


def test_a_relation_that_becomes_equal_to_another_is_not_kept() -> None:
    longer = "path(x, z) :- path(x, y), edge(y, z).\n"
    text = (
        ".decl edge(x: number, y: number)\n.input edge\n"
        ".decl path(x: number, y: number)\n.output path\n"
        "path(x, y) :- edge(x, y).\n"
    )
    run = dbsp.compile(text + longer).start({"edge": [(1, 2), (2, 3)]})
    done = run.update(dbsp.compile(text))
    assert done.deltas["path"].to_dict() == {(1, 3): -1}
    assert dict(done.relations) == {"edge": "kept", "path": "rebuilt"}
