"""How a query over a database is evaluated: the plan of each rule, and the indices it reads."""

from __future__ import annotations

from collections.abc import Iterator

from dbsp.cli.database_access import GivenQuery
from dbsp.cli.tables import aligned
from dbsp.datomic import Database
from dbsp.datomic.compiled_query import query_cache
from dbsp.datomic.query import bind_query
from dbsp.datomic.query_sources import SourceTraces
from dbsp.datomic.shared_values import SHARED_LOCK
from dbsp.state.trace import Trace


class _NotedTraces(SourceTraces):
    """The traces of the sources of a query; remembers which of them the circuit has read."""

    def __init__(self, inner: SourceTraces) -> None:
        super().__init__(inner.bases, inner.facts)
        self.read: dict[tuple[str, tuple[int, ...]], Trace] = {}

    def trace(self, relation: str, order: tuple[int, ...]) -> Trace:
        found = self.read[relation, order] = super().trace(relation, order)
        return found


def plan_lines(given: GivenQuery, database: Database) -> Iterator[str]:
    """Yield the lines of a report about a query: rules, plans, indices."""
    with SHARED_LOCK:
        bound = bind_query(given.query, given.arguments(database), {}, query_cache())
        plans = bound.compiled.plans(bound.facts)
        run, traces = bound.compiled.start_answer(plans, bound.facts)
        noted = traces.source = _NotedTraces(SourceTraces(bound.compiled.program.bases, bound.facts))
        run.preview(bound.batches())
    text = bound.compiled.program.explain(plans)
    yield from text.rstrip("\n").split("\n")
    yield ""
    yield "indices"
    cells = []
    for (relation, order), trace in noted.read.items():
        base = bound.compiled.program.bases[relation]
        columns = " ".join(base.columns[place] for place in order)
        cells.append([base.source, base.label or "all", columns, f"{trace.rows:,}"])
    for line in aligned(("source", "attribute", "sorted by", "rows"), sorted(cells)):
        yield f"  {line}"
