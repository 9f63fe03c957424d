"""The data of the benchmark of databases of facts, and the expected results of its queries."""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

from benchmarks import fact_databases
from benchmarks.fact_data import (
    OLDEST,
    YOUNGEST,
    Column,
    Dataset,
    genealogy,
    lineage_of,
    person_data,
    read_lineage,
)
from benchmarks.fact_databases import (
    SIZES,
    Answered,
    Committed,
    Imported,
    differences,
    live_problems,
    measure_databases,
)
from benchmarks.fact_queries import FactQuery, Rows, ancestors_of, genealogy_queries, person_queries
from benchmarks.fact_report import print_databases
from dbsp.datomic import QueryDelta

PEOPLE, PERSONS, ADVISED = 60, 120, 150


def datoms(facts: Dataset) -> set[tuple[int, str, object]]:
    return {(entity, attribute, value) for _, entity, attribute, value in facts.vectors()}


def without(facts: Dataset, query: FactQuery) -> Dataset:
    """The facts after the query's change."""
    left = datoms(facts)
    for operation, entity, attribute, value in query.change:
        if operation == ":db/add":
            left = {fact for fact in left if fact[:2] != (entity, attribute)} | {(entity, attribute, value)}
        else:
            left.remove((entity, attribute, value))
    return facts_of(left, facts)


def facts_of(left: set[tuple[int, str, object]], like: Dataset) -> Dataset:
    columns = {}
    for attribute, column in like.columns.items():
        rows = sorted((entity, value) for entity, name, value in left if name == attribute)
        entities = np.array([entity for entity, _ in rows], np.int64)
        columns[attribute] = Column(entities, pa.array([value for _, value in rows], column.values.type))
    return replace(like, columns=columns)


def brute_force(name: str, facts: Dataset, inputs: tuple[object, ...]) -> Rows:
    """The result of a query as nested loops over all facts."""
    every = datoms(facts)

    def pairs(attribute: str) -> set[tuple[int, object]]:
        return {(entity, value) for entity, known, value in every if known == attribute}

    if name.startswith("q"):
        rows = {
            "q1": {(e,) for e, n in pairs(":name") if n == "Ivan"},
            "q3": {
                (e, a)
                for e, n in pairs(":name")
                for other, a in pairs(":age")
                for third, sex in pairs(":sex")
                if n == "Ivan" and e == other == third and sex == ":male"
            },
            "qpred1": {(e, s) for e, s in pairs(":salary") if s > 50_000},
        }
        two = {(e, a) for e, n in pairs(":name") for other, a in pairs(":age") if n == "Ivan" and e == other}
        return (rows | {"q2": two, "q2-switch": two, "qpred2": rows["qpred1"]})[name]
    adv = {
        (advisor, student)
        for advisor, d in pairs(":person/advised")
        for other, student in pairs(":dissertation/cid")
        if d == other
    }
    if name.startswith("grand"):
        grand = {(student, elder) for a, student in adv for elder, other in adv if a == other}
        if name.endswith("all"):
            return grand
        return {(n,) for s, elder in grand for e, n in pairs(":person/name") if s == inputs[1] and e == elder}
    if name.startswith("ancestors"):
        closure = set(adv)
        while grown := {(a, c) for a, b in closure for other, c in adv if b == other} - closure:
            closure |= grown
        if name.endswith("all"):
            return closure
        return {(ancestor,) for ancestor, person in closure if person == inputs[1]}
    wanted = ":dissertation/univ" if name == "same university" else ":dissertation/area"
    of = {
        (person, value)
        for d, person in pairs(":dissertation/cid")
        for other, value in pairs(wanted)
        if d == other
    }
    return {
        (student, advisor)
        for advisor, student in adv
        for person, first in of
        for other, second in of
        if advisor == person and student == other and (first == second) == (name == "same university")
    }


def test_people_are_100_000_datoms() -> None:
    facts = person_data(20_000)
    assert facts.datoms == 100_000
    assert datoms(facts) == datoms(person_data(20_000))
    assert datoms(facts) != datoms(person_data(20_000, seed=1))


def test_people_have_aliases() -> None:
    facts = person_data(500, aliases=True)
    assert len(facts.vectors()) == len(datoms(facts)) == facts.datoms
    listed = [len(person.get(":alias", ())) for person in facts.maps()]
    assert set(listed) == set(range(10))


@pytest.mark.parametrize("facts", [person_data(PEOPLE, aliases=True), genealogy(PERSONS, ADVISED)])
def test_maps_and_tables_are_the_same_facts_as_vectors(facts: Dataset) -> None:
    found = set()
    for entity in facts.maps():
        for attribute, value in entity.items():
            if attribute != ":db/id":
                values = value if isinstance(value, list) else [value]
                found |= {(entity[":db/id"], attribute, one) for one in values}
    assert found == datoms(facts)
    assert set(facts.schema) == set(facts.columns)
    in_tables = [
        (entity, attribute, value)
        for entities, columns in facts.tables()
        for attribute, values in columns.items()
        for entity, value in zip(entities.tolist(), values.to_pylist(), strict=True)
    ]
    assert len(in_tables) == facts.datoms and set(in_tables) == datoms(facts)
    assert len(facts.tables()) == (3 if ":person/name" in facts.schema else 2)


def test_advisors_are_earlier_than_students_and_skewed() -> None:
    facts = genealogy(20_000, 22_400)
    years = facts.columns[":dissertation/year"].values.to_numpy()
    pairs = [(advisor, student) for student, found in lineage_of(facts).items() for advisor in found]
    assert len(pairs) == len(set(pairs)) == 22_400
    assert all(YOUNGEST <= years[student - 1] - years[advisor - 1] <= OLDEST for advisor, student in pairs)
    students = Counter(advisor for advisor, _ in pairs)
    most = [number for _, number in students.most_common(len(students) // 100)]
    assert sum(most) > 0.05 * len(pairs)  # one advisor in a hundred


@pytest.mark.parametrize("seed", range(3))
def test_expected_rows_of_people(seed: int) -> None:
    facts = person_data(PEOPLE, seed=seed)
    for query in person_queries(facts):
        assert query.expected == brute_force(query.name, facts, query.inputs)
        assert query.expected


@pytest.mark.parametrize("seed", range(3))
def test_expected_rows_of_the_genealogy(seed: int) -> None:
    facts = genealogy(PERSONS, ADVISED, seed=seed)
    for query in genealogy_queries(facts, pairs_of_all=True):
        assert query.expected == brute_force(query.name, facts, query.inputs)
        assert query.expected


@pytest.mark.parametrize(
    "facts, queries",
    [(person_data(PEOPLE), person_queries), (genealogy(PERSONS, ADVISED), genealogy_queries)],
)
def test_each_change_removes_rows(facts: Dataset, queries: object) -> None:
    for query in queries(facts):  # type: ignore[operator]
        changed = brute_force(query.name, without(facts, query), query.inputs)
        assert changed < query.expected, query.name


def test_a_lineage_is_read_from_two_files(tmp_path: Path) -> None:
    (tmp_path / "person.tsv").write_text("7\tAda\t1900\tUK\n9\tBob\t\t\n8\tCy\t1950\tUK\n")
    (tmp_path / "advised.tsv").write_text("7\t9\n9\t8\n")
    facts = read_lineage(tmp_path)
    assert datoms(facts) == {
        (7, ":person/name", "Ada"),
        (8, ":person/name", "Cy"),
        (9, ":person/name", "Bob"),
        (7, ":person/advised", 18),
        (9, ":person/advised", 17),
        (16, ":dissertation/cid", 7),
        (17, ":dissertation/cid", 8),
        (18, ":dissertation/cid", 9),
        (16, ":dissertation/univ", "UK"),
        (17, ":dissertation/univ", "UK"),
        (16, ":dissertation/year", 1900),
        (17, ":dissertation/year", 1950),
    }
    assert ancestors_of(lineage_of(facts), 8) == {7, 9}


# --- the measurements ----------------------------------------------------------------------------


def test_every_query_of_the_benchmark_has_the_expected_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fact_databases, "MOST_CALLS", 6)
    measured = list(measure_databases(SIZES["tiny"]))
    answered = [one for one in measured if isinstance(one, Answered)]
    assert [one.query.name for one in answered][:6] == ["q1", "q2", "q2-switch", "q3", "qpred1", "qpred2"]
    assert len(answered) == 11
    assert [one.problems for one in answered] == [()] * 11
    assert all(one.rows == len(one.query.expected) and one.tick is not None for one in answered)
    assert {one.form for one in measured if isinstance(one, Imported)} == {
        f"{form}, {storage}" for form in ("maps", "vectors", "columns") for storage in ("memory", "folder")
    }
    assert [one.storage for one in measured if isinstance(one, Committed)] == ["memory", "folder"]
    console = Console(file=io.StringIO(), width=250)
    assert print_databases(console, measured)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "grand-advisors of all" in text and "WRONG" not in text


def test_a_lineage_of_files_has_all_pairs_of_ancestors(tmp_path: Path) -> None:
    people = [f"{number}\tPerson {number}\t{1900 + number}\tUK\n" for number in range(1, 8)]
    (tmp_path / "person.tsv").write_text("".join(people))
    (tmp_path / "advised.tsv").write_text("".join(f"{n}\t{n + 1}\n" for n in range(1, 7)))
    (answered,) = [
        one
        for one in measure_databases((1, 1), tmp_path, only="ancestors of all")
        if isinstance(one, Answered)
    ]
    assert (answered.rows, answered.problems) == (21, ())


def test_wrong_rows_are_reported() -> None:
    expected = {(1,), (2,)}
    assert differences("live", [(1,), (2,)], expected) == []
    (problem,) = differences("live", [(1,), (1,), (3,)], expected)
    assert problem == "live: 1 rows are missing, 1 are wrong, 1 occur twice"
    query = person_queries(person_data(PEOPLE))[0]
    deltas = [QueryDelta(3, [((1,), 1)])]
    assert live_problems(query.expected, deltas, query) == [
        "transaction 3: expected lost rows and new rows by turns, got {1}"
    ]
    assert live_problems(query.expected, [], query) == ["no transaction changed the result"]
    answered = Answered("people", query, 1, 0.1, 0.1, 0.1, None, None, None, 0, ("live: a problem",))
    console = Console(file=io.StringIO(), width=250)
    assert not print_databases(console, [answered])
    assert "q1: live: a problem" in console.file.getvalue()  # type: ignore[attr-defined]
