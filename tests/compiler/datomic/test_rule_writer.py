"""The draft rules of a query, as text; `draft_text` has the attributes and the notation."""

from __future__ import annotations

from typing import Any

import pytest

from dbsp.compiler.datomic.meaning.draft_rules import DraftAtom
from dbsp.errors import CompileError

from .draft_text import TestCatalog, draft, written

UP = "[(up ?x ?y) [?x :ref ?y]] [(up ?x ?y) [?x :ref ?z] (up ?z ?y) {}]"


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param(
            "[:find ?x :where [?x :a 3] [?x :b ?y] [(< ?y 4)]]",
            "result(?x) :- $ :a e v(?x, 3), $ :b e v(?x, ?y), [<(?y, 4)]",
            id="one body",
        ),
        pytest.param(
            "[:find ?x ?z :in $ ?z [?y ...] [[?p _ ?q]] :where [?x :a ?y] [?x :b ?q] [?p :a ?z]]",
            "result(?x, ?z) :- in2(?y), in3(?p, ?q), $ :a e v(?x, ?y), $ :b e v(?x, ?q), $ :a e v(?p, ?z)",
            id="inputs",
        ),
        pytest.param(
            "[:find ?x :where [?x :a] (not [?x :b ?y] [(< ?y 3)])]",
            """result#2(?x) :- $ :a e v(?x, _)
               not#3(?x) :- result#2(?x), $ :b e v(?x, ?y#4), [<(?y#4, 3)]
               result(?x) :- result#2(?x), !not#3(?x)""",
            id="not",
        ),
        pytest.param(
            "[:find ?x :where [?x :a ?y] (or-join [?x ?y] [(< ?y 3)] (and [(< 2 ?y)] [?x :b ?y]))]",
            """result#2(?x, ?y) :- $ :a e v(?x, ?y)
               or#1(?x, ?y) :- result#2(?x, ?y), [<(?y, 3)]
               or#1(?x, ?y) :- result#2(?x, ?y), $ :b e v(?x, ?y), [<(2, ?y)]
               result(?x) :- result#2(?x, ?y), or#1(?x, ?y)""",
            id="or that needs a variable",
        ),
        pytest.param(
            "[:find ?x :where (or [?x :a] [?x :b])]",
            """or#1(?x) :- $ :a e v(?x, _)
               or#1(?x) :- $ :b e v(?x, _)
               result(?x) :- or#1(?x)""",
            id="or that needs nothing",
        ),
        pytest.param(
            "[:find ?x :where [?x :a] [(get-else $ ?x :b 7) ?y] [(< ?y 3)]]",
            """result#2(?x) :- $ :a e v(?x, _)
               get-else#4(?x, value#3) :- result#2(?x), $ :b e v(?x, value#3)
               has#5(?x) :- result#2(?x), $ :b e v(?x, _)
               get-else#4(?x, 7) :- result#2(?x), !has#5(?x)
               result(?x) :- result#2(?x), get-else#4(?x, value#3), ?y = [identity(value#3)], [<(?y, 3)]""",
            id="get-else",
        ),
        pytest.param(
            "[:find ?x :where [?x :a] [(missing? $ ?x :b)]]",
            """result#2(?x) :- $ :a e v(?x, _)
               has#3(?x) :- result#2(?x), $ :b e v(?x, _)
               result(?x) :- result#2(?x), !has#3(?x)""",
            id="missing?",
        ),
        pytest.param(
            "[:find ?x ?v :where [?x :a] [(get-some $ ?x :b :c) ?v]]",
            """result#2(?x) :- $ :a e v(?x, _)
               get-some#3(?x, 102, value#5) :- result#2(?x), $ :b e v(?x, value#5)
               has#7(?x) :- result#2(?x), $ :b e v(?x, _)
               get-some#3(?x, 103, value#5) :- result#2(?x), $ :c e v(?x, value#5), !has#7(?x)
               result(?x, ?v) :- result#2(?x), get-some#3(?x, attribute#4, value#5), """
            """vector#10 = [vector(attribute#4, value#5)], ?v = [identity(vector#10)]""",
            id="get-some",
        ),
        pytest.param(
            "[:find ?v :where [(ground [1 2]) [?v ...]]]",
            "result(?v) :- rows#2 = [rows((1, 2))], count#3 = [count(rows#2)], at#4 < count#3, "
            "?v = [item(rows#2, at#4)]",
            id="ground",
        ),
        pytest.param(
            "[:find ?x ?op :where [?x :a _ _ ?op]]",
            "result(?x, ?op) :- ?op = [identity(True)], $ :a e v(?x, _)",
            id="added now",
        ),
        pytest.param(
            "[:find ?x :where [?x :a _ ?t]]", "result(?x) :- $ :a e v tx(?x, _, ?t)", id="transaction"
        ),
        pytest.param(
            '[:find ?x :where [:key :a ?x] [[:c "t"] :ref :key]]',
            "result(?x) :- $ :db/ident e v(entity#2, :key), $ :a e v(entity#2, ?x), $ :c e v(entity#4, 't'), "
            "$ :db/ident e v(entity#5, :key), $ :ref e v(entity#4, entity#5)",
            id="idents and lookup refs",
        ),
        pytest.param(
            "[:find ?x :where [[:ref :key] :a ?x]]",
            "result(?x) :- $ :db/ident e v(entity#2, :key), $ :ref e v(entity#3, entity#2), "
            "$ :a e v(entity#3, ?x)",
            id="a lookup ref by a ref",
        ),
        pytest.param(
            "[:find ?x :where [?x ?a 3]]", "result(?x) :- $ e a v(?x, ?a, 3)", id="an attribute variable"
        ),
    ],
)
def test_clauses(query: str, expected: str) -> None:
    assert draft(query) == lines(expected)


def test_python_text_is_a_keyword_where_the_attribute_says_so() -> None:
    query = {":find": ["?x"], ":where": [["?x", ":key", ":red"], ["?x", ":c", ":red"]]}
    assert draft(query) == ["result(?x) :- $ :key e v(?x, :red), $ :c e v(?x, ':red')"]


@pytest.mark.parametrize(
    ("added", "expected"),
    [
        ("?op", "result(?x) :- $ :a e v tx added(?x, _, _, added#1), ?op = [added(added#1)]"),
        ("true", "result(?x) :- $ :a e v tx added(?x, _, _, 1)"),
        ("false", "result(?x) :- $ :a e v tx added(?x, _, _, 0)"),
        ("_", "result(?x) :- $ :a e v tx added(?x, _, _, added#1)"),
    ],
)
def test_history(added: str, expected: str) -> None:
    query = f"[:find ?x :in $2 :where [$2 ?x :a _ _ {added}]]"
    assert draft(query, s2=TestCatalog(is_history=True)) == [expected.replace("$ ", "$2 ")]


def test_tuples_are_inputs_by_their_width() -> None:
    found = written("[:find ?x :in $2 :where [$2 ?x _ 4] [$2 ?x ?x]]", s2=TestCatalog(is_database=False))
    assert {name: len(columns) for name, columns in found.inputs.items()} == {"$2 3": 3, "$2 2": 2}


def test_an_attribute_of_an_open_schema_is_found_by_its_ident() -> None:
    found = draft("[:find ?x :in $2 :where [$2 ?x :new 3]]", s2=TestCatalog(is_open=True))
    assert found == ["result(?x) :- $2 :db/ident e v(attribute#2, :new), $2 e a v(?x, attribute#2, 3)"]


def test_an_unknown_attribute_is_an_error_at_its_place() -> None:
    with pytest.raises(CompileError, match="unknown attribute :nwe") as caught:
        draft("[:find ?x :where [?x :nwe 3]]")
    assert "did you mean :a?" in str(caught.value)
    assert "query:1:22" in str(caught.value)


# --- rules ----------------------------------------------------------------------------------------


def test_a_rule_with_one_definition_is_inlined() -> None:
    found = draft(
        "[:find ?x :where [?x :a] (one ?x 3)]",
        "[(one ?x ?n) [?x :a ?n] (two ?x)] [(two ?y) [?y :b ?n] [?n :a]]",
    )
    assert found == ["result(?x) :- $ :a e v(?x, _), $ :a e v(?x, 3), $ :b e v(?x, ?n#4), $ :a e v(?n#4, _)"]


def test_a_rule_is_not_inlined_over_another_source() -> None:
    found = draft(
        "[:find ?x :in $ $2 :where ($2 one ?x)]",
        "[(one ?x) [?x :a ?n] (two ?n)] [(two ?x) [?x :b]]",
        s2=TestCatalog(),
    )
    assert found == lines(
        """result(?x) :- one $2(?x)
           one $2(?x one) :- $2 :a e v(?x one, ?n one), $2 :b e v(?n one, _)"""
    )


def test_each_source_has_its_own_relation_of_a_rule() -> None:
    found = draft(
        "[:find ?x :in $ $2 :where (up ?x ?y) ($2 up ?y ?z) (up ?z ?x)]", UP.format(""), s2=TestCatalog()
    )
    assert found[0] == "result(?x) :- up(?x, ?y), up $2(?y, ?z), up(?z, ?x)"
    assert sorted(found[1:]) == sorted(
        lines(
            """up(?x up, ?y up) :- $ :ref e v(?x up, ?y up)
               up(?x up, ?y up) :- $ :ref e v(?x up, ?z up), up(?z up, ?y up)
               up $2(?x up, ?y up) :- $2 :ref e v(?x up, ?y up)
               up $2(?x up, ?y up) :- $2 :ref e v(?x up, ?z up), up $2(?z up, ?y up)"""
        )
    )


def test_the_arguments_that_a_rule_needs_are_a_relation() -> None:
    rules = "[(low [?m] ?x) [?x :a ?n] [(< ?n ?m)]] [(low [?m] ?x) [?x :b ?n] [(< ?n ?m)]]"
    assert draft("[:find ?x ?y :where [?y :a ?m] (low ?m ?x)]", rules) == lines(
        """result#1(?m, ?y) :- $ :a e v(?y, ?m)
           low#in(?m) :- result#1(?m, ?y)
           result(?x, ?y) :- result#1(?m, ?y), low(?m, ?x)
           low(?m low, ?x low) :- low#in(?m low), $ :a e v(?x low, ?n low), [<(?n low, ?m low)]
           low(?m low, ?x low) :- low#in(?m low), $ :b e v(?x low, ?n low), [<(?n low, ?m low)]"""
    )


def test_relations_of_rules_that_need_nothing_are_on_demand() -> None:
    needs = "[(low ?m ?x) [?x :a ?n] [(< ?n ?m)]] [(low ?m ?x) [?x :b ?m]]"
    found = written(
        "[:find ?x :where [?x :a ?m] (up ?x ?y) (low ?m ?y) (or [?x :a ?y] [?x :b ?y])]",
        UP.format("") + needs,
    )
    assert {name.partition("#")[0] for name in found.on_demand} == {"or", "up"}


@pytest.mark.parametrize("name", ["result", "query", "in1", "or#1", "up#in"])
def test_a_rule_may_have_the_name_of_another_relation(name: str) -> None:
    rules = f"[({name} ?x) [?x :a]] [({name} ?x) [?x :b]]"
    found = draft(f"[:find ?x :in $ [?x ...] :where ({name} ?x)]", rules)
    assert found[0] == f"result(?x) :- in1(?x), {name} $(?x)"


def test_variables_of_inputs_are_not_those_of_rules() -> None:
    found = draft("[:find ?x :in $ ?y :where (up ?x ?z)]", UP.format(""))
    assert "up(?x up, ?y up) :- $ :ref e v(?x up, ?y up)" in found


# --- negation in a recursion ----------------------------------------------------------------------


def test_a_negation_in_a_recursion_starts_from_the_other_literals() -> None:
    assert draft("[:find ?x ?y :where (up ?x ?y)]", UP.format("(not [?z :a])"))[2:] == lines(
        """up#1(?z up) :- $ :ref e v(?x up, ?z up)
           not#2(?z up) :- up#1(?z up), $ :a e v(?z up, _)
           up(?x up, ?y up) :- $ :ref e v(?x up, ?z up), up(?z up, ?y up), !not#2(?z up)"""
    )


def test_a_pattern_in_a_not_needs_no_start() -> None:
    assert draft("[:find ?x ?y :where (up ?x ?y)]", UP.format("(not [?y :a])"))[2:] == lines(
        """not#1(?y up) :- $ :a e v(?y up, _)
           up(?x up, ?y up) :- $ :ref e v(?x up, ?z up), up(?z up, ?y up), !not#1(?y up)"""
    )


def test_a_predicate_in_a_not_starts_from_possible_rows() -> None:
    assert draft("[:find ?x ?y :where (up ?x ?y)]", UP.format("(not [(< ?y 3)])"))[1:] == lines(
        """up(?x up, ?y up) :- $ :ref e v(?x up, ?y up)
           up#1(?y up) :- $ :ref e v(?x up, ?z up), up#possible(?z up, ?y up)
           not#2(?y up) :- up#1(?y up), [<(?y up, 3)]
           up(?x up, ?y up) :- $ :ref e v(?x up, ?z up), up(?z up, ?y up), !not#2(?y up)
           up#possible(?x up, ?y up) :- $ :ref e v(?x up, ?y up)
           up#possible(?x up, ?y up) :- $ :ref e v(?x up, ?z up), up#possible(?z up, ?y up)"""
    )
    found = written("[:find ?x ?y :where (up ?x ?y)]", UP.format("(not [(< ?y 3)])"))
    assert sorted(found.on_demand) == ["up", "up#possible"]
    assert found.arity["up#possible"] == 2


def test_other_negations_are_kept_in_possible_rows() -> None:
    rules = UP.format("(not (far ?z)) (not [(< ?y 3)])") + "[(far ?x) [?x :a]] [(far ?x) [?x :b]]"
    found = draft("[:find ?x ?y :where (up ?x ?y)]", rules)
    possible = [line for line in found if line.startswith("up#possible")]
    assert any("!not#" in line for line in possible)


def test_a_default_in_a_recursion_starts_from_the_recursion() -> None:
    found = draft("[:find ?x ?y :where (up ?x ?y)]", UP.format("[(get-else $ ?y :a 0) ?n] [(< ?n 3)]"))
    assert not any("possible" in line for line in found)
    assert "has#4(?y up) :- $ :a e v(?y up, _)" in found
    assert "get-else#3(?y up, 0) :- up#1(?x up, ?y up), !has#4(?y up)" in found


def test_every_atom_has_a_relation_with_rules_or_rows() -> None:
    """Names of helper relations are consistent, whatever the clauses."""
    options: dict[str, Any] = {"s2": TestCatalog()}
    found = written(
        "[:find ?x :in $ $2 [?m ...] :where ($2 up ?x ?y) (not (up ?y ?z)) (or [?x :a ?m] (up ?m ?x))]",
        UP.format("(not (not [(< ?y 3)]))"),
        **options,
    )
    heads = {rule.head for rule in found.rules}
    for atom in found.atoms():
        assert isinstance(atom, DraftAtom)
        assert atom.base is not None or atom.relation in heads | {*found.inputs}
    assert heads == {*found.arity}
    assert all(len(rule.arguments) == found.arity[rule.head] for rule in found.rules)
