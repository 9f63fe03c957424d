"""Publish the metrics of a micro-batch as observed metrics in the progress of Spark's query.

| metric                                       | meaning                                           |
|----------------------------------------------|---------------------------------------------------|
| `rows_in`, and `rows_in_NAME` by source      | rows of the micro-batch                           |
| `tick`, `ticks`                              | number of its last tick, number of its ticks      |
| `rows_out`                                   | rows of all outputs' deltas                       |
| `absent`, `present`                          | retractions of absent, insertions of present rows |
| `state_rows`, `state_bytes`                  | state of the circuit after the last tick          |
| `fetch_micros`, `step_micros`, `sink_micros` | time of fetching rows, of ticks, of sinks         |

Spark computes observed metrics over the rows of the stream, before the circuit processes them. So
the stream carries columns of nulls for the circuit's own metrics, and after a micro-batch one row
with their values is added to the metrics, not to the stream. Spark has no public interface for
this: in Spark versions with other internals these metrics are null (`dbsp.spark.ticks` returns them
anyway). They cost some 20 ms per micro-batch, most of it in Spark; the option `metrics` turns them
off.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

METRICS = "dbsp"
"""The name of the observed metrics."""

_SUMMED = ("rows_out", "absent", "present")
_LATEST = ("tick", "state_rows", "state_bytes")
_TIMES = ("fetch", "step", "sink")
_CIRCUIT_METRICS = (*_SUMMED, *_LATEST, "ticks", *(f"{name}_micros" for name in _TIMES))
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SparkTick:
    """The metrics of a tick."""

    tick: int
    batch: int
    """The micro-batch of the tick; -1 for a tick before the first micro-batch."""
    rows_in: int
    rows_out: int
    """Rows of all outputs' deltas."""
    absent: int
    """Retractions of absent rows."""
    present: int
    """Insertions of rows that were already present."""
    state_rows: int
    state_bytes: int
    fetch_seconds: float
    """Fetching the rows, including their computation by Spark; 0 except in a batch's first tick."""
    step_seconds: float
    """The circuit, including the journal."""
    sink_seconds: float
    """The sinks."""


def observed(frames: Iterable[str], united: Any, tag: str, circuit: bool = True) -> Any:
    """Return the DataFrame of all sources with row counts and columns for the circuit's metrics."""
    from pyspark.sql.functions import col, count, lit, when
    from pyspark.sql.functions import max as latest

    sources = list(frames)
    circuit_metrics = _CIRCUIT_METRICS if circuit else ()
    united = united.withColumns({_hidden(name): lit(None).cast("long") for name in circuit_metrics})
    is_input_row = col(_hidden("tick")).isNull() if circuit else lit(True)
    metrics = [count(when(is_input_row, 1)).alias("rows_in")]
    for i, source in enumerate(sources):
        is_source_row = is_input_row if len(sources) == 1 else is_input_row & (col(tag) == i)
        metrics.append(count(when(is_source_row, 1)).alias(f"rows_in_{source}"))
    metrics += [latest(_hidden(name)).alias(name) for name in circuit_metrics]
    return united.observe(METRICS, *metrics).drop(*map(_hidden, circuit_metrics))


def numbers(ticks: list[SparkTick]) -> dict[str, int]:
    """Return the metrics of a micro-batch with these ticks."""
    result = {name: sum(getattr(tick, name) for tick in ticks) for name in _SUMMED}
    result |= {name: getattr(ticks[-1], name) for name in _LATEST}
    result["ticks"] = len(ticks)
    for name in _TIMES:
        result[f"{name}_micros"] = round(1e6 * sum(getattr(tick, f"{name}_seconds") for tick in ticks))
    return result


def publish(frame: Any, query: str, numbers_of_batch: Mapping[str, int]) -> None:
    """Add the numbers to the metrics of the current micro-batch."""
    try:
        session, context = frame.sparkSession, frame.sparkSession.sparkContext
        jvm, gateway = context._jvm, context._gateway
        queries = session._jsparkSession.sharedState().activeStreamingQueries()
        plan = queries.get(jvm.java.util.UUID.fromString(query)).lastExecution().executedPlan()
        node = _collecting(plan)
        method = node.getClass().getDeclaredMethod("accumulator", gateway.new_array(jvm.java.lang.Class, 0))
        method.setAccessible(True)
        accumulator = method.invoke(node, gateway.new_array(jvm.java.lang.Object, 0))
        schema = node.child().schema()
        row = jvm.org.apache.spark.sql.catalyst.expressions.SpecificInternalRow(schema)
        for name, value in numbers_of_batch.items():
            row.setLong(schema.fieldIndex(_hidden(name)), value)
        accumulator.add(row)
    except Exception:
        # Metrics missing from the progress must not stop the query.
        _log.debug("the metrics of a micro-batch are missing from the query's progress", exc_info=True)


def _collecting(plan: Any) -> Any:
    """Return the node of an executed plan that computes the metrics."""
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        kind = node.getClass().getSimpleName()
        if kind == "CollectMetricsExec" and node.name() == METRICS:
            return node
        if kind == "AdaptiveSparkPlanExec":
            waiting.append(node.executedPlan())
        children = node.children().iterator()
        while children.hasNext():
            waiting.append(children.next())
    raise LookupError(f"no node of the plan computes the metrics {METRICS!r}")


def _hidden(name: str) -> str:
    """Return the name of the column of nulls for a metric."""
    return f"__dbsp_{name}"
