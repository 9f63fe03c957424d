"""A circuit on shards in threads beside the same circuit in one process: all results are equal."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
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
    the shards are late at random. If `checked`, they check that rows are on their shard.
    """

    def __init__(
        self, physical: Graph, shards: int, seed: int = 0, *, delays: bool = False, checked: bool = True
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

    def switch(self, physical: Graph, *, scopes: str = "gather") -> None:
        """Switch both to another circuit of the query; compare the views."""
        self.one.replan(physical)
        self.graph = distribute(physical, scopes=scopes, checked=True)
        self.many.switch(self.graph)
        assert self.many.views() == views(self.one)

    def _expect(self, error: DbspError, changes: Change) -> None:
        try:
            deltas = self.many.step(changes)
        except DbspError as found:
            assert (type(found), found.code) == (type(error), error.code), self._where(changes)
        else:
            raise AssertionError(f"expected {error!r}, got {deltas}; {self._where(changes)}")

    def _where(self, changes: Change) -> str:
        return f"tick {self.one.tick + 1} of {len(self.many.runs)} shards: {changes}"


def fail_at_every_call(shards: ThreadShards, act: Callable[[], object]) -> int:
    """Let each shard fail at each of its calls in an act; return the number of calls of a shard.

    The act is a tick or a switch. It is undone on all shards every time, and can be repeated.
    """
    before = shards.views()
    for link in shards.links:
        for call in count(1):
            link.fault = call
            with pytest.raises(Fault) as fault:
                act()
            assert shards.views() == before, str(fault.value)
            if str(fault.value).endswith(": record"):
                break
        link.fault = 0
    return call
