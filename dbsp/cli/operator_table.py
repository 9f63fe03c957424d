"""The operators of a run as a table: what each did in the latest tick, and since the start."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import NamedTuple

from dbsp.circuit.graph import Graph, Node
from dbsp.circuit.pictures.circuit_picture import node_titles
from dbsp.cli.sort_by import SortBy
from dbsp.display.amounts import duration, memory, row_count
from dbsp.display.document import Column, Document, Row, Span, Style, Table, line, muted, printable, strong
from dbsp.errors import counted
from dbsp.runtime.node_stats import NodeStats
from dbsp.runtime.run import Run
from dbsp.runtime.tick_result import TickResult

_RECENT_TICKS = 100
_LABEL, _PLACE = 60, 40
_COLUMNS = (
    Column("operator"),
    Column("line"),
    Column("rows", "latest tick", numeric=True),
    Column("time", "latest tick", numeric=True),
    Column("rows", "all ticks", numeric=True),
    Column("time", "all ticks", numeric=True),
    Column("share", numeric=True),
    Column("rows", "stored", numeric=True),
    Column("memory", "stored", numeric=True),
)


class OperatorRow(NamedTuple):
    """One operator: its counts, those of the latest tick alone, and the rows that it stores."""

    node: Node
    depth: int
    """The number of scopes around it."""
    rows: int
    seconds: float
    latest_rows: int
    latest_seconds: float
    stored_rows: int
    stored_bytes: int


_KEYS: dict[SortBy, Callable[[OperatorRow], float]] = {
    SortBy.TIME: attrgetter("seconds"),
    SortBy.LATEST: attrgetter("latest_seconds"),
    SortBy.ROWS: attrgetter("rows"),
    SortBy.MEMORY: attrgetter("stored_bytes"),
}


class OperatorTable:
    """What the operators of a run do; the run has statistics (`Run.observe`).

    Call `ticked` after each tick. `document` may be called by another thread, also during a tick:
    then the counts include those of the tick so far, and the stored rows are those before it.
    """

    def __init__(self, run: Run, sort: SortBy = SortBy.TIME) -> None:
        self._run = run
        self._sort = sort
        self._recent: deque[float] = deque(maxlen=_RECENT_TICKS)
        self._stats: list[NodeStats] = []
        self._before: dict[Node, tuple[int, float]] = {}
        """By node the counts before the latest tick."""
        self._after: dict[Node, tuple[int, float]] = {}
        """By node the counts after it."""
        self._depths = dict(_depths(run.graph, 0))
        self._titles = node_titles(run.graph)
        self._read()

    def ticked(self, result: TickResult) -> None:
        """Note that a tick has ended."""
        self._recent.append(result.seconds)
        self._read()

    def rows(self) -> list[OperatorRow]:
        """Return the operators, the one with the most first."""
        found = []
        for stats in self._stats:
            rows, seconds = self._before.get(stats.node, (0, 0.0))
            stored_rows, stored_bytes = self._kept.get(stats.node, (0, 0))
            found.append(
                OperatorRow(
                    stats.node,
                    self._depths[stats.node],
                    stats.rows_out,
                    stats.seconds,
                    stats.rows_out - rows,
                    stats.seconds - seconds,
                    stored_rows,
                    stored_bytes,
                )
            )
        return sorted(found, key=_KEYS[self._sort], reverse=True)

    def document(self, lines: int) -> Document:
        """Return the table with at most this number of operators."""
        found = self.rows()
        # The time of a scope is that of its operators, too.
        total = sum(operator.seconds for operator in found if not operator.depth)
        more = len(found) - lines
        table = Table(
            _COLUMNS,
            tuple(_row(operator, self._titles[operator.node], total) for operator in found[:lines]),
            f"and {counted(more, 'more operator')}" if more > 0 else "",
        )
        return Document(self._title(), (table,))

    def _title(self) -> tuple[Span, ...]:
        name = printable(self._run.graph.name, _LABEL)
        facts = f"  {counted(self._tick, 'tick')}, {row_count(self._stored[0])} stored"
        facts += f", {memory(self._stored[1])}"
        if self._recent:
            facts += f"; latest tick {duration(self._recent[-1])}"
        if len(self._recent) > 1:
            facts += f", median {duration(statistics.median(self._recent))}"
            facts += f", longest {duration(max(self._recent))} of {len(self._recent)}"
        return line(strong(name), muted(facts))

    def _read(self) -> None:
        """Read what must not be read during a tick."""
        run = self._run
        self._stats = run.stats()
        self._before = self._after
        self._after = {stats.node: (stats.rows_out, stats.seconds) for stats in self._stats}
        self._kept = run.kept()
        self._tick = run.tick
        self._stored = run.state_rows, run.state_bytes


def _depths(graph: Graph, depth: int) -> Iterator[tuple[Node, int]]:
    for node in graph.nodes:
        yield node, depth
        for inner in node.operator.children():
            yield from _depths(inner, depth + 1)


def _row(operator: OperatorRow, title: str, total: float) -> Row:
    node = operator.node
    label = "  " * operator.depth + printable(title, _LABEL)
    share = operator.seconds / total if total else 0.0
    return Row(
        (
            Span(label),
            muted(printable(str(node.source or ""), _PLACE)),
            Span(f"{operator.latest_rows:,}"),
            Span(duration(operator.latest_seconds)),
            Span(f"{operator.rows:,}"),
            Span(duration(operator.seconds)),
            Span(f"{share:.0%}", Style.STRONG if share >= 0.2 else Style.PLAIN),
            Span(f"{operator.stored_rows:,}" if operator.stored_rows else ""),
            Span(memory(operator.stored_bytes) if operator.stored_bytes else ""),
        )
    )
