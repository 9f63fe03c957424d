"""The result of the latest tick in a snapshot, for those who did not receive it before a kill."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dbsp.data.zset import ZSet
from dbsp.durable.code_ranges import check_codes
from dbsp.durable.step_memory import read_batch
from dbsp.kernels.arrays import Codes
from dbsp.runtime.run import Run
from dbsp.runtime.tick_result import TickResult


def written_result(result: TickResult | None) -> tuple[Any, list[Codes]]:
    """Return a result as a JSON value and arrays: the rows and weights of each changed output."""
    if result is None:
        return None, []
    changed = {name: delta.batch for name, delta in result.items() if delta}
    head = {"changed": list(changed), "absent": result.absent, "present": result.present}
    return head, [array for batch in changed.values() for array in (batch.rows, batch.weights)]


def read_result(head: Any, arrays: Sequence[Codes], run: Run) -> TickResult | None:
    """Return the result of the latest tick of a run. Raises ValueError, TypeError or KeyError."""
    if head is None:
        return None
    outputs = run.outputs
    deltas = {name: ZSet.empty(schema, run.interner) for name, schema in outputs.items()}
    for name, rows, weights in zip(head["changed"], arrays[::2], arrays[1::2], strict=True):
        schema = outputs[name]
        batch = read_batch(rows, weights, schema.arity)
        check_codes(batch.rows, schema, run.interner)
        deltas[name] = ZSet.wrap(schema, run.interner, batch)
    absent, present = (
        {str(name): int(count) for name, count in head[kind].items()} for kind in ("absent", "present")
    )
    return TickResult(deltas, run.tick, 0.0, absent, present, run.input_ports)
