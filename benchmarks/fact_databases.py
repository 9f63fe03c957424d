"""Databases of facts: how fast they import, answer a query, and keep its result live.

Times are processor times. The first call of a query compiles it; later calls with the same text
reuse the plan. A live tick is the time by which a subscription lengthens a transaction of one fact
that changes its result. Every result is compared with plain Python.
"""

from __future__ import annotations

import gc
import resource
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks.contest import resident_bytes
from benchmarks.fact_data import Dataset, genealogy, person_data, read_lineage
from benchmarks.fact_queries import FactQuery, Rows, genealogy_queries, person_queries
from dbsp.datomic import Connection, connect, q
from dbsp.datomic.subscription import QueryDelta

SIZES = {
    "tiny": (60, 120),
    "small": (2_000, 25_000),
    "medium": (20_000, 250_000),
    "large": (200_000, 1_000_000),
}
"""The number of people of `person_data`, and of persons of `genealogy`."""

ADVISED = 1.12
"""Advisors per person."""

IMPORT_AIM = 200_000.0
"""Datoms per second."""

DURABLE_AIM = 1e-3
"""Processor seconds of a durable transaction of one datom, besides the disk."""

ENOUGH_SECONDS, MOST_CALLS, LEAST_CALLS = 2.0, 200, 5
"""How long a call is repeated."""


@dataclass(frozen=True)
class Imported:
    """An import of facts: datoms per second, and the bytes by which the process grew."""

    data: str
    form: str
    datoms: int
    seconds: float
    resident: int

    @property
    def per_second(self) -> float:
        """Datoms per second of processor time."""
        return self.datoms / self.seconds


@dataclass(frozen=True)
class Committed:
    """A transaction of one datom: the median elapsed time, and the mean processor time.

    The processor time of the system is mostly that of the disk.
    """

    storage: str
    elapsed: float
    user: float
    system: float
    aim: float | None


@dataclass(frozen=True)
class Answered:
    """A query: the first call, the median of later ones, and the live tick.

    `transaction` is the median of a transaction that changes the result, without live queries.
    """

    data: str
    query: FactQuery
    rows: int
    first: float
    once: float
    subscribe: float
    tick: float | None
    slow_tick: float | None
    transaction: float | None
    resident: int
    problems: tuple[str, ...]


Measured: TypeAlias = Imported | Committed | Answered


def datasets(sizes: tuple[int, int], lineage: Path | None) -> Iterator[tuple[str, Dataset, list[FactQuery]]]:
    """Yield the data sets with their names and queries; `lineage` is a folder to read."""
    if lineage is not None:
        facts = read_lineage(lineage)
        yield lineage.name, facts, genealogy_queries(facts, pairs_of_all=True)
        return
    people, persons = sizes
    facts = person_data(people)
    yield f"{people:,} people", facts, person_queries(facts)
    facts = genealogy(persons, int(persons * ADVISED))
    yield f"genealogy of {persons:,}", facts, genealogy_queries(facts)


def measure_databases(
    sizes: tuple[int, int], lineage: Path | None = None, only: str = ""
) -> Iterator[Measured]:
    """Yield the measurements of imports, of one-datom transactions, and of every query."""
    warm_up()
    for name, facts, queries in datasets(sizes, lineage):
        yield from measure_imports(name, facts)
        with opened("memory", facts) as conn:
            conn.transact(facts.vectors())
            gc.collect()
            others = gc.get_freeze_count()
            gc.freeze()  # the data and the expected rows are not the database's
            for query in queries:
                if only in query.name:
                    yield measure_query(name, conn, query)
            if not others:  # there is no way to unfreeze some objects only
                gc.unfreeze()
    yield from measure_commits(person_data(sizes[0]), MOST_CALLS)


def warm_up() -> None:
    """Load the kernels, which depend on the number of rows."""
    for facts in (person_data(2_000), genealogy(2_000, 2_240)):
        for _ in measure_imports("", facts):
            pass


def measure_imports(name: str, facts: Dataset) -> Iterator[Imported]:
    """Yield the rate of each form of the data, in memory and into a folder."""
    maps, vectors, tables = facts.maps(), facts.vectors(), facts.tables()

    def columns(conn: Connection) -> None:
        for entities, table in tables:
            conn.transact_table(table, entities=entities)

    forms: dict[str, Callable[[Connection], object]] = {
        "maps": lambda conn: conn.transact(maps),
        "vectors": lambda conn: conn.transact(vectors),
        "columns": columns,
    }
    for form, load in forms.items():
        for storage in ("memory", "folder"):
            with opened(storage, facts) as conn:
                gc.collect()
                resident, before = resident_bytes(), time.process_time()
                load(conn)
                seconds = time.process_time() - before
                resident = resident_bytes() - resident
            yield Imported(name, f"{form}, {storage}", facts.datoms, seconds, resident)


@contextmanager
def opened(storage: str, facts: Dataset) -> Iterator[Connection]:
    """A new database with the schema of the facts, in memory or in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        place = ":memory:" if storage == "memory" else f"{folder}/facts"
        with connect(place, schema=facts.schema) as conn:
            yield conn


def measure_commits(facts: Dataset, calls: int) -> Iterator[Committed]:
    """Yield the time of a transaction of one datom, in memory and into a folder."""
    for storage in ("memory", "folder"):
        with opened(storage, facts) as conn:
            conn.transact(facts.vectors())
            elapsed = []
            before = resource.getrusage(resource.RUSAGE_SELF)
            for number in range(calls):
                begun = time.perf_counter()
                conn.transact([[":db/add", 1, ":age", number % 2 + 1_000]])
                elapsed.append(time.perf_counter() - begun)
            after = resource.getrusage(resource.RUSAGE_SELF)
        user, system = (after.ru_utime - before.ru_utime) / calls, (after.ru_stime - before.ru_stime) / calls
        aim = DURABLE_AIM if storage == "folder" else None
        yield Committed(storage, statistics.median(elapsed), user, system, aim)


def measure_query(data: str, conn: Connection, query: FactQuery) -> Answered:
    """Measure one query: alone, and as a subscription while one fact changes."""
    problems = []
    begun = time.process_time()
    rows = q(query.text, conn.db(), *query.inputs)
    first = time.process_time() - begun
    problems += differences("one-shot", rows, query.expected)
    once = statistics.median(repeated(lambda: q(query.text, conn.db(), *query.inputs)))
    alone = changed(conn, query) if query.change else []
    gc.collect()
    resident, begun = resident_bytes(), time.process_time()
    live = conn.subscribe(query.text, *query.inputs)
    subscribe = time.process_time() - begun
    problems += differences("subscribed", live.rows(), query.expected)
    times = changed(conn, query) if query.change else []
    resident = resident_bytes() - resident
    problems += live_problems(live.rows(), live.deltas(), query)
    live.close()
    transaction = statistics.median(alone) if alone else None
    ticks = [seconds - statistics.median(alone) for seconds in times]
    return Answered(
        data,
        query,
        len(rows),
        first,
        once,
        subscribe,
        statistics.median(ticks) if ticks else None,
        statistics.quantiles(ticks, n=100)[98] if ticks else None,
        transaction,
        resident,
        tuple(problems),
    )


def changed(conn: Connection, query: FactQuery) -> list[float]:
    """The times of transactions that change the result of a query, and change it back."""
    times: list[float] = []
    begun = time.process_time()
    while len(times) < LEAST_CALLS or (
        len(times) < MOST_CALLS and time.process_time() - begun < ENOUGH_SECONDS
    ):
        for change in (query.change, query.undo):
            before = time.process_time()
            conn.transact(change)
            times.append(time.process_time() - before)
    return times[2:]


def repeated(work: Callable[[], object]) -> list[float]:
    """The times of many calls."""
    times: list[float] = []
    begun = time.process_time()
    while len(times) < LEAST_CALLS or (
        len(times) < MOST_CALLS and time.process_time() - begun < ENOUGH_SECONDS
    ):
        before = time.process_time()
        work()
        times.append(time.process_time() - before)
    return times


def live_problems(rows: Iterable[Any], deltas: Sequence[QueryDelta], query: FactQuery) -> list[str]:
    """Say what is wrong with the rows and the deltas of a live query after all changes."""
    problems = differences("live", rows, query.expected)
    for number, delta in enumerate(deltas):
        signs = {weight for _, weight in delta.rows}
        if signs != ({-1} if number % 2 == 0 else {1}):
            problems.append(f"transaction {delta.t}: expected lost rows and new rows by turns, got {signs}")
    if query.change and not deltas:
        problems.append("no transaction changed the result")
    return problems[:5]


def differences(what: str, got: Iterable[Any], expected: Rows) -> list[str]:
    """Say how a result differs from the expected rows."""
    found = Counter(map(tuple, got))
    missing, wrong = len(expected - found.keys()), len(found.keys() - expected)
    doubled = len([row for row, number in found.items() if number > 1])
    if not (missing or wrong or doubled):
        return []
    return [f"{what}: {missing:,} rows are missing, {wrong:,} are wrong, {doubled:,} occur twice"]
