"""Frames on a non-blocking stream socket: one frame is one message of an exchange.

A frame is a head, a table, and the buffers:

    magic, length of the name, generation, round, number of buffers | name, sizes | buffers

The table and each buffer are padded to 8 bytes. Buffers are sent from where they are and received
into memory of the size of the frame, without copies of large buffers. Bytes that arrive before
their place is known are read ahead into a small memory.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator, Sequence

import numpy as np

from dbsp.errors import InvariantError, MemoryLimitError, expect_present
from dbsp.runtime.memory import memory_message
from dbsp.shards.packet_frames import Buffer

_MAGIC = b"DBX1"
_HEAD = struct.Struct("<4sIqII")
_PADDING = tuple(memoryview(bytes(size)) for size in range(8))
_READ_AHEAD = 1 << 16
NO_SIGNAL = getattr(socket, "MSG_NOSIGNAL", 0)
_MOST_PIECES = os.sysconf("SC_IOV_MAX") if hasattr(os, "sysconf") else 16


class EndOfStream(Exception):
    """The other end of the socket is closed."""


class Frame:
    """A frame whose head and table have arrived.

    `memory` has the buffers, of which `filled` bytes have arrived. It is None for a frame of an
    earlier generation, whose buffers are dropped.
    """

    __slots__ = ("_sizes", "filled", "generation", "memory", "name", "round", "size")

    def __init__(self, generation: int, round_: int, name: bytes, sizes: Sequence[int]) -> None:
        self.generation = generation
        self.round = round_
        self.name = name
        self.size = sum(map(_padded, sizes))
        self.filled = 0
        self.memory: memoryview | None = None
        self._sizes = sizes

    @property
    def complete(self) -> bool:
        return self.filled == self.size

    def allocate(self) -> None:
        try:
            # Not a bytearray, which would be filled with zeros first.
            self.memory = np.empty(self.size, np.uint8).data
        except MemoryError:
            raise MemoryLimitError(memory_message()) from None

    def buffers(self) -> Iterator[memoryview]:
        """Yield the buffers of a complete frame."""
        memory, start = expect_present(self.memory, "the memory of a frame"), 0
        for size in self._sizes:
            yield memory[start : start + size]
            start += _padded(size)


def frame_pieces(generation: int, round_: int, name: bytes, message: Sequence[Buffer]) -> list[memoryview]:
    """Return the memory of a frame, piece by piece."""
    buffers = [_bytes_of(buffer) for buffer in message]
    head = _HEAD.pack(_MAGIC, len(name), generation, round_, len(buffers))
    sizes = struct.pack(f"<{len(buffers)}Q", *(buffer.nbytes for buffer in buffers))
    pieces = [memoryview(b"".join((head, name, bytes(-len(name) % 8), sizes)))]
    for buffer in buffers:
        if buffer.nbytes:
            pieces.append(buffer)
            if buffer.nbytes % 8:
                pieces.append(_PADDING[-buffer.nbytes % 8])
    return pieces


def _bytes_of(buffer: Buffer) -> memoryview:
    view = memoryview(buffer)
    return view.cast("B") if view.nbytes else _PADDING[0]


def _padded(size: int) -> int:
    return size + -size % 8


class FrameWriter:
    """Sends frames, as much at a time as the socket takes."""

    __slots__ = ("_pieces", "_socket", "_unbegun")

    def __init__(self, socket_: socket.socket) -> None:
        self._socket = socket_
        self._pieces: list[memoryview] = []
        self._unbegun = 0  # the number of last pieces: those of a frame of which nothing is sent

    def put(self, pieces: list[memoryview]) -> None:
        """Add a frame, after the rest of a frame of an earlier generation."""
        self._pieces += pieces
        self._unbegun = len(pieces)

    def drop_unbegun(self) -> None:
        """Forget the frame of which nothing is sent. The rest of a frame must still be sent."""
        if self._unbegun:
            del self._pieces[-self._unbegun :]
            self._unbegun = 0

    def send(self) -> bool:
        """Send what the socket takes; return whether that is all. Raises OSError."""
        pieces = self._pieces
        while pieces:
            try:
                sent = self._socket.sendmsg(pieces[:_MOST_PIECES], (), NO_SIGNAL)
            except BlockingIOError:
                return False
            done = 0
            while done < len(pieces) and sent >= pieces[done].nbytes:
                sent -= pieces[done].nbytes
                done += 1
            if sent:
                pieces[done] = pieces[done][sent:]
            if done + (sent > 0) > len(pieces) - self._unbegun:
                self._unbegun = 0
            del pieces[:done]
        return True


class FrameReader:
    """Receives frames, as much at a time as has arrived."""

    __slots__ = ("_ahead", "_end", "_frame", "_socket", "_start")

    def __init__(self, socket_: socket.socket) -> None:
        self._socket = socket_
        self._frame: Frame | None = None
        # Bytes that were read and belong to no frame yet are _ahead[_start:_end].
        self._ahead = memoryview(bytearray(_READ_AHEAD))
        self._start = self._end = 0

    def receive(self, generation: int) -> Frame | None:
        """Return the first frame of this generation or a later one, complete or not.

        None if its head has not arrived. Frames of earlier generations are dropped. A further call
        receives the rest. Raises OSError, EndOfStream, InvariantError and MemoryLimitError.
        """
        while True:
            frame = self._frame
            if frame is None:
                frame = self._frame = self._next_frame(generation)
            if frame is None:
                return None
            self._fill(frame)
            if frame.generation >= generation:
                return frame
            if not frame.complete:
                return None
            self._frame = None

    def take(self) -> None:
        """Forget the frame that `receive` returned, which is complete: the next one follows."""
        self._frame = None

    def _next_frame(self, generation: int) -> Frame | None:
        if not self._read_ahead(_HEAD.size):
            return None
        magic, length, number, round_, count = _HEAD.unpack_from(self._ahead, self._start)
        if magic != _MAGIC:
            raise InvariantError("expected a frame of an exchange; this is a defect of dbsp")
        table = _HEAD.size + _padded(length) + 8 * count
        if not self._read_ahead(table):
            return None
        at = self._start + _HEAD.size
        name = bytes(self._ahead[at : at + length])
        sizes = struct.unpack_from(f"<{count}Q", self._ahead, at + _padded(length))
        frame = Frame(number, round_, name, sizes)
        if number >= generation:
            frame.allocate()
        self._start += table
        return frame

    def _fill(self, frame: Frame) -> None:
        """Receive what has arrived of the buffers of a frame."""
        if frame.complete:
            return
        known = min(self._end - self._start, frame.size - frame.filled)
        if known:
            if frame.memory is not None:
                frame.memory[frame.filled : frame.filled + known] = self._ahead[
                    self._start : self._start + known
                ]
            self._start += known
            frame.filled += known
        while not frame.complete:
            if frame.memory is not None:
                place = frame.memory[frame.filled :]
            else:
                place = self._ahead[: frame.size - frame.filled]
            received = self._receive_into(place)
            if not received:
                return
            frame.filled += received

    def _read_ahead(self, size: int) -> bool:
        """Return whether that many bytes that belong to no frame are there, after a look."""
        while (present := self._end - self._start) < size:
            if self._start + size > len(self._ahead):
                memory = memoryview(bytearray(max(size, _READ_AHEAD)))
                memory[:present] = self._ahead[self._start : self._end]
                self._ahead, self._start, self._end = memory, 0, present
            elif not present:
                self._start = self._end = 0
            received = self._receive_into(self._ahead[self._end :])
            if not received:
                return False
            self._end += received
        return True

    def _receive_into(self, place: memoryview) -> int:
        """Return the number of bytes received; 0 if nothing has arrived."""
        try:
            received = self._socket.recv_into(place)
        except BlockingIOError:
            return 0
        if not received:
            raise EndOfStream
        return received
