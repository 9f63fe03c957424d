"""A channel for commands: messages with buffers over a stream socket between two processes.

    frame = the length of the head as uint64, the head, buffer 1, buffer 2, ...

The head is the pickled message with the lengths of the buffers. Both ends are processes of one run,
so pickle reads nothing that another program has written.
"""

from __future__ import annotations

import pickle
import socket
import struct
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

Buffer: TypeAlias = bytes | bytearray | memoryview

_LENGTH = struct.Struct("<Q")
_JOINED = 1 << 16
"""A frame of fewer bytes is sent by one call."""
_SEND_MEMORY = 2 << 20
"""Bytes that may be under way, if the system allows it: the part of a shard of 100,000 rows.

So the coordinator does not wait for one shard before it sends to the next.
"""


class ChannelClosedError(Exception):
    """The process at the other end has ended."""


class CommandChannel:
    """One end of a channel. An interrupt inside a call makes the channel unusable."""

    def __init__(self, end: socket.socket) -> None:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_MEMORY)
        self._socket = end

    def fileno(self) -> int:
        """The descriptor, to wait for a message."""
        return self._socket.fileno()

    def send(self, message: Any, buffers: Sequence[Buffer] = ()) -> None:
        """Send a message. Raises ChannelClosedError."""
        views = [_bytes_of(buffer) for buffer in buffers]
        lengths = [len(view) for view in views]
        head = pickle.dumps((message, lengths), pickle.HIGHEST_PROTOCOL)
        start = _LENGTH.pack(len(head)) + head
        try:
            if len(start) + sum(lengths) < _JOINED:
                self._socket.sendall(b"".join((start, *views)))
                return
            self._socket.sendall(start)
            for view in views:
                self._socket.sendall(view)
        except OSError as error:
            raise ChannelClosedError(str(error)) from None

    def receive(self) -> tuple[Any, list[memoryview]]:
        """Wait for a message; return it and its buffers. Raises ChannelClosedError."""
        (length,) = _LENGTH.unpack(self._read(_LENGTH.size))
        message, lengths = pickle.loads(self._read(length))
        return message, [self._read(length) for length in lengths]

    def _read(self, length: int) -> memoryview:
        # Not a bytearray, which would be filled with zeros first.
        view, start = np.empty(length, np.uint8).data, 0
        while start < length:
            try:
                read = self._socket.recv_into(view[start:])
            except OSError as error:
                raise ChannelClosedError(str(error)) from None
            if not read:
                raise ChannelClosedError("the other end is closed")
            start += read
        return view

    def close(self) -> None:
        self._socket.close()


def _bytes_of(buffer: Buffer) -> memoryview:
    view = memoryview(buffer)
    return view.cast("B") if view.nbytes else memoryview(b"")
