"""The rows of a large sorted run as a batch, without a copy until somebody reads them."""

from __future__ import annotations

from typing import Any

import numpy as np

from dbsp.data.batch import Batch
from dbsp.kernels.arrays import Codes, StoredRows
from dbsp.kernels.run_tables import run_entry
from dbsp.state.narrow_rows import widened


class RunBatch(Batch):
    """A batch of the codes of a sorted run; `rows` and `weights` are made when they are first read.

    `stored` are the weights, or a single 1 if all of them are 1. So the result of a load takes no
    memory beside the state if its caller looks at views only.
    """

    __slots__ = ("codes", "stored")

    def __init__(self, codes: StoredRows, stored: Codes) -> None:
        self.codes = codes
        self.stored = stored

    def __getattr__(self, name: str) -> Any:  # called for attributes that are not set
        if name == "rows":
            self.rows = widened(self.codes)
            return self.rows
        if name == "weights":
            size = len(self.codes)
            self.weights = self.stored if len(self.stored) == size else np.ones(size, np.int64)
            return self.weights
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def entry(self) -> tuple[int, int, int]:
        return run_entry(self.codes, self.stored)

    @property
    def arity(self) -> int:
        return int(self.codes.shape[1])

    @property
    def total(self) -> int:
        return super().total if len(self.stored) == len(self.codes) else len(self.codes)

    @property
    def units(self) -> bool:
        return bool((self.stored == 1).all())

    def with_units(self) -> Batch:
        return RunBatch(self.codes, np.ones(1, np.int64))
