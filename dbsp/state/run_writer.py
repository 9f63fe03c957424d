"""Write a sorted run to a file of the memory limit, piece by piece."""

from __future__ import annotations

import weakref
from io import FileIO
from pathlib import Path

import numpy as np

from dbsp.kernels.arrays import Codes, StoredRows
from dbsp.state.mapped_runs import write_array
from dbsp.state.run_file import HEADER, RunFile, aligned
from dbsp.state.sorted_run import SortedRun, largest_weight
from dbsp.state.spill_folder import SpillFolder, remove_file

PIECE = 1 << 18
"""The bytes of the rows that are in memory at a time."""


class RunWriter:
    """Writes a run of at most `most` rows, in int32 if `narrow`.

    The weights follow the place of the most rows that the run can have; if it has far fewer, they
    are moved to the end of its rows. Weights are not written as long as all of them are 1. If the
    writer is dropped before `result`, its file is removed. Raises CheckpointError if a write fails.
    """

    __slots__ = (
        "__weakref__",
        "_discarded",
        "_file",
        "_folder",
        "_item",
        "_largest",
        "_most",
        "_path",
        "_weights_at",
        "_width",
        "_written",
    )

    def __init__(self, most: int, width: int, narrow: bool, folder: SpillFolder) -> None:
        self._most = most
        self._width = width
        self._item = 4 if narrow else 8
        self._weights_at = 0
        self._written = 0
        self._largest = 0
        self._folder = folder
        try:
            self._path = folder.new_path()
            self._file = FileIO(self._path, "x+b")
        except OSError as error:
            raise folder.refusal(error) from None
        self._discarded = weakref.finalize(self, _discard, self._file, self._path)

    @property
    def piece(self) -> int:
        """The number of rows to write at a time."""
        return min(self._most, max(PIECE // (self._item * max(self._width, 1)), 1))

    def write(self, rows: StoredRows, weights: Codes) -> None:
        """Append rows, of the width of the file, with their weights."""
        try:
            self._write(rows, weights)
        except OSError as error:
            raise self._folder.refusal(error) from None

    def result(self) -> SortedRun:
        """Return the mapped run."""
        size, width = self._written, self._width
        if not size:
            self._discarded()
            return SortedRun(np.empty((0, width), np.int64), np.empty(0, np.int64))
        try:
            if self._weights_at and size < self._most * 7 // 8:
                self._move_weights(self._end_of_rows(size))
            file = RunFile(self._path, width, size, self._weights_at, self._largest, item=self._item)
            self._file.truncate(file.end)
            self._file.close()
            run = self._folder.mapped(file)
        except OSError as error:
            raise self._folder.refusal(error) from None
        self._discarded.detach()
        return run

    def _write(self, rows: StoredRows, weights: Codes) -> None:
        size = len(weights)
        if not size:
            return
        self._largest = max(self._largest, largest_weight(weights))
        _write_at(self._file, HEADER + self._written * self._width * self._item, rows)
        if not self._weights_at and not (weights == 1).all():
            self._weights_at = self._end_of_rows(self._most)
            for at in range(0, self._written, PIECE // 8):
                ones = np.ones(min(PIECE // 8, self._written - at), np.int64)
                _write_at(self._file, self._weights_at + at * 8, ones)
        if self._weights_at:
            _write_at(self._file, self._weights_at + self._written * 8, weights)
        self._written += size

    def _end_of_rows(self, size: int) -> int:
        return aligned(HEADER + size * self._width * self._item)

    def _move_weights(self, start: int) -> None:
        """Move the weights to a lower place, in pieces from the first on."""
        for at in range(0, self._written, PIECE // 8):
            piece = np.empty(min(PIECE // 8, self._written - at), np.int64)
            self._file.seek(self._weights_at + at * 8)
            _read_all(self._file, piece)
            _write_at(self._file, start + at * 8, piece)
        self._weights_at = start


def _discard(file: FileIO, path: Path) -> None:
    file.close()
    remove_file(path)


def _write_at(file: FileIO, at: int, array: StoredRows) -> None:
    file.seek(at)
    write_array(file.fileno(), array)


def _read_all(file: FileIO, array: Codes) -> None:
    left = array.view(np.uint8).data
    while len(left):
        count = file.readinto(left)
        if not count:
            raise OSError("the file is shorter than what was written")
        left = left[count:]
