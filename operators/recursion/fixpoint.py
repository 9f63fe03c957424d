"""Fixpoint: a nested scope stepped until nothing changes, incrementally over ticks and iterations.

    X[0] = 0,   X[i + 1] = body(X[i], imports),   result = X[i] for the first i with X[i + 1] = X[i]

A scope holds variables (delays of the iteration) and a body. Its streams are differences in two
dimensions, tick and iteration; the tick is compacted into "past" and "this tick" (see
`dbsp.state.trace`), the iteration is kept. So a tick visits only what changes at some iteration, and
deletions are exact: a row is held up by derivations of earlier iterations only, never by itself.
(DBSP paper, arXiv 2203.16684, section 5 and theorem 5.3.)

A scope has converged when no variable changes and no operator has anything waiting for a later
iteration; an empty delta alone proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace

from dbsp.circuit.equality import shape
from dbsp.circuit.graph import Graph, Node, Stream, placed
from dbsp.circuit.operator import Operator, Step
from dbsp.circuit.prune import prune
from dbsp.circuit.rewriting import Rewriting
from dbsp.data.batch import Batch
from dbsp.data.schema import Schema
from dbsp.errors import CircuitError, expect_type
from dbsp.operators.recursion.delta0 import Delta0
from dbsp.operators.recursion.fixpoint_step import FixpointStep, kept
from dbsp.operators.recursion.modes import Recursion
from dbsp.operators.time.delay import Delay
from dbsp.runtime.scope import Scope

NOTHING = Schema((), ())


class Body(Graph):
    """The graph inside a fixpoint; outer streams enter it by delta_0."""

    def __init__(
        self, name: str, parent: Graph, max_iterations: int, recursion: Recursion | str = Recursion.AUTO
    ) -> None:
        super().__init__(name, parent)
        self.max_iterations = max_iterations
        self.recursion = Recursion(recursion)
        """How the scope is to be evaluated, where there is a choice (see
        `dbsp.operators.recursion.modes`)."""
        self.closed = False
        """Whether the scope has been built, so that nothing can be added to it."""

    def settings(self) -> dict[str, int | str]:
        return {"max_iterations": self.max_iterations, "recursion": self.recursion.value}

    def append(self, operator: Operator, inputs: tuple[Stream, ...], schema: Schema, source: str) -> Stream:
        if self.closed:
            raise CircuitError(
                f"scope '{self.name}' is complete; outside of it use what scope.leave(stream) returns",
                where=placed(operator.name, source),
            )
        return super().append(operator, inputs, schema, source)

    def entering(self, outer: Stream) -> Operator:
        return Delta0(len(self.entered), outer.schema, outer.node.is_set, outer.node.operator.keeps_integral)

    def validate(self) -> None:
        for node in self.nodes:
            if isinstance(node.operator, Delay) and not node.strict:
                raise CircuitError(
                    f"variable '{node.operator.variable}' of fixpoint '{self.name}' is never "
                    "defined; call scope.define(variable, stream)",
                    where=node.describe(),
                )
        super().validate()


@dataclass(frozen=True)
class Fixpoint(Operator):
    """The scope as a node of the outer graph; `Leave` takes its results out."""

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

    def depends_on_ticks(self, node: Node) -> bool:
        return any(inside.operator.depends_on_ticks(inside) for inside in self.body.nodes)

    def fingerprint(self, node: Node) -> Hashable:
        # What nobody else keeps of what enters is part of the state.
        return (Fixpoint, shape(self.body), tuple(kept(stream.node) for stream in node.inputs))

    def children(self) -> Sequence[Graph]:
        return (self.body,)

    @property
    def law(self) -> str:
        return "fixpoint"

    def copy(self, rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        # What depends on nothing of the scope is placed outside of it.
        return self.rewritten(rewriting, node, inputs, lambda body, outer: outer, lambda value: value)

    def rewritten(
        self,
        rewriting: Rewriting,
        node: Node,
        inputs: Sequence[Stream],
        entering: Callable[[Body, Stream], Stream],
        leaving: Callable[[Stream], Stream],
    ) -> Stream:
        """The scope with its body rewritten.

        `entering` makes the image of an entered stream out of the outer one, `leaving` the export
        out of the image of what is exported.
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

    def prune(self, node: Node, readers: Sequence[Node]) -> bool:
        asked: dict[int, int] = {}  # the results that are read, with the number each has from now on
        for reader in readers:
            leave = expect_type(reader.operator, Leave, "a Leave as reader of a fixpoint")
            reader.operator = replace(leave, index=asked.setdefault(leave.index, len(asked)))
        self.body.exports = [self.body.exports[index] for index in asked]
        before = len(node.inputs)
        ports = [inside for inside in self.body.nodes if inside.operator.is_port]
        prune(self.body, [*ports, *(stream.node for stream in self.body.exports)])
        for index, inside in enumerate(self.body.entered.values()):
            entering = expect_type(inside.node.operator, Delta0, "a Delta0 for a stream that enters a scope")
            inside.node.operator = replace(entering, index=index)
        node.inputs = tuple(node.graph.stream_class(outer) for outer in self.body.entered)
        return len(node.inputs) < before

    def start(self, node: Node, sources: Sequence[Step], scope: Scope) -> Step:
        return FixpointStep(node, self.body, sources, scope)


@dataclass(frozen=True)
class Leave(Operator):
    """The `index`-th result of a scope: the sum over its iterations."""

    index: int
    columns: Schema
    is_set: bool = False
    kept: bool = False

    def schema(self, *inputs: Schema) -> Schema:
        return self.columns

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return self.is_set

    def copy(self, rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        (scope,) = inputs
        fixpoint = expect_type(scope.node.operator, Fixpoint, "a Fixpoint as input of a Leave")
        export = fixpoint.body.exports[self.index].node
        leave = Leave(self.index, self.columns, export.is_set, export.operator.keeps_integral)
        return rewriting.add(leave, scope)

    @property
    def keeps_integral(self) -> bool:
        return self.kept

    @property
    def replays(self) -> bool:
        return self.kept

    def fingerprint(self, node: Node) -> Hashable:
        # Results are numbered by who reads them first; what counts is which stream it is.
        fixpoint = expect_type(node.inputs[0].node.operator, Fixpoint, "a Fixpoint as input of a Leave")
        return (Leave, fixpoint.body.exports[self.index].node.id, self.columns, self.is_set, self.kept)

    def start(self, node: Node, sources: Sequence[Step], scope: Scope) -> Step:
        (source,) = sources
        fixpoint = expect_type(source, FixpointStep, "the step of a fixpoint", where=node.describe())
        return LeaveStep(fixpoint, self.index)


class LeaveStep(Step):
    __slots__ = ("_fixpoint", "_index")

    def __init__(self, fixpoint: FixpointStep, index: int) -> None:
        super().__init__()
        self._fixpoint = fixpoint
        self._index = index

    def integral(self) -> Batch:
        return self._fixpoint.export(self._index).integral()

    @property
    def kept_rows(self) -> int:
        return self._fixpoint.export(self._index).kept_rows

    def replay(self) -> None:
        self.out = self.integral() or None

    def step(self) -> None:
        self.out = self._fixpoint.results[self._index]
