"""The numbers of a micro-batch as observed metrics in the progress of Spark's query.

| metric                                      | meaning                                                     |
|---------------------------------------------|-------------------------------------------------------------|
| `rows_in`, and `rows_in_NAME` by source     | rows of the micro-batch                                     |
| `tick`, `ticks`                             | the number of its last tick, and how many it was            |
| `rows_out`                                  | rows of all outputs' deltas                                 |
| `absent`, `present`                         | retractions that found nothing, assertions of what was there|
| `state_rows`, `state_bytes`                 | what the circuit keeps, after the last tick                 |
| `fetch_micros`, `step_micros`, `sink_micros`| time of bringing rows over, of the ticks, of the sinks      |

Spark computes observed metrics over the rows of the stream, before the circuit has seen them. So the stream
carries columns of nulls for what only the circuit knows, and when a micro-batch is done, one row with the
numbers is added to the metrics, not to the stream. Spark has no public way to do that: where its inside is
another than that of the versions known, these metrics are null (`dbsp.spark.ticks` tells them all the same).
They cost some 20 ms a micro-batch, most of it in Spark; the option `metrics` leaves them out.
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
    """What a tick did, in numbers."""

    tick: int
    batch: int
    """The micro-batch it is (a part) of; -1 for a tick before the first."""
    rows_in: int
    rows_out: int
    """Rows of all outputs' deltas."""
    absent: int
    """Retractions that found nothing to retract."""
    present: int
    """Assertions of rows that were there already."""
    state_rows: int
    state_bytes: int
    fetch_seconds: float
    """Bringing the rows over from Spark, which is when Spark computes them; for the first tick of a batch."""
    step_seconds: float
    """Of the circuit, the journal included."""
    sink_seconds: float


def observed(frames: Iterable[str], united: Any, tag: str, circuit: bool = True) -> Any:
    """The DataFrame of all sources, with its rows counted, and room for the numbers of the circuit."""
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
    """The metrics of a micro-batch that was these ticks."""
    result = {name: sum(getattr(tick, name) for tick in ticks) for name in _SUMMED}
    result |= {name: getattr(ticks[-1], name) for name in _LATEST}
    result["ticks"] = len(ticks)
    for name in _TIMES:
        result[f"{name}_micros"] = round(1e6 * sum(getattr(tick, f"{name}_seconds") for tick in ticks))
    return result


def publish(frame: Any, query: str, numbers_of_batch: Mapping[str, int]) -> None:
    """Add the numbers to the metrics of the micro-batch that is being worked on."""
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
        # A number that is missing from the progress is no reason to stop a query.
        _log.debug("the metrics of a micro-batch did not get into the query's progress", exc_info=True)


def _collecting(plan: Any) -> Any:
    """The node of an executed plan that computes the metrics."""
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
    """The column of nulls that makes room for a metric."""
    return f"__dbsp_{name}"
