"""The small form: one input of a run fed by a query that the user wires himself."""

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
from dbsp.spark.port_binding import check_frame, source_of

_BATCHES: WeakKeyDictionary[Run, Batches] = WeakKeyDictionary()


class Batches:
    """The latest micro-batch of every query that feeds a run, and the lock between them."""

    def __init__(self, run: Run) -> None:
        self.lock = threading.Lock()
        label = None if run.log is None else run.log.label
        self.latest: dict[str, int] = (
            dict(label["batches"]) if isinstance(label, dict) and "batches" in label else {}
        )


class Feed:
    """Applies the micro-batches of one query to one input, each once."""

    def __init__(self, run: Run, source: SparkSource, on_tick: Callable[[TickResult], object] | None) -> None:
        self._run = run
        self._source = source
        self._on_tick = on_tick
        if run not in _BATCHES:
            _BATCHES[run] = Batches(run)
        self._batches = _BATCHES[run]

    def __call__(self, frame: Any, batch: int) -> None:
        query = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        name = f"{self._source.relation}/{query}"
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
    on_tick: Callable[[TickResult], object] | None = None,
) -> Feed:
    """A function for `foreachBatch` by which a streaming DataFrame changes an input of a run.

        query = df.writeStream.foreachBatch(dbsp.spark.feed(run, "edge")).start()

    Every micro-batch is a tick; `on_tick` is then called with its TickResult. Several queries may feed one
    run, each micro-batch of each being a tick of its own. A micro-batch that comes again is not applied
    again: with a checkpoint (`program.start(checkpoint=...)`, and `checkpointLocation` for the query) not
    even after a restart, provided that all changes come from feeds, since the label of the latest tick says
    which micro-batches are in. `on_tick` may then have missed the last tick; what is to be told of every
    tick wants `dbsp.spark.stream`, which keeps a ledger.

    The encodings are those of `dbsp.operators.ports.spark_source`; upserts need an input with a key. Raises
    InputError or SchemaError; the DataFrame's columns are checked with every micro-batch.
    """
    ports = run.input_ports
    if relation not in ports:
        raise InputError(f"there is no input '{relation}'{suggestion(relation, ports)}")
    return Feed(run, source_of(ports[relation], encoding, column, (), sequence_by), on_tick)
