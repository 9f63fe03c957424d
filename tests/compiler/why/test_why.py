"""Proofs of rows, and refusals of missing rows."""

from __future__ import annotations

import gc
import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dbsp
from dbsp.compiler.datalog.meaning.checked import Relation
from dbsp.compiler.why.opaque_relations import opaque_relations, without_rules
from dbsp.compiler.why.proof import Proof
from dbsp.compiler.why.refusal import Refusal
from tests.live_program import Change, LiveProgram, Subject
from tests.profiles import examples
from tests.proof_checker import check_proof, heights, is_positive
from tests.random_datalog import programs
from tests.reference_datalog.evaluation import evaluate
from tests.reference_datalog.values import TooLargeError
from tests.test_programs import OWN_VALUES, PROGRAMS, VALUES, program_changes, subject_of, values_of

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
CHAIN = """
.decl edge(x: number, y: number)
.decl path(x: number, y: number)
.input edge
.output path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""


def check_state(live: LiveProgram, text_too: bool = True) -> None:
    """Every row of every relation has a proof of its height; similar missing rows have none."""
    program = live.subject.program
    complete = evaluate(program.checked, live.inputs)
    leaves = opaque_relations(program.checked)
    plain = without_rules(program.checked, leaves)
    inputs = live.inputs | {name: set(complete[name]) for name in leaves}
    wanted = heights(plain, inputs, complete)
    for name, rows in complete.items():
        # A question cannot contain nil: None leaves a column open.
        for row in (candidate for candidate in rows if None not in candidate):
            proof = program.why(live.run, name, row)
            assert proof is not None, f"{name}{row}"
            check_proof(plain, proof, inputs, complete)
            assert any(step.height and step.rule is None for step in proof.steps.values()) or (
                proof.height == wanted[name][row]
            )
            assert program.why_not(live.run, name, row) is None
            assert str(proof).startswith(proof.steps[proof.goal].text)
            json.loads(proof.to_json())
        for row in missing_rows(rows, program.relations[name]):
            assert program.why(live.run, name, row) is None
            refusal = program.why_not(live.run, name, row)
            assert refusal is not None
            check_refusal(program, name, refusal, complete)


def missing_rows(rows: frozenset[Any], relation: Relation) -> list[tuple[Any, ...]]:
    """Some missing rows, mostly with values of present rows."""
    columns = [values_of(attribute.kind, VALUES)[:2] for attribute in relation.attributes]
    if rows:
        columns = [sorted(set(column), key=repr)[:4] for column in zip(*rows, strict=True)]
    return [row for row in product(*columns) if row not in rows and None not in row][:12]


def check_refusal(
    program: dbsp.compiler.program.Program, name: str, refusal: Refusal, complete: dict[str, frozenset[Any]]
) -> None:
    rules = [rule for rule in program.checked.rules if rule.head.relation == name]
    assert [attempt.number for attempt in refusal.attempts] == [rule.number for rule in rules]
    for attempt in refusal.attempts:
        assert attempt.matches
        for match in attempt.matches:
            assert refusal.notes or any(part.status == "fails" for part in match.parts)
            for part in match.parts:
                if part.key is not None:
                    relation, row = part.key
                    assert (row in complete[relation]) == (part.status == "holds")


@pytest.mark.slow
@settings(max_examples=examples(20), deadline=None, suppress_health_check=SLOW)
@given(st.booleans().flatmap(lambda kinds: programs(kinds=kinds)), st.data())
def test_every_row_of_random_programs_has_a_proof(text: str, data: st.DataObject) -> None:
    subject = Subject(text)
    initial, *ticks = data.draw(program_changes(subject, VALUES))
    live = subject.start(initial)
    check_state(live)
    for tick in ticks[:2]:
        live.tick(tick)
        check_state(live)


POSITIVE = """
.decl a(x: number, y: number)
.decl b(x: number, y: number)
.input a, b
.decl p, q(x: number, y: number)
.decl far(x: number)
.output p, q, far
p(x, y) :- a(x, y).
p(x, z) :- p(x, y), q(y, z).
q(x, y) :- b(y, x).
q(x, z) :- p(x, y), p(y, z), x != z.
p(x, x) :- q(x, _).
far(x + y) :- p(x, y), q(y, x + 1).
"""


@pytest.mark.slow
@settings(max_examples=examples(20), deadline=None, suppress_health_check=SLOW)
@given(st.data())
def test_heights_are_the_rounds_of_naive_evaluation(data: st.DataObject) -> None:
    subject = Subject(POSITIVE)
    assert is_positive(subject.program.checked)
    for tick in data.draw(program_changes(subject, VALUES))[:3]:
        live = subject.start(tick)
        check_state(live)


@pytest.mark.slow
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_rows_of_every_feature_have_proofs(path: Path) -> None:
    subject = subject_of(path)

    @settings(max_examples=examples(2), deadline=None, suppress_health_check=list(HealthCheck))
    @given(program_changes(subject, VALUES | OWN_VALUES.get(path.stem, {})))
    def check(ticks: list[list[Change]]) -> None:
        live = subject.start()
        for tick in ticks[:2]:
            live.tick(tick)
        try:
            evaluate(subject.program.checked, live.inputs, 400)
        except TooLargeError:
            return
        check_state(live)

    check()


def reach(edges: list[tuple[int, int]]) -> tuple[dbsp.compiler.program.Program, dbsp.Run]:
    program = dbsp.compile(CHAIN)
    return program, program.start({"edge": edges})


def test_a_proof_reads_like_a_tree() -> None:
    program, run = reach([(1, 2), (2, 3)])
    assert (
        str(program.why(run, "path", (1, 3)))
        == """\
path(1, 3)
│  <program>:7: path(x, z) :- path(x, y), edge(y, z).
├─ path(1, 2)
│  │  <program>:6: path(x, y) :- edge(x, y).
│  └─ edge(1, 2)   input fact
└─ edge(2, 3)   input fact"""
    )


def test_a_proof_shows_constraints_negations_and_aggregates() -> None:
    program = dbsp.compile("""
        .decl item(shop: symbol, price: number)
        .decl closed(shop: symbol)
        .input item, closed
        .decl good(shop: symbol, n: number, most: number)
        .output good
        good(s, n, m) :- item(s, p), p < 3, !closed(s),
            n = count : { item(s, _) }, m = max q : { item(s, q) }.
    """)
    items = [("tea", price) for price in range(1, 7)]
    run = program.start({"item": items, "closed": [("ink",)]})
    proof = program.why(run, "good", ("tea", 6, 6))
    assert (
        str(proof).split("\n", 2)[2]
        == """\
├─ item("tea", 1)   input fact
├─ 1 < 3
├─ !closed("tea")   no row matches
├─ 6 = count : { item("tea", _) }
│     item("tea", 1)
│     item("tea", 2)
│     item("tea", 3)
│     ... and 3 more
└─ 6 = max q : { item("tea", q) }
      item("tea", 6)"""
    )
    run.step({"closed": [("tea",)]})
    assert program.why(run, "good", ("tea", 6, 6)) is None
    (attempt,) = program.why_not(run, "good", ("tea", 6, 6)).attempts
    (match,) = attempt.matches
    assert [(p.text, p.detail) for p in match.parts if p.status == "fails"] == [
        ('!closed("tea")', 'closed("tea") is present')
    ]


def test_a_refusal_names_the_missing_rows() -> None:
    program, run = reach([(1, 2), (2, 3)])
    refusal = program.why_not(run, "path", (1, 9), depth=2)
    assert (
        str(refusal)
        == """\
path(1, 9)   is missing
   <program>:6: path(x, y) :- edge(x, y).
      - edge(1, 9)   is missing
   <program>:7: path(x, z) :- path(x, y), edge(y, z).
      + path(1, 2)
      - edge(2, 9)   is missing

edge(1, 9)   is missing
   it is not an input fact

edge(2, 9)   is missing
   it is not an input fact"""
    )
    document = json.loads(refusal.to_json())
    assert document["attempts"][0]["matches"] == [
        [
            {
                "status": "fails",
                "text": "edge(1, 9)",
                "detail": "is missing",
                "row": {"relation": "edge", "row": [1, 9]},
            }
        ]
    ]
    assert program.why_not(run, "path", (3, ...)).text == "path(3, _)"
    assert program.why_not(run, "path", (1, ...)) is None


REFUSALS = """
    .decl e(x: number, y: number)
    .input e
    .decl chosen(x: number, y: number) choice-domain x
    .decl best, twin, total(x: number, y: number)
    .decl few, less, many, none(x: number)
    .output chosen, best, twin, total, few, less, many, none
    chosen(x, y) :- e(x, y).
    best(x, y) :- e(x, y).
    best(x, y) <= best(x, z) :- z < y.
    twin(x, x) :- e(x, _).
    total(x, x + y) :- e(x, y).
    few(0).
    few(x + 1) :- few(x), x < 100.
    .limitsize few(n=3)
    less(x) :- e(x, y), x < y.
    many(x) :- e(x, _), 1 < count : { e(x, _) }.
    none(x) :- e(x, y), e(y + 0, x + 1).
    all(x) :- e(x, _).
    .decl all(x: number)
    .output all
    .limitsize all(n=2)
"""


@pytest.mark.parametrize(
    ("relation", "row", "message"),
    [
        (
            "chosen",
            (1, 3),
            "   chosen(1, 3) is derived, but chosen(1, 2) was selected for its x   choice-domain",
        ),
        ("chosen", (1, 9), "      - e(1, 9)   is missing"),
        (
            "best",
            (1, 3),
            "   best(1, 3) is derived, but subsumed by best(1, 2)   <program>:10: best(x, y) <= ",
        ),
        ("best", (1, 3), "   <program>:9: best(x, y) :- e(x, y).\n      + e(1, 3)"),
        ("best", (1, 9), "      - e(1, 9)   is missing"),
        ("few", (3,), "   few(3) is derived, but the recursion ended when 'few' had 3 rows (.limitsize)"),
        ("few", (50,), "   the recursion ended when 'few' had 3 rows (.limitsize)"),
        ("all", (9,), "all(9)   is missing\n   <program>:19: all(x) :- e(x, _)."),
        ("twin", (1, 2), "      - twin(x, x)   the head requires equal values here"),
        ("total", (1, 9), "      - total(1, 1 + 2)   the rule derives this row instead"),
        ("less", (3,), "      - 3 < 0   does not hold"),
        ("many", (2,), "      - 1 < count : { e(2, _) }   does not hold: the count is 1"),
        ("none", (1,), "      - e(2 + 0, 1 + 1)   no row matches"),
    ],
)
def test_a_refusal_names_its_cause(relation: str, row: tuple[int, ...], message: str) -> None:
    program = dbsp.compile(REFUSALS)
    run = program.start({"e": [(1, 2), (1, 3), (2, 1), (3, 0)]})
    assert message in str(program.why_not(run, relation, row))


def test_rows_of_a_cycle_have_proofs_without_the_cycle() -> None:
    program = dbsp.compile("""
        .decl start(x: number)
        .decl p, q(x: number)
        .input start
        .output p, q
        p(x) :- q(x).
        q(x) :- p(x).
        q(x) :- start(x).
    """)
    run = program.start({"start": [(1,)]})
    assert program.why(run, "p", (1,)).height == 2
    run.step({"start": {(1,): -1}})
    assert program.why(run, "p", (1,)) is None


def test_a_chain_of_many_steps() -> None:
    program = dbsp.compile("""
        .decl edge(x: number, y: number)
        .decl reached(x: number)
        .input edge
        .output reached
        reached(0).
        reached(y) :- reached(x), edge(x, y).
    """)
    run = program.start({"edge": [(x, x + 1) for x in range(3_000)]})
    proof = program.why(run, "reached", (3_000,))
    assert proof.height == 3_000 and proof.complete
    assert len(json.loads(proof.to_json())["steps"]) == 6_001
    assert sum(1 for _ in proof.lines()) == 9_001
    shallow = program.why(run, "reached", (3_000,), depth=2)
    assert not shallow.complete and len(shallow.steps) == 5
    assert str(shallow).count("... proof of height 2998 not shown") == 1
    assert "proof of height 2988" in str(proof)


def test_shared_parts_are_drawn_once() -> None:
    program = dbsp.compile("""
        .decl a(x: number)
        .input a
        .decl b, c, d(x: number)
        .output d
        b(x) :- a(x).
        c(x) :- b(x), x > 0.
        d(x) :- b(x), c(x).
    """)
    proof = program.why(program.start({"a": [(1,)]}), "d", (1,))
    assert str(proof).count("b(1)   proved above") == 1
    assert sum('"b(1)' in line or "b(1)" in line for line in proof.to_dot().splitlines()) == 1


def test_a_row_that_does_not_fit_is_refused() -> None:
    program, run = reach([(1, 2)])
    with pytest.raises(dbsp.InputError) as refused:
        program.why(run, "pth", (1, 2))
    assert str(refused.value) == (
        "unknown relation 'pth'; did you mean 'path'? (the relations are edge, path) [unknown-relation]"
    )
    with pytest.raises(dbsp.InputError) as refused:
        program.why(run, "path", (1,))
    assert str(refused.value) == (
        "expected a row of 'path' as a tuple (x: int, y: int), got (1,) [invalid-row]"
    )
    with pytest.raises(dbsp.InputError):
        program.why(run, "path", (1, "two"))
    other = dbsp.compile(".decl r(x: number)\n.input r\n.output r").start()
    with pytest.raises(dbsp.InputError) as refused:
        program.why(other, "path", (1, 2))
    assert str(refused.value) == (
        "the run belongs to another program: it has no input 'edge' [different-program]"
    )


QUESTION_ERRORS = {
    "pth(1, x)": """\
<question>:1:1: error: unknown relation 'pth'; did you mean 'path'? [unknown-relation]
    pth(1, x)
    ^^^
    hint: the relations are edge, path""",
    "edge(x, y), !zebra(x)": """\
<question>:1:14: error: unknown relation 'zebra' [unknown-relation]
    edge(x, y), !zebra(x)
                 ^^^^^
    hint: the relations are edge, path""",
    "n = count : { pth(_, _) }": """\
<question>:1:15: error: unknown relation 'pth'; did you mean 'path'? [unknown-relation]
    n = count : { pth(_, _) }
                  ^^^
    hint: the relations are edge, path""",
    "path(1, 2). edge(1, 2)": """\
<question>:1:1: error: expected the body of a rule [invalid-question]
    path(1, 2). edge(1, 2)
    ^^^^^^^^^^^^^^^^^^^^^^
    hint: for example: path(1, x), x > 2""",
    "path(1, x), x >": """\
<question>:1:16: error: the question is incomplete: it ends here [syntax]
    path(1, x), x >
                   ^""",
}


@pytest.mark.parametrize(("question", "message"), QUESTION_ERRORS.items(), ids=QUESTION_ERRORS)
def test_the_errors_of_a_question(question: str, message: str) -> None:
    program, run = reach([(1, 2)])
    with pytest.raises(dbsp.CompileError) as refused:
        program.query(run, question)
    assert str(refused.value).startswith(message)


def test_a_goal_is_a_single_atom_of_constants_and_variables() -> None:
    program, run = reach([(1, 2)])
    session = program.state(run)
    for goal in ("pth(1, 2)", "path(1, 2), x = 1"):
        with pytest.raises(dbsp.CompileError) as refused:
            session.why(goal, limit=1)
        expected = "unknown relation 'pth'; did" if goal.startswith("pth") else "expected a single atom [inv"
        assert f"<goal>:1:1: error: {expected}" in str(refused.value)
    with pytest.raises(dbsp.InputError) as refused:
        session.why_not("path(x, x + 5)")
    assert str(refused.value) == (
        "expected only constants and variables in the atom, got path(x, x + 5) [invalid-question]"
    )


def test_a_session_needs_its_run() -> None:
    program, run = reach([(1, 2)])
    session = program.state(run)
    del run
    gc.collect()
    with pytest.raises(dbsp.InputError, match="run of this session no longer exists; keep a reference"):
        session.rows("path")


def test_rows_that_autoinc_numbers_are_kept_for_outputs_only() -> None:
    program = dbsp.compile("""
        .decl link(x: number) .input link
        .decl numbered(n: number, x: number)
        numbered(autoinc(), x) :- link(x).
        .decl large(x: number) .output large
        large(x) :- numbered(n, x), n > 1.
    """)
    run = program.start({"link": [(1,), (2,), (3,)]})
    with pytest.raises(dbsp.InputError) as refused:
        program.why(run, "large", (3,))
    assert str(refused.value) == (
        "the run does not keep the rows of 'numbered': autoinc() numbers them, and 'numbered' is not an "
        "output; add '.output numbered' to the program [rows-not-kept]"
    )


def test_proofs_are_from_the_current_tick() -> None:
    program, run = reach([(1, 2), (2, 3)])
    assert program.why(run, "path", (1, 3)).height == 2
    run.step({"edge": [(1, 3)]})
    proof = program.why(run, "path", (1, 3))
    assert isinstance(proof, Proof) and proof.height == 1


def test_proofs_go_through_equivalences_and_end_at_numbers() -> None:
    program = dbsp.compile("""
        .decl link(x: number, y: number)
        .input link
        .decl same(x: number, y: number) eqrel
        same(x, y) :- link(x, y).
        .decl numbered(n: number, x: number)
        numbered(autoinc(), x) :- link(x, _).
        .decl joined(x: number, y: number, n: number)
        .output joined, numbered
        joined(x, y, n) :- same(x, y), x < y, numbered(n, x).
    """)
    run = program.start({"link": [(1, 2), (2, 3)]})
    run.step({"link": {(1, 2): -1, (1, 3): 1}})
    (row,) = (row for row in run.view("joined").rows() if row[:2] == (1, 2))
    assert (
        str(program.why(run, "joined", row)).split("\n", 2)[2]
        == f"""\
├─ same(1, 2)
│  │  <program>:4: same is an equivalence relation (eqrel).
│  ├─ same(1, 3)
│  │  │  <program>:5: same(x, y) :- link(x, y).
│  │  └─ link(1, 3)   input fact
│  └─ same(2, 3)
│     │  <program>:5: same(x, y) :- link(x, y).
│     └─ link(2, 3)   input fact
├─ 1 < 2
└─ numbered({row[2]}, 1)   was numbered by autoinc()"""
    )
    refusal = program.why_not(run, "same", (1, 9))
    assert "   no chain of rows connects the two values (<program>:4: same is an eqrel)" in str(refusal)
    assert "? numbered(n, x)" not in str(program.why_not(run, "numbered", (7, 7)))


SHORTEST = """
.decl edge(x: symbol, y: symbol, w: number)
.input edge
.decl path(x: symbol, y: symbol, d: number)
.output path
path(x, y, w) :- edge(x, y, w).
path(x, z, d + w) :- path(x, y, d), edge(y, z, w).
path(x, y, d1) <= path(x, y, d2) :- d2 <= d1.
"""


def test_a_shortest_path_is_proved_with_the_paths_that_it_subsumes() -> None:
    program = dbsp.compile(SHORTEST)
    run = program.start({"edge": [("a", "b", 2), ("b", "c", 3), ("a", "c", 9), ("c", "d", 1)]})
    proof = program.why(run, "path", ("a", "c", 5))
    subsumption = "<program>:8: path(x, y, d1) <= path(x, y, d2) :- d2 <= d1."
    assert (
        str(proof)
        == f"""\
path("a", "c", 5)
│  <program>:7: path(x, z, d + w) :- path(x, y, d), edge(y, z, w).
├─ path("a", "b", 2)
│  │  <program>:6: path(x, y, w) :- edge(x, y, w).
│  └─ edge("a", "b", 2)   input fact
├─ edge("b", "c", 3)   input fact
└─ subsumes by {subsumption}
      path("a", "c", 9)"""
    )
    (*_, removed) = json.loads(proof.to_json())["steps"][0]["premises"]
    assert removed == {
        "kind": "removed",
        "text": f"subsumes by {subsumption}",
        "solutions": 1,
        "witnesses": ['path("a", "c", 9)'],
    }
    assert 'path("a", "c", 9)' in json.dumps(proof.to_dot()).replace('\\"', '"').replace("\\\\", "")
    run.step({"edge": {("b", "c", 3): -1}})
    assert program.why(run, "path", ("a", "c", 5)) is None
    assert str(program.why(run, "path", ("a", "c", 9))).endswith('└─ edge("a", "c", 9)   input fact')


def test_a_row_whose_premises_were_subsumed_says_so() -> None:
    # The longer chain is known before the shorter one subsumes its premise.
    program = dbsp.compile("""
        .decl step(x: number, y: number)
        .input step
        .decl walk(x: number, n: number)
        .decl seen(x: number, n: number)
        .output walk, seen
        walk(0, 0).
        walk(y, n + 1) :- walk(x, n), step(x, y), n < 5.
        walk(x, n) <= walk(x, m) :- n < m.
        seen(x, n) :- walk(x, n), n = 1.
    """)
    run = program.start({"step": [(0, 1), (1, 0)]})
    rows = sorted(run.view("walk").rows())
    assert rows == [(0, 4), (1, 5)]
    assert str(program.why(run, "walk", (0, 4))) == (
        "walk(0, 4)   was derived from rows that were removed later"
    )
    refusal = str(program.why_not(run, "walk", (0, 0)))
    assert refusal.split("\n")[1].startswith(
        "   walk(0, 0) is an input fact, but subsumed by walk(0, 4)   <program>:9: walk("
    )


def test_a_choice_shows_the_rows_that_it_did_not_select() -> None:
    program = dbsp.compile("""
        .decl person(name: symbol, team: symbol)
        .input person
        .decl lead(name: symbol, team: symbol) choice-domain team
        .output lead
        lead(n, t) :- person(n, t).
        lead("zoe", "red").
    """)
    run = program.start({"person": [(name, "red") for name in ("bob", "ann", "cid", "dan", "eve")]})
    assert (
        str(program.why(run, "lead", ("ann", "red")))
        == """\
lead("ann", "red")
│  <program>:6: lead(n, t) :- person(n, t).
├─ person("ann", "red")   input fact
└─ selected for its team instead of
      lead("bob", "red")
      lead("cid", "red")
      lead("dan", "red")
      ... and 2 more"""
    )
    refusal = str(program.why_not(run, "lead", ("zoe", "red")))
    assert refusal.split("\n")[1] == (
        '   lead("zoe", "red") is an input fact, but lead("ann", "red") was selected for its team   '
        "choice-domain at <program>:4"
    )
    assert "it is not an input fact" not in refusal


def test_a_limit_shows_the_rows_that_it_left_out() -> None:
    program = dbsp.compile(REFUSALS)
    run = program.start({"e": [(1, 2)]})
    assert str(program.why(run, "few", (2,))).split("\n")[-2:] == [
        "└─ derived before 'few' had 3 rows, unlike",
        "      few(3)",
    ]


def test_rows_that_depend_on_numbers_are_kept_for_outputs_only() -> None:
    program = dbsp.compile("""
        .decl link(x: number) .input link
        .decl numbered(n: number, x: number)
        numbered(autoinc(), x) :- link(x).
        .decl last(n: number, x: number)
        last(n, x) :- numbered(n, x).
        last(n, _) <= last(m, _) :- n < m.
        .decl large(x: number)
        .output large, numbered
        large(x) :- last(n, x), n > 1.
    """)
    run = program.start({"link": [(1,), (2,), (3,)]})
    with pytest.raises(dbsp.InputError) as refused:
        program.why(run, "large", (3,))
    assert str(refused.value) == (
        "the run does not keep the rows of 'last': they depend on the numbers of 'numbered', and 'last' is "
        "not an output; add '.output last' to the program [rows-not-kept]"
    )
