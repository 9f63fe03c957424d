"""The options of a pipeline: Spark's `checkpointLocation`, and those of dbsp."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dbsp.data.schema import suggestion
from dbsp.durable.snapshot_policy import DEFAULT, EXPECTED, SnapshotPolicy
from dbsp.errors import ArgumentError, InputError, SchemaError, shorten
from dbsp.operators.ports.spark_source import SparkSource
from dbsp.operators.stages.passes.distribute import ScopePolicy
from dbsp.runtime.memory import capacity_of
from dbsp.spark.cut import Cut, microseconds

_NAMES = (
    "checkpointLocation",
    "rowsPerTick",
    "tickWindow",
    "snapshotEvery",
    "sync",
    "memoryLimit",
    "shards",
    "stateLocation",
    "scopes",
)
_ALONE = {
    "rowsPerTick": "a micro-batch on shards is one tick, because no process has its rows; limit what the "
    "source reads, for example with maxFilesPerTrigger",
    "tickWindow": "a micro-batch on shards is one tick, because no process has its rows",
}
"""The options that a pipeline on shards does not have, with the reason."""
_IMAGE_FROM = 16 << 20


def canonical(name: str) -> str:
    """Return the name of an option as documented; the case of letters does not matter, as in Spark.

    Raises InputError for an unknown option: Spark would ignore it.
    """
    for known in _NAMES:
        if isinstance(name, str) and name.lower() == known.lower():
            return known
    hint = suggestion(name, _NAMES) if isinstance(name, str) else ""
    raise InputError(
        f"unknown option {shorten(name)}; expected one of {', '.join(_NAMES)}{hint}", code="unknown-option"
    )


def synced(options: Mapping[str, Any]) -> bool:
    """Return whether a tick must survive a power failure."""
    text = str(options.get("sync", "true")).lower()
    if text not in ("true", "false"):
        raise _invalid("sync", "'true' or 'false'", options)
    return text == "true"


def snapshot_every(options: Mapping[str, Any]) -> SnapshotPolicy:
    """Return when the run of the pipeline writes a snapshot."""
    try:
        return SnapshotPolicy.of(options.get("snapshotEvery", DEFAULT))
    except ArgumentError:
        raise _invalid("snapshotEvery", EXPECTED, options) from None


def memory_limit(options: Mapping[str, Any]) -> int | None:
    """Return the bytes of memory for the state of the circuit; None without a limit."""
    try:
        return capacity_of(options.get("memoryLimit"))
    except ArgumentError:
        raise _invalid("memoryLimit", "bytes, or an amount such as '8G', '500M' or '25%'", options) from None


def memory_of_shards(options: Mapping[str, Any]) -> int | None:
    """Return the bytes of memory for the state of all shards together; None without a limit."""
    if str(options.get("memoryLimit", "")).endswith("%"):
        expected = "bytes, or an amount such as '64G', for all shards together, since 'shards' is set,"
        raise _invalid("memoryLimit", expected, options)
    return memory_limit(options)


def shards_of(options: Mapping[str, Any]) -> int | None:
    """Return the number of shards; None for a pipeline in the driver's process.

    Raises InputError, also for an option that has no meaning on shards.
    """
    if "shards" not in options:
        if "stateLocation" in options:
            raise InputError(
                "the option 'stateLocation' needs the option 'shards'; without shards the state is in the "
                "checkpointLocation",
                code="missing-option",
            )
        if "scopes" in options:
            raise InputError(
                "the option 'scopes' needs the option 'shards'; without shards a recursion runs in this "
                "process",
                code="missing-option",
            )
        return None
    text = str(options["shards"])
    if not text.isdecimal() or isinstance(options["shards"], bool) or not int(text):
        raise _invalid("shards", "a number of shards, 1 or more", options)
    for name, reason in _ALONE.items():
        if name in options:
            raise InputError(
                f"the option '{name}' cannot be combined with 'shards': {reason}", code="invalid-option"
            )
    memory_of_shards(options)
    scopes_of(options)
    return int(text)


def scopes_of(options: Mapping[str, Any]) -> ScopePolicy:
    """Return where the recursions of a pipeline on shards run that no column divides."""
    text = str(options.get("scopes", ScopePolicy.GATHER))
    if text not in list(ScopePolicy):
        raise _invalid("scopes", " or ".join(f"'{policy}'" for policy in ScopePolicy), options)
    return ScopePolicy(text)


def image_from(options: Mapping[str, Any]) -> int:
    """Return the least bytes of journal of a shard before an image of its state replaces it."""
    if "snapshotEvery" not in options:
        return _IMAGE_FROM
    policy = snapshot_every(options)
    if policy.size is None or policy.ticks is not None or policy.seconds is not None:
        raise _invalid("snapshotEvery", "bytes of journal such as '64 MB', since 'shards' is set,", options)
    return policy.size


def cut_of(options: Mapping[str, Any], times: Mapping[str, str], sources: Mapping[str, SparkSource]) -> Cut:
    """Return how a micro-batch becomes ticks. `times` are the columns of event time, by source."""
    rows = str(options.get("rowsPerTick", 0))
    if not rows.isdecimal():
        raise _invalid("rowsPerTick", "a number of rows", options)
    window = options.get("tickWindow")
    if window is None:
        return Cut(int(rows))
    if not times:
        raise InputError("the option 'tickWindow' needs a source with event_time=...", code="missing-option")
    for name, column in times.items():
        known = (*sources[name].columns.names, *sources[name].control)
        if column not in known:
            raise SchemaError(
                f"event_time: unknown column {column!r} in ({', '.join(known)}){suggestion(column, known)}",
                where=sources[name].where,
                code="unknown-column",
            )
    return Cut(int(rows), microseconds(str(window)), dict(times))


def _invalid(name: str, expected: str, options: Mapping[str, Any]) -> InputError:
    return InputError(f"the option '{name}' expects {expected}, got {options[name]!r}", code="invalid-option")
