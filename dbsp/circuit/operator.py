"""What an operator is: a frozen specification of what is computed.

It validates its inputs, names itself in drawings and errors, and can be compared and hashed. The
step that runs it is made once per run and holds the state (`dbsp.circuit.step`). What only some
operators have is a role in `dbsp.circuit.operator_roles`. The graph, the scheduler and the drawing
know operators only through these classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from dbsp.circuit.function_step import FunctionStep
from dbsp.circuit.step import Step
from dbsp.circuit.step_scope import StepScope
from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema

if TYPE_CHECKING:
    from dbsp.circuit.graph import Graph, Node, Stream
    from dbsp.circuit.rewriting import Rewriting

S = TypeVar("S", bound="Stream")


@dataclass(frozen=True, eq=True)
class Operator:
    """The specification of an operator; subclasses are frozen dataclasses of plain values.

    A linear operator gives `schema` and `function`; an operator that is not linear says how it is
    incrementalised; an operator with state says how it starts.
    """

    def __call__(self, *streams: S) -> S:
        """Add a node for this operator to the streams' circuit; returns its output stream."""
        return streams[0].graph.add(self, *streams)

    @property
    def name(self) -> str:
        return type(self).__name__

    @property
    def label(self) -> str:
        """One line for drawings: the name and what distinguishes this operator from its like."""
        return self.name

    @property
    def shareable(self) -> bool:
        """Whether two equal nodes over equal inputs may be made one."""
        return True

    def schema(self, *inputs: Schema) -> Schema:
        """The output's schema; raises SchemaError when the inputs do not fit."""
        raise AssertionError(f"{self.name} does not say what it yields")

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        """The operator's definition as a function of Z-sets over the given schemas."""
        raise AssertionError(f"{self.name} is not a function of Z-sets")

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        """Whether all weights of the result are 0 or 1, given for which inputs that holds."""
        return False

    @property
    def keeps_integral(self) -> bool:
        """Whether the step remembers its integral anyway, so that a view need not store it again."""
        return False

    @property
    def monotone(self) -> bool:
        """Whether more rows in never mean fewer rows out: f(a) <= f(a + b), for all a, b >= 0."""
        return False

    @property
    def law(self) -> str:
        """The rule by which the operator is incrementalised (see `dbsp.operators.stages.passes.laws`)."""
        return "linear"

    def expand(self, rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        """The operator in terms of simpler ones, for one that is defined that way; else itself."""
        return self.copy(rewriting, node, inputs)

    def copy(self, rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        """The same operator over the new inputs; what holds cycles or scopes copies them too."""
        return rewriting.add(self, *inputs, graph=rewriting.graph_of(node.graph))

    def physical(self, rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        """The incremental form over deltas as it is run: with shared traces in place of integrals."""
        return self.copy(rewriting, node, inputs)

    @property
    def is_port(self) -> bool:
        """Whether the node faces the outside and so is never dropped."""
        return False

    def start(self, node: Node, sources: Sequence[Step], scope: StepScope) -> Step:
        """The step that runs this operator inside `scope`."""
        schemas = [stream.schema for stream in node.inputs]
        function = self.function(scope.interner, *schemas)
        return FunctionStep(function, sources, [schema.arity for schema in schemas])

    def children(self) -> Sequence[Graph]:
        """Nested scopes, for drawing and validation."""
        return ()
