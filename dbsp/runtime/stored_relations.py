"""The relations that a run stores: their rows, and the drift of their sizes since planning."""

from __future__ import annotations

from collections.abc import Mapping

from dbsp.caller_tracebacks import ends_at_caller
from dbsp.circuit.graph import Graph
from dbsp.circuit.shard_link import ShardLink
from dbsp.circuit.step_roles import KeepingStep
from dbsp.data.interner import Interner
from dbsp.data.view import View
from dbsp.data.zset import ZSet
from dbsp.errors import CircuitError
from dbsp.kernels.arrays import Codes
from dbsp.runtime.run_base import RunBase
from dbsp.state.external_traces import ExternalTraces
from dbsp.state.memory_budget import MemoryBudget


def drift_between(before: Mapping[str, int], now: Mapping[str, int]) -> float:
    """Return the largest factor between the sizes of a relation; 1.0 if there are none."""
    pairs = [(rows + 1, before.get(name, 0) + 1) for name, rows in now.items()]
    return max((max(a, b) / min(a, b) for a, b in pairs), default=1.0)


class StoredRelations(RunBase):
    """The part of a run that reads the integrals that the circuit keeps."""

    def __init__(
        self,
        graph: Graph,
        interner: Interner | None = None,
        traces: ExternalTraces | None = None,
        budget: MemoryBudget | None = None,
        link: ShardLink | None = None,
    ) -> None:
        super().__init__(graph, interner, traces, budget, link)
        self.record_sizes()

    @ends_at_caller
    def view(self, name: str) -> View:
        """Return the integral of an output: its rows after the latest tick. O(n log n) for n rows.

        Parameters:
            name: the name of the output.

        Returns:
            The rows with their weights, as a Z-set that later ticks do not change. Other libraries
            read it as a table: `polars.DataFrame(view)`, `pyarrow.table(view)`.

        Raises:
            InputError: there is no such output; the error is also a KeyError.

        Examples:
            >>> circuit = Circuit("shop")
            >>> circuit.output("big", circuit.input("sale", x=int).filter(col("x") > 5))
            >>> run = circuit.start()
            >>> _ = run.step({"sale": [(7,), (3,)]})
            >>> _ = run.step({"sale": [(9,)]})
            >>> run.view("big").to_dict()
            {(7,): 1, (9,): 1}
        """
        port = self.output_port(name)
        return View.wrap(port.columns, self.interner, port.view())

    def rows(self, relation: str) -> Codes | None:
        """Return the rows of positive weight of a relation as int64[n, arity] codes, sorted.

        The relation is an input, or any relation of a program. None if the circuit does not keep
        its integral. O(n log n) for n rows. The result is the array of the trace itself if the
        trace is a single sorted run in the relation's column order.
        """
        keeper = self.keeper(relation)
        if keeper is None:
            return None
        batch = keeper.integral()
        present = batch.weights > 0
        return batch.rows if present.all() else batch.rows.compress(present, 0)

    def asserted(self, name: str) -> ZSet:
        """Return the inserted rows of an input, without the rows that rules derive for it.

        O(n log n) for n rows. Raises InputError when there is no such input, CircuitError when the
        circuit keeps no integral of it; a circuit built by hand need not keep the integral of an
        input of kind "zset".
        """
        port = self.input_port(name)
        keeper = self.scope.keeper(port.node)
        if keeper is None:
            raise CircuitError(
                f"the circuit does not keep the rows of its input '{name}'; declare the input with "
                'kind="set" or with a key to keep them',
                code="rows-not-kept",
            )
        batch = keeper.integral()
        return ZSet.wrap(port.columns, self.interner, batch).positive()

    def drift(self) -> float:
        """Return the largest factor by which a stored relation has grown or shrunk since planning.

        1.0 means no change since the start or the latest `replan`. Retracted rows that are not yet
        merged count. O(relations).
        """
        return drift_between(self._planned_for, self.sizes())

    def record_sizes(self) -> None:
        """Make `drift` compare with the current sizes of the relations.

        Examples:
            >>> circuit = Circuit("shop")
            >>> circuit.output("sales", circuit.input("sale", x=int, kind="set"))
            >>> run = circuit.start()
            >>> _ = run.step({"sale": [(7,), (3,), (9,)]})
            >>> run.drift()
            4.0
            >>> run.record_sizes()
            >>> run.drift()
            1.0
        """
        self._planned_for = self.sizes()

    def sizes(self) -> dict[str, int]:
        """Return the number of kept rows of every kept relation."""
        sizes = {}
        for name in self.graph.named:
            keeper = self.keeper(name)
            if keeper is not None:
                sizes[name] = keeper.kept_rows
        return sizes

    def keeper(self, relation: str) -> KeepingStep | None:
        """Return the step that keeps the integral of a relation; None if no step does."""
        if not isinstance(relation, str):
            return None
        port = self.input_ports.get(relation)
        stream = self.graph.named.get(relation)
        if stream is None and port is not None:
            return self.scope.keeper(port.node)
        for scope in self.scope.scopes():
            if stream is not None and stream.node in scope.by_node:
                return scope.keeper(stream.node)
        return None
