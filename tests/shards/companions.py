"""Shards beside every run of a test, for campaigns over all tests:

    DBSP_TEST_SHARDS=3 pytest -p tests.shards.companions tests/operators

Every run of a physical circuit gets the distributed circuit on shards in threads as a companion,
which takes the same ticks; a difference fails the test. A companion leaves where it cannot follow:
when the run is replanned, restored, or has a transaction.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from dbsp import DbspError, Run
from dbsp.data.batch import Batch
from dbsp.operators.ports.input import DealtInput, Input
from dbsp.operators.stages.passes.distribute import distribute
from dbsp.runtime.ticks import Ticks
from tests.harness import deltas_of, views
from tests.reference import Z
from tests.shards.thread_link import CommonCommit, ThreadShards

SHARDS = int(os.environ.get("DBSP_TEST_SHARDS", "3"))

companions: WeakKeyDictionary[Run, ThreadShards | None] = WeakKeyDictionary()
"""By run its companion; None if it has none any more."""
staged_in: WeakKeyDictionary[Run, Mapping[str, Batch]] = WeakKeyDictionary()
"""The changes of the latest tick of a run."""
compared = [0, 0]
"""The number of compared ticks, and of runs without a companion."""


def pytest_configure() -> None:
    compute, tick = Ticks._compute, Ticks._tick

    def computed(self: Run, staged: Mapping[str, Batch], **options: Any) -> None:
        staged_in[self] = dict(staged)  # a large load clears them
        compute(self, staged, **options)

    def ticked(self: Run, *arguments: Any) -> Any:
        if isinstance(self.log, CommonCommit):
            return tick(self, *arguments)
        companion = companion_of(self)
        staged_in.pop(self, None)
        try:
            result = tick(self, *arguments)
        except DbspError as error:
            if companion is not None and (staged := staged_in.get(self)) is not None:
                expect(error, companion, staged, self)
            raise
        if companion is not None:
            deltas = companion.step_staged(staged_in[self], self.interner)
            assert comparable(deltas) == comparable(deltas_of(result))
            assert comparable(companion.views()) == comparable(views(self))
            assert (companion.absent, companion.present) == (result.absent, result.present)
            compared[0] += 1
        return result

    Ticks._compute = computed  # type: ignore[method-assign]
    Ticks._tick = ticked  # type: ignore[method-assign]


def companion_of(run: Run) -> ThreadShards | None:
    """Return the companion of a run; one that cannot follow any more leaves."""
    if run not in companions:
        companions[run] = start(run)
        run.companion_graph = run.graph  # type: ignore[attr-defined]
    companion = companions[run]
    if companion is not None and (
        run.companion_graph is not run.graph  # type: ignore[attr-defined]
        or run._bulk is not None
        or run.tick != companion.runs[0].tick
    ):
        companions[run] = companion = None
        compared[1] += 1
    return companion


def start(run: Run) -> ThreadShards | None:
    operators = [node.operator for node in run.graph.nodes]
    sources = [operator for operator in operators if isinstance(operator, Input)]
    physical = not any(isinstance(one, DealtInput) or one.stored_outside for one in sources)
    if run.tick or not physical or run._bulk is not None or run.shares_interner:
        compared[1] += 1
        return None
    return ThreadShards(distribute(run.graph, checked=True), SHARDS)


def expect(error: DbspError, companion: ThreadShards, staged: Mapping[str, Batch], run: Run) -> None:
    try:
        companion.step_staged(staged, run.interner)
    except DbspError as found:
        assert type(found) is type(error), f"expected {error!r}, got {found!r}"
    else:
        raise AssertionError(f"expected {error!r}")


def comparable(values: dict[str, Z]) -> dict[str, dict[str, int]]:
    """Return the values with the texts of their rows, since NaN does not equal NaN."""
    return {name: {repr(row): weight for row, weight in value.items()} for name, value in values.items()}


def pytest_terminal_summary(terminalreporter: Any) -> None:
    ticks, left = compared
    terminalreporter.write_line(f"{ticks} ticks on {SHARDS} shards; {left} runs without a companion")
