"""Pipelines of Spark Connect: the circuit runs in a process that the server starts for the query.

    client: Pipeline.start()  --ConnectBatches, pickled-->  server
    server: process of the query, at the first micro-batch:  ConnectBatches --> driver --> run

Spark Connect calls the function of `foreachBatch` in a Python process of the server, one process
for each start of a query. So a pipeline ships its parts, not its run. The process opens the run
from the state folder with the first micro-batch, keeps it for the next ones, and ends with the
query. Functions of the circuit and of sinks are called there, and folders are those of the server.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

from dbsp.errors import CheckpointError, CircuitError, SetupError, cause_text
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.ports.spark_source import SparkSource
from dbsp.spark.cluster.cluster_query import versions
from dbsp.spark.cluster.cluster_start import ClusterStart, state_folder
from dbsp.spark.cluster.shared_folder import SharedFolder
from dbsp.spark.held_folders import PipelineDriver
from dbsp.spark.pipeline_options import synced
from dbsp.spark.pipeline_parts import PipelineParts
from dbsp.spark.row_order import RowOrder
from dbsp.spark.targets import local_path

_WAIT_SECONDS = 20.0
"""How long a new process waits for the checkpoint of the previous one, which Spark is ending."""
_PAUSE_SECONDS = 0.1


@dataclass
class ConnectBatches:
    """The function for the micro-batches of a pipeline; it is called in a process of the server."""

    parts: PipelineParts
    """Without DataFrames, which belong to the session of the client."""
    sources: dict[str, SparkSource]
    schemas: dict[str, Any]
    orders: dict[str, RowOrder]
    location: str | None
    """The checkpoint location, as the client names it."""
    version: str = field(default_factory=versions)
    """The versions of dbsp and Python in the client."""
    _driver: PipelineDriver | None = field(default=None, repr=False)

    def __call__(self, frame: Any, batch: int) -> None:
        """Apply a micro-batch once, and return when every sink has its deltas."""
        if self._driver is None:
            self._driver = self._opened(frame.sparkSession)
        self._driver(frame, batch)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_driver": None}

    def _opened(self, session: Any) -> PipelineDriver:
        """Return the driver of the state folder. Waits while the previous process still ends."""
        if self.version != versions():
            raise SetupError(
                f"the client of Spark Connect runs {self.version}, its server {versions()}; install the same"
                " versions on both"
            )
        # The server remembers analysed plans by session and number. In Spark 4.2, the processes of
        # all queries share the session of the client, and each counts its plans from 0.
        session.conf.set("spark.connect.session.planCache.enabled", "false")
        query = "" if self.location is None else _query_id(self.location)
        deadline = time.monotonic() + _WAIT_SECONDS
        while True:
            try:
                driver = self._on_shards(session) if self.parts.shards else self._in_process(session)
            except CheckpointError as error:
                if error.code != "checkpoint-in-use" or time.monotonic() > deadline:
                    raise
                time.sleep(_PAUSE_SECONDS)
            else:
                driver.query = query
                return driver

    def _in_process(self, session: Any) -> PipelineDriver:
        folder = None
        if self.location is not None:
            folder = local_path(self.location, "checkpointLocation").resolve() / "dbsp"
        return self.parts.driver(session, self.sources, self.schemas, folder, self.orders)

    def _on_shards(self, session: Any) -> PipelineDriver:
        sync = synced(self.parts.options)
        shared = state_folder(session, self.location, "checkpointLocation", "dbsp", sync)
        shards = self.parts.shards or 1
        start = ClusterStart(self.parts, session, shards, shared, self.sources, self.orders)
        return start.driver(self.schemas, durable=True)


def connect_batches(
    parts: PipelineParts,
    session: Any,
    sources: Mapping[str, SparkSource],
    schemas: Mapping[str, Any],
    orders: Mapping[str, RowOrder],
) -> ConnectBatches:
    """Return the function for the micro-batches of a pipeline.

    Raises an error for options and sinks that are not valid, and CircuitError if a function or
    value of the circuit or of a sink cannot be sent to the server.
    """
    location = parts.location(session)
    parts.check_settings(session, sources)
    if parts.shards is not None:
        state_folder(session, location, "checkpointLocation", "dbsp")
    elif location is not None:
        local_path(location, "checkpointLocation")
    frameless = {name: replace(settings, frame=None) for name, settings in parts.sources.items()}
    batches = ConnectBatches(
        replace(parts, sources=frameless), dict(sources), dict(schemas), dict(orders), location
    )
    _check_picklable(batches)
    return batches


def _check_picklable(batches: ConnectBatches) -> None:
    from pyspark import cloudpickle

    try:
        cloudpickle.dumps(batches)
    except Exception as error:  # whatever the objects of the user raise
        raise CircuitError(
            "a function or value of the pipeline cannot be sent to the server of Spark Connect"
            f" ({cause_text(error)}); define it at the top level of a module that the server can import",
            code="not-picklable",
        ) from None


def _query_id(location: str) -> str:
    """Return the id of the query, which Spark stores in the checkpoint before the first batch."""
    metadata = SharedFolder(location.removeprefix("file:")).read("metadata")
    if metadata is None:
        raise CheckpointError(
            f"expected Spark's file 'metadata' in {location}, found none in this process of the Spark Connect"
            " server; choose a checkpointLocation on a file system that the process can read",
            code="folder-not-shared",
        )
    query: str = json.loads(metadata)["id"]
    return query
