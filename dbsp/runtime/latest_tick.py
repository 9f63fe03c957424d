"""The changes of the latest tick, which a run keeps to answer questions about this tick.

The arrays are those of the tick itself, so keeping them costs no copy. A tick of more rows than the
limit of the run keeps nothing: the memory of a large load is free after its tick.
"""

from __future__ import annotations

from collections.abc import Mapping

from dbsp.data.batch import Batch
from dbsp.errors import CircuitError

KEPT_CHANGES = 100_000
"""The default for the largest number of changed rows that a run keeps."""


class LatestTick:
    """The changes of a tick by input and by output; None for more rows than the limit."""

    __slots__ = ("inputs", "outputs", "update")

    def __init__(
        self,
        inputs: Mapping[str, Batch] | None,
        outputs: Mapping[str, Batch] | None,
        update: bool = False,
    ) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self.update = update
        """Whether the tick was an update; its inputs are None: they do not explain the outputs."""


def up_to(limit: int, changes: Mapping[str, Batch]) -> Mapping[str, Batch] | None:
    """Return the changes, or None if they have more rows than the limit."""
    return changes if sum([len(change) for change in changes.values()]) <= limit else None


def no_tick_yet() -> CircuitError:
    """Return the error for a question about a tick of a run that has made none."""
    return CircuitError(
        "expected a run with a tick, got one that has made no tick yet; apply changes with run.step first",
        code="changes-not-kept",
    )


def tick_of_update(number: int) -> CircuitError:
    """Return the error for the changes of the inputs in a tick that was an update."""
    return CircuitError(
        f"tick {number} was an update to another program, so the changes of the inputs do not explain "
        "it; ask again after the next tick",
        code="changes-not-kept",
    )


def not_kept(number: int, latest: LatestTick | None, limit: int, name: str) -> CircuitError:
    """Return the error for changes of tick `number` that the run does not keep."""
    if latest is None:
        return CircuitError(
            f"the run does not keep the changes of tick {number}, because it was restored from a checkpoint "
            "after this tick; ask again after the next tick",
            code="changes-not-kept",
        )
    return CircuitError(
        f"the run does not keep the change of '{name}' in tick {number}, because the tick changed more than "
        f"{limit:,} rows; set run.kept_changes to a larger number before the tick",
        code="changes-not-kept",
    )
