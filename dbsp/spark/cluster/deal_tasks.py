"""Deal the rows of sources to the shards, on the executors that read them.

The last change of a row may decide (`SparkSource.order_matters`). Then all changes of a row, or of
a key, go to one task, which sorts them. A micro-batch of several sources is one DataFrame of tagged
rows (`dbsp.spark.tagged_union`); the tasks divide it, so Spark reads every source once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

import pyarrow as pa

from dbsp.circuit.graph import Graph
from dbsp.errors import DbspError
from dbsp.kernels.thread_count import use_by_default
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.ports.spark_source import SparkSource
from dbsp.runtime.run import Run
from dbsp.shards.dealing import Dealer, DistributedPorts
from dbsp.shards.row_messages import written_rows
from dbsp.spark.cluster.cluster_query import ClusterQuery
from dbsp.spark.cluster.messages import COLUMNS, DRIVER, Message, failures, report
from dbsp.spark.row_order import RowOrder
from dbsp.spark.tagged_union import TAG, divide, quoted

_PIECE_ROWS, _PIECE_BYTES = 1 << 20, 64 << 20
"""The rows of sources that a task deals at once, if their order does not matter."""
_POSITION = "__dbsp_position"


@dataclass(frozen=True)
class DealtFrame:
    """The rows of a source in one tick."""

    source: SparkSource
    frame: Any
    """A batch DataFrame."""
    order: RowOrder = field(default_factory=RowOrder)


@dataclass(frozen=True)
class DealtUnion:
    """The rows of several sources in one tick, as `dbsp.spark.tagged_union.unite` unites them."""

    sources: Sequence[SparkSource]
    frame: Any
    """A batch DataFrame."""
    orders: Mapping[str, RowOrder]


def dealt_rows(query: ClusterQuery, levels: Mapping[str, int], dealt: DealtFrame | DealtUnion) -> Any:
    """Return the messages with the rows of sources, for the levels of their inputs."""
    if isinstance(dealt, DealtFrame):
        dealt = DealtUnion((dealt.source,), dealt.frame, {dealt.source.relation: dealt.order})
    sources = tuple(dealt.sources)
    frame, ordered = dealt.frame, any(source.order_matters for source in sources)
    if ordered:
        from pyspark.sql.functions import monotonically_increasing_id

        # A shuffle does not keep the order of rows.
        frame = frame.withColumn(_POSITION, monotonically_increasing_id())
        frame = frame.repartition(query.shards, _together(sources))
    orders = {source.relation: dealt.orders.get(source.relation, RowOrder()) for source in sources}
    return frame.mapInArrow(DealTask(query, sources, orders, dict(levels), ordered), COLUMNS)


def _together(sources: Sequence[SparkSource]) -> Any:
    """Return an expression that is equal for the changes that must meet in one task."""
    from pyspark.sql.functions import coalesce, col, lit, when, xxhash64

    hashes = []
    for number, source in enumerate(sources):
        names = source.columns.names
        if source.order_matters and source.key:
            names = tuple(names[column] for column in source.key)
        if len(sources) == 1:
            return xxhash64(*(col(quoted(name)) for name in names))
        cells = (col(f"r{number}").getField(name) for name in names)
        hashes.append(when(col(TAG) == number, xxhash64(lit(number), *cells)))
    return coalesce(*hashes)


@dataclass(frozen=True)
class DealTask:
    """Deals the rows of sources to the shards."""

    query: ClusterQuery
    sources: tuple[SparkSource, ...]
    orders: Mapping[str, RowOrder]
    levels: Mapping[str, int]
    """By input the level of its segment."""
    positioned: bool
    """Whether the rows have a column with their positions, because the order of some matters."""

    @property
    def __name__(self) -> str:  # Spark shows it
        return f"deal {', '.join(source.relation for source in self.sources)}"

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        use_by_default(1)  # Spark gives a core to each task
        rows: Counter[str] = Counter()
        try:
            graph = self.query.checked_graph()
            for table in self._tables(batches):
                for name, part in divide(table, [source.relation for source in self.sources]).items():
                    rows[name] += part.num_rows
                    for message in self._dealt(graph, name, part):
                        yield message.batch()
            if rows:
                yield report(0, {"dealt": rows}).batch()
        except DbspError as error:
            for message in failures(0, self.query.shards, DRIVER, error):
                yield message.batch()

    def _tables(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        """Yield the rows in pieces; in one piece, by position, if the order of some matters."""
        pieces: list[pa.RecordBatch] = []
        rows = size = 0
        for batch in batches:
            pieces.append(batch)
            rows += batch.num_rows
            size += batch.nbytes
            if (rows >= _PIECE_ROWS or size >= _PIECE_BYTES) and not self.positioned:
                yield pa.Table.from_batches(pieces)
                pieces, rows, size = [], 0, 0
        if rows:
            table = pa.Table.from_batches(pieces)
            yield RowOrder((_POSITION,), added=True).sort(table) if self.positioned else table

    def _dealt(self, graph: Graph, name: str, table: pa.Table) -> Iterator[Message]:
        source = next(source for source in self.sources if source.relation == name)
        front = Run(graph)
        staged, _ = front.net({name: source.change(self.orders[name].sort(table))})
        schema = front.inputs[name]
        ports = DistributedPorts.of(graph, lambda port: port.view())
        dealer = Dealer(ports.inputs, self.query.shards, front.interner)
        for shard, parts in enumerate(dealer.deal(staged)):
            for batch in parts.values():
                for rows in written_rows(batch, schema, front.interner):
                    yield Message(shard, self.levels[name], name, rows)
