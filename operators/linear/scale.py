"""Scale: every weight times a constant.

    scale(s, k)(x) = k * s(x)

Linear: its own incremental form. Cost: O(delta).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dbsp.circuit.operator import Operator
from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.kernels.limits import INT64_MAX, INT64_MIN


@dataclass(frozen=True)
class Scale(Operator):
    """The multiple of a Z-set; raises WeightOverflowError when a product leaves int64."""

    factor: int

    @property
    def label(self) -> str:
        return f"Scale by {self.factor}"

    def schema(self, *inputs: Schema) -> Schema:
        return inputs[0]

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        factor = self.factor
        nothing = Batch.empty(inputs[0].arity)

        def scale(batch: Batch) -> Batch:
            if factor == 0 or len(batch) == 0:
                return nothing
            # w * k is monotone in w, so if the two outermost products fit all of them do.
            for weight in (int(batch.weights.min()), int(batch.weights.max())):
                if not INT64_MIN <= weight * factor <= INT64_MAX:
                    raise OverflowError("weight: the product of weights is outside the 64-bit range")
            return Batch(batch.rows, batch.weights * factor)

        return scale
