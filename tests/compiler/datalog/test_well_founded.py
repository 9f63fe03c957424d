"""Well-founded negation: every tick is compared with the model by unfounded sets."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import combinations, pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbsp
from benchmarks.fault_circuits import FaultCircuit
from benchmarks.faults import inject
from dbsp.compiler.datalog.meaning.checked import TruthValue
from dbsp.errors import IterationLimitError
from tests.live_program import Change, LiveProgram, Subject, as_mappings
from tests.profiles import examples
from tests.random_datalog import programs
from tests.reference_datalog.unfounded_sets import GroundRule, model_of
from tests.reference_datalog.values import Row

WELL_FOUNDED = "well-founded"

VALUE = st.integers(0, 3)
CHANGE = st.one_of(
    st.tuples(st.sampled_from("ab"), st.tuples(VALUE, VALUE), st.sampled_from([1, 1, -1])),
    st.tuples(st.just("c"), st.tuples(VALUE), st.sampled_from([1, -1])),
)
TICKS = st.lists(st.lists(CHANGE, max_size=8), min_size=1, max_size=5)

GAME = """
.decl move(x: number, y: number)
.input move
.decl win(x: number)
.output win
win(x) :- move(x, y), !win(y).
"""

GROUND_RULES = """
.decl rule(head: number, p1: number, p2: number, n1: number, n2: number)
.input rule
.decl t(atom: number)
.output t
t(0).
t(h) :- rule(h, p1, p2, n1, n2), t(p1), t(p2), !t(n1), !t(n2).
.decl apart(x: number, y: number)
.output apart
apart(x, y) :- t(x), t(y), y < x, !t(x - y).
apart(x, z) :- apart(x, y), apart(y, z).
"""
"""Every row is a ground rule; atom 0 is true and atom 9 is false. `apart` is a later recursion."""

TWO_GROUPS = """
.decl a(x: number, y: number)
.decl b(x: number, y: number)
.input a, b
.decl same(x: number, y: number) eqrel
.decl p(x: number)
.decl q(x: number)
.decl far(x: number, y: number)
.input p
.output same, p, q, far
same(x, y) :- a(x, y), !far(x, y).
far(x, y) :- b(x, y), p(x), !same(x, y).
p(x) :- a(x, _), !q(x).
q(x) :- b(x, _), !p(x).
q(y) :- same(x, y), q(x), x < y.
p(7).
"""
"""An equivalence, an input with rules and facts, and a cycle of two negations."""


def follow(subject: Subject, sequence: Iterator[list[Change]]) -> LiveProgram:
    live = subject.start()
    for changes in sequence:
        live.tick(changes)
    return live


def churn(
    draw: random.Random, first: int, ticks: int, row: Callable[[], tuple[str, Row]]
) -> Iterator[list[Change]]:
    """A load of some rows, then ticks that replace some of them."""
    present = {row() for _ in range(first)}
    yield [(*key, 1) for key in sorted(present)]
    for _ in range(ticks):
        gone = draw.sample(sorted(present), min(len(present), draw.randint(0, 3)))
        come = {row() for _ in range(draw.randint(0, 3))} - present
        present = (present - set(gone)) | come
        yield [*((*key, -1) for key in gone), *((*key, 1) for key in sorted(come))]


@cache
def subject(text: str, recursion: str = "auto") -> Subject:
    return Subject(text, negation=WELL_FOUNDED, recursion=recursion)


# --- against the definition -----------------------------------------------------------------------


def test_the_reference_gives_the_models_of_textbooks() -> None:
    def atom(name: str) -> tuple[str, Row]:
        return name, ()

    def rule(head: str, needed: str = "", refused: str = "") -> GroundRule:
        return GroundRule(atom(head), frozenset(map(atom, needed)), frozenset(map(atom, refused)))

    def model(*rules: GroundRule) -> tuple[str, str]:
        found = model_of(rules)
        true, undefined = (sorted(name for name, _ in part) for part in found)
        return "".join(true), "".join(undefined)

    assert model(rule("p", "", "p")) == ("", "p")
    assert model(rule("p", "", "q"), rule("q", "", "p")) == ("", "pq")
    assert model(rule("p", "p"), rule("q", "", "p")) == ("q", "")
    # Van Gelder, Ross, Schlipf, example 3.1: p and q support each other, so both are false.
    assert model(rule("p", "q"), rule("q", "p"), rule("r", "", "p"), rule("s", "r", "s")) == ("r", "s")
    # A choice between a and b, of which c follows in both cases, is undefined all the same.
    assert model(rule("a", "", "b"), rule("b", "", "a"), rule("c", "a"), rule("c", "b")) == ("", "abc")


@pytest.mark.parametrize("seed", range(8))
def test_games(seed: int) -> None:
    draw = random.Random(seed)
    size = draw.randint(3, 9)
    moves = churn(
        draw, draw.randint(2, 2 * size), 10, lambda: ("move", (draw.randrange(size), draw.randrange(size)))
    )
    live = follow(subject(GAME), moves)
    assert live.run.tick == 11


@pytest.mark.parametrize("recursion", ["auto", "incremental", "insert-only"])
@pytest.mark.parametrize("seed", range(6))
def test_ground_rules(seed: int, recursion: str) -> None:
    draw = random.Random(seed)

    def literal(none: int) -> int:
        return none if draw.random() < 0.55 else draw.randint(1, 6)

    def row() -> tuple[str, Row]:
        return "rule", (draw.randint(1, 6), literal(0), literal(0), literal(9), literal(9))

    follow(subject(GROUND_RULES, recursion), churn(draw, draw.randint(4, 14), 6, row))


@pytest.mark.parametrize("seed", range(6))
def test_equivalences_inputs_and_two_groups(seed: int) -> None:
    draw = random.Random(seed)

    def row() -> tuple[str, Row]:
        if draw.random() < 0.2:
            return "p", (draw.randint(0, 4),)
        return draw.choice("ab"), (draw.randint(0, 4), draw.randint(0, 4))

    program = subject(TWO_GROUPS)
    live = follow(program, churn(draw, draw.randint(4, 14), 6, row))
    live.tick([("p", (7,), -1)])
    assert (7,) not in live.views["p"]


@pytest.mark.parametrize("rewrites", [True, False])
def test_relations_that_rewritings_add_and_empty(rewrites: bool) -> None:
    """No rule of `given` derives a row, and a part of a body becomes a relation of its half."""
    text = """
    .decl a(x: number)
    .decl given(x: number)
    .input a, given
    .decl none(x: number)
    .decl p(x: number)
    .decl q(x: number)
    .output p, q, given
    given(x) :- none(x), !q(x).
    q(x) :- a(x), !given(x), !p(x).
    p(x) :- a(x), q(y), x < 3, given(z), z < y, y < 3.
    q(x) :- given(x), a(y), !p(y).
    """
    rewritten = Subject(text, negation=WELL_FOUNDED, rewrites=rewrites)
    halves = [stratum for stratum in rewritten.program.rewritten.strata if stratum.halves]
    assert any("#" in name for stratum in halves for name in stratum.relations) == rewrites
    draw = random.Random(1)
    follow(rewritten, churn(draw, 5, 8, lambda: (draw.choice(("a", "given")), (draw.randrange(4),))))


@pytest.mark.parametrize("rewrites", [True, False])
@pytest.mark.parametrize(
    "rules",
    [
        "p(x) :- c(x), !r(x, 1).  r(x, x) :- r(x, y), !p(y).",
        "p(x) :- c(x), !r(x, 1).  r(x, x) :- s(x, y), !p(y).  s(x, y) :- r(x, y).  q(x) :- s(x, _).",
        "p(x) :- c(x), !r(x, 1).  r(x, x) :- r(x, y), !p(y).  q(x) :- p(x), !q(x), !r(x, _).",
    ],
)
def test_equivalences_that_stay_empty(rules: str, rewrites: bool) -> None:
    text = """
    .decl c(x: number)
    .input c
    .decl r(x: number, y: number) eqrel
    .decl s(x: number, y: number) eqrel
    .decl p(x: number)
    .decl q(x: number)
    .output p, q, r
    """
    live = follow(
        Subject(text + rules, negation=WELL_FOUNDED, rewrites=rewrites),
        iter([[("c", (1,), 1), ("c", (2,), 1)], [("c", (1,), -1)]]),
    )
    assert live.views["p"] == {(2,)}


@settings(max_examples=examples(15), deadline=None)
@given(programs(loops=True), TICKS, st.booleans())
def test_random_programs(text: str, ticks: list[list[Change]], rewrites: bool) -> None:
    follow(Subject(text, negation=WELL_FOUNDED, rewrites=rewrites), iter(ticks))


@settings(max_examples=examples(10), deadline=None)
@given(programs(kinds=True))
def test_a_stratified_program_is_the_same_program(text: str) -> None:
    ours, plain = (dbsp.compile(text, negation=negation).checked for negation in (WELL_FOUNDED, None))
    assert ours.relations == plain.relations
    assert ours.strata == plain.strata
    assert (ours.clauses, ours.facts) == (plain.clauses, plain.facts)


def test_all_splits_of_changes_into_ticks() -> None:
    changes: list[Change] = [
        ("move", (1, 2), 1),
        ("move", (2, 1), 1),
        ("move", (2, 3), 1),
        ("move", (1, 2), -1),
        ("move", (3, 3), 1),
        ("move", (2, 1), -1),
    ]
    for count in range(len(changes)):
        for cuts in combinations(range(1, len(changes)), count):
            ends = [0, *cuts, len(changes)]
            ticks = [changes[first:last] for first, last in pairwise(ends)]
            follow(subject(GAME), iter(ticks))


def test_all_stages_and_shards_agree() -> None:
    draw = random.Random(3)
    program = subject(GROUND_RULES).program
    runs = [program.start(stage=stage) for stage in ("query", "incremental", "physical")]
    sharded = program.start(shards=2)
    try:
        for changes in churn(
            draw, 12, 5, lambda: ("rule", tuple(draw.choice((0, 1, 2, 3, 9)) for _ in range(5)))
        ):
            for run in (*runs, sharded):
                run.step(as_mappings(changes))
            for name in program.outputs:
                first, *others = (run.view(name).to_dict() for run in (*runs, sharded))
                assert all(other == first for other in others), name
    finally:
        sharded.close()


# --- a tick is all or nothing ---------------------------------------------------------------------


def test_a_function_that_fails_within_the_recursion() -> None:
    text = """
    .decl edge(x: number, y: number)
    .input edge
    .decl in(x: number)
    .decl out(x: number)
    .output in, out
    in(0) :- edge(_, _).
    in(y + 0 / (6 - x)) :- in(x), edge(x, y), !out(y).
    out(x) :- edge(x, y), in(y), !in(x).
    """
    live = Subject(text, negation=WELL_FOUNDED).start()
    live.tick([("edge", (0, 1), 1), ("edge", (1, 2), 1), ("edge", (2, 0), 1), ("edge", (3, 2), 1)])
    live.tick([("edge", (2, 6), 1), ("edge", (1, 0), 1)])
    live.tick([("edge", (6, 3), 1), ("edge", (1, 0), -1)])
    live.tick([("edge", (0, 1), -1), ("edge", (0, 3), 1)])
    assert live.refused == 1
    with pytest.raises(dbsp.EvaluationError) as caught:
        live.run.step({"edge": [(0, 6), (6, 1)]})
    assert "in.possible" not in str(caught.value)
    assert "component" not in str(caught.value)


def test_faults_in_the_middle_of_a_tick() -> None:
    def moves(n: int) -> dict[str, dict[Row, int]]:
        return {"move": {(n % 5, (n + 1) % 5): 1, (3, n % 4): 1, (n % 3, 3): 1}}

    circuit = FaultCircuit(
        "game", subject(GAME).program.start, {"move": {(3, 4): 1, (4, 3): 1, (2, 2): 1, (2, 0): 1}}, moves
    )
    for kind in (KeyboardInterrupt, MemoryError):
        done = inject(circuit, kind, "step", stride=331)
        assert not done.problems
        assert done.undone > 3


def test_an_endless_program_ends_with_an_error() -> None:
    text = """
    .decl start(x: number)
    .input start
    .decl n(x: number)
    .decl stop(x: number)
    .output n
    n(x) :- start(x).
    n(x + 1) :- n(x), !stop(x).
    stop(x) :- n(x), x > 3, !stop(x + 1).
    """
    run = dbsp.compile(text, negation=WELL_FOUNDED).start(max_iterations=60)
    with pytest.raises(
        IterationLimitError, match=r"scope 'n.possible' has not converged after 60 iterations"
    ):
        run.step({"start": [(0,)]})
    assert run.tick == 0
    assert run.view("n").rows() == []


# --- the program that is compiled -----------------------------------------------------------------


def test_versions_of_relations() -> None:
    text = GAME + (
        ".decl lost(x: number, y: number) .output lost\n"
        "lost(x, y) :- move(x, y), !win(x).\n"
        ".decl ends(x: number) .printsize ends\n"
        "ends(x) :- move(_, x), !move(x, _).\n"
    )
    program = dbsp.compile(text, negation=WELL_FOUNDED)
    assert list(program.outputs) == ["win", "win.undefined", "lost", "lost.undefined", "ends"]
    versions = {name: relation.version for name, relation in program.relations.items() if relation.version}
    assert [(version.relation, version.truth) for version in versions.values()] == [
        (name, truth) for name in ("win", "lost") for truth in TruthValue
    ]
    assert program.explain(after="assemble").splitlines()[-7:] == [
        "win(x) :- move(x, y), !win.possible(y).",
        "lost(x, y) :- move(x, y), !win.possible(x).",
        "ends(x) :- move(_, x), !move(x, _).",
        "win.possible(x) :- move(x, y), !win(y).",
        "lost.possible(x, y) :- move(x, y), !win(x).",
        "win.undefined(x) :- win.possible(x), !win(x).",
        "lost.undefined(x, y) :- lost.possible(x, y), !lost(x, y).",
    ]
    assert "// stratum 1, recursive through negation" in program.explain(after="stratify")
    assert (
        "stratum 1 (win, win.possible): recursive through negation, one scope iterated to the "
        "well-founded model\n"
        "  each iteration derives the possible rows (win.possible), then the true rows (win)\n"
    ) in program.explain()


def test_only_the_declared_relation_reads_facts() -> None:
    relations = subject(TWO_GROUPS).program.relations
    assert {name for name, relation in relations.items() if relation.inputs} == {"a", "b", "p"}


def test_cycles_of_an_even_number_of_negations_are_separate_strata() -> None:
    program = dbsp.compile(
        """
        .decl in(x: number) .input in
        .decl p(x: number) .output p
        .decl q(x: number) .output q
        p(x) :- in(x), !q(x).
        q(x) :- in(x), !p(x).
        """,
        negation=WELL_FOUNDED,
    )
    assert [stratum.relations for stratum in program.checked.strata if stratum.halves] == [
        ("p", "q.possible"),
        ("p.possible", "q"),
    ]


def test_the_negation_of_a_pragma_and_of_the_argument() -> None:
    text = '.pragma "negation" "well-founded"' + GAME
    assert "win.undefined" in dbsp.compile(text).outputs
    with pytest.raises(dbsp.CompileError, match="the program cannot be stratified: 'win' negates itself"):
        dbsp.compile(text, negation="stratified")
    with pytest.raises(dbsp.CompileError, match="the option negation=well-founded makes its rows true"):
        dbsp.compile(GAME)
    with pytest.raises(
        dbsp.CompileError,
        match=r"expected a negation 'stratified' or 'well-founded', got 'wellfounded' .*"
        r"(?s:.)*did you mean 'well-founded'\?",
    ):
        dbsp.compile('.pragma "negation" "wellfounded"' + GAME)
    with pytest.raises(
        dbsp.ArgumentError, match=r"negation= expects one of 'stratified', 'well-founded', got 'stable'"
    ):
        dbsp.compile(GAME, negation="stable")


def test_the_hint_names_the_option_only_where_it_helps() -> None:
    text = GAME + ".decl n(n: number)\nn(c) :- c = count : { win(_) }.\nwin(x) :- n(x).\n"
    for rules in (text, text.replace("move(x, y), !win(y)", "move(x, _), !n(x)")):
        with pytest.raises(dbsp.CompileError, match="cannot be stratified") as caught:
            dbsp.compile(rules)
        assert ("negation=well-founded" in str(caught.value)) == (rules == text)


@pytest.mark.parametrize(
    ("directive", "name", "expected"),
    [
        ('.output win(filename="a.csv")', "filename", "a.undefined.csv"),
        ('.output win(filename="a.b.csv.gz", compress="true")', "filename", "a.b.undefined.csv.gz"),
        ('.output win(filename="out/rows")', "filename", "out/rows.undefined"),
        ('.output win(IO="sqlite", filename="a.db", name="w")', "name", "w.undefined"),
        ('.output win(IO="sqlite", filename="a.db", name="w")', "filename", "a.db"),
    ],
)
def test_the_output_of_undefined_rows(directive: str, name: str, expected: str) -> None:
    program = dbsp.compile(GAME.replace(".output win", directive), negation=WELL_FOUNDED)
    (parameters,) = program.relations["win.undefined"].outputs
    assert parameters[name] == expected


REFUSED = [
    (
        ".decl n(n: number) .output n\nn(c) :- c = count : { win(_) }.",
        "'n' aggregates over 'win', which may have undefined rows",
        "an aggregate needs rows that are true or false; a row may be undefined because 'win' negates itself "
        "(line 6)",
    ),
    (
        ".decl n(n: number) .output n\nn(c) :- move(x, _), c = count : { move(y, x), !win(y) }.",
        "'n' aggregates over 'win', which may have undefined rows",
        "an aggregate needs rows that are true or false",
    ),
    (
        ".decl n(x: number, n: number) .output n\nn(x, autoinc()) :- win(x).",
        "autoinc() cannot number the rows of 'n', which may be undefined",
        "a row may be undefined because 'win' negates itself (line 6)",
    ),
    (
        ".decl least(x: number<min>)\n.output least\nleast(x) :- win(x).",
        "'least' may have undefined rows, so it cannot have lattice columns",
        "a row may be undefined because",
    ),
    (
        ".decl one(x: number) choice-domain x\n.output one\none(x) :- win(x).",
        "'one' may have undefined rows, so it cannot have a choice-domain",
        "a row may be undefined because",
    ),
    (
        ".decl least(x: number) .output least\nleast(x) :- win(x).\nleast(x) <= least(y) :- y < x.",
        "'least' may have undefined rows, so it cannot have subsumptions",
        "a row may be undefined because",
    ),
    (
        ".decl some(x: number) .output some\n.limitsize some(n=2)\nsome(x) :- win(x).\n"
        "some(y) :- some(x), move(x, y).",
        "'some' may have undefined rows, so it cannot have a limit of rows",
        "a row may be undefined because",
    ),
]


@pytest.mark.parametrize(("rules", "message", "hint"), REFUSED)
def test_what_has_no_meaning_over_undefined_rows(rules: str, message: str, hint: str) -> None:
    with pytest.raises(dbsp.CompileError) as caught:
        dbsp.compile(GAME + rules, negation=WELL_FOUNDED)
    assert f"error: {message} [undefined-rows]" in str(caught.value)
    assert f"hint: {hint}" in str(caught.value)


def test_a_cycle_of_two_relations_is_named_in_hints() -> None:
    text = GAME.replace("!win(y)", "!lose(y)") + (
        ".decl lose(x: number)\nlose(x) :- move(_, x), !win(x).\n"
        ".decl n(n: number) .output n\nn(c) :- c = sum x : { lose(x) }.\n"
    )
    with pytest.raises(
        dbsp.CompileError,
        match=r"because 'win' negates 'lose', which depends on 'win' \(line 6\)",
    ):
        dbsp.compile(text, negation=WELL_FOUNDED)


def test_a_name_that_the_program_declares() -> None:
    text = """
    .comp Game {
        .comp Part { .decl undefined(x: number) .input undefined }
        .init win = Part
        .decl win(x: number)
        .output win
        win(x) :- win.undefined(x), !win(x).
    }
    .init g = Game
    """
    with pytest.raises(
        dbsp.CompileError,
        match=r"'g.win' may have undefined rows, so the name 'g.win.undefined' is taken(?s:.)*"
        r"rename one of them",
    ):
        dbsp.compile(text, negation=WELL_FOUNDED)


def test_a_checkpoint_continues(tmp_path: Path) -> None:
    win = dbsp.compile(GAME, negation=WELL_FOUNDED)
    run = win.start({"move": [(1, 1), (2, 3)]}, checkpoint=tmp_path)
    assert run.log is not None
    run.log.close()
    again = win.start(checkpoint=tmp_path)
    assert (again.view("win").rows(), again.view("win.undefined").rows()) == ([(2,)], [(1,)])
    again.step({"move": {(1, 4): 1}})
    assert (again.view("win").rows(), again.view("win.undefined").rows()) == ([(1,), (2,)], [])


# --- questions ------------------------------------------------------------------------------------


def test_proofs() -> None:
    program = dbsp.compile(GAME + "win(9).\n", negation=WELL_FOUNDED)
    run = program.start({"move": [(1, 2), (2, 3), (4, 5), (5, 4), (8, 9)]})
    assert str(program.why(run, "win", (2,))) == (
        "win(2)\n"
        "│  <program>:6: win(x) :- move(x, y), !win.possible(y).\n"
        "├─ move(2, 3)   input fact\n"
        "└─ !win.possible(3)   no row matches"
    )
    assert str(program.why(run, "win.undefined", (4,))) == (
        "win.undefined(4)\n"
        "│  <program>:4: win.undefined(x) :- win.possible(x), !win(x).\n"
        "├─ win.possible(4)\n"
        "│  │  <program>:6: win.possible(x) :- move(x, y), !win(y).\n"
        "│  ├─ move(4, 5)   input fact\n"
        "│  └─ !win(5)   no row matches\n"
        "└─ !win(4)   no row matches"
    )
    assert str(program.why(run, "win.possible", (9,))) == "win.possible(9)   input fact"
    assert program.why(run, "win", (4,)) is None
    assert str(program.why_not(run, "win.possible", (8,))) == (
        "win.possible(8)   is missing\n"
        "   it is not an input fact\n"
        "   <program>:6: win.possible(x) :- move(x, y), !win(y).\n"
        "      + move(8, 9)\n"
        "      - !win(9)   win(9) is present"
    )
    assert program.query(run, "win.possible(x), !win(x)").rows() == [(4,), (5,)]


def test_proofs_of_relations_that_the_run_does_not_keep() -> None:
    text = GROUND_RULES.replace(".output t\n", "")
    program = dbsp.compile(text, negation=WELL_FOUNDED)
    rules = [(1, 0, 0, 2, 9), (2, 0, 0, 1, 9), (3, 4, 0, 9, 9), (4, 3, 0, 9, 9)]
    rules += [(5, 0, 0, 3, 9), (6, 5, 0, 4, 9)]
    run = program.start({"rule": rules})
    rows = {name: sorted(program.query(run, f"{name}(x)").rows()) for name in ("t", "t.possible")}
    assert rows == {"t": [(0,), (5,), (6,)], "t.possible": [(0,), (1,), (2,), (5,), (6,)]}
    proof = program.why(run, "t", (6,))
    assert proof is not None
    assert str(proof).splitlines()[2:6] == [
        "├─ rule(6, 5, 0, 4, 9)   input fact",
        "├─ t(5)",
        "│  │  <program>:6: t(h) :- rule(h, p1, p2, n1, n2), t(p1), t(p2), !t.possible(n1), !t.possible(n2).",
        "│  ├─ rule(5, 0, 0, 3, 9)   input fact",
    ]


def test_changes_of_a_recursion_through_negation_are_not_explained() -> None:
    program = dbsp.compile(GAME, negation=WELL_FOUNDED)
    run = program.start({"move": [(1, 2)]})
    with pytest.raises(
        dbsp.InputError,
        match=re.escape(
            "'win.undefined' depends on 'win', which is recursive through negation; a change of such a "
            "relation may be a reason of itself, so ask why or why not instead"
        ),
    ) as caught:
        program.why_changed(run, "win.undefined", (1,))
    assert caught.value.code == "undefined-rows"
    assert program.why_changed(run, "move", (1, 2)).change == "inserted"
