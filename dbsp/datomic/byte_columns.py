"""Columns of numbers and byte strings, one after the other, in one byte string.

A column of numbers has its count, its smallest number, and the differences to that in 0, 1, 2, 4 or
8 bytes each, as the largest difference needs. Two bytes before them say how long each part is.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np

from dbsp.errors import InvariantError
from dbsp.kernels.arrays import Codes

_WIDTHS: Final = ((0, 0), (1, 0xFF), (2, 0xFFFF), (4, 0xFFFF_FFFF), (8, 2**64 - 1))
_LETTERS: Final = {1: "B", 2: "H", 4: "I", 8: "Q"}

_FEW: Final = 32
"""So few numbers are faster in Python."""


class ByteWriter:
    """Collects columns; `content` returns them as bytes."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def numbers(self, column: Codes) -> None:
        """Add a column of numbers."""
        count = len(column)
        few = column.tolist() if count <= _FEW else None
        if few is None:
            low, high = int(column.min()), int(column.max())
        else:
            low, high = (min(few), max(few)) if few else (0, 0)
        width = _width(high - low)
        count_bytes, low_bytes = _bytes_of(count), _bytes_of(low)
        self._parts += (bytes((width, len(count_bytes) << 4 | len(low_bytes))), count_bytes, low_bytes)
        if not width:
            return
        if few is None:
            # Differences beyond 2**63 wrap around, and wrap around again when they are read.
            differences = column.astype(np.uint64) - np.uint64(low % 2**64)
            self._parts.append(differences.astype(f"<u{width}").tobytes())
        else:
            self._parts.append(struct.pack(f"<{count}{_LETTERS[width]}", *[value - low for value in few]))

    def text(self, content: bytes) -> None:
        """Add a byte string."""
        length = _bytes_of(len(content))
        self._parts += (bytes((len(length),)), length, content)

    def content(self) -> bytes:
        """Return all columns."""
        return b"".join(self._parts)


def _width(most: int) -> int:
    """Return how many bytes the numbers from 0 to `most` need."""
    for width, limit in _WIDTHS:
        if most <= limit:
            return width
    raise InvariantError(f"expected differences of 64 bits, got {most}; this is a defect of dbsp")


def _bytes_of(number: int) -> bytes:
    return number.to_bytes(number.bit_length() // 8 + 1, "little", signed=True) if number else b""


class ByteReader:
    """Reads the columns in the order in which they were added.

    Raises ValueError if the bytes end too early.
    """

    __slots__ = ("_at", "_content")

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    @property
    def ended(self) -> bool:
        """Whether all columns have been read."""
        return self._at == len(self._content)

    def numbers(self) -> Codes:
        """Return the next column of numbers."""
        width, lengths = self._take(2)
        count, low = self._number(lengths >> 4), self._number(lengths & 15)
        if not width:
            return np.full(count, low, np.int64)
        if width not in _LETTERS:
            raise ValueError(f"expected numbers of 1, 2, 4 or 8 bytes, got {width}")
        content = self._take(count * width)
        if count <= _FEW:
            differences = struct.unpack(f"<{count}{_LETTERS[width]}", content)
            return np.array([low + difference for difference in differences], np.int64)
        parts = np.frombuffer(content, f"<u{width}")
        return (parts.astype(np.uint64) + np.uint64(low % 2**64)).astype(np.int64)

    def text(self) -> bytes:
        """Return the next byte string."""
        return self._take(self._number(self._take(1)[0]))

    def _number(self, size: int) -> int:
        return int.from_bytes(self._take(size), "little", signed=True)

    def _take(self, size: int) -> bytes:
        part = self._content[self._at : self._at + size]
        if size < 0 or len(part) < size:
            raise ValueError(f"expected {size} bytes at {self._at}, got {len(part)}")
        self._at += size
        return part
