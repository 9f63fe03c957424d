"""Folders that outlive the process: checkpoints of runs, what runs have done, and what they are to take."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dbsp.durable.delta_log import DeltaLog
    from dbsp.durable.inbox import Inbox
    from dbsp.durable.store import Store

__all__ = ["DeltaLog", "Inbox", "Store"]

# Whoever only reads files (a worker process of Spark) must not wait for the kernels.
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
