"""What waits for a later time within the tick, in a nested scope.

Everything put for one time accumulates until that time takes it; nothing is overwritten.
"""

from __future__ import annotations

import numpy as np
from sortedcontainers import SortedDict

from dbsp.circuit.step_roles import Time, TimedStep
from dbsp.circuit.step_scope import StepScope
from dbsp.kernels.arrays import Codes


class Agenda:
    """Rows with weights, by the time they fall due at (see `dbsp.circuit.step_roles.Time`)."""

    __slots__ = ("_due", "_scope")

    def __init__(self, scope: StepScope) -> None:
        self._due: SortedDict[Time, list[tuple[Codes, Codes]]] = SortedDict()
        self._scope = scope

    def put(self, rows: Codes, weights: Codes, times: Codes) -> None:
        """Add rows int64[n, k] that fall due at `times` int64[n, depth]. O(n log n)."""
        if not self._due:
            self._scope.journal.append(self)
        order = np.lexsort(times.T[::-1])
        times = times[order]
        new = np.ones(len(times), np.bool_)
        new[1:] = (times[1:] != times[:-1]).any(axis=1)
        starts = np.flatnonzero(new)
        rows, weights = rows[order], weights[order]
        keys = map(tuple, times[starts].tolist())
        for key, start, end in zip(keys, starts, [*starts[1:], len(times)], strict=True):
            self._due.setdefault(key, []).append((rows[start:end], weights[start:end]))

    def take(self) -> list[tuple[Codes, Codes]]:
        """Remove and return everything due at the scope's present time."""
        if not self._due:
            return []
        taken: list[tuple[Codes, Codes]] = self._due.pop(tuple(self._scope.now.tolist()), [])
        return taken

    def next(self) -> Time | None:
        """The earliest time anything is due at."""
        if not self._due:
            return None
        earliest: Time = self._due.peekitem(0)[0]
        return earliest

    def commit(self) -> None:
        """Nothing waits when a tick ends well."""

    def rollback(self) -> None:
        self._due.clear()


class AgendaStep(TimedStep):
    """A step whose work for later times waits on an agenda, in its slot `_agenda`."""

    __slots__ = ()

    _agenda: Agenda

    def next_time(self) -> Time | None:
        return self._agenda.next()

    def drop_waiting(self) -> None:
        self._agenda.rollback()
