"""Transplanting a run: move its state into another circuit of the same query.

The new scope gets the state that stepping all past ticks would give it. The state of a node is
determined by the integrals of its inputs, since nodes compute lifted functions of Z-sets
incrementally:

    sum over t of Q^D(d)[t] = Q(sum over t of d[t])      (DBSP paper, arXiv 2203.16684, theorem 3.2)

Therefore one step can apply all past changes. Nodes that compute the same in both circuits
(`dbsp.circuit.equality`) keep their traces and tables. One step rebuilds the others; in this step

    kept nodes     replay: they emit their integral as the delta, if another node requires it;
    other nodes    step as usual, if another node requires their output;
    inputs         emit their rows, as an arrangement of the old circuit keeps them;
    exchanges      move the rows that the old circuit keeps in another placement.

An update moves the state into the circuit of another query in the same way; then the outputs and
their views may differ, and inputs may be added and dropped. The nodes behind an edit keep their
state, and step over the difference of the two queries (see `dbsp.runtime.counterparts`).

A node whose state depends on ticks and not on sums (a delay, a watermark) must be in both circuits,
else the transplant is refused. The old scope does not change, except that traces may be merged, and
that an update changes the traces of carried nodes. Cost: one step of the rebuilt and of the carried
nodes, and O(n) for a replayed trace of n rows. On several shards all of them transplant together,
and the step exchanges rows.
"""

from __future__ import annotations

from collections.abc import Mapping

from dbsp.circuit.equality import equal_nodes
from dbsp.circuit.graph import Graph, Node
from dbsp.circuit.shard_link import Alone
from dbsp.data.batch import Batch, sum_if_any
from dbsp.errors import CircuitError, DbspError
from dbsp.runtime import observation
from dbsp.runtime.acting_step import step_as_usual
from dbsp.runtime.counterparts import Counterparts, find_counterparts
from dbsp.runtime.moved_integrals import same_view
from dbsp.runtime.port_match import check_inputs, check_ports, outputs_of
from dbsp.runtime.ports import OutputPort
from dbsp.runtime.rebuild_plan import RebuildPlan, equal_nodes_of, paired
from dbsp.runtime.rebuilding import LargeDifferenceError, Rebuilding
from dbsp.runtime.rebuilt_steps import continued
from dbsp.runtime.relation_nodes import relation_nodes
from dbsp.runtime.scope import Scope


class Transplant:
    """One transplant: `scope` replaces `old`, which stays usable until the run switches.

    Raises CircuitError when the new circuit needs rows that the old one does not keep, or has a
    node that depends on ticks and is not in the old one. For a circuit of the `same_query`, it also
    raises CircuitError if it has other inputs, outputs or views; for one of another query, if an
    input has other columns. Also raises the errors of evaluating the new nodes. A transplant to
    another query changes the traces of carried nodes, and a savepoint of `old` undoes it.
    """

    def __init__(self, old: Scope, graph: Graph, same_query: bool = True) -> None:
        self.old = old
        self._same_query = same_query
        # A shard has some rows of a stream only, and its exchanges must be those of all shards.
        self._carries = not same_query and isinstance(old.link, Alone)
        self._draft = Scope(graph, old.interner, budget=old.budget, link=old.link)
        (check_ports if same_query else check_inputs)(old, self._draft)
        self._numbers = equal_nodes([old.graph, graph])
        self._equal = equal_nodes_of(old, self._numbers)
        self._counterparts = Counterparts()
        self._plan: RebuildPlan | None = None
        self.replayed_rows = 0
        """The number of rows that the rebuilding step read from kept state."""
        self.output_changes: dict[str, Batch] = {}
        """The rows of each output less those in the old circuit; outputs without change are left
        out."""
        if old.first_tick:
            # There are no past ticks.
            self.scope = self._draft
            pairs = paired(self._draft, self._equal, self._numbers)
            carried: dict[Node, Node] = {}
        else:
            pairs, carried = self._transplant()
        observation.resume(self.scope, old, self._inside_too(pairs | carried))
        self._count(carried)

    def _count(self, carried: dict[Node, Node]) -> None:
        """Count the traces and tables by what happened to them."""
        old, after = self.old, [*self.scope.traces, *self.scope.tables]
        taken = {id(state) for states in self.scope.state.carried.states.values() for state in states}
        # A carried recursion that has restarted has other traces.
        taken &= {id(state) for state in after}
        within = {
            id(state)
            for node in self._inside_too(carried)
            for state in self.scope.state.carried.states.get(node, ())
        }
        self.kept = len(taken - within)
        """The number of traces and tables taken over unchanged."""
        self.changed = len(taken & within)
        """The number of traces and tables taken over that took the difference."""
        self.rebuilt = len(after) - len(taken)
        """The number of traces and tables rebuilt."""
        self._dropped = [state for state in old.traces if id(state) not in taken]
        self._new = [state for state in self.scope.traces if id(state) not in taken]
        self.dropped = len(old.traces) + len(old.tables) - len(taken)
        """The number of traces and tables that the new circuit does not need."""

    def release(self) -> None:
        """Release the traces that only the old scope keeps."""
        for trace in self._dropped:
            trace.release()

    def withdraw(self) -> None:
        """Release the traces that only the new scope keeps."""
        for trace in self._new:
            trace.release()

    def keeps(self, node: Node) -> bool:
        """Return whether the old circuit has the stream of a node, and it is not rebuilt."""
        rebuilt = self._plan is not None and self._plan.totals.get(node) is step_as_usual
        return self._numbers[node] in self._equal and not rebuilt

    def changes(self, old: Node, new: Node) -> bool:
        """Return whether a node of the new circuit took the difference from a node of the old one,
        and was not evaluated from scratch."""
        if self._counterparts.of.get(new) is not old:
            return False
        return new in self._counterparts.carried or self.keeps(new)

    def same_stream(self, old: Node, new: Node) -> bool:
        """Return whether top-level nodes of the two circuits have the same stream."""
        return self._numbers[old] == self._numbers[new]

    # --- the plan ---------------------------------------------------------------------------------

    def _transplant(self) -> tuple[dict[Node, Node], dict[Node, Node]]:
        """Rebuild the scope; return the nodes that were kept, and those that were carried.

        If a difference turns out to be large, start again without it, and finally without any.
        """
        old, refused = self.old, set[Node]()
        known: dict[Node, Batch | None] = {}
        for carries in (True, True, False):
            plan = self._plan = self._planned(refused, known, carries and self._carries)
            counterparts = self._counterparts
            carried = {node: counterparts.of[node] for node in counterparts.carried}
            pairs = self._inside_too(plan.pairs | carried)
            self.scope = continued(old, self._draft.graph, old.interner, pairs)
            try:
                self._rebuild(plan)
            except LargeDifferenceError as error:
                refused |= self._readers_within_relation(error.node)
                known |= error.totals
                kept = set(map(id, old.traces))
                for trace in self.scope.traces:
                    if id(trace) not in kept:
                        trace.release()
                continue
            return plan.pairs, carried
        raise AssertionError("without counterparts, no difference is large")

    def _planned(self, refused: set[Node], known: Mapping[Node, Batch | None], carries: bool) -> RebuildPlan:
        """Return the plan of the rebuilding step; refuse counterparts that cannot be computed."""
        while True:
            self._counterparts = Counterparts()
            if carries:
                graphs = self.old.graph, self._draft.graph
                self._counterparts = find_counterparts(*graphs, self._numbers, refused)
            plan = RebuildPlan(self.old, self._draft, self._numbers, self._counterparts, known)
            for before, after in self._changed_outputs():
                if self._has_delta(before, after):
                    plan.need_delta(_stream(after))
            plan.check()
            if not plan.refused:
                return plan
            refused |= plan.refused

    def _readers_within_relation(self, node: Node) -> set[Node]:
        """Return a node and the nodes behind it, up to the first ones of relations."""
        graph = self._draft.graph
        ends = set(relation_nodes(graph).values())
        found = {node}
        for each in graph.nodes:
            if any(stream.node in found and stream.node not in ends for stream in each.inputs):
                found.add(each)
        return found

    def _changed_outputs(self) -> list[tuple[OutputPort | None, OutputPort]]:
        """Return the outputs of the new circuit whose streams the old one does not have under the
        same name, each with that of the old circuit if it has the same columns."""
        before = outputs_of(self.old)
        found: list[tuple[OutputPort | None, OutputPort]] = []
        for name, port in outputs_of(self._draft).items():
            known = before.get(name)
            if known is not None and known.columns.types != port.columns.types:
                known = None
            if known is None or not self.same_stream(_stream(known), _stream(port)):
                found.append((known, port))
        return found

    def _has_delta(self, before: OutputPort | None, after: OutputPort) -> bool:
        """Return whether the rebuilding step computes the change of an output."""
        return before is not None and self._counterparts.of.get(_stream(after)) is _stream(before)

    def _inside_too(self, top: dict[Node, Node]) -> dict[Node, Node]:
        """Return pairs of nodes with those in nested scopes."""
        pairs = dict(top)
        waiting = list(pairs.items())
        while waiting:
            new, old = waiting.pop()
            for mine, theirs in zip(new.operator.children(), old.operator.children(), strict=True):
                inside = list(zip(mine.nodes, theirs.nodes, strict=True))
                pairs.update(inside)
                waiting += inside
        return pairs

    # --- the new scope ----------------------------------------------------------------------------

    def _rebuild(self, plan: RebuildPlan) -> None:
        """Run the step that rebuilds the missing state; commit it unless something raises."""
        scope = self.scope
        step = Rebuilding(self.old, scope, plan, self._counterparts)
        outputs = [] if self._same_query else self._changed_outputs()
        views = {
            after.relation: before.view()
            for before, after in outputs
            if before is not None and not self._has_delta(before, after)
        }
        try:
            self.replayed_rows = step.run()
            if self._same_query:
                self._check_views(plan)
        except BaseException as error:
            scope.rollback()
            if isinstance(error, DbspError):
                work, kept = ("replanning", "circuit") if self._same_query else ("the update", "program")
                error.add_note(f"This happened during {work}; the run continues with its current {kept}.")
            raise
        for before, after in outputs:
            name = after.relation
            if self._has_delta(before, after):
                change = step.deltas[_stream(after)]
            else:
                change = sum_if_any(outputs_of(scope)[name].view(), views.get(name), -1)
            if change is not None:
                self.output_changes[name] = change
        for listener in scope.listeners:
            listener.drop()
        scope.commit()
        scope.forget()

    def _check_views(self, plan: RebuildPlan) -> None:
        """Check that the rebuilt views equal the old ones, as those of an equal query do."""
        before = outputs_of(self.old)
        for name, port in outputs_of(self.scope).items():
            if port.node in plan.pairs and not any(s.node in plan.totals for s in port.node.inputs):
                continue
            if not same_view(before[name], port, self.scope):
                raise CircuitError(
                    f"the new circuit belongs to another query: output '{name}' would have other rows",
                    where=port.node.describe(),
                    code="different-circuits",
                )


def _stream(port: OutputPort) -> Node:
    """Return the node whose stream an output emits."""
    return port.node.inputs[0].node
