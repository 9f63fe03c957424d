"""Traces that are kept outside of a circuit, by an index that many circuits read.

The rows of a relation are then stored once, however many circuits read them. The owner appends the
delta of a tick to its traces, steps the circuits with the same delta, and commits the traces.
"""

from __future__ import annotations

from typing import Protocol

from dbsp.state.trace import Trace


class TraceSource(Protocol):
    """Keeps relations in traces, one for each column order."""

    def trace(self, relation: str, order: tuple[int, ...]) -> Trace:
        """Return the trace of a relation that is sorted by the columns `order`.

        The trace holds the delta of the current tick as its newest run, and is `fresh` then.
        """


class ExternalTraces:
    """The traces that the steps of one circuit read; `source` can be replaced between ticks."""

    __slots__ = ("_known", "_source")

    def __init__(self, source: TraceSource) -> None:
        self._source = source
        self._known: dict[tuple[str, tuple[int, ...]], Trace] = {}

    @property
    def source(self) -> TraceSource:
        """The owner of the traces."""
        return self._source

    @source.setter
    def source(self, source: TraceSource) -> None:
        self._source = source
        self._known.clear()

    def trace(self, relation: str, order: tuple[int, ...]) -> Trace:
        """Return the trace of a relation in a column order."""
        found = self._known.get((relation, order))
        if found is None:
            found = self._known[relation, order] = self._source.trace(relation, order)
        return found
