"""Prints the changes of a live query while transactions of other processes arrive."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

from dbsp.cli.database_access import GivenQuery
from dbsp.cli.transaction_texts import object_line
from dbsp.datomic import Connection, QueryDelta, Subscription
from dbsp.datomic.time_points import TimePoint
from dbsp.edn import write


def follow(
    connection: Connection,
    given: GivenQuery,
    since: TimePoint | None,
    format_: str,
    poll: float,
    seconds: float | None,
) -> None:
    """Print the rows of a query and then each change, until the time is over or Ctrl-C.

    Parameters:
        connection: the database.
        given: the query.
        since: print the changes after this point in time, instead of the current rows.
        format_: "edn" or "json".
        poll: seconds between two looks at the log.
        seconds: how long to follow; None: until Ctrl-C.
    """
    end = None if seconds is None else time.monotonic() + seconds
    live = connection.subscribe(given.query, *given.values, since=since)
    try:
        if since is None:
            _print([first_delta(live)], format_)
        while True:
            _print(live.deltas(), format_)
            if end is not None and time.monotonic() >= end:
                break
            time.sleep(poll if end is None else min(poll, max(0.0, end - time.monotonic())))
            connection.sync()
    except KeyboardInterrupt:
        pass  # the usual end


def first_delta(live: Subscription) -> QueryDelta:
    """Return the rows of a live query as a change."""
    return QueryDelta(live.t, [(row, 1) for row in live.rows()])


def _print(deltas: list[QueryDelta], format_: str) -> None:
    for delta in deltas:
        for line in delta_lines(delta, format_):
            print(line)
    if deltas:
        sys.stdout.flush()


def delta_lines(delta: QueryDelta, format_: str) -> Iterator[str]:
    """Yield the lines of a change: one for each row as EDN, or one as JSON."""
    if format_ == "json":
        yield object_line({"t": delta.t, "rows": delta.rows}, format_)
        return
    for row, weight in delta.rows:
        yield write((row, weight))
    yield f"; t {delta.t}"
