"""Union, minus, negate: the group operations of Z-sets, for streams.

    (A + B)(x) = A(x) + B(x),   (A - B)(x) = A(x) - B(x),   (-A)(x) = -A(x)

Linear: each is its own incremental form. Union is of bags; a union of sets needs a distinct after
it. Cost: one merge of the deltas.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np

from dbsp.circuit.field_ranges import ONE_INPUT, SOME_INPUTS, TWO_INPUTS
from dbsp.circuit.graph import Node
from dbsp.circuit.operator import Operator
from dbsp.circuit.operator_roles import Summing
from dbsp.circuit.step import Step
from dbsp.circuit.step_scope import StepScope
from dbsp.data.batch import Batch, combine
from dbsp.data.interner import Interner
from dbsp.data.masks import any_true
from dbsp.data.piece_batch import PieceBatch, in_pieces, summed_later
from dbsp.data.schema import Schema
from dbsp.data.types import Type
from dbsp.errors import SchemaError, ValueOutOfRangeError
from dbsp.kernels.limits import NULL
from dbsp.lazy_dataclass import dataclass
from dbsp.parallel.packed_part import Piece


def same_types(*inputs: Schema) -> Schema:
    """The common schema: names of the first input; nullable where one of the inputs is.

    Raises SchemaError if the numbers of columns or their types differ.
    """
    first = inputs[0]
    types = list(first.types)
    for other in inputs[1:]:
        if other.arity != first.arity or any(
            a.coding != b.coding for a, b in zip(first.types, other.types, strict=True)
        ):
            raise SchemaError(
                f"the columns of the streams differ: ({first.describe()}) and ({other.describe()}); make "
                "them the same with map()",
                code="schema-mismatch",
            )
        types = [a.optional() if b.nullable else a for a, b in zip(types, other.types, strict=True)]
    return Schema(first.names, tuple(types))


@dataclass(frozen=True)
class Widen(Operator):
    """The same rows; more columns allow None.

    Raises ValueOutOfRangeError for the int -2**63, whose code is that of None in an optional
    column.
    """

    input_counts = ONE_INPUT

    types: tuple[Type, ...]

    @property
    def monotone(self) -> bool:
        return True

    def schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs
        widened = Schema(schema.names, self.types)
        for old, new in zip(schema.types, self.types, strict=True):
            if new not in (old, old.optional()):
                raise SchemaError(f"expected {old} or {old.optional()}, got {new}", code="schema-mismatch")
        return widened

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return inputs[0]

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        pairs = zip(inputs[0].types, self.types, strict=True)
        widened = [c for c, (old, new) in enumerate(pairs) if old != new and old.kind == "int"]
        names = inputs[0].names

        def check(batch: Batch) -> Batch:
            lowest = batch.rows[:, widened] == NULL
            if any_true(lowest):
                name = names[widened[int(np.argmax(lowest.any(axis=0)))]]
                raise ValueOutOfRangeError(
                    f"column '{name}' of the result is optional, and -2**63 represents None in an optional "
                    "int column; filter such rows before"
                )
            return batch

        return check if widened else lambda batch: batch


@dataclass(frozen=True)
class Union(Summing):
    """The sum of any number of Z-sets."""

    input_counts = SOME_INPUTS

    @property
    def monotone(self) -> bool:
        return True

    def schema(self, *inputs: Schema) -> Schema:
        return same_types(*inputs)

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        empty = Batch.empty(inputs[0].arity)
        return lambda *batches: total([batch for batch in batches if len(batch)]) or empty

    def start(self, node: Node, sources: Sequence[Step], scope: StepScope) -> Step:
        return UnionStep(sources)


class UnionStep(Step):
    """In most iterations of a scope, one input at most has changed, and its delta is the result."""

    __slots__ = ("_sources",)

    quiet = True

    def __init__(self, sources: Sequence[Step]) -> None:
        super().__init__()
        self._sources = tuple(sources)

    def step(self) -> None:
        self.out = total([source.out for source in self._sources if source.out is not None])

    def step_last(self, released: Collection[Step]) -> None:
        changed = [source for source in self._sources if source.out is not None]
        if len(changed) < 2 or not any(in_pieces(source.out) for source in changed):
            self.step()
            return
        pieces: list[Piece] = []
        for source in changed:
            batch = source.out
            if isinstance(batch, PieceBatch) and source in released:
                pieces += batch.take()
            elif batch is not None:
                pieces.append((batch.rows, batch.weights))
        self.out = summed_later(pieces)


def total(parts: Sequence[Batch]) -> Batch | None:
    """Return the sum of batches with rows; None if it is empty."""
    if len(parts) < 2:
        return parts[0] if parts else None
    if len(parts) == 2:
        return parts[0].plus(parts[1]) or None
    return combine([(batch.rows, batch.weights) for batch in parts])


@dataclass(frozen=True)
class Minus(Operator):
    """The difference of two Z-sets; `contained` states that the second is a part of the first."""

    input_counts = TWO_INPUTS

    contained: bool = False

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return self.contained and inputs[0]

    def schema(self, *inputs: Schema) -> Schema:
        return same_types(*inputs)

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        return lambda a, b: a.plus(b, -1)


@dataclass(frozen=True)
class Negate(Operator):
    """Every weight times -1."""

    input_counts = ONE_INPUT

    def schema(self, *inputs: Schema) -> Schema:
        return inputs[0]

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        empty = Batch.empty(inputs[0].arity)
        return lambda a: empty.plus(a, -1)
