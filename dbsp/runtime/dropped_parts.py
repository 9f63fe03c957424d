"""The integrals of the rules that an edit drops, as the state before the edit gives them.

A rule that is a part of a relation keeps no rows of its own. So it is evaluated once more, by new
steps over the rows that the old circuit keeps. The old scope does not change, except that traces
may be merged.
"""

from __future__ import annotations

from dbsp.circuit.graph import Node
from dbsp.circuit.operator_roles import depends_on_ticks
from dbsp.circuit.step_roles import Arranged, KeepingStep, ReplayingStep, TracedStep
from dbsp.data.batch import Batch
from dbsp.runtime.acting_step import ActingStep, Action, emit, replay, step_as_usual
from dbsp.runtime.ports import InputPort
from dbsp.runtime.rebuilt_steps import continued
from dbsp.runtime.scope import Scope


class DroppedParts:
    """Nodes of the old circuit whose integrals an update subtracts."""

    def __init__(self, old: Scope) -> None:
        self._old = old
        self._parts: set[Node] = set()
        self._kept: dict[Node, KeepingStep] = {}
        """By node that takes part, the step that keeps its integral."""
        self._replayed: set[Node] = set()
        self._stepped: set[Node] = set()
        self.read_rows = 0
        """The number of rows that were read from the state before the edit."""

    def add(self, part: Node) -> bool:
        """Add a node; return False if the old circuit does not keep all rows that it needs."""
        kept: dict[Node, KeepingStep] = {}
        replayed: set[Node] = set()
        stepped: set[Node] = set()
        waiting = [part]
        while waiting:
            node = waiting.pop()
            if node in kept or node in replayed or node in stepped:
                continue
            step, keeper = self._old.by_node[node], self._old.keeper(node)
            if keeper is not None:
                kept[node] = keeper
            elif isinstance(step, ReplayingStep) and step.complete:
                replayed.add(node)
            elif isinstance(step, InputPort) or depends_on_ticks(node):
                return False
            else:
                stepped.add(node)
                waiting += (stream.node for stream in node.inputs)
        self._parts.add(part)
        self._kept |= kept
        self._replayed |= replayed
        self._stepped |= stepped
        return True

    def evaluate(self) -> dict[Node, Batch | None]:
        """Return the integral of every added node. Raises the errors of their evaluation."""
        kept = {node: keeper.integral() for node, keeper in self._kept.items()}
        if self._parts <= kept.keys():  # without new steps
            self.read_rows = sum(map(len, kept.values()))
            return {part: kept[part] or None for part in self._parts}
        actions: dict[Node, Action] = {node: emit(batch) for node, batch in kept.items()}
        actions |= dict.fromkeys(self._replayed, replay)
        actions |= dict.fromkeys(self._stepped, step_as_usual)
        old = self._old
        # The replay of a minimum searches an arrangement of its values.
        searched = {
            stream.node
            for node in self._replayed
            for stream in node.inputs
            if isinstance(old.by_node[stream.node], Arranged) and stream.node not in self._stepped
        }
        scope = continued(old, old.graph, old.interner, {node: node for node in self._replayed | searched})
        taking_part = [node for node in old.graph.nodes if node in actions]
        try:
            scope.run_steps([ActingStep(scope.by_node[node], actions[node]) for node in taking_part])
            outs = {node: scope.by_node[node].out for node in taking_part}
        finally:
            scope.rollback()
            for node in self._replayed:
                step = old.by_node[node]
                if isinstance(step, TracedStep):
                    step.trace.fresh = 0
        read = [outs[node] for node in taking_part if node not in self._stepped]
        self.read_rows = sum(len(batch) for batch in read if batch is not None)
        return {part: outs[part] for part in self._parts}
