"""The display of a sharded run: its relations, its shards, and what its exchanges have moved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dbsp.circuit.graph_display import graph_blocks
from dbsp.display.amounts import memory, row_count
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
from dbsp.shards.shard_report import moved_rows, skew
from dbsp.shards.shard_stats import ShardStats
from dbsp.shards.sharded_run import ShardedRun

SHOWN = 20
_WIDE = 80


def sharded_run_document(run: ShardedRun) -> Document:
    """Return the display of a sharded run."""
    stats = run.stats()
    rows, size = sum(one.rows for one in stats), sum(one.bytes for one in stats)
    facts = f"{counted(len(stats), 'shard')}, {counted(run.tick, 'tick')}, {row_count(rows)} stored"
    title = line(strong(f"run of {printable(run.graph.name, _WIDE)}"), muted(f"  {facts}, {memory(size)}"))
    circuit = Section(line(strong("circuit")), tuple(graph_blocks(run.graph)), folded=True)
    return Document(title, (_relations(run), *_stats_blocks(stats), circuit))


def stats_document(stats: Sequence[ShardStats]) -> Document:
    """Return the display of the statistics of the shards."""
    title = line(strong("statistics"), muted(f"  {counted(len(stats), 'shard')}"))
    return Document(title, tuple(_stats_blocks(stats)))


def _relations(run: ShardedRun) -> Table:
    ports = [("input", name, columns) for name, columns in run.inputs.items()]
    ports += [("output", name, columns) for name, columns in run.outputs.items()]
    rows = tuple(
        Row(
            (
                muted(kind),
                strong(printable(name, _WIDE)),
                Span(printable(columns.describe(), _WIDE)),
            )
        )
        for kind, name, columns in ports[:SHOWN]
    )
    more = len(ports) - SHOWN
    columns = (Column("relation"), Column("name"), Column("columns"))
    return Table(columns, rows, f"and {more:,} more relations" if more > 0 else "")


def _stats_blocks(stats: Sequence[ShardStats]) -> Iterator[Block]:
    yield _shards(stats)
    exchanges = moved_rows(stats)
    if not exchanges:
        return
    rows = tuple(
        Row(
            (
                Span(printable(moved.where, _WIDE)),
                Span(f"{moved.rows:,}"),
                Span(f"{moved.received:,}"),
                Span(memory(moved.bytes)),
                Span(f"{skew(moved.rows_to):.2f}"),
            )
        )
        for moved in exchanges[:SHOWN]
    )
    columns = (
        Column("exchange"),
        Column("rows", numeric=True),
        Column("to other shards", numeric=True),
        Column("bytes", numeric=True),
        Column("largest part / mean", numeric=True),
    )
    more = len(exchanges) - SHOWN
    yield Table(columns, rows, f"and {more:,} more exchanges" if more > 0 else "")


def _shards(stats: Sequence[ShardStats]) -> Table:
    rows = tuple(
        Row(
            (
                Span(str(one.shard)),
                Span(f"{one.rows:,}"),
                Span(memory(one.bytes)),
                Span(memory(one.file_bytes)),
                Span(f"{one.values:,}"),
            )
        )
        for one in stats[:SHOWN]
    )
    columns = (
        Column("shard", numeric=True),
        Column("rows", numeric=True),
        Column("memory", numeric=True),
        Column("files", numeric=True),
        Column("interned values", numeric=True),
    )
    return Table(columns, rows, f"the largest has {skew([one.rows for one in stats]):.2f} times the mean")
