"""All datoms of a database in memory, in the order of transactions."""

from __future__ import annotations

import numpy as np

from dbsp.kernels.arrays import Codes

_FIRST_ROOM = 1024


class DatomLog:
    """An append-only matrix of datoms int64[n, 5] (e, a, v, tx, added), in chunks.

    Transaction t, counted from 0, has the rows from `start(t)` to `start(t + 1)`. Rows never move
    and never change, so a reader in another thread may read the rows of earlier transactions while
    the log grows. Only `truncate` removes rows, those of a transaction that failed.
    """

    __slots__ = ("_chunks", "_latest", "_starts", "count", "transactions")

    def __init__(self) -> None:
        self._chunks: list[tuple[int, Codes]] = []
        """The number of the first row of each chunk, and the chunk."""
        self._starts = np.zeros(_FIRST_ROOM, np.int64)
        self._latest = np.zeros(_FIRST_ROOM, np.int64)
        """The latest time of a transaction and those before it, in microseconds since 1970."""
        self.count = 0
        """The number of rows."""
        self.transactions = 0

    def fork(self, transactions: int) -> DatomLog:
        """Return another log that starts with the first transactions of this one; shares rows."""
        log = DatomLog()
        end = self.start(transactions)
        # The last chunk without its room, which belongs to this log.
        log._chunks = [(first, chunk[: end - first]) for first, chunk in list(self._chunks) if first < end]
        log._starts = self._starts[: transactions + 1].copy()
        log._latest = self._latest[: transactions + 1].copy()
        log.count, log.transactions = end, transactions
        return log

    def append(self, rows: Codes, ends: Codes, instants: Codes) -> None:
        """Append transactions: their rows, the end of each among these rows, their times. O(n)."""
        at, before = self.transactions, self.count
        total = at + len(ends)
        if total + 1 > len(self._starts):
            self._starts = _grown(self._starts, 2 * (total + 1))
            self._latest = _grown(self._latest, 2 * (total + 1))
        self._starts[at + 1 : total + 1] = ends + before
        self._latest[at:total] = instants
        if at:
            np.maximum(self._latest[at:total], self._latest[at - 1], out=self._latest[at:total])
        np.maximum.accumulate(self._latest[at:total], out=self._latest[at:total])
        self._write(rows)
        self.transactions = total

    def _write(self, rows: Codes) -> None:
        written = 0
        while written < len(rows):
            first, chunk = self._chunks[-1] if self._chunks else (0, rows[:0])
            if self.count == first + len(chunk):
                # As large as all chunks before it: few chunks, and no row is ever copied.
                first = self.count
                chunk = np.empty((max(_FIRST_ROOM, first, len(rows) - written), 5), np.int64)
                self._chunks.append((first, chunk))
            place = self.count - first
            part = rows[written : written + len(chunk) - place]
            chunk[place : place + len(part)] = part
            written += len(part)
            self.count += len(part)

    def truncate(self, transactions: int) -> None:
        """Remove the transactions from this one on, also after an interrupted `append`."""
        self.count = int(self._starts[transactions])
        self.transactions = transactions
        while self._chunks and self._chunks[-1][0] >= self.count:
            self._chunks.pop()

    def start(self, t: int) -> int:
        """Return the number of the first row of transaction t, or of all rows if t is too large."""
        return int(self._starts[min(t, self.transactions)])

    def _parts(self, start: int, end: int) -> list[Codes]:
        return [
            chunk[max(start - first, 0) : end - first]
            for first, chunk in list(self._chunks)
            if first < end and start < first + len(chunk)
        ]

    def rows(self, start: int, end: int) -> Codes:
        """Return the rows from `start` to `end`: a view if they are in one chunk."""
        parts = self._parts(start, end)
        if len(parts) == 1:
            return parts[0]
        return np.concatenate(parts) if parts else np.empty((0, 5), np.int64)

    def rows_of(self, attribute: int, start: int, end: int) -> Codes:
        """Return the rows of an attribute from `start` to `end`. O(end - start)."""
        parts = [part[part[:, 1] == attribute] for part in self._parts(start, end)]
        return np.concatenate(parts) if parts else np.empty((0, 5), np.int64)

    def instant(self, t: int) -> int:
        """Return the time of transaction t, in microseconds since 1970; times never decrease."""
        return int(self._latest[t])

    def ends(self, first: int, last: int) -> Codes:
        """Return the ends of the rows of transactions, from the first row of the first one."""
        ends: Codes = self._starts[first + 1 : last + 2] - self._starts[first]
        return ends

    def instants(self, first: int, last: int) -> Codes:
        """Return the times of the transactions from `first` to `last`."""
        return self._latest[first : last + 1]

    def latest_until(self, instant: int, transactions: int) -> int:
        """Return the latest of the first `transactions` up to this time; -1 if there is none."""
        return int(np.searchsorted(self._latest[:transactions], instant, side="right")) - 1


def _grown(array: Codes, room: int) -> Codes:
    grown = np.zeros(room, np.int64)
    grown[: len(array)] = array
    return grown
