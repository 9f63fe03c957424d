"""A transport over socket pairs, for shards that are processes of one machine.

Each pair of shards has two socket pairs. The frames of exchanges (`mesh_frames`) go over the first.
The second has the numbers of generations that the other shard gave up: they arrive at once even if
the first is full. A process that ends closes its ends, which the others read as the end of the
stream.
"""

from __future__ import annotations

import select
import socket
import struct
from collections.abc import Sequence
from typing import TypeAlias

from dbsp.errors import DbspError, InvariantError
from dbsp.shards.mesh_frames import (
    NO_SIGNAL,
    EndOfStream,
    Frame,
    FrameReader,
    FrameWriter,
    frame_pieces,
)
from dbsp.shards.packet_frames import Buffer
from dbsp.shards.transport import ShardAborted, ShardLost, Transport

MeshEnds: TypeAlias = list[tuple[socket.socket, socket.socket] | None]
"""The sockets of one shard by other shard: one for frames and one for aborts; None at its place."""

_GENERATION = struct.Struct("<q")
_READ_SIZE = 4096
_SEND_MEMORY = 1 << 20
"""Bytes of a connection that may be under way, if the system allows it.

Twice as fast for messages of megabytes than the default, since shards wait less for each other.
"""


def connected_mesh(shards: int) -> list[MeshEnds]:
    """Return by shard its ends of new connections between all shards.

    Multiprocessing passes them to spawned processes. The process that makes them closes them with
    `close_ends` after that; else no shard notices the end of another.
    """
    ends: list[MeshEnds] = [[None] * shards for _ in range(shards)]
    try:
        for low in range(shards):
            for high in range(low + 1, shards):
                frames, aborts = socket.socketpair(), socket.socketpair()
                for end in frames:
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_MEMORY)
                ends[low][high] = frames[0], aborts[0]
                ends[high][low] = frames[1], aborts[1]
    except OSError:
        for of_shard in ends:
            close_ends(of_shard)
        raise
    return ends


def close_ends(ends: MeshEnds) -> None:
    """Close the ends of one shard in this process."""
    for pair in ends:
        for socket_ in pair or ():
            socket_.close()


class SocketMesh(Transport):
    """The transport of one shard. A mesh begins in generation 0.

    After ShardAborted, InvariantError, OSError and MemoryLimitError the next generation is usable.
    An interrupt during a call closes the mesh.
    """

    def __init__(self, shard: int, ends: MeshEnds) -> None:
        self.shard = shard
        self.shards = len(ends)
        self._peers = [_Peer(number, *pair) for number, pair in enumerate(ends) if pair is not None]
        self._generation = 0
        self._round = 0
        self._aborted = False
        self._closed = False

    def begin(self, generation: int) -> None:
        self._check_open()
        if generation <= self._generation:
            raise InvariantError(
                f"expected a generation after {self._generation}, got {generation}; this is a defect of dbsp"
            )
        with _Closing(self):
            self._generation = generation
            self._round = 0
            self._aborted = False
            for peer in self._peers:
                peer.writer.drop_unbegun()
                peer.read_aborts()
                peer.aborted = {number for number in peer.aborted if number >= generation}

    def exchange(self, name: str, messages: Sequence[Sequence[Buffer]]) -> list[list[Buffer]]:
        self._check_open()
        if len(messages) != self.shards:
            raise InvariantError(f"{name}: expected {self.shards} messages, got {len(messages)}")
        if self._aborted:
            raise ShardAborted(self.shard)
        with _Closing(self):
            return self._exchange(name.encode(), messages)

    def abort(self) -> None:
        if self._closed or self._aborted:
            return
        self._aborted = True
        try:
            for peer in self._peers:
                peer.send_abort(self._generation)
        except BaseException:
            self.close()  # the others must notice
            raise

    def close(self) -> None:
        self._closed = True
        for peer in self._peers:
            peer.close()

    def _check_open(self) -> None:
        if self._closed:
            raise InvariantError(f"the connections of shard {self.shard} are closed")

    def _exchange(self, name: bytes, messages: Sequence[Sequence[Buffer]]) -> list[list[Buffer]]:
        self._check_peers()
        round_ = self._round
        self._round += 1
        received: list[list[Buffer]] = [[] for _ in messages]
        received[self.shard] = list(messages[self.shard])
        for peer in self._peers:
            peer.writer.put(frame_pieces(self._generation, round_, name, messages[peer.shard]))
        unsent = [peer for peer in self._peers if not peer.send()]
        unread = [peer for peer in self._peers if not self._receive(peer, round_, name, received)]
        self._check_peers()
        while unsent or unread:
            ready = self._wait(unsent, unread)
            unsent = [peer for peer in unsent if peer.frames not in ready or not peer.send()]
            unread = [
                peer
                for peer in unread
                if peer.frames not in ready or not self._receive(peer, round_, name, received)
            ]
            # After the frames: a shard at another exchange gives up, but its frame says why.
            for peer in self._peers:
                if peer.aborts in ready:
                    peer.read_aborts()
            self._check_peers()
        return received

    def _receive(self, peer: _Peer, round_: int, name: bytes, received: list[list[Buffer]]) -> bool:
        """Receive what a shard has sent; return whether its message is complete."""
        frame = peer.receive(self._generation)
        if frame is None:
            return False
        if frame.generation > self._generation:
            raise ShardAborted(peer.shard)  # so this generation is over there
        if (frame.round, frame.name) != (round_, name):
            raise InvariantError(
                f"shard {self.shard} is at exchange {round_}, {name.decode()}, and shard {peer.shard} "
                f"at exchange {frame.round}, {frame.name.decode()}; this is a defect of dbsp"
            )
        if frame.complete:
            received[peer.shard].extend(frame.buffers())
            peer.reader.take()
        return frame.complete

    def _wait(self, unsent: Sequence[_Peer], unread: Sequence[_Peer]) -> set[socket.socket]:
        """Wait until sockets are ready; return them."""
        interest = {peer.aborts: select.POLLIN for peer in self._peers}
        for peer in unread:
            interest[peer.frames] = select.POLLIN
        for peer in unsent:
            interest[peer.frames] = interest.get(peer.frames, 0) | select.POLLOUT
        poll = select.poll()
        for socket_, events in interest.items():
            poll.register(socket_, events)
        ready = {number for number, _ in poll.poll()}
        return {socket_ for socket_ in interest if socket_.fileno() in ready}

    def _check_peers(self) -> None:
        for peer in self._peers:
            if peer.lost:
                raise ShardLost(peer.shard)
        for peer in self._peers:
            if self._generation in peer.aborted:
                raise ShardAborted(peer.shard)


class _Closing:
    """Closes a mesh if an interrupt ends the block, since a count of bytes may be missing then."""

    __slots__ = ("_mesh",)

    def __init__(self, mesh: SocketMesh) -> None:
        self._mesh = mesh

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and not issubclass(kind, DbspError | OSError):
            self._mesh.close()


class _Peer:
    """The connections to one other shard."""

    __slots__ = ("_unread", "aborted", "aborts", "frames", "lost", "reader", "shard", "writer")

    def __init__(self, shard: int, frames: socket.socket, aborts: socket.socket) -> None:
        frames.setblocking(False)
        aborts.setblocking(False)
        self.shard = shard
        self.frames = frames
        self.aborts = aborts
        self.reader = FrameReader(frames)
        self.writer = FrameWriter(frames)
        self.aborted: set[int] = set()
        """The generations that the other shard gave up, from this shard's generation on."""
        self.lost = False
        """Whether the other process has ended."""
        self._unread = b""

    def send(self) -> bool:
        """Send what the socket takes; return whether nothing is left to send."""
        try:
            return self.lost or self.writer.send()
        except ConnectionError:
            self._lose()
            return True

    def receive(self, generation: int) -> Frame | None:
        """Receive what has arrived; return the first frame of this generation or a later one."""
        try:
            return None if self.lost else self.reader.receive(generation)
        except (EndOfStream, ConnectionError):
            self._lose()
            return None

    def send_abort(self, generation: int) -> None:
        self.read_aborts()
        message = _GENERATION.pack(generation)
        while message and not self.lost:
            try:
                message = message[self.aborts.send(message, NO_SIGNAL) :]
            except BlockingIOError:
                # Short: each shard reads these messages when it begins a generation or gives up.
                poll = select.poll()
                poll.register(self.aborts, select.POLLOUT)
                poll.poll()
            except ConnectionError:
                self._lose()

    def read_aborts(self) -> None:
        while not self.lost:
            try:
                message = self.aborts.recv(_READ_SIZE)
            except BlockingIOError:
                return
            except ConnectionError:
                message = b""
            if not message:
                self._lose()
                return
            message = self._unread + message
            complete = len(message) // _GENERATION.size * _GENERATION.size
            self.aborted.update(*_GENERATION.iter_unpack(message[:complete]))
            self._unread = message[complete:]

    def close(self) -> None:
        self.frames.close()
        self.aborts.close()

    def _lose(self) -> None:
        self.lost = True
        self.close()  # so that the other shard notices it too if it still exists
