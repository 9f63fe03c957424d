"""Messages between the segments of a circuit, as the rows of a DataFrame.

A row goes to one shard. It has rows of one input of a segment (`dbsp.shards.segment_run`), or what
a task tells the driver: then its level is that of the driver, and the row passes all later tasks.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from dbsp.lazy_dataclass import dataclass
from dbsp.shards.shipped_errors import receive_error, ship_error

COLUMNS = "shard int, level int, input string, content binary"
"""The columns of messages, as Spark declares them."""
DRIVER = -1
"""The level of messages for the driver."""
START = -2
"""The level of the rows that only make the partition of a shard."""
WAITING = "#waiting"
"""The input of a message with the suspension of a tick, for the next round of the same shard."""
_REPORT, _ERROR, _FAILED = "report", "error", "failed"
_SCHEMA = pa.schema(
    [("shard", pa.int32()), ("level", pa.int32()), ("input", pa.string()), ("content", pa.binary())]
)


@dataclass(frozen=True, slots=True)
class Message:
    """Something for one segment of one shard, or for the driver."""

    shard: int
    level: int
    input: str
    content: bytes

    def batch(self) -> pa.RecordBatch:
        """Return the message as one row; messages are large, so a batch has one only."""
        cells = ([self.shard], [self.level], [self.input], [self.content])
        columns = [pa.array(cell, field.type) for cell, field in zip(cells, _SCHEMA, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


def messages_in(batches: Iterable[pa.RecordBatch]) -> Iterator[Message]:
    """Yield the messages of batches of `COLUMNS`."""
    for batch in batches:
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield Message(*row)


def report(shard: int, facts: dict[str, Any]) -> Message:
    """Return a message for the driver with JSON facts."""
    return Message(shard, DRIVER, _REPORT, json.dumps(facts).encode())


def failure(shard: int, level: int, error: Exception) -> Message:
    """Return a message for the driver with an error of a task."""
    return Message(shard, DRIVER, f"{_ERROR} {level}", ship_error(error))


def failures(shard: int, shards: int, level: int, error: Exception) -> Iterator[Message]:
    """Yield the message of `failure`, and one for each other shard: its later tasks do nothing."""
    yield failure(shard, level, error)
    for other in range(shards):
        if other != shard:
            yield Message(other, DRIVER, _FAILED, b"")


def is_failure(message: Message) -> bool:
    """Return whether a message says that a task has failed, so that the tick will not count."""
    return message.level == DRIVER and message.input != _REPORT


def facts_in(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Return the facts of all reports; raise the error of the first level that failed."""
    facts, errors = [], []
    for message in messages:
        if message.input == _REPORT:
            facts.append(json.loads(message.content))
        elif message.input != _FAILED:
            errors.append((int(message.input.partition(" ")[2]), message.shard, message.content))
    if errors:
        _, _, content = min(errors)
        raise receive_error(content)
    return facts
