"""In which order a delta term of the multi-way join binds the variables that its own part lacks.

Each term starts from the variables of the part that changed and has an order of its own, as in
Delta-BiGJoin (Ammar et al., VLDB 2018). Without statistics an order is good that never takes a cross
product and restricts each variable by as many parts as it can; with statistics, the one in which fewest
values are proposed and prefixes met.
"""

from __future__ import annotations

from collections.abc import Sequence

from dbsp.compiler.planner.conjunction import Functions, determined


def default_orders(
    atoms_vars: Sequence[Sequence[str | None]], functions: Functions = ()
) -> tuple[tuple[str, ...], ...]:
    """An order for the delta term of each atom, by the shape of the query alone.

    Next is always a variable of an atom that has a bound variable already (of any atom if there is
    none); of those the one that most such atoms have, then the one that completes most atoms, then the
    one written first. Variables that functions compute from bound ones are bound for free and are not
    in an order. O(variables^2 * atoms) per atom.

    >>> default_orders([("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")])
    (('c', 'd'), ('a', 'd'), ('a', 'b'), ('b', 'c'))
    >>> default_orders([("x", None), ("y",), ("z",)], [("z", frozenset({"x", "y"}))])
    (('y',), ('x',), ('x', 'y'))
    """
    edges = [frozenset(name for name in atom if name is not None) for atom in atoms_vars]
    written = tuple(dict.fromkeys(name for atom in atoms_vars for name in atom if name is not None))
    return tuple(_default(edge, edges, written, functions) for edge in edges)


def _default(
    start: frozenset[str], edges: Sequence[frozenset[str]], written: Sequence[str], functions: Functions
) -> tuple[str, ...]:
    bound = determined(start, functions)
    order: list[str] = []
    while left := candidates(bound, edges, written):

        def rank(name: str, bound: frozenset[str] = bound) -> tuple[int, int]:
            met = sum(name in edge and not bound.isdisjoint(edge) for edge in edges)
            return met, sum(name in edge and edge <= bound | {name} for edge in edges)

        best = max(left, key=rank)  # max keeps the first of equals
        order.append(best)
        bound = determined((*bound, best), functions)
    return tuple(order)


def candidates(bound: frozenset[str], edges: Sequence[frozenset[str]], written: Sequence[str]) -> list[str]:
    """What may be bound next: the variables connected to bound ones; all that are left if none is."""
    left = [name for name in written if name not in bound]
    near = {name for edge in edges if not bound.isdisjoint(edge) for name in edge}
    return [name for name in left if name in near] or left
