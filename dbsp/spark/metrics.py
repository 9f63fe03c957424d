"""Count the rows of a micro-batch in the progress of Spark's query.

| metric         | meaning                               |
|----------------|---------------------------------------|
| `rows_in`      | rows of the micro-batch               |
| `rows_in_NAME` | rows of a source in the micro-batch   |

Spark computes observed metrics over the rows of the stream, before the circuit processes them, and
has no public interface for others: `dbsp.spark.ticks` returns the circuit's own numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

METRICS = "dbsp"
"""The name of the observed metrics."""


def observed(frames: Iterable[str], united: Any, tag: str) -> Any:
    """Return the DataFrame of all sources with its row counts as observed metrics."""
    from pyspark.sql.functions import col, count, lit, when

    sources = list(frames)
    metrics = [count(lit(1)).alias("rows_in")]
    for i, source in enumerate(sources):
        is_source_row = lit(True) if len(sources) == 1 else col(tag) == i
        metrics.append(count(when(is_source_row, 1)).alias(f"rows_in_{source}"))
    return united.observe(METRICS, *metrics)
