"""A recursion that no column divides, so shards gather it, or exchange rows inside of it."""

from __future__ import annotations

import random
from typing import Any

from dbsp import Circuit, col, count
from dbsp.circuit.graph import Graph

Rows = dict[tuple[int, ...], int]


def undefined_at(node: int) -> Any:
    """Return a condition that divides by zero for a pair that ends at a node; true for others."""
    return 10 // (col("y") - node) != 100


def closure(condition: Any = None) -> Graph:
    """Return the circuit of the pairs of connected nodes, and of how many end at each node.

    `condition` holds for pairs that no edge connects.
    """
    circuit = Circuit("closure")
    edge = circuit.input("edge", x=int, y=int)
    with circuit.fixpoint("path") as scope:
        path = scope.variable("path", {"x": int, "y": int})
        ends = path.rename(z="y").join(path.rename(z="x"), on="z").select("x", "y")
        if condition is not None:
            ends = ends.filter(condition)
        scope.define(path, (edge + ends).distinct())
    paths = scope.leave(path)
    circuit.output("path", paths)
    circuit.output("ends", paths.group_by("y").agg(n=count()))
    return circuit.circuit("physical")


class RandomEdges:
    """Random changes of a set of edges."""

    def __init__(self, draw: random.Random, nodes: int = 8) -> None:
        self._draw = draw
        self._nodes = nodes
        self._present: set[tuple[int, int]] = set()

    def change(self, number: int = 4) -> dict[str, Rows]:
        """Insert absent edges, and retract present ones."""
        draw, nodes = self._draw, self._nodes
        rows = {(draw.randrange(nodes), draw.randrange(nodes)) for _ in range(number)}
        changes = {row: -1 if row in self._present else 1 for row in rows}
        self._present ^= rows
        return {"edge": changes}
