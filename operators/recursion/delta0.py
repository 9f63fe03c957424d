"""delta_0: how a stream of the outer circuit enters a nested scope.

    delta_0(s)[tick, iteration] = s[tick] if iteration = 0 else 0

The outer stream has one value per tick. Inside the scope a stream has one value per tick and
iteration: a row of the table per tick, a column per iteration. delta_0 puts the outer value into
the first column.

                         iteration
    tick   s             0      1      2     ...
    0      s[0]   -->    s[0]   0      0
    1      s[1]   -->    s[1]   0      0
    2      s[2]   -->    s[2]   0      0

The operators of the scope read such a stream as changes over iterations, so they use its sum over
the iterations so far. In this sum the outer value is present in every iteration:

                         iteration
    tick                 0      1      2     ...
    0                    s[0]   s[0]   s[0]
    1                    s[1]   s[1]   s[1]
    2                    s[2]   s[2]   s[2]

For example, let the outer stream `edge` insert one edge in each of two ticks, and let the scope
compute paths from it. The change of `path` at iteration i consists of the paths of i + 1 edges
that are new in the tick:

    tick   edge      delta_0(edge): 0, 1, ...     path: 0             1
    0      (1, 2)    (1, 2)    0                  (1, 2)              0
    1      (2, 3)    (2, 3)    0                  (2, 3)              (1, 3)

Reference: Budiu et al., DBSP, arXiv 2203.16684, section 5.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dbsp.circuit.field_ranges import NO_INPUT
from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.circuit.graph_copy import GraphCopy
from dbsp.circuit.operator_roles import ScopeBoundary
from dbsp.circuit.step import Step
from dbsp.circuit.step_roles import Arranged, KeepingStep, keeping
from dbsp.circuit.step_scope import StepScope
from dbsp.data.batch import Batch
from dbsp.data.schema import Schema
from dbsp.errors import CircuitError
from dbsp.kernels.arrays import Codes
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.recursion.entering_streams import EnteringStreams


@dataclass(frozen=True)
class Delta0(ScopeBoundary):
    """The outer stream number `index` of a scope, as a stream inside the scope."""

    input_counts = NO_INPUT

    index: int
    columns: Schema
    is_set: bool
    kept: bool = False

    def schema(self, *inputs: Schema) -> Schema:
        return self.columns

    def check_inputs(self, graph: Graph, inputs: Sequence[Stream]) -> None:
        # `Graph.enter` adds the node of a stream that enters the scope, and does not check it.
        raise CircuitError("expected a stream that enters the scope, got none", code="invalid-circuit-file")

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return self.is_set

    def needs(self, node: Node) -> Iterable[Node]:
        return [_outer(node)]

    def copied(self, node: Node, copy: GraphCopy) -> Stream:
        scope = copy.graph_of(node.graph)
        with scope.at(node.source):
            return scope.enter(copy.image(_outer(node)))

    @property
    def keeps_integral(self) -> bool:
        return self.kept

    def start(self, node: Node, sources: Sequence[Step], scope: StepScope) -> Step:
        entering = scope.shared(EnteringStreams)
        outer = entering.sources[self.index]
        if isinstance(outer, Arranged):
            return ArrangedDelta0Step(outer, self.index, entering, scope)
        return Delta0Step(outer, self.index, entering, scope)


def _outer(node: Node) -> Node:
    """The node of the outer graph whose stream enters the scope by this node."""
    return node.graph.outer_of(Stream(node)).node


class Delta0Step(KeepingStep):
    __slots__ = ("_entering", "_index", "_outer", "_scope")

    def __init__(self, outer: Step, index: int, entering: EnteringStreams, scope: StepScope) -> None:
        super().__init__()
        self._outer = outer
        self._index = index
        self._entering = entering
        self._scope = scope

    def integral(self) -> Batch:
        return keeping(self._outer).integral()

    @property
    def kept_rows(self) -> int:
        return keeping(self._outer).kept_rows

    def step(self) -> None:
        iteration, entering = self._scope.iteration, self._entering
        self.out = entering.at(self._index, iteration) if iteration == entering.iteration else None


class ArrangedDelta0Step(Arranged):
    """Reads an outer trace inside the scope: its rows count as iteration 0 and are not copied."""

    __slots__ = ("_entering", "_index", "_outer", "_scope")

    def __init__(self, outer: Arranged, index: int, entering: EnteringStreams, scope: StepScope) -> None:
        super().__init__()
        self._outer = outer
        self._index = index
        self._entering = entering
        self._scope = scope

    def step(self) -> None:
        iteration, entering = self._scope.iteration, self._entering
        self.out = entering.at(self._index, iteration) if iteration == entering.iteration else None

    def integral(self) -> Batch:
        return self._outer.integral()

    @property
    def kept_rows(self) -> int:
        return self._outer.kept_rows

    @property
    def before(self) -> int:
        if self._scope.iteration != self._entering.iteration:
            return self.count
        values = self._entering.values
        return self._outer.before if values is None else values[self._index].before

    @property
    def count(self) -> int:
        values = self._entering.values
        return self._outer.count if values is None else values[self._index].end

    @property
    def table(self) -> Codes:
        values = self._entering.values
        table = None if values is None else values[self._index].table
        return self._outer.table if table is None else table

    @property
    def coordinates(self) -> int:
        return self._outer.coordinates
