"""The graph inside a fixpoint: its nodes, entering streams, results and recursion mode."""

from __future__ import annotations

from dbsp.circuit.graph import Graph, Stream, placed
from dbsp.circuit.operator import Operator
from dbsp.data.schema import Schema
from dbsp.errors import CircuitError, choice, wrong_argument
from dbsp.operators.recursion.delta0 import Delta0
from dbsp.operators.recursion.modes import Recursion, RecursionName
from dbsp.operators.time.delay import Delay


class Body(Graph):
    """The graph inside a fixpoint; outer streams enter it by delta_0."""

    def __init__(
        self,
        name: str,
        parent: Graph,
        max_iterations: int,
        recursion: Recursion | RecursionName = Recursion.AUTO,
    ) -> None:
        super().__init__(name, parent)
        if type(max_iterations) is not int or max_iterations < 1:
            raise wrong_argument("max_iterations", "a number of 1 or more", max_iterations)
        self.max_iterations = max_iterations
        self.recursion = choice("recursion", Recursion, recursion)
        """The requested mode of evaluation (see `dbsp.operators.recursion.modes`)."""
        self.closed = False
        """Whether the scope is complete, so that no node can be added."""

    def settings(self) -> dict[str, int | str]:
        return {"max_iterations": self.max_iterations, "recursion": self.recursion.value}

    def append(self, operator: Operator, inputs: tuple[Stream, ...], schema: Schema, source: str) -> Stream:
        if self.closed:
            raise CircuitError(
                f"scope '{self.name}' is complete; outside of the scope, use the stream that "
                "scope.leave(stream) returns",
                where=placed(operator.name, source),
                code="scope-misuse",
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
                    code="incomplete-circuit",
                )
        super().validate()
