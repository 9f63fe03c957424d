"""The order of the rows of a micro-batch, for sources in which the last change of a row decides.

Spark reads the files of a micro-batch by size, the largest first. So the rows of such a source are
sorted before they are cut into ticks:

| source                          | sorted by                                                   |
|---------------------------------|-------------------------------------------------------------|
| with `sequence_by`              | that column                                                 |
| Parquet files                   | modification time and path of the file, position in it      |
| other files, without a shuffle  | modification time and path of the file, start of its block  |
| `ordered=True`                  | nothing: the rows arrive in order                           |
| all others                      | refused when the query starts                               |

The order of rows does not matter for an input that adds up weights, nor for an input of rows that
are only appended.
"""

from __future__ import annotations

import contextlib
import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dbsp.data.key_order import key_order
from dbsp.errors import InputError
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.ports.spark_source import SparkSource

_PREFIX = "__dbsp_file_"
_FIELDS = ("file_modification_time", "file_path", "file_block_start", "row_index")


@dataclass(frozen=True)
class RowOrder:
    """The columns that order the rows of a source, the most significant first; () for no order."""

    columns: tuple[str, ...] = ()
    added: bool = False
    """Whether the columns are not columns of the source, and are removed after sorting."""

    def sort(self, table: pa.Table) -> pa.Table:
        """Return the rows in order; rows with equal values keep their order. O(n log n)."""
        if not self.columns:
            return table
        if table.num_rows:
            keys = [_ranks(table.column(name)) for name in self.columns]
            order = key_order(keys)
            if (np.diff(order) < 0).any():
                table = table.take(pa.array(order))
        return table.drop_columns(list(self.columns)) if self.added else table


def _ranks(column: pa.ChunkedArray) -> Any:
    """Return the rank of every value in ascending order; nulls are last."""
    if pa.types.is_integer(column.type) and not column.null_count:
        return column.to_numpy()
    encoded = pc.dictionary_encode(column.combine_chunks())
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    ranks = np.empty(len(encoded.dictionary) + 1, np.int64)
    ranks[np.asarray(pc.sort_indices(encoded.dictionary))] = np.arange(len(encoded.dictionary))
    ranks[-1] = len(encoded.dictionary)
    return ranks[
        np.asarray(encoded.indices.fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False))
    ]


def row_order(source: SparkSource, frame: Any) -> tuple[Any, RowOrder]:
    """Return the DataFrame with the columns that order the rows of the source, and the order.

    Raises InputError if the order matters and is unknown; not for batch DataFrames, whose rows keep
    the order that they have.
    """
    if source.sequence_by:
        return frame, RowOrder((source.sequence_by,))
    if source.ordered or not source.order_matters:
        return frame, RowOrder()
    plan = _physical_plan(frame)
    reason = "does not read files, which have an order"
    if "FileSource[" in plan or "FileScan " in plan:
        fields = _metadata_fields(frame)
        reason = "hides the files that it reads"
        if fields:
            names = [f"{_PREFIX}{field}" for field in fields]
            shuffled = "Exchange" in plan
            reason = "shuffles the rows of its files"
            if not shuffled or "row_index" in fields:
                from pyspark.sql.functions import col

                columns = [
                    col(f"_metadata.{field}").alias(name) for field, name in zip(fields, names, strict=True)
                ]
                return frame.select("*", *columns), RowOrder(tuple(names), added=True)
    if not frame.isStreaming:
        return frame, RowOrder()
    raise unknown_order(source, f"the DataFrame {reason}")


def unknown_order(source: SparkSource, reason: str) -> InputError:
    """Return the error for a source whose rows have no known order."""
    return InputError(
        f"the last change of a row in a micro-batch decides (encoding='{source.encoding}'), but the order of"
        f" its rows is unknown: {reason}; name the column that orders the changes with sequence_by=..., or"
        " set ordered=True if the rows arrive in the order of their changes",
        where=source.where,
        code="unknown-order",
    )


def _physical_plan(frame: Any) -> str:
    # Spark's public interface prints the plan only.
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        frame.explain()
    return printed.getvalue()


def _metadata_fields(frame: Any) -> list[str]:
    """Return the fields of Spark's hidden column about files that order rows; [] without it."""
    from pyspark.errors import AnalysisException

    try:
        known = frame.select("_metadata").schema["_metadata"].dataType.names
    except AnalysisException:
        return []
    return [field for field in _FIELDS if field in known]
