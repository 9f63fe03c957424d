"""Staging changes of one input for the next tick."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.data.zset import ZSet
from dbsp.runtime.input_changes import Piece, encode_deletions, encode_staged, encode_upserts
from dbsp.runtime.ports import InputPort


class InputHandle:
    """Changes of one input, staged until the next `run.step()`.

    On an input with set semantics or with a key, the last change of a row or key decides. Rows are
    checked when they are staged; a call that raises has staged nothing.
    """

    __slots__ = ("_interner", "_pieces", "port")

    def __init__(self, port: InputPort, interner: Interner) -> None:
        self.port = port
        """The input's port in the circuit that the run steps at present."""
        self._interner = interner
        self._pieces: list[Piece] = []

    @property
    def schema(self) -> Schema:
        return self.port.columns

    def insert(self, rows: Iterable[Any]) -> None:
        """Add every row once (assert it, on a set; replace the row of its key, on a keyed input)."""
        self._pieces.append(encode_staged(list(rows), self.port, self._interner))

    def delete(self, rows: Iterable[Any]) -> None:
        """Take every row away once (retract it; on a keyed input, remove the row of its key).

        On a keyed input the values of the key columns are enough, in the order the key was declared.
        """
        self._pieces.append(encode_deletions(list(rows), self.port, self._interner))

    def add(self, weights: Mapping[Any, int] | ZSet) -> None:
        """Change rows by the given weights."""
        self._pieces.append(encode_staged(weights, self.port, self._interner))

    def upsert(self, rows: Iterable[Any]) -> None:
        """Put every row in place of the one with the same key, if there is one."""
        self._pieces.append(encode_upserts(list(rows), self.port, self._interner))

    def take(self) -> list[Piece]:
        """Remove and return what is staged."""
        pieces, self._pieces = self._pieces, []
        return pieces
