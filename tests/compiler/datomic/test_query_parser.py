"""Every form of the query language, from EDN text and from Python data, to its tree."""

from __future__ import annotations

from typing import Any

import pytest

from dbsp.compiler.datomic.text.query_parser import parse_query
from dbsp.compiler.datomic.text.rule_parser import parse_rules
from dbsp.compiler.datomic.tree.query_tree import (
    BindBlank,
    BindCollection,
    BindingInput,
    BindRelation,
    BindScalar,
    BindTuple,
    Blank,
    Clause,
    Constant,
    Find,
    FindAggregate,
    FindPull,
    FindVariable,
    Function,
    Input,
    Labels,
    Not,
    Or,
    Ordering,
    Pattern,
    PatternInput,
    Predicate,
    RuleCall,
    RuleDefinition,
    RulesInput,
    SourceInput,
    SourceVariable,
    Variable,
)
from dbsp.diagnostics import SourceSpan
from dbsp.edn.edn_values import EdnList, EdnMap, Keyword, Symbol
from dbsp.errors import ArgumentError, EdnError

AT = SourceSpan("", 1)


def var(name: str) -> Variable:
    return Variable(name, AT)


def const(value: Any) -> Constant:
    return Constant(value, AT)


def key(text: str) -> Constant:
    return const(Keyword(text))


def bind(name: str) -> BindScalar:
    return BindScalar(var(name), AT)


BLANK = Blank(AT)
E, N, A, B, X, Y = map(var, ("?e", "?n", "?a", "?b", "?x", "?y"))
NAME = Pattern("$", (E, key("name"), N), AT)


def find_of(text: str) -> Find:
    return parse_query(f"[:find {text} :where [?e :name ?n]]").find


def clauses_of(text: str) -> tuple[Clause, ...]:
    return parse_query(f"[:find ?e :where {text}]").where


def inputs_of(text: str) -> tuple[Input, ...]:
    return parse_query(f"[:find ?e :in {text} :where [?e :name ?n]]").inputs


# --- find --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kind", "count"),
    [
        ("?e ?n", "relation", 2),
        ("?e", "relation", 1),
        ("[?e ...]", "collection", 1),
        ("[(count ?e) ...]", "collection", 1),
        ("[?e ?n]", "tuple", 2),
        ("[?e]", "tuple", 1),
        ("?e .", "scalar", 1),
        ("(count ?e) .", "scalar", 1),
    ],
)
def test_find_specifications(text: str, kind: str, count: int) -> None:
    found = find_of(text)
    assert (found.kind, len(found.elements)) == (kind, count)


def test_find_elements() -> None:
    assert find_of(
        "?e (count ?n) (min 3 ?n) (my/agg ?k 1 ?n) (aggregate ?f ?n) (?f ?n) "
        "(pull ?e [*]) (pull $2 ?e pat) (pull ?e ?p)"
    ).elements == (
        FindVariable(E, AT),
        FindAggregate("count", (), N, AT),
        FindAggregate("min", (const(3),), N, AT),
        FindAggregate("my/agg", (var("?k"), const(1)), N, AT),
        FindAggregate(var("?f"), (), N, AT),
        FindAggregate(var("?f"), (), N, AT),
        FindPull("$", E, (Symbol("*"),), AT),
        FindPull("$2", E, var("pat"), AT),
        FindPull("$", E, var("?p"), AT),
    )


def test_with_labels_and_order() -> None:
    query = parse_query(
        "[:find ?n (count ?e) :with ?x ?y :keys name number :where [?e :name ?n ?x ?y] "
        ":order-by ?n :desc 1 :limit 10 :offset 5]"
    )
    assert query.with_ == (X, Y)
    assert query.labels == Labels("keys", ("name", "number"), AT)
    assert query.order_by == (Ordering(0, True, AT), Ordering(1, False, AT))
    assert (query.limit, query.offset) == (10, 5)


@pytest.mark.parametrize("text", [":order-by [?n :asc ?e :desc]", ":order-by ?n ?e :desc"])
def test_orders(text: str) -> None:
    found = parse_query(f"[:find ?n ?e :where [?e :name ?n] {text}]").order_by
    assert found == (Ordering(0, False, AT), Ordering(1, True, AT))


@pytest.mark.parametrize("kind", ["keys", "strs", "syms"])
def test_labels(kind: str) -> None:
    labels = parse_query(f"[:find ?n :{kind} full-name :where [?e :name ?n]]").labels
    assert labels == Labels(kind, ("full-name",), AT)  # type: ignore[arg-type]


# --- in ----------------------------------------------------------------------------------------


def test_inputs() -> None:
    assert inputs_of("$ $2 % ?x [?x ?y] [?x ...] [[?x ?y]] [[?x [?y ...]] ...] [_ ?x] pat _") == (
        SourceInput("$", AT),
        SourceInput("$2", AT),
        RulesInput(AT),
        BindingInput(bind("?x"), AT),
        BindingInput(BindTuple((bind("?x"), bind("?y")), AT), AT),
        BindingInput(BindCollection(bind("?x"), AT), AT),
        BindingInput(BindRelation((bind("?x"), bind("?y")), AT), AT),
        BindingInput(BindCollection(BindTuple((bind("?x"), BindCollection(bind("?y"), AT)), AT), AT), AT),
        BindingInput(BindTuple((BindBlank(AT), bind("?x")), AT), AT),
        PatternInput("pat", AT),
        BindingInput(BindBlank(AT), AT),
    )


def test_without_in_the_only_input_is_the_database() -> None:
    assert parse_query("[:find ?e :where [?e :name]]").inputs == (SourceInput("$", AT),)


def test_where_is_optional() -> None:
    assert parse_query("[:find ?x :in [?x ...]]").where == ()


# --- clauses -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "clause"),
    [
        ("[?e]", Pattern("$", (E,), AT)),
        ("[?e :name]", Pattern("$", (E, key("name")), AT)),
        ("[_ :name ?n]", Pattern("$", (BLANK, key("name"), N), AT)),
        ("[?e ?a 5]", Pattern("$", (E, A, const(5)), AT)),
        ("[?e 17 ?x]", Pattern("$", (E, const(17), X), AT)),
        ("[?e :name ?n ?x true]", Pattern("$", (E, key("name"), N, X, const(True)), AT)),
        ("[$2 ?e :name ?n]", Pattern("$2", (E, key("name"), N), AT)),
        ("[:db/ident :name ?n]", Pattern("$", (key("db/ident"), key("name"), N), AT)),
        ("[?e :color :red]", Pattern("$", (E, key("color"), key("red")), AT)),
        (
            '[[:mail "a@b"] :name ?n]',
            Pattern("$", (const((Keyword("mail"), "a@b")), key("name"), N), AT),
        ),
        ("[(< ?x 3)]", Predicate("<", (X, const(3)), AT)),
        ("[(?f ?x)]", Predicate(var("?f"), (X,), AT)),
        ("[(missing? $ ?e :age)]", Predicate("missing?", (SourceVariable("$", AT), E, key("age")), AT)),
        ("[(+ ?x 1) ?y]", Function("+", (X, const(1)), bind("?y"), AT)),
        ("[(f) _]", Function("f", (), BindBlank(AT), AT)),
        ("[(f ?x) [?a ?b]]", Function("f", (X,), BindTuple((bind("?a"), bind("?b")), AT), AT)),
        ("[(f ?x) [?a ...]]", Function("f", (X,), BindCollection(bind("?a"), AT), AT)),
        ("[(f ?x) [[?a _]]]", Function("f", (X,), BindRelation((bind("?a"), BindBlank(AT)), AT), AT)),
        (
            "[(ground [1 2]) [?x ...]]",
            Function("ground", (const((1, 2)),), BindCollection(bind("?x"), AT), AT),
        ),
        ("[(f {:a #{1}}) ?x]", Function("f", (const({Keyword("a"): frozenset({1})}),), bind("?x"), AT)),
        ("(not [?e :name ?n])", Not("$", None, (NAME,), AT)),
        ("(not-join [?e] [?e :name ?n])", Not("$", (E,), (NAME,), AT)),
        ("(or [?e :name ?n] [(< ?e ?n)])", Or("$", (), None, ((NAME,), (Predicate("<", (E, N), AT),)), AT)),
        ("(or (and [?e :name ?n] (r ?e)))", Or("$", (), None, ((NAME, RuleCall("$", "r", (E,), AT)),), AT)),
        ("(or-join [?e] [?e :name ?n])", Or("$", (), (E,), ((NAME,),), AT)),
        ("(or-join [[?e] ?n] [?e :name ?n])", Or("$", (E,), (N,), ((NAME,),), AT)),
        ("(rule ?e 1 _)", RuleCall("$", "rule", (E, const(1), BLANK), AT)),
        ("(r [:mail 1] ?e)", RuleCall("$", "r", (Constant((Keyword("mail"), 1), AT), E), AT)),
        ("(nor [1 2])", RuleCall("$", "nor", (const((1, 2)),), AT)),
        ("($2 rule ?e)", RuleCall("$2", "rule", (E,), AT)),
        ("(and [?e :name ?n])", NAME),
    ],
)
def test_clauses(text: str, clause: Clause) -> None:
    assert clauses_of(text) == (clause,)


def test_a_source_of_not_and_or_is_that_of_the_clauses_inside() -> None:
    inner = Pattern("$2", (E,), AT)
    assert clauses_of("($2 not [?e] ($3 or [?e] [$ ?e] (and (r ?e))))") == (
        Not(
            "$2",
            None,
            (
                inner,
                Or(
                    "$3",
                    (),
                    None,
                    ((Pattern("$3", (E,), AT),), (Pattern("$", (E,), AT),), (RuleCall("$3", "r", (E,), AT),)),
                    AT,
                ),
            ),
            AT,
        ),
    )


def test_and_adds_its_clauses() -> None:
    assert clauses_of("(and [?e :name ?n] (and [?e])) [?n]") == (
        NAME,
        Pattern("$", (E,), AT),
        Pattern("$", (N,), AT),
    )


# --- rules -------------------------------------------------------------------------------------


def test_rules() -> None:
    rules = parse_rules(
        "[[(up ?a ?b) [?a :parent ?b]] [(up ?a ?b) [?a :parent ?x] (up ?x ?b)] [(old [?x] ?y) [?x :age ?y]]]"
    )
    parent = key("parent")
    assert rules.definitions == (
        RuleDefinition("up", (), (A, B), (Pattern("$", (A, parent, B), AT),), AT),
        RuleDefinition(
            "up", (), (A, B), (Pattern("$", (A, parent, X), AT), RuleCall("$", "up", (X, B), AT)), AT
        ),
        RuleDefinition("old", (X,), (Y,), (Pattern("$", (X, key("age"), Y), AT),), AT),
    )
    assert rules.definitions[2].head == (X, Y)


def test_rules_in_python() -> None:
    text = "[[(up [?a] ?b) [?a :parent ?b]] [(up [?a] ?b) (up ?a ?x) (not [?x :dead true])]]"
    data = [
        [("up", ["?a"], "?b"), ["?a", ":parent", "?b"]],
        [("up", ["?a"], "?b"), ("up", "?a", "?x"), ("not", ["?x", ":dead", True])],
    ]
    assert parse_rules(data).definitions == parse_rules(text).definitions
    assert parse_rules(parse_rules(text)).definitions == parse_rules(text).definitions


# --- forms of a query --------------------------------------------------------------------------

TEXT = """
[:find ?n (max 2 ?a)
 :with ?x
 :in $ % ?min [?color ...] [[?k _]]
 :where [?e :person/name ?n]
        [?e :person/color ?color]
        ($2 not [?e :x "y"])
        [(<= ?min ?a)]
        [(get-else $ ?e :age 0) ?a]
        (or-join [[?e] ?x] [?e :x ?x] (and (rule ?e ?x) [[:mail "m"] :x ?x]))]
"""
MAP_TEXT = """
{:where [[?e :person/name ?n]
         [?e :person/color ?color]
         ($2 not [?e :x "y"])
         [(<= ?min ?a)]
         [(get-else $ ?e :age 0) ?a]
         (or-join [[?e] ?x] [?e :x ?x] (and (rule ?e ?x) [[:mail "m"] :x ?x]))]
 :in [$ % ?min [?color ...] [[?k _]]]
 :with [?x]
 :find [?n (max 2 ?a)]}
"""
WHERE = [
    ["?e", ":person/name", "?n"],
    ["?e", ":person/color", "?color"],
    ("$2", "not", ["?e", ":x", "y"]),
    [("<=", "?min", "?a")],
    [("get-else", "$", "?e", ":age", 0), "?a"],
    (
        "or-join",
        [["?e"], "?x"],
        ["?e", ":x", "?x"],
        ("and", ("rule", "?e", "?x"), [[":mail", "m"], ":x", "?x"]),
    ),
]
IN = ["$", "%", "?min", ["?color", "..."], [["?k", "_"]]]


def test_all_ways_to_write_a_query_have_the_same_tree() -> None:
    query = parse_query(TEXT)
    map_form = {":find": ["?n", ("max", 2, "?a")], ":with": ["?x"], ":in": IN, ":where": WHERE}
    list_form = [":find", "?n", ["max", 2, "?a"], ":with", "?x", ":in", *IN, ":where", *WHERE]
    as_lists = {":find": ["?n", ["max", 2, "?a"]], ":with": ["?x"], ":in": IN, ":where": _lists(WHERE)}
    for other in (MAP_TEXT, map_form, list_form, tuple(list_form), as_lists):
        assert parse_query(other) == query
    assert parse_query(query) is query


def _lists(data: Any) -> Any:
    return [_lists(item) for item in data] if isinstance(data, (list, tuple)) else data


def test_edn_values_of_python() -> None:
    query = EdnMap({Keyword("find"): (Symbol("?e"),), Keyword("where"): ((Symbol("?e"), Keyword("name")),)})
    assert parse_query(query) == parse_query("[:find ?e :where [?e :name]]")
    call = [Keyword("find"), Symbol("?e"), Keyword("where"), EdnList((Symbol("r"), Symbol("?e")))]
    assert parse_query(call) == parse_query("[:find ?e :where (r ?e)]")


@pytest.mark.parametrize(
    ("find", "text"),
    [
        (["?e", "."], "?e ."),
        ([["?e", "..."]], "[?e ...]"),
        ([["?e", "?n"]], "[?e ?n]"),
        ([[("count", "?e"), "?n"]], "[(count ?e) ?n]"),
        ([("count", "?e")], "(count ?e)"),
        ([["count", "?e"], "."], "(count ?e) ."),
    ],
)
def test_find_in_python(find: Any, text: str) -> None:
    assert parse_query({":find": find, ":where": [["?e", ":name", "?n"]]}).find == find_of(text)


def test_a_pull_pattern_of_python_is_kept() -> None:
    query = parse_query({":find": [("pull", "?e", [":name", {":friend": ["*"]}])], ":where": [["?e"]]})
    element = query.find.elements[0]
    assert isinstance(element, FindPull)
    assert element.pattern == [":name", {":friend": ["*"]}]


def test_strings_of_python_are_names_only_where_the_grammar_expects_names() -> None:
    query = parse_query({":find": ["?e"], ":where": [["?e", ":color", ":red"], [("f", ":red", "x"), "?y"]]})
    pattern, function = query.where
    assert isinstance(pattern, Pattern)
    assert isinstance(function, Function)
    value, argument, text = pattern.terms[2], function.arguments[0], function.arguments[1]
    assert value == const(":red")
    assert argument == const(":red")
    # The attribute decides whether such a string is a keyword.
    assert [term.quoted for term in (value, argument, text) if isinstance(term, Constant)] == [
        False,
        False,
        True,
    ]


def test_the_attribute_of_get_else_is_a_keyword_and_its_default_may_be_one() -> None:
    clause = [("get-else", "$", "?e", ":color", ":red"), "?x"]
    function = parse_query({":find": ["?x"], ":where": [clause]}).where[0]
    assert isinstance(function, Function)
    assert function.arguments[2:] == (key("color"), const(":red"))


def test_limit_in_a_map() -> None:
    query = parse_query({":find": ["?e"], ":where": [["?e"]], ":limit": 3, ":offset": [1]})
    assert (query.limit, query.offset) == (3, 1)


def test_places() -> None:
    query = parse_query("[:find ?e\n :where [?e :name ?n]]", "people.edn")
    pattern = query.where[0]
    assert isinstance(pattern, Pattern)
    assert str(pattern.span) == "people.edn:2:9"
    assert [str(term.span) for term in pattern.terms] == [
        "people.edn:2:10",
        "people.edn:2:13",
        "people.edn:2:19",
    ]
    assert query.sources.between(pattern.span) == "[?e :name ?n]"
    assert (query.file, query.text) == ("people.edn", "[:find ?e\n :where [?e :name ?n]]")


def test_places_of_python_data() -> None:
    query = parse_query({":find": ["?e"], ":where": [["?e", ":name"], [("<", "?e", 3)]]})
    _, predicate = query.where
    assert isinstance(predicate, Predicate)
    assert str(predicate.span) == "query[:where][1]:1:1"
    assert str(predicate.arguments[1].span) == "query[:where][1]:1:8"
    assert query.sources.between(predicate.span) == "[(< ?e 3)]"
    listed = parse_query([":find", "?e", ":where", ["?e", ":name"]], "q")
    assert str(listed.where[0].span) == "q[3]:1:1"


@pytest.mark.parametrize("query", [None, 3, {1, 2}, b"[:find ?x]"])
def test_other_objects_are_refused(query: Any) -> None:
    with pytest.raises(ArgumentError, match=r"query: expected EDN text, or Python lists and dicts, got"):
        parse_query(query)
    with pytest.raises(ArgumentError, match=r"rules: expected EDN text, or Python lists and dicts, got"):
        parse_rules(query)


def test_text_that_is_not_edn_is_refused() -> None:
    with pytest.raises(EdnError, match=r"query:1:1: error: the vector that starts here does not end"):
        parse_query("[:find ?e :where [?e :name]")
    with pytest.raises(EdnError):
        parse_query("[:find ?e] [:find ?x]")
