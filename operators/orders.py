"""Which column orders the traces of a stream are kept in.

A trace ordered by columns (a, b, ...) serves every reader whose key is {a}, {a, b}, ... So one order
serves a chain of keys, each contained in the next, and the fewest orders for all readers of a stream
are a minimum chain cover of its keys by containment: as many chains as there are keys less the edges
of a maximum matching between keys and keys that contain them (Dilworth; Fulkerson 1956; as in
Souffle's index selection, Subotic et al., VLDB 2018).

The circuit is lowered twice: first to learn who asks for which key of which stream, then with the
answers. A request is known by its number, for lowering is deterministic.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import networkx as nx

from dbsp.graph import Graph, Node, Stream
from dbsp.rewriting import Rewriting

Key = frozenset[int]


class Lowering(Rewriting):
    """The rewriting of an incremental circuit into the physical one, with the orders it decides on."""

    def __init__(self, target: Graph, orders: Orders) -> None:
        super().__init__(target, _physical)
        self.orders = orders


class Orders:
    """The keys asked for while a circuit is lowered, and the column orders that serve them."""

    def __init__(self) -> None:
        self._requests: list[tuple[Node, Key]] = []
        self._answers: list[tuple[int, ...]] | None = None
        self._asked = 0

    def leading(self, stream: Stream, key: Collection[int]) -> tuple[int, ...]:
        """The columns that an arrangement of the stream for this key starts with, the key first."""
        if self._answers is None:
            self._requests.append((stream.node, frozenset(key)))
            return tuple(sorted(key))
        self._asked += 1
        return self._answers[self._asked - 1]

    def decide(self) -> None:
        """Choose the orders for all requests so far; lowering again gets them."""
        keys: dict[Node, set[Key]] = {}
        for node, key in self._requests:
            keys.setdefault(node, set()).add(key)
        orders = {node: orders_for(wanted) for node, wanted in keys.items()}
        self._answers = [orders[node][key] for node, key in self._requests]


def lower(incremental: Graph) -> Graph:
    """The physical circuit of an incremental one, with the fewest orders for each stream."""
    orders = Orders()
    for last in (False, True):
        target = Graph(incremental.name)
        lowering = Lowering(target, orders)
        lowering.rewrite(incremental)
        lowering.finish()
        if not last:
            orders.decide()
    target.validate()
    return target


def _physical(rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
    return node.operator.physical(rewriting, node, inputs)


def orders_for(keys: Iterable[Key]) -> dict[Key, tuple[int, ...]]:
    """For every key the columns an order starts with to serve its whole chain, by fewest chains.

    >>> orders_for([frozenset({1}), frozenset({0, 1}), frozenset({2})]) == {
    ...     frozenset({1}): (1, 0), frozenset({0, 1}): (1, 0), frozenset({2}): (2,)}
    True
    """
    distinct = sorted(set(keys), key=lambda key: (len(key), sorted(key)))
    edges = nx.Graph()
    edges.add_nodes_from(("smaller", key) for key in distinct)
    edges.add_nodes_from(("larger", key) for key in distinct)
    edges.add_edges_from((("smaller", a), ("larger", b)) for a in distinct for b in distinct if a < b)
    tops = [("smaller", key) for key in distinct]
    matching = nx.bipartite.hopcroft_karp_matching(edges, tops)
    following = {key: matching[("smaller", key)][1] for key in distinct if ("smaller", key) in matching}
    orders = {}
    for first in set(distinct).difference(following.values()):
        chain = [first]
        while chain[-1] in following:
            chain.append(following[chain[-1]])
        order: list[int] = []
        for key in chain:
            order += sorted(key.difference(order))
        orders.update(dict.fromkeys(chain, tuple(order)))
    return orders
