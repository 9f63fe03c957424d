"""Texts that are not queries: every error of the parser, with the marked text and the hint."""

from __future__ import annotations

from typing import Any

import pytest

from dbsp.compiler.datomic.text.query_parser import parse_query
from dbsp.compiler.datomic.text.rule_parser import parse_rules
from dbsp.errors import ArgumentError, CompileError
from tests.compiler.datomic.mistakes import Mistake, mistakes

CLAUSE = (
    "expected a clause ([?e :attribute ?v], [(predicate ?x)], [(function ?x) ?y], (rule ?x), "
    "(not ...) or (or ...)), got "
)
BINDING = "expected a binding (?x, _, [?a ?b], [?x ...] or [[?a ?b]]), got "
ELEMENT = "expected a variable, an aggregate such as (count ?x) or (pull ?e [*]), got "
FIND = "expected ?x ?y (a relation), [?x ...] (a collection), [?x ?y] (a tuple) or ?x . (a scalar)"
KNOWN = "the keys are :find, :with, :in, :where, :keys, :strs, :syms, :order-by, :limit, :offset, :rules"


def question(name: str) -> str:
    return f"a variable starts with a question mark: ?{name}"


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        (
            "?x",
            Mistake(
                "invalid-query",
                "expected a query such as [:find ?x :where [?x :attribute ?v]], got ?x",
                "?x",
            ),
        ),
        (
            "[]",
            Mistake(
                "invalid-query",
                "expected a query such as [:find ?x :where [?x :attribute ?v]], got []",
                "[]",
            ),
        ),
        (
            "[?x :find]",
            Mistake("invalid-query", "expected :find at the start of the query, got ?x", "?x"),
        ),
        ("[:where [?e]]", Mistake("invalid-query", "expected :find in the query", "[:where [?e]]")),
        ("{}", Mistake("invalid-query", "expected :find in the query", "{}")),
        ("[:find ?x :find ?y]", Mistake("invalid-query", "the query has two :find", ":find")),
        (
            "{:find ?x}",
            Mistake("invalid-query", "expected a vector after :find, got ?x", "?x", ":find [?x]"),
        ),
        (
            "[:find ?x :whree [?x]]",
            Mistake("unknown-query-key", "unknown key :whree of a query", ":whree", "did you mean ':where'?"),
        ),
        (
            "[:find ?x :timeout 10]",
            Mistake("unknown-query-key", "unknown key :timeout of a query", ":timeout", KNOWN),
        ),
        (
            '{"find" [?x]}',
            Mistake("unknown-query-key", 'unknown key "find" of a query', '"find"', "did you mean ':find'?"),
        ),
    ],
)
def test_queries(text: str, mistake: Mistake) -> None:
    assert mistake in mistakes(lambda: parse_query(text))


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("", Mistake("invalid-find", f"{FIND} after :find", ":find")),
        ("[]", Mistake("invalid-find", f"{FIND}, got []", "[]")),
        (
            "?x ?y .",
            Mistake(
                "invalid-find",
                "expected one element before '.'",
                ".",
                "one tuple of several elements is [?x ?y]",
            ),
        ),
        ("3", Mistake("invalid-find", f"{ELEMENT}3", "3")),
        (
            "?x [?y]",
            Mistake(
                "invalid-find", f"{ELEMENT}[?y]", "[?y]", "a tuple or collection is the only form after :find"
            ),
        ),
        (
            "?x ...",
            Mistake(
                "invalid-find",
                f"{ELEMENT}...",
                "...",
                "a scalar is ?x . at the end; a collection is [?x ...]",
            ),
        ),
        ("(3 ?x)", Mistake("invalid-find", "expected the name of an aggregate, got 3", "3")),
        (
            "(count)",
            Mistake(
                "invalid-find",
                "expected a variable as the last argument of (count)",
                "(count)",
                "write (count ?x)",
            ),
        ),
        (
            "(max ?x 3)",
            Mistake("invalid-find", "expected a variable as the last argument of (max ?x 3)", "3"),
        ),
        (
            "(count x)",
            Mistake(
                "invalid-find", "expected a variable as the last argument of (count x)", "x", question("x")
            ),
        ),
        (
            "(min $ ?x)",
            Mistake("invalid-find", "expected a constant, got a symbol, $", "$"),
        ),
        (
            "(pull ?e)",
            Mistake(
                "invalid-find",
                "expected (pull ?e pattern) or (pull $source ?e pattern), got (pull ?e)",
                "(pull ?e)",
            ),
        ),
        (
            "(pull e [*])",
            Mistake("invalid-find", "expected a variable such as ?x, got e", "e", question("e")),
        ),
        (
            '(pull ?e "*")',
            Mistake(
                "invalid-find",
                'expected a pull pattern such as [*] or [:person/name], or a name of :in, got "*"',
                '"*"',
            ),
        ),
        ("?x :with", Mistake("invalid-find", "expected variables after :with", ":with")),
        (
            "?x :with y",
            Mistake("invalid-find", "expected a variable such as ?x, got y", "y", question("y")),
        ),
        ("?x :keys 3", Mistake("invalid-find", "expected a plain name after :keys, got 3", "3")),
        (
            "?x :keys a :strs b",
            Mistake("invalid-find", "expected one of :keys, :strs and :syms, got :keys and :strs", ":strs"),
        ),
        (
            "?x :order-by ?y",
            Mistake(
                "invalid-find",
                "expected a variable of :find, or a position from 0 to 0, got ?y",
                "?y",
                "a direction, :asc or :desc, comes after its variable",
            ),
        ),
        (
            "?x :order-by 1",
            Mistake(
                "invalid-find",
                "expected a variable of :find, or a position from 0 to 0, got 1",
                "1",
                "a direction, :asc or :desc, comes after its variable",
            ),
        ),
        (
            "?x :order-by :desc ?x",
            Mistake(
                "invalid-find",
                "expected a variable of :find, or a position from 0 to 0, got :desc",
                ":desc",
                "a direction, :asc or :desc, comes after its variable",
            ),
        ),
        (
            "?x :limit -1",
            Mistake("invalid-find", "expected one integer, 0 or more, after :limit, got -1", "-1"),
        ),
        (
            "?x :limit true",
            Mistake("invalid-find", "expected one integer, 0 or more, after :limit, got true", "true"),
        ),
        (
            "?x :offset",
            Mistake("invalid-find", "expected one integer, 0 or more, after :offset, got nothing", ":offset"),
        ),
        (
            "?x :limit 1 2",
            Mistake("invalid-find", "expected one integer, 0 or more, after :limit, got 1 2", "1"),
        ),
    ],
)
def test_results(text: str, mistake: Mistake) -> None:
    assert mistakes(lambda: parse_query(f"[:find {text}]")) == [mistake]


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        (
            '"x"',
            Mistake(
                "invalid-binding",
                'expected $, %, a binding or the name of a pull pattern in :in, got "x"',
                '"x"',
            ),
        ),
        ("[]", Mistake("invalid-binding", f"{BINDING}[]", "[]")),
        ("[?x 3]", Mistake("invalid-binding", f"{BINDING}3", "3")),
        ("[x ...]", Mistake("invalid-binding", f"{BINDING}x", "x", question("x"))),
        (
            "[?x ?y ...]",
            Mistake(
                "invalid-binding",
                "expected one binding before '...', got [?x ?y ...]",
                "[?x ?y ...]",
                "a collection is [?x ...]; a collection of tuples is [[?a ?b]]",
            ),
        ),
        (
            "[[?x ...]]",
            Mistake(
                "invalid-binding",
                "expected the binding of a tuple in [[?x ...]], got [?x ...]",
                "[?x ...]",
                "each item of a collection is bound by [[?x ...] ...]",
            ),
        ),
    ],
)
def test_inputs(text: str, mistake: Mistake) -> None:
    assert mistakes(lambda: parse_query(f"[:find ?x :in {text}]")) == [mistake]


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("?e", Mistake("invalid-clause", f"{CLAUSE}?e", "?e")),
        ("[]", Mistake("invalid-clause", f"{CLAUSE}[]", "[]")),
        (
            "[$]",
            Mistake("invalid-clause", "expected a clause after the source $, got [$]", "[$]"),
        ),
        (
            "(?e :name ?n)",
            Mistake(
                "invalid-clause",
                f"{CLAUSE}(?e :name ?n)",
                "(?e :name ?n)",
                "a pattern is a vector: [?e :name ?n]",
            ),
        ),
        (
            "[?e :a ?b ?c true 6]",
            Mistake(
                "invalid-clause",
                "expected at most 5 terms (entity, attribute, value, transaction, added), got 6",
                "6",
            ),
        ),
        (
            "[?e $ :name]",
            Mistake(
                "invalid-clause",
                "expected a term, got the source $",
                "$",
                "the source is the first item of a clause",
            ),
        ),
        (
            "[?e :name n]",
            Mistake(
                "invalid-clause",
                "expected a variable, _ or a constant, got the symbol n",
                "n",
                question("n"),
            ),
        ),
        (
            "[?e :name nil]",
            Mistake(
                "invalid-clause",
                "expected a variable, _ or a constant as value, got nil",
                "nil",
                "nil is never stored; [(missing? $ ?e :attribute)] finds entities without a value",
            ),
        ),
        (
            "[?e (f ?x)]",
            Mistake(
                "invalid-clause",
                "expected a variable, _ or a constant as attribute, got the list (f ?x)",
                "(f ?x)",
                "a call of a function comes first: [(function ?x) ?y]",
            ),
        ),
        (
            "[[:mail ?m] :name ?n]",
            Mistake(
                "invalid-clause",
                "expected a constant in the lookup ref [:mail ?m], got the variable ?m",
                "?m",
                "bind the entity by a clause: [?entity :mail ?m]",
            ),
        ),
        (
            "[?e :person/_friend ?f]",
            Mistake(
                "reverse-attribute",
                "a clause has no reverse attribute, got :person/_friend",
                ":person/_friend",
                "write [?f :person/friend ?e]",
            ),
        ),
        (
            "[?e :_friend]",
            Mistake(
                "reverse-attribute",
                "a clause has no reverse attribute, got :_friend",
                ":_friend",
                "write [_ :friend ?e]",
            ),
        ),
        (
            "[$ (f ?x)]",
            Mistake(
                "invalid-clause",
                "a function clause has no source of its own, got $",
                "$",
                "functions that read a source have it as an argument: [(missing? $ ?e :attribute)]",
            ),
        ),
        (
            "[(f ?x) ?y ?z]",
            Mistake(
                "invalid-clause",
                "expected one binding after (f ?x), got 2",
                "?z",
                "bind the parts of a tuple by [?a ?b]",
            ),
        ),
        ("[()]", Mistake("invalid-clause", "expected a function in ()", "()")),
        (
            "[(:name ?m) ?n]",
            Mistake(
                "invalid-clause",
                "expected the name of a function, got :name",
                ":name",
                "write (get ?map :name)",
            ),
        ),
        ("[(3 ?m) ?n]", Mistake("invalid-clause", "expected the name of a function, got 3", "3")),
        (
            "[(f _) ?n]",
            Mistake("invalid-clause", "expected a variable or a constant as argument, got _", "_"),
        ),
        (
            "[(< ?x (f ?y))]",
            Mistake(
                "invalid-clause",
                "expected a variable or a constant as argument, got the call (f ?y)",
                "(f ?y)",
                "bind the inner call first: [(f ?y) ?y], then use ?y",
            ),
        ),
        (
            "[(f [?x 1]) ?n]",
            Mistake(
                "invalid-clause",
                "expected a constant, got a variable, ?x",
                "?x",
                "make a collection with variables by a function: [(tuple ?a ?b) ?t]",
            ),
        ),
        ("[(f x) ?n]", Mistake("invalid-clause", "expected a constant, got a symbol, x", "x", question("x"))),
        ("[(f ?x) n]", Mistake("invalid-binding", f"{BINDING}n", "n", question("n"))),
        ("(not)", Mistake("invalid-clause", "expected at least one clause in (not)", "(not)")),
        ("(or)", Mistake("invalid-clause", "expected at least one clause in (or)", "(or)")),
        ("(and)", Mistake("invalid-clause", "expected at least one clause in (and)", "(and)")),
        (
            "(not-join [?x])",
            Mistake("invalid-clause", "expected at least one clause in (not-join [?x])", "(not-join [?x])"),
        ),
        (
            "(not-join [?e :name] [?e])",
            Mistake(
                "invalid-clause",
                "expected (not-join [?x ...] clause ...), got (not-join [?e :name] [?e])",
                "[?e :name]",
                "name the variables that the not-join shares with the other clauses",
            ),
        ),
        (
            "(or-join)",
            Mistake(
                "invalid-clause",
                "expected (or-join [?x ...] clause ...), got (or-join)",
                "(or-join)",
                "name the variables that the or-join shares with the other clauses",
            ),
        ),
        (
            "(or-join [] [?e])",
            Mistake(
                "invalid-clause",
                "expected (or-join [?x ...] clause ...), got (or-join [] [?e])",
                "[]",
                "name the variables that the or-join shares with the other clauses",
            ),
        ),
        (
            "(not-join [[?x] ?y] [?x])",
            Mistake(
                "invalid-clause",
                "a not-join has no required variables",
                "?x",
                "all variables of a not-join must be bound outside; write [?x ?y]",
            ),
        ),
        (
            "(or-join [x] [?x])",
            Mistake("invalid-clause", "expected a variable such as ?x, got x", "x", question("x")),
        ),
        (
            "(nto [?e])",
            Mistake("invalid-clause", "unknown clause 'nto'", "nto", "did you mean 'not'?"),
        ),
        (
            "(rule $ ?x)",
            Mistake(
                "invalid-clause",
                "a rule has no source as argument, got $",
                "$",
                "the source is in front of the name: ($ rule ?x)",
            ),
        ),
        (
            "(rule (f ?x))",
            Mistake(
                "invalid-clause",
                "expected a variable, _ or a constant as argument of a rule, got (f ?x)",
                "(f ?x)",
                "bind the result of a function first: [(function ?x) ?y]",
            ),
        ),
    ],
)
def test_clauses(text: str, mistake: Mistake) -> None:
    assert mistakes(lambda: parse_query(f"[:find ?e :where {text}]")) == [mistake]
    inside = f"[:find ?e :where (or (and [?e] (not {text})))]"
    assert mistakes(lambda: parse_query(inside)) == [mistake]


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        (
            "3",
            Mistake("invalid-rule", "expected rules, [[(rule ?a ?b) clause ...] ...], got 3", "3"),
        ),
        (
            "[(r ?x) [?x]]",
            Mistake(
                "invalid-rule",
                "expected rules, [[(rule ?a ?b) clause ...] ...], got [(r ?x) [?x]]",
                "[(r ?x) [?x]]",
                "the definitions are in a vector",
            ),
        ),
        (
            "[[r ?x [?x]]]",
            Mistake(
                "invalid-rule", "expected a rule, [(rule ?a ?b) clause ...], got [r ?x [?x]]", "[r ?x [?x]]"
            ),
        ),
        ("[3]", Mistake("invalid-rule", "expected a rule, [(rule ?a ?b) clause ...], got 3", "3")),
        (
            "[[(?r ?x) [?x]]]",
            Mistake("invalid-rule", "expected the name of a rule and its variables, got (?r ?x)", "(?r ?x)"),
        ),
        (
            "[[(or ?x) [?x]]]",
            Mistake("invalid-rule", "the name of a rule cannot be 'or', which is a clause", "or"),
        ),
        (
            "[[(r) [?x]]]",
            Mistake("invalid-rule", "expected at least one variable in (r)", "(r)"),
        ),
        ("[[(r ?x)]]", Mistake("invalid-rule", "expected at least one clause after (r ?x)", "(r ?x)")),
        (
            "[[(r x) [?x]]]",
            Mistake("invalid-rule", "expected a variable such as ?x, got x", "x", question("x")),
        ),
        (
            "[[(r ?x) ?x]]",
            Mistake("invalid-clause", f"{CLAUSE}?x", "?x"),
        ),
    ],
)
def test_rules(text: str, mistake: Mistake) -> None:
    assert mistakes(lambda: parse_rules(text)) == [mistake]


@pytest.mark.parametrize(
    ("query", "mistake"),
    [
        (
            {":find": ["?e"], ":wher": []},
            Mistake("unknown-query-key", "unknown key :wher of a query", ":wher", "did you mean ':where'?"),
        ),
        (
            {"find": ["?e"]},
            Mistake("unknown-query-key", 'unknown key "find" of a query', '"find"', "did you mean ':find'?"),
        ),
        ({":find": ["e"]}, Mistake("invalid-find", f'{ELEMENT}"e"', '"e"', question("e"))),
        (
            {":find": ["?e"], ":where": [["?e", ":a/_b", "?f"]]},
            Mistake(
                "reverse-attribute",
                "a clause has no reverse attribute, got :a/_b",
                ":a/_b",
                "write [?f :a/b ?e]",
            ),
        ),
        (
            {":find": ["?e"], ":where": [[("<", "?e", ("+", "?e", 1))]]},
            Mistake(
                "invalid-clause",
                "expected a variable or a constant as argument, got the call (+ ?e 1)",
                "(+ ?e 1)",
                "bind the inner call first: [(+ ?e 1) ?y], then use ?y",
            ),
        ),
        (
            {":find": ["?e"], ":where": [("nott", ["?e", ":a"])]},
            Mistake("invalid-clause", "unknown clause 'nott'", "nott", "did you mean 'not'?"),
        ),
        (
            [":find", "?e", ":where", ["?e", "?a", "?b", "?c", "?d", "?e"]],
            Mistake(
                "invalid-clause",
                "expected at most 5 terms (entity, attribute, value, transaction, added), got 6",
                "?e",
            ),
        ),
        (
            {":find": ["?e"], ":where": [[[":mail", "?m"], ":name", "?n"]]},
            Mistake(
                "invalid-clause",
                "expected a constant in the lookup ref [:mail ?m], got the variable ?m",
                "?m",
                "bind the entity by a clause: [?entity :mail ?m]",
            ),
        ),
        (
            {":find": ["?e"], ":where": [("$2", "not", "x")]},
            Mistake("invalid-clause", f'{CLAUSE}"x"', '"x"'),
        ),
        (
            {":find": ["?e"], ":where": [("$2", "nott", ["?e"])]},
            Mistake("invalid-clause", "unknown clause 'nott'", "nott", "did you mean 'not'?"),
        ),
        (
            {":find": ["?e"], ":where": [["?e"], "?e"]},
            Mistake("invalid-clause", f"{CLAUSE}?e", "?e"),
        ),
    ],
)
def test_python_data(query: Any, mistake: Mistake) -> None:
    assert mistake in mistakes(lambda: parse_query(query))


def test_data_that_is_nested_too_deep() -> None:
    clause: list[Any] = ["?e", ":a"]
    for _ in range(100):
        clause = ["not", clause]
    assert len(parse_query({":find": ["?e"], ":where": [clause]}).where) == 1
    endless: list[Any] = ["not"]
    endless.append(endless)
    with pytest.raises(ArgumentError, match="query: expected at most 128 nested collections, got more"):
        parse_query({":find": ["?e"], ":where": [endless]})


def test_one_run_reports_every_error_in_the_order_of_the_text() -> None:
    with pytest.raises(CompileError) as caught:
        parse_query(
            "[:find ?e 3\n :in x %\n :where [?e :a nil]\n (or [e] (not))\n [?e :_b ?c]\n :limit x]", "q.edn"
        )
    assert (
        str(caught.value)
        == f"""\
q.edn:1:11: error: {ELEMENT}3 [invalid-find]
    [:find ?e 3
              ^
q.edn:3:16: error: expected a variable, _ or a constant as value, got nil [invalid-clause]
     :where [?e :a nil]
                   ^^^
    hint: nil is never stored; [(missing? $ ?e :attribute)] finds entities without a value
q.edn:4:7: error: expected a variable, _ or a constant, got the symbol e [invalid-clause]
     (or [e] (not))
          ^
    hint: a variable starts with a question mark: ?e
q.edn:4:10: error: expected at least one clause in (not) [invalid-clause]
     (or [e] (not))
             ^^^^^
q.edn:5:6: error: a clause has no reverse attribute, got :_b [reverse-attribute]
     [?e :_b ?c]
         ^^^
    hint: write [?c :b ?e]
q.edn:6:9: error: expected one integer, 0 or more, after :limit, got x [invalid-find]
     :limit x]
            ^"""
    )


def test_errors_are_in_the_order_of_the_text_whatever_the_order_of_the_keys() -> None:
    found = mistakes(lambda: parse_query("{:where [[?e :a nil]] :limit [x] :find [3]}"))
    assert [mistake.marked for mistake in found] == ["nil", "x", "3"]
    data = {":where": [["?e", ":a", None], ["?e", ":_a"]], ":find": [3]}
    assert [mistake.marked for mistake in mistakes(lambda: parse_query(data))] == ["nil", ":_a", "3"]


def test_errors_of_python_data_name_their_path() -> None:
    with pytest.raises(CompileError) as caught:
        parse_query({":find": ["?e"], ":where": [["?e", ":a"], [("f", "?e"), "?x", "?y"]]})
    expected = """\
query[:where][1]:1:12: error: expected one binding after (f ?e), got 2 [invalid-clause]
    [(f ?e) ?x ?y]
               ^^
    hint: bind the parts of a tuple by [?a ?b]"""
    assert str(caught.value) == expected
