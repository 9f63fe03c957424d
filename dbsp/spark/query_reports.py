"""What a pipeline of this process reports about its query: its latest ticks and its error."""

from __future__ import annotations

from collections import deque
from dataclasses import asdict, dataclass, field
from typing import Any

from dbsp.errors import DbspError, InputError, SparkError, shorten

_REMEMBERED = 1_000
"""The number of latest ticks whose metrics are kept."""


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


@dataclass
class QueryReport:
    """The latest ticks of a query, and the error of the pipeline that ended it."""

    ticks: deque[SparkTick] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    error: BaseException | None = None


_REPORTS: dict[str, QueryReport] = {}
"""The reports of this process's pipelines, by query id."""


def keep_report(query: str, report: QueryReport) -> None:
    """Let `ticks` and `error` find the report of a query."""
    _REPORTS[query] = report


def _report(query: Any) -> QueryReport:
    report = _REPORTS.get(str(getattr(query, "id", query)))
    if report is None:
        raise InputError(
            f"expected a query that a pipeline of this process started, got {shorten(query)}",
            code="unknown-query",
        )
    return report


def ticks(query: Any) -> list[dict[str, Any]]:
    """Return metrics of the latest ticks of a pipeline's query, oldest first; at most 1,000 ticks.

    Each tick has tick, batch (Spark's batchId), rows_in, rows_out, absent (retractions of absent
    rows), present (insertions of present rows), state_rows, state_bytes, fetch_seconds,
    step_seconds and sink_seconds.

    Parameters:
        query: a StreamingQuery that `start` returned, or its id.

    Returns:
        A dictionary of metrics per tick.

    Raises:
        InputError: the query was not started by a pipeline of this process.

    Examples:
        >>> try:
        ...     dbsp.spark.ticks("another query")
        ... except dbsp.InputError as error:
        ...     print(error.message)
        expected a query that a pipeline of this process started, got 'another query'
    """
    return [asdict(tick) for tick in list(_report(query).ticks)]


def error(query: Any) -> DbspError | None:
    """Return the error that ended a pipeline's query, without Spark's stack of processes.

    `query.exception()` wraps the same error in the text of Spark and Java.

    Parameters:
        query: a StreamingQuery that `start` returned.

    Returns:
        The error of the pipeline; for an error of Spark itself, such as a file that cannot be read,
        a SparkError with Spark's description; None if the query runs or ended without an error.

    Raises:
        InputError: the query was not started by a pipeline of this process.

    Examples:
        >>> try:
        ...     dbsp.spark.error("another query")
        ... except dbsp.InputError as error:
        ...     print(error.message)
        expected a query that a pipeline of this process started, got 'another query'
    """
    report = _report(query)
    if isinstance(report.error, DbspError):
        return report.error
    if report.error is not None:
        raised = report.error
        return SparkError(f"the micro-batch raised {type(raised).__name__}: {raised}")
    spark = query.exception() if hasattr(query, "exception") else None
    if spark is None:
        return None
    lines = str(getattr(spark, "desc", None) or spark).strip().splitlines()
    return SparkError(f"Spark ended the query: {lines[0] if lines else type(spark).__name__}")
