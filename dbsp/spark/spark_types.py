"""Map Spark's types to those of relations and back.

| Spark                        | relation          | back to Spark                                 |
|------------------------------|-------------------|-----------------------------------------------|
| byte, short, int, long       | `int`             | long                                          |
| float, double                | `float`           | double                                        |
| boolean                      | `bool`            | boolean                                       |
| string, char, varchar        | `str`             | string                                        |
| binary                       | `bytes`           | binary                                        |
| date                         | `date`            | date                                          |
| timestamp                    | `timestamp`       | timestamp: an instant, UTC inside the circuit |
| timestamp_ntz                | `timestamp`       | timestamp_ntz, if the sink's schema says so   |
| decimal                      | `object`: Decimal | the type that the sink's schema gives         |
| array, struct (at any depth) | `object`: tuples  | the type that the sink's schema gives         |

A relation may declare other types for these: `timestamptz` for a timestamp, `decimal(18, 2)` for a
decimal, `list[int]` for an array, `{x: int}` for a struct. They need no schema of the sink. Columns
of type time and duration do not go to Spark.

A column is optional (`int?`) if it is nullable. These types are errors, which name the column: map
(equal maps can list their entries in different orders, so equality is not decidable), intervals,
variant, time, null and user-defined types.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from dbsp.data.schema import Schema
from dbsp.data.types import BOOL, BYTES, DATE, FLOAT, INT, MOST_DIGITS, OBJECT, STR, TIMESTAMP, Type
from dbsp.errors import SchemaError, shorten

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

_ALSO = {
    "TimestampType": "timestamptz",
    "DecimalType": "decimal",
    "ArrayType": "list",
    "StructType": "struct",
}
"""Another kind of a relation's column that takes the values of a Spark type."""

_BACK = {
    "int": "LongType",
    "float": "DoubleType",
    "bool": "BooleanType",
    "str": "StringType",
    "bytes": "BinaryType",
    "date": "DateType",
    "timestamp": "TimestampType",
    "timestamptz": "TimestampType",
}


def schema_of(struct: Any) -> Schema:
    """Return the schema of a relation for the rows of a Spark schema.

    Parameters:
        struct: a StructType, or DDL text such as "x bigint, amount decimal(10, 2)".

    Returns:
        A Schema with the same column names; nullable columns have optional types.

    Raises:
        SchemaError: a column has a type that no relation can hold; names every such column.

    Examples:
        >>> session = dbsp.spark.session()
        >>> dbsp.spark.schema_of("a int not null, b string").describe()
        'a: int, b: str?'
    """
    struct = as_struct(struct)
    problems = [problem for field in struct.fields if (problem := _problem(field.name, field.dataType))]
    if problems:
        raise SchemaError("; ".join(problems), code="invalid-type")
    types = (
        _TYPES[type(field.dataType).__name__].optional()
        if field.nullable
        else _TYPES[type(field.dataType).__name__]
        for field in struct.fields
    )
    return Schema(tuple(struct.names), tuple(types))


def as_struct(schema: Any) -> Any:
    """Return a StructType, parsed from DDL text such as "x bigint, amount decimal(10, 2)"."""
    from pyspark.sql.types import StructType

    if isinstance(schema, StructType):
        return schema
    if isinstance(schema, str):
        return StructType.fromDDL(schema)
    raise SchemaError(f"expected a StructType or DDL text, got {shorten(schema)}", code="invalid-type")


def _problem(name: str, spark: Any) -> str:
    """Return why a relation cannot hold a column; "" if it can."""
    kind = type(spark).__name__
    if kind == "ArrayType":
        return _problem(f"{name}[]", spark.elementType)
    if kind == "StructType":
        return "; ".join(filter(None, (_problem(f"{name}.{f.name}", f.dataType) for f in spark.fields)))
    if kind in _TYPES:
        return ""
    if kind == "MapType":
        return (
            f"column {name!r}: relations have no maps, because equal maps can differ in order;"
            f" convert it with array_sort(map_entries({name}))"
        )
    return f"column {name!r}: relations have no type {spark.simpleString()}; cast the column"


def check_fits(struct: Any, schema: Schema) -> None:
    """Raise SchemaError, naming the column, unless a DataFrame's columns match those of a relation.

    Columns are matched by name. Ints can become floats, and every type can become an object. Nulls
    in a nullable column are checked in the rows of each micro-batch.
    """
    fields = {field.name: field for field in as_struct(struct).fields}
    for name, type_ in zip(schema.names, schema.types, strict=True):
        if type_.structure is not None:
            raise SchemaError(
                f"column {name!r} of the relation has the record type {type_.structure.name}, which a"
                " DataFrame cannot hold; use plain columns, and build the records in a rule",
                code="invalid-type",
            )
        source_type = schema_of(as_struct(struct).__class__([fields[name]])).types[0]
        if (
            source_type.kind != type_.kind
            and _ALSO.get(type(fields[name].dataType).__name__) != type_.kind
            and type_.kind != "object"
            and (source_type.kind, type_.kind) != ("int", "float")
        ):
            raise SchemaError(
                f"column {name!r}: the relation expects {type_}, got {fields[name].dataType.simpleString()}"
                " in the DataFrame; cast the column",
                code="schema-mismatch",
            )


def struct_of(schema: Schema, sink_schema: Any = None) -> Any:
    """Return the Spark schema for rows of a relation.

    Parameters:
        schema: the Schema of the relation.
        sink_schema: the Spark types (StructType or DDL) of columns with a choice of types; required
            for columns of objects, optional for timestamps ("at timestamp_ntz").

    Returns:
        A StructType.

    Raises:
        SchemaError: a column has no Spark type, or one that does not match; names the column.

    Examples:
        >>> session = dbsp.spark.session()
        >>> dbsp.spark.struct_of(dbsp.Schema.of(a=int, b=str)).simpleString()
        'struct<a:bigint,b:string>'
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
                raise SchemaError(problem, code="invalid-type")
            found = type(spark).__name__
            if type_.kind not in (_TYPES[found].kind, _ALSO.get(found)):
                raise SchemaError(
                    f"column {name!r}: expected a Spark type for {type_}, got {spark.simpleString()}",
                    code="schema-mismatch",
                )
        elif type_.structure is not None:
            raise SchemaError(
                f"column {name!r} has the record type {type_.structure.name}, which Spark cannot hold;"
                " unpack it into columns in a rule",
                code="invalid-type",
            )
        elif type_.kind == "object":
            raise SchemaError(
                f"column {name!r} holds objects; give their Spark type, for example"
                f" schema='{name} decimal(10, 2)'",
                code="invalid-type",
            )
        else:
            spark = _spark_of(name, type_)
        fields.append(types.StructField(name, spark, type_.nullable))
    return types.StructType(fields)


def _spark_of(name: str, type_: Type) -> Any:
    """Return the Spark type of a type other than objects and records."""
    from pyspark.sql import types

    if type_.kind == "decimal":
        return types.DecimalType(MOST_DIGITS, type_.scale)
    if type_.kind == "list":
        return types.ArrayType(_spark_of(name, type_.element), type_.element.nullable)
    if type_.kind == "struct":
        return types.StructType(
            [
                types.StructField(part.name, _spark_of(f"{name}.{part.name}", part.type), part.type.nullable)
                for part in type_.parts
            ]
        )
    if type_.kind not in _BACK:
        raise SchemaError(
            f"column {name!r} has the type {type_}, which Spark cannot hold; convert it, a duration with"
            " total_microseconds()",
            code="invalid-type",
        )
    return getattr(types, _BACK[type_.kind])()


def arrow_types(struct: Any) -> Mapping[str, pa.DataType]:
    """Return the Arrow types of a Spark schema's columns, by name; instants are UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    arrow = to_arrow_schema(struct, timezone="UTC")
    return {field.name: field.type for field in arrow}


def conform(table: pa.Table, struct: Any) -> pa.Table:
    """Cast a table to the Arrow types of a Spark schema. Naive timestamps become instants of UTC.

    Raises SchemaError, naming the column, for a number that does not fit a narrower type.
    """
    return conform_columns(table, arrow_types(struct))


def conform_columns(table: pa.Table, types: Mapping[str, pa.DataType]) -> pa.Table:
    """Return the columns `types` of a table in these types. Raises as `conform`."""
    columns = []
    for name, arrow in types.items():
        try:
            columns.append(table.column(name).cast(arrow))
        except pa.ArrowInvalid as error:
            raise SchemaError(f"column {name!r}: {error}", code="schema-mismatch") from None
    return pa.table(columns, names=list(types))
