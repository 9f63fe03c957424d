"""The content of a binary file: a JSON value, and arrays of int64 to which it refers by number."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dbsp.durable.atomic_files import Content
from dbsp.durable.background import in_background, rest
from dbsp.durable.sealed_files import Unsealed, unreadable
from dbsp.kernels.arrays import Codes

_LENGTH = struct.Struct("<Q")
_WIDTH = np.dtype("<i8")
_SLICE = 256
"""The elements of a list that are written at once."""
_PART = 1 << 16
"""The bytes of text, at least, in a part of a file that is not the last one."""


def frames(head: Any, arrays: Sequence[Codes] = ()) -> list[Content]:
    """Return the parts of a file with these arrays, which are flattened.

    Strings may have unpaired surrogates. Raises TypeError for a head that is not JSON.
    """
    sizes = [array.size for array in arrays]
    texts = json_texts([head, sizes]) if in_background() else (_dumps([head, sizes]),)
    written = list(_collected(text.encode("utf-8", "surrogatepass") for text in texts))
    length = sum(map(len, written))
    written[0] = _LENGTH.pack(length) + written[0]
    written[-1] += bytes(-length % 8)
    parts: list[Content] = [*written]
    for array in arrays:
        rest()
        if array.size:
            parts.append(np.ascontiguousarray(array, _WIDTH).reshape(-1).data)
    return parts


def json_texts(value: Any) -> Iterator[str]:
    """Yield the parts of a JSON text without spaces; rest after each part of a long list."""
    if type(value) is dict and value:
        for place, (key, inner) in enumerate(value.items()):
            yield f"{',' if place else '{'}{_dumps(str(key))}:"
            yield from json_texts(inner)
        yield "}"
    elif type(value) is list and len(value) > _SLICE:
        for start in range(0, len(value), _SLICE):
            rest()
            yield f"{',' if start else '['}{_dumps(value[start : start + _SLICE])[1:-1]}"
        yield "]"
    elif type(value) is list and any(type(inner) in (dict, list) for inner in value):
        for place, inner in enumerate(value):
            yield "," if place else "["
            yield from json_texts(inner)
        yield "]"
    else:
        yield _dumps(value)


def _collected(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in fewer parts, at least one."""
    waiting: list[bytes] = []
    size = 0
    for part in parts:
        waiting.append(part)
        size += len(part)
        if size >= _PART:
            yield b"".join(waiting)
            waiting, size = [], 0
    yield b"".join(waiting)


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def read_frames(file: Unsealed) -> tuple[Any, list[Codes]]:
    """Return the JSON value and the flat arrays of a file, as views. Raises CheckpointError."""
    content = file.content
    try:
        (length,) = _LENGTH.unpack_from(content)
        start = _LENGTH.size + length + -length % 8
        text = bytes(content[_LENGTH.size : _LENGTH.size + length]).decode("utf-8", "surrogatepass")
        head, sizes = json.loads(text)
        ends = np.cumsum([start, *(8 * int(size) for size in sizes)], dtype=np.int64)
        if ends[-1] != len(content) or any(size < 0 for size in sizes):
            raise ValueError("its arrays have another size than the file")
    except (struct.error, ValueError, TypeError, RecursionError, OverflowError) as error:
        raise unreadable(file.path, f"its content is not as expected ({error})") from None
    arrays = [
        np.frombuffer(content[begin:end], _WIDTH).astype(np.int64, copy=False)
        for begin, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)
    ]
    return head, [array if array.flags.aligned else array.copy() for array in arrays]
