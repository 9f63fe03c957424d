"""Check the schemas of DataFrames, sinks and views against those of a circuit."""

from __future__ import annotations

from typing import Any

from dbsp.data.schema import suggestion
from dbsp.errors import DbspError, InputError
from dbsp.operators.ports.spark_sink import SparkSink
from dbsp.operators.ports.spark_source import SparkSource
from dbsp.runtime.run import Run
from dbsp.spark.spark_types import arrow_types, as_struct, check_fits, conform, schema_of, struct_of


def check_frame(source: SparkSource, struct: Any) -> None:
    """Raise SchemaError unless the source can read a DataFrame of that schema."""
    try:
        source.check(struct.names)
        columns = type(struct)([field for field in struct.fields if field.name in source.columns.names])
        schema_of(columns)
        check_fits(columns, source.columns)
    except DbspError as error:
        error.where = source.where
        raise


def sink_struct(operator: SparkSink, columns: Any) -> Any:
    """Return the Spark schema of a sink's tables: the output's columns, the weight or operation."""
    from pyspark.sql.types import LongType, StringType, StructType

    struct = StructType(list(as_struct(columns).fields))
    if operator.encoding == "weight":
        struct.add(operator.control, LongType(), nullable=False)
    elif operator.encoding == "operations":
        struct.add(operator.control, StringType(), nullable=False)
    return struct


def view_frame(session: Any, run: Run, output: str, sink_schema: Any = None) -> Any:
    """Return the view of an output as a DataFrame. Cost: O(v log v) for v rows.

    Parameters:
        session: the SparkSession of the DataFrame.
        run: the run.
        output: the name of the output.
        sink_schema: the Spark types (StructType or DDL) of columns with a choice of types; required
            for columns of objects.

    Returns:
        A DataFrame in which each row is repeated by its weight.

    Raises:
        InputError: the output does not exist, or a row of the view has a negative weight.
        SchemaError: a column of objects has no Spark type.

    Examples:
        >>> run = dbsp.compile(".decl r(x: number)\\n.output r\\nr(1).").start()
        >>> dbsp.spark.view_frame(dbsp.spark.session(), run, "r").collect()
        [Row(x=1)]
    """
    if output not in run.outputs:
        raise InputError(f"unknown output '{output}'{suggestion(output, run.outputs)}", code="unknown-output")
    schema = run.outputs[output]
    struct = struct_of(schema, sink_schema)
    table = SparkSink(output, schema, "view").table(
        run.view(output), lambda: run.view(output), arrow_types(struct)
    )
    return session.createDataFrame(conform(table, struct), struct)
