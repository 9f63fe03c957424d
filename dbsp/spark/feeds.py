"""Feed one input of a run from a Spark query that the caller builds."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from dbsp.data.schema import suggestion
from dbsp.errors import InputError
from dbsp.operators.ports.spark_source import SparkSource
from dbsp.runtime.run import Run
from dbsp.runtime.tick_result import TickResult
from dbsp.spark.port_binding import check_frame
from dbsp.spark.row_order import unknown_order
from dbsp.spark.session_kinds import refuse_connect, streaming_query

_BATCHES: WeakKeyDictionary[Run, Batches] = WeakKeyDictionary()


class Batches:
    """The latest micro-batch of every query that feeds a run, and their common lock."""

    def __init__(self, run: Run) -> None:
        self.lock = threading.Lock()
        label = None if run.log is None else run.log.label
        self.latest: dict[str, int] = (
            dict(label["batches"]) if isinstance(label, dict) and "batches" in label else {}
        )


class Feed:
    """Applies each micro-batch of one query to one input once."""

    def __init__(self, run: Run, source: SparkSource, on_tick: Callable[[TickResult], object] | None) -> None:
        self._run = run
        self._source = source
        self._on_tick = on_tick
        if run not in _BATCHES:
            _BATCHES[run] = Batches(run)
        self._batches = _BATCHES[run]

    def __call__(self, frame: Any, batch: int) -> None:
        name = f"{self._source.relation}/{streaming_query(frame)}"
        check_frame(self._source, frame.schema)
        with self._batches.lock:
            if batch <= self._batches.latest.get(name, -1):
                return
            change = self._source.change(frame.toArrow())
            latest = self._batches.latest | {name: batch}
            result = self._run.step({self._source.relation: change}, label={"batches": latest})
            self._batches.latest = latest
            if self._on_tick is not None:
                self._on_tick(result)


def feed(
    run: Run,
    relation: str,
    *,
    encoding: str = "append",
    column: str = "",
    sequence_by: str = "",
    ordered: bool = False,
    on_tick: Callable[[TickResult], object] | None = None,
) -> Feed:
    """Return a function for `foreachBatch` that applies a streaming DataFrame to an input of a run.

    Every micro-batch is one tick. Several queries can feed one run; each micro-batch of each query
    is a separate tick. A repeated micro-batch is not applied again. With a checkpoint
    (`program.start(checkpoint=...)`, and `checkpointLocation` for the query) this holds across
    process restarts, provided that all changes come from feeds, because the label of the latest
    tick names the applied micro-batches. After a crash, `on_tick` may have missed the last tick;
    use `dbsp.spark.stream`, which keeps a ledger, if every tick must arrive.

    The encodings are those of `dbsp.operators.ports.spark_source`. The DataFrame's columns are
    checked with every micro-batch.

    Parameters:
        run: the run to change.
        relation: the name of the input.
        encoding: "append", "weight", "operations" or "upsert"; upserts need an input with a key.
        column: the column of the weight or operation; default "weight" or "operation".
        sequence_by: the column that orders the changes of a micro-batch. Required if the last
            change of a row decides, unless the rows are `ordered`: the function cannot see where
            Spark reads them from.
        ordered: the rows of a micro-batch arrive in the order of their changes.
        on_tick: a function that is called with the TickResult of every micro-batch.

    Returns:
        A function of a DataFrame and a batch id.

    Raises:
        InputError: the sessions of this process are those of Spark Connect, the run has no such
            input, the encoding is unknown, or the order of the changes matters and is unknown.
        SchemaError: the column of the weight or operation is a column of the relation.

    Examples:
        >>> run = dbsp.compile(".decl r(x: number)\\n.input r\\n.output r").start()
        >>> rows = dbsp.spark.session().readStream.format("rate").load().selectExpr("value AS x")
        >>> writer = rows.writeStream.foreachBatch(dbsp.spark.feed(run, "r"))  # then writer.start()
    """
    refuse_connect("the run")
    ports = run.input_ports
    if relation not in ports:
        raise InputError(f"unknown input '{relation}'{suggestion(relation, ports)}", code="unknown-input")
    port = ports[relation]
    source = SparkSource(relation, port.columns, port.kind, port.key, encoding, column, sequence_by, ordered)
    if source.order_matters and not sequence_by and not ordered:
        raise unknown_order(source, "a feed cannot see where Spark reads the rows from")
    return Feed(run, source, on_tick)
