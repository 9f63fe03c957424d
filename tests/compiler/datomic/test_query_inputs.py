"""Arguments of a query as rows of inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dbsp.compiler.datalog.tree.kinds import VALUE, AnyKind, Kind, type_of
from dbsp.compiler.datomic.circuits.query_inputs import (
    QueryInputs,
    kind_of_value,
    kind_of_values,
)
from dbsp.compiler.datomic.meaning.checked_rules import NIL, check_rules
from dbsp.compiler.datomic.meaning.draft_rules import QUERY
from dbsp.compiler.datomic.text.query_parser import parse_query
from dbsp.data.interner import Interner
from dbsp.data.values import decode_value
from dbsp.diagnostics import ProgramSources
from dbsp.edn.edn_values import Keyword

from .draft_text import TestCatalog, written


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (1, Kind.NUMBER),
        (-(2**63), Kind.NUMBER),
        (2**63 - 1, Kind.NUMBER),
        (2**63, VALUE),
        (True, VALUE),
        (1.5, Kind.FLOAT),
        ("text", Kind.SYMBOL),
        (Keyword("a"), VALUE),
        (None, VALUE),
        ((1, 2), VALUE),
    ],
)
def test_kinds_of_values(value: Any, kind: AnyKind) -> None:
    assert kind_of_value(value) == kind
    assert kind_of_values([value, value]) == kind


def test_the_common_kind_of_values() -> None:
    assert kind_of_values([]) is None
    assert kind_of_values([1, 2.0]) == VALUE
    assert kind_of_values([1, True]) == VALUE
    assert kind_of_values(iter(["a", "b"])) == Kind.SYMBOL


class Compiled:
    """The inputs of a query over the catalog of tests, with the kinds of its arguments."""

    def __init__(self, query: str, kinds: dict[str, AnyKind | None], **sources: TestCatalog) -> None:
        draft = written(query, **sources)
        self.interner = Interner()
        self.inputs = QueryInputs(parse_query(query), draft)
        self.given = self.inputs.kinds(kinds)
        self.checked = check_rules(draft, self.given, ("result",), ProgramSources({"query": query}))
        self.inputs.settle(self.checked)

    def rows(self, *arguments: Any, entities: Any = None, **tuples: Any) -> dict[str, list[tuple[Any, ...]]]:
        """Return the decoded rows of every input."""
        found = {}
        sources = {name.replace("s", "$", 1): rows for name, rows in tuples.items()}
        batches = self.inputs.batches(arguments, sources, self.interner, (entities or {}).get)
        for name, batch in batches.items():
            assert np.all(batch.weights == 1)
            columns = range(len(self.inputs.columns[name]))
            types = [type_of(self.checked.kinds.of_column(name, at)) for at in columns]
            found[name] = [
                tuple(
                    decode_value(type_, int(code), self.interner)
                    for type_, code in zip(types, row, strict=True)
                )
                for row in batch.rows
            ]
        return found


def test_constants_and_single_values_are_one_row() -> None:
    one = Compiled(
        '[:find ?e :in $ ?x [?y ?z] :where [?e :a ?x] [?e :c "t"] [?e :c ?y] [?e :key ?z]]',
        {"?x": Kind.NUMBER, "?y": Kind.SYMBOL, "?z": VALUE},
    )
    assert one.rows(None, 7, ["u", Keyword("k")]) == {QUERY: [(7, "u", Keyword("k"), "t")]}


def test_a_nil_of_a_single_value_gives_no_row() -> None:
    one = Compiled("[:find ?e :in $ [?x ?y] :where [?e :a ?x] [?e :c ?y]]", {"?x": Kind.NUMBER, "?y": None})
    assert one.rows(None, [7, None]) == {QUERY: []}


def test_collections_are_sets_of_rows() -> None:
    one = Compiled(
        "[:find ?e :in $ [?x ...] [[?y _ ?z]] :where [?e :a ?x] [?e :c ?y] [?e :b ?z] [?e :b 1]]",
        {"?x": Kind.NUMBER, "?y": Kind.SYMBOL, "?z": Kind.NUMBER},
    )
    found = one.rows(None, [3, 1, 3, None], [["a", 0, 1], ("b", 0, 2), ["a", 9, 1]])
    assert found[QUERY] == [(1,)]
    assert found["in1"] == [(1,), (3,)]
    assert sorted(found["in2"]) == [("a", 1), ("b", 2)]


def test_no_values_have_the_kind_that_the_query_wants() -> None:
    one = Compiled("[:find ?e :in $ [?x ...] :where [?e :a ?x]]", {"?x": None})
    assert one.given["in1"] == [None]
    assert one.checked.kinds.of_column("in1", 0) == Kind.NUMBER
    assert one.rows(None, [])["in1"] == []


def test_values_of_several_kinds_are_boxed() -> None:
    one = Compiled("[:find ?e :in $ [?x ...] :where [?e :a ?x]]", {"?x": VALUE})
    assert one.checked.kinds.of_column("in1", 0) == VALUE
    found = one.rows(None, [1, 1.0, True, "1", [1]])["in1"]
    assert sorted(map(repr, found)) == sorted(["(1,)", "(1.0,)", "(True,)", "('1',)", "((1,),)"])


def test_entities_are_found_by_idents_and_lookup_refs() -> None:
    one = Compiled("[:find ?x :in $ ?e [?f ...] :where [?e :a ?x] [?f :a ?x]]", {"?e": VALUE, "?f": VALUE})
    assert one.inputs.entities == {"?e", "?f"}
    assert one.given == {QUERY: [Kind.NUMBER], "in2": [Kind.NUMBER]}
    entities = {Keyword("red"): 5, (Keyword("c"), "x"): 6}
    found = one.rows(None, Keyword("red"), [(Keyword("c"), "x"), 7, Keyword("blue")], entities=entities)
    assert found == {QUERY: [(5,)], "in2": [(6,), (7,)]}
    assert one.rows(None, Keyword("blue"), [7], entities=entities) == {QUERY: [], "in2": [(7,)]}


def test_tuples_are_cut_to_the_width_that_is_read() -> None:
    one = Compiled(
        "[:find ?x :in $2 :where [$2 ?x 3] [$2 ?x _ ?y]]",
        {"$2 2 0": Kind.NUMBER, "$2 2 1": Kind.NUMBER, "$2 3 0": Kind.NUMBER, "$2 3 2": Kind.SYMBOL},
        s2=TestCatalog(is_database=False),
    )
    found = one.rows(None, s2=[(1, 3), [2, 3, "a"], (2, 3, "b", "more"), (9,)])
    assert found["$2 2"] == [(1, 3), (2, 3)]
    assert sorted((row[0], row[2]) for row in found["$2 3"]) == [(2, "a"), (2, "b")]


def test_nil_in_a_tuple_is_stored() -> None:
    one = Compiled("[:find ?x :in $2 :where [$2 ?x]]", {"$2 1 0": VALUE}, s2=TestCatalog(is_database=False))
    assert one.rows(None, s2=[(None,)])["$2 1"] == [(NIL,)]
