"""An operator with a state table, as a user may write one: no operator of dbsp keeps one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dbsp.circuit.graph import Node
from dbsp.circuit.operator import Operator
from dbsp.circuit.step import Step
from dbsp.circuit.step_scope import StepScope
from dbsp.data.batch import Batch
from dbsp.data.schema import Schema
from dbsp.data.types import INT
from dbsp.kernels import consolidate


@dataclass(frozen=True)
class Totals(Operator):
    """The rows with the sum of the weights so far, kept in a table."""

    input_counts = range(1, 2)

    def schema(self, *inputs: Schema) -> Schema:
        return Schema((*inputs[0].names, "total"), (*inputs[0].types, INT))

    def start(self, node: Node, sources: Sequence[Step], scope: StepScope) -> Step:
        return TotalsStep(sources[0], scope)


class TotalsStep(Step):
    def __init__(self, source: Step, scope: StepScope) -> None:
        super().__init__()
        self.source = source
        self.totals: Any = scope.new_table()

    def step(self) -> None:
        self.out = None
        changed = []
        batch = self.source.out
        if batch is None:
            return
        for row, weight in zip(batch.rows.tolist(), batch.weights.tolist(), strict=True):
            key = tuple(row)
            total = self.totals.pop(key, 0)
            if total:
                changed.append(((*row, total), -1))
            if total + weight:
                self.totals[key] = total + weight
                changed.append(((*row, total + weight), 1))
        if changed:
            codes, weights = np.array([row for row, _ in changed]), np.array([w for _, w in changed])
            self.out = Batch(*consolidate(codes, weights)) or None
