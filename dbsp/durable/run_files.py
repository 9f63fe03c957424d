"""Run files: a large sorted run of a snapshot in a file that is mapped instead of read.

The layout is that of `dbsp.state.run_file`. The header page says what the file has:

    8 bytes    "dbsprun" and a zero
    2, 2, 4    the version of the format; the length of the name; the number of groups of columns
    8, 8, 8, 8 the rows; the columns; the place of the weights, 0 if all are 1; the largest weight
    16         XXH3 (128 bits) of all bytes after the page
    16         BLAKE2b of the page, with zeros in the place of these 16 bytes
    4, 4       for each group of columns: how many they are, and the bytes of a code in them, 8 or 4
    name       the folder's unique id and the file's place in it; zeros fill the page

The manifest names the checksum of the page, and so that of the content. XXH3 finds damage at the
speed of memory; nothing that a run file holds is executed.
"""

from __future__ import annotations

import hashlib
import os
import struct
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dbsp.durable.array_frames import read_frames
from dbsp.durable.atomic_files import draft_of, sync_folder, sync_gently, write_all
from dbsp.durable.sealed_files import decoding, is_sealed, read_sealed, refused, unreadable
from dbsp.durable.step_memory import read_batch
from dbsp.errors import CheckpointError, counted
from dbsp.kernels.arrays import StoredRows
from dbsp.state.mapped_runs import map_run, write_run
from dbsp.state.run_file import DIGEST, HEADER, RunFile
from dbsp.state.sorted_run import SortedRun

if TYPE_CHECKING:
    import xxhash

_MAGIC = b"dbsprun\0"
_VERSION = 1
_HEAD = struct.Struct("<8sHHIQQQQ16s16s")
_GROUP = struct.Struct("<II")
_ITEMS = 8, 4
"""The bytes of a code, in this version the same in all columns. Versions of dbsp that only know 8
bytes refuse a file with codes of 4."""
_PIECE = 1 << 20


# --- writing --------------------------------------------------------------------------------------


def write_run_file(path: Path, name: str, run: SortedRun, sync: bool) -> RunFile:
    """Write a run to a file for the place `name`, completely or not at all. Raises OSError.

    O(n), without a copy in memory.
    """
    draft = draft_of(path)
    draft.unlink(missing_ok=True)  # of an ended process with the same id
    try:
        file = write_run(draft, run, sync_gently if sync else None)
        content = _hash()
        content.update(_bytes_of(run.codes))
        if file.weights_at:
            content.update(bytes(file.weights_at - file.end_of_rows))
            content.update(_bytes_of(run.stored))
        return _seal(file, path, name, content.digest(), sync)
    except OSError:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


def _bytes_of(array: StoredRows) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def adopt_run_file(file: RunFile, path: Path, name: str, sync: bool) -> RunFile:
    """Seal a file of `write_run` for the place `name`, and rename it to `path`. Raises OSError.

    The file must be in the same file system; processes that map it continue to do so. O(n) to
    compute the checksum, without writing the rows again.
    """
    return _seal(file, path, name, _content_digest(file.path), sync)


def _seal(file: RunFile, path: Path, name: str, content: bytes, sync: bool) -> RunFile:
    header = bytearray(_header(file, name, content))
    digest = _page_digest(header)
    header[DIGEST] = digest
    with open(file.path, "r+b", buffering=0) as written:
        write_all(written.fileno(), header)
        if sync:
            os.fsync(written.fileno())
    os.replace(file.path, path)
    if sync:
        sync_folder(path.parent)
    return replace(file, path=path, digest=digest.hex())


def _header(file: RunFile, name: str, content: bytes) -> bytes:
    place = name.encode("utf-8", "surrogatepass")
    shape = file.size, file.width, file.weights_at, file.largest
    head = _HEAD.pack(_MAGIC, _VERSION, len(place), 1, *shape, content, bytes(16))
    page = head + _GROUP.pack(file.width, file.item) + place
    return page + bytes(HEADER - len(page))


# --- reading --------------------------------------------------------------------------------------


def open_run_file(path: Path, name: str, digest: str, verify: bool) -> RunFile:
    """Return a run file to map, after verifying its header, and with `verify` its content.

    O(1), with `verify` O(n) without keeping the content in memory. Raises CheckpointError.
    """
    try:
        with open(path, "rb", buffering=0) as opened:
            page = opened.read(HEADER)
            length = os.fstat(opened.fileno()).st_size
    except FileNotFoundError:
        raise unreadable(path, "the file is missing") from None
    except OSError as error:
        raise refused(path, error) from None
    file, content = _read_header(path, page, name, digest)
    if length != file.end:
        raise unreadable(path, f"expected {file.end:,} bytes, got {length:,}")
    if verify:
        try:
            found = _content_digest(path)
        except OSError as error:
            raise refused(path, error) from None
        if found != content:
            raise unreadable(path, "its content does not match its checksum")
    return file


def _read_header(path: Path, page: bytes, name: str, digest: str) -> tuple[RunFile, bytes]:
    if len(page) < HEADER or page[: len(_MAGIC)] != _MAGIC:
        raise unreadable(path, "expected a run file of dbsp")
    _, version, length, groups, size, width, weights_at, largest, content, found = _HEAD.unpack_from(page)
    if _page_digest(page) != found:
        raise unreadable(path, "its header does not match its checksum")
    if version != _VERSION:
        raise _other_version(path, f"is a run file of version {version}", str(_VERSION))
    with decoding(path):
        at = _HEAD.size + groups * _GROUP.size
        columns = list(_GROUP.iter_unpack(page[_HEAD.size : at]))
        place = page[at : at + length].decode("utf-8", "surrogatepass")
        if place != name:
            raise unreadable(path, f"it is a file of another place ({place}), expected {name}")
        if found.hex() != digest:
            raise unreadable(path, "it is not the file that was written there last")
        item = columns[0][1] if columns else 8
        for number, other in columns:
            if other != item or item not in _ITEMS:
                expected = f"{item} bytes" if item in _ITEMS else "8 or 4 bytes"
                raise _other_version(path, f"has {counted(number, 'column')} of {other} bytes", expected)
        file = RunFile(path, width, size, weights_at, largest, digest, item)
        if sum(number for number, _ in columns) != width or 0 < weights_at < file.end_of_rows:
            raise ValueError(f"{width} columns, weights at {weights_at}")
    return file, content


def _other_version(path: Path, problem: str, expected: str) -> CheckpointError:
    return CheckpointError(
        f"{path} {problem}, this version of dbsp expects {expected}; continue with the version of dbsp that "
        "wrote it, or start in an empty folder",
        code="checkpoint-version",
    )


def is_run_file(name: str) -> bool:
    """Return whether a file of a snapshot has a large run."""
    return name.startswith("runs/")


def mapped(run: RunFile | SortedRun) -> SortedRun:
    """Map the verified file of a run, unless `open_run` had to read it. Raises CheckpointError."""
    if isinstance(run, SortedRun):
        return run
    file = run
    try:
        found = map_run(file)
        found.saved = file
        return found
    except FileNotFoundError:
        raise unreadable(file.path, "the file is missing") from None
    except (OSError, ValueError) as error:
        raise unreadable(file.path, str(error)) from None


def open_run(folder: Path, id_: str, name: str, digest: str, verify: bool) -> RunFile | SortedRun:
    """Return the verified run `name` of a checkpoint: its file, or a run that had to be read.

    Raises CheckpointError.
    """
    path, place = folder / name, f"{id_}/{name}"
    if is_sealed(path):
        return _run_of_version_2(path, place, digest)
    return open_run_file(path, place, digest, verify)


def _run_of_version_2(path: Path, place: str, digest: str) -> SortedRun:
    """Read a run as checkpoints of format version 2 have it: a sealed file of frames."""
    width, arrays = read_frames(read_sealed(path, place, digest))
    with decoding(path):
        rows, weights = arrays
        batch = read_batch(rows, weights, width)
    return SortedRun.of(batch.rows, batch.weights)


# --- checksums ------------------------------------------------------------------------------------


def _hash() -> xxhash.xxh3_128:
    import xxhash  # here: a process without large runs needs none

    return xxhash.xxh3_128()


def _content_digest(path: Path) -> bytes:
    """Return the checksum of all bytes after the header page, read by pieces. Raises OSError."""
    digest, piece = _hash(), memoryview(bytearray(_PIECE))
    with open(path, "rb", buffering=0) as file:
        file.seek(HEADER)
        while count := file.readinto(piece):
            digest.update(piece[:count])
    return digest.digest()


def _page_digest(page: bytes | bytearray) -> bytes:
    zeroed = bytearray(page)
    zeroed[DIGEST] = bytes(16)
    return hashlib.blake2b(zeroed, digest_size=16).digest()
