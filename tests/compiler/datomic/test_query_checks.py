"""Well-formed queries without a meaning: every error of the checks, and what is allowed."""

from __future__ import annotations

from typing import Any

import pytest

from dbsp.compiler.datomic.meaning.clause_variables import definitions_of, ordered_clauses
from dbsp.compiler.datomic.meaning.query_checks import calls_rules, check_query, input_variables
from dbsp.compiler.datomic.text.query_parser import parse_query
from dbsp.compiler.datomic.text.rule_parser import parse_rules
from dbsp.compiler.datomic.tree.query_tree import Clause, Query
from dbsp.errors import CompileError, InvariantError
from tests.compiler.datomic.mistakes import Mistake, check, checked_mistakes

RULES = """[
 [(up ?a ?b) [?a :parent ?b]]
 [(up ?a ?b) [?a :parent ?x] (up ?x ?b)]
 [(adult [?age]) [(<= 18 ?age)]]
 [(sibling ?a ?b) (up ?a ?p) (up ?b ?p) [(not= ?a ?b)]]
]"""


@pytest.mark.parametrize(
    "where",
    [
        "[?e :name ?n]",
        "[?e ?a]",
        "[(< ?n 3)] [?e :name ?n]",
        "[(inc ?y) ?z] [(dec ?n) ?y] [?e :name ?n]",
        "[?e :name ?n] [(str ?n ?n) ?x] [(= ?x ?n)]",
        "[?e :name ?n] (not [?e :dead true])",
        "(not [?e :dead ?d] [(= ?d true)]) [?e :name ?n]",
        "[?e :name ?n] (not [?e :likes ?x] (not [?x :dead true]))",
        "[?e] (not [?e :a ?x]) (not [?e :b ?x])",
        "[?e :name ?n] (not-join [?e] [?e :likes ?x] [?x :name ?n])",
        "(or [?e :a] [?e :b])",
        "[?e :age ?n] (or [(< ?n 3)] [(< 8 ?n)])",
        "(or (and [?e :age ?n] [(< ?n 3)]) (and [?e :size ?n] (not [?e :dead ?n])))",
        "(or (and [?e :a] (not [?e :b ?x])) (and [?e :c] (not [?e :d ?x])))",
        "(or-join [?e] [?e :a ?x] (and [?e :b ?y] [(< ?y 3)]))",
        "[?e :age ?x] (or-join [[?x] ?e] (and [?e :size ?y] [(< ?x ?y)]) [?e :age ?x])",
        "[?e :age ?x] (or-join [?e ?x] (and [?e :size ?y] [(< ?x ?y)]) [?e :age ?x])",
        "(up ?e 3)",
        "[?e :age ?a] (adult ?a)",
        "(adult 20) [?e]",
        "(sibling ?e _)",
        "[?e] (not (up ?e _))",
        "[(ground [[1 2]]) [[?e ?x]]]",
        "[(get-else $ ?e :age 0) ?a] [?e]",
        "[(get-some $ ?e :age :size) [?a ?v]] [?e]",
        "[?e] [(missing? $ ?e :age)]",
        "[(tuple ?x ?x) ?t] [?e :a ?x] [(untuple ?t) [?y ?z]]",
        '[?e :a ?x] [(str/upper-case ?x) ?u] [(clojure.core/str ?u) ?s] [(.endsWith ?s "A")]',
    ],
)
def test_queries_with_a_meaning(where: str) -> None:
    check(f"[:find ?e :in $ % :where {where}]", RULES)


@pytest.mark.parametrize(
    "query",
    [
        "[:find ?x :in ?x]",
        "[:find ?x ?y :in [[?x [?y ...]]]]",
        "[:find (count ?e) . :with ?n :where [?e :name ?n]]",
        "[:find (max ?k ?n) (min 2 ?n) (aggregate ?f ?n) :in $ ?k ?f :where [_ :name ?n]]",
        "[:find (pull ?e [*]) (pull $2 ?e pat) (pull ?e ?p) :in $ $2 pat ?p :where [?e]]",
        "[:find ?e :in $ ?f :where [?e :a ?x] [(?f ?x) ?y] [(?f ?y)]]",
        "[:find [?e ?n] :keys e n :where [?e :name ?n]]",
        "[:find ?e :in $a $b :where [$a ?e] ($b not [?e :x])]",
    ],
)
def test_results_and_inputs_with_a_meaning(query: str) -> None:
    check(query)


UNBOUND = "unbound-variable"


def bind(name: str) -> str:
    return f"bind {name} in a pattern such as [?e :attribute {name}], or in :in"


@pytest.mark.parametrize(
    ("where", "mistake"),
    [
        ("[?e] [(< ?x 3)]", Mistake(UNBOUND, "?x is not bound", "?x", bind("?x"))),
        ("[?e] [(str ?x) ?y]", Mistake(UNBOUND, "?x is not bound", "?x", bind("?x"))),
        (
            "[?e] [(< ?x ?y)]",
            Mistake(
                UNBOUND,
                "?x and ?y are not bound",
                "?x",
                "bind ?x and ?y in a pattern such as [?e :attribute ?x], or in :in",
            ),
        ),
        (
            "[?e] [(inc ?y) ?x] [(dec ?x) ?y]",
            Mistake(
                UNBOUND,
                "?y is bound only by clauses that need each other's results",
                "?y",
                "bind ?y by a pattern or an input",
            ),
        ),
        (
            "(not [?x]) [?e] [(inc ?y) ?x] [(dec ?x) ?y]",
            Mistake(
                UNBOUND,
                "?y is bound only by clauses that need each other's results",
                "?y",
                "bind ?y by a pattern or an input",
            ),
        ),
        ("[?e] [(inc ?x) ?x]", Mistake(UNBOUND, "?x is not bound", "?x", bind("?x"))),
        (
            "[?e] (not [?x :a ?y])",
            Mistake(
                UNBOUND,
                "no variable of the not (?x, ?y) is bound outside of it",
                "(not [?x :a ?y])",
                "a not removes rows; another clause must bind at least one of its variables",
            ),
        ),
        ("[?e] (not [?e :a ?x] [(< ?x ?y)])", Mistake(UNBOUND, "?y is not bound", "?y", bind("?y"))),
        (
            "[?e] (not-join [?e ?x] [?e :a ?x])",
            Mistake(UNBOUND, "?x is not bound outside of the not-join that lists it", "?x", bind("?x")),
        ),
        (
            "[?e :a ?x] (not-join [?e ?x] [?e :a])",
            Mistake(UNBOUND, "the not-join lists ?x, but its clauses do not use it", "?x"),
        ),
        (
            "[?e :a ?x] (not-join [?e] [?e :b ?y] [(< ?x ?y)])",
            Mistake(UNBOUND, "?x is not bound", "?x", bind("?x")),
        ),
        (
            "[?e :a ?x] (not-join [?e ?e] [?e :b])",
            Mistake("duplicate-variable", "the not-join lists ?e twice", "?e"),
        ),
        (
            "(or [?e :a ?x] (and [?e :b] (not [?e :c ?x])))",
            Mistake(
                UNBOUND,
                "?x is not bound in this branch of the or, nor outside of it",
                "[?e :b]",
                "bind ?x in every branch, or in a clause beside the or",
            ),
        ),
        (
            "(or [?e :a ?x] (and [?e :b] [(< ?x 3)]))",
            Mistake(UNBOUND, "?x is not bound", "?x", bind("?x")),
        ),
        (
            "[?e] (or [?e :a ?x] [?e :b])",
            Mistake(
                "or-variables",
                "the branches of an or use the same variables, but this one uses ?e and the first one ?e, ?x",
                "[?e :b]",
                "write (or-join [?x ...] ...) with the variables that all branches share",
            ),
        ),
        (
            "[?e] (or-join [?e ?x] [?e :b ?x] [?e :c])",
            Mistake(
                "or-variables",
                "the or-join lists ?x, which this branch does not use",
                "[?e :c]",
                "every branch uses the variables that are not bound outside of the or-join",
            ),
        ),
        (
            "[?e] (or-join [[?x] ?e] [?e :a ?x])",
            Mistake(UNBOUND, "?x is not bound outside of the or-join that requires it", "?x", bind("?x")),
        ),
        (
            "(or-join [?e] (and [?e :a] [(< ?x 3)]))",
            Mistake(UNBOUND, "?x is not bound", "?x", bind("?x")),
        ),
        (
            "[?e :a ?x] (or-join [?e] (and [?e :b ?y] [(< ?x ?y)]))",
            Mistake(UNBOUND, "?x is not bound", "?x", bind("?x")),
        ),
        (
            "(or-join [?e ?e] [?e :a])",
            Mistake("duplicate-variable", "the or-join lists ?e twice", "?e"),
        ),
        (
            "[?e] (adult ?x)",
            Mistake(UNBOUND, "?x is not bound, but the rule 'adult' requires it", "?x", bind("?x")),
        ),
        (
            "(up ?e)",
            Mistake(
                "wrong-arity",
                "expected 2 arguments of the rule 'up', got 1",
                "(up ?e)",
                "the rule is (up ?a ?b)",
            ),
        ),
        ("(upp ?e 1)", Mistake("unknown-rule", "unknown rule 'upp'", "(upp ?e 1)", "did you mean 'up'?")),
        (
            "(parent-of ?e)",
            Mistake(
                "unknown-rule",
                "unknown rule 'parent-of'",
                "(parent-of ?e)",
                "the rules are: adult, sibling, up",
            ),
        ),
        (
            "[?e] (even? ?e)",
            Mistake(
                "unknown-rule",
                "unknown rule 'even?'",
                "(even? ?e)",
                "'even?' is a function; a call of a function is in a vector: [(even? ...)]",
            ),
        ),
        (
            "[?e] [(up ?e 3)]",
            Mistake(
                "unknown-function",
                "unknown function 'up'",
                "[(up ?e 3)]",
                "'up' is a rule; a call of a rule is a list of its own: (up ...)",
            ),
        ),
        (
            "[$2 ?e]",
            Mistake("unknown-source", "unknown source $2: :in has no $2", "[$2 ?e]", "did you mean '$'?"),
        ),
        (
            "[?e] [(missing? $old ?e :a)]",
            Mistake(
                "unknown-source",
                "unknown source $old: :in has no $old",
                "[(missing? $old ?e :a)]",
                "add it to :in; the sources are: $",
            ),
        ),
        (
            "[?e :a ?x] [(coutn ?x) ?n]",
            Mistake(
                "unknown-function", "unknown function 'coutn'", "[(coutn ?x) ?n]", "did you mean 'count'?"
            ),
        ),
        (
            "[?e :a ?x] [(upper-case ?x) ?n]",
            Mistake(
                "unknown-function",
                "unknown function 'upper-case'",
                "[(upper-case ?x) ?n]",
                "did you mean 'clojure.string/upper-case'?",
            ),
        ),
        (
            "[?e :a ?x] [(my/f ?x) ?n]",
            Mistake(
                "unknown-function",
                "unknown function 'my/f'",
                "[(my/f ?x) ?n]",
                "pass a Python function: q(..., functions={'my/f': f})",
            ),
        ),
        (
            "[?e] [(rand) ?n]",
            Mistake(
                "unknown-function",
                "a query cannot call 'rand'",
                "[(rand) ?n]",
                "its result differs at each call; compute the value in Python and pass it in :in",
            ),
        ),
        (
            "[?e] [(?f ?e)]",
            Mistake(
                "unknown-function",
                "the function ?f is not an input",
                "?f",
                "add ?f to :in, and pass a Python function",
            ),
        ),
        (
            "[?e] [(subs ?e) ?x]",
            Mistake("wrong-arity", "expected 2 to 3 arguments of 'subs', got 1", "[(subs ?e) ?x]"),
        ),
        (
            "[?e] [(inc) ?x]",
            Mistake("wrong-arity", "expected 1 argument of 'inc', got 0", "[(inc) ?x]"),
        ),
        (
            "[?e] [(<)]",
            Mistake("wrong-arity", "expected at least 1 argument of '<', got 0", "[(<)]"),
        ),
        (
            "[?e] [(count ?e) [?x ...]]",
            Mistake(
                "invalid-binding",
                "expected a variable for the result of 'count', which is an integer",
                "[?x ...]",
                "write [(count ...) ?x]",
            ),
        ),
        (
            "[?e] [(str $ ?e) ?x]",
            Mistake(
                "wrong-function-argument",
                "a function cannot have the source $ as argument",
                "$",
                "only get-else, get-some, missing? read a source",
            ),
        ),
        (
            "[?e] [(missing? ?e :a)]",
            Mistake(
                "wrong-arity",
                "expected 3 arguments of 'missing?', got 2",
                "[(missing? ?e :a)]",
                "write [(missing? $ ?e :attribute)]",
            ),
        ),
        (
            "[?e] [(get-some $ ?e) ?x]",
            Mistake(
                "wrong-arity",
                "expected at least 3 arguments of 'get-some', got 2",
                "[(get-some $ ?e) ?x]",
                "write [(get-some $ ?e :attribute ...) [?a ?x]]",
            ),
        ),
        (
            "[?e] [(missing? ?e ?e :a)]",
            Mistake(
                "wrong-function-argument",
                "expected a source such as $ as first argument of 'missing?'",
                "?e",
                "write [(missing? $ ?e :attribute)]",
            ),
        ),
        (
            '[?e] [(get-else $ ?e "a" 0) ?x]',
            Mistake(
                "wrong-function-argument",
                "expected an attribute such as :person/name as argument of 'get-else'",
                '"a"',
                "write [(get-else $ ?e :attribute default) ?x]",
            ),
        ),
        (
            "[?e] [(get-else $ ?e :a nil) ?x]",
            Mistake(
                "wrong-function-argument",
                "the default of 'get-else' is nil, which binds nothing",
                "nil",
                "a pattern [?e :attribute ?x] has no row for entities without the attribute",
            ),
        ),
        (
            "[?e] [(missing? $ ?e :a) ?x]",
            Mistake(
                "invalid-clause",
                "expected no binding after the call of 'missing?'",
                "[(missing? $ ?e :a) ?x]",
                "write [(missing? $ ?e :attribute)]",
            ),
        ),
        (
            "[?e] [(get-else $ ?e :a 0)]",
            Mistake(
                "invalid-clause",
                "expected a binding after the call of 'get-else'",
                "[(get-else $ ?e :a 0)]",
                "write [(get-else $ ?e :attribute default) ?x]",
            ),
        ),
    ],
)
def test_clauses(where: str, mistake: Mistake) -> None:
    assert checked_mistakes(f"[:find ?e :in $ % :where {where}]", RULES) == [mistake]


def test_a_variable_is_reported_in_every_branch_that_needs_it() -> None:
    found = checked_mistakes("[:find ?e :where [?e] (or [(< ?e ?x)] [(= ?x ?e)])]")
    assert found == [Mistake(UNBOUND, "?x is not bound", "?x", bind("?x"))] * 2


@pytest.mark.parametrize(
    ("query", "mistake"),
    [
        (
            "[:find ?m :where [_ :name ?n]]",
            Mistake(UNBOUND, "?m is not bound in :where or :in", "?m", "the variables are: ?n"),
        ),
        (
            "[:find ?nam :where [_ :name ?name]]",
            Mistake(UNBOUND, "?nam is not bound in :where or :in", "?nam", "did you mean '?name'?"),
        ),
        (
            "[:find ?m]",
            Mistake(UNBOUND, "?m is not bound in :where or :in", "?m", "the query binds no variable"),
        ),
        (
            "[:find ?n :where [?e :name ?n] (not [?e :a ?x]) [(count ?n) ?c]  :with ?x]",
            Mistake(UNBOUND, "?x is not bound in :where or :in", "?x", "the variables are: ?c, ?e, ?n"),
        ),
        (
            "[:find ?n :with ?n :where [_ :name ?n]]",
            Mistake(
                "duplicate-variable",
                "?n is in :find and in :with",
                "?n",
                ":with lists further variables, by which the rows before aggregation differ",
            ),
        ),
        (
            "[:find ?n :with ?e ?e :where [?e :name ?n]]",
            Mistake("duplicate-variable", ":with has ?e twice", "?e"),
        ),
        (
            "[:find ?n :in $ ?x [?x ?y] :where [_ :name ?n]]",
            Mistake("duplicate-variable", ":in has ?x twice", "?x"),
        ),
        ("[:find ?n :in $ $ :where [_ :name ?n]]", Mistake("duplicate-variable", ":in has $ twice", "$")),
        (
            "[:find ?n :in $ p p :where [_ :name ?n]]",
            Mistake("duplicate-variable", ":in has p twice", "p"),
        ),
        (
            "[:find ?n :in $ :where (up ?n)]",
            Mistake(
                "unknown-rule",
                "unknown rule 'up'",
                "(up ?n)",
                "add % to :in, and pass the rules as an argument",
            ),
        ),
        (
            "[:find ?n ?e :keys n :where [?e :name ?n]]",
            Mistake("invalid-find", "expected 2 names after :keys, one per element of :find, got 1", ":keys"),
        ),
        (
            "[:find ?n . :strs n :where [?e :name ?n]]",
            Mistake("invalid-find", ":strs names the parts of rows, but :find returns a scalar", ":strs"),
        ),
        (
            "[:find ?n ?e :syms n n :where [?e :name ?n]]",
            Mistake("invalid-find", ":syms has n twice", ":syms"),
        ),
        (
            "[:find (cuont ?n) :where [_ :name ?n]]",
            Mistake("unknown-aggregate", "unknown aggregate 'cuont'", "(cuont ?n)", "did you mean 'count'?"),
        ),
        (
            "[:find (my/agg ?n) :where [_ :name ?n]]",
            Mistake(
                "unknown-aggregate",
                "unknown aggregate 'my/agg'",
                "(my/agg ?n)",
                "the aggregates are: avg, count, count-distinct, distinct, max, median, min, rand, sample, "
                "stddev, sum, variance",
            ),
        ),
        (
            "[:find (?f ?n) :where [_ :name ?n]]",
            Mistake(
                "unknown-aggregate",
                "the aggregate ?f is not an input",
                "?f",
                "add ?f to :in, and pass a Python function of a list",
            ),
        ),
        (
            "[:find (sum 3 ?n) :where [_ :name ?n]]",
            Mistake("wrong-arity", "expected (sum ?x), got 2 arguments", "(sum 3 ?n)"),
        ),
        (
            "[:find (sample ?n) :where [_ :name ?n]]",
            Mistake("wrong-arity", "expected (sample n ?x), got 1 argument", "(sample ?n)"),
        ),
        (
            "[:find (min -1 ?n) :where [_ :name ?n]]",
            Mistake(
                "invalid-find", "expected a number of values, 0 or more, as first argument of 'min'", "-1"
            ),
        ),
        (
            "[:find (min ?k ?n) :where [?k :name ?n]]",
            Mistake(
                "invalid-find",
                "expected a constant or a variable of :in before the variable of an aggregate, got ?k",
                "?k",
            ),
        ),
        (
            "[:find (pull $2 ?e [*]) :where [?e :name ?n]]",
            Mistake(
                "unknown-source",
                "unknown source $2: :in has no $2",
                "(pull $2 ?e [*])",
                "the sources are: $",
            ),
        ),
        (
            "[:find (pull ?e patern) :in $ pattern :where [?e :name ?n]]",
            Mistake(
                "invalid-find", "the pull pattern patern is not an input", "patern", "did you mean 'pattern'?"
            ),
        ),
        (
            "[:find (pull ?e p) :where [?e :name ?n]]",
            Mistake("invalid-find", "the pull pattern p is not an input", "p", "add p to :in"),
        ),
    ],
)
def test_results_and_inputs(query: str, mistake: Mistake) -> None:
    assert checked_mistakes(query) == [mistake]


def test_rules_without_percent() -> None:
    assert checked_mistakes("[:find ?e :where [?e]]", "[[(r ?x) [?x]] [(s ?x) [?x]]]") == [
        Mistake("unknown-rule", "the query gets 2 rules, but :in has no %", "?e", "write :in $ %")
    ]


@pytest.mark.parametrize(
    ("rules", "mistake"),
    [
        (
            "[(r ?x) [?x]] [(r ?x ?y) [?x :a ?y]]",
            Mistake(
                "wrong-arity",
                "expected 1 variable in the head of 'r', as in its first definition, got 2",
                "[(r ?x ?y) [?x :a ?y]]",
            ),
        ),
        (
            "[(r [?x] ?y) [?x :a ?y]] [(r ?x ?y) [?x :b ?y]]",
            Mistake(
                "wrong-arity",
                "expected 1 required in the head of 'r', as in its first definition, got 0",
                "[(r ?x ?y) [?x :b ?y]]",
                "required variables are in a vector of their own: (rule [?a] ?b)",
            ),
        ),
        (
            "[(r ?x ?x) [?x]]",
            Mistake(
                "duplicate-variable",
                "the head of 'r' has ?x twice",
                "?x",
                "use two variables, and add the clause [(= ?a ?b)]",
            ),
        ),
        (
            "[(r ?x ?y) [?x]]",
            Mistake(
                UNBOUND,
                "?y of the head of 'r' is not in its body",
                "?y",
                "if every call binds it, require it: (r [?y] ?x)",
            ),
        ),
        (
            "[(r ?x) [?x] [(< ?x ?z)]]",
            Mistake(UNBOUND, "?z is not bound", "?z", bind("?z")),
        ),
        (
            "[(r ?x) (r2 ?x)]",
            Mistake("unknown-rule", "unknown rule 'r2'", "(r2 ?x)", "did you mean 'r'?"),
        ),
        (
            "[(r ?x) [$2 ?x]]",
            Mistake("unknown-source", "unknown source $2: :in has no $2", "[$2 ?x]", "did you mean '$'?"),
        ),
        (
            "[(r ?x) [?x :a ?f] [(?f ?x)]]",
            Mistake(
                "unknown-function",
                "the function ?f is not an input",
                "?f",
                "functions of rules have names: q(..., functions={'my/f': f})",
            ),
        ),
        (
            "[(missing? ?x) [?x]]",
            Mistake(
                "invalid-rule",
                "the name of a rule cannot be 'missing?', which is a function",
                "[(missing? ?x) [?x]]",
            ),
        ),
        (
            "[(r ?x) [?x] (not (r ?x))]",
            Mistake(
                "not-stratifiable",
                "the rules cannot be stratified: 'r' negates itself",
                "(r ?x)",
                "the cycle is: 'r' negates 'r'",
            ),
        ),
        (
            "[(r ?x) [?x] (not-join [?x] (s ?x ?y))] [(s ?x ?y) [?x :a ?y] (or [?x] (and [?x] (t ?x)))] "
            "[(t ?x) (r ?x)]",
            Mistake(
                "not-stratifiable",
                "the rules cannot be stratified: 'r' negates 's', which depends on 'r'",
                "(s ?x ?y)",
                "the cycle is: 'r' negates 's', 's' calls 't', 't' calls 'r'",
            ),
        ),
    ],
)
def test_rules(rules: str, mistake: Mistake) -> None:
    assert checked_mistakes("[:find ?e :in $ % :where [?e]]", f"[{rules}]") == [mistake]


@pytest.mark.parametrize(
    "rules",
    [
        "[(r ?x) [(< ?x 3)]]",
        "[(r ?x) (s ?x)] [(s ?y) (t ?y ?y)] [(t ?a ?b) [?a :b] [(< ?b 3)]]",
        "[(r ?x) [?x :a]] [(r ?x) [(even? ?x)]]",
        "[(r ?x) [_ :a ?y] (not [?y :b ?x])]",
        "[(r ?x) (or [?x :a] [(< ?x 3)])]",
        "[(r ?x) [(even? ?x)]] [(r ?x) [(dec ?x) ?y] (r ?y)]",
    ],
)
def test_rules_require_what_their_bodies_do_not_bind(rules: str) -> None:
    check("[:find ?e :in $ % :where [?e :age ?x] (r ?x)]", f"[{rules}]")
    assert checked_mistakes("[:find ?e :in $ % :where [?e] (r ?x)]", f"[{rules}]") == [
        Mistake(UNBOUND, "?x is not bound, but the rule 'r' requires it", "?x", bind("?x"))
    ]


def test_a_negated_call_outside_of_a_cycle_is_allowed() -> None:
    check("[:find ?e :in $ % :where (s ?e)]", "[[(r ?x) [?x :a]] [(s ?x) [?x] (not (r ?x))] [(s ?x) (s ?x)]]")


def test_errors_of_rules_come_before_those_of_the_query() -> None:
    with pytest.raises(CompileError) as caught:
        check("[:find ?n :in $ % :where (r 1) [?e]]", "[[(r ?x)\n  [(< ?z ?x)]]]")
    expected = """\
rules:2:7: error: ?z is not bound [unbound-variable]
      [(< ?z ?x)]]]
          ^^
    hint: bind ?z in a pattern such as [?e :attribute ?z], or in :in
query:1:8: error: ?n is not bound in :where or :in [unbound-variable]
    [:find ?n :in $ % :where (r 1) [?e]]
           ^^
    hint: the variables are: ?e"""
    assert str(caught.value) == expected


def test_user_functions() -> None:
    functions = {"my/double": lambda x: 2 * x, "my/top": lambda values: values[-1], "missing?": lambda x: x}
    query = "[:find (my/top ?y) :where [?e :a ?x] [(my/double ?x) ?y] [(missing? ?x)]]"
    check(query, functions=functions)
    wrong = "[:find ?y :where [?e :a ?x] [(my/double ?x ?x) ?y] [(my/dubble ?x)]]"
    assert checked_mistakes(wrong, functions=functions) == [
        Mistake("wrong-arity", "expected 1 argument of 'my/double', got 2", "[(my/double ?x ?x) ?y]"),
        Mistake(
            "unknown-function",
            "unknown function 'my/dubble'",
            "[(my/dubble ?x)]",
            "did you mean 'my/double'?",
        ),
    ]


# --- the order of clauses ----------------------------------------------------------------------


def ordered(where: str, bound: Any = (), rules: str = RULES) -> list[str]:
    query = parse_query(f"[:find ?e :in $ % ?e :where {where}]")
    definitions = definitions_of(parse_rules(rules).definitions)
    return [text_of(query, clause) for clause in ordered_clauses(query.where, bound, definitions)]


def text_of(query: Query, clause: Clause) -> str:
    return query.sources.between(clause.span)


@pytest.mark.parametrize(
    ("where", "bound", "order"),
    [
        ("[?e :a] [?e :b]", (), ["[?e :a]", "[?e :b]"]),
        ("[(< ?x 3)] [?e :a ?x]", (), ["[?e :a ?x]", "[(< ?x 3)]"]),
        ("[(< ?x 3)] [?e :a ?y]", ("?x",), ["[(< ?x 3)]", "[?e :a ?y]"]),
        (
            "[(inc ?y) ?z] [(inc ?x) ?y] [?e :a ?x]",
            (),
            ["[?e :a ?x]", "[(inc ?x) ?y]", "[(inc ?y) ?z]"],
        ),
        ("(not [?e :a ?x]) [?e :b]", (), ["[?e :b]", "(not [?e :a ?x])"]),
        (
            "(not [?e :a ?x]) [?e :b] [?x :c]",
            (),
            ["[?e :b]", "[?x :c]", "(not [?e :a ?x])"],
        ),
        ("(adult ?x) [?e :age ?x]", (), ["[?e :age ?x]", "(adult ?x)"]),
        (
            "(or [(< ?x 3)] [(< 5 ?x)]) [?e :age ?x]",
            (),
            ["[?e :age ?x]", "(or [(< ?x 3)] [(< 5 ?x)])"],
        ),
        (
            "(or-join [?e ?x] (and [?e :a] [(< ?x 3)]) [?e :age ?x]) (up ?e ?x)",
            (),
            ["(up ?e ?x)", "(or-join [?e ?x] (and [?e :a] [(< ?x 3)]) [?e :age ?x])"],
        ),
    ],
)
def test_every_clause_comes_after_what_it_needs(where: str, bound: Any, order: list[str]) -> None:
    assert ordered(where, bound) == order


@pytest.mark.parametrize("name", ["or", "not"])
def test_nested_clauses_are_checked_in_little_time(name: str) -> None:
    inner = "[?e :a ?x] [(< ?x ?y)]"
    for _ in range(30):
        inner = f"(or (and [?e :a ?x] {inner}))" if name == "or" else f"[?e :b ?x] (not {inner})"
    query = f"[:find ?e :where [?e :z ?x] {inner}]"
    assert checked_mistakes(query) == [Mistake(UNBOUND, "?y is not bound", "?y", bind("?y"))]


def test_the_order_of_clauses_that_were_not_checked() -> None:
    with pytest.raises(InvariantError, match=r"\['\?x'\] of the clause at query:1:29 are not bound"):
        ordered("[(< ?x 3)]")


def test_facts_about_a_query() -> None:
    query = parse_query("[:find ?a :in $ [?a _] [[?b [?c ...]]] :where (not (up ?a ?b))]")
    assert [variable.name for variable in input_variables(query)] == ["?a", "?b", "?c"]
    assert calls_rules(query)
    assert not calls_rules(parse_query("[:find ?a :where [?a]]"))
    check_query(parse_query("[:find ?a :where [?a]]"))
