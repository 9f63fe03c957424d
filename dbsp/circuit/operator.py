"""Operators: frozen specifications of computations.

An operator validates its inputs, has a name for drawings and errors, and can be compared and
hashed. The step that runs it is built once per run and holds the state (`dbsp.circuit.step`).
Abilities of some operators only are roles in `dbsp.circuit.operator_roles`. The graph, the
scheduler and the drawing use operators only through these classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, TypeVar

from dbsp.circuit.drawn_terms import DrawnTerm
from dbsp.circuit.field_ranges import ANY_INPUTS, check_ranges
from dbsp.circuit.function_step import FunctionStep
from dbsp.circuit.step import Step
from dbsp.circuit.step_scope import StepScope
from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.errors import CircuitError, SchemaError, counted
from dbsp.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from dbsp.circuit.graph import Graph, Node, Stream
    from dbsp.circuit.rewriting import Rewriting

S = TypeVar("S", bound="Stream")


@dataclass(frozen=True, eq=True)
class Operator:
    """The specification of an operator; subclasses are frozen dataclasses of plain values.

    A linear operator defines `schema` and `function`. An operator that is not linear also defines
    its incremental form, and an operator with state defines `start`.
    """

    input_counts: ClassVar[range] = ANY_INPUTS
    """The numbers of inputs that the operator accepts."""

    def __call__(self, *streams: S) -> S:
        """Add a node for this operator to the circuit of the streams; return its output stream."""
        return streams[0].graph.add(self, *streams)

    @property
    def name(self) -> str:
        return type(self).__name__

    @property
    def label(self) -> str:
        """One line for drawings: the name and the distinguishing parameters of the operator."""
        return self.name

    def caption(self, columns: Sequence[Sequence[str]]) -> str:
        """One line for pictures: the label, with names of columns instead of numbers.

        `columns` has the names of the columns of each input.
        """
        return self.label

    def column_texts(self, columns: Sequence[Sequence[str]]) -> Sequence[str] | None:
        """Return what each column of the output holds, for pictures; None if unknown.

        `columns` has what each column of each input holds.
        """
        return None

    @property
    def first_argument(self) -> int | None:
        """The input column from which on a projection before the operator names its arguments.

        Pictures show what these columns of the projection hold, and not their names. None if the
        arguments keep their names.
        """
        return None

    def drawn_terms(self, inputs: int, dimensions: int) -> Sequence[DrawnTerm]:
        """Return the terms that pictures draw inside of this node; none for a box.

        The node has a number of `inputs`, and its streams have a number of time `dimensions`: the
        ticks, and the iterations of each scope around it.
        """
        return ()

    @property
    def shareable(self) -> bool:
        """Whether equal nodes over equal inputs may be merged."""
        return True

    def schema(self, *inputs: Schema) -> Schema:
        """Return the schema of the output. Raises SchemaError if the inputs do not fit."""
        raise AssertionError(f"{self.name} does not define its schema")

    def checked_schema(self, *inputs: Schema) -> Schema:
        """Return the schema of the output, after a check of the inputs and the fields.

        Raises SchemaError for a wrong number of inputs and for a field outside its range (see
        `dbsp.circuit.field_ranges`).
        """
        counts = self.input_counts
        if len(inputs) not in counts:
            expected = f"{counts.start} or more inputs" if len(counts) > 1 else counted(counts.start, "input")
            raise SchemaError(f"expected {expected}, got {len(inputs)}", code="wrong-arity")
        check_ranges(self, inputs)
        return self.schema(*inputs)

    def check_inputs(self, graph: Graph, inputs: Sequence[Stream]) -> None:
        """Raise CircuitError if a node of this operator cannot read these streams in the graph.

        Their schemas are checked before. An operator whose step expects more, such as arrangements,
        overrides this.
        """

    def zset_function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        """Return `function`. Raises CircuitError if the operator is not a function of Z-sets."""
        if type(self).function is Operator.function:
            raise CircuitError(
                f"expected a function of Z-sets, got the operator {self.name}", code="invalid-circuit-file"
            )
        return self.function(interner, *inputs)

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        """Return the definition of the operator: a function of Z-sets over the given schemas."""
        raise AssertionError(f"{self.name} is not a function of Z-sets")

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        """Return whether all weights of the result are 0 or 1; `inputs` says it of each input."""
        return False

    @property
    def keeps_integral(self) -> bool:
        """Whether the step stores its integral, so that a view does not need a second copy."""
        return False

    @property
    def stored_outside(self) -> bool:
        """Whether an index outside of the circuit stores the integral of the output."""
        return False

    @property
    def keeps_rows(self) -> bool:
        """Whether the output is the input, except for the names of the columns."""
        return False

    @property
    def monotone(self) -> bool:
        """Whether the operator is monotone: f(a) <= f(a + b) for all a, b >= 0."""
        return False

    @property
    def law(self) -> str:
        """The name of the law of its incremental form (see `dbsp.operators.stages.passes.laws`)."""
        return "linear"

    def expand(self, rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        """Add the simpler operators that define this one, or this operator itself."""
        return self.copy(rewriting, node, inputs)

    def copy(self, rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        """Add the same operator over the new inputs, with its cycles and scopes."""
        return rewriting.add(self, *inputs, graph=rewriting.graph_of(node.graph))

    def physical(self, rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        """Add the incremental form over deltas, with shared traces in place of integrals."""
        return self.copy(rewriting, node, inputs)

    @property
    def is_port(self) -> bool:
        """Whether the node is an input or output of the circuit, which is never dropped."""
        return False

    def start(self, node: Node, sources: Sequence[Step], scope: StepScope) -> Step:
        """Return the step that runs this operator in `scope`."""
        schemas = [stream.schema for stream in node.inputs]
        function = self.function(scope.interner, *schemas)
        return FunctionStep(function, sources, [schema.arity for schema in schemas])

    def children(self) -> Sequence[Graph]:
        """Return the nested scopes, for drawing and validation."""
        return ()
