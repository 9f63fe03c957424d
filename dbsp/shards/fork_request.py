"""The request for a shard, from the coordinator to its template, over a stream socket.

    request = the length of the text and the number of descriptors as uint64, the text,
              and one byte for each group of descriptors, which are its ancillary data
    answer  = the process id and the number of the error as int64; one of them is 0

The text is the pickled `ForkRequest`. Both ends are processes of one run, so pickle reads nothing
that another program has written.
"""

from __future__ import annotations

import errno
import os
import pickle
import socket
import struct
from collections.abc import Sequence

from dbsp.errors import expect_type
from dbsp.lazy_dataclass import dataclass
from dbsp.shards.mesh_frames import NO_SIGNAL

_SIZES = struct.Struct("<QQ")
_ANSWER = struct.Struct("<qq")
_GROUP = 200
"""How many descriptors one message carries; Linux allows 253."""

READY = b"\1"
"""What the template sends when it has imported its modules."""


class TemplateEndedError(Exception):
    """The process at the other end has ended."""


@dataclass(frozen=True, slots=True)
class ShardDescriptors:
    """The open descriptors that a shard gets from its coordinator."""

    commands: int
    coordinator: int
    mesh: tuple[tuple[int, int] | None, ...]
    """By shard, the two sockets to it; None for this shard."""

    @property
    def arguments(self) -> tuple[int, int, tuple[tuple[int, int] | None, ...]]:
        """The arguments of `dbsp.shards.shard_process.main`."""
        return self.commands, self.coordinator, self.mesh

    @property
    def numbers(self) -> list[int]:
        """All descriptors, in the order of `renumbered`."""
        return [self.commands, self.coordinator, *(end for pair in self.mesh for end in pair or ())]

    def renumbered(self, numbers: Sequence[int]) -> ShardDescriptors:
        """Return the same descriptors with other numbers."""
        commands, coordinator, *ends = numbers
        left = iter(ends)
        mesh = tuple(None if pair is None else (next(left), next(left)) for pair in self.mesh)
        return ShardDescriptors(commands, coordinator, mesh)


@dataclass(frozen=True, slots=True)
class ForkRequest:
    """What a shard gets from its coordinator, beside the descriptors themselves."""

    environment: dict[str, str]
    path: list[str]
    """The value of `sys.path`."""
    modules: list[str]
    """Modules that the template imports before the fork."""
    shard: ShardDescriptors
    """The descriptors by their numbers in the coordinator."""


def send_request(template: socket.socket, request: ForkRequest, descriptors: Sequence[int]) -> None:
    """Send a request and open descriptors. Raises ConnectionError if the template has ended."""
    text = pickle.dumps(request, pickle.HIGHEST_PROTOCOL)
    template.sendall(_SIZES.pack(len(text), len(descriptors)) + text, NO_SIGNAL)
    for start in range(0, len(descriptors), _GROUP):
        socket.send_fds(template, [b"\0"], descriptors[start : start + _GROUP], NO_SIGNAL)


def receive_request(coordinator: socket.socket) -> tuple[ForkRequest, list[int]] | None:
    """Wait for a request; return it and its descriptors, or None when the coordinator has ended.

    Raises OSError if this process may not open so many descriptors; the request is then received.
    """
    descriptors: list[int] = []
    try:
        size, count = _SIZES.unpack(_receive(coordinator, _SIZES.size))
        request = pickle.loads(_receive(coordinator, size))
        for _ in range(0, count, _GROUP):
            filler, group, _, _ = socket.recv_fds(coordinator, 1, _GROUP)
            if not filler:
                raise TemplateEndedError
            descriptors += group
    except TemplateEndedError:
        return None
    if len(descriptors) < count:  # the system leaves out those that it cannot open
        for descriptor in descriptors:
            os.close(descriptor)
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    return expect_type(request, ForkRequest, "a request for a shard"), descriptors


def send_answer(coordinator: socket.socket, process: int, error: int) -> None:
    """Send the id of the new process, or the number of the system's error."""
    coordinator.sendall(_ANSWER.pack(process, error), NO_SIGNAL)


def receive_answer(template: socket.socket) -> tuple[int, int]:
    """Return the id of the new process and the number of the error. Raises TemplateEndedError."""
    process, error = _ANSWER.unpack(_receive(template, _ANSWER.size))
    return process, error


def _receive(end: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        try:
            part = end.recv(size - len(received))
        except ConnectionError:
            part = b""
        if not part:
            raise TemplateEndedError
        received += part
    return bytes(received)
