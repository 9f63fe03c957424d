"""Name the jobs of a micro-batch in Spark's user interface after the circuit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dbsp.spark.session_kinds import context_of

_PROPERTY = "spark.job.description"


class JobNames:
    """Names jobs: `circuit 'reach': rows of micro-batch 3`, `... tick 4 to sink 'path'`."""

    def __init__(self, circuit: str, session: Any = None) -> None:
        """Without a session, or with one of Spark Connect, nothing is named."""
        self._circuit = circuit
        self._context = None if session is None else context_of(session)

    @contextmanager
    def of(self, what: str) -> Iterator[None]:
        """Name the jobs that this thread starts within the block."""
        if self._context is None:
            yield
            return
        before = self._context.getLocalProperty(_PROPERTY)
        self._context.setLocalProperty(_PROPERTY, f"circuit '{self._circuit}': {what}")
        try:
            yield
        finally:
            self._context.setLocalProperty(_PROPERTY, before)
