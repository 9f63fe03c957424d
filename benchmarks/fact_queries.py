"""The queries of the benchmark of databases of facts, with their results in plain Python.

Each query has a change of one fact that removes rows from the result, and its inverse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from benchmarks.fact_data import Dataset, Transaction, lineage_of

Values: TypeAlias = Mapping[str, Mapping[int, Any]]
Rows: TypeAlias = set[tuple[Any, ...]]
Lineage: TypeAlias = Mapping[int, Sequence[int]]
"""The advisors of each student."""

RULES = """
[[(adv ?advisor ?student)
  [?advisor :person/advised ?d]
  [?d :dissertation/cid ?student]]
 [(univ ?person ?u)
  [?d :dissertation/cid ?person]
  [?d :dissertation/univ ?u]]
 [(area ?person ?a)
  [?d :dissertation/cid ?person]
  [?d :dissertation/area ?a]]
 [(anc ?ancestor ?person)
  (adv ?ancestor ?person)]
 [(anc ?ancestor ?person)
  (adv ?advisor ?person)
  (anc ?ancestor ?advisor)]]
"""


@dataclass(frozen=True)
class FactQuery:
    """A query, its inputs besides the database, and the aims in seconds."""

    name: str
    text: str
    inputs: tuple[Any, ...]
    aim: float | None
    live_aim: float
    expected: Rows
    change: Transaction
    """Removes rows of the result."""
    undo: Transaction


def person_queries(facts: Dataset) -> list[FactQuery]:
    """The six queries that databases of facts are usually measured with."""
    values = facts.values()
    ages, sexes, salaries = values[":age"], values[":sex"], values[":salary"]
    ivans = [person for person, name in values[":name"].items() if name == "Ivan"]
    ivan = next(person for person in ivans if sexes[person] == ":male")
    rich = next(person for person, salary in salaries.items() if salary > 50_000)

    def query(
        name: str, text: str, rows: Rows, change: tuple[int, str, Any], *inputs: Any, aim: float = 1e-3
    ) -> FactQuery:
        entity, attribute, value = change
        return FactQuery(
            name,
            text,
            inputs,
            aim,
            100e-6,
            rows,
            [[":db/add", entity, attribute, value]],
            [[":db/add", entity, attribute, values[attribute][entity]]],
        )

    of_ivans = {(person, ages[person]) for person in ivans}
    well_paid = {(person, salary) for person, salary in salaries.items() if salary > 50_000}
    renamed, robbed = (ivan, ":name", "Oleg"), (rich, ":salary", 10)
    return [
        query("q1", '[:find ?e :where [?e :name "Ivan"]]', {(person,) for person in ivans}, renamed),
        query("q2", '[:find ?e ?a :where [?e :name "Ivan"] [?e :age ?a]]', of_ivans, renamed),
        query("q2-switch", '[:find ?e ?a :where [?e :age ?a] [?e :name "Ivan"]]', of_ivans, renamed),
        query(
            "q3",
            '[:find ?e ?a :where [?e :name "Ivan"] [?e :age ?a] [?e :sex :male]]',
            {(person, age) for person, age in of_ivans if sexes[person] == ":male"},
            renamed,
        ),
        query("qpred1", "[:find ?e ?s :where [?e :salary ?s] [(> ?s 50000)]]", well_paid, robbed),
        query(
            "qpred2",
            "[:find ?e ?s :in $ ?min :where [?e :salary ?s] [(> ?s ?min)]]",
            well_paid,
            robbed,
            50_000,
        ),
    ]


def genealogy_queries(facts: Dataset, *, pairs_of_all: bool = False) -> list[FactQuery]:
    """Grand-advisors of a person and of everyone, same university, different area, ancestors.

    With `pairs_of_all` also the ancestors of everyone, which are many in a large genealogy.
    """
    values = facts.values()
    names, advised, authors = (
        values[name] for name in (":person/name", ":person/advised", ":dissertation/cid")
    )
    advisors = lineage_of(facts)
    universities, areas = (
        {authors[d]: value for d, value in values[name].items() if d in authors}
        for name in (":dissertation/univ", ":dissertation/area")
    )
    pairs = {(student, advisor) for student, found in advisors.items() for advisor in found}
    grand = {(student, elder) for student, advisor in pairs for elder in advisors.get(advisor, ())}
    student, ancestors = _well_descended(advisors)

    def query(
        name: str, text: str, rows: Rows, aim: float | None, pair: tuple[int, int] | None, *inputs: Any
    ) -> FactQuery:
        change: Transaction = []
        undo: Transaction = []
        if pair is not None:
            dissertation = next(d for d in advised[pair[1]] if authors[d] == pair[0])
            fact = [pair[1], ":person/advised", dissertation]
            change, undo = [[":db/retract", *fact]], [[":db/add", *fact]]
        return FactQuery(name, text, (RULES, *inputs), aim, 1e-3, rows, change, undo)

    same = {pair for pair in pairs if _equal(universities, *pair)}
    different = {pair for pair in pairs if _equal(areas, *pair) is False}
    elders = partial(_elders_of, person=student)
    with_elders = min((pair for pair in pairs if advisors.get(pair[1])), default=None)
    queries = [
        query(
            "grand-advisors of one",
            """[:find ?name :in $ % ?student
                :where (adv ?advisor ?student) (adv ?elder ?advisor) [?elder :person/name ?name]]""",
            {(names[elder],) for elder in elders(advisors) if elder in names},
            15e-3,
            _noticed(advisors, student, elders),
            student,
        ),
        query(
            "grand-advisors of all",
            "[:find ?student ?elder :in $ % :where (adv ?advisor ?student) (adv ?elder ?advisor)]",
            grand,
            15e-3,
            with_elders,
        ),
        query(
            "same university",
            """[:find ?student ?advisor :in $ %
                :where (adv ?advisor ?student) (univ ?advisor ?u) (univ ?student ?u)]""",
            same,
            300e-3,
            min(same, default=None),
        ),
        query(
            "different area",
            """[:find ?student ?advisor :in $ %
                :where (adv ?advisor ?student) (area ?advisor ?a) (area ?student ?b) [(!= ?a ?b)]]""",
            different,
            250e-3,
            min(different, default=None),
        ),
        query(
            "ancestors of one",
            "[:find ?ancestor :in $ % ?person :where (anc ?ancestor ?person)]",
            {(ancestor,) for ancestor in ancestors},
            3e-3,
            _noticed(advisors, student, partial(ancestors_of, person=student)),
            student,
        ),
    ]
    if pairs_of_all:
        descent = {(elder, person) for person in advisors for elder in ancestors_of(advisors, person)}
        text = "[:find ?ancestor ?person :in $ % :where (anc ?ancestor ?person)]"
        queries.append(query("ancestors of all", text, descent, None, min(same, default=None)))
    return queries


def ancestors_of(advisors: Lineage, person: int) -> set[int]:
    """The advisors of a person, their advisors, and so on."""
    found: set[int] = set()
    waiting = [person]
    while waiting:
        new = [advisor for advisor in advisors.get(waiting.pop(), ()) if advisor not in found]
        found.update(new)
        waiting += new
    return found


def _elders_of(advisors: Lineage, person: int) -> set[int]:
    """The advisors of the advisors of a person."""
    return {elder for advisor in advisors.get(person, ()) for elder in advisors.get(advisor, ())}


def _noticed(
    advisors: Lineage, student: int, result: Callable[[Lineage], set[int]]
) -> tuple[int, int] | None:
    """A student near `student`, and an advisor without whom the result is another."""
    before = result(advisors)
    for person in (student, *advisors[student]):
        for advisor in advisors.get(person, ()):
            others = [one for one in advisors[person] if one != advisor]
            if result({**advisors, person: others}) != before:
                return person, advisor
    return None


def _equal(values: Mapping[int, Any], first: int, second: int) -> bool | None:
    """Whether two persons have equal values; None if one has none."""
    if first not in values or second not in values:
        return None
    return bool(values[first] == values[second])


def _well_descended(advisors: Lineage) -> tuple[int, set[int]]:
    """The student with the most ancestors of the last hundred."""
    found = {student: ancestors_of(advisors, student) for student in sorted(advisors)[-100:]}
    student = max(found, key=lambda person: (len(found[person]), person))
    return student, found[student]
