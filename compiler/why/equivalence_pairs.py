"""Equivalences: the classes that pairs of values form, and the pairs that connect two values."""

from __future__ import annotations

from collections import deque

import numpy as np

from dbsp.compiler.why.fact_table import FactTable
from dbsp.kernels.arrays import Codes


class GrowingClasses:
    """The classes of values that pairs connect; pairs are only added.

    The values are codes. All pairs together cost as much as the number of rows of the equivalence.
    """

    def __init__(self) -> None:
        self._members: dict[int, list[int]] = {}  # the class of each value; values of a class share it

    def add(self, pairs: Codes) -> Codes:
        """Add pairs int64[n, 2]; return the rows int64[m, 2] that the equivalence gains."""
        gained: list[Codes] = []
        for left, right in pairs.tolist():
            for value in (left, right):
                if value not in self._members:
                    self._members[value] = [value]
                    gained.append(np.array([[value, value]], np.int64))
            first, second = self._members[left], self._members[right]
            if first is second:
                continue
            if len(first) < len(second):
                first, second = second, first
            across = np.stack(
                [np.repeat(np.array(first), len(second)), np.tile(np.array(second), len(first))], axis=1
            )
            gained += [across, across[:, ::-1]]
            first += second
            self._members.update(dict.fromkeys(second, first))
        return np.concatenate([np.empty((0, 2), np.int64), *gained])


class Chains:
    """Finds the fewest pairs that connect two values, among the pairs of a table."""

    def __init__(self, pairs: FactTable) -> None:
        self._pairs = pairs
        self._at: dict[int, list[tuple[int, int]]] = {}  # (the other value, position) by value
        for position, (left, right) in enumerate(pairs.rows.tolist()):
            self._at.setdefault(left, []).append((right, position))
            self._at.setdefault(right, []).append((left, position))

    def between(self, start: int, end: int, below: int) -> list[Codes] | None:
        """Return the pairs of heights smaller than `below` that connect two values, in order.

        None if they connect no more. A value is connected with itself by any pair that has it.
        """
        heights = self._pairs.heights
        reached: dict[int, tuple[int, int]] = {}  # (the value before, position of the pair) by value
        waiting = deque([start])
        while waiting:
            value = waiting.popleft()
            for other, position in self._at.get(value, ()):
                if heights[position] >= below:
                    continue
                if other == end or start == end:
                    return self._pairs_to(start, value, reached, position)
                if other not in reached:
                    reached[other] = (value, position)
                    waiting.append(other)
        return None

    def _pairs_to(
        self, start: int, value: int, reached: dict[int, tuple[int, int]], last: int
    ) -> list[Codes]:
        positions = [last]
        while value != start:
            value, position = reached[value]
            positions.append(position)
        return [self._pairs.rows[position] for position in reversed(positions)]
