"""The ends of a circuit: what a run needs to know of the operators that face the outside."""

from __future__ import annotations

from abc import ABC, abstractmethod

from dbsp.circuit.step import Step
from dbsp.data.batch import Batch
from dbsp.data.schema import Schema


class InputPort(Step):
    """The step of an input. A run stages a batch before the tick; `kind` says what it means.

    `zset`: a delta as it is. `set`: positive weights assert rows, negative ones retract them.
    `key`: one row per key (the columns `key`); a positive weight replaces, a negative one removes.
    """

    __slots__ = ("absent", "columns", "key", "kind", "present", "relation", "staged")

    def __init__(self, relation: str, columns: Schema, kind: str, key: tuple[int, ...]) -> None:
        super().__init__()
        self.relation = relation
        self.columns = columns
        self.kind = kind
        self.key = key
        self.staged: Batch | None = None
        self.present = 0
        """Assertions of this tick that found their row present already."""
        self.absent = 0
        """Retractions of this tick that found nothing to retract."""


class CommitListener(ABC):
    """A step that notifies a callback of what a tick did, after the commit."""

    __slots__ = ()

    @abstractmethod
    def notify(self) -> None:
        """Notify the callback of the committed tick."""

    @abstractmethod
    def drop(self) -> None:
        """Drop what is known of a tick that was rolled back."""


class OutputPort(Step):
    """The step of an output: `out` is the tick's delta, `view()` the integral."""

    __slots__ = ("columns", "relation")

    def __init__(self, relation: str, columns: Schema) -> None:
        super().__init__()
        self.relation = relation
        self.columns = columns

    @abstractmethod
    def view(self) -> Batch:
        """The integral of the output."""
