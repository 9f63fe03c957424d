"""What a run needs of a planner, and what replanning returns.

A planner chooses among the physical circuits of one query by its statistics of the data. The run
knows nothing of queries: it gets a circuit and switches to it (see `dbsp.runtime.transplant`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from dbsp.circuit.graph import Graph

if TYPE_CHECKING:
    from dbsp.runtime.run import Run


@dataclass(frozen=True)
class Proposal:
    """A physical circuit to switch to, and the changes of its plan in words."""

    graph: Graph
    changes: tuple[str, ...] = ()


class Planner(Protocol):
    """Provided by the compiler of the query."""

    def propose(self, run: Run) -> Proposal | None:
        """The circuit for the data that the run holds; None if the present plan is chosen again."""
        ...

    def adopt(self, proposal: Proposal) -> None:
        """Note that the run uses this proposal from now on."""
        ...


@dataclass(frozen=True)
class Replanned:
    """What `Run.replan` did."""

    changes: tuple[str, ...] = ()
    """What is planned differently, in the words of the planner; empty if nothing is."""
    kept: int = 0
    """Traces and tables that went over as they are."""
    rebuilt: int = 0
    """Traces and tables that were rebuilt from others."""
    dropped: int = 0
    """Traces and tables that are not kept any more."""
    seconds: float = 0.0

    def __str__(self) -> str:
        return "\n".join(
            (
                f"{self.kept} traces kept, {self.rebuilt} rebuilt, {self.dropped} dropped, "
                f"{self.seconds:.3f} s",
                *(f"  {change}" for change in self.changes),
            )
        )
