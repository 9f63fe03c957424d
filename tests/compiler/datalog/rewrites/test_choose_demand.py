"""The choice of relations to derive on demand: by constants, and by the counts of inputs."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dbsp
from dbsp.compiler.datalog.rewrites import demanded_keys
from dbsp.compiler.datalog.rewrites.choose_demand import choose_demand
from dbsp.durable import Store
from tests.compiler.support import checked_program
from tests.live_program import Change, Subject
from tests.profiles import examples

GRAPH = """
.decl e(x: number, y: number)  .decl n(x: number)
.decl p(x: number, y: number)  .decl q(x: number, y: number)
.decl o(x: number)  .decl oo(x: number, y: number)
.input e, n
.output o, oo
"""
RIGHT = "p(x, y) :- e(x, y). p(x, z) :- e(x, y), p(y, z).\n"
LEFT = "p(x, y) :- e(x, y). p(x, z) :- p(x, y), e(y, z).\n"
NEAR = "oo(x, y) :- n(x), p(x, y).\n"


def selected(text: str) -> dict[str, str]:
    return choose_demand(checked_program(GRAPH + text)).selected


def searched(text: str) -> list[set[str]]:
    return [set(search.columns) for search in choose_demand(checked_program(GRAPH + text)).searches]


# --- by the rules ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (LEFT + "o(y) :- p(5, y). o(y) :- p(6, y).", {"p": "all uses bind x by constants"}),
        (LEFT + "o(y) :- p(5, y). o(y) :- n(y), !p(6, y).", {"p": "all uses bind x by constants"}),
        (RIGHT + "o(x) :- p(x, 7). oo(8, count : { p(_, 8) }).", {"p": "all uses bind y by constants"}),
        # Values of other rows are demanded.
        (RIGHT + "o(y) :- p(5, y).", {}),
        (LEFT + NEAR, {}),
        # No recursion.
        ("p(x, y) :- e(x, y), n(y). o(y) :- p(5, y). o(y) :- p(6, y).", {}),
        # All rows are visible, or a declaration decides.
        (LEFT + ".output p\no(y) :- p(5, y).", {}),
        (LEFT + ".printsize p\no(y) :- p(5, y).", {}),
        (LEFT + ".limitsize p(n=5)\no(y) :- p(5, y).", {}),
        # A rule can fail for a row that is not needed.
        ("p(x, y) :- e(x, y). p(x, z / y) :- p(x, y), e(y, z). o(y) :- p(5, y). o(y) :- p(6, y).", {}),
    ],
)
def test_constants_select_relations(text: str, wanted: dict[str, str]) -> None:
    assert selected(text) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (RIGHT + NEAR, [{"p"}]),
        (LEFT + NEAR, [{"p"}]),
        (RIGHT + "o(y) :- p(5, y).", [{"p"}]),
        (RIGHT + "o(x) :- n(x), !p(x, 5). oo(x, count : { p(x, _) }) :- n(x).", [{"p"}]),
        (
            "p(x, y) :- e(x, y). p(x, z) :- e(x, y), q(y, z). q(x, y) :- e(y, x)."
            "q(x, z) :- p(x, y), e(y, z). oo(x, y) :- n(x), p(x, y).",
            [{"p", "q"}],
        ),
        # The demand depends on the relation itself.
        ("p(x, y) :- e(x, y). p(x, z) :- p(x, y), p(y, z). " + NEAR, []),
        # The demanded values are those of pairs of rows.
        (RIGHT + "oo(x, y) :- e(x, y), p(x, y).", []),
        # The demands of p and q depend on each other.
        (RIGHT + "q(x, y) :- p(x, y). q(x, z) :- q(x, y), p(y, z). oo(x, y) :- n(x), q(x, y).", []),
        # The demanded values are derived.
        (RIGHT + "q(x, y) :- e(x, y). q(x, z) :- q(x, y), e(y, z). oo(x, y) :- q(_, x), p(x, y).", []),
    ],
)
def test_relations_to_count_for(text: str, wanted: list[set[str]]) -> None:
    assert searched(text) == wanted


def test_one_of_two_relations_of_a_rule_is_selected() -> None:
    """Together, the demand of q could bind more columns of p than each count assumes."""
    text = LEFT + "q(x, y) :- e(x, y). q(x, z) :- q(x, y), e(y, z), p(3, z). o(y) :- p(4, y)."
    assert selected(text) == {"p": "all uses bind x by constants"}
    apart = text.replace("p(3, z)", "z != 3") + "oo(x, y) :- n(x), q(x, y)."
    assert (len(selected(apart)), searched(apart)) == (1, [{"q"}])
    text += "oo(x, y) :- n(x), q(x, y)."
    assert len(selected(text)) + len(searched(text)) == 1


def test_options_and_declarations_decide() -> None:
    text = GRAPH + LEFT + "o(y) :- p(5, y). o(y) :- p(6, y)."
    report = dbsp.compile(text).explain()
    assert "rewritten by choose_demand\n  p is derived on demand: all uses bind x by constants\n" in report
    assert "p#demand" in report
    assert "p#demand" not in dbsp.compile(text, magic=False).explain()
    assert "p#demand" not in dbsp.compile(text, magic=["q"]).explain()
    assert "p#demand" not in dbsp.compile(text, rewrites=False).explain()
    declared = text.replace(".decl p(x: number, y: number)", ".decl p(x: number, y: number) no_magic")
    assert "p#demand" not in dbsp.compile(declared).explain()


# --- by counts ------------------------------------------------------------------------------------

CHAINS = [(i, i + 1) for i in range(2000) if i % 50 < 49]


def is_on_demand(program: dbsp.Program, run: dbsp.Run) -> bool:
    report = program.explain(run)
    assert ("p#demand" in report) == ("p is derived on demand" in report)
    return "p#demand" in report


@pytest.mark.parametrize("rules", [RIGHT, LEFT])
@pytest.mark.parametrize(
    ("initial", "wanted"),
    [
        ({"e": CHAINS, "n": [(20,), (70,)]}, True),
        ({"e": CHAINS, "n": [(i,) for i in range(0, 2000, 5)]}, False),
        ({"e": CHAINS[:300], "n": [(20,)]}, False),
        ({"e": CHAINS}, False),
        ({"n": [(20,)]}, False),
        (None, False),
    ],
)
def test_the_first_rows_decide(
    rules: str, initial: dict[str, list[tuple[int, ...]]] | None, wanted: bool
) -> None:
    program = dbsp.compile(GRAPH + rules + NEAR)
    run = program.start(initial)
    full = dbsp.compile(GRAPH + rules + NEAR, magic=False).start(initial)
    assert is_on_demand(program, run) == wanted
    assert run.view("oo") == full.view("oo")
    if wanted:
        assert run.state_rows * 8 < full.state_rows
        assert "p is derived on demand: x: " in program.explain(run)
        assert " of the values in 1,960 rows are demanded\n" in program.explain(run)
    assert not is_on_demand(program, program.start())  # other runs decide for themselves


def test_flat_graphs_and_stars_are_derived_in_full() -> None:
    """The demand of the hub is all nodes; in a flat graph the values demand few others."""
    program = dbsp.compile(GRAPH + RIGHT + NEAR)
    star = [(0, i) for i in range(1, 1000)]
    assert not is_on_demand(program, program.start({"e": star, "n": [(0,)]}))
    flat = [(i, i + 10_000) for i in range(1000)]
    assert not is_on_demand(program, program.start({"e": flat, "n": [(5,)]}))
    # In a left recursion, a value demands no other.
    program = dbsp.compile(GRAPH + LEFT + NEAR)
    assert is_on_demand(program, program.start({"e": flat, "n": [(5,)]}))
    assert not is_on_demand(program, program.start({"e": star, "n": [(0,)]}))


def test_constants_of_uses_and_of_inputs_are_counted() -> None:
    program = dbsp.compile(GRAPH + RIGHT + "oo(5, y) :- p(5, y). oo(x, y) :- e(100, x), p(x, y).")
    run = program.start({"e": CHAINS})
    assert "x: 94 of the values in 1,960 rows are demanded" in program.explain(run)
    assert run.view("oo").rows() == [(5, y) for y in range(6, 50)] + [(101, y) for y in range(102, 150)]


def test_replanning_switches_in_both_directions() -> None:
    program = dbsp.compile(GRAPH + RIGHT + NEAR)
    full = dbsp.compile(GRAPH + RIGHT + NEAR, magic=False).start({"e": CHAINS})
    run = program.start({"e": CHAINS})
    found = []
    many = {(i,): 1 for i in range(0, 2000, 3)}
    for change in ({(20,): 1}, many, dict.fromkeys(many, -1)):
        assert run.step({"n": change})["oo"] == full.step({"n": change})["oo"]
        run.replan()
        found.append(is_on_demand(program, run))
        assert run.step({"e": {(30, 31): -1}})["oo"] == full.step({"e": {(30, 31): -1}})["oo"]
        assert run.step({"e": {(30, 31): 1}})["oo"] == full.step({"e": {(30, 31): 1}})["oo"]
    assert found == [True, False, True]


@pytest.mark.parametrize("snapshot_every", [1, 100])
def test_a_run_continues_from_a_checkpoint(tmp_path: Path, snapshot_every: int) -> None:
    """With a snapshot the run has its circuit; from the ticks alone, it first derives all rows."""
    program = dbsp.compile(GRAPH + RIGHT + NEAR)
    initial = {"e": CHAINS, "n": [(20,)]}
    run = program.start(initial, checkpoint=Store(tmp_path, snapshot_every=snapshot_every))
    run.step({"n": [(70,)]})  # a snapshot is taken before the next tick
    del run
    run = program.start(checkpoint=tmp_path)
    few = program.start({"e": CHAINS}).state_rows // 8
    assert (run.state_rows < few) == (snapshot_every == 1)
    assert len(run.step({"e": {(30, 31): -1}})["oo"]) == 19
    run.replan()
    assert is_on_demand(program, run)
    assert run.state_rows < few
    assert len(run.step({"e": {(30, 31): 1}})["oo"]) == 19


def test_proofs_of_rows_that_depend_on_demand() -> None:
    program = dbsp.compile(GRAPH + RIGHT + NEAR)
    run = program.start({"e": CHAINS, "n": [(20,)]})
    assert is_on_demand(program, run)
    assert "p(20, 22)" in str(program.why(run, "oo", (20, 22)))


# --- random programs ------------------------------------------------------------------------------

RECURSIONS = (
    RIGHT,
    LEFT,
    "p(x, y) :- e(x, y). p(x, z) :- p(y, z), e(x, y), x != z.\n",
    "p(x, y) :- e(x, y), !n(y). p(x, z) :- p(x, y), e(y, z).\n",
    "p(x, x) :- e(x, _). p(x, y) :- e(x, a), p(a, b), e(y, b).\n",
    "p(x, y) :- e(x, y). p(x, z) :- e(x, y), q(y, z). q(x, y) :- e(y, x). q(x, z) :- q(x, y), e(y, z).\n",
)
USES = (
    "oo(x, y) :- n(x), p(x, y).",
    "oo(x, y) :- p(1, y), e(x, y).",
    "o(y) :- p(2, y), !n(y).",
    "o(x) :- n(x), !p(x, 2).",
    "o(x) :- n(x), !p(x, _).",
    "oo(x, y) :- e(x, y), !p(y, x).",
    "oo(x, c) :- n(x), c = count : { p(x, _) }.",
    "oo(x, sum y : { p(x, y), !n(y) }) :- n(x).",
    "oo(x, c) :- n(x), c = count : { e(x, z), !p(z, x) }.",
    "oo(x, c) :- n(x), c = max y + count : { p(y, _) } : { p(x, y) }.",
    "o(x) :- n(x), 1 < count : { p(x, y), p(y, _) }.",
    "o(x) :- p(_, x), n(x).",
)
Drawn: TypeAlias = tuple[tuple[str, tuple[int, ...]], int]
ROWS = st.one_of(
    st.tuples(st.just("e"), st.tuples(st.integers(0, 4), st.integers(0, 4))),
    st.tuples(st.just("n"), st.tuples(st.integers(0, 4))),
)
CHANGES = st.lists(st.tuples(ROWS, st.sampled_from([1, 1, -1])), max_size=8)


def changes_of(drawn: list[Drawn]) -> list[Change]:
    return [(name, row, weight) for (name, row), weight in drawn]


@pytest.mark.slow
@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(RECURSIONS),
    st.lists(st.sampled_from(USES), min_size=1, max_size=3, unique=True),
    st.sampled_from(["auto", "incremental"]),
    st.lists(CHANGES, min_size=2, max_size=6),
    st.data(),
)
def test_random_uses_of_recursions(
    recursion: str, uses: list[str], mode: str, ticks: list[list[Drawn]], data: st.DataObject
) -> None:
    """Every choice, with changes of it, compared with the reference, which derives all rows."""
    subject = Subject(GRAPH + recursion + "\n".join(uses), magic=None, recursion=mode)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("LEAST_ROWS", 0), ("DEEP", 0)):
            patch.setattr(demanded_keys, name, value)
        patch.setattr(demanded_keys, "SHARE", data.draw(st.sampled_from([0.5, 1.0, 5.0])))
        live = subject.start(changes_of(ticks[0]))
        for tick in ticks[1:]:
            live.tick(changes_of(tick))
            if data.draw(st.booleans()):
                live.run.replan()
                live.check_views()
