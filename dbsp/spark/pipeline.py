"""Pipelines: a program between DataFrames and sinks, started as a Spark streaming query."""

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
from dbsp.errors import CheckpointError, DbspError, InputError, SchemaError, shorten
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
"""The latest ticks of this process's pipelines, by query id."""
_HOLDERS: dict[Path, tuple[Driver, Any]] = {}
"""The pipeline that uses a state folder, with its query, by folder."""


class Pipeline:
    """The sources, sinks and options of a program that Spark drives; `start` starts the query.

    Every method except `start` and `run` returns the pipeline itself. Nothing is checked against
    Spark, and nothing is started, before `start`. The given circuit is not changed (see `circuit`).
    """

    def __init__(self, program: Program | Circuit) -> None:
        if not isinstance(program, Program | Circuit):
            raise InputError(
                f"expected a compiled program or a Circuit, got {shorten(program)}", code="invalid-argument"
            )
        self._program = program
        self._frames: dict[str, Any] = {}
        self._sources: dict[str, dict[str, Any]] = {}
        self._times: dict[str, str] = {}
        self._sinks: dict[str, tuple[TargetLike, dict[str, Any]]] = {}
        self._options: dict[str, Any] = {}
        self._name: str | None = None
        self.circuit: Circuit | None = None
        """The running circuit, with a SparkSource per DataFrame and a SparkSink per target."""
        self._trigger: dict[str, Any] = {}

    # --- configuration ----------------------------------------------------------------------------

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
        """Change an input relation by the rows of a DataFrame; columns are matched by name.

        Parameters:
            relation: the name of the input.
            frame: the DataFrame; streaming for `start`, batch for `run`.
            encoding: the meaning of a row: "append", "weight", "operations" or "upsert" (see
                `dbsp.operators.ports.spark_source`).
            column: the column of the weight or operation; default "weight" or "operation".
            key: the key columns, if the relation has one row per key.
            sequence_by: the column that orders the changes of an unordered micro-batch.
            event_time: the column of the event time, for the option `tickWindow`.

        Returns:
            The pipeline.

        Raises:
            InputError: the relation has a source already. Other errors are raised by `start` and
                `run`.

        Examples:
            >>> program = dbsp.compile(".decl r(x: number)\\n.input r\\n.output r")
            >>> rows = dbsp.spark.session().createDataFrame([(1, 1), (2, -1)], "x long, weight int")
            >>> pipeline = dbsp.spark.stream(program).source("r", rows, encoding="weight")
            >>> pipeline.run()["r"].collect()
            [Row(x=1)]
        """
        if relation in self._frames:
            raise InputError(
                f"source '{relation}' is defined twice; combine the DataFrames with union()",
                code="duplicate-name",
            )
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
        """Write the deltas of an output to a folder of Parquet files, a table or a function.

        Each delta arrives once, with the number of its tick; empty deltas are skipped.

        Parameters:
            output: the name of the output.
            target: a folder (a Path, or a string with a slash), a table of Spark's catalogue (any
                other string), or a function of a DataFrame and a tick number.
            encoding: "weight", "operations" or "view" (see `dbsp.operators.ports.spark_sink`).
            column: the column of the weight or operation; default "weight" or "operation".
            schema: the Spark types (StructType or DDL) of columns with a choice of types; required
                for columns of objects.

        Returns:
            The pipeline.

        Raises:
            InputError: the output has a sink already. Other errors are raised by `start` and `run`.

        Examples:
            >>> program = dbsp.compile(".decl r(x: number)\\n.input r\\n.output r")
            >>> rows = dbsp.spark.session().createDataFrame([(1,), (2,)], "x long")
            >>> pipeline = dbsp.spark.stream(program).source("r", rows)
            >>> views = pipeline.sink("r", lambda delta, tick: print(tick, delta.columns)).run()
            1 ['x', 'weight']
        """
        if output in self._sinks:
            raise InputError(f"sink '{output}' is defined twice; remove one of them", code="duplicate-name")
        self._sinks[output] = (target, {"encoding": encoding, "column": column, "schema": schema})
        return self

    def option(self, name: str, value: Any) -> Pipeline:
        """Set an option of Spark's DataStreamWriter, such as `checkpointLocation`, or of dbsp.

        - `rowsPerTick`: maximum rows of each source per tick (default: a micro-batch is one tick);
        - `tickWindow`: one tick per window of event time (`event_time`), such as "1 minute";
        - `snapshotEvery`: ticks between snapshots of the whole state (default 100);
        - `sync`: "false" if a power failure, but not a crash, may lose the latest ticks (default
          "true");
        - `metrics`: "rows" omits the circuit's own metrics from the query's progress and saves some
          20 ms per micro-batch (default "all"; `dbsp.spark.ticks` returns them in any case).

        Parameters:
            name: the name of the option.
            value: its value.

        Returns:
            The pipeline.

        Examples:
            >>> program = dbsp.compile(".decl r(x: number)\\n.input r\\n.output r")
            >>> pipeline = dbsp.spark.stream(program).option("rowsPerTick", 1000)
        """
        self._options[name] = value
        return self

    def options(self, **options: Any) -> Pipeline:
        """Set several options.

        Parameters:
            options: names and values, as for `option`.

        Returns:
            The pipeline.

        Examples:
            >>> program = dbsp.compile(".decl r(x: number)\\n.input r\\n.output r")
            >>> pipeline = dbsp.spark.stream(program).options(rowsPerTick=1000, sync="false")
        """
        for name, value in options.items():
            self.option(name, value)
        return self

    def queryName(self, name: str) -> Pipeline:
        """Set the name of the query, as in Spark.

        Parameters:
            name: the name.

        Returns:
            The pipeline.

        Examples:
            >>> program = dbsp.compile(".decl r(x: number)\\n.input r\\n.output r")
            >>> pipeline = dbsp.spark.stream(program).queryName("rows")
        """
        self._name = name
        return self

    def trigger(self, **trigger: Any) -> Pipeline:
        """Set when micro-batches start, as in Spark.

        Parameters:
            trigger: one of Spark's keywords: `processingTime="1 second"`, `availableNow=True`.

        Returns:
            The pipeline.

        Examples:
            >>> program = dbsp.compile(".decl r(x: number)\\n.input r\\n.output r")
            >>> pipeline = dbsp.spark.stream(program).trigger(availableNow=True)
        """
        self._trigger = trigger
        return self

    # --- start ------------------------------------------------------------------------------------

    def start(self) -> Any:
        """Start the pipeline as a Spark streaming query.

        One micro-batch of all sources together is one tick. With a `checkpointLocation`, on a file
        system of this machine, the circuit's state is stored below it in `dbsp/`; then every change
        is applied once and every tick is written once, even if the process ends at any time (see
        `dbsp.spark.targets` for the guarantees of each target). An error in a micro-batch changes
        nothing and stops the query; `query.exception()` returns it. A restarted query repeats the
        same micro-batch.

        Cost per micro-batch: Spark's own minimum, some 15 ms to fetch the rows as Arrow, and the
        tick.

        Returns:
            Spark's StreamingQuery.

        Raises:
            InputError: a relation, DataFrame, option or target is not valid.
            SchemaError: the columns of a DataFrame or sink do not match the relation.
            CheckpointError: the checkpoint is in use, or belongs to another query.
            SetupError: pyspark is not installed.

        Examples:
            >>> program = dbsp.compile(".decl r(x: number)\\n.input r\\n.output r")
            >>> rows = dbsp.spark.session().readStream.format("rate").load().selectExpr("value AS x")
            >>> pipeline = dbsp.spark.stream(program).source("r", rows)
            >>> query = pipeline.trigger(availableNow=True).start()
            >>> query.awaitTermination()
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
        """Apply batch DataFrames to the program in one tick.

        Sinks receive their deltas first. Nothing is stored.

        Returns:
            A DataFrame of rows for each output, by name; without outputs of objects whose Spark
            type no sink defines.

        Raises:
            InputError: an input or output does not exist, or a DataFrame is streaming.
            SchemaError: a column is missing, unexpected or of the wrong type.

        Examples:
            >>> program = dbsp.compile(".decl r(x: number)\\n.input r\\n.output r")
            >>> rows = dbsp.spark.session().createDataFrame([(1,), (2,)], "x long")
            >>> dbsp.spark.stream(program).source("r", rows).run()["r"].count()
            2
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
                continue  # the Spark types of its columns are unknown
            else:
                sink_schema = None
            frames[name] = view_frame(session, driver.run, name, sink_schema)
        return frames

    # --- the parts --------------------------------------------------------------------------------

    def _session(self, streaming: bool) -> Any:
        if not self._frames:
            raise InputError(
                "the pipeline has no source; add .source(relation, DataFrame)", code="spark-source"
            )
        for name, frame in self._frames.items():
            where = f"source '{name}'"
            if not hasattr(frame, "isStreaming"):
                got = type(frame).__name__
                raise InputError(f"expected a Spark DataFrame, got {got}", where=where, code="spark-source")
            if type(frame).__module__.startswith("pyspark.sql.connect"):
                raise InputError(
                    "expected a DataFrame of a classic session (SparkSession.builder.master(...)), got one of"
                    " Spark Connect, which calls foreachBatch in a process without the circuit",
                    where=where,
                    code="spark-source",
                )
            if streaming and not frame.isStreaming:
                raise InputError(
                    "expected a streaming DataFrame, got a batch DataFrame; read it with spark.readStream,"
                    " or use run()",
                    where=where,
                    code="spark-source",
                )
            if not streaming and frame.isStreaming:
                raise InputError(
                    "expected a batch DataFrame, got a streaming DataFrame; use start()",
                    where=where,
                    code="spark-source",
                )
        return next(iter(self._frames.values())).sparkSession

    def _bind_sources(self) -> dict[str, SparkSource]:
        ports = {node.operator.relation: node.operator for node in self._nodes(Input)}
        sources = {}
        for name, settings in self._sources.items():
            if name not in ports:
                raise InputError(f"unknown input '{name}'{suggestion(name, ports)}", code="unknown-input")
            sources[name] = source_of(ports[name], **settings)
            check_frame(sources[name], self._frames[name].schema)
        return sources

    def _nodes(self, kind: type) -> list[Any]:
        program = self._program
        graph = program if isinstance(program, Circuit) else program.circuit()
        return [node for node in graph.nodes if isinstance(node.operator, kind)]

    def _location(self, session: Any) -> Path | None:
        """Return the checkpoint folder by Spark's rules; None for a temporary one."""
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
                raise InputError(f"unknown output '{name}'{suggestion(name, ports)}", code="unknown-output")
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
        """Return whether the circuit's own metrics are added to the query's progress."""
        metrics = str(self._options.get("metrics", "all"))
        if metrics not in ("all", "rows"):
            raise InputError(
                f"the option 'metrics' expects 'all' or 'rows', got {metrics!r}", code="invalid-option"
            )
        return metrics == "all"

    def _cut(self, sources: Mapping[str, SparkSource]) -> Cut:
        try:
            rows = int(self._options.get("rowsPerTick", 0))
        except ValueError:
            rows = -1
        if rows < 0:
            raise InputError(
                f"the option 'rowsPerTick' expects a number of rows, got {self._options['rowsPerTick']!r}",
                code="invalid-option",
            )
        window = self._options.get("tickWindow")
        if window is None:
            return Cut(rows)
        if not self._times:
            raise InputError(
                "the option 'tickWindow' needs a source with event_time=...", code="missing-option"
            )
        for name, column in self._times.items():
            source = sources[name]
            if column not in (*source.columns.names, *source.control):
                known = (*source.columns.names, *source.control)
                raise SchemaError(
                    f"event_time: unknown column {column!r} in ({', '.join(known)})"
                    f"{suggestion(column, known)}",
                    where=source.where,
                    code="unknown-column",
                )
        return Cut(rows, microseconds(str(window)), dict(self._times))

    def _started(
        self, sources: Mapping[str, SparkSource], sinks: list[SparkSink], folder: Path | None, sync: bool
    ) -> Run:
        program = self._program
        circuit = program if isinstance(program, Circuit) else program.circuit_for(program.plans)
        circuit = self.circuit = bind_ports(circuit, [*sources.values(), *sinks])
        store = None
        if folder is not None:
            every = self._options.get("snapshotEvery", 100)
            if not str(every).isdecimal() or int(every) < 1:
                raise InputError(
                    f"the option 'snapshotEvery' expects a number of ticks from 1, got {every!r}",
                    code="invalid-option",
                )
            store = Store(folder / "state", snapshot_every=int(every), sync=sync)
        if isinstance(program, Circuit):
            return circuit.start(checkpoint=store)
        return program.start(circuit=circuit, checkpoint=store)


def ticks(query: Any) -> list[dict[str, Any]]:
    """Return metrics of the latest ticks of a pipeline's query, oldest first; at most 1,000 ticks.

    Each tick has tick, batch (Spark's batchId), rows_in, rows_out, absent (retractions of absent
    rows), present (insertions of present rows), state_rows, state_bytes, fetch_seconds,
    step_seconds and sink_seconds.

    Parameters:
        query: a StreamingQuery that `start` returned, or its id.

    Returns:
        A dictionary of metrics per tick.

    Raises:
        InputError: the query was not started by a pipeline of this process.

    Examples:
        >>> try:
        ...     dbsp.spark.ticks("another query")
        ... except dbsp.InputError as error:
        ...     print(error.message)
        expected a query that a pipeline of this process started, got 'another query'
    """
    latest = _TICKS.get(str(getattr(query, "id", query)))
    if latest is None:
        raise InputError(
            f"expected a query that a pipeline of this process started, got {shorten(query)}",
            code="unknown-query",
        )
    return [asdict(tick) for tick in list(latest)]


def _release(folder: Path) -> None:
    """Close a pipeline of this process that still holds the folder although its query has ended."""
    if folder not in _HOLDERS or _HOLDERS[folder][0].closed:
        return
    driver, query = _HOLDERS[folder]
    if query.isActive:
        raise CheckpointError(
            f"{folder.parent} is the checkpoint of query {query.name or query.id}, which is running; stop it"
            " first, or choose another checkpointLocation",
            code="checkpoint-in-use",
        )
    driver.close()


def _close_after(query: Any, driver: Driver, folder: Path | None) -> None:
    """Release the checkpoint after the query ends, with or without an error."""
    with contextlib.suppress(Exception):  # query.exception() returns the error that stopped it
        query.awaitTermination()
    driver.close()
    if folder is not None and _HOLDERS.get(folder, (None,))[0] is driver:
        del _HOLDERS[folder]
