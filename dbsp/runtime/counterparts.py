"""Counterparts: which node of the old circuit a changed node of the new circuit continues.

An edit changes the stream of a node from I(o) to I(n), with o a node of the old circuit and n its
counterpart in the new one. The state of n is that of o after one more step, with the delta

    D(n) = I(n) - I(o)

This holds for every choice of o with the same operator whose inputs are the counterparts of the
inputs of n. So the choice decides the cost only. There are two kinds:

    carried    the same operator over kept streams and counterparts: its step turns the deltas of
               the inputs into D(n), as in any tick
    bridged    other rules of a relation of the same name: D(n) is the sum of the integrals of the
               rules that only the new relation has, less those that only the old one has

The search begins at the relations of both programs and follows their readers.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import field
from itertools import product

from dbsp.circuit.graph import Graph, Node
from dbsp.circuit.operator_roles import Arranging, Summing, depends_on_ticks, fingerprint
from dbsp.lazy_dataclass import dataclass
from dbsp.runtime.relation_nodes import relation_nodes


@dataclass(frozen=True)
class Parts:
    """The terms of the delta of a bridged node."""

    added: Sequence[Node]
    """Nodes of the new circuit whose integrals are added."""
    dropped: Sequence[Node]
    """Nodes of the old circuit whose integrals are subtracted."""
    changed: Sequence[Node]
    """Nodes of the new circuit whose deltas are added."""


@dataclass(frozen=True)
class Counterparts:
    """The counterparts of the nodes of a new circuit whose streams an edit changes."""

    of: dict[Node, Node] = field(default_factory=dict)
    """By new node its counterpart in the old circuit."""
    carried: dict[Node, tuple[bool, ...]] = field(default_factory=dict)
    """By carried node, which of its inputs differ from those of its counterpart."""
    bridged: dict[Node, Parts] = field(default_factory=dict)
    """The terms of the delta of each bridged node."""


def find_counterparts(
    old: Graph, new: Graph, numbers: Mapping[Node, int], refused: Collection[Node]
) -> Counterparts:
    """Return the counterparts of the nodes of a new circuit.

    Nodes of equal `numbers` have equal streams (see `dbsp.circuit.equality`). A node among the
    `refused` ones has no counterpart. O(nodes).
    """
    return _Search(old, new, numbers, refused).found


class _Search:
    def __init__(
        self, old: Graph, new: Graph, numbers: Mapping[Node, int], refused: Collection[Node]
    ) -> None:
        self._numbers = numbers
        self._kept = {numbers[node] for node in new.nodes} & {numbers[node] for node in old.nodes}
        self.found = Counterparts()
        self._taken: set[Node] = set()
        self._readers: dict[Hashable, list[Node]] = {}
        """The old nodes that may be carried, by operator and inputs."""
        for node in old.nodes:
            if numbers[node] not in self._kept and _may_be_carried(node):
                inputs = tuple(self._identity(stream.node) for stream in node.inputs)
                self._readers.setdefault((fingerprint(node), inputs), []).append(node)
        edited = self._edited(old, new)
        for node in new.nodes:
            if node not in refused and not (self._carry(node) or node not in edited):
                self.found.bridged[node] = self._parts(node, edited[node])
                self.found.of[node] = edited[node]

    def _is_kept(self, node: Node) -> bool:
        """Return whether both circuits have the stream of a node."""
        return self._numbers[node] in self._kept

    def _carry(self, node: Node) -> bool:
        """Find an old node that the node can continue; return whether there is one."""
        if self._is_kept(node) or not _may_be_carried(node):
            return False
        choices: list[list[tuple[Hashable, bool]]] = []
        for stream in node.inputs:
            before = self.found.of.get(stream.node)
            choices.append([(self._identity(stream.node), False)] if self._is_kept(stream.node) else [])
            if before is not None:
                choices[-1].append((self._identity(before), True))
        for chosen in product(*choices):
            key = fingerprint(node), tuple(identity for identity, _ in chosen)
            for before in self._readers.get(key, ()):
                if before not in self._taken:
                    self._taken.add(before)
                    self.found.of[node] = before
                    self.found.carried[node] = tuple(differs for _, differs in chosen)
                    return True
        return False

    def _identity(self, node: Node) -> Hashable:
        """Return an object that is equal for a node and the nodes with the same kept stream."""
        return ("kept", self._numbers[node]) if self._is_kept(node) else node

    def _edited(self, old: Graph, new: Graph) -> dict[Node, Node]:
        """Return pairs of nodes of the two circuits that do the same for the same relations.

        From the node of each relation it follows the inputs, as far as both circuits have the same
        operators.
        """
        before = relation_nodes(old)
        found: dict[Node, Node] = {}
        waiting = [(node, before[name]) for name, node in relation_nodes(new).items() if name in before]
        while waiting:
            node, other = waiting.pop()
            if self._numbers[node] == self._numbers[other] or node in found:
                continue
            if node.schema.types != other.schema.types:
                continue
            found[node] = other
            if isinstance(node.operator, Summing) or isinstance(other.operator, Summing):
                added, dropped = self._without_common(_summands(node), _summands(other))
                waiting += zip(added, dropped, strict=False)
            elif fingerprint(node) == fingerprint(other):
                waiting += [(a.node, b.node) for a, b in zip(node.inputs, other.inputs, strict=True)]
        return {node: other for node, other in found.items() if _may_be_bridged(node)}

    def _without_common(self, nodes: list[Node], others: list[Node]) -> tuple[list[Node], list[Node]]:
        """Return the nodes of each list that have no equal node in the other one."""
        left, alone = list(others), []
        for node in nodes:
            same = [each for each in left if self._numbers[each] == self._numbers[node]]
            if same:
                left.remove(same[0])
            else:
                alone.append(node)
        return alone, left

    def _parts(self, node: Node, before: Node) -> Parts:
        alone, left = self._without_common(_summands(node), _summands(before))
        added, changed = [], []
        for part in alone:
            counterpart = self.found.of.get(part)
            if counterpart in left:
                left.remove(counterpart)
                changed.append(part)
            else:
                added.append(part)
        return Parts(added, left, changed)


def _summands(node: Node) -> list[Node]:
    """Return the nodes whose sum is the stream of a node: those of a union, else the node."""
    if isinstance(node.operator, Summing):
        return [stream.node for stream in node.inputs]
    return [node]


def _may_be_carried(node: Node) -> bool:
    """Return whether a step of the node over the difference gives the state after the edit."""
    return bool(
        node.inputs
        and not node.strict  # a loop, or state that forgets the rows that a watermark has passed
        and not node.operator.is_port
        and not depends_on_ticks(node)
    )


def _may_be_bridged(node: Node) -> bool:
    """Return whether readers need nothing of a node but its delta."""
    return not (node.operator.is_port or node.operator.children() or isinstance(node.operator, Arranging))
