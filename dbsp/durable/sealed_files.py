"""Sealed files: a checksum over the content and the place of a file, verified before it is parsed.

A binary file begins with a seal:

    8 bytes    "dbspseal"
    2, 2, 4    the version of the seal; the length of the name; zero
    8, 16      the length of the content; BLAKE2b of all that, of the name and of the content
    name       the folder's unique id and the file's place in it, filled up to 8 bytes with zeros

A JSON file has its name and the checksum as members, so it stays readable. The name tells a file of
another folder, or one that was copied over another, from the right one. The checksum finds damage;
it is not a signature, so the readers of the content check what they decode, and execute nothing.

This module imports only small modules, because short-lived processes use it.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dbsp.durable.atomic_files import Content
from dbsp.errors import CheckpointError
from dbsp.lazy_dataclass import dataclass

_SEAL = struct.Struct("<8sHHIQ16s")
SEAL_SIZE = _SEAL.size
"""The bytes before the name in a binary file."""
_MAGIC = b"dbspseal"
_VERSION = 2
_DIGEST = 16
_REMEDY = "restore the folder from a copy, or start in an empty folder"


def unreadable(path: Path, problem: str) -> CheckpointError:
    """Return the error for a file that is damaged, missing or of another folder."""
    return CheckpointError(f"cannot read {path}: {problem}; {_REMEDY}", code="checkpoint-unreadable")


def refused(path: Path, error: OSError | MemoryError) -> CheckpointError:
    """Return the error for a file that the system does not read: its content may be intact."""
    if isinstance(error, PermissionError):
        return CheckpointError(f"cannot read {path}: {error.strerror}", code="checkpoint-unreadable")
    return unreadable(path, str(error))


@contextmanager
def decoding(path: Path) -> Iterator[None]:
    """Report content that has a valid checksum and another form than this version writes."""
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise unreadable(path, f"its content is not as expected ({type(error).__name__}: {error})") from None
    except (OverflowError, MemoryError) as error:
        raise unreadable(path, f"its content is too large ({error})") from None


# --- binary files ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sealed:
    """A binary file to write: its parts, and the checksum."""

    parts: Sequence[Content]
    digest: str


def seal(name: str, content: Sequence[Content]) -> Sealed:
    """Return a file of that content for the place `name`."""
    written = name.encode("utf-8", "surrogatepass")
    size = sum(memoryview(part).nbytes for part in content)
    padded = written + bytes(-len(written) % 8)
    digest = _digest(_SEAL.pack(_MAGIC, _VERSION, len(written), 0, size, bytes(_DIGEST)), padded, *content)
    head = _SEAL.pack(_MAGIC, _VERSION, len(written), 0, size, digest)
    return Sealed([head + padded, *content], digest.hex())


def is_sealed(path: Path) -> bool:
    """Return whether a file begins as a sealed binary file does."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


@dataclass(frozen=True, slots=True)
class Unsealed:
    """The content of a sealed file, writable and aligned to 8 bytes, and the checksum."""

    path: Path
    content: memoryview
    digest: str


def read_sealed(path: Path, name: str, digest: str | None = None) -> Unsealed:
    """Return the content of a file, after verifying its checksum and its place.

    With `digest`, the file must be the one with this checksum. Raises CheckpointError.
    """
    content = memoryview(read_bytes(path))
    size = sealed_size(path, content)
    if size != len(content):
        raise unreadable(path, f"expected {size:,} bytes, got {len(content):,}")
    return unseal(path, content, name, digest)


def sealed_size(path: Path, content: memoryview) -> int:
    """Return the number of bytes that a seal at the beginning promises. Raises CheckpointError."""
    if len(content) < _SEAL.size or content[:8] != _MAGIC:
        raise unreadable(path, "expected a seal of dbsp")
    _, _, length, _, size, _ = _SEAL.unpack_from(content)
    return int(_SEAL.size + length + -length % 8 + size)


def sealed_name(path: Path, content: memoryview) -> str:
    """Return the name in a seal, which is not verified. Raises CheckpointError."""
    sealed_size(path, content)
    length = _SEAL.unpack_from(content)[2]
    return bytes(content[SEAL_SIZE : SEAL_SIZE + length]).decode("utf-8", "replace")


def unseal(path: Path, content: memoryview, name: str, digest: str | None = None) -> Unsealed:
    """Return what is in a seal, of which `content` is exactly the bytes. Raises CheckpointError."""
    _, version, length, zero, size, found = _SEAL.unpack_from(content)
    head = _SEAL.pack(_MAGIC, version, length, zero, size, bytes(_DIGEST))
    if _digest(head, content[_SEAL.size :]) != found:
        raise unreadable(path, "its content does not match its checksum")
    if version != _VERSION:
        raise CheckpointError(
            f"{path} has a seal of version {version}, this version of dbsp expects {_VERSION}; "
            "continue with the version of dbsp that wrote it, or start in an empty folder",
            code="checkpoint-version",
        )
    written = bytes(content[_SEAL.size : _SEAL.size + length]).decode("utf-8", "surrogatepass")
    if written != name:
        raise unreadable(path, f"it is a file of another place ({written}), expected {name}")
    if digest is not None and found.hex() != digest:
        raise unreadable(path, "it is not the file that was written there last")
    return Unsealed(path, content[len(content) - size :], found.hex())


def read_bytes(path: Path, start: int = 0) -> bytearray:
    """Return the content of a file from a place on. Raises CheckpointError."""
    try:
        with open(path, "rb", buffering=0) as file:
            content = bytearray(max(0, os.fstat(file.fileno()).st_size - start))
            file.seek(start)
            view, filled = memoryview(content), 0
            while filled < len(content) and (count := file.readinto(view[filled:])):
                filled += count
    except FileNotFoundError:
        raise unreadable(path, "the file is missing") from None
    except (OSError, MemoryError) as error:
        raise refused(path, error) from None
    return content


def checksum(content: Content) -> str:
    """Return the checksum of content whose format has no place for a seal."""
    return _digest(content).hex()


def _digest(*parts: Content) -> bytes:
    digest = hashlib.blake2b(digest_size=_DIGEST)
    for part in parts:
        digest.update(part)
    return digest.digest()


# --- JSON files -----------------------------------------------------------------------------------


def sealed_json(name: str, document: Mapping[str, Any], indent: int | None = None) -> bytes:
    """Return a JSON document for the place `name`, with its checksum. Raises TypeError."""
    whole = {**document, "place": name}
    return json.dumps({**whole, "checksum": _json_checksum(whole)}, indent=indent).encode()


def read_document(path: Path) -> dict[str, Any] | None:
    """Return a JSON object as written; None if there is no file. Raises CheckpointError."""
    try:
        document = json.loads(read_bytes(path))
    except CheckpointError:
        if not path.exists() and not path.is_symlink():
            return None
        raise
    except (ValueError, RecursionError) as error:
        raise unreadable(path, str(error)) from None
    if not isinstance(document, dict):
        raise unreadable(path, f"expected a JSON object, got {type(document).__name__}")
    return document


def verify_document(path: Path, document: dict[str, Any], name: str | None) -> dict[str, Any]:
    """Return a document without its seal, after verifying it; `name` is its place.

    Raises CheckpointError.
    """
    rest = {key: value for key, value in document.items() if key != "checksum"}
    if "checksum" not in document:
        raise unreadable(path, "it has no checksum")
    if document["checksum"] != _json_checksum(rest):
        raise unreadable(path, "its content does not match its checksum")
    place = rest.pop("place", None)
    if name is not None and place != name:
        raise unreadable(path, f"it is a file of another place ({place}), expected {name}")
    return rest


def read_sealed_json(path: Path, name: str) -> dict[str, Any]:
    """Return the document that `sealed_json` wrote. Raises CheckpointError."""
    document = read_document(path)
    if document is None:
        raise unreadable(path, "the file is missing")
    return verify_document(path, document, name)


def read_header(
    path: Path, form: str, version: int, name: str, earlier: Container[int] = ()
) -> dict[str, Any] | None:
    """Return the header of a folder of the format `form`; None if there is no file.

    `form` is a text such as "dbsp checkpoint"; `earlier` are the other versions that can be read.
    Raises CheckpointError if the header is damaged, or has another format or version.
    """
    header = read_document(path)
    if header is None:
        return None
    if "checksum" in header:
        verify_document(path, header, None)
    if header.get("format") != form:
        kind = form.removeprefix("dbsp ")
        raise CheckpointError(
            f"expected the header of {'an' if kind[0] in 'aeiou' else 'a'} {kind} in {path}, but it lacks "
            f'"format": "{form}"; choose another folder',
            code="checkpoint-unreadable",
        )
    found = header.get("version")
    if found != version and found not in earlier:
        raise CheckpointError(
            f"{path} has format version {found}, this version of dbsp expects {version}; "
            "continue with the version of dbsp that wrote it, or start in an empty folder",
            code="checkpoint-version",
        )
    return verify_document(path, header, name)


def _json_checksum(document: Mapping[str, Any]) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=_DIGEST).hexdigest()


# --- files of other formats -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The size and checksum of a file whose format has no place for a seal, such as Parquet."""

    size: int
    digest: str

    @staticmethod
    def of(path: Path) -> Fingerprint:
        """Return the fingerprint of a file. Raises CheckpointError if it cannot be read."""
        content = read_bytes(path)
        return Fingerprint(len(content), checksum(content))

    def read(self, path: Path) -> bytearray:
        """Return the content of the file with this fingerprint. Raises CheckpointError."""
        content = read_bytes(path)
        if len(content) != self.size:
            raise unreadable(path, f"expected {self.size:,} bytes, got {len(content):,}")
        if checksum(content) != self.digest:
            raise unreadable(path, "its content does not match its checksum")
        return content
