"""Shards in threads that exchange messages over socket pairs, with delays and faults."""

from __future__ import annotations

import errno
import random
import socket
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from dbsp.shards.packet_frames import Buffer
from dbsp.shards.socket_mesh import MeshEnds, SocketMesh, connected_mesh
from dbsp.shards.transport import Transport

SIZES = (0, 1, 7, 8, 4_000, 70_000, 1_500_000)
"""Sizes of buffers: some need padding, some exceed the memory to read ahead or the system's."""

_BYTES = np.random.default_rng(0).integers(0, 256, max(SIZES) + 10_000, np.uint8)


def narrow_mesh(shards: int) -> list[MeshEnds]:
    """Connections with little memory, so that messages of a megabyte are sent in many parts."""
    mesh = connected_mesh(shards)
    for ends in mesh:
        for pair in ends:
            if pair is not None:
                pair[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
    return mesh


def meshes(shards: int) -> list[SocketMesh]:
    return [SocketMesh(shard, ends) for shard, ends in enumerate(narrow_mesh(shards))]


def run_all(work: Callable[[int], Any], shards: int) -> list[Any]:
    """Call `work(shard)` for each shard in a thread of its own; return the results or errors."""
    results: list[Any] = [None] * shards

    def call(shard: int) -> None:
        try:
            results[shard] = work(shard)
        except BaseException as error:
            results[shard] = error

    threads = [threading.Thread(target=call, args=(shard,), daemon=True) for shard in range(shards)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def message(*seed: int, sizes: Sequence[int] = SIZES) -> list[np.ndarray]:
    """Random buffers; equal for equal seeds."""
    choice = random.Random(zlib.crc32(repr(seed).encode()))
    return [_BYTES[choice.randrange(10_000) :][: choice.choice(sizes)] for _ in range(choice.randrange(4))]


def exchange_exactly(
    transport: Transport, *seed: int, sizes: Sequence[int] = SIZES, name: str = "exchange"
) -> None:
    """Exchange the messages of a seed; assert that those of the same seed arrive."""
    everyone = range(transport.shards)
    shard = transport.shard
    got = transport.exchange(name, [message(*seed, shard, to, sizes=sizes) for to in everyone])
    expected = [message(*seed, of, shard, sizes=sizes) for of in everyone]
    with closing_on_failure(transport):
        assert list(map(_texts, got)) == list(map(_texts, expected))
        for of in everyone:
            for buffer in got[of]:
                assert of == shard or not (memoryview(buffer).readonly or np.asarray(buffer).ctypes.data % 8)


@contextmanager
def closing_on_failure(connection: Any) -> Iterator[None]:
    """End the connections of a shard whose assertion fails, so that no other shard waits for it."""
    try:
        yield
    except AssertionError:
        connection.close()
        raise


def _texts(buffers: Sequence[Buffer]) -> list[bytes]:
    return [bytes(buffer) for buffer in buffers]


class HookedTransport(Transport):
    """Calls a function before and after each exchange, which may wait or raise."""

    def __init__(self, transport: Transport, hook: Callable[[str, int], None]) -> None:
        self.shard = transport.shard
        self.shards = transport.shards
        self._transport = transport
        self._hook = hook
        self._number = 0

    def begin(self, generation: int) -> None:
        self._number = 0
        self._transport.begin(generation)

    def exchange(self, name: str, messages: Sequence[Sequence[Buffer]]) -> list[list[Buffer]]:
        number = self._number
        self._number += 1
        self._hook("before", number)
        received = self._transport.exchange(name, messages)
        self._hook("after", number)
        return received

    def abort(self) -> None:
        self._transport.abort()

    def close(self) -> None:
        self._transport.close()


class FaultySocket:
    """A socket whose calls ask `fault(call)` first: it raises, or limits the bytes of the call."""

    def __init__(self, socket_: socket.socket, fault: Callable[[str], int | None]) -> None:
        self._socket = socket_
        self._fault = fault

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    def sendmsg(self, pieces: Sequence[memoryview], data: Any, flags: int) -> int:
        limit = self._fault("sendmsg")
        if limit is not None:
            size = sum(piece.nbytes for piece in pieces)
            return self._socket.send(b"".join(pieces)[: max(1, min(limit, size))], flags)
        return self._socket.sendmsg(pieces, data, flags)

    def send(self, text: bytes, flags: int) -> int:
        limit = self._fault("send")
        return self._socket.send(text if limit is None else text[: max(1, limit)], flags)

    def recv_into(self, place: memoryview) -> int:
        limit = self._fault("recv_into")
        return self._socket.recv_into(place if limit is None else place[: max(1, limit)])

    def recv(self, size: int) -> bytes:
        limit = self._fault("recv")
        return self._socket.recv(size if limit is None else max(1, limit))


class FaultAt:
    """Raises an error at the call of this number, from 0 on, unless it is stopped before."""

    def __init__(self, number: int, error: BaseException) -> None:
        self.raised = False
        self._number = number
        self._error = error
        self._calls = 0

    def __call__(self, call: str) -> None:
        self._calls += 1
        if self._calls == self._number + 1:
            self.raised = True
            raise self._error

    def stop(self) -> None:
        self._number = -1


def faulty_mesh(shard: int, ends: MeshEnds, fault: Callable[[str], int | None]) -> SocketMesh:
    """The mesh of one shard, whose sockets have faults."""
    faulty: Any = [
        None if pair is None else tuple(FaultySocket(socket_, fault) for socket_ in pair) for pair in ends
    ]
    return SocketMesh(shard, faulty)


def no_buffers() -> OSError:
    """The error of a system that is short of memory for sockets."""
    return OSError(errno.ENOBUFS, "No buffer space available")
