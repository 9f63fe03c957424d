"""Omit derivations of retracted rows that used the retracted row itself.

On a cycle of a graph, rows derive each other. A derivation whose premises all followed from the row
itself was never part of a proof of the row. So it explains nothing, and neither do the rows below
it.

The retracted rows of an explanation form a graph: an edge from each lost premise to the row whose
derivation it ended, and an edge from a root to the rows that were input facts or lost a premise of
another kind. If a row dominates one of its lost premises in this graph, all proofs of the premise
contain the row. Reference: Lengauer and Tarjan, A fast algorithm for finding dominators in a
flowgraph, TOPLAS 1979.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

import networkx as nx

from dbsp.compiler.why.change_search import Explanation
from dbsp.compiler.why.tick_sides import ChangedRow

Explanations: TypeAlias = Mapping[ChangedRow, Explanation | None]


def without_circular(goal: ChangedRow, found: Explanations) -> Explanations:
    """Return the explanations of a row and of those below it, without circular derivations.

    Each explanation counts the derivations that were left out. O(n log n) for n derivations.
    """
    dominated = _Dominated(found)
    kept: dict[ChangedRow, Explanation | None] = {}
    waiting = deque([goal])
    seen = {goal}
    while waiting:
        row = waiting.popleft()
        explanation = found[row]
        if explanation is not None:
            explanation = _pruned(explanation, dominated)
            for cause in explanation.causes():
                if cause not in seen:
                    seen.add(cause)
                    waiting.append(cause)
        kept[row] = explanation
    return kept


def _pruned(explanation: Explanation, dominated: _Dominated) -> Explanation:
    row = explanation.row
    chosen = tuple(
        choice
        for choice in explanation.chosen
        if choice[1] is None or not any(dominated.by(row, cause) for cause in choice[1].rows)
    )
    left_out = sum(1 + others for _, _, others in explanation.chosen)
    return replace(explanation, chosen=chosen, circular=left_out - sum(1 + others for _, _, others in chosen))


class _Dominated:
    """Answers whether all proofs of a retracted row contained another one."""

    def __init__(self, found: Explanations) -> None:
        graph = nx.DiGraph()
        for row, explanation in found.items():
            if row.inserted:
                continue
            if explanation is None or not explanation.chosen or explanation.expansion.leaf is not None:
                graph.add_edge(_ROOT, row)
                continue
            for _, change, _ in explanation.chosen:
                lost = [cause for cause in change.rows if not cause.inserted] if change is not None else []
                if change is None or not lost or len(lost) < len(change.rows):
                    graph.add_edge(_ROOT, row)
                graph.add_edges_from((cause, row) for cause in lost)
        self._numbers = _numbered(nx.immediate_dominators(graph, _ROOT)) if graph else {}

    def by(self, row: ChangedRow, other: ChangedRow) -> bool:
        """Return whether all proofs of the other row contained the row."""
        if row == other or row not in self._numbers or other not in self._numbers:
            return False
        (first, last), (place, _) = self._numbers[row], self._numbers[other]
        return first <= place <= last


_ROOT = "root"


def _numbered(dominators: Mapping[object, object]) -> dict[object, tuple[int, int]]:
    """Number the tree of dominators from the root down; return each number and the last one below.

    `dominators` has the parent of each node.
    """
    below: dict[object, list[object]] = {}
    for node, parent in dominators.items():
        if node != _ROOT:
            below.setdefault(parent, []).append(node)
    numbers: dict[object, tuple[int, int]] = {}
    entered: dict[object, int] = {}
    waiting: list[tuple[object, bool]] = [(_ROOT, False)]
    while waiting:
        node, done = waiting.pop()
        if done:
            numbers[node] = entered[node], len(entered) - 1
            continue
        entered[node] = len(entered)
        waiting.append((node, True))
        waiting.extend((child, False) for child in below.get(node, ()))
    return numbers
