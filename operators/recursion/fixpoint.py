"""Fixpoint: a nested scope stepped until nothing changes, incrementally over ticks and iterations.

    X[0] = 0,   X[i + 1] = body(X[i], imports),   result = X[i] for the first i with X[i + 1] = X[i]

A scope holds variables (delays of the iteration) and a body. Its streams are differences in two
dimensions, tick and iteration; the tick is compacted into "past" and "this tick" (see
`dbsp.state.trace`), the iteration is kept. So a tick visits only what changes at some iteration,
and deletions are exact: a row is supported only by derivations in earlier iterations, never by
itself. (DBSP paper, arXiv 2203.16684, section 5 and theorem 5.3.)

A scope has converged when no variable changes and no operator has work waiting for a later
iteration. An empty delta alone is not sufficient.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace

from dbsp.circuit.equality import shape
from dbsp.circuit.field_ranges import ONE_INPUT
from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.circuit.graph_copy import GraphCopy
from dbsp.circuit.operator_roles import Identified, ScopeBoundary, TickDependent, depends_on_ticks
from dbsp.circuit.rewriting import Rewriting
from dbsp.circuit.step import Step
from dbsp.circuit.step_roles import KeepingStep, ReplayingStep, keeping
from dbsp.circuit.step_scope import StepScope
from dbsp.data.batch import Batch
from dbsp.data.schema import Schema
from dbsp.errors import CircuitError, SchemaError, counted, expect_type
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.recursion.body import Body
from dbsp.operators.recursion.evaluation_options import keeps_stream
from dbsp.operators.recursion.fixpoint_step import FixpointStep
from dbsp.runtime.scope import Scope

NOTHING = Schema((), ())


@dataclass(frozen=True)
class Fixpoint(ScopeBoundary, TickDependent, Identified):
    """The scope as a node of the outer graph; `Leave` nodes emit its results."""

    body: Body

    @property
    def label(self) -> str:
        return f"Fixpoint {self.body.name}"

    @property
    def shareable(self) -> bool:
        return False

    @property
    def is_port(self) -> bool:
        return any(node.operator.is_port for node in self.body.nodes)

    def schema(self, *inputs: Schema) -> Schema:
        return NOTHING

    def check_inputs(self, graph: Graph, inputs: Sequence[Stream]) -> None:
        if self.body.parent is not graph or [s.node for s in inputs] != list(self.body.entered):
            raise CircuitError(
                f"expected the streams that enter the scope '{self.body.name}' as inputs, in their order",
                code="invalid-circuit-file",
            )

    def depends_on_ticks(self, node: Node) -> bool:
        return any(map(depends_on_ticks, self.body.nodes))

    def fingerprint(self, node: Node) -> Hashable:
        # The state includes the integral of an entering stream that no other operator keeps.
        return (Fixpoint, shape(self.body), tuple(keeps_stream(stream.node) for stream in node.inputs))

    def children(self) -> Sequence[Graph]:
        return (self.body,)

    @property
    def law(self) -> str:
        return "fixpoint"

    def copy(self, rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        # A node that depends on no variable of the scope is moved out of it.
        return self.rewritten(rewriting, node, inputs, lambda body, outer: outer, lambda value: value)

    def rewritten(
        self,
        rewriting: Rewriting,
        node: Node,
        inputs: Sequence[Stream],
        entering: Callable[[Body, Stream], Stream],
        leaving: Callable[[Stream], Stream],
    ) -> Stream:
        """Return the scope with its body rewritten.

        `entering` maps an outer stream to the image of the entering one; `leaving` maps the image
        of an exported stream to the export.
        """
        parent = rewriting.graph_of(node.graph)
        body = Body(self.body.name, parent, self.body.max_iterations, self.body.recursion)
        rewriting.map_graph(self.body, body)
        for inside, outer in zip(self.body.entered.values(), inputs, strict=True):
            rewriting.place(inside.node, entering(body, outer))
        rewriting.rewrite(self.body)
        body.exports = [body.enter(leaving(rewriting.image(s))) for s in self.body.exports]
        outside = [parent.stream_class(outer) for outer in body.entered]
        return rewriting.add(Fixpoint(body), *outside, graph=parent)

    def needs(self, node: Node) -> Iterable[Node]:
        # Entering streams are needed by their delta_0 inside, exports by their `Leave`.
        return [inside for inside in self.body.nodes if inside.operator.is_port]

    def copied(self, node: Node, copy: GraphCopy) -> Stream:
        parent = copy.graph_of(node.graph)
        body = Body(self.body.name, parent, self.body.max_iterations, self.body.recursion)
        copy.fill(self.body, body)
        leaving = [
            self.body.exports[reader.operator.index].node
            for reader in node.graph.nodes
            if copy.keeps(reader) and isinstance(reader.operator, Leave) and reader.inputs[0].node is node
        ]
        body.exports = [copy.image(inside) for inside in dict.fromkeys(leaving)]
        body.closed = self.body.closed
        outside = tuple(parent.stream_class(outer) for outer in body.entered)
        return parent.append(Fixpoint(body), outside, node.schema, node.source)

    def start(self, node: Node, sources: Sequence[Step], scope: StepScope) -> Step:
        if not isinstance(scope, Scope):
            raise AssertionError(f"expected a scope of a run to start a fixpoint in, got {scope!r}")
        return FixpointStep(node, self.body, sources, scope)


@dataclass(frozen=True)
class Leave(ScopeBoundary, Identified):
    """Emits the `index`-th result of a scope: the sum over its iterations."""

    input_counts = ONE_INPUT

    index: int
    columns: Schema
    is_set: bool = False
    kept: bool = False

    def schema(self, *inputs: Schema) -> Schema:
        return self.columns

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return self.is_set

    def check_inputs(self, graph: Graph, inputs: Sequence[Stream]) -> None:
        (scope,) = inputs
        fixpoint = scope.node.operator
        exports = fixpoint.body.exports if isinstance(fixpoint, Fixpoint) else []
        if not 0 <= self.index < len(exports):
            raise CircuitError(
                f"expected the number of a result of a scope, got {self.index} of {scope.node.describe()}, "
                f"which has {counted(len(exports), 'result')}",
                code="invalid-circuit-file",
            )
        export = exports[self.index]
        if export.schema.types != self.columns.types:
            raise SchemaError(
                f"expected the columns ({export.schema.describe()}), got ({self.columns.describe()})",
                code="schema-mismatch",
            )
        if self.kept and not export.node.operator.keeps_integral:
            raise CircuitError(
                f"expected a result that keeps its integral, got {export.node.describe()}",
                code="invalid-circuit-file",
            )

    def copy(self, rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        (scope,) = inputs
        export = fixpoint_of(scope).body.exports[self.index].node
        leave = Leave(self.index, self.columns, export.is_set, export.operator.keeps_integral)
        return rewriting.add(leave, scope)

    def needs(self, node: Node) -> Iterable[Node]:
        (scope,) = node.inputs
        return scope.node, fixpoint_of(scope).body.exports[self.index].node

    def copied(self, node: Node, copy: GraphCopy) -> Stream:
        (old,) = node.inputs
        scope = copy.image(old.node)
        export = copy.image(fixpoint_of(old).body.exports[self.index].node)
        index = [stream.node for stream in fixpoint_of(scope).body.exports].index(export.node)
        return scope.graph.append(replace(self, index=index), (scope,), node.schema, node.source)

    @property
    def keeps_integral(self) -> bool:
        return self.kept

    def fingerprint(self, node: Node) -> Hashable:
        # The index depends on the order of the readers, so the fingerprint has the exported stream.
        export = fixpoint_of(node.inputs[0]).body.exports[self.index].node
        return (Leave, export.id, self.columns, self.is_set, self.kept)

    def start(self, node: Node, sources: Sequence[Step], scope: StepScope) -> Step:
        (source,) = sources
        fixpoint = expect_type(source, FixpointStep, "the step of a fixpoint", where=node.describe())
        kind = KeptLeaveStep if self.kept else LeaveStep
        return kind(fixpoint, self.index)


def fixpoint_of(stream: Stream) -> Fixpoint:
    """Return the operator of a stream that represents a scope."""
    operator = stream.node.operator
    if not isinstance(operator, Fixpoint):
        raise AssertionError(f"expected the stream of a fixpoint, got {stream!r}")
    return operator


class LeaveStep(Step):
    __slots__ = ("_fixpoint", "_index")

    def __init__(self, fixpoint: FixpointStep, index: int) -> None:
        super().__init__()
        self._fixpoint = fixpoint
        self._index = index

    def step(self) -> None:
        self.out = self._fixpoint.results[self._index]


class KeptLeaveStep(LeaveStep, KeepingStep, ReplayingStep):
    """A result whose integral is kept inside the scope."""

    __slots__ = ()

    def integral(self) -> Batch:
        return keeping(self._fixpoint.export(self._index)).integral()

    @property
    def kept_rows(self) -> int:
        return keeping(self._fixpoint.export(self._index)).kept_rows

    def replay(self) -> None:
        self.out = self.integral() or None
