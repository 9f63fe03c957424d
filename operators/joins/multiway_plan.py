"""Encode the plan of one extension of prefixes as numbers, for `dbsp.kernels.multiway`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dbsp.kernels.arrays import Codes
from dbsp.kernels.prefix_ranges import HEADER, USE
from dbsp.lazy_dataclass import dataclass


@dataclass(frozen=True)
class PlannedUse:
    """One use of an arrangement: the slots of its columns in its own order, and their levels.

    `width` counts all columns of a run row, `coordinates` those at its end that hold its time;
    `bound[l]` counts the columns that are bound after level l.
    """

    width: int
    coordinates: int
    slots: tuple[int, ...]
    bound: tuple[int, ...]
    complete: bool
    """Whether all columns are bound after the last level; then the weights are multiplied in."""


@dataclass(frozen=True)
class PlannedLevel:
    """The slot of a level's variable, whether None has no match there, and its limits.

    A limit is its kind, a slot, the number that is added to the value in it, and whether it is
    strict.
    """

    slot: int
    excludes_null: bool
    limits: tuple[tuple[int, int, int, int], ...] = ()


def written_plan(
    given: Sequence[int],
    taken: Sequence[int],
    values: Mapping[int, int],
    slots: int,
    levels: Sequence[PlannedLevel],
    uses: Sequence[PlannedUse],
    depth: int,
) -> Codes:
    """Return the plan: `given` and `taken` are the slots of the input and output columns.

    `values` are the codes of slots that hold constants, `depth` the number of nested scopes.
    """
    constants = [values.get(slot, 0) for slot in range(slots)]
    uses_at = HEADER + len(given) + len(taken) + slots
    slots_at = uses_at + USE * len(uses)
    levels_at = slots_at + sum(use.bound[0] for use in uses)
    numbers = [slots, len(uses), len(levels), len(given), len(taken), depth, uses_at, levels_at]
    numbers += [*given, *taken, *constants]
    at = slots_at
    for use in uses:
        weighted = use.complete and not use.coordinates
        numbers += [use.width, use.coordinates, use.bound[0], int(weighted and use.bound[0] == use.bound[-1])]
        numbers += [int(use.complete), _last(use, len(levels)), at]
        at += use.bound[0]
    for use in uses:
        numbers += use.slots[: use.bound[0]]
    for level, planned in enumerate(levels, 1):
        members = [(u, use) for u, use in enumerate(uses) if use.bound[level] > use.bound[level - 1]]
        numbers += [planned.slot, int(planned.excludes_null), len(members), len(planned.limits)]
        for u, use in members:
            first, until = use.bound[level - 1 : level + 1]
            weighted = use.complete and not use.coordinates and until == use.bound[-1]
            numbers += [u, use.width, first, until, _last(use, level - 1), int(weighted)]
        for limit in planned.limits:
            numbers += limit
    return np.array(numbers, np.int64)


def _last(use: PlannedUse, level: int) -> int:
    """Return the last level up to this one that binds columns of a use; 0 if there is none."""
    return next((n for n in range(level, 0, -1) if use.bound[n] > use.bound[n - 1]), 0)
