"""Constant: a Z-set that is present from the first tick on.

As a stream of deltas it is the Z-set in the first tick and empty in all later ticks.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from dbsp.circuit.field_ranges import NO_INPUT
from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.circuit.operator_roles import Identified
from dbsp.circuit.step import Step
from dbsp.circuit.step_scope import StepScope
from dbsp.data.batch import Batch
from dbsp.data.schema import Schema
from dbsp.data.types import Type
from dbsp.errors import WeightOverflowError, full_repr, shorten
from dbsp.kernels import consolidate
from dbsp.kernels.limits import INT64_MAX, INT64_MIN
from dbsp.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Constant(Identified):
    """The given rows with their weights."""

    input_counts = NO_INPUT

    rows: tuple[tuple[tuple[Any, ...], int], ...]
    columns: Schema

    def check_inputs(self, graph: Graph, inputs: Sequence[Stream]) -> None:
        for _, weight in self.rows:
            if not INT64_MIN <= weight <= INT64_MAX:
                raise WeightOverflowError(f"expected a weight of 64 bits, got {shorten(weight)}")

    @property
    def label(self) -> str:
        return f"Constant ({len(self.rows)} rows)"

    @property
    def shareable(self) -> bool:
        # Constants of different values would compare equal: the objects 1, True and 1.0, and the
        # two instants of a local time that occurs twice.
        return all(map(_equal_as_in_python, self.columns.types))

    def schema(self, *inputs: Schema) -> Schema:
        return self.columns

    def fingerprint(self, node: Node) -> Hashable:
        return self if self.shareable else (Constant, full_repr(self.rows), self.columns)

    @property
    def law(self) -> str:
        return "source"

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return len({row for row, _ in self.rows}) == len(self.rows) and all(w == 1 for _, w in self.rows)

    def start(self, node: Node, sources: Sequence[Step], scope: StepScope) -> Step:
        codes = self.columns.encode_rows([row for row, _ in self.rows], scope.interner)
        weights = np.array([weight for _, weight in self.rows], np.int64)
        return ConstantStep(Batch(*consolidate(codes, weights)), scope)


def _equal_as_in_python(type_: Type) -> bool:
    """Whether two values of a type are the same value if they are equal in Python."""
    parts = (part.type for part in type_.parts)
    return type_.kind != "object" and type_.zone in ("", "UTC") and all(map(_equal_as_in_python, parts))


class ConstantStep(Step):
    __slots__ = ("_scope", "_value")

    def __init__(self, value: Batch, scope: StepScope) -> None:
        super().__init__()
        self._value = value
        self._scope = scope

    def step(self) -> None:
        self.out = self._value if self._scope.first_tick and len(self._value) else None
