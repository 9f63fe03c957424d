"""Directed graphs of names: components, orders and paths.

Every compilation needs these few algorithms, and loading networkx takes longer than most
compilations. The orders are those of networkx.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, Generic, TypeVar

N = TypeVar("N", bound=Hashable)


class DependencyGraph(Generic[N]):
    """A directed graph, whose nodes and edges keep the order in which they were added."""

    def __init__(self, edges: Iterable[tuple[N, N]] = (), nodes: Iterable[N] = ()) -> None:
        self._next: dict[N, dict[N, None]] = {node: {} for node in nodes}
        for source, target in edges:
            self.add_edge(source, target)

    def add_edge(self, source: N, target: N) -> None:
        """Add an edge, and its nodes if they are missing."""
        self._next.setdefault(source, {})
        self._next.setdefault(target, {})
        self._next[source][target] = None

    def has_edge(self, source: N, target: N) -> bool:
        """Return whether there is an edge from `source` to `target`."""
        return target in self._next.get(source, {})

    @property
    def edges(self) -> Iterator[tuple[N, N]]:
        """The edges, by source."""
        return ((source, target) for source, targets in self._next.items() for target in targets)

    def components(self) -> Iterator[set[N]]:
        """Yield the strongly connected components, each before those that lead to it.

        Tarjan's algorithm, without recursion. O(nodes + edges).
        """
        number: dict[N, int] = {}
        low: dict[N, int] = {}
        done: set[N] = set()
        waiting: list[N] = []
        for source in self._next:
            if source in done:
                continue
            path = [source]
            rest = {source: iter(self._next[source])}
            while path:
                node = path[-1]
                number.setdefault(node, len(number))
                child = next((target for target in rest[node] if target not in number), None)
                if child is not None:
                    path.append(child)
                    rest[child] = iter(self._next[child])
                    continue
                path.pop()
                # A node that is not done yet is on the path, or waits for one that is.
                low[node] = min(
                    [number[node]]
                    + [
                        low[target] if number[target] > number[node] else number[target]
                        for target in self._next[node]
                        if target not in done
                    ]
                )
                if low[node] < number[node]:
                    waiting.append(node)
                    continue
                component = {node}
                while waiting and number[waiting[-1]] > number[node]:
                    component.add(waiting.pop())
                done |= component
                yield component

    def in_order(self, key: Callable[[N], Any]) -> Iterator[N]:
        """Yield each node after the nodes that lead to it; the least `key` first among the others.

        A node in or behind a cycle is left out.
        """
        before = dict.fromkeys(self._next, 0)
        for _, target in self.edges:
            before[target] += 1
        place = {node: at for at, node in enumerate(self._next)}
        ready = [(key(node), place[node], node) for node, count in before.items() if not count]
        heapq.heapify(ready)
        while ready:
            *_, node = heapq.heappop(ready)
            yield node
            for target in self._next[node]:
                before[target] -= 1
                if not before[target]:
                    heapq.heappush(ready, (key(target), place[target], target))

    def path(self, source: N, target: N) -> list[N]:
        """Return the nodes of a shortest path; `source` must lead to `target`."""
        came_from: dict[N, N] = {source: source}
        reached = deque([source])
        while target not in came_from:
            node = reached.popleft()
            for following in self._next[node]:
                if following not in came_from:
                    came_from[following] = node
                    reached.append(following)
        nodes = [target]
        while nodes[-1] != source:
            nodes.append(came_from[nodes[-1]])
        return nodes[::-1]
