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
their views may differ, and inputs may be added and dropped.

A node whose state depends on ticks and not on sums (a delay, a watermark) must be in both circuits,
else the transplant is refused. The old scope does not change, except that traces may be merged, so
it stays usable after an error. Cost: one step of the rebuilt nodes, and O(n) for a replayed trace
of n rows. On several shards all of them transplant together, and the step exchanges rows.
"""

from __future__ import annotations

from collections.abc import Callable

from dbsp.circuit.equality import equal_nodes
from dbsp.circuit.graph import Graph, Node
from dbsp.circuit.operator_roles import Forgetful, depends_on_ticks
from dbsp.circuit.step import Step
from dbsp.circuit.step_roles import KeepingStep, ReplayingStep, TracedStep
from dbsp.errors import CircuitError, DbspError
from dbsp.runtime import observation
from dbsp.runtime.moved_integrals import MovableStreams, same_view
from dbsp.runtime.port_match import check_inputs, check_ports, inputs_of, outputs_of
from dbsp.runtime.ports import InputPort
from dbsp.runtime.rebuilt_steps import continued
from dbsp.runtime.scope import Scope


class Transplant:
    """One transplant: `scope` replaces `old`, which stays usable until the run switches.

    Raises CircuitError when the new circuit needs rows that the old one does not keep, or has a
    node that depends on ticks and is not in the old one. For a circuit of the `same_query`, it also
    raises CircuitError if it has other inputs, outputs or views; for one of another query, if an
    input has other columns. Also raises the errors of evaluating the new nodes.
    """

    def __init__(self, old: Scope, graph: Graph, same_query: bool = True) -> None:
        self.old = old
        self._same_query = same_query
        self._inputs = inputs_of(old)
        self._draft = Scope(graph, old.interner, budget=old.budget, link=old.link)
        (check_ports if same_query else check_inputs)(old, self._draft)
        numbers = equal_nodes([old.graph, graph])
        self._equal: dict[int, list[Node]] = {}
        for node in old.graph.nodes:
            self._equal.setdefault(numbers[node], []).append(node)
        self._numbers = numbers
        self._pairs = self._paired(graph)
        """For each new node the old node whose state it takes over."""
        self._actions: dict[Node, Callable[[Step], None]] = {}
        """The action of every node that takes part in the rebuilding step."""
        self.replayed_rows = 0
        """The number of rows that the rebuilding step read from kept state."""
        if not old.first_tick:
            self._movable = MovableStreams(old, numbers)
            self._decide(graph)
        pairs = self._inside_too()
        if old.first_tick:
            # There are no past ticks.
            self.scope = self._draft
        else:
            self.scope = continued(old, graph, old.interner, pairs)
            self._rebuild()
        observation.resume(self.scope, old, pairs)
        kept = {id(state) for states in self.scope.state.carried.states.values() for state in states}
        self.kept = len(kept)
        """The number of traces and tables taken over."""
        self.rebuilt = len(self.scope.traces) + len(self.scope.tables) - len(kept)
        """The number of traces and tables rebuilt."""
        self._dropped = [state for state in old.traces if id(state) not in kept]
        self._new = [state for state in self.scope.traces if id(state) not in kept]
        self.dropped = len(old.traces) + len(old.tables) - len(kept)
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
        return self._numbers[node] in self._equal and self._actions.get(node) is not _step

    def same_stream(self, old: Node, new: Node) -> bool:
        """Return whether top-level nodes of the two circuits have the same stream."""
        return self._numbers[old] == self._numbers[new]

    # --- pairs of equal nodes ---------------------------------------------------------------------

    def _paired(self, graph: Graph) -> dict[Node, Node]:
        pairs: dict[Node, Node] = {}
        left = {number: list(reversed(nodes)) for number, nodes in self._equal.items()}
        for node in graph.nodes:
            equal = left.get(self._numbers[node])
            if equal and self._state_fits(node, equal[-1]):
                pairs[node] = equal.pop()
        return pairs

    def _state_fits(self, node: Node, old: Node) -> bool:
        """Return whether the state of an equal node has all rows that the new node may read."""
        if not isinstance(old.operator, Forgetful):
            return True
        read, late = ([self._numbers[stream.node] for stream in each.strict] for each in (node, old))
        return node.operator == old.operator and read == late

    def _decide(self, graph: Graph) -> None:
        """Decide which nodes take part in the rebuilding step, and how."""
        for node in graph.nodes:
            if node in self._pairs:
                continue
            if depends_on_ticks(node):
                raise CircuitError(
                    "the output of this node depends on the past ticks, and the running circuit has no "
                    "equal node over the same inputs; the run continues with its current circuit",
                    where=node.describe(),
                    code="different-circuits",
                )
            own = hasattr(self._draft.by_node[node], "rollback")
            if own or self._draft.state.by_node.get(node) or node.operator.children():
                self._require(node)

    def _require(self, node: Node) -> None:
        """Make the node emit its integral in the rebuilding step."""
        waiting = [node]
        while waiting:
            node = waiting.pop()
            if node in self._actions:
                continue
            step = self._draft.by_node[node]
            if node in self._pairs and isinstance(step, ReplayingStep) and step.complete:
                self._actions[node] = _replay
                continue
            keeper = self._keeper(node)
            if keeper is not None:
                self._actions[node] = _EmitIntegral(keeper)
                continue
            moved = self._movable.find(node)
            if moved is not None:
                self._actions[node] = moved
                continue
            if isinstance(step, InputPort) and step.relation not in self._inputs:
                self._actions[node] = _emit_nothing
                continue
            if isinstance(step, InputPort) or depends_on_ticks(node):
                raise CircuitError(
                    "the new circuit needs all past rows of this node, and the running circuit does not "
                    "keep them; the run continues with its current circuit",
                    where=node.describe(),
                    code="rows-not-kept",
                )
            self._pairs.pop(node, None)
            self._actions[node] = _step
            waiting += (stream.node for stream in node.inputs)

    def _keeper(self, node: Node) -> KeepingStep | None:
        """Return a step of the old scope that keeps the integral of the node's output, or None."""
        keepers = map(self.old.keeper, self._equal.get(self._numbers[node], ()))
        return next((keeper for keeper in keepers if keeper is not None), None)

    def _inside_too(self) -> dict[Node, Node]:
        """Return the pairs of nodes, those of nested scopes included."""
        pairs = dict(self._pairs)
        waiting = list(pairs.items())
        while waiting:
            new, old = waiting.pop()
            for mine, theirs in zip(new.operator.children(), old.operator.children(), strict=True):
                inside = list(zip(mine.nodes, theirs.nodes, strict=True))
                pairs.update(inside)
                waiting += inside
        return pairs

    # --- the new scope ----------------------------------------------------------------------------

    def _rebuild(self) -> None:
        """Run the step that rebuilds the missing state; commit it unless something raises."""
        scope = self.scope
        taking_part = [
            (scope.by_node[node], self._actions[node]) for node in scope.graph.nodes if node in self._actions
        ]
        try:
            scope.run_steps([_Acting(step, action) for step, action in taking_part])
            if self._same_query:
                self._check_views()
            self.replayed_rows = sum(
                len(step.out.weights)
                for step, action in taking_part
                if action is not _step and step.out is not None
            )
        except BaseException as error:
            scope.rollback()
            if isinstance(error, DbspError):
                work, kept = ("replanning", "circuit") if self._same_query else ("the update", "program")
                error.add_note(f"This happened during {work}; the run continues with its current {kept}.")
            raise
        finally:
            for step, action in taking_part:
                if action is _replay and isinstance(step, TracedStep):
                    step.trace.fresh = False
        for listener in scope.listeners:
            listener.drop()
        scope.commit()
        scope.forget()

    def _check_views(self) -> None:
        """Check that the rebuilt views equal the old ones, as those of an equal query do."""
        before = outputs_of(self.old)
        for name, port in outputs_of(self.scope).items():
            if port.node in self._pairs and not any(s.node in self._actions for s in port.node.inputs):
                continue
            if not same_view(before[name], port, self.scope):
                raise CircuitError(
                    f"the new circuit belongs to another query: output '{name}' would have other rows",
                    where=port.node.describe(),
                    code="different-circuits",
                )


class _Acting(Step):
    """Runs the action of another step in the rebuilding step."""

    __slots__ = ("_action", "_step")

    def __init__(self, step: Step, action: Callable[[Step], None]) -> None:
        super().__init__()
        self.node = step.node
        self._step = step
        self._action = action

    def step(self) -> None:
        self._action(self._step)


def _step(step: Step) -> None:
    step.step()


def _emit_nothing(step: Step) -> None:
    """Step an input that the old circuit does not have: it has no past rows."""
    step.out = None


def _replay(step: Step) -> None:
    if not isinstance(step, ReplayingStep):
        raise AssertionError(f"{type(step).__name__} cannot replay its past")
    step.replay()


class _EmitIntegral:
    """Makes a step emit the integral that a step of the old scope keeps of its stream."""

    __slots__ = ("_keeper",)

    def __init__(self, keeper: KeepingStep) -> None:
        self._keeper = keeper

    def __call__(self, step: Step) -> None:
        step.out = self._keeper.integral() or None
