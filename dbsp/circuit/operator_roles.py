"""What only some operators have to say. An operator inherits the roles that it plays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dbsp.circuit.operator import Operator
from dbsp.data.schema import Schema

if TYPE_CHECKING:
    from dbsp.circuit.graph import Node, Stream
    from dbsp.circuit.graph_copy import GraphCopy


@dataclass(frozen=True)
class StrictOperator(Operator):
    """An operator that may close a cycle: its output depends on earlier steps of its strict inputs."""

    @property
    def strict(self) -> bool:
        """Whether this very operator reads strict inputs."""
        return True

    def accept(self, *strict: Schema) -> None:
        """Check what is connected to the strict inputs; raises SchemaError."""


@dataclass(frozen=True)
class Port(Operator):
    """An operator that faces the outside: never dropped, and never shared with an equal one."""

    @property
    def shareable(self) -> bool:
        return False

    @property
    def is_port(self) -> bool:
        return True


@dataclass(frozen=True)
class TickDependent(Operator):
    """An operator whose past output may depend on the ticks in which rows came, not only on their sum.

    Its state cannot be recomputed from the integrals of its inputs.
    """

    def depends_on_ticks(self, node: Node) -> bool:
        """Whether that is so at this node. In a scope, what goes by iterations restarts in every tick."""
        return node.graph.parent is None


@dataclass(frozen=True)
class Identified(Operator, ABC):
    """An operator that needs more than `==` to be compared across circuits."""

    @abstractmethod
    def fingerprint(self, node: Node) -> Hashable:
        """The identity of the operator at this node: over equal inputs, equals compute the same."""


@dataclass(frozen=True)
class ScopeBoundary(Operator, ABC):
    """An operator that enters, holds or leaves a nested scope: it depends on nodes of two graphs."""

    @abstractmethod
    def needs(self, node: Node) -> Iterable[Node]:
        """The nodes that this one depends on directly, in the outer graph and in the scope."""

    @abstractmethod
    def copied(self, node: Node, copy: GraphCopy) -> Stream:
        """The copy of this node, and for the one that holds the scope also of the scope's nodes."""


def depends_on_ticks(node: Node) -> bool:
    """Whether the state of a node cannot be recomputed from the integrals of its inputs."""
    operator = node.operator
    if isinstance(operator, TickDependent):
        return operator.depends_on_ticks(node)
    return operator.law == "changes"


def fingerprint(node: Node) -> Hashable:
    """The identity of a node's operator (see `Identified`); most operators are compared by `==`."""
    operator = node.operator
    return operator.fingerprint(node) if isinstance(operator, Identified) else operator
