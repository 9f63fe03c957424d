"""The file `log.sqlite` of a database: its transactions, in SQLite's write-ahead-log mode.

    transactions   t, instant, datoms, crc     one row per transaction
    segments       last, first, datoms, crc    many transactions in one row, to open faster
    meta           key, value

The rows of `transactions` are the database; `segments` only repeats them. Each row has a checksum
of its numbers and its bytes. SQLite keeps the log whole: a row is in the file or is not, also
after the process or the machine has failed.
"""

from __future__ import annotations

import contextlib
import sqlite3
import struct
import time
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from dbsp.datomic.group_flush import GroupFlush
from dbsp.errors import CheckpointError, system_reason

FORMAT: Final = 1
"""The version of the format, which the file has as `user_version`."""

_APPLICATION: Final = 0x44425350
"""Marks the file as one of this package, as `application_id`."""

_NUMBERS: Final = struct.Struct("<qq")

_PATIENCE: Final = 60.0
"""Seconds to wait for another process that writes."""

_REFUSALS: Final = (
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
)
"""The errors of a file or a folder that cannot be written."""

_TABLES: Final = (
    "CREATE TABLE transactions (t INTEGER PRIMARY KEY, instant INTEGER, datoms BLOB, crc INTEGER)",
    "CREATE TABLE segments (last INTEGER PRIMARY KEY, first INTEGER, datoms BLOB, crc INTEGER)",
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT)",
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {FORMAT}",
)


class StoredTransaction(NamedTuple):
    """A row of the log: the number of a transaction, its time, and its datoms as bytes."""

    t: int
    instant: int
    content: bytes


class LogStore:
    """The log of a database on disk. The caller serves one thread at a time.

    Parameters:
        folder: the folder of the database; it is created unless `read_only`.
        read_only: whether nothing is written.
        group: whether transactions share an fsync, a short time after they are committed.
        meta: what a new database has in `meta`.
    """

    def __init__(
        self, folder: Path, meta: Mapping[str, str], *, read_only: bool = False, group: bool = False
    ) -> None:
        self.path = folder / "log.sqlite"
        self.read_only = read_only
        self._meta = meta
        self._flush: GroupFlush | None = None
        if read_only:
            if not self.path.is_file():
                raise CheckpointError(
                    f"{folder} has no database; connect without read_only to create one",
                    code="checkpoint-unreadable",
                )
        else:
            with _reported(self.path):
                folder.mkdir(parents=True, exist_ok=True)
        with _reported(self.path):
            self._file = self._opened()
            try:
                self._prepare(group)
            except BaseException:
                self._file.close()
                raise

    def _opened(self) -> sqlite3.Connection:
        if not self.read_only:
            return _connected(str(self.path))
        address = f"{self.path.absolute().as_uri()}?mode=ro"
        file = _connected(address)
        try:
            file.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        except sqlite3.OperationalError:
            file.close()
            if self.path.with_name("log.sqlite-wal").exists():
                raise
            # A folder that is not writable, of a database that nobody has open.
            file = _connected(f"{address}&immutable=1")
        return file

    def _prepare(self, group: bool) -> None:
        """Check that the file is a log, or create the tables of a new one."""
        if not self.read_only:
            self._patiently("PRAGMA journal_mode = WAL")
            self._patiently(f"PRAGMA synchronous = {'NORMAL' if group else 'FULL'}")
            if self._number("PRAGMA application_id") == 0:
                self.begin()
                try:
                    if self._number("SELECT count(*) FROM sqlite_schema") == 0:
                        for statement in _TABLES:
                            self._file.execute(statement)
                        self._file.executemany("INSERT INTO meta VALUES (?, ?)", self._meta.items())
                    self._file.execute("COMMIT")
                except BaseException:
                    self.rollback()
                    raise
        if self._number("PRAGMA application_id") != _APPLICATION:
            raise CheckpointError(
                f"{self.path} is not the log of a database of dbsp; choose another folder",
                code="checkpoint-unreadable",
            )
        version = self._number("PRAGMA user_version")
        if version != FORMAT:
            raise CheckpointError(
                f"{self.path} has format version {version}, this version of dbsp expects {FORMAT}; continue "
                "with the version of dbsp that wrote it, or choose another folder",
                code="checkpoint-version",
            )
        if group and not self.read_only:
            self._flush = GroupFlush(self.path.with_name("log.sqlite-wal"))

    # --- writing ----------------------------------------------------------------------------------

    def begin(self) -> None:
        """Become the only writer; wait for another one."""
        with _reported(self.path):
            self._patiently("BEGIN IMMEDIATE")

    def append(self, row: StoredTransaction) -> None:
        """Add a transaction. It is in the log after `commit`."""
        crc = _checksum(row.t, row.instant, row.content)
        with _reported(self.path):
            self._file.execute("INSERT INTO transactions VALUES (?, ?, ?, ?)", (*row, crc))

    def commit(self) -> None:
        """Make the rows durable, and let other writers in."""
        with _reported(self.path):
            if self._flush is not None:
                self._flush.raise_failure()
            self._file.execute("COMMIT")
            if self._flush is not None:
                self._flush.request()

    def rollback(self) -> None:
        """Drop the rows since `begin`, if there are any, and let other writers in."""
        if self._file.in_transaction:
            with _reported(self.path):
                self._file.execute("ROLLBACK")

    @property
    def writing(self) -> bool:
        """Whether `begin` has been called, but neither `commit` nor `rollback` has ended."""
        return self._file.in_transaction

    def has(self, row: StoredTransaction) -> bool:
        """Return whether the log has this transaction, byte for byte."""
        with _reported(self.path):
            found = self._patiently("SELECT instant, datoms FROM transactions WHERE t = ?", row.t)
        return bool(found) and tuple(found[0]) == (row.instant, row.content)

    def write_segment(self, first: int, last: int, content: bytes) -> None:
        """Add the transactions from `first` to `last` as one row, between `begin` and `commit`."""
        crc = _checksum(first, last, content)
        with _reported(self.path):
            self._file.execute("INSERT INTO segments VALUES (?, ?, ?, ?)", (last, first, content, crc))

    def segmented(self) -> int:
        """Return the last transaction of all segments, 0 if there is none."""
        with _reported(self.path):
            return self._number("SELECT ifnull(max(last), 0) FROM segments")

    def close(self) -> None:
        """Make all transactions durable and close the file. A second call does nothing."""
        flush, self._flush = self._flush, None
        with _reported(self.path):
            try:
                if flush is not None:
                    flush.close()
            finally:
                self._file.close()

    # --- reading ----------------------------------------------------------------------------------

    def meta(self, key: str) -> str | None:
        """Return a value of `meta`, or None."""
        with _reported(self.path):
            found = self._patiently("SELECT value FROM meta WHERE key = ?", key)
        return found[0][0].decode() if found else None

    def read_after(self, t: int) -> Iterator[StoredTransaction]:
        """Yield the transactions after t, in order.

        Raises CheckpointError for a damaged row; it names the file and the transaction.
        """
        query = "SELECT t, instant, datoms, crc FROM transactions WHERE t > ? ORDER BY t"
        with _reported(self.path):
            rows = self._start_reading(query, t)
            while (found := rows.fetchone()) is not None:
                t += 1
                number, instant, content, crc = found
                if number != t:
                    raise damaged(self.path, t, f"it is missing, transaction {number} is there")
                if crc is None or crc != _checksum(t, instant, content):
                    raise damaged(self.path, t, "its checksum is wrong")
                yield StoredTransaction(t, instant, content)

    def read_segments(self) -> Iterator[tuple[int, int, bytes | None]]:
        """Yield (first, last, content) of each segment, by `last`; no content if it is damaged."""
        with _reported(self.path):
            rows = self._start_reading("SELECT first, last, datoms, crc FROM segments ORDER BY last")
            while (found := rows.fetchone()) is not None:
                first, last, content, crc = found
                yield (
                    first,
                    last,
                    content if crc is not None and crc == _checksum(first, last, content) else None,
                )

    # --- SQLite -----------------------------------------------------------------------------------

    def _number(self, query: str) -> int:
        number: int = self._patiently(query)[0][0]
        return number

    def _patiently(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Execute a statement; wait while another process has the lock that it needs."""
        return self._start_reading(statement, *values).fetchall()

    def _start_reading(self, statement: str, *values: object) -> sqlite3.Cursor:
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                return self._file.execute(statement, values)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                    raise
                if time.monotonic() > deadline:
                    raise CheckpointError(
                        f"another process has been writing to {self.path} for {_PATIENCE:g} seconds; wait "
                        "for it, or end it",
                        code="checkpoint-in-use",
                    ) from None


def _connected(address: str) -> sqlite3.Connection:
    # A short timeout: an interrupt is handled when it ends, and the caller tries again.
    file = sqlite3.connect(
        address, timeout=0.05, isolation_level=None, check_same_thread=False, uri=address.startswith("file:")
    )
    file.text_factory = bytes  # a damaged row may have text that is not UTF-8
    return file


def _checksum(first: object, second: object, content: object) -> int | None:
    """Return the checksum of a row; None if a damaged row has values of other types."""
    if not (isinstance(first, int) and isinstance(second, int) and isinstance(content, bytes)):
        return None
    return zlib.crc32(content, zlib.crc32(_NUMBERS.pack(first, second)))


def damaged(path: Path, t: int, reason: str) -> CheckpointError:
    """Return the error for a transaction that cannot be read."""
    return CheckpointError(
        f"cannot read transaction {t} in {path}: {reason}; restore the file from a copy",
        code="checkpoint-unreadable",
    )


@contextlib.contextmanager
def _reported(path: Path) -> Iterator[None]:
    """Raise CheckpointError with the path if SQLite or the system refuses to read or write."""
    try:
        yield
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _REFUSALS:
            raise CheckpointError(f"cannot write {path}: {error}", code="checkpoint-write") from None
        raise CheckpointError(
            f"cannot read {path}: {error}; restore the file from a copy", code="checkpoint-unreadable"
        ) from None
    except OSError as error:
        reason = system_reason(error, path.parent)
        raise CheckpointError(f"cannot write {path}: {reason}", code="checkpoint-write") from None
