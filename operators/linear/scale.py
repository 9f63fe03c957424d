"""Scale: every weight times a constant.

    scale(s, k)(x) = k * s(x)

Linear: its own incremental form. Cost: O(|delta|).
"""

from __future__ import annotations

from collections.abc import Callable

from dbsp.circuit.field_ranges import ONE_INPUT
from dbsp.circuit.operator import Operator
from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.kernels.limits import INT64_MAX, INT64_MIN
from dbsp.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Scale(Operator):
    """A multiple of a Z-set; raises WeightOverflowError if a product does not fit int64."""

    input_counts = ONE_INPUT

    factor: int

    @property
    def label(self) -> str:
        return f"Scale by {self.factor}"

    def schema(self, *inputs: Schema) -> Schema:
        return inputs[0]

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        factor = self.factor
        empty = Batch.empty(inputs[0].arity)

        def scale(batch: Batch) -> Batch:
            if factor == 0 or len(batch) == 0:
                return empty
            # w * k is monotone in w: if the products of the least and the largest weight fit, all
            # fit.
            for weight in (int(batch.weights.min()), int(batch.weights.max())):
                if not INT64_MIN <= weight * factor <= INT64_MAX:
                    raise OverflowError("weight: the product of weights is outside the 64-bit range")
            return Batch(batch.rows, batch.weights * factor)

        return scale
