"""The inputs and outputs of two circuits: what must be equal when a run switches between them."""

from __future__ import annotations

from dbsp.errors import CircuitError
from dbsp.runtime.ports import InputPort, OutputPort
from dbsp.runtime.scope import Scope


def inputs_of(scope: Scope) -> dict[str, InputPort]:
    """Return the ports of the inputs of a scope, by name."""
    return {step.relation: step for step in scope.steps if isinstance(step, InputPort)}


def outputs_of(scope: Scope) -> dict[str, OutputPort]:
    """Return the ports of the outputs of a scope, by name."""
    return {step.relation: step for step in scope.steps if isinstance(step, OutputPort)}


def check_ports(old: Scope, new: Scope) -> None:
    """Raise CircuitError unless both have the same inputs and outputs."""
    before, after = _ports(old), _ports(new)
    for kind, name in sorted(before.keys() | after.keys()):
        if before.get((kind, name)) != after.get((kind, name)):
            raise CircuitError(
                f"the new circuit belongs to another query: {kind} '{name}' is not the same in both",
                where=f"circuit '{new.graph.name}'",
                code="different-circuits",
            )


def check_inputs(old: Scope, new: Scope) -> None:
    """Raise CircuitError if an input of both is not the same in both."""
    before = inputs_of(old)
    for name, port in inputs_of(new).items():
        known = before.get(name)
        if known is not None and _input(known) != _input(port):
            raise CircuitError(
                f"expected the input '{name}' with its columns ({known.columns.describe()}), got "
                f"({port.columns.describe()}): an update keeps the rows of an input, and cannot change them; "
                "give the new input another name, or restart the program",
                where=f"circuit '{new.graph.name}'",
                code="changed-input",
            )


def _ports(scope: Scope) -> dict[tuple[str, str], tuple[object, ...]]:
    """Return the inputs and outputs of a scope with the properties that a new circuit must keep."""
    ports: dict[tuple[str, str], tuple[object, ...]] = {}
    for step in scope.steps:
        if isinstance(step, InputPort):
            ports["input", step.relation] = _input(step)
        elif isinstance(step, OutputPort):
            ports["output", step.relation] = (step.columns,)
    return ports


def _input(port: InputPort) -> tuple[object, ...]:
    return port.columns, port.kind, port.key
