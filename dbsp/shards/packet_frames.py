"""The form of a packet: one buffer with a head, and buffers that are arrays of int64 or text.

Integers are little-endian. The first buffer starts with

    4   "dbsP"
    2   the version: 1
    2   1 if the receiver is to forget all earlier packets
    8   XXH3 of what follows and of all other buffers, in order
    8   the number of the packet since the receiver forgot the earlier ones
    8   the fingerprint of the types of the columns
    8   the number of rows
    8   the weight of all rows, or 0 if the packet has the weight of each row

and ends with a JSON list that describes the values that are new, or with nothing if none are. A
packet ends on the machine where it began, and its processes run the same version of the program, so
a receiver refuses every other version.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import xxhash

from dbsp.errors import InvariantError
from dbsp.kernels.arrays import Codes

Buffer = bytes | bytearray | memoryview

_MAGIC, _VERSION = b"dbsP", 1
_SEAL = struct.Struct("<4sHHQ")
_NUMBERS = struct.Struct("<QQQq")
_LENGTH = struct.Struct("<Q")
_encode = json.JSONEncoder(separators=(",", ":")).encode
_HASHED_AT_ONCE = 1 << 12
_WIDTH = np.dtype("<i8")


class PacketHead(NamedTuple):
    """What a packet says besides its arrays."""

    fresh: bool
    """Whether the receiver is to forget all earlier packets."""
    number: int
    """The number of the packet, from 0 on."""
    fingerprint: int
    """A hash of the types of the columns."""
    rows: int
    weight: int
    """The weight of all rows, or 0 if the packet has the weight of each row."""
    pieces: list[Any]
    """A JSON list that describes the values that are new."""


def packet(head: PacketHead, arrays: Sequence[Codes | bytes]) -> list[Buffer]:
    """Return the buffers of a packet; arrays in C order are not copied."""
    body = _NUMBERS.pack(head.number, head.fingerprint, head.rows, head.weight)
    if head.pieces:
        body += _encode(head.pieces).encode("ascii")
    buffers = [array if isinstance(array, bytes) else _bytes_of(array) for array in arrays]
    seal = _SEAL.pack(_MAGIC, _VERSION, head.fresh, _checksum(body, buffers))
    return [seal + body, *buffers]


def read_packet(buffers: Sequence[Buffer]) -> tuple[PacketHead, list[memoryview]]:
    """Return the head and the other buffers of a packet. Raises InvariantError for a wrong one."""
    views = [memoryview(buffer).cast("B") for buffer in buffers]
    first = views[0]
    if len(first) < _SEAL.size + _NUMBERS.size or bytes(first[:4]) != _MAGIC:
        raise InvariantError("expected a packet of rows from another shard, got other bytes")
    _, version, fresh, checksum = _SEAL.unpack_from(first)
    if version != _VERSION:
        raise InvariantError(f"expected a packet of version {_VERSION}, got one of version {version}")
    body = first[_SEAL.size :]
    arrays = views[1:]
    if fresh not in (0, 1) or _checksum(body, arrays) != checksum:
        raise InvariantError("expected a packet with the checksum of its content, got a damaged one")
    number, fingerprint, rows, weight = _NUMBERS.unpack_from(body)
    pieces = json.loads(bytes(body[_NUMBERS.size :])) if len(body) > _NUMBERS.size else []
    return PacketHead(bool(fresh), number, fingerprint, rows, weight, pieces), arrays


def numbers_of(buffer: Buffer, columns: int = 0) -> Codes:
    """Return the array of a buffer, with rows of so many columns, as kernels accept it.

    Copies only what is not aligned or cannot be written.
    """
    flat = np.frombuffer(buffer, _WIDTH)
    if not (flat.flags.aligned and flat.flags.writeable):
        flat = flat.copy()
    array: Codes = flat.astype(np.int64, copy=False)
    return array.reshape(-1, columns) if columns else array


def _bytes_of(array: Codes) -> memoryview:
    if not array.size:
        return memoryview(b"")
    return np.ascontiguousarray(array, _WIDTH).reshape(-1).data.cast("B")


def _checksum(body: Buffer, buffers: Sequence[Buffer]) -> int:
    pieces = [body]
    for buffer in buffers:
        pieces += _LENGTH.pack(len(buffer)), buffer
    if sum(map(len, buffers)) < _HASHED_AT_ONCE:
        return xxhash.xxh3_64_intdigest(b"".join(pieces))
    hasher = xxhash.xxh3_64()
    for piece in pieces:
        hasher.update(piece)
    return hasher.intdigest()
