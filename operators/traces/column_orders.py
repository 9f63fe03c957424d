"""Chooses the column orders in which the traces of a stream are kept.

A trace ordered by columns (a, b, ...) serves every reader whose key is {a}, {a, b}, ... So one
order serves a chain of keys, each contained in the next, and the fewest orders for all readers of a
stream are a minimum chain cover of its keys by containment: the number of keys minus the edges of a
maximum matching between keys and keys that contain them (Dilworth; Fulkerson 1956; as in Soufflé's
index selection, Subotic et al., VLDB 2018).

A multi-way join requests a whole chain: the variables bound when it reaches the relation, then one
variable more each time. Such chains are first merged into one another where they fit, the longest
first. The merged chains are then covered as single keys are: one chain continues another if its
first key contains the other's last key.

The circuit is lowered twice: the first pass collects the requests (operator, stream, key), the
second uses the answers. A request is identified by its number, because lowering is deterministic.
An operator that is not linear is lowered once in each pass, from its deltas (`IncrementalForm`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise

from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.circuit.rewriting import Rewriting
from dbsp.errors import expect_present
from dbsp.operators.traces.incremental_form import IncrementalForm

Key = frozenset[int]
Chain = tuple[Key, ...]


class Lowering(Rewriting):
    """The rewriting of an incremental circuit into the physical one, with its column orders."""

    def __init__(self, target: Graph, orders: Orders) -> None:
        super().__init__(target, _physical)
        self.orders = orders

    def inputs_of(self, node: Node) -> Sequence[Stream]:
        form = node.operator
        return form.deltas(node) if isinstance(form, IncrementalForm) else node.inputs

    def nodes_of(self, source: Graph) -> Iterable[Node]:
        """The nodes that ports and exports need, without the integrals of incremental forms."""
        waiting = [node for node in source.nodes if node.operator.is_port]
        waiting += [stream.node for stream in source.exports]
        needed = set(waiting)
        while waiting:
            node = waiting.pop()
            read = {stream.node for stream in (*self.inputs_of(node), *node.strict)} - needed
            needed |= read
            waiting += read
        return [node for node in source.nodes if node in needed]


class Orders:
    """The keys requested while a circuit is lowered, and the column orders that serve them."""

    def __init__(self) -> None:
        self._requests: list[tuple[Node, Chain]] = []
        self._guesses: list[tuple[int, ...]] = []
        """What the first lowering used: for each request the order that suits it alone."""
        self._answers: list[tuple[int, ...]] | None = None
        self._answered = 0

    def leading(self, stream: Stream, key: Collection[int]) -> tuple[int, ...]:
        """Return the leading columns of an arrangement of the stream for this key."""
        return self.through(stream, [frozenset(key)])

    def through(self, stream: Stream, keys: Sequence[Key]) -> tuple[int, ...]:
        """Return the leading columns of an arrangement for keys, each contained in the next."""
        if self._answers is None:
            self._requests.append((stream.node, tuple(keys)))
            self._guesses.append(refined(keys))
            return self._guesses[-1]
        self._answered += 1
        return self._answers[self._answered - 1]

    def decide(self) -> bool:
        """Choose the orders for all requests so far; return whether they differ from those used."""
        chains: dict[Node, set[Chain]] = {}
        for node, chain in self._requests:
            chains.setdefault(node, set()).add(chain)
        orders = {node: orders_for(requested) for node, requested in chains.items()}
        self._answers = [orders[node][chain] for node, chain in self._requests]
        return self._answers != self._guesses


def lower_circuit(incremental: Graph) -> Graph:
    """Return the physical circuit of an incremental one, with the fewest orders for each stream."""
    orders = Orders()
    target = _lowered(incremental, orders)
    if orders.decide():
        target = _lowered(incremental, orders)
    target.validate()
    return target


def _lowered(incremental: Graph, orders: Orders) -> Graph:
    target = Graph(incremental.name)
    lowering = Lowering(target, orders)
    lowering.rewrite(incremental)
    lowering.finish(incremental)
    return target


def _physical(rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
    return node.operator.physical(rewriting, node, inputs)


def refined(keys: Iterable[Key]) -> tuple[int, ...]:
    """A column order for growing keys: the new columns of each key, ascending."""
    order: list[int] = []
    for key in keys:
        order += sorted(key.difference(order))
    return tuple(order)


def orders_for(chains: Iterable[Chain]) -> dict[Chain, tuple[int, ...]]:
    """For every chain the leading columns of the order that serves it, with the fewest orders.

    >>> a, b, ab = frozenset({0}), frozenset({1}), frozenset({0, 1})
    >>> orders_for([(b,), (ab,), (a,)]) == {(b,): (1,), (ab,): (0, 1), (a,): (0, 1)}
    True
    """
    requested = sorted(set(chains), key=lambda chain: ([(len(key), sorted(key)) for key in chain]))
    merged: dict[Chain, Chain] = {}
    maximal: list[Chain] = []
    for chain in sorted(requested, key=len, reverse=True):
        into = next((other for other in maximal if len(other) > 1 and _both(chain, other)), None)
        if into is None:
            maximal.append(chain)
        else:
            both = expect_present(_both(chain, into), "one column order for two chains that merge")
            maximal[maximal.index(into)] = both
            merged = {smaller: both if end == into else end for smaller, end in merged.items()}
            merged[into] = merged[chain] = both
        merged.setdefault(chain, chain)
    covering = _covered(maximal)
    return {chain: covering[merged[chain]] for chain in requested}


def _both(chain: Chain, other: Chain) -> Chain | None:
    """The chain with all keys of both, or None if they do not form a chain."""
    keys = sorted({*chain, *other}, key=lambda key: (len(key), sorted(key)))
    fits = all(a < b for a, b in pairwise(keys))
    return tuple(keys) if fits else None


def _covered(chains: Sequence[Chain]) -> dict[Chain, tuple[int, ...]]:
    """The same for chains that cannot be merged: joined end to end where possible."""
    n = len(chains)
    pairs = [(i, j) for i, a in enumerate(chains) for j, b in enumerate(chains) if i != j and a[-1] < b[0]]
    matching = _matching(n, pairs) if pairs else {}
    following = {chains[i]: chains[matching[i]] for i in range(n) if i in matching}
    orders = {}
    for first in [chain for chain in chains if chain not in following.values()]:
        row = [first]
        while row[-1] in following:
            row.append(following[row[-1]])
        order = refined(key for chain in row for key in chain)
        orders.update(dict.fromkeys(row, order))
    return orders


def _matching(n: int, pairs: Sequence[tuple[int, int]]) -> dict[int, int]:
    """Return a largest set of pairs of n chains, in which each chain is first and second once at
    most."""
    import networkx as nx  # slow to import

    # Chain i is node i as the smaller part of a pair and node n + i as the larger part. The
    # matching depends on the order of sets of nodes, which for ints is the same in every process.
    edges = nx.Graph()
    edges.add_nodes_from(range(2 * n))
    edges.add_edges_from((i, n + j) for i, j in pairs)
    matching = nx.bipartite.hopcroft_karp_matching(edges, range(n))
    return {i: matching[i] - n for i in range(n) if i in matching}
