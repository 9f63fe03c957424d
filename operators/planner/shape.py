"""The plan by the shape of the query, without row counts."""

from __future__ import annotations

from collections.abc import Sequence

from dbsp.operators.planner.acyclic import blocks, reduce_ears
from dbsp.operators.planner.conjunction import Conjunction
from dbsp.operators.planner.tree import BinaryNode, LeafNode, MultiwayNode, Tree, atoms_of
from dbsp.operators.planner.variable_orders import default_orders


def by_shape(conjunction: Conjunction) -> Tree:
    """Return a plan by the shape of the query.

    An acyclic query gets a left-deep tree. A cyclic query gets a multi-way node per block of the
    core; the other atoms are joined to it one by one. Atoms that add no variable to a block, and so
    only filter it, are joined in its node.
    """
    edges = conjunction.closed_edges
    reduction = reduce_ears(edges)
    if reduction.acyclic:
        return left_deep(conjunction, greedy_order(conjunction))
    parts: list[list[int]] = [list(block) for block in blocks(edges, reduction.core)]
    for ear in sorted(ear for ear, _ in reduction.ears):
        shown = frozenset(conjunction.kept((ear,)))
        containing = [part for part in parts if len(part) > 1 and shown and shown <= _variables(edges, part)]
        if containing:
            containing[0].append(ear)
        else:
            parts.append([ear])
    trees = [multiway(conjunction, [LeafNode(atom) for atom in sorted(part)]) for part in parts]
    # The largest block is first; the other trees are joined to it, connected ones first.
    trees.sort(key=lambda tree: (-len(atoms_of(tree)), min(atoms_of(tree))))
    found = trees.pop(0)
    while trees:
        at = next((at for at, tree in enumerate(trees) if _connected(conjunction, found, tree)), 0)
        found = binary(conjunction, found, trees.pop(at))
    return found


def greedy_order(conjunction: Conjunction) -> tuple[int, ...]:
    """Return a greedy order of the atoms.

    The first atom is the one with the most constants. Each next atom shares a bound variable if
    possible, and has the largest fraction of bound or fixed columns; among equals, the first
    written.
    """
    left = list(range(len(conjunction.atoms)))
    order: list[int] = []
    bound: frozenset[str] = frozenset()

    def boundness(index: int) -> tuple[float, int]:
        atom = conjunction.atoms[index]
        known = len(atom.fixed) + len(atom.equal) + sum(name in bound for name in atom.names)
        return known / max(1, len(atom.variables)), known

    while left:
        near = [index for index in left if not bound.isdisjoint(conjunction.atoms[index].names)]
        best = max(near or left, key=boundness)  # max keeps the first of equals
        left.remove(best)
        order.append(best)
        bound = conjunction.bound(order)
    return tuple(order)


def left_deep(conjunction: Conjunction, order: Sequence[int]) -> Tree:
    """Return a left-deep tree of two-way joins."""
    first, *others = order
    tree: Tree = LeafNode(first)
    for atom in others:
        tree = binary(conjunction, tree, LeafNode(atom))
    return tree


def binary(conjunction: Conjunction, left: Tree, right: Tree) -> BinaryNode:
    """Return the two-way join of two trees on all shared variables."""
    right_kept = frozenset(conjunction.kept(atoms_of(right)))
    on = tuple(name for name in conjunction.kept(atoms_of(left)) if name in right_kept)
    return BinaryNode(left, right, on, conjunction.kept(atoms_of(left) | atoms_of(right)))


def multiway(
    conjunction: Conjunction, parts: Sequence[Tree], orders: Sequence[tuple[str, ...]] | None = None
) -> Tree:
    """Return the multi-way join of several trees, by default with the default orders.

    A single tree is returned as it is.
    """
    if len(parts) == 1:
        return parts[0]
    if orders is None:
        orders = default_orders(
            [conjunction.kept(atoms_of(part)) for part in parts], conjunction.functions, conjunction.links
        )
    every = frozenset().union(*map(atoms_of, parts))
    return MultiwayNode(tuple(parts), tuple(orders), conjunction.kept(every))


def _variables(edges: Sequence[frozenset[str]], atoms: Sequence[int]) -> frozenset[str]:
    return frozenset().union(*(edges[atom] for atom in atoms))


def _connected(conjunction: Conjunction, left: Tree, right: Tree) -> bool:
    return not set(conjunction.kept(atoms_of(left))).isdisjoint(conjunction.kept(atoms_of(right)))
