"""Unite several DataFrames, so that a micro-batch of all of them is one consistent tick.

    relation | r0               | r1
    ---------+------------------+------------
    0        | {x: 1, y: 2}     | null
    1        | null             | {name: "a"}

The rows of each DataFrame keep their order. A single DataFrame is returned unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

TAG = "relation"
"""The column with the index of the DataFrame that a row belongs to."""


def unite(frames: Mapping[str, Any]) -> Any:
    """Return one DataFrame with the rows of all."""
    from pyspark.sql.functions import lit, struct

    if len(frames) == 1:
        return next(iter(frames.values()))
    parts = []
    # A column that is never null is not a column of the null structs, which Arrow would refuse.
    structs = [_nullable(frame.schema) for frame in frames.values()]
    for i, frame in enumerate(frames.values()):
        columns = [
            struct(*(frame[quoted(name)] for name in frame.columns)).cast(structs[i])
            if i == j
            else lit(None).cast(structs[j])
            for j in range(len(frames))
        ]
        tagged = [lit(i).cast("tinyint").alias(TAG)]
        tagged += [column.alias(f"r{j}") for j, column in enumerate(columns)]
        parts.append(frame.select(*tagged))
    united = parts[0]
    for part in parts[1:]:
        united = united.union(part)
    return united


def divide(table: pa.Table, names: list[str]) -> dict[str, pa.Table]:
    """Split a micro-batch of `unite` by source; omit sources without rows."""
    if len(names) == 1:
        return {names[0]: table} if table.num_rows else {}
    divided = {}
    for i, name in enumerate(names):
        rows = table.filter(pc.equal(table.column(TAG), i)).select([f"r{i}"])
        if rows.num_rows:
            prefix = len(f"r{i}.")
            flat = rows.flatten()
            divided[name] = flat.rename_columns([column[prefix:] for column in flat.column_names])
    return divided


def _nullable(spark: Any) -> Any:
    """Return a Spark type in which every field of a struct can be null."""
    from pyspark.sql.types import ArrayType, StructField, StructType

    if isinstance(spark, StructType):
        return StructType(
            [StructField(field.name, _nullable(field.dataType), True) for field in spark.fields]
        )
    if isinstance(spark, ArrayType):
        return ArrayType(_nullable(spark.elementType), True)
    return spark


def quoted(name: str) -> str:
    """Return a column's name as Spark reads it, dots and all."""
    return "`" + name.replace("`", "``") + "`"
