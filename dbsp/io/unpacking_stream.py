"""Read a file as a stream of bytes, decompressed up to a limit, with reports of progress."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

from dbsp.errors import InputError
from dbsp.io.data_files import DataFile
from dbsp.io.unpack import OPTION, limit_of, too_large

_FORMATS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bz2", b"\x04\x22\x4d\x18": "lz4"}


class _CountedBytes:
    """The bytes of a file as they are stored, for `pyarrow.PythonFile`."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.position = 0

    def read(self, size: int = -1) -> bytes:
        data: bytes = self._stream.read(size if size >= 0 else None)
        self.position += len(data)
        return data

    @property
    def closed(self) -> bool:
        return bool(self._stream.closed)

    def close(self) -> None:
        self._stream.close()


class UnpackingStream:
    """The bytes of a file, for `pyarrow.PythonFile` and for loops that read blocks.

    Files compressed by gzip, zstd, bz2 and lz4 are detected by their first bytes. `advance` is
    called with the number of bytes of the file that were read since its last call.
    """

    def __init__(self, file: DataFile, limit: int | None, advance: Callable[[int], None]) -> None:
        self._file = file
        self._advance = advance
        self._limit: int | None = None
        self._unpacked = 0
        self._reported = 0
        with closing(self._open()) as stream:
            start = stream.read(4)
        packed = next((format_ for magic, format_ in _FORMATS.items() if start.startswith(magic)), None)
        self._stored = self._open()
        self._stream: Any = self._stored
        if packed is not None:
            import pyarrow as pa

            self._limit = limit_of(file.size) if limit is None else limit
            self._stream = pa.CompressedInputStream(pa.PythonFile(self._stored, mode="r"), packed)

    def _open(self) -> _CountedBytes:
        try:
            stream = self._file.filesystem.open_input_stream(self._file.path, compression=None)
        except OSError as error:
            raise self._unreadable(error) from error
        return _CountedBytes(stream)

    def read(self, size: int = -1) -> bytes:
        """Return up to `size` bytes; fewer only at the end. Raises InputError beyond the limit."""
        try:
            data: bytes = self._stream.read(size)
        except OSError as error:
            raise self._unreadable(error) from error
        self._unpacked += len(data)
        if self._limit is not None and self._unpacked > self._limit:
            raise too_large(self._limit, self._file.size, self._file.shown, OPTION)
        self._advance(self._stored.position - self._reported)
        self._reported = self._stored.position
        return data

    @property
    def closed(self) -> bool:
        return self._stored.closed

    def close(self) -> None:
        self._stored.close()

    def _unreadable(self, error: OSError) -> InputError:
        return InputError(f"cannot be read: {error}", where=self._file.shown, code="unreadable-file")
