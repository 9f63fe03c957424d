"""One tick of a recording: the delta of every recorded stream, by iteration inside scopes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from dbsp.circuit.graph import Graph, Node
from dbsp.circuit.operator_roles import ScopeBoundary
from dbsp.data.batch import Batch, merge_sorted
from dbsp.data.interner import Interner
from dbsp.errors import InputError
from dbsp.runtime.pass_observer import ObservedTick, PassTime, ScopePass
from dbsp.runtime.stream_lookup import StreamLookup, scope_name


class RecordedTick:
    """The passes of one tick, with the circuit and the values that they belong to."""

    __slots__ = ("_found", "_nodes", "interner", "lookup", "number", "observed", "place", "rows_before")

    def __init__(
        self,
        number: int,
        observed: ObservedTick,
        lookup: StreamLookup,
        interner: Interner,
        nodes: Collection[Node] | None = None,
        before: RecordedTick | None = None,
    ) -> None:
        self.number = number
        self.observed = observed
        self.lookup = lookup
        self.interner = interner
        self._nodes = nodes
        """The nodes whose deltas are recorded; None for all."""
        self._found: dict[Node, list[tuple[ScopePass, Batch]]] | None = None
        self.place: int = 0 if before is None else before.place + 1
        """The number of ticks recorded before this one."""
        self.rows_before: int = 0 if before is None else before.rows_before + before.rows
        """The number of rows of these ticks."""

    @property
    def rows(self) -> int:
        """The number of rows that the recording keeps for this tick."""
        return 0 if self.observed.truncated else self.observed.rows

    @property
    def passes(self) -> Sequence[ScopePass]:
        """The passes of all scopes, in the order in which they ended.

        Raises InputError if the tick has more rows than the recording may keep.
        """
        if self.observed.truncated:
            raise InputError(
                f"tick {self.number} has more rows than max_rows in the recorded streams "
                f"({self.observed.rows:,}), so the recording has none of them; record fewer streams, or with "
                "a larger max_rows",
                code="not-recorded",
            )
        return self.observed.passes

    @property
    def _by_node(self) -> Mapping[Node, list[tuple[ScopePass, Batch]]]:
        found = self._found
        if found is None:
            found = {}
            for each in self.passes:
                for node, batch in each.deltas:
                    found.setdefault(node, []).append((each, batch))
            self._found = found
        return found

    def exact(self, graph: Graph) -> bool:
        """Return whether the passes of a scope add up to the changes of its streams."""
        inside: Graph | None = graph
        while inside is not None:
            if inside in self.observed.restarted or inside in self.observed.converged:
                return False
            inside = inside.parent
        return True

    def delta(self, node: Node) -> Batch | None:
        """Return the sum of the deltas of a node over all passes; None if it is empty."""
        self.expect_recorded(node)
        return merge_sorted([batch for _, batch in self._by_node.get(node, ())])

    def knows_change(self, node: Node) -> bool:
        """Return whether `change` returns the change of a node."""
        outer = leaving(node)
        return self.exact(node.graph) or (outer is not None and self.knows_change(outer))

    def change(self, node: Node) -> Batch | None:
        """Return the change of a stream in this tick; None if it did not change.

        Raises InputError if the passes do not have it.
        """
        if self.exact(node.graph):
            return self.delta(node)
        outer = leaving(node)
        if outer is not None:
            return self.change(outer)
        done = {"restart": "restarted", "converged early": "ended the iterations early of"}
        raise InputError(
            f"tick {self.number} {done[self.evaluation(node.graph)]} scope '{scope_name(node.graph)}', so no "
            f"iteration emitted the change of {node.describe()}; record all streams with run.record(), or "
            "read by_iteration",
            code="not-recorded",
        )

    def expect_recorded(self, node: Node) -> None:
        """Raise InputError if the recording leaves out the stream of a node."""
        if self._nodes is not None and node not in self._nodes:
            raise InputError(
                f"the recording leaves out the stream of {node.describe()}; add it to streams= of "
                "run.record()",
                code="not-recorded",
            )

    def by_time(self, node: Node) -> dict[PassTime, Batch]:
        """Return the deltas of a node by the time of their pass."""
        self.expect_recorded(node)
        pieces: dict[PassTime, list[Batch]] = {}
        for each, batch in self._by_node.get(node, ()):
            pieces.setdefault(each.time, []).append(batch)
        sums = {time: merge_sorted(found) for time, found in pieces.items()}
        return {time: batch for time, batch in sums.items() if batch is not None}

    def summed_by_time(self, node: Node) -> dict[PassTime, Batch]:
        """Return by time of every pass the sum of the deltas until then, if it is not empty."""
        pieces = self.by_time(node)
        sums = {}
        for now in dict.fromkeys(each.time for each in self.passes if each.graph is node.graph):
            until = [
                batch
                for time, batch in pieces.items()
                if all(before <= at for before, at in zip(time, now, strict=True))
            ]
            total = merge_sorted(until)
            if total is not None:
                sums[now] = total
        return sums

    def evaluation(self, graph: Graph) -> str:
        """Return how the tick evaluated a scope: "changes", "restart" or "converged early"."""
        if not self.exact(graph):
            inside: Graph | None = graph
            while inside is not None:
                if inside in self.observed.restarted:
                    return "restart"
                inside = inside.parent
            return "converged early"
        return "changes"

    def passes_of(self, scope: str) -> list[ScopePass]:
        """Return the passes of the scope of this name."""
        return [each for each in self.passes if each.graph.parent and scope_name(each.graph) == scope]


def leaving(node: Node) -> Node | None:
    """Return the node of the outer circuit that emits the sum over iterations of a node, if any."""
    parent = node.graph.parent
    if parent is None:
        return None
    for outer in parent.nodes:
        operator = outer.operator
        if isinstance(operator, ScopeBoundary) and outer.inputs:
            exported = [each for each in operator.needs(outer) if each.graph is node.graph]
            if any(each is node for each in exported) and not operator.children():
                return outer
    return None
