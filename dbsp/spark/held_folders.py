"""The queries of this process, by the folder of their state, so that two do not share one."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any, Protocol

from dbsp.errors import CheckpointError
from dbsp.spark.query_reports import QueryReport


class PipelineDriver(Protocol):
    """The function that Spark calls with every micro-batch of a query."""

    report: QueryReport
    query: str | None
    """The id of Spark's query; None to ask the classic session of a micro-batch."""

    def __call__(self, frame: Any, batch: int) -> None: ...

    @property
    def closed(self) -> bool: ...

    def close(self) -> None: ...


_HOLDERS: dict[str, tuple[PipelineDriver, Any]] = {}
"""The pipeline that uses a state folder, with its query, by folder."""


def release(folder: str, checkpoint: str) -> None:
    """Close a pipeline of this process that still holds the folder although its query has ended.

    Raises CheckpointError if the query is running.
    """
    holder = _HOLDERS.get(folder)
    if holder is None:
        return
    driver, query = holder
    if query.isActive and not driver.closed:
        raise CheckpointError(
            f"{checkpoint} is the checkpoint of query {query.name or query.id}, which is running; stop it"
            " first, or choose another checkpointLocation",
            code="checkpoint-in-use",
        )
    driver.close()  # waits until another thread that closes it has released the folder


def hold(folder: str | None, driver: PipelineDriver, query: Any, ended: Callable[[], object]) -> None:
    """Hold a folder until the query ends; then close the driver, and call `ended`."""
    if folder is not None:
        _HOLDERS[folder] = (driver, query)

    def close_after() -> None:
        with contextlib.suppress(Exception):  # query.exception() returns the error that stopped it
            query.awaitTermination()
        driver.close()
        ended()
        if folder is not None and _HOLDERS.get(folder, (None,))[0] is driver:
            del _HOLDERS[folder]

    threading.Thread(target=close_after, name="dbsp-spark", daemon=True).start()
