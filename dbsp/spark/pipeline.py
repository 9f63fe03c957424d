"""Pipelines: a program between DataFrames and sinks, started as a Spark streaming query."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from os import PathLike
from typing import Any, TypeAlias

from dbsp.circuit.graph import Graph
from dbsp.circuit.stage import Stage, StageName
from dbsp.compiler.program import Program
from dbsp.data.schema import suggestion
from dbsp.errors import InputError, shorten
from dbsp.operators.streams.builder import Circuit
from dbsp.spark.cluster.cluster_start import (
    ClusterStart,
    batch_folder,
    release_folder,
    run_batch,
    state_folder,
)
from dbsp.spark.connect_batches import connect_batches
from dbsp.spark.held_folders import PipelineDriver, hold, release
from dbsp.spark.job_names import JobNames
from dbsp.spark.local_session import pyspark_or_advice
from dbsp.spark.metrics import observed
from dbsp.spark.pipeline_options import canonical, synced
from dbsp.spark.pipeline_parts import PipelineParts, SinkSettings, SourceSettings
from dbsp.spark.port_binding import view_frame
from dbsp.spark.query_reports import QueryReport, keep_report
from dbsp.spark.session_kinds import is_connect
from dbsp.spark.tagged_union import TAG, unite
from dbsp.spark.targets import local_path

TargetLike: TypeAlias = str | PathLike[str] | Callable[[Any, int], object]

_MODES = {"append": "append", "update": "weight", "complete": "view"}
"""The encoding for each output mode of Spark."""


class Pipeline:
    """The sources, sinks and options of a program that Spark drives; `start` starts the query.

    Every method except `start`, `toTable`, `run` and `circuit` returns the pipeline itself. Nothing
    is checked against Spark, and nothing is started, before `start`. The given circuit is not
    changed.
    """

    def __init__(self, program: Program | Circuit) -> None:
        if not isinstance(program, Program | Circuit):
            raise InputError(
                f"expected a compiled program or a Circuit, got {shorten(program)}", code="invalid-argument"
            )
        self._parts = PipelineParts(program)
        self._trigger: dict[str, Any] = {}

    # --- configuration ----------------------------------------------------------------------------

    def source(
        self,
        relation: str,
        frame: Any = None,
        *,
        encoding: str | None = None,
        column: str | None = None,
        key: str | Sequence[str] = (),
        sequence_by: str | None = None,
        ordered: bool | None = None,
        event_time: str = "",
    ) -> Pipeline:
        """Change an input relation by the rows of a DataFrame; columns are matched by name.

        Parameters:
            relation: the name of the input.
            frame: the DataFrame, or the name of a table or temporary view; streaming for `start`,
                batch for `run`. By default the frame of the circuit's `SparkSource`.
            encoding: the meaning of a row: "append" (default), "weight", "operations" or "upsert"
                (see `dbsp.operators.ports.spark_source`).
            column: the column of the weight or operation; default "weight" or "operation".
            key: the key columns, if the relation has one row per key.
            sequence_by: the column that orders the changes of a micro-batch. Without it, rows of
                files are ordered by the modification time and path of their file, and their
                position in it.
            ordered: True if the rows of a micro-batch arrive in the order of their changes.
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
        if relation in self._parts.sources:
            raise InputError(
                f"source '{relation}' is defined twice; combine the DataFrames with union()",
                code="duplicate-name",
            )
        given = {
            "encoding": encoding,
            "column": column,
            "sequence_by": sequence_by,
            "ordered": ordered,
        }
        self._parts.sources[relation] = SourceSettings(
            frame,
            {name: value for name, value in given.items() if value is not None},
            (key,) if isinstance(key, str) else tuple(key),
            event_time,
        )
        return self

    def sink(
        self,
        output: str,
        target: TargetLike | None = None,
        *,
        encoding: str | None = None,
        column: str | None = None,
        schema: Any = None,
        name: str = "",
    ) -> Pipeline:
        """Write the deltas of an output to a folder of Parquet files, a table or a function.

        Each delta arrives once, with the number of its tick; empty deltas are skipped. The
        checkpoint knows each sink by its name. A sink with a new name begins with the current view;
        a sink that was left out for some starts receives what it missed as one delta.

        Parameters:
            output: the name of the output.
            target: a folder (a Path, or a string with a slash), a table of Spark's catalogue (any
                other string), or a function of a DataFrame and a tick number. By default the
                target of the circuit's `SparkSink`.
            encoding: "weight" (default), "operations", "append" or "view" (see
                `dbsp.operators.ports.spark_sink`).
            column: the column of the weight or operation; default "weight" or "operation".
            schema: the Spark types (StructType or DDL) of columns with a choice of types; required
                for columns of objects.
            name: the name of the sink, for a second sink of the same output; default `output`.

        Returns:
            The pipeline.

        Raises:
            InputError: there is a sink of this name already. Other errors are raised by `start`
                and `run`.

        Examples:
            >>> program = dbsp.compile(".decl r(x: number)\\n.input r\\n.output r")
            >>> rows = dbsp.spark.session().createDataFrame([(1,), (2,)], "x long")
            >>> pipeline = dbsp.spark.stream(program).source("r", rows)
            >>> views = pipeline.sink("r", lambda delta, tick: print(tick, delta.columns)).run()
            1 ['x', 'weight']
        """
        name = name or output
        if name in self._parts.sinks:
            raise InputError(
                f"sink '{name}' is defined twice; give the second one another name=...", code="duplicate-name"
            )
        given = {"encoding": encoding, "column": column}
        self._parts.sinks[name] = SinkSettings(
            output, target, {key: value for key, value in given.items() if value is not None}, schema
        )
        return self

    def option(self, name: str, value: Any) -> Pipeline:
        """Set an option: Spark's `checkpointLocation`, or one of dbsp.

        - `rowsPerTick`: maximum rows of each source per tick (default: a micro-batch is one tick);
        - `tickWindow`: one tick per window of event time (`event_time`), such as "1 minute";
        - `snapshotEvery`: when to write a snapshot of the state: ticks, a time ("30 s") or bytes of
          journal ("64 MB"), or several with commas between them (default "1000, 16 MB");
        - `sync`: "false" if a power failure, but not a crash, may lose the latest ticks (default
          "true");
        - `memoryLimit`: the memory for the state of the circuit, such as "4G" or "25%"; the state
          beyond it is stored in files (default: no limit);
        - `shards`: the number of shards that run the circuit on Spark's executors; without it the
          circuit runs in this process;
        - `scopes`: with `shards`, where a recursion runs that no column divides: "gather" (default)
          on the first shard, "exchange" on all shards, with a stage of Spark for each exchange of
          each iteration;
        - `stateLocation`: for `run` with `shards`, a folder for the state and the results, which
          this process and all executors share.

        With `shards`, the folder of `checkpointLocation` is shared too, `snapshotEvery` takes bytes
        of journal of a shard, `memoryLimit` is an amount for all shards and no share of the memory
        of a machine, and `rowsPerTick` and `tickWindow` are refused.

        Parameters:
            name: the name of the option.
            value: its value.

        Returns:
            The pipeline.

        Raises:
            InputError: there is no such option.

        Examples:
            >>> program = dbsp.compile(".decl r(x: number)\\n.input r\\n.output r")
            >>> pipeline = dbsp.spark.stream(program).option("rowsPerTick", 1000)
        """
        self._parts.options[canonical(name)] = value
        return self

    def options(self, **options: Any) -> Pipeline:
        """Set several options.

        Parameters:
            options: names and values, as for `option`.

        Returns:
            The pipeline.

        Raises:
            InputError: there is no such option.

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
        self._parts.query_name = name
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

    def format(self, source: str) -> Pipeline:
        """Set the format of the tables that the sinks create, as in Spark.

        Parameters:
            source: the format, such as "parquet" or "delta"; folders are always of Parquet files.

        Returns:
            The pipeline.

        Examples:
            >>> program = dbsp.compile(".decl r(x: number)\\n.input r\\n.output r")
            >>> pipeline = dbsp.spark.stream(program).format("parquet")
        """
        self._parts.form = source
        return self

    def outputMode(self, mode: str) -> Pipeline:
        """Set what sinks without an `encoding` receive, in the words of Spark.

        Parameters:
            mode: "append" for rows without a weight (a retraction is an error), "update" for deltas
                with weights, "complete" for the whole view in every tick.

        Returns:
            The pipeline.

        Raises:
            InputError: the mode is unknown.

        Examples:
            >>> program = dbsp.compile(".decl r(x: number)\\n.input r\\n.output r")
            >>> pipeline = dbsp.spark.stream(program).outputMode("complete")
        """
        if not isinstance(mode, str) or mode.lower() not in _MODES:
            raise InputError(
                f"unknown output mode {shorten(mode)}; expected one of {', '.join(_MODES)}"
                f"{suggestion(str(mode), _MODES)}",
                code="unknown-encoding",
            )
        self._parts.encoding = _MODES[mode.lower()]
        return self

    def circuit(self, stage: Stage | StageName = Stage.QUERY) -> Graph:
        """Return the circuit with a SparkSource for each source and a SparkSink for each sink.

        Parameters:
            stage: "query", "incremental", "physical" or "distributed", as for
                `Circuit.circuit`. A distributed circuit shows how its inputs are dealt to shards,
                in the place of the sources.

        Returns:
            A graph, for drawing and for `to_json`.

        Raises:
            InputError: an input or output does not exist.

        Examples:
            >>> program = dbsp.compile(".decl r(x: number)\\n.input r\\n.output r")
            >>> pipeline = dbsp.spark.stream(program).source("r", "rows").sink("r", "copy")
            >>> [node.label for node in pipeline.circuit().nodes]
            ['SparkSource r [append] of rows', 'SparkSink r [weight] to copy']
        """
        return self._parts.shown().circuit(stage)

    # --- start ------------------------------------------------------------------------------------

    def toTable(self, name: str) -> Any:
        """Start the query with the only output of the program in a table, as in Spark.

        Parameters:
            name: the name of the table.

        Returns:
            Spark's StreamingQuery.

        Raises:
            InputError: the program has several outputs. Otherwise as for `start`.

        Examples:
            >>> program = dbsp.compile(".decl r(x: number)\\n.input r\\n.output r")
            >>> rows = dbsp.spark.session().readStream.format("rate").load().selectExpr("value AS x")
            >>> pipeline = dbsp.spark.stream(program).source("r", rows).trigger(availableNow=True)
            >>> pipeline.toTable("copied").awaitTermination()
            >>> dbsp.spark.session().table("copied").columns
            ['x', 'weight', 'tick']
            >>> dropped = dbsp.spark.session().sql("DROP TABLE copied")
        """
        return self._sink_of_only_output(name, f".sink(output, {name!r})").start()

    def _sink_of_only_output(self, target: TargetLike, instead: str) -> Pipeline:
        outputs = self._parts.outputs
        if len(outputs) != 1:
            raise InputError(
                f"expected a program with one output, got {', '.join(outputs) or 'none'}; name the output of"
                f" each sink with {instead}",
                code="spark-sink",
            )
        return self.sink(outputs[0], target)

    def start(self, path: str | PathLike[str] | None = None) -> Any:
        """Start the pipeline as a Spark streaming query.

        One micro-batch of all sources together is one tick. With a `checkpointLocation`, on a file
        system of this machine, the circuit's state is stored below it in `dbsp/`; then every change
        is applied once and every tick is written once, even if the process ends at any time (see
        `dbsp.spark.targets` for the guarantees of each target). An error in a micro-batch changes
        nothing and stops the query; `query.exception()` returns it. A restarted query repeats the
        same micro-batch.

        With the option `shards`, Spark's executors run the circuit: no row passes this process, and
        `checkpointLocation` and the folders of sinks must be shared with all executors. A folder of
        a sink then has a folder of parts for each tick.

        Cost per micro-batch: Spark's own minimum, some 15 ms to fetch the rows as Arrow, and the
        tick.

        Parameters:
            path: a folder for the only output of the program, as in Spark; by default the sinks
                receive the outputs.

        Returns:
            Spark's StreamingQuery.

        Raises:
            InputError: a relation, DataFrame, option or target is not valid.
            SchemaError: the columns of a DataFrame or sink do not match the relation.
            CheckpointError: the checkpoint is in use, or belongs to another query; or a sink lost
                ticks that it had.
            SetupError: pyspark is not installed.

        Examples:
            >>> program = dbsp.compile(".decl r(x: number)\\n.input r\\n.output r")
            >>> rows = dbsp.spark.session().readStream.format("rate").load().selectExpr("value AS x")
            >>> pipeline = dbsp.spark.stream(program).source("r", rows)
            >>> query = pipeline.trigger(availableNow=True).start()
            >>> query.awaitTermination()
        """
        pyspark_or_advice()
        if path is not None:
            return self._sink_of_only_output(local_path(path, "a sink"), ".sink(output, folder)").start()
        parts = self._parts
        session = parts.session()
        frames = parts.frames(session, streaming=True)
        sources = parts.bind(frames)
        ordered, orders = parts.ordered(sources, frames)
        schemas = {name: frame.schema for name, frame in frames.items()}
        if is_connect(session):
            batches = connect_batches(parts, session, sources, schemas, orders)
            query = self._started(ordered, batches)
            keep_report(query.id, QueryReport(in_server=True))
            return query
        location, shards = parts.location(session), parts.shards
        driver: PipelineDriver
        if shards is not None:
            sync = synced(parts.options)
            shared = state_folder(session, location, "checkpointLocation", "dbsp", sync)
            held: str | None = shared.location
            ended = partial(release_folder, shared)
            release(shared.location, shared.location.removesuffix("/dbsp"))
            start = ClusterStart(parts, session, shards, shared, sources, orders)
            driver = start.driver(schemas, durable=True)
        else:
            folder = None
            if location is not None:
                folder = local_path(location, "checkpointLocation").resolve() / "dbsp"
                release(str(folder), str(folder.parent))
            held, ended = None if folder is None else str(folder), partial(release_folder, None)
            alone = parts.driver(session, sources, schemas, folder, orders)
            alone.jobs = JobNames(alone.run.graph.name, session)
            driver = alone
        try:
            query = self._started(ordered, driver)
        except BaseException:
            driver.close()
            raise
        keep_report(query.id, driver.report)
        hold(held, driver, query, ended)
        return query

    def _started(self, frames: Mapping[str, Any], batches: Callable[[Any, int], None]) -> Any:
        """Start Spark's query, which calls a function with every micro-batch."""
        writer = observed(frames, unite(frames), TAG).writeStream.foreachBatch(batches)
        if "checkpointLocation" in self._parts.options:
            writer = writer.option("checkpointLocation", str(self._parts.options["checkpointLocation"]))
        if self._parts.query_name is not None:
            writer = writer.queryName(self._parts.query_name)
        if self._trigger:
            writer = writer.trigger(**self._trigger)
        return writer.start()

    def run(self) -> dict[str, Any]:
        """Apply batch DataFrames to the program in one tick.

        Sinks receive their deltas first. Nothing is stored. With the option `shards`, Spark's
        executors compute, and the results are files that they write, in `stateLocation` or in a
        temporary folder of this machine, which is removed when this process ends.

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
        parts = self._parts
        session = parts.session()
        frames = parts.frames(session, streaming=False)
        sources = parts.bind(frames)
        ordered, orders = parts.ordered(sources, frames)
        if parts.shards is not None:
            given = parts.options.get("stateLocation")
            shared = state_folder(session, given, "stateLocation", batch_folder())
            return run_batch(ClusterStart(parts, session, parts.shards, shared, sources, orders), ordered)
        schemas = {name: frame.schema for name, frame in frames.items()}
        driver = parts.driver(session, sources, schemas, None, orders)
        driver.jobs = JobNames(driver.run.graph.name, session)
        driver.once(ordered)
        views = {}
        for name, schema in driver.run.outputs.items():
            given = [sink.schema for sink in parts.sinks.values() if sink.output == name]
            sink_schema = next((each for each in given if each is not None), None)
            if not given and any(type_.kind in ("object", "record") for type_ in schema.types):
                continue  # the Spark types of its columns are unknown
            views[name] = view_frame(session, driver.run, name, sink_schema)
        return views
