"""Find the files that a caller names: paths, URLs, globs, folders and lists of them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote

from dbsp.diagnostics import did_you_mean
from dbsp.errors import InputError, SetupError, wrong_argument
from dbsp.io.problems import missing_file
from dbsp.lazy_dataclass import dataclass

Source: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")  # one letter is a drive of Windows
_WILDCARD = re.compile(r"[*?\[]")
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of a file system, with the columns that the names of its folders give."""

    filesystem: Any
    path: str
    shown: str
    """The path as messages write it."""
    size: int
    partition: dict[str, str | None] = field(default_factory=dict)

    def local_path(self) -> Path | None:
        """Return the path of a file of this machine; None for other file systems."""
        return Path(self.path) if self.filesystem.type_name == "local" else None


def find_files(source: Source, endings: Sequence[str], filesystem: Any = None) -> list[DataFile]:
    """Return the files of a source, in the order given; those of a folder or glob are sorted.

    A folder stands for the files inside it, at any depth, whose name has one of the endings,
    possibly with the ending of a compression. Names that begin with `.` or `_` are ignored.
    Folders named `key=value` below a folder or a glob give a column, as in Hive.

    Raises InputError if there is no such file, SetupError if the URL needs a missing package.
    """
    if isinstance(source, str | os.PathLike):
        return _find(os.fspath(source), endings, filesystem)
    if not isinstance(source, Iterable):
        raise wrong_argument("source", "a path, a URL or a list of them", source)
    found: list[DataFile] = []
    for item in source:
        if not isinstance(item, str | os.PathLike):
            raise wrong_argument("source", "a path, a URL or a list of them", item)
        found += _find(os.fspath(item), endings, filesystem)
    return found


def _find(given: str, endings: Sequence[str], filesystem: Any) -> list[DataFile]:
    from pyarrow import ArrowInvalid, fs

    system, path = _opened(given, filesystem)
    try:
        info = system.get_file_info(path)
        # A name with brackets may be that of a file, such as a download named "sales[1].csv".
        if info.type == fs.FileType.NotFound and _WILDCARD.search(path):
            return _matching(system, path, given)
        if info.type == fs.FileType.Directory:
            return _inside(system, path, given, endings)
    except (OSError, ArrowInvalid, UnicodeEncodeError) as error:  # also names that are not UTF-8
        raise InputError(f"cannot be read: {error}", where=given, code="unreadable-file") from error
    if info.type == fs.FileType.NotFound:
        raise _missing(given, system, path)
    return [DataFile(system, path, given, info.size or 0)]


def _opened(given: str, filesystem: Any) -> tuple[Any, str]:
    """Return the file system of a path or URL and the path in it."""
    from pyarrow import fs

    if filesystem is not None:
        if isinstance(filesystem, fs.FileSystem):
            return filesystem, given
        if not hasattr(filesystem, "info"):
            raise wrong_argument("filesystem", "a file system of PyArrow or fsspec", filesystem)
        return fs.PyFileSystem(fs.FSSpecHandler(filesystem)), given
    if not _SCHEME.match(given):
        return fs.LocalFileSystem(), os.path.expanduser(given)
    try:
        system, path = fs.FileSystem.from_uri(given)
    except (ImportError, NotImplementedError, ValueError):
        return _opened_by_fsspec(given)
    return system, path


def _opened_by_fsspec(given: str) -> tuple[Any, str]:
    from pyarrow import fs

    try:
        import fsspec
    except ImportError:
        raise SetupError(
            f"the URL {given} needs the package fsspec, and for some protocols another one that fsspec "
            "names; install it: pip install fsspec"
        ) from None
    try:
        system, path = fsspec.core.url_to_fs(given)
    except ImportError as error:
        raise SetupError(f"the URL {given} needs a package: {error}") from None
    except ValueError as error:
        raise InputError(f"the URL cannot be opened: {error}", where=given, code="unreadable-file") from None
    return fs.PyFileSystem(fs.FSSpecHandler(system)), path


def _matching(system: Any, pattern: str, given: str) -> list[DataFile]:
    """Return the files whose path matches a glob: `**` stands for any number of folders."""
    from pyarrow import fs

    fixed = _WILDCARD.split(pattern, maxsplit=1)[0].rpartition("/")
    base = fixed[0] or (fixed[1] or ".")
    accepted = re.compile(_regex_of(pattern))
    listed = system.get_file_info(fs.FileSelector(base, recursive=True, allow_not_found=True))
    found = []
    for info in listed:
        path = info.path.removeprefix("./") if base == "." else info.path
        if info.type == fs.FileType.File and accepted.fullmatch(path):
            inside = path.removeprefix(base).strip("/")
            found.append(DataFile(system, path, path, info.size or 0, _partition(inside)))
    if not found:
        raise InputError("no file matches this pattern", where=given, code="file-not-found")
    return sorted(found, key=lambda file: file.path)


def _regex_of(pattern: str) -> str:
    """Return the regular expression of a glob."""
    parts = []
    for part in re.findall(r"\*\*/|\*\*|\*|\?|\[[^\]]+\]|.", pattern, re.DOTALL):
        if part == "**/":
            parts.append("(?:[^/]+/)*")
        elif part == "**":
            parts.append(".*")
        elif part == "*":
            parts.append("[^/]*")
        elif part == "?":
            parts.append("[^/]")
        elif len(part) > 1:
            parts.append("[" + part[1:-1].replace("\\", "\\\\").replace("!", "^", part[1] == "!") + "]")
        else:
            parts.append(re.escape(part))
    return "".join(parts)


def _inside(system: Any, folder: str, given: str, endings: Sequence[str]) -> list[DataFile]:
    from pyarrow import fs

    wanted = tuple(ending + packed for ending in endings for packed in ("", ".gz", ".zst", ".bz2", ".lz4"))
    found = []
    for info in system.get_file_info(fs.FileSelector(folder, recursive=True)):
        inside = info.path.removeprefix(folder).strip("/")
        hidden = any(part[0] in "._" for part in inside.split("/"))
        if info.type == fs.FileType.File and not hidden and info.path.lower().endswith(wanted):
            shown = f"{given.rstrip('/')}/{inside}"
            found.append(DataFile(system, info.path, shown, info.size or 0, _partition(inside)))
    if not found:
        raise InputError(
            f"the folder has no files named *{' or *'.join(endings)}", where=given, code="file-not-found"
        )
    return sorted(found, key=lambda file: file.path)


def _partition(inside: str) -> dict[str, str | None]:
    """Return the columns that folders named `key=value` give."""
    columns: dict[str, str | None] = {}
    for part in inside.split("/")[:-1]:
        key, equals, value = part.partition("=")
        if equals and key:
            columns[key] = None if value == _NO_VALUE else unquote(value)
    return columns


def _missing(given: str, system: Any, path: str) -> InputError:
    hint = None
    if system.type_name == "local":
        folder = Path(path).parent
        if folder.is_dir():
            hint = did_you_mean(Path(path).name, [child.name for child in folder.iterdir()])
        else:
            hint = f"the folder {folder} does not exist"
    return missing_file(given, "file", hint)
