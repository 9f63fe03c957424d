"""Spark's types and those of relations, one for the other.

| Spark                               | relation           | back to Spark                                 |
|-------------------------------------|--------------------|-----------------------------------------------|
| byte, short, int, long              | `int`              | long                                          |
| float, double                       | `float`            | double                                        |
| boolean                             | `bool`             | boolean                                       |
| string, char, varchar               | `str`              | string                                        |
| binary                              | `bytes`            | binary                                        |
| date                                | `date`             | date                                          |
| timestamp                           | `timestamp`        | timestamp: an instant, UTC inside the circuit |
| timestamp_ntz                       | `timestamp`        | timestamp_ntz, if the sink's schema says so   |
| decimal                             | `object`: Decimal  | the type that the sink's schema gives         |
| array, struct (nested as one likes) | `object`: tuples   | the type that the sink's schema gives         |

A column is optional (`int?`) if it is nullable. Refused, with the column's name: map (equal maps may list
their entries differently, so they cannot be told to be equal), intervals, variant, time, null and types of
users' own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from dbsp.data.schema import Schema
from dbsp.data.types import BOOL, BYTES, DATE, FLOAT, INT, OBJECT, STR, TIMESTAMP, Type
from dbsp.errors import SchemaError

_TYPES: dict[str, Type] = {
    "ByteType": INT,
    "ShortType": INT,
    "IntegerType": INT,
    "LongType": INT,
    "FloatType": FLOAT,
    "DoubleType": FLOAT,
    "BooleanType": BOOL,
    "StringType": STR,
    "CharType": STR,
    "VarcharType": STR,
    "BinaryType": BYTES,
    "DateType": DATE,
    "TimestampType": TIMESTAMP,
    "TimestampNTZType": TIMESTAMP,
    "DecimalType": OBJECT,
    "ArrayType": OBJECT,
    "StructType": OBJECT,
}

_BACK = {
    "int": "LongType",
    "float": "DoubleType",
    "bool": "BooleanType",
    "str": "StringType",
    "bytes": "BinaryType",
    "date": "DateType",
    "timestamp": "TimestampType",
}


def schema_of(struct: Any) -> Schema:
    """The columns that a relation needs to hold the rows of a DataFrame's schema (StructType or DDL).

    Raises SchemaError naming every column that cannot be held.
    """
    struct = as_struct(struct)
    problems = [problem for field in struct.fields if (problem := _problem(field.name, field.dataType))]
    if problems:
        raise SchemaError("; ".join(problems))
    types = (
        _TYPES[type(field.dataType).__name__].optional()
        if field.nullable
        else _TYPES[type(field.dataType).__name__]
        for field in struct.fields
    )
    return Schema(tuple(struct.names), tuple(types))


def as_struct(schema: Any) -> Any:
    """A StructType from one, or from DDL text such as "x bigint, amount decimal(10, 2)"."""
    from pyspark.sql.types import StructType

    if isinstance(schema, StructType):
        return schema
    if isinstance(schema, str):
        return StructType.fromDDL(schema)
    raise SchemaError(f"a Spark schema is a StructType or DDL text, not {schema!r}")


def _problem(name: str, spark: Any) -> str:
    """Why a column cannot be held; "" if it can."""
    kind = type(spark).__name__
    if kind == "ArrayType":
        return _problem(f"{name}[]", spark.elementType)
    if kind == "StructType":
        return "; ".join(filter(None, (_problem(f"{name}.{f.name}", f.dataType) for f in spark.fields)))
    if kind in _TYPES:
        return ""
    if kind == "MapType":
        return (
            f"column {name!r} is a map, and equal maps need not look equal; make it"
            f" array_sort(map_entries({name}))"
        )
    return f"column {name!r} is of type {spark.simpleString()}, for which relations have none; cast it"


def check_fits(struct: Any, schema: Schema) -> None:
    """Raises SchemaError, naming the column, unless a DataFrame's columns can be those of a relation.

    Columns meet by name. Ints may become floats, and everything may become an object. Whether a nullable
    column holds nulls is seen when its rows come.
    """
    fields = {field.name: field for field in as_struct(struct).fields}
    for name, type_ in zip(schema.names, schema.types, strict=True):
        if type_.structure is not None:
            raise SchemaError(
                f"column {name!r} of the relation holds {type_.structure.name}, a type of records or"
                " branches, and no column of a DataFrame can be one; make it of plain columns by a rule"
            )
        source_type = schema_of(as_struct(struct).__class__([fields[name]])).types[0]
        if (
            source_type.kind != type_.kind
            and type_.kind != "object"
            and (source_type.kind, type_.kind) != ("int", "float")
        ):
            raise SchemaError(
                f"column {name!r} is {fields[name].dataType.simpleString()} in the DataFrame"
                f" and {type_} in the relation"
            )


def struct_of(schema: Schema, sink_schema: Any = None) -> Any:
    """The Spark schema for rows of a relation.

    `sink_schema` (StructType or DDL) gives the Spark types of columns where there is a choice: it must for
    columns of objects, and may for timestamps ("at timestamp_ntz"). Raises SchemaError naming the column.
    """
    from pyspark.sql import types

    chosen = (
        {} if sink_schema is None else {field.name: field.dataType for field in as_struct(sink_schema).fields}
    )
    for name in chosen:
        schema.index(name)
    fields = []
    for name, type_ in zip(schema.names, schema.types, strict=True):
        if name in chosen:
            spark = chosen[name]
            if problem := _problem(name, spark):
                raise SchemaError(problem)
            if _TYPES[type(spark).__name__].kind != type_.kind:
                raise SchemaError(
                    f"column {name!r} is {type_}, which does not come out as {spark.simpleString()}"
                )
        elif type_.structure is not None:
            raise SchemaError(
                f"column {name!r} holds {type_.structure.name}, a type of records or branches, which Spark"
                " has no type for; unpack it into columns by a rule"
            )
        elif type_.kind == "object":
            raise SchemaError(
                f"column {name!r} holds objects; say what they are in Spark, by"
                f" schema='{name} decimal(10, 2)' for instance"
            )
        else:
            spark = getattr(types, _BACK[type_.kind])()
        fields.append(types.StructField(name, spark, type_.nullable))
    return types.StructType(fields)


def arrow_types(struct: Any) -> Mapping[str, pa.DataType]:
    """The Arrow types of a Spark schema's columns, by name; instants are UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    arrow = to_arrow_schema(struct, timezone="UTC")
    return {field.name: field.type for field in arrow}


def conform(table: pa.Table, struct: Any) -> pa.Table:
    """The table with the Arrow types of a Spark schema. Naive timestamps become instants of UTC.

    Raises SchemaError, naming the column, for a number that does not fit a narrower type.
    """
    columns = []
    for name, arrow in arrow_types(struct).items():
        try:
            columns.append(table.column(name).cast(arrow))
        except pa.ArrowInvalid as error:
            raise SchemaError(f"column {name!r}: {error}") from None
    return pa.table(columns, names=struct.names)
