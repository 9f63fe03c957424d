"""Join trees: the atoms that are joined two at a time, and those joined several at once.

A tree has each atom of its conjunction as exactly one leaf. The variables that a node binds, and
those it passes to the node above (`keep`), depend only on the atoms below it (see
`Conjunction.bound` and `Conjunction.kept`). So a condition or a function belongs to the lowest node
that binds all of its variables.

    Q(a, d) :- e(a, b), e(b, c), e(a, c), e(c, d)         Binary on c, keep a, d
                                                          /                    \\
                                           Multiway on a, b, c, keep a, c     e(c, d)
                                           /        |         \\
                                      e(a, b)    e(b, c)    e(a, c)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from dbsp.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class LeafNode:
    """One atom; `atom` is its index in the conjunction."""

    atom: int


@dataclass(frozen=True, slots=True)
class BinaryNode:
    """left ⋈ right on the variables that both keep; a cross product if there are none.

    Weights multiply; the weights of rows with equal `keep` add up.
    """

    left: Tree
    right: Tree
    on: tuple[str, ...]
    keep: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MultiwayNode:
    """The join of all parts at once, variable by variable, without intermediate results.

    Args:
        parts: two or more trees; parts that are not leaves are joined first.
        orders: for each part the order in which its delta term binds the variables that the part
            itself does not have. An order does not contain variables that a function computes: they
            are bound as soon as the arguments of the function are bound.
        keep: the variables of the result; the weights of rows with equal values add up.
    """

    parts: tuple[Tree, ...]
    orders: tuple[tuple[str, ...], ...]
    keep: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.parts) < 2:
            raise ValueError(f"expected at least two parts of a multi-way join, got {len(self.parts)}")
        if len(self.orders) != len(self.parts):
            raise ValueError(f"expected {len(self.parts)} orders, one for each part, got {len(self.orders)}")


Tree: TypeAlias = LeafNode | BinaryNode | MultiwayNode


def children(tree: Tree) -> tuple[Tree, ...]:
    """Return the trees directly below, left to right."""
    match tree:
        case LeafNode():
            return ()
        case BinaryNode(left=left, right=right):
            return (left, right)
        case MultiwayNode(parts=parts):
            return parts


def nodes(tree: Tree) -> Iterator[Tree]:
    """Yield the tree and all trees below it, children first."""
    for child in children(tree):
        yield from nodes(child)
    yield tree


def atoms_of(tree: Tree) -> frozenset[int]:
    """Return the indices of the atoms that the tree joins."""
    return frozenset(node.atom for node in nodes(tree) if isinstance(node, LeafNode))
