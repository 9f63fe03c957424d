"""The plan of the step that moves the state of a run into another circuit.

Every node of the new circuit that takes part has one or both of two values in this step:

    total     I(n), the integral of its stream after the step
    delta     D(n) = I(n) - I(o), with o its counterpart in the old circuit

Nodes with new state step over totals. Carried nodes step over deltas (see
`dbsp.runtime.counterparts`). A carried node also has a total if a node with new state reads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dbsp.circuit.graph import Node
from dbsp.circuit.operator_roles import Forgetful, depends_on_ticks
from dbsp.circuit.step_roles import Arranged, KeepingStep, ReplayingStep
from dbsp.data.batch import Batch
from dbsp.errors import CircuitError
from dbsp.runtime.acting_step import Action, emit, replay, step_as_usual
from dbsp.runtime.counterparts import Counterparts
from dbsp.runtime.dropped_parts import DroppedParts
from dbsp.runtime.moved_integrals import MovableStreams
from dbsp.runtime.port_match import inputs_of
from dbsp.runtime.ports import InputPort
from dbsp.runtime.scope import Scope


class RebuildPlan:
    """Which nodes take part in the step, and how.

    `draft` is a scope of the new circuit without state. `counterparts` may be empty: then no node
    is carried. `known` are totals that an earlier step has computed.
    Raises CircuitError if a node needs rows that the old circuit does not keep.
    """

    def __init__(
        self,
        old: Scope,
        draft: Scope,
        numbers: Mapping[Node, int],
        counterparts: Counterparts,
        known: Mapping[Node, Batch | None],
    ) -> None:
        self._old = old
        self._draft = draft
        self._numbers = numbers
        self._counterparts = counterparts
        self._known = known
        self._carried = counterparts.carried
        self._inputs = inputs_of(old)
        self._movable = MovableStreams(old, numbers)
        self._equal = equal_nodes_of(old, numbers)
        self.pairs = paired(draft, self._equal, numbers)
        """For each kept node the old node whose state it takes over."""
        self.totals: dict[Node, Action | KeepingStep] = {}
        """How each node gets its total: by an action, or from a step of the old scope that keeps
        the integral of its stream. A carried node adds its delta to the latter."""
        self.deltas: set[Node] = set()
        """The nodes whose deltas are needed."""
        self.dropped = DroppedParts(old)
        self.refused: set[Node] = set()
        """Nodes that cannot be counterparts: then the plan is not valid."""
        for node in draft.graph.nodes:
            if node in self._carried:
                if self.has_state(node):
                    self.need_delta(node)
            elif node not in self.pairs:
                self._check_ticks(node)
                if self.has_state(node):
                    self._need_total(node)

    def need_delta(self, node: Node) -> None:
        """Make the step compute the delta of a node that has a counterpart."""
        counterparts = self._counterparts
        waiting = [node]
        while waiting:
            node = waiting.pop()
            if node in self.deltas:
                continue
            self.deltas.add(node)
            if node in counterparts.carried:
                differs = counterparts.carried[node]
                waiting += (s.node for s, d in zip(node.inputs, differs, strict=True) if d)
                continue
            parts = counterparts.bridged[node]
            waiting += parts.changed
            if all(map(self.dropped.add, parts.dropped)):
                for part in parts.added:
                    self._need_total(part)
            else:
                self.refused.add(node)

    def check(self) -> None:
        """Add to `refused` the carried nodes that would not find their state in the new circuit."""
        for node in self.deltas & self._counterparts.carried.keys():
            for stream, differs in zip(node.inputs, self._counterparts.carried[node], strict=True):
                arranged = isinstance(self._draft.by_node[stream.node], Arranged)
                if arranged and stream.node not in (self._carried if differs else self.pairs):
                    self.refused.add(node)
                if node.operator.children() and not self._has_integral(stream.node, node):
                    self.refused.add(node)

    def _has_integral(self, entering: Node, scope: Node) -> bool:
        """Return whether a scope that restarts finds the integral of an entering stream."""
        keeper = self._draft.keeper(entering)
        if keeper is None or keeper.node.id < scope.id:
            return True
        return keeper.node in self.pairs or keeper.node in self._carried

    def has_state(self, node: Node) -> bool:
        """Return whether the step of a node has state of its own."""
        step = self._draft.by_node[node]
        own = hasattr(step, "rollback") or self._draft.state.by_node.get(node) or node.operator.children()
        return bool(own)

    def _check_ticks(self, node: Node) -> None:
        if depends_on_ticks(node):
            raise CircuitError(
                "the output of this node depends on the past ticks, and the running circuit has no equal "
                "node over the same inputs; the run continues with its current circuit",
                where=node.describe(),
                code="different-circuits",
            )

    def _need_total(self, node: Node) -> None:
        """Make the node emit its integral in the step."""
        waiting = [node]
        while waiting:
            node = waiting.pop()
            if node in self.totals:
                continue
            if node in self._known:
                self.totals[node] = emit(self._known[node])
                continue
            step = self._draft.by_node[node]
            replays = isinstance(step, ReplayingStep) and step.complete
            if replays and (node in self.pairs or node in self._carried):
                self.totals[node] = replay
                if node in self._carried:
                    self.need_delta(node)
                continue
            keeper = self._keeper(node)
            if keeper is not None:
                self.totals[node] = keeper
                if node in self._carried:
                    self.need_delta(node)
                continue
            moved = self._movable.find(node)
            if moved is not None:
                self.totals[node] = moved
                continue
            if isinstance(step, InputPort) and step.relation not in self._inputs:
                self.totals[node] = emit(None)  # it has no past rows
                continue
            if isinstance(step, InputPort) or depends_on_ticks(node):
                raise CircuitError(
                    "the new circuit needs all past rows of this node, and the running circuit does not "
                    "keep them; the run continues with its current circuit",
                    where=node.describe(),
                    code="rows-not-kept",
                )
            if node in self._carried and self.has_state(node):
                self.refused.add(node)
            self.pairs.pop(node, None)
            self.totals[node] = step_as_usual
            waiting += (stream.node for stream in node.inputs)

    def _keeper(self, node: Node) -> KeepingStep | None:
        """Return a step of the old scope that keeps the integral of the node, or of the node that
        it continues; None if there is none."""
        if node in self._carried:
            return self._old.keeper(self._counterparts.of[node])
        keepers = map(self._old.keeper, self._equal.get(self._numbers[node], ()))
        return next((keeper for keeper in keepers if keeper is not None), None)


def equal_nodes_of(old: Scope, numbers: Mapping[Node, int]) -> dict[int, list[Node]]:
    """Return the nodes of a scope by their numbers."""
    found: dict[int, list[Node]] = {}
    for node in old.graph.nodes:
        found.setdefault(numbers[node], []).append(node)
    return found


def paired(
    draft: Scope, equal: Mapping[int, Sequence[Node]], numbers: Mapping[Node, int]
) -> dict[Node, Node]:
    """Return for the nodes of a new circuit the old nodes whose state they take over unchanged."""
    pairs: dict[Node, Node] = {}
    left = {number: list(reversed(nodes)) for number, nodes in equal.items()}
    for node in draft.graph.nodes:
        found = left.get(numbers[node])
        if found and _state_fits(node, found[-1], numbers):
            pairs[node] = found.pop()
    return pairs


def _state_fits(node: Node, old: Node, numbers: Mapping[Node, int]) -> bool:
    """Return whether the state of an equal node has all rows that the new node may read."""
    if not isinstance(old.operator, Forgetful):
        return True
    read, late = ([numbers[stream.node] for stream in each.strict] for each in (node, old))
    return node.operator == old.operator and read == late
