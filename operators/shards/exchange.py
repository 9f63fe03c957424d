"""Exchange: move each row to the shard where its reader needs it.

With s_i the part of a stream on shard i, where a row belongs by the hash of the columns
(`dbsp.data.value_hashes`):

    Exchange:  out_i = sum over j of the rows x of s_j that belong on shard i
    Gather:    out_0 = sum over j of s_j,  and nothing elsewhere: an exchange by no columns
    Broadcast: out_i = sum over j of s_j
    Owned:     out_i = the rows x of s_i that belong on shard i: one copy of what all shards have

Linear, and the identity on one shard, so each is its own incremental form. Cost: one pass over the
delta, and one message between each pair of shards. (Feldera and differential dataflow have the
exchange inside of their operators; BigDatalog, SIGMOD 2016, plans it as here.)
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import field
from typing import Any

from dbsp.circuit.field_ranges import DISTINCT_COLUMNS, ONE_INPUT
from dbsp.circuit.graph import Node
from dbsp.circuit.node_numbers import numbered
from dbsp.circuit.operator_roles import HashPlaced, RowCopying, RowMoving, RowPlacing
from dbsp.circuit.step import Step
from dbsp.circuit.step_roles import MeetingStep
from dbsp.circuit.step_scope import StepScope
from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.data.value_hashes import ValueHashes
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.traces.arrange import Arrange


@dataclass(frozen=True)
class Placing(RowPlacing):
    """Sends rows to shards, or keeps some of them; linear and monotone."""

    input_counts = ONE_INPUT

    @property
    def monotone(self) -> bool:
        return True

    @property
    def keeps_rows(self) -> bool:
        return True

    def schema(self, *inputs: Schema) -> Schema:
        return inputs[0]

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return inputs[0]

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        return lambda batch: batch


@dataclass(frozen=True)
class Exchange(Placing, HashPlaced, RowMoving):
    """Moves each row to the shard of the hash of `columns`."""

    columns: tuple[int, ...] = field(metadata=DISTINCT_COLUMNS)

    @property
    def placed_by(self) -> tuple[int, ...]:
        return self.columns

    @property
    def label(self) -> str:
        return f"Exchange by {', '.join(map(str, self.columns))}"

    def caption(self, columns: Sequence[Sequence[str]]) -> str:
        return f"Exchange by {', '.join(columns[0][column] for column in self.columns)}"

    def start(self, node: Node, sources: Sequence[Step], scope: StepScope) -> Step:
        return ExchangeStep(node, sources[0], scope, self.columns)


@dataclass(frozen=True)
class Gather(Placing, RowMoving):
    """Moves all rows to the first shard."""

    def start(self, node: Node, sources: Sequence[Step], scope: StepScope) -> Step:
        return ExchangeStep(node, sources[0], scope, ())


@dataclass(frozen=True)
class Broadcast(Placing, RowCopying):
    """Sends all rows to every shard."""

    def start(self, node: Node, sources: Sequence[Step], scope: StepScope) -> Step:
        return BroadcastStep(node, sources[0], scope)


@dataclass(frozen=True)
class Owned(Placing):
    """Keeps, of a stream that every shard has, the rows of this shard by the hash of `columns`.

    Without columns these are all rows on the first shard, and none elsewhere.
    """

    columns: tuple[int, ...] = field(metadata=DISTINCT_COLUMNS)

    @property
    def label(self) -> str:
        return f"Owned by {', '.join(map(str, self.columns)) or 'the first shard'}"

    def caption(self, columns: Sequence[Sequence[str]]) -> str:
        return f"Owned by {', '.join(columns[0][c] for c in self.columns) or 'the first shard'}"

    def start(self, node: Node, sources: Sequence[Step], scope: StepScope) -> Step:
        return OwnedStep(node, sources[0], scope, self.columns)


class PlacingStep(Step):
    """A step that changes on which shards the rows are."""

    __slots__ = ("_link", "_schema", "_source", "_where")

    quiet = True

    def __init__(self, node: Node, source: Step, scope: StepScope) -> None:
        super().__init__()
        self._source = source
        self._link = scope.link
        self._schema = node.schema
        self._where = numbered(node)


class SendingStep(PlacingStep, MeetingStep):
    """A step that sends a part of its rows to each shard, and emits what all shards send to it."""

    __slots__ = ()

    def step(self) -> None:
        self.out = self._link.exchange(self._where, self._parts(), self._schema)

    def pack(self) -> Any:
        return self._link.pack(self._where, self._parts(), self._schema)

    @abstractmethod
    def _parts(self) -> Sequence[Batch | None]:
        """Return the rows to send, by shard."""


class HashingStep(PlacingStep):
    """A step that places rows by the hash of some columns."""

    __slots__ = ("_columns", "_hashes")

    def __init__(self, node: Node, source: Step, scope: StepScope, columns: Sequence[int]) -> None:
        super().__init__(node, source, scope)
        self._columns = columns
        self._hashes = ValueHashes(scope.interner)

    def _split(self, batch: Batch) -> Sequence[Batch | None]:
        """Return the rows by the shard on which they belong."""
        return self._hashes.split(batch, self._columns, self._schema.types, self._link.shards)


class ExchangeStep(HashingStep, SendingStep):
    __slots__ = ()

    def _parts(self) -> Sequence[Batch | None]:
        batch, shards = self._source.out, self._link.shards
        return [batch] * shards if batch is None or shards == 1 else self._split(batch)


class BroadcastStep(SendingStep):
    __slots__ = ()

    def _parts(self) -> Sequence[Batch | None]:
        return [self._source.out] * self._link.shards


class OwnedStep(HashingStep):
    __slots__ = ()

    def step(self) -> None:
        batch, link = self._source.out, self._link
        if batch is not None and link.shards > 1:
            batch = self._split(batch)[link.shard]
        self.out = batch


def unplaced(node: Node) -> Hashable:
    """Return an object that is equal for nodes that differ only in the placement of their rows."""
    operator = node.operator
    if isinstance(operator, Placing):
        return unplaced(node.inputs[0].node)
    if isinstance(operator, Arrange):
        return operator.order, unplaced(node.inputs[0].node)
    return node
