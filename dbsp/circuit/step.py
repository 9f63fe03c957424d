"""Steps: nodes at run time. An operator builds one per run (`Operator.start`).

The scheduler uses two methods of every step: one to run it, and one to release its latest delta.
Abilities of some steps only are roles in `dbsp.circuit.step_roles`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import TYPE_CHECKING, ClassVar

from dbsp.data.batch import Batch

if TYPE_CHECKING:
    from dbsp.circuit.graph import Node


class Step(ABC):
    """One node at run time. `step` reads `out` of the inputs and sets its own `out`.

    `out` is the delta of this step as a consolidated batch, or None if nothing changed. It is valid
    until the next call of `step`.
    """

    __slots__ = ("node", "out")

    quiet: ClassVar[bool] = False
    """Whether `out` is None whenever it is None in all inputs and nothing is staged."""

    reads_in_step: ClassVar[bool] = False
    """Whether a step with a method `commit` reads `out` of its inputs in `step` only. A tick of
    many rows releases deltas after their last reader, but none that a commit may read."""

    node: Node
    out: Batch | None

    def __init__(self) -> None:
        self.out = None

    @abstractmethod
    def step(self) -> None:
        """Compute `out` from `out` of the inputs, and update the state."""

    def step_last(self, released: Collection[Step]) -> None:
        """As `step`, when no other step reads the deltas of the `released` steps afterwards."""
        self.step()

    def forget(self) -> None:
        """Release the latest delta."""
        self.out = None

    def finish(self) -> None:
        """Release the delta within a tick: all steps that read it have done so."""
        self.forget()
