"""Points in time: the number t of a transaction, the id of its entity, or a datetime."""

from __future__ import annotations

import datetime as dt
from typing import TypeAlias

import numpy as np

from dbsp.datomic.datom_log import DatomLog
from dbsp.datomic.entity_ranges import DB0, TX0
from dbsp.datomic.indices import microseconds
from dbsp.errors import ArgumentError, shorten

TimePoint: TypeAlias = "int | dt.datetime"


def number_of(point: TimePoint, log: DatomLog, name: str) -> int:
    """Return the number of the latest transaction up to a point in time.

    A later number than that of the latest transaction is returned as it is. Raises ArgumentError
    for anything but a point in time.
    """
    if isinstance(point, dt.datetime):
        if point.tzinfo is None:
            raise ArgumentError(
                f"{name}: expected a time with a zone, got {point.isoformat()}; add one with "
                "point.replace(tzinfo=datetime.UTC)"
            )
        # Before the first transaction there is only the schema of the system, transaction 0.
        return max(log.latest_until(microseconds(point), log.transactions), 0)
    if isinstance(point, np.integer):
        point = int(point)
    if isinstance(point, int) and not isinstance(point, bool):
        if 0 <= point < TX0:
            return point
        if TX0 <= point < DB0:
            return point - TX0
    raise ArgumentError(
        f"{name}: expected the number t of a transaction, the id of its entity or a datetime, got "
        f"{shorten(point)}"
    )
