"""Pull: the examples that other databases of this kind are tested with, and random patterns."""

from __future__ import annotations

from typing import Any

import pytest

from dbsp.datomic.pull import pull, pull_many, pull_with_reads
from dbsp.datomic.pull_syntax import parse_pattern
from dbsp.edn.edn_reader import read
from dbsp.edn.edn_values import Keyword
from dbsp.errors import CompileError, InputError, SchemaError, UserFunctionError

from .listed_facts import ListedFacts

REF: dict[str, Any] = {"value_type": "ref"}
REFS = REF | {"many": True}
ATTRIBUTES: dict[str, dict[str, Any]] = {
    ":name": {"value_type": "string", "unique": "identity"},
    ":aka": {"value_type": "string", "many": True},
    ":child": REFS,
    ":friend": REFS,
    ":enemy": REFS,
    ":father": REF,
    ":part": REFS | {"component": True},
    ":spec": REF | {"component": True},
}
NAMES = ["Petr", "David", "Thomas", "Lucy", "Elizabeth", "Matthew", "Eunan", "Kerri", "Rebecca"]
PARTS = {
    10: "Part A",
    11: "Part A.A",
    12: "Part A.A.A",
    13: "Part A.A.A.A",
    14: "Part A.A.A.B",
    15: "Part A.B",
    16: "Part A.B.A",
    17: "Part A.B.A.A",
    18: "Part A.B.A.B",
}
PEOPLE: list[tuple[int, str, Any]] = [
    *((number, ":name", name) for number, name in enumerate(NAMES, 1)),
    *((number, ":name", name) for number, name in PARTS.items()),
    (1, ":aka", "Tupen"),
    (1, ":aka", "Devil"),
    (1, ":child", 2),
    (1, ":child", 3),
    (2, ":father", 1),
    (3, ":father", 1),
    (6, ":father", 3),
    *((whole, ":part", part) for whole, part in [(10, 11), (10, 15), (11, 12), (12, 13), (12, 14)]),
    *((whole, ":part", part) for whole, part in [(15, 16), (16, 17), (16, 18)]),
]
FRIENDS = [(4, ":friend", 5), (5, ":friend", 6), (6, ":friend", 7), (7, ":friend", 8)]
ENEMIES = [(4, ":enemy", 6), (5, ":enemy", 7), (6, ":enemy", 8), (7, ":enemy", 4)]


def people(*more: tuple[int, str, Any], open_schema: bool = False) -> ListedFacts:
    return ListedFacts(ATTRIBUTES, [*PEOPLE, *more], open_schema=open_schema)


def edn(text: str) -> Any:
    """The value of EDN text, with lists in the place of vectors, as results have them."""
    return _listed(read(text))


def _listed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _listed(each) for key, each in value.items()}
    return [_listed(each) for each in value] if isinstance(value, tuple) else value


@pytest.mark.parametrize(
    "pattern, entity, expected",
    [
        ("[:name :aka]", 1, '{:name "Petr", :aka ["Devil" "Tupen"]}'),
        ("[:name :father :db/id]", 6, '{:name "Matthew", :father {:db/id 3}, :db/id 6}'),
        # Reverse names.
        ("[:name :_child]", 2, '{:name "David", :_child [{:db/id 1}]}'),
        ("[:name {:_child [:name]}]", 2, '{:name "David", :_child [{:name "Petr"}]}'),
        ("[:_father]", 1, "{:_father [{:db/id 2} {:db/id 3}]}"),
        ("[{:_father [:name]}]", 1, '{:_father [{:name "David"} {:name "Thomas"}]}'),
        ("[:name :_part]", 11, '{:name "Part A.A", :_part {:db/id 10}}'),
        ("[{:_part [:name]}]", 11, '{:_part {:name "Part A"}}'),
        # The wildcard.
        ("[*]", 1, '{:db/id 1, :name "Petr", :aka ["Devil" "Tupen"], :child [{:db/id 2} {:db/id 3}]}'),
        ('["*" :_child]', 2, '{:db/id 2, :name "David", :_child [{:db/id 1}], :father {:db/id 1}}'),
        (
            '[[:aka :as :alias] [:name :as "first"] *]',
            1,
            '{:alias ["Devil" "Tupen"], :child [{:db/id 2} {:db/id 3}], "first" "Petr", :db/id 1}',
        ),
        ("[* {:father [:name]}]", 6, '{:db/id 6, :name "Matthew", :father {:name "Thomas"}}'),
        ("[* [:db/id :as :id]]", 9, '{:id 9, :name "Rebecca"}'),
        ("[*]", 77, "{:db/id 77}"),
        # Defaults, and attributes without a value.
        ("[:aka]", 2, "nil"),
        ('[[:aka :default "none"]]', 2, '{:aka "none"}'),
        ('[(default :aka "none")]', 2, '{:aka "none"}'),
        ("[[:aka :as :bar :default false]]", 2, "{:bar false}"),
        ("[[:aka :default nil]]", 2, "{:aka nil}"),
        ("[:db/id [:child :default 1]]", 2, "{:child 1, :db/id 2}"),
        ("[:db/id [:_child :default 2]]", 1, "{:_child 2, :db/id 1}"),
        ("[{[:child :default 7] [:aka]}]", 1, "{:child 7}"),
        # Map specs.
        ("[:name {:father [:name]}]", 6, '{:name "Matthew", :father {:name "Thomas"}}'),
        ("[:name {:child [:name]}]", 1, '{:name "Petr", :child [{:name "David"} {:name "Thomas"}]}'),
        ("[:name {:father [:name]}]", 1, '{:name "Petr"}'),
        ("[:name {:child [:aka]}]", 1, '{:name "Petr"}'),
        ("[{:father [{:father [:name]}]}]", 6, '{:father {:father {:name "Petr"}}}'),
        ("[{:father [:name] :_father [:db/id]}]", 3, '{:father {:name "Petr"}, :_father [{:db/id 6}]}'),
        ("[:name {:part [:name]}]", 10, '{:name "Part A", :part [{:name "Part A.A"} {:name "Part A.B"}]}'),
        ("[:name {:part 1}]", 10, '{:name "Part A", :part [{:name "Part A.A"} {:name "Part A.B"}]}'),
        # Limits.
        ("[[:child :limit 1]]", 1, "{:child [{:db/id 2}]}"),
        ("[{(:child :limit 1) [:name]}]", 1, '{:child [{:name "David"}]}'),
        ("[{(limit :child 1) [:name]}]", 1, '{:child [{:name "David"}]}'),
        ("[[:aka :limit 1 :as :nick]]", 1, '{:nick ["Devil"]}'),
        # Functions.
        ("[[:name :xform str/upper-case]]", 1, '{:name "PETR"}'),
        ("[[:aka :xform count] [:db/id :xform inc]]", 1, "{:aka 2, :db/id 2}"),
        ("[[:aka :xform count :default 0]]", 2, "{:aka 0}"),
        # Lookup refs and idents.
        ("[:aka]", (":name", "Petr"), '{:aka ["Devil" "Tupen"]}'),
        ("[:aka]", (":name", "Nobody"), "nil"),
        ("[*]", [":name", "Nobody"], "{:db/id nil}"),
        ("[:db/id :aka]", (":name", "Nobody"), "{:db/id nil}"),
        ("[:db/id]", ":aka", "{:db/id 8796093022337}"),
        ("[:db/id]", Keyword("db.type/ref"), "{:db/id 8796093022247}"),
        ("[:db/id]", ":no-such-ident", "{:db/id nil}"),
    ],
)
def test_patterns(pattern: str, entity: Any, expected: str) -> None:
    assert pull(people(), pattern, entity) == edn(expected)


def test_components_are_expanded_whole() -> None:
    whole = edn(
        """{:name "Part A"
            :part [{:db/id 11 :name "Part A.A"
                    :part [{:db/id 12 :name "Part A.A.A"
                            :part [{:db/id 13 :name "Part A.A.A.A"} {:db/id 14 :name "Part A.A.A.B"}]}]}
                   {:db/id 15 :name "Part A.B"
                    :part [{:db/id 16 :name "Part A.B.A"
                            :part [{:db/id 17 :name "Part A.B.A.A"}
                                   {:db/id 18 :name "Part A.B.A.B"}]}]}]}"""
    )
    assert pull(people(), "[:name :part]", 10) == whole
    assert pull(people(), "[*]", 10) == whole | {Keyword("db/id"): 10}


def test_components_in_a_cycle_end_with_an_id() -> None:
    name, part, id_ = Keyword("name"), Keyword("part"), Keyword("db/id")
    found = pull(people((18, ":part", 15)), "[{:part [*]}]", 16)
    last = {id_: 18, name: PARTS[18]}
    inner = {id_: 16, name: "Part A.B.A", part: [{id_: 17, name: PARTS[17]}, last | {part: [{id_: 15}]}]}
    outer = {id_: 15, name: "Part A.B", part: [inner]}
    assert found == {part: [{id_: 17, name: PARTS[17]}, last | {part: [outer]}]}


FRIENDS_OF_LUCY = """
{:db/id 4 :name "Lucy"
 :friend [{:db/id 5 :name "Elizabeth"
           :friend [{:db/id 6 :name "Matthew"
                     :friend [{:db/id 7 :name "Eunan" :friend [{:db/id 8 :name "Kerri"%s}]}]}]}]}
"""


def test_recursion_without_a_limit() -> None:
    facts = people(*FRIENDS)
    assert pull(facts, "[:db/id :name {:friend ...}]", 4) == edn(FRIENDS_OF_LUCY % "")
    assert pull(facts, [":db/id", ":name", {":friend": ...}], 4) == edn(FRIENDS_OF_LUCY % "")


def test_recursion_ends_at_an_entity_that_it_has_come_to() -> None:
    again = ' :friend [{:db/id 4 :name "Lucy" :friend [{:db/id 5}]}]'
    facts = people(*FRIENDS, (8, ":friend", 4))
    assert pull(facts, "[:db/id :name {:friend ...}]", 4) == edn(FRIENDS_OF_LUCY % again)


def test_an_entity_may_be_on_two_branches() -> None:
    facts = people((1, ":friend", 2), (1, ":enemy", 2))
    pulled = pull(facts, "[:name {:friend ... :enemy ...}]", 1)
    assert pulled == edn('{:name "Petr" :friend [{:name "David"}] :enemy [{:name "David"}]}')


def test_limits_of_recursion_count_each_attribute() -> None:
    expected = """
    {:db/id 4 :name "Lucy"
     :friend [{:db/id 5 :name "Elizabeth"
               :friend [{:db/id 6 :name "Matthew" :enemy [{:db/id 8 :name "Kerri"}]}]
               :enemy [{:db/id 7 :name "Eunan"
                        :friend [{:db/id 8 :name "Kerri"}]
                        :enemy [{:db/id 4 :name "Lucy" :friend [{:db/id 5}]}]}]}]
     :enemy [{:db/id 6 :name "Matthew"
              :friend [{:db/id 7 :name "Eunan"
                        :friend [{:db/id 8 :name "Kerri"}]
                        :enemy [{:db/id 4 :name "Lucy"
                                 :enemy [{:db/id 6}]
                                 :friend [{:db/id 5 :name "Elizabeth"
                                           :enemy [{:db/id 7}] :friend [{:db/id 6}]}]}]}]
              :enemy [{:db/id 8 :name "Kerri"}]}]}"""
    facts = people(*FRIENDS, *ENEMIES)
    assert pull(facts, "[:db/id :name {:friend 2 :enemy 2}]", 4) == edn(expected)


def test_two_recursions_through_cycles() -> None:
    facts = ListedFacts(
        {":part": REF, ":spec": REF},
        [(1, ":part", 2), (2, ":part", 3), (3, ":part", 1), (1, ":spec", 2), (2, ":spec", 1)],
    )
    expected = """
    {:db/id 1
     :spec {:db/id 2
            :spec {:db/id 1 :spec {:db/id 2} :part {:db/id 2}}
            :part {:db/id 3 :part {:db/id 1 :spec {:db/id 2} :part {:db/id 2}}}}
     :part {:db/id 2
            :spec {:db/id 1 :spec {:db/id 2} :part {:db/id 2}}
            :part {:db/id 3 :part {:db/id 1 :spec {:db/id 2} :part {:db/id 2}}}}}"""
    assert pull(facts, "[:db/id {:part ...} {:spec ...}]", 1) == edn(expected)


def test_recursion_is_deeper_than_the_stack_of_python() -> None:
    depth = 5_000
    facts = ListedFacts({":next": REF}, [])
    attribute = facts.schema.attribute(":next")
    facts.values = lambda entity, _: [entity + 1] if entity < depth else []
    pulled = pull(facts, "[:db/id {:next ...}]", 1)
    for entity in range(1, depth + 1):
        assert pulled is not None and pulled[Keyword("db/id")] == entity
        pulled = pulled.get(attribute.ident)
    assert pulled is None


def test_without_a_limit_a_thousand_values_are_returned() -> None:
    facts = people(*((8, ":aka", f"aka {number:04}") for number in range(1500)))
    counts = {
        "[:aka]": 1000,
        "[*]": 1000,
        "[[:aka :limit 500]]": 500,
        "[(limit :aka 1200)]": 1200,
        "[[:aka :limit nil]]": 1500,
    }
    for pattern, count in counts.items():
        pulled = pull(facts, pattern, 8)
        assert pulled is not None
        assert pulled[Keyword("aka")] == [f"aka {number:04}" for number in range(count)]


def test_many_entities() -> None:
    found = pull_many(people(), "[:aka]", [(":name", "Elizabeth"), 1, (":name", "Nobody"), 2])
    assert found == [None, edn('{:aka ["Devil" "Tupen"]}'), None, None]


def test_the_data_of_python_is_a_pattern() -> None:
    text = '[:name [:aka :as :nicks :limit 1] {:child [:name {:_child [:db/id]}]} [:friend :default "none"]]'
    data = [
        ":name",
        [":aka", ":as", ":nicks", ":limit", 1],
        {":child": [":name", {":_child": [":db/id"]}]},
        (":friend", ":default", "none"),
    ]
    expected = pull(people(), text, 1)
    assert pull(people(), data, 1) == pull(people(), read(text), 1) == expected
    assert pull(people(), parse_pattern(text), 1) == expected
    assert expected is not None and expected[Keyword("nicks")] == ["Devil"]


def test_a_python_string_after_default_stays_a_string() -> None:
    assert pull(people(), [[":aka", ":default", ":none"]], 2) == {Keyword("aka"): ":none"}


def test_functions_of_python() -> None:
    assert pull(people(), [[":name", ":xform", len]], 1) == {Keyword("name"): 4}
    pattern = parse_pattern("[[:name :xform shout]]", functions={"shout": lambda name: name + "!"})
    assert pull(people(), pattern, 1) == {Keyword("name"): "Petr!"}


def test_an_exception_of_a_function_is_named() -> None:
    with pytest.raises(UserFunctionError, match=r"the function of :xform of :name raised ZeroDivisionError"):
        pull(people(), [[":name", ":xform", lambda name: 1 / 0]], 1)


def test_an_open_schema_has_all_attributes() -> None:
    facts = people(open_schema=True)
    assert pull(facts, "[:name :foo {:bar [:name]} :_baz]", 1) == {Keyword("name"): "Petr"}
    assert pull(facts, '[[:foo :default "bar"] {[:baz :default 1] ...}]', 1) == edn('{:foo "bar" :baz 1}')


# --- what a result depends on --------------------------------------------------------------------


@pytest.mark.parametrize(
    "pattern, entities, referenced",
    [
        ("[:name]", {1}, set()),
        ("[:name :child]", {1}, set()),
        ("[{:child [:name]}]", {1, 2, 3}, set()),
        ("[{:child [:_father]}]", {1, 2, 3}, {2, 3}),
        ("[:_father {:_father [:name]}]", {1, 2, 3}, {1}),
        ("[{:_father 1}]", {1, 2, 3}, {1, 2, 3}),  # a cycle would show ids
        ("[{:_father ...}]", {1, 2, 3, 6}, {1, 2, 3, 6}),
    ],
)
def test_reads(pattern: str, entities: set[int], referenced: set[int]) -> None:
    facts = people()
    reads = pull_with_reads(facts, pattern, 1)
    assert reads.value == pull(facts, pattern, 1)
    assert (set(reads.entities), set(reads.referenced)) == (entities, referenced)


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pattern, code, message",
    [
        ("{:a 1}", "pull-pattern", "pattern:1:1: error: expected a pattern, got {:a 1}"),
        ("[]", "pull-pattern", "pattern:1:1: error: expected a part of a pattern, got an empty vector"),
        ('[:name\n "age"]', "pull-pattern", 'pattern:2:2: error: expected an attribute, got "age"'),
        ("[:name 3]", "pull-pattern", "pattern:1:8: error: expected an attribute, got 3"),
        ("[[]]", "pull-pattern", "pattern:1:2: error: expected an attribute, got []"),
        ("[{}]", "pull-pattern", "expected an attribute and a pattern, got an empty map"),
        (
            "[{:child 0}]",
            "pull-pattern",
            "a positive number or ... as the value of a map, got 0",
        ),
        ("[{:child :name}]", "pull-pattern", "as the value of a map, got :name"),
        ("[{:child true}]", "pull-pattern", "as the value of a map, got true"),
        ("[[:aka :limt 3]]", "pull-pattern", "pattern:1:8: error: expected an option of :aka, got :limt"),
        ("[[:aka :limt 3]]", "pull-pattern", "hint: did you mean :limit?"),
        ([(":aka", ":as", ["nick"])], "pull-pattern", "expected a key of the result after :as, got (nick)"),
        ("[[:aka :limit]]", "pull-pattern", "the option :limit of :aka has no value"),
        ("[[:aka :limit 1 :limit 2]]", "pull-pattern", "the option :limit occurs twice; remove one of them"),
        ("[[:aka :limit 0]]", "pull-pattern", "expected a positive number or nil as a limit, got 0"),
        ("[[:aka :limit true]]", "pull-pattern", "expected a positive number or nil as a limit, got true"),
        ("[(limit :aka)]", "pull-pattern", "expected an attribute and a value after limit, got (limit :aka)"),
        ("[[:aka :xform 3]]", "pull-pattern", "expected a function as the value of :xform, got 3"),
        ("[[:aka :xform str/uper-case]]", "pull-pattern", "unknown function str/uper-case"),
        ("[:nam]", "unknown-attribute", "pattern:1:2: error: unknown attribute :nam [unknown-attribute]"),
        ("[:nam]", "unknown-attribute", "hint: did you mean :name?"),
        ("[:zebra]", "unknown-attribute", "hint: define it by a transaction with its :db/ident"),
        ("[{:child [:_chld]}]", "unknown-attribute", "pattern:1:11: error: unknown attribute :chld"),
        (
            "[:_name]",
            "pull-pattern",
            ":name has values of type string, so nothing refers to an entity",
        ),
        (
            "[{:name [*]}]",
            "pull-pattern",
            ":name has values of type string, so no pattern applies to them",
        ),
        (
            "[{:aka ...}]",
            "pull-pattern",
            ":aka has values of type string, so no pattern applies to them",
        ),
        ("[[:name :limit 2]]", "pull-pattern", ":name has at most one value, so it accepts no :limit"),
        ("[[:_part :limit 2]]", "pull-pattern", ":_part has at most one value, so it accepts no :limit"),
        (
            "[[:db/id :default 1]]",
            "pull-pattern",
            ":db/id is a number; it accepts the options :as and :xform",
        ),
    ],
)
def test_wrong_patterns(pattern: Any, code: str, message: str) -> None:
    with pytest.raises(CompileError) as raised:
        pull(people(), pattern, 1)
    assert message in str(raised.value)
    assert [each.code for each in raised.value.diagnostics] == [code]


def test_wrong_data_of_python_is_shown() -> None:
    with pytest.raises(CompileError) as raised:
        pull(people(), [":name", {":child": [":name", "age"]}], 1)
    assert str(raised.value).splitlines()[:3] == [
        'pattern[1]:1:16: error: expected an attribute, got "age" [pull-pattern]',
        '    {:child [:name "age"]}',
        "                   ^^^^^",
    ]


@pytest.mark.parametrize("entity", ["ada", 1.5, True, None, (":name",), (1, 2), {}])
def test_wrong_entities(entity: Any) -> None:
    with pytest.raises(
        InputError, match="expected the id of an entity, an ident such as :color/red"
    ) as raised:
        pull(people(), "[*]", entity)
    assert raised.value.code == "unknown-entity"


def test_a_lookup_ref_needs_a_unique_attribute() -> None:
    with pytest.raises(InputError, match=r"the values of :aka are not unique; use an attribute with"):
        pull(people(), "[*]", (":aka", "Devil"))
    with pytest.raises(SchemaError, match="unknown attribute :nmae; did you mean :name"):
        pull(people(), "[*]", (":nmae", "Devil"))
