"""Ticks that wait for the answers of a round, on executors.

    rounds/12/...     what a shard has received in tick 12: the inputs, then the answers of a round

A worker process keeps the runs that wait. The next round of a shard may come to another process,
which makes the run again: from the version before the tick, and from the files of what it has
received in the tick since then. Attempts choose the names of files, so a process continues a run
that it has kept if the files of that run are the first ones of those that the task names.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from dbsp.errors import InvariantError
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.stages.segments import Segment
from dbsp.shards.segment_run import SegmentRun
from dbsp.spark.cluster.segment_state import (
    Place,
    Version,
    kept_in_tick,
    opened,
    read_journal,
    written_journal,
)
from dbsp.spark.cluster.shared_folder import SharedFolder

ROUNDS = "rounds"
"""The folder of the files of rounds."""


@dataclass(frozen=True, slots=True)
class Suspension:
    """A tick of a segment of a shard that waits in a round."""

    files: tuple[str, ...]
    """What it has received: the inputs, then the answers of each round."""
    sent_bytes: int
    opening_seconds: float
    seconds: float

    @property
    def round(self) -> int:
        """The round in which it waits, from 0 on."""
        return len(self.files) - 1

    def encoded(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def decoded(content: bytes) -> Suspension:
        facts = json.loads(content)
        return Suspension(**{**facts, "files": tuple(facts["files"])})


def rounds_folder(tick: int) -> str:
    """Return the folder of the files of the rounds of a tick."""
    return f"{ROUNDS}/{tick}"


def written_round(
    folder: SharedFolder, place: Place, tick: int, received: Mapping[str, Sequence[bytes]]
) -> str:
    """Write what a shard receives in a round; return the file. Raises CheckpointError."""
    file = f"{rounds_folder(tick)}/{uuid.uuid4().hex}"
    folder.write(file, written_journal(place, file, received))
    return file


def waiting_run(
    place: Place,
    segment: Segment,
    version: Version,
    files: Sequence[str],
    folder: SharedFolder,
    memory_limit: int | None = None,
) -> SegmentRun:
    """Return a run that waits after it has received the files in a tick after a version.

    O(rounds since) if this process has kept it. Raises CheckpointError.
    """
    known = kept_in_tick(place, segment, files)
    if known is not None:
        run, missed = known
        try:
            steps = [run.resume(read_journal(folder, place, file)) for file in missed]
        except BaseException:
            run.abandon()
            raise
    else:
        inputs, *rounds = (read_journal(folder, place, file) for file in files)
        run = opened(place, segment, version, folder, memory_limit)
        steps = [run.begin(inputs, rounds)]
    if any(step.result is not None for step in steps):
        raise InvariantError("a tick ended in a round in which it waited before; this is a defect of dbsp")
    return run
