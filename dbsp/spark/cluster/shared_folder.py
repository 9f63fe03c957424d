"""The folder that the driver and all executors share, on any file system that pyarrow knows.

Writers choose names that nobody else chooses, so an attempt of a task that is lost or late changes
nothing that another one reads. Only the driver publishes: a file with a fixed name, at once.
"""

from __future__ import annotations

import re
import shutil
import uuid
from dataclasses import field
from functools import cached_property, partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from dbsp.errors import CheckpointError, cause_text
from dbsp.lazy_dataclass import dataclass
from dbsp.spark.cluster.synced_files import make_synced_folder, sync_name, sync_written

_HADOOP_S3 = re.compile("^s3[an]:")
"""What Spark's file systems call S3."""


@dataclass(frozen=True)
class SharedFolder:
    """A folder by its path or URI, such as `/mnt/shared/state` or `s3://bucket/state`."""

    location: str
    sync: bool = field(default=False, kw_only=True)
    """Whether files and names survive a power failure, once a call that writes them returns.

    Object stores do that themselves.
    """

    @cached_property
    def _opened(self) -> tuple[Any, str]:
        """The file system, and the path in it."""
        from pyarrow import fs

        if "://" not in self.location:
            return fs.LocalFileSystem(), str(Path(self.location).absolute())
        try:
            files, path = fs.FileSystem.from_uri(_HADOOP_S3.sub("s3:", self.location))
        except (OSError, ValueError):
            return _of_fsspec(self.location)
        return files, path

    @cached_property
    def local(self) -> Path | None:
        """The folder on a file system of this machine; None on another one."""
        parsed = urlparse(self.location)
        if parsed.scheme == "file":
            return Path(unquote(parsed.path))
        return None if "://" in self.location else Path(self.location).absolute()

    def within(self, name: str) -> SharedFolder:
        """Return a folder in this one."""
        return SharedFolder(f"{self.location}/{name}", sync=self.sync)

    def uri(self, name: str) -> str:
        """Return the URI of a file or folder for Spark, which decodes no characters in it."""
        return f"{self.location}/{name}" if self.local is None else f"file://{self.local / name}"

    @cached_property
    def renames_folders(self) -> bool:
        """Whether a folder is renamed at once; object stores copy and remove file by file."""
        return self._opened[0].type_name in ("local", "hdfs")

    def _path(self, name: str) -> str:
        return f"{self._opened[1]}/{name}"

    def write(self, name: str, content: bytes) -> None:
        """Write a file whose name nobody else uses. Raises CheckpointError."""
        files, path = self._opened[0], self._path(name)
        try:
            self._make_folder_of(name)
            with files.open_output_stream(path) as stream:
                stream.write(content)
            if self.sync and self.local is not None:
                sync_written(self.local / name, self.local)
        except OSError as error:
            raise self._failed("write", name, error) from None

    def publish(self, name: str, content: bytes) -> None:
        """Write or replace a file: others see all of it or nothing. Raises CheckpointError."""
        draft = f"{name}.{uuid.uuid4().hex}.draft"
        self.write(draft, content)
        self.rename(draft, name)

    def rename(self, name: str, to: str) -> None:
        """Rename a file or a folder; a file of the new name is replaced. Raises CheckpointError."""
        try:
            self._opened[0].move(self._path(name), self._path(to))
            if self.sync and self.local is not None:
                sync_name(self.local / to, self.local)
        except OSError as error:
            raise self._failed("write", to, error) from None

    def move_file(self, name: str, to: str) -> None:
        """Rename a file into a folder, which is made if needed. Raises CheckpointError."""
        try:
            self._make_folder_of(to)
        except OSError as error:
            raise self._failed("write", to, error) from None
        self.rename(name, to)

    def _make_folder_of(self, name: str) -> None:
        make = partial(self._opened[0].create_dir, self._path(name).rpartition("/")[0], recursive=True)
        if self.sync and self.local is not None:
            make_synced_folder((self.local / name).parent, self.local, make)
        else:
            make()

    def make_folder(self, name: str) -> Path | None:
        """Make a folder whose name nobody else uses; return it if it is one of this machine.

        Raises CheckpointError.
        """
        if self.local is None:
            return None
        target = self.local / name
        try:
            self._make_folder_of(name)
            target.mkdir()
            if self.sync:
                sync_name(target, self.local)
        except OSError as error:
            raise self._failed("write", name, error) from None
        return target

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None if there is none. Raises CheckpointError."""
        try:
            with self._opened[0].open_input_stream(self._path(name), compression=None) as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._failed("read", name, error) from None

    def names(self, folder: str) -> list[str]:
        """Return the names of the files and folders in a folder, sorted. Raises CheckpointError."""
        from pyarrow.fs import FileSelector

        try:
            found = self._opened[0].get_file_info(FileSelector(self._path(folder), allow_not_found=True))
        except OSError as error:
            raise self._failed("list", folder, error) from None
        return sorted(info.base_name for info in found)

    def remove(self, name: str) -> None:
        """Remove a file or a folder, if it is there. Raises CheckpointError."""
        from pyarrow.fs import FileType

        files, path = self._opened[0], self._path(name)
        try:
            kind = files.get_file_info(path).type
            if kind == FileType.Directory:
                files.delete_dir(path)
            elif kind == FileType.File:
                files.delete_file(path)
        except FileNotFoundError:
            pass  # another attempt has removed it
        except OSError as error:
            raise self._failed("remove", name, error) from None

    def send_folder(self, source: Path, name: str) -> None:
        """Copy a folder of this machine to a name that nobody else uses. Raises CheckpointError."""
        for path in sorted(source.rglob("*")):
            if path.is_file():
                self.write(f"{name}/{path.relative_to(source).as_posix()}", path.read_bytes())

    def fetched_folder(self, name: str, into: Path) -> Path:
        """Return a folder as one of this machine, or in a copy. Raises CheckpointError."""
        from pyarrow.fs import FileSelector, FileType

        if self.local is not None:
            return self.local / name
        files, start = self._opened[0], self._path(name)
        try:
            for info in files.get_file_info(FileSelector(start, recursive=True)):
                target = into / info.path[len(start) + 1 :]
                if info.type == FileType.File:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    with (
                        files.open_input_stream(info.path, compression=None) as stream,
                        open(target, "wb") as file,
                    ):
                        shutil.copyfileobj(stream, file)
        except OSError as error:
            raise self._failed("read", name, error) from None
        return into

    def _failed(self, what: str, name: str, error: OSError) -> CheckpointError:
        return CheckpointError(
            f"cannot {what} {self.location}/{name}: {error}; the state folder must be readable and writable "
            "for the driver and all executors",
            code="checkpoint-write",
        )


def _of_fsspec(location: str) -> tuple[Any, str]:
    from pyarrow.fs import FSSpecHandler, PyFileSystem

    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise CheckpointError(
            f"{location} is on a file system that pyarrow does not know; install fsspec and its package for "
            "this file system, on the driver and on all executors",
            code="unsupported-location",
        ) from None
    # A listing that a process keeps would lack what others have written since.
    try:
        files, path = url_to_fs(location, use_listings_cache=False)
    except (ValueError, ImportError) as error:
        raise CheckpointError(
            f"cannot open {location}: {cause_text(error)}; install the package of fsspec for this file "
            "system, on the driver and on all executors, or choose another location",
            code="unsupported-location",
        ) from None
    return PyFileSystem(FSSpecHandler(files)), path
