"""Input: a named relation of a circuit whose changes come from the caller.

Four kinds differ in the meaning of a change (defined in `dbsp.runtime.input_changes`):

- `zset`    the change is a Z-set delta and is emitted unchanged;
- `set`     a row is present or absent: a positive weight asserts it, a negative one retracts it,

      out(x) = [w(x) > 0] - x in z^-1(I(out))      for the rows x of the change;

- `key`     the relation has one row per key: a positive weight replaces the row of its key, a
            negative one removes it;
- `external` the delta of a set of rows that an index outside of the circuit keeps: arrangements
            of the input read the traces of the index (`dbsp.state.external_traces`).

`set` and `key` read the integral of their own output before the tick: a cycle through z^-1, closed
by the strict edge from the arrangement. Cost: O(|change| log n).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dbsp.circuit.field_ranges import NO_INPUT, InputColumns, OneOf
from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.circuit.operator_roles import HashPlaced, Port, StrictOperator
from dbsp.circuit.rewriting import Rewriting
from dbsp.circuit.step import Step
from dbsp.circuit.step_roles import ExternalStep, StrictStep, expect_arranged
from dbsp.circuit.step_scope import StepScope
from dbsp.data.batch import Batch
from dbsp.data.run_batch import stored_rows
from dbsp.data.schema import Schema
from dbsp.errors import CircuitError, SchemaError
from dbsp.kernels import count_asserted, replace_by_key
from dbsp.kernels.arrays import Codes
from dbsp.kernels.jit import expect_calls
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.traces.arrange import (
    arranged,
    arranged_by_any_order,
    expect_arrangement_of,
    expect_order,
    order_of,
)
from dbsp.runtime.input_changes import apply_by_key, apply_to_set, expect_distinct_keys
from dbsp.runtime.ports import InputPort
from dbsp.state.trace import Trace

FEW = 64
"""A change of so few rows is looked up before any array of results is made."""
OWN_KEY = InputColumns(distinct=True)
"""The range of the key and of the columns to deal by, over the columns of the relation."""
KINDS = OneOf(("zset", "set", "key", "external"))


def outside_scopes(port: Port, graph: Graph) -> None:
    """Raise CircuitError if the graph of an input or output is a nested scope."""
    if graph.parent is not None:
        raise CircuitError(
            f"{port.label} is inside the scope '{graph.name}'; move it out", code="scope-misuse"
        )


@dataclass(frozen=True)
class Input(StrictOperator, Port):
    """An input relation; `kind` is 'zset', 'set', 'external' or 'key', with the key in `key`."""

    input_counts = NO_INPUT

    relation: str
    columns: Schema
    kind: str = "zset"
    key: tuple[int, ...] = ()

    @property
    def label(self) -> str:
        return f"Input {self.relation}"

    @property
    def strict(self) -> bool:
        return self.kind in ("set", "key")

    @property
    def stored_outside(self) -> bool:
        return self.kind == "external"

    def schema(self, *inputs: Schema) -> Schema:
        OWN_KEY.check(self.key, [self.columns])
        KINDS.check(self.kind, ())
        if (self.kind == "key") != bool(self.key):
            raise SchemaError(
                f"expected key columns for kind 'key' and for no other, got kind {self.kind!r} and the key "
                f"{self.key}",
                code="missing-key",
            )
        return self.columns

    def check_inputs(self, graph: Graph, inputs: Sequence[Stream]) -> None:
        outside_scopes(self, graph)

    def accept(self, *strict: Schema) -> None:
        if len(strict) != 1:
            raise SchemaError(f"expected 1 input one step late, got {len(strict)}", code="wrong-arity")

    def check_strict(self, node: Node, strict: Sequence[Stream]) -> None:
        (past,) = strict
        expect_order(past, self.key)
        expect_arrangement_of(past, node)

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return self.kind != "zset"

    @property
    def law(self) -> str:
        return "source"

    def expand(self, rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        return rewriting.add(self, graph=rewriting.target)

    def copy(self, rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        stream = rewriting.add(self, graph=rewriting.target)
        if self.strict:
            stream.graph.connect(stream, arranged(rewriting, stream, self.key))
        return stream

    def physical(self, rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        if self.kind == "set":
            stream = rewriting.add(self, graph=rewriting.target)
            # Presence can be looked up in any column order, so this shares the arrangement of a
            # join.
            rewriting.finally_(lambda: stream.graph.connect(stream, arranged_by_any_order(rewriting, stream)))
            return stream
        return self.copy(rewriting, node, inputs)

    def start(self, node: Node, sources: Sequence[Step], scope: StepScope) -> Step:
        if self.strict and not node.strict:
            raise CircuitError(
                f"the input '{self.relation}' of kind '{self.kind}' does not read its own rows one step late",
                code="incomplete-circuit",
            )
        if self.kind == "set":
            return SetInputStep(self, order_of(node.strict[0]))
        if self.kind == "key":
            return KeyInputStep(self, order_of(node.strict[0]))
        if self.kind == "external":
            return ExternalInputStep(self, scope)
        return InputStep(self)


@dataclass(frozen=True)
class DealtInput(Input, HashPlaced):
    """An input of a distributed circuit: a row goes to the shard of the hash of `dealt`.

    Without columns these are all rows on the first shard. `dealt` are columns of the key of an
    input with a key, so that one shard knows all rows of a key.
    """

    dealt: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        return Input.__name__  # errors are those of one process

    @property
    def label(self) -> str:
        names = ", ".join(self.columns.names[column] for column in self.dealt)
        return f"{super().label}, dealt by {names}" if names else f"{super().label}, on one shard"

    def schema(self, *inputs: Schema) -> Schema:
        OWN_KEY.check(self.dealt, [self.columns])
        return super().schema(*inputs)

    @property
    def placed_by(self) -> tuple[int, ...]:
        return self.dealt


class InputStep(InputPort):
    """Emits the changes staged for this tick."""

    __slots__ = ()

    quiet = True

    def __init__(self, operator: Input) -> None:
        super().__init__(operator.relation, operator.columns, operator.kind, operator.key)

    def step(self) -> None:
        self.out = self.staged


class ExternalInputStep(InputStep, ExternalStep):
    __slots__ = ("_traces",)

    def __init__(self, operator: Input, scope: StepScope) -> None:
        super().__init__(operator)
        self._traces = scope.external_traces(operator.relation)

    def external_trace(self, order: tuple[int, ...]) -> Trace:
        return self._traces.trace(self.relation, order)


class StoredInputStep(InputStep, StrictStep):
    """Reads the rows of its relation before the tick, which an arrangement keeps."""

    __slots__ = ("_order", "_past", "_restore")

    def __init__(self, operator: Input, order: Sequence[int]) -> None:
        super().__init__(operator)
        identity = list(order) == list(range(len(order)))
        self._order = None if identity else np.array(order, np.int64)
        self._restore = np.argsort(np.array(order, np.int64))

    def connect(self, strict: Sequence[Step]) -> None:
        (self._past,) = expect_arranged(self.node, strict)

    def _restored(self, rows: Codes, weights: Codes) -> Batch:
        """Return rows in the order of the arrangement as a batch of the relation."""
        batch = Batch(rows, weights)
        return batch if self._order is None else batch.rearranged(self._restore)


class SetInputStep(StoredInputStep):
    __slots__ = ()

    def step(self) -> None:
        self.present = self.absent = 0
        batch = self.staged
        if batch is None:
            self.out = None
            return
        if not self._past.count and batch.units:
            self.out = batch  # a load into an empty relation
            return
        ordered = batch if self._order is None else batch.rearranged(self._order)
        rows, weights = ordered.rows, ordered.weights
        # The arrangement steps after this node, so all of its runs belong to earlier ticks.
        table, runs = self._past.table, self._past.count
        if len(weights) <= FEW:
            self.present, self.absent, units = count_asserted(rows, weights, table, runs)
            unchanged = self.present + self.absent
            if unchanged == len(weights) or (units and not unchanged):
                self.out = None if unchanged else batch
                return
        changed, signs, self.present, self.absent = apply_to_set(rows, weights, table, runs)
        if len(signs) == 0:
            self.out = None
        elif np.array_equal(signs, ordered.weights):
            self.out = batch  # the whole batch changes the set, as in a load: keep no second copy
        else:
            self.out = self._restored(changed, signs)


class KeyInputStep(StoredInputStep):
    __slots__ = ("_key",)

    def __init__(self, operator: Input, order: Sequence[int]) -> None:
        super().__init__(operator, order)
        self._key = len(operator.key)
        expect_calls(replace_by_key)

    def step(self) -> None:
        self.present = self.absent = 0
        self.out = None
        batch = self.staged
        if batch is None:
            return
        ordered = batch if self._order is None else batch.rearranged(self._order)
        if not self._past.count and batch.units:
            expect_distinct_keys(stored_rows(ordered), self._key, self.relation)
            self.out = batch  # a load into an empty relation
            return
        changed, signs, self.present, self.absent = apply_by_key(
            ordered.rows, ordered.weights, self._key, self._past.table, self._past.count, self.relation
        )
        if len(signs):
            self.out = self._restored(changed, signs)
