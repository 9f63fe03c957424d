"""Composite: an operator that is defined by simpler ones.

It is one node of the query. Its method `compose` defines it by other operators; its schema, its
function of Z-sets and its incremental form follow from that. By the chain rule,
(P . Q)^D = P^D . Q^D (DBSP paper, arXiv 2203.16684, proposition 3.2), also in nested scopes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from dbsp.circuit.graph import Node, Stream
from dbsp.circuit.operator import Operator
from dbsp.circuit.rewriting import Rewriting
from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.lazy_dataclass import dataclass


class Typed(Protocol):
    """The type over which a composition is written: streams, `_Columns` or `_Term`."""

    @property
    def schema(self) -> Schema: ...


T = TypeVar("T", bound=Typed)


class Add(Protocol[T]):
    """Adds one operator to the composition; returns its result."""

    def __call__(self, operator: Operator, /, *inputs: T) -> T: ...


@dataclass(frozen=True)
class _Columns:
    schema: Schema


@dataclass(frozen=True)
class _Term:
    """A result as a function of the inputs of the composite."""

    schema: Schema
    compute: Callable[[Sequence[Batch]], Batch]


@dataclass(frozen=True)
class Composite(Operator):
    """An operator that `compose` defines."""

    def compose(self, add: Add[T], *inputs: T) -> T:
        """Build the result from `inputs` by calls of `add(operator, input, ...)`, and return it."""
        raise AssertionError(f"{self.name} does not define its composition")

    def schema(self, *inputs: Schema) -> Schema:
        def add(operator: Operator, /, *parts: _Columns) -> _Columns:
            return _Columns(operator.schema(*(part.schema for part in parts)))

        return self.compose(add, *map(_Columns, inputs)).schema

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        def add(operator: Operator, /, *parts: _Term) -> _Term:
            schemas = [part.schema for part in parts]
            apply = operator.function(interner, *schemas)
            return _Term(operator.schema(*schemas), lambda given: apply(*(p.compute(given) for p in parts)))

        composed = self.compose(add, *(_Term(schema, _nth(n)) for n, schema in enumerate(inputs)))
        return lambda *given: composed.compute(given)

    def expand(self, rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        def add(operator: Operator, /, *parts: Stream) -> Stream:
            return operator.expand(rewriting, node, parts)  # a part may be a composite itself

        return self.compose(add, *inputs)


def _nth(n: int) -> Callable[[Sequence[Batch]], Batch]:
    return lambda given: given[n]
