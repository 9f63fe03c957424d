"""A circuit on shards in threads beside the same circuit in one process: all results are equal."""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import count
from typing import Any

import pytest

from dbsp import DbspError, Run
from dbsp.circuit.graph import Graph
from dbsp.operators.stages.passes.distribute import distribute
from tests.harness import deltas_of, views
from tests.shards.thread_link import Fault, ThreadShards

Change = Mapping[str, Any]


class ComparedShards:
    """A run of a physical circuit, and its distributed circuit on shards.

    The rows arrive at the shards in another order than in the run of one process. With `delays`
    the shards are late at random. With `checked` they check that rows are on their shard.
    """

    def __init__(
        self, physical: Graph, shards: int, seed: int = 0, *, delays: bool = False, checked: bool = False
    ) -> None:
        self.one = Run(physical)
        self.graph = distribute(physical, checked=checked)
        arrival = random.Random(seed)
        self.many = ThreadShards(self.graph, shards, arrival=arrival, delays=seed if delays else None)

    def tick(self, changes: Change) -> None:
        """Apply the changes to both; compare deltas, views and the counts of changes."""
        try:
            result = self.one.step(changes)
        except DbspError as error:
            self._expect(error, changes)
        else:
            assert self.many.step(changes) == deltas_of(result), self._where(changes)
            assert (self.many.absent, self.many.present) == (result.absent, result.present)
        assert self.many.views() == views(self.one), self._where(changes)

    def reports(self) -> tuple[list[Any], list[list[Any]]]:
        """Return modes and iterations of the fixpoints: of the one process, and by shard."""
        return reports(self.one), [reports(run) for run in self.many.runs]

    def _expect(self, error: DbspError, changes: Change) -> None:
        try:
            deltas = self.many.step(changes)
        except DbspError as found:
            assert (type(found), found.code) == (type(error), error.code), self._where(changes)
        else:
            raise AssertionError(f"expected {error!r}, got {deltas}; {self._where(changes)}")

    def _where(self, changes: Change) -> str:
        return f"tick {self.one.tick + 1} of {len(self.many.runs)} shards: {changes}"


class FaultyShards(ComparedShards):
    """Shards of which one fails at each of its calls in turn, before a tick succeeds."""

    def tick(self, changes: Change) -> None:
        before = self.many.views()
        for link in self.many.links:
            for call in count(1):
                link.fault = call
                with pytest.raises(Fault) as fault:
                    self.many.step(changes)
                assert self.many.views() == before, str(fault.value)
                if str(fault.value).endswith(": record"):
                    break
            link.fault = 0
        super().tick(changes)


def reports(run: Run) -> list[Any]:
    """Return the evaluation mode of each fixpoint, and its iterations in the latest tick."""
    modes = [(node.label, mode) for node, mode in run.evaluations().items()]
    return [*modes, *run.iterations().items()]
