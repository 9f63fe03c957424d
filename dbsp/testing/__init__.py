"""A test kit for incremental engines: does an engine emit exactly what a query implies?

`check_incremental` steps an engine through changes and compares it with the query after every tick,
for several splits of the same changes. It checks circuits and programs of dbsp and, behind a small
protocol, any other engine; it imports nothing of the engine of dbsp. `random_changes` makes changes
to check with.
"""

from __future__ import annotations

from dbsp.testing.checked_engine import Engine, EngineRun, Refused
from dbsp.testing.incremental_check import Checked, Mismatch, check_incremental
from dbsp.testing.random_changes import random_changes

__all__ = [
    "Checked",
    "Engine",
    "EngineRun",
    "Mismatch",
    "Refused",
    "check_incremental",
    "random_changes",
]
