"""Split a multi-way join: expressions that can fail on a row are evaluated on its result.

The delta terms of a join visit rows that cancel in their sum, and a level of a term visits rows
that a later atom rules out. A division by zero in such a row is not an error of the query.
Therefore expressions that can fail become separate operators after the join, which see only the
rows of the result: first the conditions, then the extensions, then the conditions that read these
extensions. The exception is an extension whose value is used to look up an atom: the terms evaluate
it.

A condition after the join that limits a variable, as `z < x + 50` does, also narrows the join: the
terms do not propose values for which the condition is false.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dbsp.circuit.operator import Operator
from dbsp.data.schema import Schema
from dbsp.expressions import col
from dbsp.expressions.substitution import is_total
from dbsp.operators.joins.delta_term import variables_of
from dbsp.operators.joins.value_limits import conjuncts, limit_of
from dbsp.operators.linear.filter import Filter
from dbsp.operators.linear.map import Map
from dbsp.operators.linear.project import Project

if TYPE_CHECKING:
    from dbsp.operators.joins.multiway_join import MultiwayJoin


def split(join: MultiwayJoin, inputs: Sequence[Schema]) -> tuple[MultiwayJoin, tuple[Operator, ...]]:
    """Return the join without expressions that can fail, and the operators for its result."""
    single = tuple(part for condition in join.conditions for part in conjuncts(condition))
    if len(single) > len(join.conditions):
        join = replace(join, conditions=single)
    lookups = _lookup_variables(join)
    late: dict[str, None] = {}
    grown = True
    while grown:
        before = len(late)
        for name, value in join.extensions:
            if name not in lookups and not (is_total(value) and late.keys().isdisjoint(value.columns)):
                late[name] = None
        grown = len(late) > before
    tested = [c for c in join.conditions if not is_total(c) and late.keys().isdisjoint(c.columns)]
    after = [c for c in join.conditions if not late.keys().isdisjoint(c.columns)]
    if not late and not tested:
        return join, ()
    extensions = {name: value for name, value in join.extensions if name in late}
    used = [*join.columns, *(name for value in extensions.values() for name in value.columns)]
    used += [name for condition in (*tested, *after) for name in condition.columns]
    names = tuple(dict.fromkeys(name for name in used if name not in late))
    bindings = join.bindings(*inputs)
    core = replace(
        join,
        columns=names,
        extensions=tuple(pair for pair in join.extensions if pair[0] not in late),
        conditions=tuple(c for c in join.conditions if not any(c is other for other in (*tested, *after))),
        narrowing=tuple(c for c in tested if limit_of(c, bindings) is not None),
    )
    rest: list[Operator] = [Filter(condition) for condition in tested]
    while extensions:
        ready = {n: value for n, value in extensions.items() if extensions.keys().isdisjoint(value.columns)}
        extensions = {n: value for n, value in extensions.items() if n not in ready}
        rest.append(Map((*map(col, names), *ready.values()), (*names, *ready), injective=True))
        names = (*names, *ready)
    rest += [Filter(condition) for condition in after]
    if names != join.columns:
        injective = set(join.columns) >= set(names)
        rest.append(Project(tuple(names.index(name) for name in join.columns), join.columns, injective))
    return core, tuple(rest)


def _lookup_variables(join: MultiwayJoin) -> set[str]:
    """Return the variables of atoms, those that several extensions bind, and their dependencies."""
    lookups = {name for terms in join.atoms for name in variables_of(terms)}
    lookups.update(name for name, n in Counter(name for name, _ in join.extensions).items() if n > 1)
    size = 0
    while size < len(lookups):
        size = len(lookups)
        lookups.update(c for name, value in join.extensions if name in lookups for c in value.columns)
    return lookups
