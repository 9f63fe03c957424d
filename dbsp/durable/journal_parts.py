"""The steps of a transaction in the journal of a checkpoint.

A transaction may be larger than memory, so its steps are read one at a time: once to verify them,
and again to repeat them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dbsp.durable.array_frames import read_frames
from dbsp.durable.sealed_files import SEAL_SIZE, sealed_name, sealed_size, unreadable, unseal
from dbsp.errors import CheckpointError
from dbsp.kernels.arrays import Codes
from dbsp.lazy_dataclass import dataclass

_LONGEST_NAME = 256
"""The bytes that are read of the name in a seal, more than a journal writes."""


@dataclass(frozen=True)
class TickPart:
    """The place of a step in a file of the journal, which has been verified."""

    path: Path
    start: int
    place: str
    """The name in its seal."""
    digest: str
    before: str
    """The checksum of the step or tick before it."""
    rows: Mapping[str, int]
    """By input the number of rows that it changes."""

    def read(self) -> tuple[dict[str, Any], list[Codes]]:
        """Return the head and the arrays, as a tick has them. Raises CheckpointError."""
        for _, record in records(self.path, self.start):
            file = unseal(self.path, memoryview(record), self.place, self.digest)
            return read_frames(file)
        raise unreadable(self.path, "it is shorter than it was when it was opened")


def records(path: Path, start: int = 0) -> Iterator[tuple[int, bytearray]]:
    """Yield the records of a file of the journal from a place on, each with the place after it.

    Raises CheckpointError, with the code `checkpoint-unreadable`, for one that is not complete.
    """
    try:
        with open(path, "rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            while start < size:
                file.seek(start)
                length = sealed_size(path, memoryview(file.read(SEAL_SIZE)))
                if length > size - start:
                    raise unreadable(path, "it ends within a record")
                record = bytearray(length)
                file.seek(start)
                view, filled = memoryview(record), 0
                while filled < length and (count := file.readinto(view[filled:])):
                    filled += count
                start += length
                yield start, record
    except FileNotFoundError:
        raise unreadable(path, "the file is missing") from None
    except (OSError, MemoryError) as error:
        raise unreadable(path, str(error)) from None


def first_record(path: Path, tick: int, expected: int) -> tuple[int, int]:
    """Return the place and the tick of the first record of a file that is not in the snapshot.

    The file begins with `tick`, and `expected` is the tick after the snapshot. O(number of records
    before it), since only their seals are read. A damaged seal ends the search, so that the record
    is read, and refused.
    """
    start = 0
    with contextlib.suppress(OSError), open(path, "rb", buffering=0) as file:
        end = file.seek(0, os.SEEK_END)
        while start < end:
            file.seek(start)
            seal = memoryview(file.read(SEAL_SIZE + _LONGEST_NAME))
            try:
                size, name = sealed_size(path, seal), sealed_name(path, seal)
            except CheckpointError:
                break
            number = name.rpartition("/")[2].rstrip("\0")
            if size > end - start or not number.isdecimal() or int(number) >= expected:
                break
            start, tick = start + size, int(number) + 1
    return start, tick


def changed_rows(head: Mapping[str, Any], arrays: Sequence[Codes]) -> dict[str, int]:
    """Return by input the number of rows that a record changes."""
    return {name: len(weights) for (name, _), weights in zip(head["inputs"], arrays[1::2], strict=True)}
