"""The hash of a value as an int: hash(0; value) of `dbsp.data.value_hashes`.

A hash of -2**63, which is the code of None, is replaced by 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dbsp.data.interner import Interner
from dbsp.data.object_hashes import GOLDEN, mix_words
from dbsp.data.types import INT
from dbsp.data.value_hashes import ValueHashes
from dbsp.data.values import encoder
from dbsp.expressions.functions import define
from dbsp.expressions.nodes import ExpressionNode, Scalar, Vector, VectorFn, to_codes
from dbsp.kernels.arrays import Codes
from dbsp.kernels.limits import NULL


class HashNode(ExpressionNode):
    """The hash of a value; None of None."""

    def __init__(self, value: ExpressionNode) -> None:
        self.value = value
        self.type = INT.optional() if value.type.nullable else INT
        self.columns = value.columns
        self.fallible = value.fallible

    def _hashes(self, codes: Codes, interner: Interner) -> Codes:
        values = ValueHashes(interner).column(codes, self.value.type.required())
        hashes: Codes = mix_words(values.view(np.uint64) + GOLDEN).view(np.int64)
        hashes[hashes == NULL] = 0
        return hashes

    def scalar(self, interner: Interner) -> Scalar:
        value = self.value.scalar(interner)
        constructed = self.value.type.structure is not None
        encode = encoder(self.value.type.required())

        def run(row: Sequence[Any]) -> int | None:
            found = value(row)
            if found is None:
                return None
            code = found if constructed else encode(found, interner)
            return int(self._hashes(np.array([code], np.int64), interner)[0])

        return run

    def vector(self, interner: Interner) -> VectorFn:
        value, type_ = self.value.vector(interner), self.value.type.required()

        def run(rows: Codes) -> Vector:
            vector = value(rows)
            codes = np.broadcast_to(to_codes(Vector(vector.values, None), type_), len(rows))
            if vector.null is None:
                return Vector(self._hashes(codes, interner), None)
            result = np.zeros(len(rows), np.int64)
            keep = ~vector.null
            result[keep] = self._hashes(codes[keep], interner)
            return Vector(result, vector.null)

        return run


define("hash", "hash expects a value", lambda arguments: HashNode(arguments[0]))
