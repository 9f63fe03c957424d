"""Dealing: the changes of the inputs to the shards that own the rows.

A distributed circuit says for each input by which columns its rows are dealt:

    shard(row) = h(row restricted to these columns) mod n,    and 0 without columns

The coordinator encodes changes as a plain run does, so its errors are those of a plain run, and
sends each shard its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from dbsp.circuit.exposed_ids import returns_ids
from dbsp.circuit.graph import Graph, Node
from dbsp.circuit.operator_roles import NotifyingPort, Port
from dbsp.data.batch import Batch, combine, merge_sorted
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.data.value_hashes import ValueHashes
from dbsp.data.weights import overflow_text
from dbsp.errors import CircuitError, InputError, WeightOverflowError
from dbsp.kernels.limits import NULL
from dbsp.lazy_dataclass import dataclass
from dbsp.runtime.input_changes import expect_distinct_keys
from dbsp.runtime.located_errors import located, overflow_error
from dbsp.runtime.ports import InputPort, OutputPort


@runtime_checkable
class DealtRelation(Protocol):
    """The operator of an input of a distributed circuit."""

    @property
    def relation(self) -> str: ...
    @property
    def columns(self) -> Schema: ...
    @property
    def kind(self) -> str: ...
    @property
    def key(self) -> tuple[int, ...]: ...
    @property
    def dealt(self) -> tuple[int, ...]: ...


class DealtPort(InputPort):
    """An input in the coordinator: its changes are encoded here and applied by the shards."""

    __slots__ = ("dealt", "where")

    def __init__(self, operator: DealtRelation, where: str) -> None:
        super().__init__(operator.relation, operator.columns, operator.kind, operator.key)
        self.dealt = operator.dealt
        self.where = where
        """The node of the input, for errors."""

    def step(self) -> None:
        """Do nothing: the shards step the input."""


class SummedPort(OutputPort):
    """An output in the coordinator: its delta and its integral are the sums over the shards."""

    __slots__ = ("_read", "_source")

    def __init__(self, node: Node, relation: str, read: Callable[[SummedPort], Batch]) -> None:
        super().__init__(relation, node.schema)
        self._source = node.inputs[0].node
        self._read = read

    def add_up(self, deltas: Sequence[Batch]) -> None:
        """Set the delta to the sum of those of the shards.

        Raises WeightOverflowError, which names the node that has computed the rows.
        """
        try:
            self.out = merge_sorted(deltas)
        except OverflowError as error:
            raise located(overflow_error(error, self._source), self._source, True) from None

    def total(self, parts: Sequence[Batch]) -> Batch:
        """Return the sum of the integrals of the shards. Raises WeightOverflowError."""
        try:
            return merge_sorted(parts) or Batch.empty(self.columns.arity)
        except OverflowError as error:
            message = f"output {self.relation!r}: {overflow_text(error)}, with the rows of all shards"
            raise WeightOverflowError(message) from None

    def step(self) -> None:
        """Do nothing: the shards step the output."""

    def view(self) -> Batch:
        return self._read(self)

    @property
    def kept_rows(self) -> int:
        return len(self.view())


@dataclass(frozen=True, slots=True)
class DistributedPorts:
    """The inputs and outputs of a distributed circuit, in the order of their nodes."""

    inputs: Mapping[str, DealtPort]
    outputs: Mapping[str, SummedPort]

    @staticmethod
    def of(graph: Graph, read: Callable[[SummedPort], Batch]) -> DistributedPorts:
        """Return new ports; `read` returns the integral of an output.

        Raises CircuitError if the circuit is not distributed, or has nodes that shards cannot run.
        """
        inputs: dict[str, DealtPort] = {}
        outputs: dict[str, SummedPort] = {}
        for node in graph.walk():
            _refuse_unshared(node)
        for node in graph.nodes:
            operator = node.operator
            if not isinstance(operator, Port):
                continue
            if isinstance(operator, DealtRelation):
                inputs[operator.relation] = DealtPort(operator, node.describe())
            elif not node.inputs:
                raise CircuitError(
                    "expected a distributed circuit, got one whose input is not dealt to shards; pass "
                    'circuit.circuit("distributed")',
                    where=node.describe(),
                    code="not-distributed",
                )
            else:
                relation = getattr(operator, "relation")  # noqa: B009  (of every other port)
                outputs[relation] = SummedPort(node, relation, read)
        return DistributedPorts(inputs, outputs)


def _refuse_unshared(node: Node) -> None:
    """Raise CircuitError for a node that depends on the process of the caller."""
    operator = node.operator
    if isinstance(operator, NotifyingPort):
        raise CircuitError(
            "a sharded run calls no functions after a tick, because each shard has a part of the rows only; "
            "remove the callback and read result[...] of step, or start without shards",
            where=node.describe(),
            code="not-shardable",
        )
    if operator.stored_outside:
        raise CircuitError(
            "the rows of this input are kept outside of the circuit, in the process of the caller; start "
            "without shards",
            where=node.describe(),
            code="not-shardable",
        )
    if returns_ids(node):
        raise CircuitError(
            "ord numbers the values of one process, and each shard would number them in another way; use "
            "strings and records as they are, or start without shards",
            where=node.describe(),
            code="not-shardable",
        )


class Dealer:
    """Deals encoded changes to the shards."""

    def __init__(self, ports: Mapping[str, DealtPort], shards: int, interner: Interner) -> None:
        self._ports = ports
        self._shards = shards
        self.use(interner)

    def use(self, interner: Interner) -> None:
        """Continue with an interner that replaces the one of the rows."""
        self._hashes = ValueHashes(interner)

    def deal(self, staged: Mapping[str, Batch]) -> list[dict[str, Batch]]:
        """Return by shard the changes of its rows, by input. O(rows * shards).

        Raises InputError if a key has two rows; a shard would name another row than one process.
        """
        dealt: list[dict[str, Batch]] = [{} for _ in range(self._shards)]
        for name, batch in staged.items():
            port = self._ports[name]
            if port.kind == "key":
                _expect_distinct_keys(batch, port)
                batch = _with_keys_only(batch, port)
            parts = self._hashes.split(batch, port.dealt, port.columns.types, self._shards)
            for shard, part in enumerate(parts):
                if part is not None:
                    dealt[shard][name] = part
        return dealt


def _expect_distinct_keys(batch: Batch, port: DealtPort) -> None:
    order = [*port.key, *(column for column in range(batch.arity) if column not in port.key)]
    ordered = batch.rearranged(np.array(order, np.int64))
    present = ordered.rows.compress(ordered.weights > 0, 0)
    try:
        expect_distinct_keys(present, len(port.key), port.relation)
    except InputError as error:
        error.where = port.where
        raise


def _with_keys_only(batch: Batch, port: DealtPort) -> Batch:
    """Return the batch without the values of retracted rows outside of the key.

    A retraction by key has placeholders there, which are ids of no value and so cannot travel.
    """
    retracted = batch.weights < 0
    placeholders = [
        column for column, type_ in enumerate(port.columns.types) if type_.interned and column not in port.key
    ]
    if not placeholders or not retracted.any():
        return batch
    rows = batch.rows.copy()
    rows[np.ix_(retracted, np.array(placeholders))] = NULL
    return combine([(rows, batch.weights)]) or Batch.empty(batch.arity)
