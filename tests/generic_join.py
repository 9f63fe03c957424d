"""Generic join in its simplest form: a specification of the fused multi-way join.

Relations are Z-sets whose columns are named after the variables. A delta term starts from the
changed rows of one relation, so its first prefixes are rows with weights; a load starts from the
empty prefix.
"""

from __future__ import annotations

from collections.abc import Sequence

from dbsp import PrefixExtender, ZSet, extend_prefixes

EMPTY_PREFIX = ZSet({(): 1}, {})


def generic_join(prefixes: ZSet, relations: Sequence[ZSet], order: Sequence[str]) -> ZSet:
    """Join the prefixes with the relations; `order` names the variables to bind.

    Per variable: count, propose, intersect. The weights of a relation are multiplied in once, when
    all its variables are bound; until then only the presence of its rows counts.
    """
    waiting = list(relations)
    prefixes, waiting = _multiply_weights(prefixes, waiting)
    for variable in order:
        extenders = []
        for relation in waiting:
            if variable in relation.schema.names:
                bound = [name for name in relation.schema.names if name in prefixes.schema.names]
                extenders.append(PrefixExtender(relation.index_by(*bound, variable)))
        prefixes = extend_prefixes(prefixes, extenders)
        prefixes, waiting = _multiply_weights(prefixes, waiting)
    return prefixes


def _multiply_weights(prefixes: ZSet, waiting: Sequence[ZSet]) -> tuple[ZSet, list[ZSet]]:
    """Multiply by the weights of the fully bound relations; return the others."""
    bound = set(prefixes.schema.names)
    for relation in waiting:
        names = relation.schema.names
        if bound.issuperset(names):
            prefixes = prefixes.index_by().extend_leaves(relation.index_by(*names)).to_zset()
    return prefixes, [relation for relation in waiting if not bound.issuperset(relation.schema.names)]


def delta_join(old: Sequence[ZSet], changes: Sequence[ZSet], orders: Sequence[Sequence[str]]) -> ZSet:
    """Return the change of the join of all relations: one term per relation, each with its order.

    dQ = sum over i of  R1^new x ... x R(i-1)^new x dRi x R(i+1)^old x ... x Rn^old

    The columns of the result are the variables, sorted by name.
    """
    new = [before + change for before, change in zip(old, changes, strict=True)]
    total = ZSet()
    for i, (change, order) in enumerate(zip(changes, orders, strict=True)):
        term = generic_join(change, [*new[:i], *old[i + 1 :]], order)
        total = total + term.index_by(*sorted(term.schema.names)).to_zset()
    return total
