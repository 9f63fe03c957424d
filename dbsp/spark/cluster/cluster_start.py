"""Start a pipeline on a cluster: from its settings to the driver that Spark calls.

<checkpointLocation>/dbsp/       the state (`dbsp.spark.cluster.commits`)
    pipeline.json                the record of the sources and sinks
    sinks/NAME/tick=N/           the parts of a table's or function's latest tick
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from dbsp.circuit.graph import Graph
from dbsp.circuit.stage import Stage
from dbsp.compiler.first_tick import has_first_tick
from dbsp.durable.step_memory import signature
from dbsp.errors import CheckpointError, DbspError, InputError
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.ports.spark_sink import SparkSink
from dbsp.operators.ports.spark_source import SparkSource
from dbsp.operators.stages.passes.distribute import ScopePolicy, distribute
from dbsp.operators.streams.builder import Circuit
from dbsp.spark.cluster.cluster_delivery import ClusterDelivery
from dbsp.spark.cluster.cluster_driver import ClusterDriver, last_batch
from dbsp.spark.cluster.cluster_run import ClusterRun
from dbsp.spark.cluster.commits import known_query
from dbsp.spark.cluster.part_sink import PartSink
from dbsp.spark.cluster.part_target import ClusterSink, PartTarget, read_parts
from dbsp.spark.cluster.shared_file import SharedFile
from dbsp.spark.cluster.shared_folder import SharedFolder
from dbsp.spark.cluster.start_check import check_executors
from dbsp.spark.job_names import JobNames
from dbsp.spark.pipeline_options import image_from, memory_of_shards, scopes_of
from dbsp.spark.pipeline_parts import PipelineParts
from dbsp.spark.pipeline_record import RECORD, RECORD_FORM, PipelineRecord
from dbsp.spark.port_binding import sink_struct
from dbsp.spark.row_order import RowOrder
from dbsp.spark.session_kinds import context_of
from dbsp.spark.spark_types import arrow_types, struct_of
from dbsp.spark.targets import Target, is_folder, target_of

_TEMPORARY: dict[str, tempfile.TemporaryDirectory[str]] = {}
"""The folders that this process removes when it ends."""


@dataclass
class ClusterStart:
    """A pipeline to start on a number of shards, with the state in a folder."""

    parts: PipelineParts
    session: Any
    shards: int
    folder: SharedFolder
    sources: Mapping[str, SparkSource]
    orders: Mapping[str, RowOrder]

    def driver(self, schemas: Mapping[str, Any], durable: bool) -> ClusterDriver:
        """Check the executors, continue from the state, and return the driver.

        `schemas` are the Spark schemas of the sources' DataFrames. Facts of the program are the
        first tick. Raises the errors of `Pipeline.start`.
        """
        parts = self.parts
        _refuse_state_of_one_process(self.folder)
        circuit = parts.running_circuit(self.sources)
        physical, scopes = circuit.runnable(Stage.PHYSICAL), scopes_of(parts.options)
        graph = _distributed(physical, scopes)
        try:
            run = ClusterRun(
                self.session,
                graph,
                self.shards,
                self.folder,
                query=self._identity(graph),
                image_from=image_from(parts.options),
                memory_limit=memory_of_shards(parts.options),
            )
        except CheckpointError as error:
            if error.code == "checkpoint-other-program":
                self._refuse_other_scopes(physical, scopes)
            raise
        sinks = [self._sink(name, operator, run) for name, operator in parts.sink_operators().items()]
        shared = [sink.part.folder for sink in sinks if isinstance(sink.target, PartTarget)]
        check_executors(self.session, run.query, [self.folder, *shared], self.shards)
        described = {
            name: json.dumps({"key": source.key, "columns": schemas[name].simpleString()})
            for name, source in self.sources.items()
        }
        file = SharedFile(self.folder, RECORD, RECORD_FORM, run.query.id) if durable else None
        applied = last_batch(run) >= 0
        record = PipelineRecord(None, described, True, run.query.id, applied, file)
        delivery = ClusterDelivery(self.session, run, sinks, record)
        jobs = JobNames(graph.name, self.session)
        driver = ClusterDriver(run, self.sources, self.orders, delivery, record, jobs)
        program = parts.program
        if run.tick == 0 and not isinstance(program, Circuit) and has_first_tick(program, None):
            with jobs.of("the facts of the program"):
                run.step([], facts=program.facts)
        return driver

    def _identity(self, graph: Graph) -> str:
        """Return what identifies the query: its circuit, and the text of the program."""
        text = "" if isinstance(self.parts.program, Circuit) else self.parts.program.text
        return hashlib.blake2b(f"{signature(graph)}\0{text}".encode(), digest_size=16).hexdigest()

    def _refuse_other_scopes(self, physical: Graph, scopes: ScopePolicy) -> None:
        """Raise an error if the state is that of this query with another option `scopes`."""
        known = known_query(self.folder)
        for other in ScopePolicy:
            if other is not scopes and known == self._identity(_distributed(physical, other)):
                raise CheckpointError(
                    f"the state in {self.folder.location} was written with the option 'scopes' as '{other}', "
                    f"got '{scopes}'; start with option('scopes', '{other}'), or choose another folder and "
                    "load the data again",
                    code="checkpoint-other-shards",
                ) from None

    def _sink(self, name: str, operator: SparkSink, run: ClusterRun) -> ClusterSink:
        settings = self.parts.sinks.get(name)
        target = operator.target if settings is None or settings.target is None else settings.target
        schema = None if settings is None else settings.schema
        try:
            columns = run.outputs[operator.relation]
            operator = replace(operator, columns=columns)
            struct = sink_struct(operator, struct_of(columns, schema))
            if not target:
                raise InputError(
                    f"the SparkSink of the circuit has no target; add .sink('{name}', target)",
                    code="spark-sink",
                )
            bound = self._target(name, target, run)
            folder = bound.folder if isinstance(bound, PartTarget) else self._staged(name)
        except DbspError as error:
            error.where = error.where or operator.where
            raise
        part = PartSink(name, replace(operator, target=""), dict(arrow_types(struct)), folder)
        return ClusterSink(name, operator, struct, bound, part)

    def _target(self, name: str, target: Any, run: ClusterRun) -> Target:
        if is_folder(target):
            return PartTarget(SharedFolder(location_of(target), sync=self.folder.sync))
        ledger = SharedFile(
            self.folder, f"sink-{quote(name, safe='')}.json", "dbsp sink ledger", run.query.id
        )
        return target_of(target, self.session, ledger, self.parts.form)

    def _staged(self, name: str) -> SharedFolder:
        return self.folder.within(f"sinks/{quote(name, safe='')}")


def run_batch(start: ClusterStart, frames: Mapping[str, Any]) -> dict[str, Any]:
    """Apply batch DataFrames in one tick; return the views, which are read from their parts."""
    schemas = {name: frame.schema for name, frame in frames.items()}
    driver = start.driver(schemas, durable=False)
    driver.once(frames)
    run, views, structs = driver.run, [], {}
    for name, schema in run.outputs.items():
        given = [sink.schema for sink in start.parts.sinks.values() if sink.output == name]
        sink_schema = next((each for each in given if each is not None), None)
        if not given and any(type_.kind in ("object", "record") for type_ in schema.types):
            continue  # the Spark types of its columns are unknown
        structs[name] = struct = struct_of(schema, sink_schema)
        folder = start.folder.within(f"views/{quote(name, safe='')}")
        operator = SparkSink(name, schema, "view")
        views.append(PartSink(name, operator, dict(arrow_types(struct)), folder))
    if views:
        with driver.jobs.of("views"):
            run.write_views(views)
    driver.close()
    for name in start.folder.names(""):
        if name != "views":
            start.folder.remove(name)
    return {view.name: read_parts(start.session, view.folder, run.tick, structs[view.name]) for view in views}


def _distributed(physical: Graph, scopes: ScopePolicy) -> Graph:
    return distribute(physical, scopes=scopes, inner_exchanges=False, whole_outputs=True)


# --- folders --------------------------------------------------------------------------------------


def location_of(folder: Any) -> str:
    """Return a folder as an absolute path, or as the URI that it is."""
    text = str(folder)
    return text if "://" in text else str(Path(text.removeprefix("file:")).absolute())


def state_folder(
    session: Any, location: str | None, option: str, within: str, sync: bool = False
) -> SharedFolder:
    """Return the folder of a state; without a location a temporary one, if there is one machine.

    With `sync`, what is in the location survives a power failure.

    Raises InputError if the executors may be on other machines.
    """
    if location is not None:
        return SharedFolder(f"{location_of(location)}/{within}", sync=sync)
    context = context_of(session)
    master = "the Spark Connect server" if context is None else context.master
    if not master.startswith("local"):
        raise InputError(
            f"the executors of {master} need a folder that they share with the driver; set "
            f'option("{option}", folder) to one on a file system of the cluster, such as NFS, HDFS or S3',
            code="missing-option",
        )
    temporary = tempfile.TemporaryDirectory(prefix="dbsp-spark-")
    _TEMPORARY[temporary.name] = temporary
    return SharedFolder(f"{temporary.name}/{within}")


def release_folder(folder: SharedFolder | None) -> None:
    """Remove a folder if it is a temporary one of this process."""
    if folder is None:
        return
    temporary = _TEMPORARY.pop(str(Path(folder.location).parent), None)
    if temporary is not None:
        temporary.cleanup()


def batch_folder() -> str:
    """Return a new name for the state and the results of a batch."""
    return f"run-{uuid.uuid4().hex}"


def _refuse_state_of_one_process(folder: SharedFolder) -> None:
    if folder.read("query.json") is None and folder.read(RECORD) is not None:
        raise CheckpointError(
            f"{folder.location} has the state of a pipeline in one process; start it without "
            'option("shards", ...), or choose another checkpointLocation',
            code="checkpoint-other-shards",
        )
