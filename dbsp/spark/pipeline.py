"""A program between streaming DataFrames and sinks, started as one of Spark's own streaming queries."""

from __future__ import annotations

import contextlib
import json
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

from dbsp.compiler.program import Program
from dbsp.data.schema import suggestion
from dbsp.durable import Store
from dbsp.errors import CheckpointError, DbspError, InputError
from dbsp.operators.ports.input import Input
from dbsp.operators.ports.output import Output
from dbsp.operators.ports.spark_sink import SparkSink
from dbsp.operators.ports.spark_source import SparkSource
from dbsp.operators.streams.builder import Circuit
from dbsp.runtime.run import Run
from dbsp.spark.cut import Cut, microseconds
from dbsp.spark.driver import BoundSink, Driver
from dbsp.spark.local_session import pyspark_or_advice
from dbsp.spark.metrics import SparkTick, observed
from dbsp.spark.port_binding import bind_ports, check_frame, sink_struct, source_of, view_frame
from dbsp.spark.spark_types import struct_of
from dbsp.spark.tagged_union import TAG, unite
from dbsp.spark.targets import local_path, target_of

TargetLike: TypeAlias = str | PathLike[str] | Callable[[Any, int], object]

_OPTIONS = ("rowsPerTick", "tickWindow", "snapshotEvery", "sync", "metrics")
_TICKS: dict[str, deque[SparkTick]] = {}
"""What the pipelines of this process did, by query id."""
_HOLDERS: dict[Path, tuple[Driver, Any]] = {}
"""By folder of state the pipeline that holds it, with its query."""


class Pipeline:
    """What flows from which DataFrame through a program into which sink; `start` lets it flow.

    Every method but `start` and `run` returns the pipeline itself. Nothing is checked against Spark, and
    nothing is started, before `start`. The given circuit stays as it is (see `circuit`).
    """

    def __init__(self, program: Program | Circuit) -> None:
        if not isinstance(program, Program | Circuit):
            raise InputError(f"a pipeline is made of a compiled program or a circuit, not {program!r}")
        self._program = program
        self._frames: dict[str, Any] = {}
        self._sources: dict[str, dict[str, Any]] = {}
        self._times: dict[str, str] = {}
        self._sinks: dict[str, tuple[TargetLike, dict[str, Any]]] = {}
        self._options: dict[str, Any] = {}
        self._name: str | None = None
        self.circuit: Circuit | None = None
        """The circuit that runs, with a SparkSource for each frame and a SparkSink for each target."""
        self._trigger: dict[str, Any] = {}

    # --- saying what ------------------------------------------------------------------------------

    def source(
        self,
        relation: str,
        frame: Any,
        *,
        encoding: str = "append",
        column: str = "",
        key: str | tuple[str, ...] | list[str] = (),
        sequence_by: str = "",
        event_time: str = "",
    ) -> Pipeline:
        """Let a DataFrame change an input relation. Its columns meet the relation's by name.

        `encoding` says what a row means: "append", "weight", "operations" or "upsert" (see
        `dbsp.operators.ports.spark_source`), `column` where the weight or operation is ("weight",
        "operation").
        With `key`, the relation has one row per key. `sequence_by` orders the changes of a micro-batch that
        is not in order; `event_time` is what the option `tickWindow` goes by.
        """
        if relation in self._frames:
            raise InputError(f"source '{relation}' is there twice; unite the DataFrames")
        self._frames[relation] = frame
        self._sources[relation] = {
            "encoding": encoding,
            "column": column,
            "key": (key,) if isinstance(key, str) else tuple(key),
            "sequence_by": sequence_by,
        }
        if event_time:
            self._times[relation] = event_time
        return self

    def sink(
        self,
        output: str,
        target: TargetLike,
        *,
        encoding: str = "weight",
        column: str = "",
        schema: Any = None,
    ) -> Pipeline:
        """Hand the deltas of an output to a folder of Parquet files, a table, or a function(DataFrame, tick).

        A Path, or a string with a slash in it, is a folder; any other string is a table of the catalogue.
        Each delta comes once, with the number of its tick; ticks that change nothing do not come.
        `encoding` is "weight", "operations" or "view" (see `dbsp.operators.ports.spark_sink`).
        `schema` (StructType
        or DDL) says what Spark type columns have that could have several: it has to for columns of objects.
        """
        if output in self._sinks:
            raise InputError(f"sink '{output}' is there twice")
        self._sinks[output] = (target, {"encoding": encoding, "column": column, "schema": schema})
        return self

    def option(self, name: str, value: Any) -> Pipeline:
        """An option of Spark's DataStreamWriter, such as `checkpointLocation`, or one of these:

        - `rowsPerTick`: ticks of at most so many rows of each source (default: a micro-batch is a tick);
        - `tickWindow`: a tick for each window of event time, such as "1 minute" (sources' `event_time`);
        - `snapshotEvery`: ticks between snapshots of the whole state (default 100);
        - `sync`: "false" if a loss of power may take the latest ticks, though no crash (default true);
        - `metrics`: "rows" leaves what only the circuit knows out of the query's progress, some 20 ms a
          micro-batch (default "all"; `dbsp.spark.ticks` tells it in any case).
        """
        self._options[name] = value
        return self

    def options(self, **options: Any) -> Pipeline:
        """Several options at once."""
        for name, value in options.items():
            self.option(name, value)
        return self

    def queryName(self, name: str) -> Pipeline:
        """The name of the query, as in Spark."""
        self._name = name
        return self

    def trigger(self, **trigger: Any) -> Pipeline:
        """When micro-batches are made, as in Spark: `processingTime="1 second"`, `availableNow=True`."""
        self._trigger = trigger
        return self

    # --- starting ---------------------------------------------------------------------------------

    def start(self) -> Any:
        """Start it and return Spark's own StreamingQuery.

        One micro-batch of all sources together is one tick. With a `checkpointLocation`, on a file system of
        this machine, the circuit's state is kept below it in `dbsp/`, and every change is applied once and
        every tick handed out once, whenever the process ends (see `dbsp.spark.targets` for what a target can
        promise). What goes wrong in a micro-batch stops the query, with the reason in `query.exception()`,
        and has changed nothing: started again, the query takes the same micro-batch.

        A micro-batch costs Spark's own floor, some 15 ms to bring its rows over as Arrow, and the tick.

        Raises InputError or SchemaError if sources or sinks do not fit the program, CheckpointError if the
        checkpoint is in use or another query's, SetupError without pyspark.
        """
        pyspark_or_advice()
        publishing = self._publishing()
        session = self._session(streaming=True)
        sources = self._bind_sources()
        location = self._location(session)
        folder = None if location is None else location / "dbsp"
        if folder is not None:
            _release(folder)
        driver = self._driver(session, sources, folder)
        driver.publishing = publishing
        try:
            frame = observed(self._frames, unite(self._frames), TAG, circuit=publishing)
            writer = frame.writeStream.foreachBatch(driver)
            for name, value in self._options.items():
                if name not in _OPTIONS:
                    writer = writer.option(name, value)
            if self._name is not None:
                writer = writer.queryName(self._name)
            if self._trigger:
                writer = writer.trigger(**self._trigger)
            query = writer.start()
        except BaseException:
            driver.close()
            raise
        _TICKS[query.id] = driver.ticks
        if folder is not None:
            _HOLDERS[folder] = (driver, query)
        ending = threading.Thread(
            target=_close_after, args=(query, driver, folder), name="dbsp-spark", daemon=True
        )
        ending.start()
        return query

    def run(self) -> dict[str, Any]:
        """Take plain DataFrames through the program at once: a tick of all they hold.

        Returns the outputs as DataFrames of their rows; sinks, if there are any, are handed theirs first.
        Nothing is kept. Raises as `start`.
        """
        pyspark_or_advice()
        session = self._session(streaming=False)
        driver = self._driver(session, self._bind_sources(), None)
        driver.once({name: frame.toArrow() for name, frame in self._frames.items()})
        frames = {}
        for name, schema in driver.run.outputs.items():
            if name in self._sinks:
                sink_schema = self._sinks[name][1]["schema"]
            elif any(type_.kind in ("object", "record") for type_ in schema.types):
                continue  # nobody said what these are in Spark
            else:
                sink_schema = None
            frames[name] = view_frame(session, driver.run, name, sink_schema)
        return frames

    # --- the parts --------------------------------------------------------------------------------

    def _session(self, streaming: bool) -> Any:
        if not self._frames:
            raise InputError("a pipeline needs a source: .source(relation, DataFrame)")
        for name, frame in self._frames.items():
            where = f"source '{name}'"
            if not hasattr(frame, "isStreaming"):
                raise InputError(f"expected a DataFrame of Spark, got {type(frame).__name__}", where=where)
            if type(frame).__module__.startswith("pyspark.sql.connect"):
                raise InputError(
                    "Spark Connect calls foreachBatch in another process than this one, where the circuit is"
                    " not; use a classic session (SparkSession.builder.master(...))",
                    where=where,
                )
            if streaming and not frame.isStreaming:
                raise InputError(
                    "the DataFrame is not streaming; read it with spark.readStream, or use run()", where=where
                )
            if not streaming and frame.isStreaming:
                raise InputError("the DataFrame is streaming; use start()", where=where)
        return next(iter(self._frames.values())).sparkSession

    def _bind_sources(self) -> dict[str, SparkSource]:
        ports = {node.operator.relation: node.operator for node in self._nodes(Input)}
        sources = {}
        for name, settings in self._sources.items():
            if name not in ports:
                raise InputError(f"there is no input '{name}'{suggestion(name, ports)}")
            sources[name] = source_of(ports[name], **settings)
            check_frame(sources[name], self._frames[name].schema)
        return sources

    def _nodes(self, kind: type) -> list[Any]:
        program = self._program
        graph = program if isinstance(program, Circuit) else program.circuit()
        return [node for node in graph.nodes if isinstance(node.operator, kind)]

    def _location(self, session: Any) -> Path | None:
        """Where the checkpoint is, by the same rules as Spark's; None for one that Spark throws away."""
        location = self._options.get("checkpointLocation")
        if location is None:
            root = session.conf.get("spark.sql.streaming.checkpointLocation", None)
            if root is None or self._name is None:
                return None
            location = f"{root}/{self._name}"
        return local_path(location, "checkpointLocation").resolve()

    def _driver(self, session: Any, sources: Mapping[str, SparkSource], folder: Path | None) -> Driver:
        sync = str(self._options.get("sync", "true")).lower() != "false"
        bound = []
        ports = {node.operator.relation: node.inputs[0].schema for node in self._nodes(Output)}
        for name, (target, settings) in self._sinks.items():
            if name not in ports:
                raise InputError(f"there is no output '{name}'{suggestion(name, ports)}")
            operator = SparkSink(name, None, settings["encoding"], settings["column"])
            bound.append((operator, target, settings["schema"]))
        cut = self._cut(sources)
        run = self._started(sources, [operator for operator, _, _ in bound], folder, sync)
        try:
            sinks = []
            for operator, target, sink_schema in bound:
                name = operator.relation
                try:
                    SparkSink(name, run.outputs[name], operator.encoding, operator.column)
                    struct = sink_struct(operator, struct_of(run.outputs[name], sink_schema))
                except DbspError as error:
                    error.where = error.where or operator.where
                    raise
                ledger = None if folder is None else folder / f"sink-{name}.tick"
                sinks.append(BoundSink(operator, struct, target_of(target, session, ledger)))
            described = {
                name: json.dumps({"key": source.key, "columns": self._frames[name].schema.simpleString()})
                for name, source in sources.items()
            }
            return Driver(run, sources, sinks, cut, folder, described, sync)
        except BaseException:
            if run.log is not None:
                run.log.close()
            raise

    def _publishing(self) -> bool:
        """Whether the circuit's own numbers go into the query's progress."""
        metrics = str(self._options.get("metrics", "all"))
        if metrics not in ("all", "rows"):
            raise InputError(f"the option 'metrics' is 'all' or 'rows', not {metrics!r}")
        return metrics == "all"

    def _cut(self, sources: Mapping[str, SparkSource]) -> Cut:
        try:
            rows = int(self._options.get("rowsPerTick", 0))
        except ValueError:
            rows = -1
        if rows < 0:
            raise InputError(f"rowsPerTick is a number of rows, not {self._options['rowsPerTick']!r}")
        window = self._options.get("tickWindow")
        if window is None:
            return Cut(rows)
        if not self._times:
            raise InputError("tickWindow needs a source with event_time=")
        for name, column in self._times.items():
            source = sources[name]
            if column not in (*source.columns.names, *source.control):
                raise InputError(f"there is no column {column!r} for the event time", where=source.where)
        return Cut(rows, microseconds(str(window)), dict(self._times))

    def _started(
        self, sources: Mapping[str, SparkSource], sinks: list[SparkSink], folder: Path | None, sync: bool
    ) -> Run:
        program = self._program
        circuit = program if isinstance(program, Circuit) else program.circuit_for(program.plans)
        circuit = self.circuit = bind_ports(circuit, [*sources.values(), *sinks])
        store = None
        if folder is not None:
            every = int(self._options.get("snapshotEvery", 100))
            store = Store(folder / "state", snapshot_every=every, sync=sync)
        if isinstance(program, Circuit):
            return circuit.start(checkpoint=store)
        return program.start(circuit=circuit, checkpoint=store)


def ticks(query: Any) -> list[dict[str, Any]]:
    """What the latest ticks of a pipeline's query did, in numbers, oldest first; `batch` is Spark's batchId.

    Each has tick, batch, rows_in, rows_out, absent (retractions that found nothing), present (assertions of
    what was there), state_rows, state_bytes, fetch_seconds, step_seconds and sink_seconds. At most 1,000
    ticks are remembered. `query` is a StreamingQuery, or its id as a listener's events have it.
    Raises InputError for a query that is no pipeline of this process.
    """
    latest = _TICKS.get(str(getattr(query, "id", query)))
    if latest is None:
        raise InputError("this query is no pipeline that was started in this process")
    return [asdict(tick) for tick in list(latest)]


def _release(folder: Path) -> None:
    """Take the state from a pipeline of this process whose query has ended."""
    if folder not in _HOLDERS or _HOLDERS[folder][0].closed:
        return
    driver, query = _HOLDERS[folder]
    if query.isActive:
        raise CheckpointError(
            f"{folder.parent} is the checkpoint of query {query.name or query.id}, which is running; stop it"
            " first, or choose another checkpointLocation"
        )
    driver.close()


def _close_after(query: Any, driver: Driver, folder: Path | None) -> None:
    """Let go of the checkpoint when the query has ended, however it did."""
    with contextlib.suppress(Exception):  # what stopped it is told by query.exception()
        query.awaitTermination()
    driver.close()
    if folder is not None and _HOLDERS.get(folder, (None,))[0] is driver:
        del _HOLDERS[folder]
