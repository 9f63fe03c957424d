"""Output: a named result; a tick returns its delta, and a view returns its integral."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace

from dbsp.circuit.field_ranges import NAMED_COLUMNS
from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.circuit.operator_roles import Port
from dbsp.circuit.rewriting import Rewriting
from dbsp.circuit.step import Step
from dbsp.circuit.step_roles import KeepingStep, keeping
from dbsp.circuit.step_scope import StepScope
from dbsp.data.batch import Batch
from dbsp.data.schema import Schema
from dbsp.errors import CircuitError
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.ports.input import outside_scopes
from dbsp.operators.traces.arrange import Arrange, arranged_by_any_order, expect_arrangement_of
from dbsp.runtime.ports import OutputPort


@dataclass(frozen=True)
class Output(Port):
    """The stream as an output with a name.

    In a lowered graph the last input keeps the integral: the stream itself if its operator keeps
    the integral anyway, as a distinct does, else an arrangement of the stream.
    """

    input_counts = range(1, 3)

    relation: str
    columns: Schema | None = field(default=None, metadata=NAMED_COLUMNS)
    """The columns with their names, because a lowered stream has no names."""

    @property
    def label(self) -> str:
        return f"Output {self.relation}"

    def check_inputs(self, graph: Graph, inputs: Sequence[Stream]) -> None:
        outside_scopes(self, graph)
        if len(inputs) == 2:
            expect_arrangement_of(inputs[1], inputs[0].node)

    def schema(self, *inputs: Schema) -> Schema:
        return self.columns or inputs[0]

    @property
    def law(self) -> str:
        return "output"

    def expand(self, rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        return rewriting.add(self, *inputs)

    def copy(self, rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        stream = inputs[0]
        kept = rewriting.add(Arrange(tuple(range(stream.schema.arity))), stream)
        return rewriting.add(replace(self, columns=node.schema), stream, kept)

    def physical(self, rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        stream = inputs[0]
        output = replace(self, columns=node.schema)

        def attach() -> None:
            if stream.node.operator.keeps_integral and rewriting.find(Arrange, stream) is None:
                rewriting.add(output, stream)
            else:
                rewriting.add(output, stream, arranged_by_any_order(rewriting, stream))

        # After all other nodes, so that this shares an arrangement of another operator.
        rewriting.finally_(attach)
        return stream

    def start(self, node: Node, sources: Sequence[Step], scope: StepScope) -> Step:
        if not isinstance(sources[-1], KeepingStep):
            raise CircuitError(
                f"expected a stream whose operator keeps its integral, or an arrangement of it, got "
                f"{node.inputs[-1].node.describe()}",
                where=node.describe(),
                code="invalid-circuit-file",
            )
        return OutputStep(self.relation, node.schema, sources[0], sources[-1])


class OutputStep(OutputPort):
    __slots__ = ("_delta", "_keeper")

    def __init__(self, relation: str, columns: Schema, delta: Step, keeper: Step) -> None:
        super().__init__(relation, columns)
        self._delta = delta
        self._keeper = keeper

    def step(self) -> None:
        self.out = self._delta.out

    def view(self) -> Batch:
        return keeping(self._keeper).integral()

    @property
    def kept_rows(self) -> int:
        return keeping(self._keeper).kept_rows
