"""The plan by the shape of the query alone, when nothing is known about the rows."""

from __future__ import annotations

from collections.abc import Sequence

from dbsp.compiler.planner.acyclic import blocks, reduce_ears
from dbsp.compiler.planner.conjunction import Conjunction
from dbsp.compiler.planner.tree import BinaryNode, LeafNode, MultiwayNode, Tree, atoms_of
from dbsp.compiler.planner.variable_orders import default_orders


def by_shape(conjunction: Conjunction) -> Tree:
    """Acyclic: left-deep. Cyclic: a multi-way node per block of the core, the rest joined to it one by one.

    Atoms that add no variable to a block, and so merely filter it, are joined in its node.
    """
    edges = conjunction.closed_edges
    reduction = reduce_ears(edges)
    if reduction.acyclic:
        return left_deep(conjunction, greedy_order(conjunction))
    parts: list[list[int]] = [list(block) for block in blocks(edges, reduction.core)]
    for ear in sorted(ear for ear, _ in reduction.ears):
        shown = frozenset(conjunction.kept((ear,)))
        containing = [part for part in parts if len(part) > 1 and shown and shown <= _all(edges, part)]
        if containing:
            containing[0].append(ear)
        else:
            parts.append([ear])
    trees = [multiway(conjunction, [LeafNode(atom) for atom in sorted(part)]) for part in parts]
    # The largest block goes first: all else is joined to it where it hangs together.
    trees.sort(key=lambda tree: (-len(atoms_of(tree)), min(atoms_of(tree))))
    found = trees.pop(0)
    while trees:
        at = next((at for at, tree in enumerate(trees) if _meet(conjunction, found, tree)), 0)
        found = binary(conjunction, found, trees.pop(at))
    return found


def greedy_order(conjunction: Conjunction) -> tuple[int, ...]:
    """First the atom with most constants; then always one that shares a bound variable, the one with
    the largest part of its columns bound or fixed first, of equals the one written first."""
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
    """Two-way joins, one atom after the other."""
    first, *others = order
    tree: Tree = LeafNode(first)
    for atom in others:
        tree = binary(conjunction, tree, LeafNode(atom))
    return tree


def binary(conjunction: Conjunction, left: Tree, right: Tree) -> BinaryNode:
    """The two-way join of two trees on all they share."""
    right_kept = frozenset(conjunction.kept(atoms_of(right)))
    on = tuple(name for name in conjunction.kept(atoms_of(left)) if name in right_kept)
    return BinaryNode(left, right, on, conjunction.kept(atoms_of(left) | atoms_of(right)))


def multiway(
    conjunction: Conjunction, parts: Sequence[Tree], orders: Sequence[tuple[str, ...]] | None = None
) -> Tree:
    """The multi-way join of some trees, with the default orders unless given; a single tree is itself."""
    if len(parts) == 1:
        return parts[0]
    if orders is None:
        orders = default_orders([conjunction.kept(atoms_of(part)) for part in parts], conjunction.functions)
    every = frozenset().union(*map(atoms_of, parts))
    return MultiwayNode(tuple(parts), tuple(orders), conjunction.kept(every))


def _all(edges: Sequence[frozenset[str]], atoms: Sequence[int]) -> frozenset[str]:
    return frozenset().union(*(edges[atom] for atom in atoms))


def _meet(conjunction: Conjunction, left: Tree, right: Tree) -> bool:
    return not set(conjunction.kept(atoms_of(left))).isdisjoint(conjunction.kept(atoms_of(right)))
