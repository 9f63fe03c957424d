"""The display of a run: its relations, its state, its memory and its circuit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dbsp.circuit.graph_display import graph_blocks
from dbsp.data.zset_display import schema_columns
from dbsp.display.amounts import duration, memory, row_count
from dbsp.display.document import (
    Block,
    Column,
    Document,
    Row,
    Section,
    Span,
    Table,
    line,
    muted,
    printable,
    strong,
)
from dbsp.errors import counted
from dbsp.runtime.input_handle import InputHandle
from dbsp.runtime.node_stats import NodeStats
from dbsp.runtime.ports import InputPort
from dbsp.runtime.run import Run

SHOWN_RELATIONS = 20
SHOWN_TRACES = 10
SHOWN_NODES = 20
_WIDE = 80


def run_document(run: Run) -> Document:
    """Return the display of a run."""
    facts = f"{counted(run.tick, 'tick')}, {row_count(run.state_rows)} stored, {memory(run.state_bytes)}"
    if run.file_bytes:
        facts += f" in memory, {memory(run.file_bytes)} in files"
    title = line(strong(f"run of {printable(run.graph.name, _WIDE)}"), muted(f"  {facts}"))
    return Document(title, tuple(_blocks(run)))


def handle_document(handle: InputHandle) -> Document:
    """Return the display of the handle of an input."""
    rows = sum(len(weights) for _, weights, _ in handle.staged)
    title = line(
        strong(f"input {printable(handle.port.relation, _WIDE)}"),
        muted(f"  {row_count(rows)} staged for the next tick"),
    )
    return Document(title, (Table(schema_columns(handle.schema), ()),))


def stats_document(all_stats: Sequence[NodeStats]) -> Document:
    """Return the display of the statistics of nodes, the slowest node first."""
    slowest = sorted(all_stats, key=lambda stats: -stats.seconds)
    rows = tuple(
        Row(
            (
                Span(printable(stats.node.label, _WIDE)),
                Span(printable(str(stats.node.source), _WIDE)),
                Span(f"{stats.steps:,}"),
                Span(f"{stats.rows_out:,}"),
                Span(duration(stats.seconds)),
            )
        )
        for stats in slowest[:SHOWN_NODES]
    )
    columns = (
        Column("operator"),
        Column("line"),
        Column("steps", numeric=True),
        Column("rows", numeric=True),
        Column("time", numeric=True),
    )
    total = duration(sum(stats.seconds for stats in all_stats))
    title = line(strong("statistics"), muted(f"  {counted(len(all_stats), 'node')}, {total}"))
    more = len(slowest) - SHOWN_NODES
    note = f"and {more:,} faster nodes" if more > 0 else ""
    return Document(title, (Table(columns, rows, note),))


def _blocks(run: Run) -> Iterator[Block]:
    yield _relations(run)
    traces = sorted(run.kept().items(), key=lambda item: -item[1][1])
    if traces:
        rows = tuple(
            Row(
                (
                    Span(printable(node.label, _WIDE)),
                    Span(printable(str(node.source), _WIDE)),
                    Span(f"{rows:,}"),
                    Span(memory(size)),
                )
            )
            for node, (rows, size) in traces[:SHOWN_TRACES]
        )
        columns = (Column("operator"), Column("line"), Column("rows", "", True), Column("memory", "", True))
        more = len(traces) - SHOWN_TRACES
        table = Table(columns, rows, f"and {counted(more, 'smaller trace')} more" if more > 0 else "")
        yield Section(line(strong("traces"), muted(f"  {len(traces)}")), (table,), folded=True)
    yield Section(line(strong("circuit")), tuple(graph_blocks(run.graph, run)), folded=True)


def _relations(run: Run) -> Table:
    ports = [("input", port.relation, port.columns, _kept(run, port)) for port in run.input_ports.values()]
    ports += [("output", port.relation, port.columns, port.kept_rows) for port in run.output_ports.values()]
    rows = tuple(
        Row(
            (
                muted(kind),
                strong(printable(name, _WIDE)),
                Span(printable(schema.describe(), _WIDE)),
                muted("not kept") if kept is None else Span(f"{kept:,}"),
            )
        )
        for kind, name, schema, kept in ports[:SHOWN_RELATIONS]
    )
    more = len(ports) - SHOWN_RELATIONS
    columns = (Column("relation"), Column("name"), Column("columns"), Column("stored rows", "", True))
    return Table(columns, rows, f"and {more:,} more relations" if more > 0 else "")


def _kept(run: Run, port: InputPort) -> int | None:
    """Return the number of rows that the run stores of an input, None if it stores none."""
    keeper = run.keeper(port.relation)
    return None if keeper is None else keeper.kept_rows
