"""The state of a run at the end of a tick, captured to be written while the run takes more ticks.

Sorted runs and batches never change, so the capture only refers to them: its cost is the number of
sorted runs, and not that of their rows. Of a large table it has the changed entries.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from dbsp.circuit.graph import Graph, Node
from dbsp.data.interner import Interner
from dbsp.durable.result_frames import written_result
from dbsp.durable.step_memory import captured_memories
from dbsp.durable.table_pieces import CapturedTable, captured_tables
from dbsp.kernels.arrays import Codes
from dbsp.lazy_dataclass import dataclass
from dbsp.runtime.run_base import RunBase
from dbsp.runtime.tick_result import TickResult
from dbsp.state.sorted_run import SortedRun


@dataclass(frozen=True)
class JournalPlace:
    """The end of the journal after a tick."""

    label: Any
    """The label of the tick."""
    digest: str
    """The checksum of the tick."""
    size: int
    """The bytes that the journal had written."""
    time: float
    """By the monotonic clock."""
    tick_time: float | None
    """When the tick was written, in seconds since 1970."""
    end: int
    """The end of the ids of the interner that the journal has."""
    used: int
    """The end of the ids that ticks have given; later ones are of ticks that were rolled back."""
    lost: Container[int]
    """The ids of refused values."""


@dataclass(frozen=True)
class CapturedState:
    """All that a snapshot writes; nothing of it changes when the run takes more ticks."""

    tick: int
    journal: JournalPlace
    result: tuple[Any, list[Codes]]
    """The frames of the result of the tick."""
    graph: Graph
    plans: str | None
    """The plans of the circuit (see `RunBase.stored_plans`)."""
    interner: Interner
    traces: list[tuple[SortedRun, ...]]
    memories: list[tuple[Node, Any]]
    """By step, its node and its memory."""
    tables: list[CapturedTable]

    @staticmethod
    def of(
        run: RunBase, result: TickResult | None, journal: JournalPlace, known: Container[str]
    ) -> CapturedState:
        """Capture the state of a run between two ticks; `result` is that of its latest tick.

        `known` are the files of the latest snapshot.
        """
        scope = run.scope
        return CapturedState(
            tick=run.tick,
            journal=journal,
            result=written_result(result),
            graph=run.graph,
            plans=run.stored_plans,
            interner=run.interner,
            traces=[tuple(trace.runs) for trace in scope.traces],
            memories=captured_memories(scope),
            tables=captured_tables(scope, known),
        )
