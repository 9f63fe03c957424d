"""Random queries over random databases, in the four ways of the fixtures."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dbsp.datomic import q
from dbsp.edn import read

from .fixture_files import Case
from .live_cases import Twin, Watch, bag
from .oracle import rows
from .random_queries import RULES, SCHEMA, TUPLES, queries, text_of, transactions

QUERIES = 1
"""The number of queries over each database."""


# The seed is all that an example draws, so nothing can be shrunk; `reduced` looks for less instead.
@settings(phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.integers(0, 2**32))
def test_random_queries(seed: int) -> None:
    random = Random(seed)
    data = transactions(random)
    for _ in range(QUERIES):
        clauses, elements, third, value = queries(random)
        problem = problem_of(data, clauses, elements, third, value)
        if problem is not None:
            raise AssertionError(reduced(data, clauses, elements, third, value))


def problem_of(data: list[Any], clauses: list[str], elements: str, third: str, value: Any) -> str | None:
    """Return how the engine and the evaluator disagree, in one of the four ways, or None."""
    text = text_of(clauses, elements, third)
    rest = (TUPLES, read(RULES), value)
    twin = Twin(read(SCHEMA))
    case = Case("random", "query", "", text, [])
    watch = Watch(case, twin.conn.subscribe(text, *rest))
    expected = [bag(rows(text, twin.model.source(), *rest))]
    watch.compare(expected[0], "at first")
    for transaction in data:
        twin.transact(transaction)
        watch.update()
        expected.append(bag(rows(text, twin.model.source(), *rest)))
        watch.compare(expected[-1], f"t {twin.model.t}")
    for t, wanted in enumerate(expected, 1):
        found = bag(q(text, twin.conn.db().as_of(t), *rest))
        if found != wanted:
            watch.problems.append(f"as of {t}: {list(found)}, expected {list(wanted)}")
    start = 1 + len(text) % len(expected)
    replayed = twin.conn.subscribe(text, *rest, since=start)
    now = expected[start - 1].copy()
    for delta in replayed.deltas():
        for row in bag(row for row, weight in delta.rows if weight < 0):
            now[row] -= 1
        now += bag(row for row, weight in delta.rows if weight > 0)
        if now != expected[delta.t - 1]:
            watch.problems.append(f"since {start}, t {delta.t}: {delta.rows}")
    if now != expected[-1]:
        watch.problems.append(f"since {start}: {list(now)}")
    if "get-else" not in text:  # which of several past values it takes is not defined
        db = twin.conn.db()
        for name, database, source in [
            ("history", db.history(), twin.model.source(history=True)),
            ("only since", db.since(start), twin.model.source(since=start)),
            ("history until", db.as_of(start).history(), twin.model.source(until=start, history=True)),
        ]:
            past, wanted = bag(q(text, database, *rest)), bag(rows(text, source, *rest))
            if past != wanted:
                watch.problems.append(f"{name} {start}: {list(past)}, expected {list(wanted)}")
    return "; ".join(watch.problems[:2]) or None


def reduced(data: list[Any], clauses: list[str], elements: str, third: str, value: Any) -> str:
    """Return the problem of the smallest database and query that still have one."""

    def fails(data: list[Any], clauses: list[str]) -> bool:
        try:
            return problem_of(data, clauses, elements, third, value) is not None
        except Exception:  # without this clause the query is refused
            return False

    for clause in list(clauses):
        fewer = [other for other in clauses if other is not clause]
        if fewer and fails(data, fewer):
            clauses = fewer
    for place in range(len(data) - 1, -1, -1):
        for operation in data[place]:
            fewer_facts = [tuple(o for o in t if t is not data[place] or o is not operation) for t in data]
            if fails(fewer_facts, clauses):
                data = fewer_facts
    problem = problem_of(data, clauses, elements, third, value)
    return f"{text_of(clauses, elements, third)}\n{value}\n{data}\n{problem}"
