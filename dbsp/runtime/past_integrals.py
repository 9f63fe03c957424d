"""The integral of any stream of a run as of a recorded tick, without keeping it.

    I(s)[t]  =  I(s)[now] - (s[t + 1] + ... + s[now])

The state of the run has the integrals of many streams; a recording has the later deltas. The
integral of any other stream follows from those of its inputs, since nodes compute lifted functions
(DBSP paper, arXiv 2203.16684, theorem 3.2): one step of a new scope over these integrals emits it.
For a stream inside a fixpoint, this step evaluates the fixpoint from scratch, and the integral is
the sum over its iterations.

Cost: O(n log n) for a stream that the state has; for others, evaluating the nodes on which it
depends from the nearest streams that the state has.
"""

from __future__ import annotations

from collections.abc import Sequence

from dbsp.circuit.graph import Node
from dbsp.circuit.operator_roles import depends_on_ticks
from dbsp.circuit.step import Step
from dbsp.data.batch import Batch
from dbsp.errors import CircuitError
from dbsp.runtime.pass_observer import ObservedScope, PassObserver
from dbsp.runtime.ports import InputPort, OutputPort
from dbsp.runtime.recorded_tick import RecordedTick, leaving
from dbsp.runtime.scope import Scope


def integral_of(scope: Scope, node: Node, later: Sequence[RecordedTick]) -> Batch:
    """Return the integral of a node before these ticks, which are the latest ones of the scope.

    Raises CircuitError if the state does not determine it: the rows of an input are not kept, or a
    node depends on the past ticks.
    """
    return _PastState(scope, later).integral(node)


class _PastState:
    def __init__(self, scope: Scope, later: Sequence[RecordedTick]) -> None:
        self._scope = scope
        self._later = later

    def integral(self, node: Node) -> Batch:
        found = self._kept(node)
        if found is None:
            outside = leaving(node)
            found = self._kept(outside) if outside is not None else None
        return self._evaluated(node) if found is None else found

    def _kept(self, node: Node) -> Batch | None:
        """Return the integral if the state has it, and the recording all later deltas."""
        for scope in self._scope.scopes():
            if node in scope.by_node:
                break
        else:
            return None
        if not all(tick.exact(node.graph) for tick in self._later):
            return None
        step = scope.by_node[node]
        keeper = scope.keeper(node)
        if keeper is not None:
            total = keeper.integral()
        elif isinstance(step, OutputPort):
            total = step.view()
        else:
            return None
        for tick in self._later:
            delta = tick.delta(node)
            if delta is not None:
                total = total.plus(delta, -1)
        return total

    def _evaluated(self, wanted: Node) -> Batch:
        """Return the integral that a step of a new scope emits over the integrals of its inputs."""
        top = wanted
        while top.graph.parent is not None:
            top = _holder(top)
        # The interner of the oldest tick has all values of that time, also those freed since.
        interner = self._later[0].interner if self._later else self._scope.interner
        draft = Scope(self._scope.graph, interner)
        emitted = self._required(draft, top, top is not wanted)
        total = _Sum(wanted)
        if top is not wanted:
            total.observe(draft)
        try:
            for node in draft.graph.nodes:
                if node in emitted:
                    integral = emitted[node]
                    step = draft.by_node[node]
                    if integral is None:
                        draft.run_steps([step])
                    else:
                        step.out = integral or None
            out = draft.by_node[wanted].out if top is wanted else total.sum()
        finally:
            draft.rollback()
            draft.release()
        return out or Batch.empty(wanted.schema.arity)

    def _required(self, draft: Scope, top: Node, evaluate: bool) -> dict[Node, Batch | None]:
        """Return the nodes that take part, each with its integral or None if it has to step."""
        emitted: dict[Node, Batch | None] = {}
        waiting = [top]
        while waiting:
            node = waiting.pop()
            if node in emitted:
                continue
            kept = None if node is top and evaluate else self._kept(node)
            emitted[node] = kept
            if kept is None:
                if isinstance(draft.by_node[node], InputPort) or depends_on_ticks(node):
                    raise CircuitError(
                        "the integral of this stream is not kept, and it does not follow from the state of "
                        "the run; make the stream an output, or declare the input with kind='set'",
                        where=node.describe(),
                        code="rows-not-kept",
                    )
                waiting += (stream.node for stream in node.inputs)
        return emitted


class _Sum(PassObserver):
    """Sums the deltas of one node over the iterations of a step that is never committed."""

    def __init__(self, node: Node) -> None:
        super().__init__()
        self._node = node

    def choose(self, scope: ObservedScope) -> Sequence[Step]:
        return [scope.by_node[self._node]] if self._node in scope.by_node else []

    def sum(self) -> Batch | None:
        """Return the sum so far."""
        if self.pending is None:
            return None
        passes = [batch for each in self.pending.passes for _, batch in each.deltas]
        total = Batch.empty(self._node.schema.arity)
        for batch in passes:
            total = total.plus(batch)
        return total


def _holder(node: Node) -> Node:
    """Return the node of the outer circuit that holds the scope of a node."""
    parent = node.graph.parent
    for outer in () if parent is None else parent.nodes:
        if node.graph in outer.operator.children():
            return outer
    raise AssertionError(f"expected a node that holds the scope of {node!r}")
