"""Facts about entities for the benchmark of databases of facts: people, and a genealogy.

    person_data   people with a first and last name, sex, age and salary, as other databases of
                  this kind are measured with: 20,000 people are 100,000 datoms
    genealogy     persons, their dissertations and who advised them, like the Mathematics
                  Genealogy: acyclic, with few advisors who have many students
    read_lineage  the same of two TSV files, person.tsv and advised.tsv

The data depends only on the arguments.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from benchmarks.changes import Codes

Transaction: TypeAlias = list[Any]

FIRST_NAMES = ("Ivan", "Petr", "Sergei", "Oleg", "Yuri", "Dmitry", "Fedor", "Denis")
LAST_NAMES = ("Ivanov", "Petrov", "Sidorov", "Kovalev", "Kuznetsov", "Voronoi")
SEXES = (":male", ":female")
ALIASES = (
    "A. C. Q. W.",
    "A. J. Finn",
    "A.A. Fair",
    "Aapeli",
    "Aaron Wolfe",
    "Abigail Van Buren",
    "Jeanne Phillips",
    "Abram Tertz",
    "Abu Nuwas",
    "Acton Bell",
    "Adunis",
)
MOST_ALIASES = 10

FIRST_YEAR, LAST_YEAR = 1650, 2020
YOUNGEST, OLDEST = 4, 45
"""The years between the degrees of an advisor and of a student."""

SUBJECTS = 60
SAME_PLACE, SAME_SUBJECT = 0.35, 0.75
"""How often a student has the university and the area of the first advisor."""


@dataclass(frozen=True)
class Column:
    """The facts of one attribute: entity ids beside values."""

    entities: Codes
    values: pa.Array

    def __len__(self) -> int:
        return len(self.entities)


@dataclass(frozen=True)
class Dataset:
    """Facts by attribute, with the schema of the attributes."""

    schema: dict[str, dict[str, str]]
    columns: dict[str, Column]

    @property
    def datoms(self) -> int:
        """The number of facts."""
        return sum(map(len, self.columns.values()))

    def many(self, attribute: str) -> bool:
        """Whether an entity has several values of the attribute."""
        return self.schema[attribute].get(":db/cardinality") == ":db.cardinality/many"

    def values(self) -> dict[str, dict[int, Any]]:
        """The values by attribute and entity; a list for an attribute of several values."""
        found: dict[str, dict[int, Any]] = {}
        for attribute, column in self.columns.items():
            pairs = zip(column.entities.tolist(), column.values.to_pylist(), strict=True)
            if self.many(attribute):
                lists: defaultdict[int, list[Any]] = defaultdict(list)
                for entity, value in pairs:
                    lists[entity].append(value)
                found[attribute] = dict(lists)
            else:
                found[attribute] = dict(pairs)
        return found

    def maps(self) -> Transaction:
        """One map per entity, in the order of their ids."""
        entities: defaultdict[int, dict[str, Any]] = defaultdict(dict)
        for attribute, values in self.values().items():
            for entity, value in values.items():
                entities[entity][attribute] = value
        return [{":db/id": entity, **entities[entity]} for entity in sorted(entities)]

    def tables(self) -> list[tuple[Codes, dict[str, pa.Array]]]:
        """Columns of entities with the columns of the attributes that have just these entities."""
        tables: dict[bytes, tuple[Codes, dict[str, pa.Array]]] = {}
        for attribute, column in self.columns.items():
            entities = column.entities
            tables.setdefault(entities.tobytes(), (entities, {}))[1][attribute] = column.values
        return list(tables.values())

    def vectors(self) -> Transaction:
        """One `[:db/add e a v]` per fact."""
        return [
            [":db/add", entity, attribute, value]
            for attribute, column in self.columns.items()
            for entity, value in zip(column.entities.tolist(), column.values.to_pylist(), strict=True)
        ]


def person_data(people: int, *, aliases: bool = False, seed: int = 0) -> Dataset:
    """People with the ids 1, 2, ..., five facts each; with `aliases` up to nine more."""
    chance = np.random.default_rng(seed)
    ids = np.arange(1, people + 1)

    def any_of(texts: tuple[str, ...]) -> Column:
        return Column(ids, pa.array(texts).take(pa.array(chance.integers(0, len(texts), people))))

    columns = {
        ":name": any_of(FIRST_NAMES),
        ":last-name": any_of(LAST_NAMES),
        ":sex": any_of(SEXES),
        ":age": Column(ids, pa.array(chance.integers(0, 100, people))),
        ":salary": Column(ids, pa.array(chance.integers(0, 100_000, people))),
    }
    schema = {
        attribute: {":db/valueType": f":db.type/{kind}"}
        for attribute, kind in zip(columns, ("string", "string", "keyword", "long", "long"), strict=True)
    }
    if aliases:
        # A set of values: what is drawn twice is one fact.
        drawn = np.repeat(ids, chance.integers(0, MOST_ALIASES, people)) * len(ALIASES)
        pairs = np.unique(drawn + chance.integers(0, len(ALIASES), len(drawn)))
        entities, numbers = np.divmod(pairs, len(ALIASES))
        columns[":alias"] = Column(entities, pa.array(ALIASES).take(pa.array(numbers)))
        schema[":alias"] = {":db/valueType": ":db.type/string", ":db/cardinality": ":db.cardinality/many"}
    return Dataset(schema, columns)


def genealogy(people: int = 250_000, advised: int = 280_000, seed: int = 0) -> Dataset:
    """Persons with the ids 1 to `people`, and the dissertation of person p with the id people + p.

    `advised` is the number of pairs of an advisor and a dissertation. An advisor has the degree
    YOUNGEST to OLDEST years before the student, so nobody is an ancestor of himself; the number of
    students of an advisor follows a power law.
    """
    chance = np.random.default_rng(seed)
    # The number of degrees doubles every 35 years.
    span = LAST_YEAR - FIRST_YEAR
    growth = np.log2(1 + chance.random(people) * (2 ** (span / 35) - 1)) * 35
    years = np.sort(FIRST_YEAR + np.minimum(growth, span).astype(np.int64))
    pairs = _advisors(chance, years, advised)
    places = _skewed(chance, max(2, min(1_000, people // 40)), people)
    subjects = _skewed(chance, SUBJECTS, people)
    students, first = np.unique(pairs[:, 1], return_index=True)
    stays, keeps = chance.random(len(students)) < SAME_PLACE, chance.random(len(students)) < SAME_SUBJECT
    # In the order of the years, so that an advisor's own place is known.
    for student, at, stay, keep in zip(
        students.tolist(), first.tolist(), stays.tolist(), keeps.tolist(), strict=True
    ):
        advisor = pairs[at, 0]
        if stay:
            places[student] = places[advisor]
        if keep:
            subjects[student] = subjects[advisor]
    ids = np.arange(1, people + 1)
    return _lineage(
        Column(ids, pa.array([f"Person {number}" for number in range(1, people + 1)])),
        Column(ids, pa.array(years)),
        Column(ids, pa.array([f"University {place}" for place in places.tolist()])),
        Column(ids, pa.array([f"Area {subject}" for subject in subjects.tolist()])),
        pairs + 1,
        offset=people,
    )


def read_lineage(folder: Path) -> Dataset:
    """Read person.tsv (id, name, year, country) and advised.tsv (advisor, student).

    The country is the dissertation's university; there are no areas.
    """
    rows = [line.split("\t") for line in (folder / "person.tsv").read_text("utf-8").splitlines()]
    ids = np.array([int(row[0]) for row in rows], np.int64)

    def column(position: int) -> Iterator[tuple[int, str]]:
        return ((int(row[0]), row[position]) for row in rows if row[position])

    def texts(position: int) -> Column:
        entities, values = zip(*column(position), strict=True)
        return Column(np.array(entities, np.int64), pa.array(values))

    years = texts(2)
    pairs = np.loadtxt(folder / "advised.tsv", np.int64, delimiter="\t", ndmin=2)
    return _lineage(
        texts(1),
        Column(years.entities, years.values.cast(pa.int64())),
        texts(3),
        Column(ids[:0], pa.array([], pa.string())),
        pairs,
        offset=int(ids.max()),
    )


def lineage_of(facts: Dataset) -> Mapping[int, list[int]]:
    """The advisors of each student, as persons."""
    values = facts.values()
    authors = values[":dissertation/cid"]
    advisors: defaultdict[int, list[int]] = defaultdict(list)
    for advisor, dissertations in values[":person/advised"].items():
        for dissertation in dissertations:
            advisors[authors[dissertation]].append(advisor)
    return advisors


def _lineage(
    names: Column, years: Column, places: Column, subjects: Column, pairs: Codes, offset: int
) -> Dataset:
    """The facts of columns by person, and pairs of advisor and student."""

    def of_dissertations(column: Column) -> Column:
        return Column(column.entities + offset, column.values)

    persons = np.unique(np.concatenate((names.entities, pairs.reshape(-1))))
    types = {
        ":person/name": "string",
        ":person/advised": "ref",
        ":dissertation/cid": "ref",
        ":dissertation/univ": "string",
        ":dissertation/area": "string",
        ":dissertation/year": "long",
    }
    schema = {attribute: {":db/valueType": f":db.type/{kind}"} for attribute, kind in types.items()}
    schema[":person/advised"][":db/cardinality"] = ":db.cardinality/many"
    columns = {
        ":person/name": names,
        ":person/advised": Column(pairs[:, 0], pa.array(pairs[:, 1] + offset)),
        ":dissertation/cid": of_dissertations(Column(persons, pa.array(persons))),
        ":dissertation/univ": of_dissertations(places),
        ":dissertation/area": of_dissertations(subjects),
        ":dissertation/year": of_dissertations(years),
    }
    return Dataset(schema, columns)


def _advisors(chance: np.random.Generator, years: Codes, count: int) -> Codes:
    """`count` different pairs of the positions of an advisor and a student."""
    first = np.searchsorted(years, years - OLDEST)
    last = np.searchsorted(years, years - YOUNGEST, side="right")
    able = np.flatnonzero(first < last)
    # Each student finds an advisor by chance, in proportion to the advisors' weights.
    fame = np.concatenate(([0.0], np.cumsum(chance.pareto(2.0, len(years)))))
    found = np.empty(0, np.int64)
    while len(found) < count:
        students = chance.choice(able, count - len(found))
        drawn = fame[first[students]] + chance.random(len(students)) * (
            fame[last[students]] - fame[first[students]]
        )
        advisors = np.clip(np.searchsorted(fame, drawn) - 1, first[students], last[students] - 1)
        found = np.unique(np.concatenate((found, students * len(years) + advisors)))
    students, advisors = np.divmod(found, len(years))
    return np.stack((advisors, students), axis=1)


def _skewed(chance: np.random.Generator, kinds: int, count: int) -> Codes:
    """`count` numbers below `kinds`; small numbers are frequent."""
    weights = 1 / np.arange(2, kinds + 2)
    return chance.choice(kinds, count, p=weights / weights.sum())
