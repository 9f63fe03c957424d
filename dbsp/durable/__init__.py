"""Durable folders: checkpoints of runs, logs of the deltas of runs, and inboxes of changes."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dbsp.durable.delta_log import DeltaLog
    from dbsp.durable.inbox import Inbox
    from dbsp.durable.store import Store

__all__ = ["DeltaLog", "Inbox", "Store"]

# Imported on first use: a process that only reads files, such as a Spark worker, needs no kernels.
_HOME = {
    "DeltaLog": "dbsp.durable.delta_log",
    "Inbox": "dbsp.durable.inbox",
    "Store": "dbsp.durable.store",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'dbsp.durable' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value
