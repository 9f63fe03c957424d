"""Write sorted runs to files, and map them (see `dbsp.state.run_file`).

The pages of a mapped run are read when they are touched, the system drops them again when memory is
short, and all processes that map a file share them. The mapping is read-only, and the arrays of a
run are never written, so kernels get them as they are.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dbsp.kernels.arrays import StoredRows
from dbsp.state.mapped_file import MappedFile
from dbsp.state.run_file import DIGEST, HEADER, RunFile, aligned
from dbsp.state.sorted_run import SortedRun

_PIECE = 1 << 20


def write_run(path: Path, run: SortedRun, written: Callable[[int], None] | None = None) -> RunFile:
    """Write a run to a new file with an empty header. Raises OSError.

    `written` is called with the descriptor of the file after each piece of it. O(n), without a copy
    in memory.
    """
    codes = run.codes
    size, width = codes.shape
    with open(path, "xb", buffering=0) as file:
        file.write(bytes(HEADER))
        write_array(file.fileno(), codes, written)
        weights_at = 0
        if not (run.stored == 1).all():
            end = HEADER + codes.nbytes
            weights_at = aligned(end)
            file.write(bytes(weights_at - end))
            write_array(file.fileno(), run.stored, written)
    return RunFile(path, width, size, weights_at, run.largest, item=codes.itemsize)


def map_run(file: RunFile, released: Callable[[], None] | None = None) -> SortedRun:
    """Return the run of a file, whose pages are read when they are touched.

    `released` is called when nobody refers to its arrays any more. O(1). Raises OSError, and
    ValueError for a file that is too short.
    """
    content = MappedFile(file.path, file.end)
    if released is not None:
        content.when_released(released)
    if file.digest and content.read(DIGEST).hex() != file.digest:
        raise ValueError(f"{file.path} is not the file that was written there last")
    shape = file.size, file.width
    codes: StoredRows = np.asarray(_Mapping(content, HEADER, shape, np.int64 if file.item == 8 else np.int32))
    if file.weights_at:
        run = SortedRun(codes, np.asarray(_Mapping(content, file.weights_at, shape[:1], np.int64)))
        run.largest = file.largest
    else:
        run = SortedRun.of_ones(codes)
    run.file = file
    return run


class _Mapping:
    """The memory of a mapped file as an array that kernels accept, which take writable arrays."""

    def __init__(
        self, content: MappedFile, at: int, shape: tuple[int, ...], type_: type[np.integer[Any]]
    ) -> None:
        self.content = content
        self.__array_interface__: dict[str, Any] = {
            "data": (content.address + at, False),
            "shape": shape,
            "typestr": np.dtype(type_).str,
            "version": 3,
        }


def write_array(descriptor: int, array: StoredRows, written: Callable[[int], None] | None = None) -> None:
    """Write an array at the place of an open file; `written` is as for `write_run`."""
    left: memoryview = array.reshape(-1).view(np.uint8).data
    while len(left):
        left = left[os.write(descriptor, left[:_PIECE]) :]
        if written is not None:
            written(descriptor)
