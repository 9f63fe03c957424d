"""pathway as a contestant: differential dataflow in Rust, driven from Python.

All rows enter through one connector, so that the changes of a tick are one commit. Each tick has a
marker row, which goes beside the query into the result: pathway reports the end of a time only if
the result has changes at this time. The tick is done at the end of the marker's time.
"""

from __future__ import annotations

import importlib
import queue
import threading
from typing import Any

from benchmarks.changes import Change, Codes, Row
from benchmarks.contest import Outcome, checksum, net
from benchmarks.patterns import WORKLOADS as GRAPHS
from benchmarks.workloads import COLUMNS

_MARKER = -1
"""The number of the relation of the marker rows."""

_WAIT = 600.0
"""Seconds until a tick counts as lost."""

_Sent = list[tuple[int, Row, int]]
"""Rows of a tick: the number of the relation, the row, and 1 or -1."""


class Live:
    """One commit per tick."""

    def __init__(self, workload: str) -> None:
        self.pw: Any = importlib.import_module("pathway")
        self.numbers = {name: number for number, name in enumerate(COLUMNS[workload])}
        self.width = max(map(len, COLUMNS[workload].values()))
        self.sent: queue.Queue[_Sent | None] = queue.Queue()
        self.ticks = 0
        self.rows: dict[Row, int] = {}
        self.done = threading.Condition()
        self.marked = 0
        """The latest marker that has arrived."""
        self.ended = 0
        """The latest tick whose changes of the result have all arrived."""
        self.error: BaseException | None = None
        self.pw.internals.parse_graph.G.clear()  # of an earlier contestant in this process
        self._build(workload)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def load(self, base: dict[str, Codes]) -> None:
        self.tick(
            [(self.numbers[name], tuple(row), 1) for name, rows in base.items() for row in rows.tolist()]
        )

    def prepare(self, changes: list[Change]) -> _Sent:
        return [
            (self.numbers[name], row, weight)
            for name, rows in net(changes).items()
            for row, weight in rows.items()
        ]

    def tick(self, changes: _Sent) -> None:
        self.ticks += 1
        self.sent.put([*changes, (_MARKER, (self.ticks,), 1)])
        with self.done:
            arrived = self.done.wait_for(self._is_done, _WAIT)
        if self.error is not None:
            raise self.error
        if not arrived:
            raise TimeoutError(f"tick {self.ticks} of pathway did not end within {_WAIT:g} s")

    def _is_done(self) -> bool:
        return self.error is not None or self.ended == self.ticks

    def close(self) -> None:
        """End the connector, and with it the dataflow."""
        self.sent.put(None)
        self.thread.join(_WAIT)

    def outcome(self) -> Outcome:
        return checksum([row for row, weight in self.rows.items() for _ in range(weight)])

    # --- the dataflow -----------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self.pw.run(monitoring_level=self.pw.MonitoringLevel.NONE)
        except BaseException as error:
            with self.done:
                self.error = error
                self.done.notify()

    def _build(self, workload: str) -> None:
        pw = self.pw
        names = [f"c{place}" for place in range(self.width)]
        keys = {name: pw.column_definition(primary_key=True, dtype=int) for name in ("relation", *names)}
        source = pw.io.python.read(
            self._subject(names), schema=pw.schema_builder(keys), autocommit_duration_ms=None
        )
        relations = []
        for name, columns in COLUMNS[workload].items():
            rows = source.filter(source.relation == self.numbers[name])
            relations.append(
                rows.select(**{column: rows[f"c{place}"] for place, column in enumerate(columns)})
            )
        if workload == "w1":
            result = self._regions(*relations)
        elif workload in GRAPHS:
            result = self._matches(relations[0], GRAPHS[workload].edges)
        else:
            result = self._closure(relations[0])
        columns = list(result.column_names())
        found = result.select(*(result[name] for name in columns), marker=0)
        markers = source.filter(source.relation == _MARKER)
        markers = markers.select(**dict.fromkeys(columns, 0), marker=markers.c0)
        pw.io.subscribe(found.concat_reindex(markers), on_change=self._change, on_time_end=self._end)

    def _subject(self, names: list[str]) -> Any:
        sent = self.sent

        class Subject(self.pw.io.python.ConnectorSubject):  # type: ignore[misc]
            def run(self) -> None:
                while (rows := sent.get()) is not None:
                    for relation, row, weight in rows:
                        padded = (*row, *[0] * (len(names) - len(row)))
                        send = self.next if weight > 0 else self.delete
                        send(relation=relation, **dict(zip(names, padded, strict=True)))
                    self.commit()

        return Subject(session_type="upsert")

    def _regions(self, orders: Any, customers: Any) -> Any:
        pw = self.pw
        sales = orders.join(customers, orders.c == customers.c).select(customers.region, orders.amount)
        return sales.groupby(sales.region).reduce(
            sales.region, n=pw.reducers.count(), total=pw.reducers.sum(sales.amount)
        )

    def _closure(self, edges: Any) -> Any:
        pw = self.pw

        def longer(path: Any, edge: Any) -> dict[str, Any]:
            joined = path.join(edge, path.y == edge.x).select(pw.left.x, pw.right.y)
            both = edge.concat_reindex(joined)
            return {"path": both.groupby(both.x, both.y).reduce(both.x, both.y)}

        start = edges.groupby(edges.x, edges.y).reduce(edges.x, edges.y)
        found = pw.iterate(longer, path=pw.iterate_universe(start), edge=edges)
        return found.path if hasattr(found, "path") else found

    def _matches(self, edges: Any, pattern: tuple[str, ...]) -> Any:
        """Join the edges one after the other; pathway needs a copy for each."""
        found: Any = None
        for first, second in pattern:
            copy = edges.select(**{first: edges.x, second: edges.y})
            if found is None:
                found = copy
                continue
            known = set(found.column_names())
            equal = [found[name] == copy[name] for name in (first, second) if name in known]
            new = {name: copy[name] for name in (first, second) if name not in known}
            found = found.join(copy, *equal).select(**{name: found[name] for name in sorted(known)}, **new)
        return found

    # --- what the result reports ------------------------------------------------------------------

    def _change(self, key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
        *values, marker = row.values()
        if marker:
            self.marked = marker
            return
        self._count(tuple(values), is_addition)

    def _count(self, values: Row, is_addition: bool) -> None:
        weight = self.rows.pop(values, 0) + (1 if is_addition else -1)
        if weight:
            self.rows[values] = weight

    def _end(self, time: int) -> None:
        with self.done:
            self.ended = self.marked
            self.done.notify()
