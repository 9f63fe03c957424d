"""The rows that a tick has appended to a trace, in a filter instead of sorted runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dbsp.kernels import note_rows
from dbsp.kernels.arrays import Codes, Words
from dbsp.state.sorted_run import SortedRun

LEAST = 1 << 16
"""Fewer rows than these are searched in sorted runs: the runs fit the processor's cache."""

LEAST_FILTERED = 1 << 8
"""Fewer rows than these need no filter at all: a search takes few steps."""

DISTANCE = 6
"""Rows are searched in sorted runs while a search has taken less than so many steps on average.

A search takes about log2(rows of the tick / rows of the delta) steps from one row of a delta to the
next one. Few steps are faster than a filter."""

ROWS_PER_WORD = 2
"""The filter grows when its words of 64 bits have more rows than these. With so many, it mistakes
less than 1 % of the new rows for earlier ones."""

NO_WORDS = np.zeros(0, np.uint64)
"""The filter of no rows."""


class SeenRows:
    """A filter of the rows of the current runs of a trace. `clear` it at the start of a tick."""

    __slots__ = ("_count", "_steps", "_words")

    def __init__(self) -> None:
        self._words: Words | None = None
        self._count = 0
        """The rows noted so far; a row that was noted twice counts twice."""
        self._steps = 0
        """The steps of the searches of these rows in sorted runs."""

    @property
    def nbytes(self) -> int:
        """The bytes of the filter."""
        return 0 if self._words is None else self._words.nbytes

    def clear(self) -> None:
        """Forget all rows."""
        self._words = None
        self._count = self._steps = 0

    def note(self, rows: Codes, earlier: Sequence[SortedRun]) -> Codes | None:
        """Add rows; return the positions of those that may be in a run of this tick.

        `earlier` are the runs of this tick without `rows`. Returns None while searches in the runs
        are fast: then every row may be in one. Amortised O(rows).
        """
        if not rows.shape[1]:
            return None
        words = self._words
        if words is None:
            self._steps += len(rows) * (self._count // max(len(rows), 1)).bit_length()
        self._count += len(rows)
        if words is None and (self._count < LEAST or self._steps < DISTANCE * self._count):
            return None
        if words is None or self._count > ROWS_PER_WORD * len(words):
            words = self._words = self._filled(earlier)
        return note_rows(rows, words)

    def include(self, run: SortedRun) -> None:
        """Add the rows of the newest run of this tick, in which nobody has searched them. O(rows)
        with a filter."""
        self._count += run.size
        if self._words is not None and self._count > ROWS_PER_WORD * len(self._words):
            self._words = None  # a larger one is made when it is needed
        if self._words is not None:
            for piece in run.pieces():
                note_rows(piece, self._words)

    def filter(self, runs: Sequence[SortedRun]) -> Words:
        """Return the words of the filter (see `dbsp.kernels.bloom_filter`); none for few rows.

        `runs` are the runs of this tick. A filter of less than LEAST rows is not kept, since the
        next iterations may search faster. O(rows) without a filter.
        """
        if self._words is not None:
            return self._words
        if self._count < LEAST_FILTERED:
            return NO_WORDS
        words = self._filled(runs)
        if self._count >= LEAST:
            self._words = words
        return words

    def _filled(self, runs: Sequence[SortedRun]) -> Words:
        size = max(8, 1 << (self._count // ROWS_PER_WORD).bit_length())
        words = np.zeros(size, np.uint64)
        for run in runs:
            for piece in run.pieces():
                note_rows(piece, words)
        return words
