"""Rows that wait for a later time within the tick, in a nested scope.

All rows put for one time accumulate until that time takes them; none are overwritten.
"""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np

from dbsp.circuit.step_roles import Time, TimedStep
from dbsp.circuit.step_scope import StepScope
from dbsp.data.key_order import key_order
from dbsp.kernels.arrays import Codes

FEW = 32
"""Up to this many rows are divided by their times faster in Python than by NumPy."""


class Agenda:
    """Rows with weights, by the time they wait for (see `dbsp.circuit.step_roles.Time`)."""

    __slots__ = ("_scope", "_times", "_waiting")

    def __init__(self, scope: StepScope) -> None:
        self._waiting: dict[Time, list[tuple[Codes, Codes]]] = {}
        self._times: list[Time] = []
        """A heap of the times that rows wait for, and of times that are gone."""
        self._scope = scope

    def put(self, rows: Codes, weights: Codes, times: Codes) -> None:
        """Add rows int64[n, k] that wait for `times` int64[n, depth].

        Rows of the same time keep their order. O(n log n).
        """
        if not self._waiting:
            self._scope.journal.append(self)
        if len(times) > FEW:
            self._put_sorted(rows, weights, times)
            return
        keys = list(map(tuple, times.tolist()))
        different = set(keys)
        if len(different) == 1:
            self._add(keys[0], rows, weights)
            return
        for key in different:
            places = [place for place, other in enumerate(keys) if other == key]
            self._add(key, rows.take(places, 0), weights.take(places))

    def _put_sorted(self, rows: Codes, weights: Codes, times: Codes) -> None:
        order = key_order(times.T)
        times = times.take(order, 0)
        new = np.ones(len(times), np.bool_)
        new[1:] = (times[1:] != times[:-1]).any(axis=1)
        starts = np.flatnonzero(new)
        rows, weights = rows.take(order, 0), weights.take(order)
        keys = map(tuple, times[starts].tolist())
        for key, start, end in zip(keys, starts, [*starts[1:], len(times)], strict=True):
            self._add(key, rows[start:end], weights[start:end])

    def _add(self, time: Time, rows: Codes, weights: Codes) -> None:
        waiting = self._waiting.get(time)
        if waiting is not None:
            waiting.append((rows, weights))
            return
        heappush(self._times, time)
        self._waiting[time] = [(rows, weights)]

    def take(self) -> list[tuple[Codes, Codes]]:
        """Remove and return the rows that wait for the current time of the scope."""
        if not self._waiting:
            return []
        return self._waiting.pop(tuple(self._scope.now.tolist()), [])

    def next(self) -> Time | None:
        """The earliest time that rows wait for."""
        if not self._waiting:
            return None
        times = self._times
        while times[0] not in self._waiting:
            heappop(times)
        return times[0]

    def commit(self) -> None:
        """Drop times that are gone: no rows wait at the end of a completed tick."""
        self._times.clear()

    def rollback(self) -> None:
        self._waiting.clear()
        self._times.clear()


class AgendaStep(TimedStep):
    """A step that keeps its work for later times in the agenda of its slot `_agenda`."""

    __slots__ = ()

    _agenda: Agenda

    def next_time(self) -> Time | None:
        return self._agenda.next()

    def drop_waiting(self) -> None:
        self._agenda.rollback()
