"""State tables: the state of a step as a dictionary, if it does not fit sorted rows."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterator, MutableMapping
from typing import TypeVar

from dbsp.state.journal import Journalled

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class StateTable(MutableMapping[K, V]):
    """A dictionary whose changes are committed or rolled back with the tick.

    `Scope.new_table` returns one. Values must be replaced, not modified in place. O(1) per access;
    a rollback costs O(changes of the tick). With `save`, several ticks can be undone together.
    """

    __slots__ = ("_before", "_journal", "_saved", "_values")

    def __init__(self, journal: list[Journalled]) -> None:
        self._values: dict[K, V] = {}
        self._before: dict[K, tuple[V, ...]] = {}
        """By key changed in this tick, its earlier value in a tuple, or () if it had none."""
        self._saved: dict[K, tuple[V, ...]] | None = None
        """The same for the ticks since `save`; None if no savepoint is set."""
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
        if self._saved is not None:
            for key, before in self._before.items():
                self._saved.setdefault(key, before)
        self._before.clear()

    def rollback(self) -> None:
        self._restore(self._before)
        self._before.clear()

    # --- savepoints -------------------------------------------------------------------------------

    def save(self) -> None:
        """Set a savepoint, between ticks: `rewind` returns to it, `discard_save` removes it."""
        self._saved = {}

    def rewind(self) -> None:
        """Undo all ticks since `save`. If this is interrupted, call it again."""
        self.rollback()
        if self._saved is not None:
            self._restore(self._saved)

    def discard_save(self) -> None:
        """Remove the savepoint."""
        self._saved = None

    def _restore(self, earlier: dict[K, tuple[V, ...]]) -> None:
        for key, before in earlier.items():
            if before:
                self._values[key] = before[0]
            else:
                self._values.pop(key, None)

    def _remember(self, key: K) -> None:
        if not self._before:
            self._journal.append(self)
        if key not in self._before:
            self._before[key] = (self._values[key],) if key in self._values else ()
