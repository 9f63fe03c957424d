"""New steps over the state of a scope: for another circuit, or with another interner.

Traces and tables are taken over as they are. Steps keep ids of constants, so a run that changes its
interner needs new steps; rows have the same ids in both interners.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from dbsp.circuit.graph import Graph, Node
from dbsp.circuit.step import Step
from dbsp.circuit.step_roles import RememberingStep
from dbsp.data.interner import Interner
from dbsp.errors import CircuitError
from dbsp.runtime import observation
from dbsp.runtime.scope import Scope
from dbsp.runtime.scope_state import CarriedState, NestedCarriedState, State


def continued(old: Scope, graph: Graph, interner: Interner, pairs: Mapping[Node, Node]) -> Scope:
    """Return a scope for a graph, in which nodes continue the state of nodes of another scope.

    `pairs` are the new and the old nodes, also those of nested scopes. The old scope stays usable,
    as long as only one of the two is stepped. O(nodes), plus the constants of the circuit. Raises
    CircuitError for a step whose state cannot be copied.
    """
    steps: dict[Node, Step] = {}
    states: dict[Node, Sequence[State]] = {}
    held: dict[Graph, Scope] = {}
    for each in old.scopes():
        held[each.graph] = each
        steps.update(each.by_node)
        states.update(each.state.by_node)
    nested = {
        mine: NestedCarriedState(held[theirs].journal, held[theirs].timed)
        for new, before in pairs.items()
        for mine, theirs in zip(new.operator.children(), before.operator.children(), strict=True)
    }
    kept = {new: states[before] for new, before in pairs.items() if before in states}
    carried = CarriedState(old.journal, kept, nested)
    scope = Scope(graph, interner, carried=carried, shared=old.given, budget=old.budget, link=old.link)
    for each in scope.scopes():
        for node, step in each.by_node.items():
            if node in pairs:
                _inherit(step, steps[pairs[node]])
    return scope


def with_interner(old: Scope, interner: Interner) -> Scope:
    """Return a scope that continues `old` with an interner that has the values of its state.

    Cost and errors are those of `continued`.
    """
    same = {node: node for each in old.scopes() for node in each.by_node}
    scope = continued(old, old.graph, interner, same)
    for new, before in zip(scope.scopes(), old.scopes(), strict=True):
        new.state.first_tick = before.state.first_tick
    observation.resume(scope, old, same)
    return scope


def take_apart(old: Scope) -> None:
    """Drop the attributes of the steps of a scope that another scope continues.

    Steps refer to each other, so without this only the garbage collector would free their interner.
    """
    for scope in list(old.scopes()):
        for step in scope.steps:
            for kind in type(step).__mro__:
                for name in getattr(kind, "__slots__", ()):
                    with suppress(AttributeError):  # not set, or not an attribute of the instance
                        delattr(step, name)
            getattr(step, "__dict__", {}).clear()
        vars(scope).clear()


def _inherit(step: Step, old: Step) -> None:
    """Copy the state of an old step that is not in traces and tables. Raises CircuitError."""
    if isinstance(step, RememberingStep) and isinstance(old, RememberingStep):
        step.recall(old.memory())
    elif hasattr(step, "rollback"):
        raise CircuitError(
            "the step of this operator keeps state that replanning cannot copy; derive it from "
            "RememberingStep and define `memory` and `recall`, or keep the state in a table of the "
            "scope. The run continues with its current circuit",
            where=step.node.describe(),
            code="state-not-copied",
        )
