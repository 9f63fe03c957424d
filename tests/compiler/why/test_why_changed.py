"""Reasons of changes: the input changes that inserted or retracted a row in a tick."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dbsp
from dbsp.compiler.why.change_reason import ChangeReason
from tests.change_checker import ChangeChecker, State
from tests.live_program import LiveProgram, Subject
from tests.profiles import examples
from tests.random_datalog import programs
from tests.test_programs import VALUES, program_changes

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
Rows = dict[str, dict[tuple[Any, ...], int]]


def state_of(live: LiveProgram) -> State:
    inputs = {name: frozenset(rows) for name, rows in live.inputs.items()}
    return State(live.subject.program.checked, inputs)


def check_tick(live: LiveProgram, before: State) -> None:
    """Every row that the tick changed has a reason that holds; rows that it did not change, too."""
    program, after = live.subject.program, state_of(live)
    program.state(live.run).tables(program.relations)  # all at once
    checker = ChangeChecker(before, after, live.run.tick == 1)
    for name in program.relations:
        old, new = checker.before[name], after.complete[name]
        absent = {tuple([9] * program.relations[name].arity)} - old - new
        for row in (*(old ^ new), *list(old & new)[:1], *absent):
            checker.check(name, row, program.why_changed(live.run, name, row))


def check_ticks(subject: Subject, data: st.DataObject, ticks: int = 4) -> None:
    initial, *changes = data.draw(program_changes(subject, VALUES))
    live = subject.start(initial)
    before = state_of(live)
    if live.run.tick:
        check_tick(live, State(before.program, {name: frozenset() for name in before.inputs}))
    for tick in changes[:ticks]:
        live.tick(tick)
        check_tick(live, before)
        before = state_of(live)


@pytest.mark.slow
@settings(max_examples=examples(2), deadline=None, suppress_health_check=SLOW)
@given(st.booleans().flatmap(lambda kinds: programs(kinds=kinds)), st.data())
def test_every_change_of_random_programs_has_a_reason(text: str, data: st.DataObject) -> None:
    check_ticks(Subject(text), data, 2)


MIXED = """
.decl a(x: number, y: number)
.decl c(x: number)
.input a, c
.decl p(x: number, y: number)
.decl lone(x: number)
.decl size(x: number, n: number, m: number)
.decl odd(x: number)
.output p, lone, size, odd
p(x, y) :- a(x, y).
p(x, z) :- p(x, y), p(y, z), !c(y).
lone(x) :- c(x), !p(x, _).
size(x, n, m) :- c(x), n = count : { p(x, _) }, m = max y : { p(x, y) }.
odd(x) :- a(x, _), n = sum y : { lone(y) }, n % 2 = 1.
"""
MIXED_SUBJECT = Subject(MIXED)


@st.composite
def mixed_ticks(draw: st.DrawFn) -> list[list[tuple[str, tuple[int, ...], int]]]:
    """Few rows that come and go, so that most ticks change derived rows of every relation."""
    value = st.integers(0, 2)
    rows = st.one_of(
        st.tuples(st.just("a"), st.tuples(value, value)), st.tuples(st.just("c"), st.tuples(value))
    )
    tick = st.dictionaries(rows, st.sampled_from([1, -1]), min_size=1, max_size=4)
    drawn = draw(st.lists(tick, min_size=2, max_size=4))
    return [[(name, row, weight) for (name, row), weight in each.items()] for each in drawn]


@pytest.mark.slow
@settings(max_examples=examples(4), deadline=None, suppress_health_check=SLOW)
@given(mixed_ticks())
def test_every_change_has_a_reason(ticks: list[list[tuple[str, tuple[int, ...], int]]]) -> None:
    live = MIXED_SUBJECT.start([("a", (0, 1), 1), ("a", (1, 2), 1), ("a", (2, 0), 1), ("c", (2,), 1)])
    before = state_of(live)
    for tick in ticks:
        live.tick(tick)
        check_tick(live, before)
        before = state_of(live)


# --- what a reason shows ------------------------------------------------------------------------

REACH = """
.decl edge(x: number, y: number)
.decl closed(x: number)
.input edge, closed
.decl path(x: number, y: number)
.decl alone(x: number)
.decl degree(x: number, n: number, m: number)
.output path, alone, degree
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z), !closed(y).
alone(x) :- closed(x), !path(x, _).
degree(x, n, m) :- edge(x, _), n = count : { edge(x, _) }, m = max y : { edge(x, y) }.
"""
PROGRAM = dbsp.compile(REACH)


def after(*ticks: Rows) -> dbsp.Run:
    """Return a run of the program after these ticks."""
    run = PROGRAM.start()
    for tick in ticks:
        run.step(tick)
    return run


def reason(run: dbsp.Run, relation: str, *row: Any) -> ChangeReason:
    return PROGRAM.why_changed(run, relation, row)


def test_an_inserted_row_shows_a_negation_that_became_true() -> None:
    run = after(
        {"edge": {(1, 2): 1, (2, 3): 1}, "closed": {(2,): 1}},
        {"closed": {(2,): -1}, "edge": {(3, 4): 1, (7, 8): 1}},
    )
    found = reason(run, "path", 1, 4)
    assert (
        str(found)
        == """\
path(1, 4)   inserted in tick 2
│  <program>:10: path(x, z) :- path(x, y), edge(y, z), !closed(y).
├─ path(1, 3)   inserted
│  │  <program>:10: path(x, z) :- path(x, y), edge(y, z), !closed(y).
│  ├─ path(1, 2)   unchanged
│  ├─ edge(2, 3)   unchanged
│  └─ !closed(2)   became true
│     └─ closed(2)   input fact, retracted
├─ edge(3, 4)   input fact, inserted
└─ !closed(3)   unchanged"""
    )
    assert found.changes == {"edge": {(3, 4): 1}, "closed": {(2,): -1}}
    assert repr(found) == "<path(1, 4): inserted in tick 2, by 2 input changes>"
    assert found.complete


def test_a_retracted_row_shows_what_each_derivation_lost() -> None:
    run = after(
        {"edge": {(1, 2): 1, (2, 3): 1, (1, 3): 1, (3, 2): 1}},
        {"edge": {(1, 3): -1, (5, 5): 1}, "closed": {(2,): 1}},
    )
    found = reason(run, "path", 1, 3)
    assert (
        str(found)
        == """\
path(1, 3)   retracted in tick 2
├─ <program>:9: path(x, y) :- edge(x, y).
│  └─ edge(1, 3)   input fact, retracted
└─ <program>:10: path(x, z) :- path(x, y), edge(y, z), !closed(y).
   ├─ path(1, 2)   unchanged
   ├─ edge(2, 3)   unchanged
   └─ !closed(2)   became false
      └─ closed(2)   input fact, inserted"""
    )
    assert found.refusal is not None and "edge(1, 3)   is missing" in str(found.refusal)


def test_a_derivation_that_used_the_row_itself_is_counted() -> None:
    run = after({"edge": {(1, 2): 1, (2, 3): 1, (3, 2): 1}}, {"edge": {(1, 2): -1}})
    found = reason(run, "path", 1, 2)
    assert (
        str(found)
        == """\
path(1, 2)   retracted in tick 2
├─ <program>:9: path(x, y) :- edge(x, y).
│  └─ edge(1, 2)   input fact, retracted
└─ 1 more derivation used the row itself"""
    )
    assert set(found.steps) == {("path", (1, 2)), ("edge", (1, 2))}


def test_an_aggregate_shows_its_values_and_the_changed_rows() -> None:
    run = after({"edge": {(1, 2): 1, (1, 5): 1}}, {"edge": {(1, 5): -1, (1, 3): 1, (1, 4): 1}})
    assert str(reason(run, "degree", 1, 3, 4)).splitlines()[2:] == [
        "├─ edge(1, 2)   unchanged",
        "├─ 3 = count : { edge(1, _) }   was 2",
        "│  ├─ edge(1, 5)   input fact, retracted",
        "│  ├─ edge(1, 3)   input fact, inserted",
        "│  └─ edge(1, 4)   input fact, inserted",
        "└─ 4 = max y : { edge(1, y) }   was 5",
        "   └─ edge(1, 5)   input fact, retracted",
    ]
    lost = reason(run, "degree", 1, 2, 5)
    assert lost.changes == {"edge": {(1, 5): -1}}
    assert "└─ edge(1, 5)   input fact, retracted" in str(lost)


def test_a_negation_counts_all_rows_that_ended() -> None:
    run = after({"edge": {(1, 2): 1, (1, 3): 1}, "closed": {(1,): 1}}, {"edge": {(1, 2): -1, (1, 3): -1}})
    found = reason(run, "alone", 1)
    assert found.changes == {"edge": {(1, 2): -1, (1, 3): -1}}
    assert "└─ !path(1, _)   became true" in str(found)


def test_the_smallest_explanation_is_chosen() -> None:
    program = dbsp.compile("""
        .decl a, b, c(x: number)
        .input a, b, c
        .decl p(x: number)
        .output p
        p(x) :- a(x), b(x).
        p(x) :- c(x).
    """)
    run = program.start()
    rows = [(1,)]
    run.step({"a": rows, "b": rows, "c": rows})
    assert program.why_changed(run, "p", (1,)).changes == {"c": {(1,): 1}}
    run.step({name: {(1,): -1} for name in "abc"})
    assert program.why_changed(run, "p", (1,)).changes == {"a": {(1,): -1}, "c": {(1,): -1}}


def test_one_premise_that_ended_many_derivations_is_shown_once() -> None:
    program = dbsp.compile("""
        .decl a(x: number)
        .decl b(x: number, y: number)
        .input a, b
        .decl p(x: number)
        .output p
        p(x) :- a(x), b(x, _).
    """)
    run = program.start({"a": [(1,)], "b": [(1, y) for y in range(50)]})
    run.step({"a": {(1,): -1}, "b": {(1, y): -1 for y in range(50)}})
    found = program.why_changed(run, "p", (1,))
    assert found.changes == {"a": {(1,): -1}}
    assert "a(x), b(x, _).   and 49 similar derivations" in str(found)
    assert "b(1, 0)   retracted" in str(found)


def test_rows_that_did_not_change_say_so() -> None:
    run = after({"edge": {(1, 2): 1}}, {"edge": {(5, 6): 1}})
    there, missing = reason(run, "path", 1, 2), reason(run, "path", 2, 1)
    assert (there.change, missing.change) == ("unchanged", "missing")
    assert str(there).startswith(
        "path(1, 2)   not changed in tick 2: present before and after\n\npath(1, 2)\n│  <program>:9"
    )
    assert str(missing).startswith(
        "path(2, 1)   not changed in tick 2: missing before and after\n\npath(2, 1)   is missing\n"
    )
    assert not there.steps and not there.changes and there.proof is not None


def test_a_first_tick_explains_rules_without_changes() -> None:
    program = dbsp.compile("""
        .decl none(x: number) .input none
        .decl zero(n: number) .output zero
        zero(n) :- n = count : { none(_) }.
    """)
    run = program.start()
    assert run.tick == 1
    assert str(program.why_changed(run, "zero", (0,))) == (
        "zero(0)   inserted in tick 1\n"
        "│  <program>:4: zero(n) :- n = count : { none(_) }.\n"
        "└─ 0 = count : { none(_) }   unchanged"
    )


def test_reasons_go_through_equivalences() -> None:
    program = dbsp.compile("""
        .decl link(x: number, y: number) .input link
        .decl same(x: number, y: number) eqrel
        .output same
        same(x, y) :- link(x, y).
    """)
    run = program.start({"link": [(1, 2), (3, 4)]})
    run.step({"link": [(2, 3)]})
    assert program.why_changed(run, "same", (1, 4)).changes == {"link": {(2, 3): 1}}
    run.step({"link": {(2, 3): -1}})
    assert program.why_changed(run, "same", (4, 1)).changes == {"link": {(2, 3): -1}}


def test_reasons_name_the_row_that_a_subsumption_keeps() -> None:
    program = dbsp.compile("""
        .decl road(x: number, y: number, km: number) .input road
        .decl best(x: number, y: number, km: number) .output best
        best(x, y, d) :- road(x, y, d).
        best(x, y, d) <= best(x, y, e) :- e <= d.
    """)
    run = program.start({"road": [(1, 2, 9)]})
    run.step({"road": [(1, 2, 5)]})
    lost = program.why_changed(run, "best", (1, 2, 9))
    assert lost.changes == {"road": {(1, 2, 5): 1}}
    assert "best(1, 2, 9) is derived, but subsumed by best(1, 2, 5)" in str(lost)
    run.step({"road": {(1, 2, 5): -1}})
    assert program.why_changed(run, "best", (1, 2, 9)).changes == {"road": {(1, 2, 5): -1}}


def test_rows_that_autoinc_numbers_end_a_reason() -> None:
    program = dbsp.compile("""
        .decl link(x: number) .input link
        .decl numbered(n: number, x: number)
        numbered(autoinc(), x) :- link(x).
        .decl late(x: number)
        .output numbered, late
        late(x) :- numbered(n, x), n > 0.
    """)
    run = program.start({"link": [(1,)]})
    run.step({"link": [(2,)]})
    found = program.why_changed(run, "late", (2,))
    assert "numbered(1, 2)   was numbered by autoinc(), inserted" in str(found)
    assert found.change == "inserted" and found.changes == {}


def test_a_deep_reason_can_be_cut() -> None:
    run = PROGRAM.start({"edge": [(x, x + 1) for x in range(300)]})
    run.step({"edge": {(0, 1): -1}})
    found = reason(run, "path", 0, 300)
    assert found.changes == {"edge": {(0, 1): -1}} and len(found.steps) == 301
    assert "path(0, 288)   retracted   ... explanation not shown" in str(found)
    assert sum(1 for _ in found.lines()) == 4 * 299 + 3
    cut = PROGRAM.why_changed(run, "path", (0, 300), depth=2)
    assert len(cut.steps) == 3 and not cut.complete and not cut.changes


def test_the_json_of_a_reason_numbers_its_steps() -> None:
    run = after({"edge": {(1, 2): 1}}, {"edge": {(2, 3): 1}})
    document = json.loads(reason(run, "path", 1, 3).to_json())
    assert document["change"] == "inserted" and document["tick"] == 2
    assert document["changes"] == [{"relation": "edge", "row": [2, 3], "text": "edge(2, 3)", "weight": 1}]
    first, second = document["steps"]
    (derivation,) = first["derivations"]
    assert derivation["rule"]["place"] == "<program>:10"
    assert [premise["change"] for premise in derivation["premises"]] == [
        "unchanged", "gained", "unchanged",
    ]  # fmt: skip
    assert derivation["premises"][1]["causes"] == [1]
    assert second["leaf"] == "input fact" and second["derivations"] == []
    assert document["proof"] is None and document["refusal"] is None


# --- which changes a run keeps ------------------------------------------------------------------


def test_the_changes_of_an_input_are_net() -> None:
    run = after({"edge": {(1, 2): 1}}, {"edge": {(1, 2): 1, (2, 3): 1, (8, 9): -1}})
    assert run.changed("edge").to_dict() == {(2, 3): 1}
    assert run.changed("closed").to_dict() == {}
    with pytest.raises(dbsp.EvaluationError):
        bad = dbsp.compile(".decl n(x: number) .input n .decl r(x: number) .output r r(1 / x) :- n(x).")
        failed = bad.start({"n": [(1,)]})
        failed.step({"n": [(0,)]})
    assert failed.changed("n").to_dict() == {(1,): 1}


def test_a_transaction_is_one_tick() -> None:
    run = after({"edge": {(1, 2): 1}})
    with run.transaction() as transaction:
        transaction.step({"edge": {(1, 2): -1}})
        transaction.step({"edge": [(2, 3), (1, 2)]})
    assert run.changed("edge").to_dict() == {(2, 3): 1}
    assert reason(run, "path", 1, 3).changes == {"edge": {(2, 3): 1}}
    run.kept_changes = 1
    with run.transaction() as transaction:
        transaction.step({"edge": [(3, 4)]})
        transaction.step({"edge": [(4, 5)]})
    with pytest.raises(dbsp.CircuitError, match="because the tick changed more than 1 rows"):
        run.changed("edge")


def test_values_of_retracted_rows_survive_the_freeing_of_values() -> None:
    program = dbsp.compile(".decl e(x: symbol) .input e .output e")
    run = program.start({"e": [("gone",), ("here",)]})
    run.step({"e": {("gone",): -1}})
    run.compact()
    assert run.changed("e").to_dict() == {("gone",): -1}
    assert program.why_changed(run, "e", ("gone",)).changes == {"e": {("gone",): -1}}
    run.step({"e": {("other",): 1}})
    assert run.compact().values == 1


def test_changes_that_the_run_does_not_keep(tmp_path: Path) -> None:
    run = PROGRAM.start()
    with pytest.raises(dbsp.CircuitError) as none:
        reason(run, "path", 1, 2)
    assert str(none.value) == (
        "expected a run with a tick, got one that has made no tick yet; apply changes with run.step first "
        "[changes-not-kept]"
    )
    run.kept_changes = 1
    run.step({"edge": [(1, 2), (2, 3)]})
    assert reason(run, "path", 1, 3).change == "inserted"  # before the first tick there was nothing
    run.step({"edge": [(3, 4), (4, 5)]})
    with pytest.raises(dbsp.CircuitError) as large:
        reason(run, "path", 1, 4)
    assert str(large.value) == (
        "the run does not keep the change of 'edge' in tick 2, because the tick changed more than 1 rows; "
        "set run.kept_changes to a larger number before the tick [changes-not-kept]"
    )
    first = PROGRAM.start({"edge": [(1, 2)]}, checkpoint=tmp_path)
    first.step({"edge": [(2, 3)]})
    first.snapshot()
    first.log.close()
    restored = PROGRAM.start(checkpoint=tmp_path)
    with pytest.raises(dbsp.CircuitError) as old:
        reason(restored, "path", 1, 3)
    assert str(old.value) == (
        "the run does not keep the changes of tick 2, because it was restored from a checkpoint after this "
        "tick; ask again after the next tick [changes-not-kept]"
    )
    restored.step({"edge": [(3, 4)]})
    assert reason(restored, "path", 1, 4).changes == {"edge": {(3, 4): 1}}
    restored.log.close()


def test_a_row_with_an_open_column_is_refused() -> None:
    run = after({"edge": {(1, 2): 1}})
    with pytest.raises(dbsp.InputError) as refused:
        reason(run, "path", 1, ...)
    assert str(refused.value) == "expected a row without '...', got path(1, _) [invalid-row]"


def test_shards_send_their_changes() -> None:
    with PROGRAM.start({"edge": [(1, 2), (2, 3)]}, shards=2) as run:
        run.step({"edge": {(2, 3): -1, (1, 2): 1, (5, 6): 1}})
        assert run.changed("edge").to_dict() == {(2, 3): -1, (5, 6): 1}
        assert PROGRAM.why_changed(run, "path", (1, 3)).changes == {"edge": {(2, 3): -1}}


def test_an_aggregate_without_effect_is_no_cause() -> None:
    program = dbsp.compile("""
        .decl a, c(x: number) .input a, c
        .decl p(x: number) .output p
        p(x) :- c(x), n = count : { a(_) }, n < 3.
    """)
    run = program.start({"a": [(1,)]})
    run.step({"a": [(2,)], "c": [(1,)]})
    came = program.why_changed(run, "p", (1,))
    assert came.changes == {"c": {(1,): 1}}
    assert str(came).splitlines()[2:] == [
        "├─ c(1)   input fact, inserted",
        "├─ 2 = count : { a(_) }   was 1",
        "└─ 2 < 3",
    ]
    run.step({"a": {(2,): -1}, "c": {(1,): -1}})
    assert program.why_changed(run, "p", (1,)).changes == {"c": {(1,): -1}}
    run.step({"c": [(1,)]})
    run.step({"a": [(2,), (3,)]})
    lost = program.why_changed(run, "p", (1,))
    assert lost.changes == {"a": {(2,): 1, (3,): 1}}
    assert "1 = count : { a(_) }   is 3 now" in str(lost) and "1 < 3   became false" in str(lost)
