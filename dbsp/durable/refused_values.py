"""Name the column of a value that a checkpoint does not store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.data.terms import Branch
from dbsp.durable.typed_values import UnsupportedValueError
from dbsp.errors import CheckpointError, shorten
from dbsp.runtime.run_base import RunBase


def refused_value(
    error: UnsupportedValueError, staged: Mapping[str, Batch], run: RunBase, known: int
) -> CheckpointError:
    """Return the error for a value among the new ones, whose ids start at `known`."""
    value, reason = error.value, error.reason and f" ({error.reason})"
    place = _place(value, staged, run, known) or "a value of the circuit"
    shown = f"{shorten(value)} of class {type(value).__name__}"
    return CheckpointError(
        f"{place} holds {shown}, which a checkpoint does not store{reason}; use str, bytes, bool, int, "
        "float, Decimal, date, time, datetime or tuples of those, or Store(folder, allow_pickle=True); "
        "the tick was rolled back",
        code="checkpoint-write",
    )


def _place(value: Any, staged: Mapping[str, Batch], run: RunBase, known: int) -> str | None:
    for name, batch in staged.items():
        column = _column(value, batch, run.inputs[name], run.interner, known)
        if column is not None:
            return f"column '{column}' of input '{name}'"
    for step in run.scope.steps:
        if step.out is not None and isinstance(step.out, Batch):
            column = _column(value, step.out, step.node.schema, run.interner, known)
            if column is not None:
                return f"column '{column}' of {step.node.describe()}"
    return None


def _column(value: Any, batch: Batch, schema: Schema, interner: Interner, known: int) -> str | None:
    """Return the column of a batch that holds a value, on its own or as a part of another."""
    for place, (name, type_) in enumerate(zip(schema.names, schema.types, strict=True)):
        if type_.kind != "object":
            continue
        codes = {code for code in batch.rows[:, place].tolist() if code >= known}
        if any(part is value for code in codes for part in _parts(interner.decode(code))):
            return name
    return None


def _parts(value: Any) -> Iterator[Any]:
    waiting = [value]
    while waiting:
        value = waiting.pop()
        yield value
        if isinstance(value, tuple | frozenset):
            waiting += value
        elif isinstance(value, Branch):
            waiting += value.arguments
