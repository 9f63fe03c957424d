"""The step that moves the state of a run into another circuit (see `dbsp.runtime.rebuild_plan`).

It visits the nodes of the new circuit in order. Before a node steps, its inputs show their totals
or their deltas: the latest output of an input, and which runs of its trace count as new.
"""

from __future__ import annotations

from collections.abc import Mapping

from dbsp.circuit.graph import Node
from dbsp.circuit.step import Step
from dbsp.circuit.step_roles import Arranged, KeepingStep, TracedStep
from dbsp.data.batch import Batch, sum_if_any
from dbsp.runtime.acting_step import ActingStep, replay, step_as_usual
from dbsp.runtime.counterparts import Counterparts
from dbsp.runtime.rebuild_plan import RebuildPlan
from dbsp.runtime.scope import Scope

LARGE = 10_000
"""A difference of at most so many rows is never too large to carry."""
LARGE_SHARE = 2
"""A difference is too large to carry if it has more rows than one of this many of its relation."""


class LargeDifferenceError(Exception):
    """Carrying the readers of `node` over its difference would cost more than rebuilding them."""

    def __init__(self, node: Node, totals: Mapping[Node, Batch | None]) -> None:
        super().__init__()
        self.node = node
        self.totals = totals
        """The totals of nodes without state that the step has computed."""


class Rebuilding:
    """One such step of `scope`, by the state of `old`, which both scopes share for kept nodes."""

    def __init__(self, old: Scope, scope: Scope, plan: RebuildPlan, counterparts: Counterparts) -> None:
        self._old = old
        self._scope = scope
        self._plan = plan
        self._counterparts = counterparts
        self._kept: dict[Node, Batch] = {}
        """The integrals before the step, by node that gets its total from them."""
        self._dropped: dict[Node, Batch | None] = {}
        self._totals: dict[Node, Batch | None] = {}
        self.deltas: dict[Node, Batch | None] = {}
        """The change of each stream that has a counterpart, as far as the step needed it."""

    def run(self) -> int:
        """Step; return the number of rows that were read from kept state.

        Raises the errors of the nodes, and LargeDifferenceError; then the caller rolls the scope
        back.
        """
        plan, scope = self._plan, self._scope
        # Before any trace changes.
        self._dropped = plan.dropped.evaluate()
        for node, source in plan.totals.items():
            if isinstance(source, KeepingStep):
                self._kept[node] = source.integral()
        try:
            scope.run_steps([each for node in scope.graph.nodes for each in self._visits(node)])
        finally:
            for node, action in plan.totals.items():
                step = scope.by_node[node]
                if action is replay and isinstance(step, TracedStep):
                    step.trace.fresh = 0
        read = [self._totals[node] for node, action in plan.totals.items() if action is not step_as_usual]
        return plan.dropped.read_rows + sum(len(batch) for batch in read if batch is not None)

    def _visits(self, node: Node) -> list[Step]:
        """Return the actions on a node in their order: the total of a carried node follows its
        delta, and the delta of a bridged one its total."""
        step, found = self._scope.by_node[node], []
        carried = node in self._counterparts.carried
        if node in self._plan.deltas and carried:
            found.append(ActingStep(step, self._step_over_deltas))
        if node in self._plan.totals:
            found.append(ActingStep(step, self._make_total))
        if node in self._plan.deltas and not carried:
            found.append(ActingStep(step, self._bridge))
        return list(found)

    def _make_total(self, step: Step) -> None:
        node = step.node
        source = self._plan.totals[node]
        if isinstance(source, KeepingStep):
            kept, change = self._kept[node], self.deltas.get(node)
            carried = node in self._counterparts.carried
            step.out = sum_if_any(kept, change if carried else None, 1)
        else:
            if source is step_as_usual:
                for stream in node.inputs:
                    self._show(stream.node, self._totals.get(stream.node), whole=True)
            source(step)
        self._totals[node] = step.out

    def _step_over_deltas(self, step: Step) -> None:
        node = step.node
        differs = self._counterparts.carried[node]
        some = False
        for stream, changed in zip(node.inputs, differs, strict=True):
            delta = self.deltas[stream.node] if changed else None
            some = some or delta is not None
            self._show(stream.node, delta, whole=False)
        step.out = None
        if some or not step.quiet:
            step.step()
        self.deltas[node] = step.out

    def _bridge(self, step: Step) -> None:
        node = step.node
        parts = self._counterparts.bridged[node]
        added = [self._totals[part] for part in parts.added]
        added += [self.deltas[part] for part in parts.changed]
        delta: Batch | None = None
        for batch in added:
            delta = sum_if_any(delta, batch, 1)
        for part in parts.dropped:
            delta = sum_if_any(delta, self._dropped[part], -1)
        if delta is not None and self._is_large(node, len(delta)):
            raise LargeDifferenceError(node, self._totals_without_state())
        self.deltas[node] = delta

    def _totals_without_state(self) -> dict[Node, Batch | None]:
        stepped = [node for node in self._totals if self._plan.totals[node] is step_as_usual]
        return {node: self._totals[node] for node in stepped if not self._plan.has_state(node)}

    def _is_large(self, node: Node, rows: int) -> bool:
        """Return whether so many changed rows are a large part of the rows of a bridged node."""
        if rows <= LARGE:
            return False
        keeper = self._old.keeper(self._counterparts.of[node])
        total = self._totals.get(node)
        kept = 0 if total is None else len(total)
        if keeper is not None:
            kept = keeper.kept_rows
        return kept > 0 and LARGE_SHARE * rows > kept

    def _show(self, node: Node, batch: Batch | None, whole: bool) -> None:
        """Let a step emit a batch, as its integral or as its delta, for the next step."""
        step = self._scope.by_node[node]
        step.out = batch
        if isinstance(step, Arranged) and isinstance(step, TracedStep):
            step.trace.fresh = step.trace.count if whole else int(batch is not None)
