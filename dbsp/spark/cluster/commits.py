"""The commits of a query on Spark: which attempts count.

    query.json              the query, the number of shards, the version of the hash
    owner.json              the run that may commit: the one that has opened the state last
    commits/000000000012    the versions of all segments and shards after tick 12, and its parts

A commit is published at once, when all tasks of its tick have ended. The latest one is the state of
the query; all other files of the state folder that it does not name count for nothing. A run checks
before each commit that it is still the owner, so one that was taken for dead cannot commit.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field
from typing import Any

from dbsp.data import value_hashes
from dbsp.durable.sealed_files import decoding, unreadable
from dbsp.errors import CheckpointError
from dbsp.lazy_dataclass import dataclass
from dbsp.spark.cluster.segment_state import HeldRows, Version
from dbsp.spark.cluster.shared_file import SharedFile
from dbsp.spark.cluster.shared_folder import SharedFolder

_QUERY, _OWNER, _COMMITS = "query.json", "owner.json", "commits"
_FORMAT = 1


@dataclass(frozen=True)
class ClusterCommit:
    """The state of a query after a tick."""

    tick: int = 0
    label: Any = None
    versions: Mapping[tuple[int, int], Version] = field(default_factory=dict)
    """By level and shard."""
    parts: Mapping[str, list[str]] = field(default_factory=dict)
    """By sink the files of the tick."""
    held: Sequence[HeldRows] = ()
    """What the tick has sent for the next one."""

    def version(self, level: int, shard: int) -> Version:
        return self.versions.get((level, shard), Version())


def open_state(folder: SharedFolder, query: str, name: str, shards: int) -> str:
    """Return the unique name of the state in a folder, made for the query if the folder is new.

    Raises CheckpointError if it belongs to another query, or has another number of shards.
    """
    file = _query_file(folder)
    known = file.read()
    if known is None:
        if _commits(folder):
            raise unreadable(file.path, "the file is missing, and the folder has commits")
        id_ = uuid.uuid4().hex
        file.write(
            {
                "version": _FORMAT,
                "id": id_,
                "name": name,
                "query": query,
                "shards": shards,
                "hash": value_hashes.VERSION,
            }
        )
        return id_
    with decoding(file.path):
        found = (known["version"], known["hash"])
        known_query, known_shards, known_name = known["query"], known["shards"], known["name"]
        known_id: str = known["id"]
    if found != (_FORMAT, value_hashes.VERSION):
        raise CheckpointError(
            f"{folder.location} was written by another version of dbsp; continue with that version, or start "
            "in an empty folder",
            code="checkpoint-version",
        )
    if known_query != query:
        raise CheckpointError(
            f"{folder.location} has the state of another query ('{known_name}'), not of '{name}'; start the "
            "program that wrote it, or choose another folder",
            code="checkpoint-other-program",
        )
    if known_shards != shards:
        raise CheckpointError(
            f"the state in {folder.location} is divided over {known_shards} shards, got {shards}; start with "
            f'option("shards", {known_shards}), or choose another folder and load the data again',
            code="checkpoint-other-shards",
        )
    return known_id


def known_query(folder: SharedFolder) -> str | None:
    """Return the query whose state is in a folder; None if it has none. Raises CheckpointError."""
    file = _query_file(folder)
    known = file.read()
    if known is None:
        return None
    with decoding(file.path):
        query: str = known["query"]
    return query


class Commits:
    """The commits of a state, for the run that owns it."""

    def __init__(self, folder: SharedFolder, id_: str) -> None:
        """Become the owner of the state with the unique name `id_`. Raises CheckpointError."""
        self._folder = folder
        self._id = id_
        self._run = uuid.uuid4().hex
        self._owner = SharedFile(folder, _OWNER, "dbsp owner of a state", id_)
        self._owner.write(self._run)

    def latest(self) -> ClusterCommit:
        """Return the latest commit; that of tick 0 if there is none. Raises CheckpointError."""
        names = _commits(self._folder)
        if not names:
            return ClusterCommit()
        file = self._file(names[-1])
        known = file.read()
        if known is None:
            raise unreadable(file.path, "the file is missing")
        with decoding(file.path):
            versions = {
                (level, shard): Version(**{**facts, "journal": tuple(facts["journal"])})
                for level, shard, facts in known["versions"]
            }
            held = [HeldRows(**facts) for facts in known["held"]]
            return ClusterCommit(known["tick"], known["label"], versions, known["parts"], held)

    def publish(self, commit: ClusterCommit) -> None:
        """Make a tick count.

        Raises CheckpointError; then the tick counts if `latest` says so.
        """
        names = _commits(self._folder)
        if self._owner.read() != self._run or (names and int(names[-1]) >= commit.tick):
            raise CheckpointError(
                f"another run has opened the state in {self._folder.location} since this one did; stop one "
                "of them, or let them use different folders",
                code="checkpoint-in-use",
            )
        self._file(_name(commit.tick)).write(
            {
                "tick": commit.tick,
                "label": commit.label,
                "versions": [[*place, asdict(version)] for place, version in commit.versions.items()],
                "parts": commit.parts,
                "held": list(map(asdict, commit.held)),
            }
        )
        with contextlib.suppress(CheckpointError):  # the next commit removes the rest
            for name in self._folder.names(_COMMITS):
                if name not in (_name(commit.tick), _name(commit.tick - 1)):
                    self._folder.remove(f"{_COMMITS}/{name}")

    def _file(self, name: str) -> SharedFile:
        return SharedFile(self._folder, f"{_COMMITS}/{name}", "dbsp commit on Spark", self._id)


def _query_file(folder: SharedFolder) -> SharedFile:
    return SharedFile(folder, _QUERY, "dbsp state on Spark", "")


def _commits(folder: SharedFolder) -> list[str]:
    return [name for name in folder.names(_COMMITS) if name.isdigit()]


def _name(tick: int) -> str:
    return f"{tick:012d}"
