"""What a pipeline of this process reports about its query: its latest ticks and its error."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import asdict, field
from typing import Any

from dbsp import errors
from dbsp.errors import DbspError, InputError, SparkError, shorten
from dbsp.lazy_dataclass import dataclass

_JAVA_CAUSE = re.compile(r"^Caused by: [\w.$]+: (.*)$", re.MULTILINE)
_PYTHON_STACK = "Traceback (most recent call last)"
_PYTHON_PLACE = re.compile(r'File "([^"]+)", line (\d+)')
_RAISED = re.compile(r"^dbsp\.errors\.(\w+): ", re.MULTILINE)
_END_OF_STACK = re.compile(r"^ SQLSTATE: |^=== Streaming Query ===|^\tat ", re.MULTILINE)
"""What follows the stack of a Python process in the text of an error of Spark Connect."""
_CODED = re.compile(r"(.*) \[([a-z][a-z0-9-]*)\]", re.DOTALL)
"""A message and its code."""
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
    segments: tuple[dict[str, Any], ...] = ()
    """On a cluster, what each segment of each shard did."""

    @property
    def skew(self) -> float:
        """The bytes of the busiest shard of a segment by the mean of its shards; 1 if even."""
        by_segment: dict[str, list[int]] = {}
        for facts in self.segments:
            by_segment.setdefault(facts["segment"], []).append(facts["received_bytes"])
        ratios = [max(sizes) * len(sizes) / sum(sizes) for sizes in by_segment.values() if sum(sizes)]
        return max(ratios, default=1.0)

    def metrics(self) -> dict[str, Any]:
        """Return the metrics by name; those of shards on a cluster only."""
        found = asdict(self)
        if not self.segments:
            del found["segments"]
            return found
        del found["fetch_seconds"]  # the executors read the sources while they step
        return {**found, "segments": list(self.segments), "skew": self.skew}


@dataclass
class QueryReport:
    """The latest ticks of a query, and the error of the pipeline that ended it."""

    ticks: deque[SparkTick] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    error: BaseException | None = None
    in_server: bool = False
    """Whether the circuit is in a process of a Spark Connect server, which has the ticks."""


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
    step_seconds and sink_seconds. On a cluster (`option("shards", n)`) it has no fetch_seconds, and
    has segments, a dictionary for each segment of each shard (segment, shard, sent_bytes,
    received_bytes, state_rows, state_bytes, rows_out, opening_seconds, seconds; with
    `option("scopes", "exchange")` a segment with such a recursion also has rounds and jobs), and
    skew: the bytes that the busiest shard of a segment received, by the mean of the shards.

    Parameters:
        query: a StreamingQuery that `start` returned, or its id.

    Returns:
        A dictionary of metrics per tick.

    Raises:
        InputError: the query was not started by a pipeline of this process, or it is a query of
            Spark Connect.

    Examples:
        >>> try:
        ...     dbsp.spark.ticks("another query")
        ... except dbsp.InputError as error:
        ...     print(error.message)
        expected a query that a pipeline of this process started, got 'another query'
    """
    report = _report(query)
    if report.in_server:
        raise InputError(
            "the process of the Spark Connect server that runs the circuit has the metrics of its ticks; read"
            " the rows of micro-batches from query.recentProgress, or start the query in a classic session",
            code="unknown-query",
        )
    return [tick.metrics() for tick in list(report.ticks)]


def error(query: Any) -> DbspError | None:
    """Return the error that ended a pipeline's query, without Spark's stack of processes.

    `query.exception()` wraps the same error in the text of Spark and Java.

    Parameters:
        query: a StreamingQuery that `start` returned.

    Returns:
        The error of the pipeline; a SparkError with the causes alone for an error of Spark, such as
        a file that cannot be read; None if the query runs or ended without an error.

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
    raised = report.error
    if isinstance(raised, DbspError):
        return raised
    if raised is None:
        spark = query.exception() if hasattr(query, "exception") else None
        if spark is None:
            return None
        found = error_in_text(str(spark)) if report.in_server else None
        return found or SparkError(f"Spark ended the query: {cause_of(str(spark))}")
    if type(raised).__module__.partition(".")[0] in ("pyspark", "py4j"):
        return SparkError(f"Spark could not compute the micro-batch: {cause_of(str(raised))}")
    return SparkError(f"the micro-batch raised {type(raised).__name__}: {raised}")


def error_in_text(text: str) -> DbspError | None:
    """Return the error of this package that a Python process of Spark raised; None without one.

    The error has the class, the text and the code of the original, and the place in the text.

    >>> error = error_in_text("Traceback ...\\ndbsp.errors.InputError: no x [unknown-input]\\n SQLSTATE: 1")
    >>> type(error).__name__, error.message, error.code
    ('InputError', 'no x', 'unknown-input')
    """
    shown = _END_OF_STACK.split(text, maxsplit=1)[0]
    raised = list(_RAISED.finditer(shown))
    kind = getattr(errors, raised[-1][1], None) if raised else None  # the others are its causes
    if not (isinstance(kind, type) and issubclass(kind, DbspError)):
        return None
    text = shown[raised[-1].end() :].strip()
    coded = _CODED.fullmatch(text)
    message, code = (text, None) if coded is None else coded.groups()
    error = kind.__new__(kind, message)
    DbspError.__init__(error, message, code=code)
    return error


def cause_of(text: str) -> str:
    """Return the causes in the text of an error of Spark, on one line, without its stacks.

    >>> cause_of("o1.x failed.\\n\\tat a.b(C.java)\\nCaused by: java.io.IOException: no disk\\n\\tat d.e(F)")
    'no disk'
    """
    if causes := _JAVA_CAUSE.findall(text):
        return "; ".join(cause.strip() for cause in dict.fromkeys(causes))
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("\tat ")]
    if _PYTHON_STACK in text:
        place = _PYTHON_PLACE.findall(text)
        return lines[-1] + (f" ({place[-1][0]}:{place[-1][1]})" if place else "")
    return lines[0] if lines else "no reason given"
