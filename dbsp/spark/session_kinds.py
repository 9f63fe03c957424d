"""Sessions of Spark: classic ones, and those of Spark Connect, which have no Spark context."""

from __future__ import annotations

from typing import Any

from dbsp.errors import InputError


def is_connect(session_or_frame: Any) -> bool:
    """Return whether a session or a DataFrame is one of Spark Connect."""
    return type(session_or_frame).__module__.startswith("pyspark.sql.connect")


def context_of(session: Any) -> Any:
    """Return the Spark context of a session; None for a session of Spark Connect."""
    return None if is_connect(session) else session.sparkContext


def stays_here(what: str) -> InputError:
    """Return the error for a function of batches that Spark Connect cannot send to its server."""
    return InputError(
        f"{what} of this process cannot be used in a process of the Spark Connect server, which calls"
        " foreachBatch; use a classic session, or dbsp.spark.stream",
        code="spark-source",
    )


def streaming_query(frame: Any) -> str:
    """Return the id of the streaming query of a micro-batch of a classic session."""
    query: str = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    return query
