"""Inputs and outputs of a circuit met with DataFrames: which operator reads or writes them, and what fits."""

from __future__ import annotations

from typing import Any

from dbsp.errors import DbspError
from dbsp.operators.ports.spark_sink import SparkSink
from dbsp.operators.ports.spark_source import SparkSource
from dbsp.runtime.run import Run
from dbsp.spark.spark_types import arrow_types, as_struct, check_fits, conform, schema_of, struct_of


def source_of(port: Any, encoding: str, column: str, key: tuple[str, ...], sequence_by: str) -> SparkSource:
    """The source that reads a micro-batch for an input (its operator, or its port in a run)."""
    columns, kind, keys = port.columns, port.kind, port.key
    if key:
        kind, keys = "key", columns.indices(key)
    return SparkSource(port.relation, columns, kind, keys, encoding, column, sequence_by)


def check_frame(source: SparkSource, struct: Any) -> None:
    """Raises SchemaError unless a DataFrame of that schema can be read by the source."""
    try:
        source.check(struct.names)
        columns = type(struct)([field for field in struct.fields if field.name in source.columns.names])
        schema_of(columns)
        check_fits(columns, source.columns)
    except DbspError as error:
        error.where = source.where
        raise


def sink_struct(operator: SparkSink, columns: Any) -> Any:
    """The Spark schema of a sink's tables: the columns of the output, and the weight or operation."""
    from pyspark.sql.types import LongType, StringType, StructType

    struct = StructType(list(as_struct(columns).fields))
    if operator.encoding == "weight":
        struct.add(operator.control, LongType(), nullable=False)
    elif operator.encoding == "operations":
        struct.add(operator.control, StringType(), nullable=False)
    return struct


def view_frame(session: Any, run: Run, output: str, sink_schema: Any = None) -> Any:
    """What an output of a run holds now, as a DataFrame of its rows. O(v log v) for v rows."""
    schema = run.outputs[output]
    struct = struct_of(schema, sink_schema)
    table = SparkSink(output, schema, "view").table(
        run.view(output), lambda: run.view(output), arrow_types(struct)
    )
    return session.createDataFrame(conform(table, struct), struct)
