"""Roles: abilities that only some operators have. An operator inherits from its roles."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING

from dbsp.circuit.operator import Operator
from dbsp.data.schema import Schema
from dbsp.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from dbsp.circuit.graph import Node, Stream
    from dbsp.circuit.graph_copy import GraphCopy


@dataclass(frozen=True)
class StrictOperator(Operator):
    """An operator that may close a cycle: it reads earlier steps of its strict inputs."""

    @property
    def strict(self) -> bool:
        """Whether this operator reads strict inputs."""
        return True

    def accept(self, *strict: Schema) -> None:
        """Check the schemas of the strict inputs. Raises SchemaError."""

    def check_strict(self, node: Node, strict: Sequence[Stream]) -> None:
        """Raise CircuitError if the node cannot read these streams one step late."""


@dataclass(frozen=True)
class Port(Operator):
    """An input or output of the circuit: never dropped, and never merged with an equal one."""

    @property
    def shareable(self) -> bool:
        return False

    @property
    def is_port(self) -> bool:
        return True


@dataclass(frozen=True)
class NotifyingPort(Port):
    """A port that calls a function of the caller after the commit of a tick."""


@dataclass(frozen=True)
class RowPlacing(Operator):
    """An operator that changes on which shards the rows are, and nothing else.

    Its errors name the node whose rows it places, as in a circuit without it.
    """


@dataclass(frozen=True)
class RowMoving(RowPlacing):
    """An operator that moves each row to one shard, and changes nothing else."""


@dataclass(frozen=True)
class RowCopying(Operator):
    """An operator that sends each row to every shard, and changes nothing else."""


@dataclass(frozen=True)
class Summing(Operator):
    """An operator whose output is the sum of its inputs."""


@dataclass(frozen=True)
class Arranging(Operator):
    """An operator whose readers also read its trace (see `dbsp.circuit.step_roles.Arranged`)."""


@dataclass(frozen=True)
class TickDependent(Operator):
    """An operator whose past output may depend on the tick of each input row.

    Its state cannot be recomputed from the integrals of its inputs.
    """

    def depends_on_ticks(self, node: Node) -> bool:
        """Return whether that holds at this node; in a scope, iterations start again every tick."""
        return node.graph.parent is None


@dataclass(frozen=True)
class Identified(Operator, ABC):
    """An operator that needs more than `==` to be compared across circuits."""

    @abstractmethod
    def fingerprint(self, node: Node) -> Hashable:
        """Return the identity: operators of equal identity over equal inputs are equal."""


@dataclass(frozen=True)
class Forgetful(Operator, ABC):
    """An operator whose state forgets rows that no node reads; its output is that of `whole`."""

    @property
    @abstractmethod
    def whole(self) -> Operator:
        """The same operator with a state that keeps all rows."""


@dataclass(frozen=True)
class HashPlaced(Operator, ABC):
    """An operator of a distributed circuit whose rows are on the shards of their hashes."""

    @property
    @abstractmethod
    def placed_by(self) -> tuple[int, ...]:
        """The columns that are hashed; without columns all rows are on the first shard."""


@dataclass(frozen=True)
class ScopeBoundary(Operator, ABC):
    """An operator at the boundary of a nested scope: it depends on nodes of two graphs."""

    @abstractmethod
    def needs(self, node: Node) -> Iterable[Node]:
        """Return the direct dependencies of this node, in the outer graph and in the scope."""

    @abstractmethod
    def copied(self, node: Node, copy: GraphCopy) -> Stream:
        """Copy this node and, if it holds the scope, the nodes of the scope; return the copy."""


def depends_on_ticks(node: Node) -> bool:
    """Return whether the state of a node cannot be recomputed from the integrals of its inputs."""
    operator = node.operator
    if isinstance(operator, TickDependent):
        return operator.depends_on_ticks(node)
    return operator.law == "changes"


def fingerprint(node: Node) -> Hashable:
    """Return the identity of the operator of a node: see `Identified`."""
    operator = node.operator
    if isinstance(operator, Forgetful):
        return operator.whole
    return operator.fingerprint(node) if isinstance(operator, Identified) else operator
