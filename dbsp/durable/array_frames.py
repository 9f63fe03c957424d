"""The content of a binary file: a JSON value, and arrays of int64 to which it refers by number."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from dbsp.durable.atomic_files import Content
from dbsp.durable.sealed_files import Unsealed, unreadable
from dbsp.kernels.arrays import Codes

_LENGTH = struct.Struct("<Q")
_WIDTH = np.dtype("<i8")


def frames(head: Any, arrays: Sequence[Codes] = ()) -> list[Content]:
    """Return the parts of a file with these arrays, which are flattened.

    Strings may have unpaired surrogates. Raises TypeError for a head that is not JSON.
    """
    sizes = [array.size for array in arrays]
    text = json.dumps([head, sizes], ensure_ascii=False, separators=(",", ":"))
    written = text.encode("utf-8", "surrogatepass")
    fill = bytes(-len(written) % 8)
    parts: list[Content] = [_LENGTH.pack(len(written)) + written + fill]
    parts += [np.ascontiguousarray(array, _WIDTH).reshape(-1).data for array in arrays if array.size]
    return parts


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
