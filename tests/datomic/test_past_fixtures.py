"""Every case of the fixtures from the past: as of every transaction, and live since one."""

from __future__ import annotations

from random import Random

import pytest

from tests.profiles import sampled

from .fixture_files import Case
from .live_cases import (
    FILES,
    LONG,
    Twin,
    Watch,
    bag,
    expected_rows,
    fail_with,
    finished,
    live_in,
    one_shot_problem,
    subscription_inputs,
)


@pytest.mark.parametrize("file", FILES)
def test_as_of_every_transaction(file: str) -> None:
    problems = []
    for case in live_in(file):
        twin = finished(case.database)
        for place in sampled(twin.model.t):
            if (problem := one_shot_problem(case, twin, 1 + place)) is not None:
                problems.append(f"{case}\n    {case.query}\n    {problem}")
    assert not problems, "\n".join(problems[:40])


@pytest.mark.parametrize("file", FILES)
def test_live_since_a_transaction(file: str) -> None:
    watches = []
    for case in live_in(file):
        twin = finished(case.database)
        last = twin.model.t
        every = range(1, last + 1)
        for start in every if LONG else [Random(case.title).choice(every)]:
            watches.append(replayed(case, twin, start))
    fail_with(watches)


def replayed(case: Case, twin: Twin, start: int) -> Watch:
    """Return a live query since a transaction, with the problems of its deltas."""
    subscription = twin.conn.subscribe(case.query, *subscription_inputs(case), since=start)
    watch = Watch(case, subscription)
    changes = {delta.t: delta.rows for delta in subscription.deltas()}
    after = expected_rows(case, twin.model, start)
    for t in range(start + 1, twin.model.t + 1):
        before, after = after, expected_rows(case, twin.model, t)
        rows = changes.pop(t, [])
        gained = bag(row for row, weight in rows if weight == 1)
        lost = bag(row for row, weight in rows if weight == -1)
        if (gained, lost) != (after - before, before - after):
            watch.problems.append(f"since {start}, t {t}: {rows}, expected {after - before, before - after}")
    if changes:
        watch.problems.append(f"since {start}: changes at {sorted(changes)}")
    watch.compare(after, f"since {start}")
    subscription.close()
    return watch
