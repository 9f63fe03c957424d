"""The files of a sink's folder: its description, and a Parquet file for each changing tick.

    _dbsp.json                      the owner, the columns, and whether the files are whole views
    tick-000000000012.parquet       the rows of a tick, and a seal

Readers of Parquet ignore the seal, which is a value in the footer: the owner, the tick, the tick
of the file before it, and the checksum of the file with zeros in the place of the checksum.

This module imports only small modules, because short-lived processes use it.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dbsp.durable.parquet_files import read_parquet
from dbsp.durable.sealed_files import checksum, decoding, read_bytes, unreadable
from dbsp.lazy_dataclass import dataclass
from dbsp.spark.checked_files import CheckedFile

_KEY = b"dbsp"
_MARK = b"dbsp-seal:"
_DIGITS = 32


def description_of(folder: Path) -> CheckedFile:
    """Return the file that describes the folder of a sink."""
    return CheckedFile(folder / "_dbsp.json", "dbsp sink folder")


def tick_path(folder: Path, tick: int) -> Path:
    """Return the file of a tick."""
    return folder / f"tick-{tick:012d}.parquet"


def ticks_in(folder: Path) -> list[int]:
    """Return the ticks that have a file, ascending. O(n log n) for n files."""
    numbers = (path.stem[5:] for path in folder.glob("tick-*.parquet"))
    return sorted(int(number) for number in numbers if number.isascii() and number.isdigit())


@dataclass(frozen=True, slots=True)
class TickSeal:
    """The place of a file: the owner of the folder, the tick, and the file before it."""

    owner: str
    tick: int
    before: int
    """The tick of the file before this one; 0 if there is none, or if it may be removed."""

    def parquet(self, table: pa.Table) -> bytearray:
        """Return a table as a sealed Parquet file. O(n) for n bytes."""
        place = json.dumps([self.owner, self.tick, self.before]).encode()
        sink = pa.BufferOutputStream()
        pq.write_table(table.replace_schema_metadata({_KEY: place + _MARK + b"0" * _DIGITS}), sink)
        content = bytearray(sink.getvalue())
        at = content.rindex(_MARK) + len(_MARK)
        content[at : at + _DIGITS] = checksum(content).encode()
        return content


def read_tick(path: Path, owner: str, tick: int) -> pa.Table:
    """Return the rows of a file after verifying that it is that of this tick, and not damaged.

    Raises CheckpointError, also if the file of the tick before it is missing.
    """
    content = read_bytes(path)
    at = content.rfind(_MARK) + len(_MARK)
    if at < len(_MARK):
        raise unreadable(path, "it has no checksum")
    found = bytes(content[at : at + _DIGITS])
    content[at : at + _DIGITS] = b"0" * _DIGITS
    if checksum(content).encode() != found:
        raise unreadable(path, "its content does not match its checksum")
    table = read_parquet(path, content)
    with decoding(path):
        place = table.schema.metadata[_KEY].rpartition(_MARK)[0]
        seal = TickSeal(*json.loads(place))
        before = int(seal.before)
    if (seal.owner, seal.tick) != (owner, tick):
        place = f"{seal.owner}/{seal.tick}"
        raise unreadable(path, f"it is a file of another place ({place}), expected {owner}/{tick}")
    if before and not tick_path(path.parent, before).exists():
        raise unreadable(tick_path(path.parent, before), "the file is missing")
    return table.replace_schema_metadata(None)
