"""Name the column of a value that a checkpoint does not store."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from dbsp.data.batch import Batch
from dbsp.data.schema import Schema
from dbsp.runtime.run_base import RunBase


def column_of(codes: Collection[int], staged: Mapping[str, Batch], run: RunBase) -> str | None:
    """Return the column, of an input or else of a node, that has one of these ids in this tick."""
    wanted = np.array(sorted(codes), np.int64)
    for name, batch in staged.items():
        column = _column(wanted, batch, run.inputs[name])
        if column is not None:
            return f"column '{column}' of input '{name}'"
    for scope in run.scope.scopes():
        for step in scope.steps:
            if isinstance(step.out, Batch):
                column = _column(wanted, step.out, step.node.schema)
                if column is not None:
                    return f"column '{column}' of {step.node.describe()}"
    return None


def _column(wanted: np.typing.NDArray[np.int64], batch: Batch, schema: Schema) -> str | None:
    for place, (name, type_) in enumerate(zip(schema.names, schema.types, strict=True)):
        if type_.kind in ("object", "record") and np.isin(batch.rows[:, place], wanted).any():
            return name
    return None
