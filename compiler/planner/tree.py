"""Join trees: which atoms are joined two at a time, and which several at once.

A tree has each atom of its conjunction as exactly one leaf. What a node binds, and what of that goes
on to the node above (`keep`), is decided by the atoms below it alone, see
`Conjunction.bound` and `Conjunction.kept`; so a condition or a function belongs to the lowest node
that binds all of its variables.

    Q(a, d) :- e(a, b), e(b, c), e(a, c), e(c, d)         Binary on c, keep a, d
                                                          /                    \\
                                           Multiway on a, b, c, keep a, c     e(c, d)
                                           /        |         \\
                                      e(a, b)    e(b, c)    e(a, c)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class LeafNode:
    """One atom; `atom` is its index in the conjunction."""

    atom: int


@dataclass(frozen=True, slots=True)
class BinaryNode:
    """left ⋈ right on the variables that both hand on; a cross product when there are none.

    Weights multiply; rows that agree in `keep` are added up.
    """

    left: Tree
    right: Tree
    on: tuple[str, ...]
    keep: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MultiwayNode:
    """The join of all parts at once, variable by variable, without a result in between.

    Args:
        parts: two or more trees; those that are not leaves are joined first, like any stream.
        orders: for each part the order in which its delta term binds the variables that the part
            itself does not have. Variables that a function computes are left out of it: they are
            bound as soon as the arguments of the function are.
        keep: the variables of the result; rows that agree in them are added up.
    """

    parts: tuple[Tree, ...]
    orders: tuple[tuple[str, ...], ...]
    keep: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.parts) < 2:
            raise ValueError(f"a multi-way join has two parts or more, not {len(self.parts)}")
        if len(self.orders) != len(self.parts):
            raise ValueError(f"{len(self.parts)} parts need {len(self.parts)} orders, not {len(self.orders)}")


Tree: TypeAlias = LeafNode | BinaryNode | MultiwayNode


def children(tree: Tree) -> tuple[Tree, ...]:
    """The trees directly below, left to right."""
    match tree:
        case LeafNode():
            return ()
        case BinaryNode(left=left, right=right):
            return (left, right)
        case MultiwayNode(parts=parts):
            return parts


def nodes(tree: Tree) -> Iterator[Tree]:
    """The tree and all trees below it, each after those below it: the order to build them in."""
    for child in children(tree):
        yield from nodes(child)
    yield tree


def atoms_of(tree: Tree) -> frozenset[int]:
    """The indices of the atoms that the tree joins."""
    return frozenset(node.atom for node in nodes(tree) if isinstance(node, LeafNode))
