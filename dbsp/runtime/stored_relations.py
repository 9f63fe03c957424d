"""The relations that a run stores: their rows, and how far their sizes are from those planned for."""

from __future__ import annotations

import numpy as np

from dbsp.circuit.graph import Graph
from dbsp.circuit.step_roles import KeepingStep
from dbsp.data.schema import suggestion
from dbsp.data.zset import ZSet
from dbsp.errors import CircuitError, InputError
from dbsp.kernels.arrays import Codes
from dbsp.runtime.run_base import RunBase


class StoredRelations(RunBase):
    """The part of a run that reads the integrals which the circuit keeps."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.record_sizes()

    def view(self, name: str) -> ZSet:
        """The integral of an output: what it holds after the latest tick. O(n log n) for n rows."""
        port = self.output_ports.get(name)
        if port is None:
            raise InputError(f"there is no output '{name}'{suggestion(name, self.output_ports)}")
        return ZSet.wrap(port.columns, self.interner, port.view())

    def rows(self, relation: str) -> Codes | None:
        """The rows of positive weight of a relation as int64[n, arity] codes, sorted, if it is kept.

        A relation is an input, or what a program calls one. None when the circuit keeps its
        integral nowhere. O(n log n) for n rows; the very array of the trace if that is one run in
        the relation's column order.
        """
        keeper = self.keeper(relation)
        if keeper is None:
            return None
        batch = keeper.integral()
        present = batch.weights > 0
        return batch.rows if present.all() else np.ascontiguousarray(batch.rows[present])

    def asserted(self, name: str) -> ZSet:
        """The rows that were put into an input, without those that rules of a program derive for it.

        O(n log n) for n rows. Raises InputError when there is no such input, CircuitError when the circuit
        keeps no integral of it, as one built by hand may for an input of kind "zset".
        """
        port = self.input_port(name)
        keeper = self.scope.keeper(port.node)
        if keeper is None:
            raise CircuitError(f"the circuit does not keep the rows of its input '{name}'")
        batch = keeper.integral()
        return ZSet.wrap(port.columns, self.interner, batch).positive()

    def drift(self) -> float:
        """How far the data is from what it was at the time of planning: 1.0 is not at all.

        The largest factor by which the rows kept of any relation have become more or fewer since the
        start or the latest `replan`, counted from 1 up; rows that were retracted but not merged yet
        count. O(relations).
        """
        now = self._sizes()
        pairs = [(rows + 1, self._planned_for.get(name, 0) + 1) for name, rows in now.items()]
        return max((max(a, b) / min(a, b) for a, b in pairs), default=1.0)

    def record_sizes(self) -> None:
        """From now on `drift` compares with the sizes that the relations have now."""
        self._planned_for = self._sizes()

    def _sizes(self) -> dict[str, int]:
        """The rows kept of every relation that is kept."""
        sizes = {}
        for name in self.graph.named:
            keeper = self.keeper(name)
            if keeper is not None:
                sizes[name] = keeper.kept_rows
        return sizes

    def keeper(self, relation: str) -> KeepingStep | None:
        """The step that keeps the integral of a relation."""
        port = self.input_ports.get(relation)
        stream = self.graph.named.get(relation)
        if stream is None and port is not None:
            return self.scope.keeper(port.node)
        for scope in self.scope.scopes():
            if stream is not None and stream.node in scope.by_node:
                return scope.keeper(stream.node)
        return None
