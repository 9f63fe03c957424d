"""Rows that wait for a later time within the tick, in a nested scope.

All rows put for one time accumulate until that time takes them; none are overwritten.
"""

from __future__ import annotations

import numpy as np
from sortedcontainers import SortedDict

from dbsp.circuit.step_roles import Time, TimedStep
from dbsp.circuit.step_scope import StepScope
from dbsp.kernels.arrays import Codes


class Agenda:
    """Rows with weights, by the time they wait for (see `dbsp.circuit.step_roles.Time`)."""

    __slots__ = ("_scope", "_waiting")

    def __init__(self, scope: StepScope) -> None:
        self._waiting: SortedDict[Time, list[tuple[Codes, Codes]]] = SortedDict()
        self._scope = scope

    def put(self, rows: Codes, weights: Codes, times: Codes) -> None:
        """Add rows int64[n, k] that wait for `times` int64[n, depth]. O(n log n)."""
        if not self._waiting:
            self._scope.journal.append(self)
        order = np.lexsort(times.T[::-1])
        times = times[order]
        new = np.ones(len(times), np.bool_)
        new[1:] = (times[1:] != times[:-1]).any(axis=1)
        starts = np.flatnonzero(new)
        rows, weights = rows[order], weights[order]
        keys = map(tuple, times[starts].tolist())
        for key, start, end in zip(keys, starts, [*starts[1:], len(times)], strict=True):
            self._waiting.setdefault(key, []).append((rows[start:end], weights[start:end]))

    def take(self) -> list[tuple[Codes, Codes]]:
        """Remove and return the rows that wait for the current time of the scope."""
        if not self._waiting:
            return []
        taken: list[tuple[Codes, Codes]] = self._waiting.pop(tuple(self._scope.now.tolist()), [])
        return taken

    def next(self) -> Time | None:
        """The earliest time that rows wait for."""
        if not self._waiting:
            return None
        earliest: Time = self._waiting.peekitem(0)[0]
        return earliest

    def commit(self) -> None:
        """Do nothing: no rows wait at the end of a completed tick."""

    def rollback(self) -> None:
        self._waiting.clear()


class AgendaStep(TimedStep):
    """A step that keeps its work for later times in the agenda of its slot `_agenda`."""

    __slots__ = ()

    _agenda: Agenda

    def next_time(self) -> Time | None:
        return self._agenda.next()

    def drop_waiting(self) -> None:
        self._agenda.rollback()
