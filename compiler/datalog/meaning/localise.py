"""Decide which variables of an aggregate are local and which come from the rule around it.

A variable of an aggregate is injected when the rule around the aggregate binds it and it does not
occur in the target expression; every other variable is local. Local variables get new names
(`x` becomes `x#1`), so that afterwards every name has one meaning in a rule.

    total(k, s) :- key(k), s = sum x : { item(k, x), x > 0 }.      k is injected, x is local
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from dbsp.compiler.datalog.meaning.flatten import FlatClause
from dbsp.compiler.datalog.meaning.ground import bound_variables
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.traversal import N, find, map_children, outer_variables, rename, variables


def localise(clause: FlatClause) -> FlatClause:
    """The clause with `injected` set on every aggregate and local variables renamed."""
    if next(find(clause, syntax.Aggregate), None) is None:
        return clause
    return _Localiser().inside(clause, bound_variables(clause.body, needs=outer_variables))


class _Localiser:
    def __init__(self) -> None:
        self.numbers = count(1)

    def inside(self, node: N, bound: set[str]) -> N:
        """The node with its aggregates localised, when its surroundings bind `bound`."""
        return map_children(
            node,
            lambda part: (
                self.aggregate(part, bound)
                if isinstance(part, syntax.Aggregate)
                else self.inside(part, bound)
            ),
        )

    def aggregate(self, aggregate: syntax.Aggregate, bound: set[str]) -> syntax.Aggregate:
        names = [variable.name for variable in find(aggregate, syntax.Variable)]
        target = frozenset() if aggregate.value is None else variables(aggregate.value, into_aggregates=False)
        injected = tuple(dict.fromkeys(name for name in names if name in bound and name not in target))
        number = next(self.numbers)
        renamed = {name: f"{name}#{number}" for name in names if name not in injected}
        local = rename(aggregate, renamed)
        inner = bound_variables(local.literals, injected, needs=outer_variables)
        # Nested aggregates are localised after the renaming: a variable that is local to this one
        # may be injected into them.
        return replace(self.inside(local, inner), injected=injected)
