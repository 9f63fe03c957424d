"""The order in which a delta term of the multi-way join binds the variables that its part lacks.

Each term starts from the variables of the changed part and has its own order, as in Delta-BiGJoin
(Ammar et al., VLDB 2018). Without statistics, a good order avoids cross products and restricts each
variable by as many parts as possible. With statistics, the best order has the fewest proposed
values and prefixes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dbsp.operators.planner.conjunction import Functions, determined


def default_orders(
    atoms_vars: Sequence[Sequence[str | None]],
    functions: Functions = (),
    links: Sequence[frozenset[str]] = (),
) -> tuple[tuple[str, ...], ...]:
    """Return an order for the delta term of each atom, by the shape of the query.

    The next variable is in an atom with a bound variable (in any atom if there is none). Among
    these it is the one in most such atoms, then the one that completes most atoms, then one that a
    condition (`links` has the variables of each) compares with bound variables, which may limit its
    values, then the first written. Variables that functions compute from bound variables are bound
    for free and are not in an order. O(variables^2) per atom, times the atoms of a variable.

    >>> default_orders([("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")])
    (('c', 'd'), ('a', 'd'), ('a', 'b'), ('b', 'c'))
    >>> default_orders([("x", None), ("y",), ("z",)], [("z", frozenset({"x", "y"}))])
    (('y',), ('x',), ('x', 'y'))
    """
    edges = [frozenset(name for name in atom if name is not None) for atom in atoms_vars]
    written = tuple(dict.fromkeys(name for atom in atoms_vars for name in atom if name is not None))
    having: dict[str, list[frozenset[str]]] = {name: [] for name in written}
    for edge in edges:
        for name in edge:
            having[name].append(edge)
    return tuple(_default(edge, having, functions, links) for edge in edges)


def _default(
    start: frozenset[str],
    having: Mapping[str, Sequence[frozenset[str]]],
    functions: Functions,
    links: Sequence[frozenset[str]],
) -> tuple[str, ...]:
    """Return the order of a term; `having` has the edges of each variable, in written order."""
    bound = determined(start, functions)
    place = {name: at for at, name in enumerate(having)}
    left = {name: None for name in having if name not in bound}
    near = {other for name in bound if name in having for edge in having[name] for other in edge}
    order: list[str] = []
    while left:

        def rank(name: str, bound: frozenset[str] = bound) -> tuple[int, int, bool, int]:
            met = sum(not bound.isdisjoint(edge) for edge in having[name])
            completed = sum(edge <= bound | {name} for edge in having[name])
            limited = any(name in link and link <= bound | {name} for link in links)
            return met, completed, limited, -place[name]

        best = max(near & left.keys() or left, key=rank)
        order.append(best)
        grown = determined((*bound, best), functions)
        for name in grown - bound:
            left.pop(name, None)
            near.update(other for edge in having.get(name, ()) for other in edge)
        bound = grown
    return tuple(order)


def candidates(bound: frozenset[str], edges: Sequence[frozenset[str]], written: Sequence[str]) -> list[str]:
    """Return the variables that may be bound next: those connected to bound ones, else all
    others."""
    left = [name for name in written if name not in bound]
    near = {name for edge in edges if not bound.isdisjoint(edge) for name in edge}
    return [name for name in left if name in near] or left
