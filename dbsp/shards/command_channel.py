"""A channel for commands: messages with buffers over a stream socket between two processes.

    frame = the lengths of the head and of the rest as uint64, the head, buffer 1, buffer 2, ...

The head is the pickled message with the lengths of the buffers. Both ends are processes of one run,
so pickle reads nothing that another program has written. The head and each buffer are padded to 8
bytes, and a received buffer shows its part of the frame, so a small frame is received by one call.
"""

from __future__ import annotations

import pickle
import socket
import struct
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

Buffer: TypeAlias = bytes | bytearray | memoryview

_LENGTHS = struct.Struct("<QQ")
_JOINED = 1 << 16
"""A frame of fewer bytes is sent by one call."""
_SEND_MEMORY = 2 << 20
"""Bytes that may be under way, if the system allows it: the part of a shard of 100,000 rows.

So the coordinator does not wait for one shard before it sends to the next.
"""
_READ_AHEAD = 1 << 14
"""A frame of fewer bytes is received by one call."""
_PADDING = tuple(bytes(size) for size in range(8))


class ChannelClosedError(Exception):
    """The process at the other end has ended."""


class CommandChannel:
    """One end of a channel. An interrupt inside a call makes the channel unusable."""

    def __init__(self, end: socket.socket) -> None:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_MEMORY)
        self._socket = end
        # Bytes that were read and belong to no message yet are _ahead[_start:_end].
        self._ahead = memoryview(bytearray(_READ_AHEAD))
        self._start = self._end = 0

    def fileno(self) -> int:
        """The descriptor, to wait for a message.

        It shows all that arrives if the other end sends a message only when this end expects one.
        """
        return self._socket.fileno()

    def send(self, message: Any, buffers: Sequence[Buffer] = ()) -> None:
        """Send a message. Raises ChannelClosedError."""
        views = [_bytes_of(buffer) for buffer in buffers]
        lengths = [len(view) for view in views]
        head = pickle.dumps((message, lengths), pickle.HIGHEST_PROTOCOL)
        rest = sum(map(_padded, lengths))
        pieces: list[Buffer] = [_LENGTHS.pack(_padded(len(head)), rest), head, _PADDING[-len(head) % 8]]
        for view in views:
            pieces += view, _PADDING[-len(view) % 8]
        try:
            if len(head) + rest < _JOINED:
                self._socket.sendall(b"".join(pieces))
                return
            for piece in pieces:
                self._socket.sendall(piece)
        except OSError as error:
            raise ChannelClosedError(str(error)) from None

    def receive(self) -> tuple[Any, list[memoryview]]:
        """Wait for a message; return it and its buffers, which can be written and are aligned.

        Raises ChannelClosedError.
        """
        while self._end - self._start < _LENGTHS.size:
            if self._start == self._end:
                self._start = self._end = 0
            elif self._start + _LENGTHS.size > len(self._ahead):
                known = bytes(self._ahead[self._start : self._end])
                self._ahead[: len(known)] = known
                self._start, self._end = 0, len(known)
            self._end += self._receive_into(self._ahead[self._end :])
        size, rest = _LENGTHS.unpack_from(self._ahead, self._start)
        self._start += _LENGTHS.size
        frame = self._read(size + rest)
        message, lengths = pickle.loads(frame)
        buffers, start = [], size
        for length in lengths:
            buffers.append(frame[start : start + length])
            start += _padded(length)
        return message, buffers

    def _read(self, length: int) -> memoryview:
        """Return the next bytes, in memory of their own."""
        frame = np.empty(length, np.uint8).data  # not a bytearray, which would be filled with zeros
        known = min(length, self._end - self._start)
        frame[:known] = self._ahead[self._start : self._start + known]
        self._start += known
        while known < length:
            known += self._receive_into(frame[known:])
        return frame

    def _receive_into(self, place: memoryview) -> int:
        try:
            read = self._socket.recv_into(place)
        except OSError as error:
            raise ChannelClosedError(str(error)) from None
        if not read:
            raise ChannelClosedError("the other end is closed")
        return read

    def close(self) -> None:
        self._socket.close()


def _bytes_of(buffer: Buffer) -> memoryview:
    view = memoryview(buffer)
    return view.cast("B") if view.nbytes else memoryview(b"")


def _padded(size: int) -> int:
    return size + -size % 8
