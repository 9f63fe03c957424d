"""The header of the folder of a sharded run, whose shards are checkpoints in folders of their own.

shards.json        the identity of the query, and the folders of the shards
commits            the latest tick that counts (see `dbsp.durable.commit_record`)
shard-0, shard-1   the checkpoint of each shard (see `dbsp.durable.store`)
lock, owner        the lock of the run that writes here, and its process id
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from dbsp.data import value_hashes
from dbsp.durable.atomic_files import reports_full_disk, write_atomically
from dbsp.durable.sealed_files import decoding, read_header, sealed_json
from dbsp.errors import CheckpointError, counted
from dbsp.lazy_dataclass import dataclass

HEADER = "shards.json"
FORMAT = "dbsp sharded checkpoint"
VERSION = 1


@dataclass(frozen=True)
class ShardsHeader:
    """The content of `shards.json`."""

    id: str
    """The unique name of the folder."""
    name: str
    """The name of the circuit."""
    query: str
    """The identity of the query."""
    shards: list[str]
    """By shard the name of its folder."""
    circuit: str | None = None
    """The distributed circuit as JSON; None if it has no such form, and then it never changes."""
    physical: str | None = None
    """The physical circuit that it was made from, as JSON."""
    supersteps: bool = False
    """Whether recursions without a pivot exchange rows."""
    plans: str | None = None
    """The plans of the circuit as JSON, for its compiler; None if the program alone gives them."""
    signature: str = ""
    """The signature of the circuit in the snapshots that count; empty if the circuit has never
    changed."""
    since: int = 0
    """The tick after which the shards have this circuit; earlier snapshots do not count.

    The tick itself counts, also if the commit record has an earlier one: it may be an update.
    """
    edition: str = ""
    """A unique name of the latest update to another program; empty if there was none."""
    hashes: int = value_hashes.VERSION
    """The version of the hash that places rows on shards."""

    def __post_init__(self) -> None:
        for name in self.shards:
            if not name.startswith("shard-") or "/" in name or "\\" in name:
                raise ValueError(f"{name!r} is not the folder of a shard")
        if not self.shards or len(set(self.shards)) != len(self.shards):
            raise ValueError(f"expected different folders of shards, got {self.shards}")

    def identity(self, shard: int) -> str:
        """Return the identity of the query in the checkpoint of a shard.

        Every attempt of an update has its own, so the files of an attempt that does not count are
        never taken for the state of the run.
        """
        edition = f" (edition {self.edition})" if self.edition else ""
        return f"shard {shard} of {len(self.shards)} of {self.id}{edition}: {self.query}"

    def write(self, folder: Path, sync: bool) -> None:
        """Write the header. Raises CheckpointError."""
        document = {"format": FORMAT, "version": VERSION, **asdict(self)}
        with reports_full_disk(folder / HEADER):
            write_atomically(folder / HEADER, sealed_json("shards", document, indent=1), sync)


def read_shards_header(folder: Path) -> ShardsHeader | None:
    """Return the header of a sharded run; None if there is no file. Raises CheckpointError."""
    path = folder / HEADER
    document = read_header(path, FORMAT, VERSION, "shards")
    if document is None:
        return None
    with decoding(path):
        del document["format"], document["version"]
        header = ShardsHeader(**document)
        optional = (header.circuit, header.physical, header.plans)
        texts = [text for text in optional if text is not None]
        texts += [header.id, header.name, header.query, header.signature, header.edition, *header.shards]
        got = (header.since, header.hashes, header.supersteps, *texts)
        if tuple(map(type, got)) != (int, int, bool, *[str] * len(texts)):
            raise TypeError(f"unexpected types in {got}")
    if header.hashes != value_hashes.VERSION:
        raise CheckpointError(
            f"{path} places rows by version {header.hashes} of the hash, this version of dbsp expects "
            f"{value_hashes.VERSION}; continue with the version of dbsp that wrote it, or start in an empty "
            "folder",
            code="checkpoint-version",
        )
    return header


def refuse_sharded(folder: Path) -> None:
    """Raise CheckpointError if a folder is that of a sharded run or of one of its shards."""
    header = read_shards_header(folder)
    if header is not None:
        shards = counted(len(header.shards), "shard")
        raise CheckpointError(
            f"{folder} is the checkpoint of a run with {shards}; start the run with "
            f"shards={len(header.shards)}, or choose another folder",
            code="checkpoint-other-program",
        )
    outer = folder.absolute().parent
    if folder.name.startswith("shard-") and (outer / HEADER).exists():
        header = read_shards_header(outer)
        if header is not None and folder.name in header.shards:
            raise CheckpointError(
                f"{folder} has one shard of the run in {outer}; start the run with "
                f"shards={len(header.shards)} in {outer}, or choose another folder",
                code="checkpoint-other-program",
            )
