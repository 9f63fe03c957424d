"""Writing the plan of `dbsp.kernels.multiway`: what one extension of prefixes does, as numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dbsp.batch import Codes
from dbsp.kernels.multiway import HEADER


@dataclass(frozen=True)
class PlannedUse:
    """One use of an arrangement: the slots of its columns in its own order, and when they are bound.

    `width` counts all columns of a run row, `coordinates` those at its end that hold its time;
    `bound[l]` counts the columns that are bound after level l.
    """

    width: int
    coordinates: int
    slots: tuple[int, ...]
    bound: tuple[int, ...]
    complete: bool
    """Whether its rows are bound as a whole in the end; then their weights count."""


def written_plan(
    given: Sequence[int],
    taken: Sequence[int],
    values: Mapping[int, int],
    slots: int,
    levels: Sequence[tuple[int, bool]],
    uses: Sequence[PlannedUse],
    depth: int,
) -> Codes:
    """The plan: `given` and `taken` are the slots of the columns that come in and go out.

    `values` are the codes of slots that hold constants, `levels` the slot of each level's variable and
    whether None has no match there, `depth` the number of nested scopes.
    """
    most = max((len(use.slots) for use in uses), default=0)
    use_size = 3 + most + 2 * (len(levels) + 1)
    level_size = 3 + len(uses)
    use_at = HEADER + len(given) + len(taken) + slots
    level_at = use_at + use_size * len(uses)
    numbers = [slots, len(uses), len(levels), len(given), len(taken), depth]
    numbers += [use_at, level_at, use_size, level_size, *given, *taken]
    numbers += [values.get(slot, 0) for slot in range(slots)]
    for use in uses:
        numbers += [use.width, use.coordinates, len(use.slots) if use.complete else use.width + 1]
        numbers += [*use.slots, *(0 for _ in range(most - len(use.slots)))]
        last = 0
        for level, count in enumerate(use.bound):
            if level and count > use.bound[level - 1]:
                last = level
            numbers += [count, last]
    for level, (slot, skips) in enumerate(levels, 1):
        members = [u for u, use in enumerate(uses) if use.bound[level] > use.bound[level - 1]]
        numbers += [slot, int(skips), len(members)]
        numbers += [*members, *(0 for _ in range(len(uses) - len(members)))]
    return np.array(numbers, np.int64)
