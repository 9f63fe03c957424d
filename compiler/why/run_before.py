"""A run as it was before its latest tick: the rows after the tick minus the changes of the tick."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dbsp.data.schema import Schema
from dbsp.data.zset import ZSet
from dbsp.runtime.latest_tick import no_tick_yet

if TYPE_CHECKING:
    from dbsp.runtime.run import Run
    from dbsp.shards.sharded_run import ShardedRun


class RunBefore:
    """The inputs and outputs of a run before its latest tick, for questions about that state.

    Raises CircuitError if the run has made no tick, or keeps no changes of the latest one.
    """

    def __init__(self, run: Run | ShardedRun) -> None:
        if not run.tick:
            raise no_tick_yet()
        self._run = run
        self.tick = run.tick - 1
        if self.tick:
            self._changes = {name: run.changed(name) for name in run.inputs}

    @property
    def inputs(self) -> dict[str, Schema]:
        """The inputs: for each name the schema of its rows."""
        return self._run.inputs

    @property
    def outputs(self) -> dict[str, Schema]:
        """The outputs: for each name the schema of its rows."""
        return self._run.outputs

    def asserted(self, name: str) -> ZSet:
        """Return the inserted rows of an input."""
        return (self._run.asserted(name) - self._changes[name]).positive()

    def view(self, name: str) -> ZSet:
        """Return the rows of an output. Raises CircuitError if its change was not kept."""
        return self._run.view(name) - self._run.changed_output(name)
