"""Kinds of relations: the meaning of their declarations, warnings, pragmas, and evaluation."""

from __future__ import annotations

import pytest

import dbsp
from dbsp.compiler.datalog.meaning.dominance import decided_by, extreme
from tests.compiler.support import checked_program

ROWS = ".decl r(x: number, y: number, d: number)\n.output r\n"


def warnings(text: str) -> list[str]:
    return [f"{one.span.line}: {one.message}" for one in dbsp.compile(text).warnings]


def test_deprecated_forms_give_warnings() -> None:
    text = """.symbol_type Word
.number_type Size
.type Name
.decl r(w: Word, s: Size, n: Name) input output printsize
"""
    assert warnings(text) == [
        "1: this form of the declaration of type 'Word' is deprecated",
        "2: this form of the declaration of type 'Size' is deprecated",
        "3: this form of the declaration of type 'Name' is deprecated",
        "4: qualifier 'input' is deprecated",
        "4: qualifier 'output' is deprecated",
        "4: qualifier 'printsize' is deprecated",
    ]
    assert warnings(f'.pragma "legacy"\n{text}') == []
    kinds = [attribute.kind.value for attribute in dbsp.compile(text).relations["r"].attributes]
    assert kinds == ["symbol", "number", "symbol"]


def test_unknown_and_repeated_pragmas_give_warnings() -> None:
    text = """.pragma "magic-transform" "*"
.pragma "magic-transform" "r"
.pragma "libraries" "a"
.pragma "libraries" "b"
.pragma "profil" "x"
.decl r(x: number)
"""
    assert warnings(text) == [
        "2: pragma 'magic-transform' is written twice; this value is used",
        "5: unknown pragma 'profil' is ignored",
    ]


def test_a_pragma_prevents_inlining() -> None:
    text = """.decl e(x: number)
.decl a(x: number) inline
.decl b(x: number) inline
.decl c(x: number)
.input e
.output c
a(x) :- e(x).
b(x) :- a(x).
c(x) :- b(x).
"""
    assert "b" not in dbsp.compile(text).relations
    assert "b" in dbsp.compile(f'.pragma "inline-exclude" "q,b"\n{text}').relations


def test_pragmas_select_relations_to_derive_on_demand() -> None:
    text = ".decl r(x: number)\n.decl s(x: number) no_magic\n.decl t(x: number)\n"
    for pragma, wanted in (
        ("", [None, False, None]),
        ('.pragma "magic-transform" "t,s"\n', [None, False, True]),
        ('.pragma "magic-transform" "*"\n.pragma "magic-transform-exclude" "t"\n', [True, False, False]),
    ):
        relations = dbsp.compile(pragma + text).relations
        assert [relations[name].magic for name in "rst"] == wanted


def test_relations_of_iterations_and_subsumptions_are_not_derived_on_demand() -> None:
    program = dbsp.compile(
        """
        .decl e(x: number, y: number)
        .decl two(x: number, y: number)
        .decl tree(x: number, y: number) choice-domain x
        .decl best(x: number)
        .input e
        .output tree, best
        two(x, z) :- e(x, y), e(y, z).
        tree(1, 0).
        tree(y, x) :- tree(x, _), two(x, y).
        best(x) :- e(x, _).
        best(x) <= best(y) :- two(x, y), y < 3.
        """,
        magic=True,
    )
    assert not [name for name in program.rewritten.relations if "demand" in name]
    assert program.start({"e": [(1, 2), (2, 3), (3, 1)]}).view("tree").rows() == [(1, 0), (2, 3), (3, 1)]


def test_declarations_without_effect_give_warnings() -> None:
    text = """.decl r(x: number) btree_delete
.decl s(x: number)
.limitsize s(n=3)
.output r, s
s(x) :- r(x).
"""
    assert warnings(text) == [
        "1: relation 'r' is 'btree_delete' but has no subsumption",
        "2: .limitsize has no effect on 's', which is not recursive",
    ]


@pytest.mark.parametrize(
    ("clause", "best", "decided"),
    [
        ("r(x, y, a) <= r(x, y, b) :- b <= a.", (2, False), (2, False)),
        ("r(x, y, a) <= r(x, y, b) :- a < b.", (2, True), (2, True)),
        ("r(a, y, d) <= r(b, y, d) :- a > b.", (0, False), (0, False)),
        ("r(x, _, a) <= r(x, _, b) :- b < a.", None, (2, False)),
        ("r(x, _, a) <= r(x, _, b) :- b <= a.", None, None),
        ("r(x, x, a) <= r(x, x, b) :- b <= a.", None, (2, False)),
        ("r(x, y, a) <= r(x, y, b) :- b <= a + 1.", None, None),
        ("r(x, y, a) <= r(x, y, b) :- b <= a, a != 3.", None, (2, False)),
        ("r(x, y, a) <= r(x, y, b) :- b != a.", None, None),
        ("r(x, y, 3) <= r(x, y, b) :- b < 3.", None, (2, False)),
        ("r(x, y, d) <= r(x, y, d) :- d < 3.", None, None),
    ],
)
def test_subsumptions_by_one_column(
    clause: str, best: tuple[int, bool] | None, decided: tuple[int, bool] | None
) -> None:
    (rule,) = checked_program(ROWS + clause).subsumptions
    assert extreme(rule) == best
    assert decided_by(rule) == decided


def test_an_endless_recursion_with_subsumption_is_an_error() -> None:
    program = dbsp.compile("""
        .decl edge(x: number, y: number, d: number)
        .decl best(x: number, d: number)
        .input edge
        .output best
        best(0, 0).
        best(y, d + e) :- best(x, d), edge(x, y, e).
        best(x, a) <= best(x, b) :- b < a.
    """)
    run = program.start({"edge": [(0, 1, 5), (1, 0, -4)]}, max_iterations=500)
    before = run.view("best").to_dict()
    with pytest.raises(dbsp.IterationLimitError):
        run.step({"edge": {(1, 0, -4): -1, (1, 0, -6): 1}})
    assert run.view("best").to_dict() == before == {(0, 0): 1, (1, 5): 1}
    assert run.step({"edge": {(0, 1, 5): -1}})["best"].to_dict() == {(1, 5): -1}


def test_explain_shows_kinds_and_subsumptions() -> None:
    text = """.decl e(x: number, y: number)
.decl same(x: number, y: number) eqrel
.decl tree(x: number, y: number) choice-domain x, (x, y)
.input r, e
same(x, y) :- e(x, y).
tree(y, x) :- e(x, y).
tree(z, y) :- tree(y, _), e(y, z).
.limitsize tree(n=2000)
.output same, tree
r(x, y, a) <= r(x, y, b) :- b < a.
"""
    report = dbsp.compile(ROWS + text).explain()
    for line in (
        "  same is an equivalence relation, stored as classes of equal values",
        "  tree keeps one row for each (x)",
        "  tree keeps one row for each (x, y)",
        "  stops after the first iteration in which tree has 2,000 rows",
        "    r(x, y, a) <= r(x, y, b) :- b < a.",
        "      keep the least d for all other columns",
    ):
        assert line in report.splitlines()
    report = dbsp.compile(ROWS + ".input r\nr(_, y, a) <= r(_, y, b) :- b < a.").explain()
    assert "      => remove r(_, y, a)" in report.splitlines()


def test_rewritings_do_not_change_rules_of_iterations_and_subsumptions() -> None:
    program = dbsp.compile("""
        .decl e(x: number, y: number)
        .decl once(x: number, y: number)
        .decl asked(x: number, y: number)
        .decl never(x: number)
        .decl link(x: number, y: number)
        .decl tree(x: number, y: number) choice-domain x
        .decl best(x: number)
        .input e
        .output tree, best
        once(x, y) :- e(x, y), x < y.
        asked(y, x) :- e(x, y).
        never(x) :- never(x).
        tree(1, 0).
        link(x, y) :- tree(x, _), once(x, y).
        tree(y, x) :- link(x, y).
        tree(x, y) :- never(x), link(x, y).
        best(x) :- asked(x, _).
        best(x) <= best(y) :- asked(x, y).
    """)
    before = {rule.number: rule for rule in program.checked.rules}
    after = {rule.number: rule for rule in program.rewritten.rules}
    for number, rule in before.items():
        if rule.head.relation in ("tree", "link", "asked", "once"):
            assert after[number] == rule
    assert len({rule.number for rule in program.rewritten.clauses}) == len(program.rewritten.clauses)
    run = program.start({"e": [(1, 2), (2, 3), (1, 3), (3, 2)]})
    assert run.view("tree").rows() == [(1, 0), (2, 1), (3, 1)]
