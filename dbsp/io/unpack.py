"""Decompress files, up to a limit: a small file may stand for more bytes than the memory has."""

from __future__ import annotations

import gzip
import io
import zlib

from dbsp.errors import InputError

ALWAYS_ALLOWED = 256 * 1024**2
"""Every file may have this many bytes after decompression."""
ALWAYS_ALLOWED_RATIO = 100
"""Every file may grow by this factor. Facts grow by 3 to 20; a gzip file grows by up to 1032."""

OPTION = "max_unpacked=SIZE"
"""The option of the functions that read files, as messages write it."""

_GZIP = b"\x1f\x8b"
_CHUNK = 1024**2
_limit: int | None = None


def set_limit(size: int | None) -> None:
    """Set the most bytes of a decompressed file for this process; None is the default."""
    global _limit
    _limit = size


def limit_of(size: int) -> int:
    """Return the most bytes to which a file of this compressed size may grow."""
    return max(ALWAYS_ALLOWED, ALWAYS_ALLOWED_RATIO * size) if _limit is None else _limit


def too_large(limit: int, size: int, file: str, option: str = "--max-unpacked SIZE") -> InputError:
    """Return the error for a file that grows beyond the limit, which the option sets."""
    return InputError(
        f"expected at most {limit:,} bytes after decompression, got more from {size:,} compressed bytes; "
        f"if you trust the file, decompress it, or allow more with {option}",
        where=file,
        code="unpacked-too-large",
    )


def unpacked(data: bytes, file: str) -> bytes:
    """Return the data, decompressed if gzip compressed it.

    Raises InputError if it is damaged, or if it exceeds the limit: the larger of `ALWAYS_ALLOWED`
    bytes and `ALWAYS_ALLOWED_RATIO` times its compressed size, unless `set_limit` was called. At
    most `_CHUNK` bytes beyond the limit are decompressed.
    """
    if not data.startswith(_GZIP):
        return data
    limit = limit_of(len(data))
    pieces: list[bytes] = []
    size = 0
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as source:
            while piece := source.read(_CHUNK):
                size += len(piece)
                if size > limit:
                    raise too_large(limit, len(data), file)
                pieces.append(piece)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"cannot be decompressed: {error}", where=file, code="unreadable-file") from None
    return b"".join(pieces)
