"""A step: one node at run time, made once per run by its operator (`Operator.start`).

The scheduler needs two things of every step: to run it, and to release its latest delta. What only
some steps can do besides is a role in `dbsp.circuit.step_roles`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from dbsp.data.batch import Batch

if TYPE_CHECKING:
    from dbsp.circuit.graph import Node


class Step(ABC):
    """One node at run time. `step` reads the inputs' `out` and sets its own.

    `out` is this step's delta as a consolidated batch, or None when nothing changed. It is valid
    until the node is stepped again.
    """

    __slots__ = ("node", "out")

    node: Node
    out: Batch | None

    def __init__(self) -> None:
        self.out = None

    @abstractmethod
    def step(self) -> None:
        """Compute `out` from the inputs' `out`, and update the state."""

    def forget(self) -> None:
        """Release the latest delta."""
        self.out = None
