"""State tables: the state of a step as a dictionary, if it does not fit sorted rows."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterator, MutableMapping
from typing import Any, Final, TypeVar

from dbsp.state.journal import Journalled

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

ABSENT: Final = object()
"""The value of a key that is not in a table any more."""


class StateTable(MutableMapping[K, V]):
    """A dictionary whose changes are committed or rolled back with the tick.

    `Scope.new_table` returns one. Values must be replaced, not modified in place. O(1) per access;
    a rollback costs O(changes of the tick). With `save`, several ticks can be undone together. From
    the first capture for a checkpoint on, the table records the keys that change.
    """

    __slots__ = ("_before", "_changed", "_journal", "_kept", "_unwritten", "_values", "saved")

    def __init__(self, journal: list[Journalled]) -> None:
        self._values: dict[K, V] = {}
        self._before: dict[K, tuple[V, ...]] = {}
        """By key changed in this tick, its earlier value in a tuple, or () if it had none."""
        self._kept: dict[K, tuple[V, ...]] | None = None
        """The same for the ticks since `save`; None if no savepoint is set."""
        self._changed: set[K] | None = None
        """The keys that changed since the latest `capture`; None before the first one."""
        self._unwritten: set[K] | None = None
        """The captured keys whose snapshot is not complete; None for all keys."""
        self.saved: list[Any] | None = None
        """The files of the latest snapshot with the entries of this table."""
        self._journal = journal

    def __getitem__(self, key: K) -> V:
        return self._values[key]

    def __setitem__(self, key: K, value: V) -> None:
        self._remember(key)
        self._values[key] = value

    def __delitem__(self, key: K) -> None:
        self._remember(key)
        del self._values[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    @property
    def rows(self) -> int:
        """The number of entries."""
        return len(self._values)

    @property
    def nbytes(self) -> int:
        """The bytes of the dictionary itself, without its keys and values."""
        return sys.getsizeof(self._values)

    def commit(self) -> None:
        if self._kept is not None:
            for key, before in self._before.items():
                self._kept.setdefault(key, before)
        if self._changed is not None:
            self._changed.update(self._before)
        self._before.clear()

    def rollback(self) -> None:
        self._restore(self._before)
        self._before.clear()

    # --- savepoints -------------------------------------------------------------------------------

    def save(self) -> None:
        """Set a savepoint, between ticks: `rewind` returns to it, `discard_save` removes it."""
        self._kept = {}

    def rewind(self) -> None:
        """Undo all ticks since `save`. If this is interrupted, call it again."""
        self.rollback()
        if self._kept is not None:
            self._restore(self._kept)

    def discard_save(self) -> None:
        """Remove the savepoint."""
        self._kept = None

    def _restore(self, earlier: dict[K, tuple[V, ...]]) -> None:
        for key, before in earlier.items():
            if before:
                self._values[key] = before[0]
            else:
                self._values.pop(key, None)

    # --- snapshots --------------------------------------------------------------------------------

    def capture(self) -> dict[K, V | Any]:
        """Return the entries that changed since the latest snapshot; `ABSENT` marks removed ones.

        Between ticks. If that snapshot is not completed, the next capture has them, too.
        O(changes).
        """
        self._note_capture()
        if self._unwritten is None:
            return dict(self._values)
        return {key: self._values.get(key, ABSENT) for key in self._unwritten}

    def capture_all(self) -> dict[K, V | Any]:
        """Return a copy of all entries, for a snapshot that has no others. O(n)."""
        self._note_capture()
        return dict(self._values)

    def _note_capture(self) -> None:
        if self._changed and self._unwritten is not None:
            # A new set, unless there was none: nothing is lost if this is interrupted.
            self._unwritten = self._unwritten | self._changed if self._unwritten else self._changed
        self._changed = set()

    def captured(self, saved: list[Any]) -> None:
        """Note that the snapshot of the latest capture is durable; `saved` are its files."""
        self.saved = saved
        self._unwritten = set()
        if self._changed is None:
            self._changed = set()

    def _remember(self, key: K) -> None:
        if not self._before:
            self._journal.append(self)
        if key not in self._before:
            self._before[key] = (self._values[key],) if key in self._values else ()
