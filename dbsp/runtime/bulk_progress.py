"""An open transaction of a run: its parts so far, and what is needed to commit or to undo them.

The run owns this object, so it can undo a transaction that the caller has abandoned.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any, Protocol

from dbsp.circuit.operator_roles import depends_on_ticks
from dbsp.data.batch import Batch
from dbsp.runtime.delta_sum import DeltaSum
from dbsp.runtime.input_changes import Piece
from dbsp.runtime.open_work import OpenWork
from dbsp.runtime.part_changes import PartChanges
from dbsp.runtime.ports import CommitListener, InputPort, OutputPort
from dbsp.runtime.savepoint import Savepoint, can_be_saved
from dbsp.runtime.scope import Scope
from dbsp.runtime.tick_result import TickResult


class BulkOwner(Protocol):
    """The interface of a run to its open transaction. Calls that undo can be repeated."""

    kept_changes: int
    input_ports: Mapping[str, InputPort]
    output_ports: Mapping[str, OutputPort]

    def staged_pieces(self) -> dict[str, Sequence[Piece]]:
        """Return by input the changes that its handle has staged."""

    def restore_pieces(self, staged: Mapping[str, Sequence[Piece]]) -> None:
        """Stage the changes again that `staged_pieces` returned, and no others."""

    def roll_back(self) -> None:
        """Undo the changes of an undecided tick."""

    def discard_parts(self) -> None:
        """Remove the parts from the log."""


class BulkProgress(OpenWork):
    """The parts of a transaction; `number` is the number of the tick that they become.

    Parts are computed at once and committed in memory with a savepoint before the first one. If the
    circuit has a node that depends on ticks, each part would change its state; then the parts are
    staged, and the last tick computes their net change.
    """

    __slots__ = (
        "_handles",
        "_input_rows",
        "_inputs",
        "_listeners",
        "_notices",
        "_outputs",
        "_owner",
        "_savepoint",
        "_scope",
        "absent",
        "ending",
        "intact",
        "label",
        "number",
        "parts",
        "present",
        "result",
        "seconds",
        "staging",
    )

    def __init__(self, scope: Scope, owner: object, number: int, label: Any) -> None:
        super().__init__("transaction", None)
        self._owner = weakref.ref(owner)
        self._scope = scope
        self.number = number
        self.label = label
        self.parts = 0
        self.seconds = 0.0
        self.intact = False
        """Whether the transaction has been opened, and every part of it has ended normally."""
        self.ending = False
        """Whether the last tick has started; then `frame` is that of the call that computes it."""
        self.result: TickResult | None = None
        self.absent: dict[str, int] = {}
        self.present: dict[str, int] = {}
        self.staging: PartChanges | None = None
        self._savepoint: Savepoint | None = None
        self._handles: dict[str, Sequence[Piece]] | None = None
        """By input the changes that were staged before the transaction."""
        self._outputs: dict[str, DeltaSum] = {}
        self._inputs: dict[str, DeltaSum] | None = {}
        """The changes of the inputs; None for more rows than the run keeps."""
        self._input_rows = 0
        self._listeners: dict[CommitListener, DeltaSum] = {}
        self._notices: dict[CommitListener, Batch | None] = {}

    def open(self, run: BulkOwner) -> None:
        """Set the savepoint; nothing has changed before."""
        if computes_parts(self._scope):
            self._savepoint = Savepoint(self._scope)
            self._savepoint.take()
        else:
            self.staging = PartChanges(run.input_ports, self._scope.budget)
            self._scope.transient.extend(self.staging.traces)
        self._handles = run.staged_pieces()
        self.intact = True

    def abandoned(self) -> bool:
        """Return whether nobody can continue the transaction: the run must settle it.

        Raises CircuitError when another thread is ending it.
        """
        if self.ending:
            return not self.runs_here()
        return not self.intact or self._owner() is None

    def begin_end(self, frame: FrameType) -> None:
        """Note that this call computes the last tick."""
        self.frame, self._thread = frame, threading.get_ident()
        self.ending = True

    # --- the sums ---------------------------------------------------------------------------------

    def add(self, run: BulkOwner) -> None:
        """Add the deltas of a computed part to the sums."""
        for name, output in run.output_ports.items():
            if output.out is not None:
                self._sum_of(self._outputs, name, f"output '{name}'", output.out).add(output.out)
        for listener in self._scope.listeners:
            change = listener.take()
            if change is not None:
                self._sum_of(self._listeners, listener, "inspect", change).add(change)
        self._input_rows += sum(len(port.out) for port in run.input_ports.values() if port.out is not None)
        if self._input_rows > run.kept_changes or any(port.finished for port in run.input_ports.values()):
            self._inputs = None
        for name, port in run.input_ports.items():
            if self._inputs is not None and port.out is not None:
                self._sum_of(self._inputs, name, f"input '{name}'", port.out).add(port.out)
            if port.absent:
                self.absent[name] = self.absent.get(name, 0) + port.absent
            if port.present:
                self.present[name] = self.present.get(name, 0) + port.present

    def _sum_of(self, sums: dict[Any, DeltaSum], key: Any, name: str, first: Batch) -> DeltaSum:
        found = sums.get(key)
        if found is None:
            found = sums[key] = DeltaSum(name, first.arity, self._scope.budget)
            self._scope.transient.append(found.trace)
        return found

    def outputs(self, run: BulkOwner) -> Mapping[str, Batch | None]:
        """Return the delta of every output over all parts and the last tick; add it to the sums."""
        self.add(run)
        self._notices = {listener: total.total() for listener, total in self._listeners.items()}
        return {
            name: self._outputs[name].total() if name in self._outputs else None for name in run.output_ports
        }

    def inputs(self) -> Mapping[str, Batch] | None:
        """Return the changes of the inputs over all parts; None for more than the run keeps."""
        if self._inputs is None:
            return None
        totals = {name: total.total() for name, total in self._inputs.items()}
        return {name: total for name, total in totals.items() if total is not None}

    def net_changes(self) -> Mapping[str, Batch]:
        """Return the changes that the last tick applies."""
        return {} if self.staging is None else self.staging.total()

    def commit(self, result: TickResult | None) -> None:
        """Note that the last tick is final. If this is interrupted, call it again."""
        for listener, change in self._notices.items():
            listener.give(change)
        self.result = result

    def undo_or_release(self, run: BulkOwner) -> None:
        """Undo the parts unless their tick is final. If this is interrupted, call it again."""
        if self.result is None:
            run.roll_back()
            if self._savepoint is not None:
                self._savepoint.restore()
            if self._handles is not None:
                run.restore_pieces(self._handles)
            run.discard_parts()
        if self._savepoint is not None:
            self._savepoint.release()
        self._scope.transient.clear()
        self._outputs, self._inputs, self._listeners, self.staging = {}, {}, {}, None


def computes_parts(scope: Scope) -> bool:
    """Return whether the sum of the deltas of several ticks is the delta of one tick."""
    return all(
        not depends_on_ticks(node) and not node.operator.stored_outside and can_be_saved(step)
        for each in scope.scopes()
        for node, step in each.by_node.items()
    )
