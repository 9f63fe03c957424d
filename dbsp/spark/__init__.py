"""Drive circuits from Spark: streaming DataFrames change inputs, sinks receive deltas.

    import dbsp

    query = (
        dbsp.spark.stream(program)
        .source("edge", edges)                    # a streaming DataFrame with the columns of `edge`
        .source("person", people, encoding="operations", column="__op", key="id")
        .sink("path", "out/path")                 # a folder of Parquet files
        .sink("triangle", lambda frame, tick: frame.show())
        .option("checkpointLocation", "checkpoints/path")
        .trigger(processingTime="1 second")
        .start()                                  # Spark's own StreamingQuery
    )

The circuit runs in this process, in the function that Spark calls with every micro-batch. One
micro-batch of all sources together is one tick. The encodings of changes are described in
`dbsp.operators.ports.spark_source`, those of deltas in `dbsp.operators.ports.spark_sink`, the
mapping of types in `dbsp.spark.spark_types`, the guarantees of sinks in `dbsp.spark.targets`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dbsp.operators.ports.spark_sink import SparkSink
    from dbsp.operators.ports.spark_source import SparkSource
    from dbsp.spark.database_feed import feed_database
    from dbsp.spark.fact_frames import datoms_frame, query_frame
    from dbsp.spark.feeds import feed
    from dbsp.spark.format import register
    from dbsp.spark.java import ensure_java
    from dbsp.spark.live_sink import LiveSink, subscribe
    from dbsp.spark.local_session import session
    from dbsp.spark.metrics import METRICS
    from dbsp.spark.pipeline import Pipeline
    from dbsp.spark.port_binding import view_frame
    from dbsp.spark.query_reports import error, ticks
    from dbsp.spark.spark_types import schema_of, struct_of

__all__ = [
    "METRICS",
    "LiveSink",
    "Pipeline",
    "SparkSink",
    "SparkSource",
    "datoms_frame",
    "ensure_java",
    "error",
    "feed",
    "feed_database",
    "query_frame",
    "register",
    "run",
    "schema_of",
    "session",
    "stream",
    "struct_of",
    "subscribe",
    "ticks",
    "view_frame",
]

# The processes that Spark starts for its formats import this package for every micro-batch, so they
# import only the modules that they use.
_HOME = {
    "dbsp.spark.port_binding": ("view_frame",),
    "dbsp.spark.database_feed": ("feed_database",),
    "dbsp.spark.fact_frames": ("datoms_frame", "query_frame"),
    "dbsp.spark.feeds": ("feed",),
    "dbsp.spark.format": ("register",),
    "dbsp.spark.java": ("ensure_java",),
    "dbsp.spark.live_sink": ("LiveSink", "subscribe"),
    "dbsp.spark.local_session": ("session",),
    "dbsp.spark.metrics": ("METRICS",),
    "dbsp.operators.ports.spark_sink": ("SparkSink",),
    "dbsp.operators.ports.spark_source": ("SparkSource",),
    "dbsp.spark.pipeline": ("Pipeline",),
    "dbsp.spark.query_reports": ("error", "ticks"),
    "dbsp.spark.spark_types": ("schema_of", "struct_of"),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in ("spark_types", "targets"):
        return import_module(f"dbsp.spark.{name}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'dbsp.spark' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
    return value


def stream(program: Any) -> Pipeline:
    """Return a pipeline from DataFrames through a program or circuit to sinks.

    Parameters:
        program: a compiled program, or a Circuit.

    Returns:
        A Pipeline; add its sources and sinks, then call `start` or `run`.

    Raises:
        InputError: the argument is neither a program nor a circuit.

    Examples:
        >>> program = dbsp.compile(".decl r(x: number)\\n.input r\\n.output r")
        >>> rows = dbsp.spark.session().createDataFrame([(1,), (2,)], "x long")
        >>> dbsp.spark.stream(program).source("r", rows).run()["r"].count()
        2
    """
    from dbsp.spark.pipeline import Pipeline

    return Pipeline(program)


def run(
    program: Any,
    frames: Mapping[str, Any],
    *,
    shards: int | None = None,
    scopes: str | None = None,
    folder: Any = None,
) -> dict[str, Any]:
    """Compute the outputs of a program for batch DataFrames.

    For other encodings, and for sinks, use a pipeline: `stream(program).source(...,
    encoding=...).run()`.

    Parameters:
        program: a compiled program, or a Circuit.
        frames: a DataFrame for each input, by name; every row has weight 1.
        shards: the number of shards that compute on Spark's executors; by default the rows are
            fetched to this process, which computes.
        scopes: with `shards`, where recursions run that no column divides: "gather" (default) or
            "exchange", as the option of a pipeline.
        folder: with `shards`, a folder that this process and all executors share, for the state and
            the results; not needed if the executors are on this machine.

    Returns:
        A DataFrame of rows for each output, by name. With `shards` it reads files of `folder`;
        those of a temporary folder are removed when this process ends.

    Raises:
        InputError: an input does not exist, or `folder` is missing.
        SchemaError: a column is missing, unexpected or of the wrong type.

    Examples:
        >>> program = dbsp.compile(".decl r(x: number)\\n.input r\\n.output r")
        >>> rows = dbsp.spark.session().createDataFrame([(1,), (2,)], "x long")
        >>> dbsp.spark.run(program, {"r": rows})["r"].count()
        2
    """
    pipeline = stream(program)
    for name, frame in frames.items():
        pipeline.source(name, frame)
    if shards is not None:
        pipeline.option("shards", shards)
    if scopes is not None:
        pipeline.option("scopes", scopes)
    if folder is not None:
        pipeline.option("stateLocation", folder)
    return pipeline.run()
