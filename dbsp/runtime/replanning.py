"""The interface between a run and a planner, and the result of replanning.

A planner chooses among the physical circuits of one query by its statistics of the data. The run
does not know the query: it gets a circuit and switches to it (see `dbsp.runtime.transplant`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from dbsp.circuit.graph import Graph
from dbsp.data.interner import Interner
from dbsp.display.displayed import Displayed
from dbsp.kernels.arrays import Codes
from dbsp.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from dbsp.display.document import Document


@dataclass(frozen=True)
class Proposal:
    """A physical circuit to switch to, and a description of the changes of its plan."""

    graph: Graph
    changes: tuple[str, ...] = ()
    plans: str | None = None
    """The plans as JSON, for a checkpoint; None if the query alone gives them."""


class CountedRun(Protocol):
    """The part of a run that a planner needs."""

    @property
    def interner(self) -> Interner: ...

    def rows(self, relation: str) -> Codes | None: ...


class Planner(Protocol):
    """Chooses circuits for a run; the compiler of the query provides it."""

    def propose(self, run: CountedRun) -> Proposal | None:
        """Return the circuit for the current data of the run; None if the plan does not change."""
        ...

    def adopt(self, proposal: Proposal) -> None:
        """Record that the run now uses this proposal."""
        ...


@dataclass(frozen=True)
class Replanned(Displayed):
    """The result of `Run.replan`."""

    changes: tuple[str, ...] = ()
    """The planner's description of each change of the plan; empty if the plan is the same."""
    kept: int = 0
    """The number of traces and tables that the new circuit took over unchanged."""
    rebuilt: int = 0
    """The number of traces and tables that were rebuilt from others."""
    dropped: int = 0
    """The number of traces and tables that the new circuit does not need."""
    seconds: float = 0.0

    def _display(self) -> Document:
        from dbsp.display.document import Document, code_of

        return Document((), (code_of(str(self), 100),))

    def __str__(self) -> str:
        return "\n".join(
            (
                f"{self.kept} traces kept, {self.rebuilt} rebuilt, {self.dropped} dropped, "
                f"{self.seconds:.3f} s",
                *(f"  {change}" for change in self.changes),
            )
        )
