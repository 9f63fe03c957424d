"""Circuits driven from Spark: streaming DataFrames change their inputs, sinks take their deltas.

    import dbsp

    query = (
        dbsp.spark.stream(program)
        .source("edge", edges)                              # a streaming DataFrame with the columns of `edge`
        .source("person", people, encoding="operations", column="__op", key="id")
        .sink("path", "out/path")                           # a folder of Parquet files
        .sink("triangle", lambda frame, tick: frame.show())
        .option("checkpointLocation", "checkpoints/path")
        .trigger(processingTime="1 second")
        .start()                                            # Spark's own StreamingQuery
    )

The circuit runs in this process, beside the function that Spark calls with every micro-batch; a micro-batch
of all sources together is one tick. What changes mean is said by
`dbsp.operators.ports.spark_source`, what comes
out by `dbsp.operators.ports.spark_sink`, how types meet by `dbsp.spark.spark_types`, what sinks promise by
`dbsp.spark.targets`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dbsp.spark.feeds import feed
    from dbsp.spark.format import register
    from dbsp.spark.java import ensure_java
    from dbsp.spark.local_session import session
    from dbsp.spark.metrics import METRICS
    from dbsp.spark.pipeline import Pipeline, ticks
    from dbsp.spark.port_binding import view_frame
    from dbsp.spark.spark_types import schema_of, struct_of

__all__ = [
    "METRICS",
    "Pipeline",
    "ensure_java",
    "feed",
    "register",
    "run",
    "schema_of",
    "session",
    "stream",
    "struct_of",
    "ticks",
    "view_frame",
]

# The processes that Spark starts for its formats import this package for every micro-batch; they must not
# wait for what they do not use.
_HOME = {
    "dbsp.spark.port_binding": ("view_frame",),
    "dbsp.spark.feeds": ("feed",),
    "dbsp.spark.format": ("register",),
    "dbsp.spark.java": ("ensure_java",),
    "dbsp.spark.local_session": ("session",),
    "dbsp.spark.metrics": ("METRICS",),
    "dbsp.spark.pipeline": ("Pipeline", "ticks"),
    "dbsp.spark.spark_types": ("schema_of", "struct_of"),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in ("targets", "types"):
        return import_module(f"dbsp.spark.{name}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'dbsp.spark' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
    return value


def stream(program: Any) -> Pipeline:
    """A pipeline through a compiled program or a circuit; see `Pipeline` for what to say next."""
    from dbsp.spark.pipeline import Pipeline

    return Pipeline(program)


def run(program: Any, frames: Mapping[str, Any]) -> dict[str, Any]:
    """The outputs of a program over plain DataFrames, as DataFrames of rows, by name.

    `frames` gives the rows of the inputs, each once. For other encodings, and for sinks, make a pipeline:
    `stream(program).source(..., encoding=...).run()`. Raises InputError or SchemaError, naming the column.
    """
    pipeline = stream(program)
    for name, frame in frames.items():
        pipeline.source(name, frame)
    return pipeline.run()
