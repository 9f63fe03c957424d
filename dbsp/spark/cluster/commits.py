"""The commits of a query on Spark: which attempts count.

    query.json              the query, the number of shards, the version of the hash
    commits/000000000012    the versions of all segments and shards after tick 12, and its parts

A commit is published at once, when all tasks of its tick have ended. The latest one is the state of
the query; all other files of the state folder that it does not name count for nothing.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from dbsp.data import value_hashes
from dbsp.errors import CheckpointError
from dbsp.spark.cluster.segment_state import HeldRows, Version
from dbsp.spark.cluster.shared_folder import SharedFolder

_QUERY, _COMMITS = "query.json", "commits"
_FORMAT = "dbsp state on Spark"


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
    content = folder.read(_QUERY)
    if content is None:
        id_ = uuid.uuid4().hex
        document = {
            "format": _FORMAT,
            "version": 1,
            "id": id_,
            "name": name,
            "query": query,
            "shards": shards,
            "hash": value_hashes.VERSION,
        }
        folder.publish(_QUERY, json.dumps(document).encode())
        return id_
    try:
        known = json.loads(content)
        found = (known["format"], known["version"], known["hash"])
        known_query, known_shards, known_name = known["query"], known["shards"], known["name"]
        known_id: str = known["id"]
    except (ValueError, KeyError, TypeError):
        raise _unreadable(folder, _QUERY) from None
    if found != (_FORMAT, 1, value_hashes.VERSION):
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


def latest_commit(folder: SharedFolder) -> ClusterCommit:
    """Return the latest commit; that of tick 0 if there is none. Raises CheckpointError."""
    names = [name for name in folder.names(_COMMITS) if name.isdigit()]
    if not names:
        return ClusterCommit()
    file = f"{_COMMITS}/{names[-1]}"
    content = folder.read(file)
    try:
        known = json.loads(content or b"")
        versions = {
            (level, shard): Version(**{**facts, "journal": tuple(facts["journal"])})
            for level, shard, facts in known["versions"]
        }
        held = [HeldRows(**facts) for facts in known["held"]]
        return ClusterCommit(known["tick"], known["label"], versions, known["parts"], held)
    except (ValueError, KeyError, TypeError):
        raise _unreadable(folder, file) from None


def publish_commit(folder: SharedFolder, commit: ClusterCommit) -> None:
    """Make a tick count, and remove the commits before the one before. Raises CheckpointError."""
    document = {
        "tick": commit.tick,
        "label": commit.label,
        "versions": [[*place, asdict(version)] for place, version in commit.versions.items()],
        "parts": commit.parts,
        "held": list(map(asdict, commit.held)),
    }
    folder.publish(f"{_COMMITS}/{commit.tick:012d}", json.dumps(document).encode())
    for name in folder.names(_COMMITS):
        if not name.isdigit() or int(name) < commit.tick - 1:
            folder.remove(f"{_COMMITS}/{name}")


def _unreadable(folder: SharedFolder, file: str) -> CheckpointError:
    return CheckpointError(
        f"{folder.location}/{file} is damaged; restore the folder from a backup, or start in an empty one",
        code="checkpoint-unreadable",
    )
