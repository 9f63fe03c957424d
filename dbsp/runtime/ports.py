"""Ports: the interface of a run to the steps of the inputs and outputs of its circuit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from dbsp.circuit.step import Step
from dbsp.data.batch import Batch
from dbsp.data.schema import Schema


class InputPort(Step):
    """The step of an input. A run stages a batch before the tick; `kind` gives its meaning.

    `zset`: the batch is the delta. `set`: positive weights assert rows, negative ones retract them.
    `key`: one row per key (the columns `key`); a positive weight replaces, a negative one removes.
    """

    __slots__ = (
        "absent",
        "columns",
        "finished",
        "kept_rows",
        "key",
        "kind",
        "present",
        "relation",
        "staged",
    )

    def __init__(self, relation: str, columns: Schema, kind: str, key: tuple[int, ...]) -> None:
        super().__init__()
        self.relation = relation
        self.columns = columns
        self.kind = kind
        self.key = key
        self.staged: Batch | None = None
        self.present = 0
        """The number of assertions in this tick whose row was already present."""
        self.absent = 0
        """The number of retractions in this tick whose row was absent."""
        self.kept_rows = 0
        """A delta of up to so many rows stays until the end of the tick."""
        self.finished = False
        """Whether the delta of this tick had more rows and has been released."""

    def finish(self) -> None:
        if self.out is not None and len(self.out) > self.kept_rows:
            self.finished = True
            self.staged = None
            self.forget()


class CommitListener(ABC):
    """A step that notifies a callback after the commit of a tick."""

    __slots__ = ()

    notifies: ClassVar[bool] = True
    """Whether `notify` does anything."""

    @abstractmethod
    def notify(self) -> None:
        """Notify the callback of the committed tick."""

    @abstractmethod
    def drop(self) -> None:
        """Discard the changes of a tick that was rolled back."""

    @abstractmethod
    def take(self) -> Batch | None:
        """Return the change of this tick, which is part of a transaction, and discard it."""

    @abstractmethod
    def give(self, change: Batch | None) -> None:
        """Replace the change of this tick by the change of the whole transaction."""


class OutputPort(Step):
    """The step of an output: `out` is the tick's delta, `view()` the integral."""

    __slots__ = ("columns", "relation")

    def __init__(self, relation: str, columns: Schema) -> None:
        super().__init__()
        self.relation = relation
        self.columns = columns

    @abstractmethod
    def view(self) -> Batch:
        """Return the integral of the output."""

    @property
    @abstractmethod
    def kept_rows(self) -> int:
        """The number of rows stored for the view, retracted rows included that are not merged."""
