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


def refuse_connect(what: str) -> None:
    """Raise InputError if the sessions of this process are those of Spark Connect.

    `what` names the object of this process that a process of the server would need.
    """
    from pyspark.sql.utils import is_remote

    if is_remote():
        raise InputError(
            f"{what} of this process cannot be used in a process of the Spark Connect server, which calls"
            " foreachBatch; use a classic session, or dbsp.spark.stream",
            code="spark-source",
        )


def streaming_query(frame: Any) -> str:
    """Return the id of the streaming query of a micro-batch of a classic session."""
    query: str = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    return query
