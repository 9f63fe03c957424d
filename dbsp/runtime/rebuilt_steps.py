"""New steps for a scope: the same circuit and the same state, with another interner.

Steps keep ids of constants, so a run that changes its interner needs new steps. Traces and tables
are taken over as they are: their rows have the same ids in both interners.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from dbsp.circuit.graph import Graph, Node
from dbsp.circuit.step import Step
from dbsp.data.interner import Interner
from dbsp.runtime import observation
from dbsp.runtime.scope import Scope
from dbsp.runtime.scope_state import CarriedState, NestedCarriedState, State
from dbsp.runtime.transplant import inherit


def with_interner(old: Scope, interner: Interner) -> Scope:
    """Return a scope that continues `old` with an interner that has the values of its state.

    The old scope stays usable, as long as only one of the two is stepped. O(nodes), plus the
    constants of the circuit. Raises CircuitError for a step whose state cannot be copied.
    """
    steps: dict[Node, Step] = {}
    states: dict[Node, Sequence[State]] = {}
    nested: dict[Graph, NestedCarriedState] = {}
    for each in old.scopes():
        steps.update(each.by_node)
        states.update(each.state.by_node)
        nested[each.graph] = NestedCarriedState(each.journal, each.timed)
    carried = CarriedState(old.journal, states, nested)
    scope = Scope(old.graph, interner, carried=carried, budget=old.budget)
    for new, before in zip(scope.scopes(), old.scopes(), strict=True):
        new.state.first_tick = before.state.first_tick
        for node, step in new.by_node.items():
            inherit(step, steps[node])
    observation.resume(scope, old, {node: node for node in steps})
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
