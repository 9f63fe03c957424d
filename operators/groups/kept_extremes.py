"""The least or largest string of each group, without reading the group in every tick.

Ids of strings are not in the order of the strings, so a trace cannot be read from one end. The
state has the current extreme of each group. With a tick,

    a new value is compared with the extreme;
    if the extreme itself is retracted, the group is read: O(n). A large group gets a heap of its
    values then, which gives the extremes from then on: O(log n) comparisons per value.

A heap holds all values of its group, and perhaps retracted ones, which are dropped when they come
to its top. It is not state: it can be built from the arrangement at any time, so a tick that fails
drops the heaps that it changed, and a checkpoint stores none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np

from dbsp.circuit.step_roles import Arranged
from dbsp.circuit.step_scope import StepScope
from dbsp.data.schema import Schema
from dbsp.kernels import consolidate, gather, project, replace_rows, weigh_values
from dbsp.kernels.arrays import Codes, Rows
from dbsp.kernels.jit import expect_calls
from dbsp.kernels.limits import NULL
from dbsp.operators.groups.aggregate_functions import AggregateFunction, group_numbers
from dbsp.operators.groups.kept_state import GroupChanges, KeptResult
from dbsp.operators.traces.arrange import trace_of
from dbsp.state.counted_tables import counted_table
from dbsp.state.journal import Journalled

SMALL = 64
"""A group of so many values gets no heap; it is read when its extreme is retracted."""

Key = tuple[int, ...]


class KeptExtreme(KeptResult):
    """The least or largest value of a column of strings or bytes."""

    __slots__ = (
        "_column",
        "_extremes",
        "_heaps",
        "_interner",
        "_key",
        "_largest",
        "_nullable",
        "_order",
        "_pick",
        "traces",
    )

    def __init__(
        self, function: AggregateFunction, order: Arranged, schema: Schema, key: int, scope: StepScope
    ) -> None:
        self._column = function.column
        self._nullable = schema.types[function.column].nullable
        self._largest = function.kind == "max"
        self._pick = max if self._largest else min
        self._order = order
        self._key = key
        self._interner = scope.interner
        self._heaps = ValueHeaps(scope.journal)
        self._extremes = scope.new_trace(key + 1, [*schema.types[:key], schema.types[function.column]])
        self.traces = (self._extremes,)
        expect_calls(gather, weigh_values)

    def forget_cache(self) -> None:
        self._heaps.clear()

    def current(self, keys: Rows, accumulated: Rows) -> Codes:
        result = np.full(len(keys), NULL, np.int64)
        trace = self._extremes
        rows, weights, _ = gather(keys, self._key, trace.table, trace.count, trace.width, trace.count)
        rows, _ = consolidate(rows, weights)
        if len(rows):
            result[group_numbers(rows, keys, self._key)] = rows[:, -1]
        return result

    def change(self, changes: GroupChanges) -> tuple[Codes, Codes]:
        keys, values = changes.keys, changes.values(self._column)
        before = self.current(keys, changes.before)
        after = before.copy()
        codes = values.rows[:, -1]
        group = group_numbers(values.rows, keys, self._key)
        moved = (values.before > 0) != (values.after > 0)
        if self._nullable:
            moved &= codes != NULL
        came = np.flatnonzero(moved & (values.after > 0))
        went = np.flatnonzero(moved & (values.after <= 0))
        lost = group[went[codes[went] == before[group[went]]]]
        after[lost] = NULL
        names = self._interner.decode_many(codes[came])
        if self._heaps:
            self._follow(keys, group[came].tolist(), names, group[went].tolist())
        self._compare(after, group[came], codes[came], names)
        if len(lost):
            # New values are among those that are read, so their comparison counts for nothing.
            after[lost] = self._found(np.ascontiguousarray(keys[lost]))
        rows, weights = replace_rows(
            keys, before.reshape(-1, 1), after.reshape(-1, 1), before != NULL, after != NULL
        )
        if len(weights):
            self._extremes.append(rows, weights)
        self._heaps.limit(2 * trace_of(self._order).rows)
        return before, after

    def _follow(self, keys: Rows, came: Sequence[int], names: Sequence[Any], went: Sequence[int]) -> None:
        """Add the new values to the heaps of their groups, and count the retracted ones."""
        groups = list(map(tuple, keys.tolist()))
        for place, name in zip(came, names, strict=True):
            self._heaps.push(groups[place], Descending(name) if self._largest else name)
        for place in went:
            self._heaps.count_gone(groups[place])

    def _compare(self, extremes: Codes, group: Codes, codes: Codes, names: Sequence[Any]) -> None:
        """Replace the extremes of groups by new values that are less (or larger)."""
        for place, start, end in _segments(group):
            code, name = self._best(codes, names, start, end)
            known = int(extremes[place])
            if known != NULL:
                other = self._interner.decode(known)
                if self._pick(other, name) == other:
                    continue
            extremes[place] = code

    def _best(self, codes: Codes, names: Sequence[Any], start: int, end: int) -> tuple[int, Any]:
        name = self._pick(names[start:end])
        return int(codes[names.index(name, start, end)]), name

    # --- groups whose extreme is retracted --------------------------------------------------------

    def _found(self, keys: Rows) -> Codes:
        """Return the extremes of groups in which the stored ones are not present any more."""
        result = np.full(len(keys), NULL, np.int64)
        groups: list[Key] = list(map(tuple, keys.tolist()))
        read = [place for place, key in enumerate(groups) if key not in self._heaps]
        if read:
            result[read] = self._read(np.ascontiguousarray(keys[read]))
        waiting = [place for place, key in enumerate(groups) if key in self._heaps]
        while waiting := [
            place for place in waiting if result[place] == NULL and groups[place] in self._heaps
        ]:
            tops = [self._code_of_top(groups[place]) for place in waiting]
            present = self._are_present(keys[waiting], tops)
            for place, code, is_present in zip(waiting, tops, present, strict=True):
                if is_present:
                    result[place] = code
                else:
                    self._heaps.pop(groups[place])
        return result

    def _code_of_top(self, key: Key) -> int:
        """Return the id of the least value of a heap; -1 if it has none any more."""
        top = self._heaps.top(key)
        code = self._interner.find(top.value if self._largest else top)
        return -1 if code is None else code

    def _are_present(self, keys: Rows, codes: Sequence[int]) -> list[bool]:
        rows = np.column_stack((keys, np.array(codes, np.int64)))
        table = counted_table((trace_of(self._order), self._order.count))
        no_change = np.zeros(len(rows), np.int64)
        _, weights, _ = weigh_values(rows, no_change, self._key + 1, table, len(table))
        found: list[bool] = (weights > 0).tolist()
        return found

    def _read(self, keys: Rows) -> Codes:
        """Return the extremes of groups from all of their values; large groups get heaps."""
        result = np.full(len(keys), NULL, np.int64)
        order = self._order
        rows, weights, _ = gather(
            keys, self._key, order.table, order.count, trace_of(order).width, order.count
        )
        rows, weights = project(rows, weights, np.arange(self._key + 1))
        present = (weights > 0) & (rows[:, -1] != NULL) if self._nullable else weights > 0
        rows = rows.compress(present, 0)
        if not len(rows):
            return result
        codes = rows[:, -1]
        names = self._interner.decode_many(codes)
        for place, start, end in _segments(group_numbers(rows, keys, self._key)):
            result[place], _ = self._best(codes, names, start, end)
            if end - start > SMALL:
                values = names[start:end]
                self._heaps.build(
                    tuple(keys[place].tolist()), map(Descending, values) if self._largest else values
                )
        return result


class Descending:
    """A value that sorts in descending order, for the heap of a maximum."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: Descending) -> bool:
        return bool(other.value < self.value)


class ValueHeaps(Journalled):
    """Heaps of values by group; a rollback drops those that the tick changed."""

    __slots__ = ("_changed", "_heaps", "_journal", "_live", "_size")

    def __init__(self, journal: list[Journalled]) -> None:
        self._journal = journal
        self._heaps: dict[Key, list[Any]] = {}
        self._live: dict[Key, int] = {}
        """By group the number of its present values."""
        self._changed: set[Key] = set()
        self._size = 0
        """At least the number of values in all heaps."""

    def __contains__(self, key: object) -> bool:
        return key in self._heaps

    def __len__(self) -> int:
        return len(self._heaps)

    def commit(self) -> None:
        self._changed.clear()

    def rollback(self) -> None:
        for key in self._changed:
            self._drop(key)
        self._changed.clear()

    def clear(self) -> None:
        """Drop all heaps."""
        self._heaps.clear()
        self._live.clear()
        self._size = 0

    def build(self, key: Key, values: Iterable[Any]) -> None:
        """Build the heap of a group from all of its values. O(n)."""
        self._note(key)
        heap = list(values)
        heapify(heap)
        self._size += len(heap)
        self._live[key] = len(heap)
        self._heaps[key] = heap

    def push(self, key: Key, value: Any) -> None:
        """Add a value to the heap of a group, if it has one."""
        heap = self._heaps.get(key)
        if heap is not None:
            self._note(key)
            self._size += 1
            heappush(heap, value)
            self._live[key] += 1

    def count_gone(self, key: Key) -> None:
        """Count a retracted value, which stays; a heap of mostly retracted values is dropped."""
        heap = self._heaps.get(key)
        if heap is not None:
            self._note(key)
            self._live[key] -= 1
            if len(heap) > 2 * self._live[key] + SMALL:
                self._drop(key)

    def top(self, key: Key) -> Any:
        """Return the first value of the heap of a group."""
        return self._heaps[key][0]

    def pop(self, key: Key) -> None:
        """Remove the first value of the heap of a group; an empty heap is dropped."""
        self._note(key)
        heap = self._heaps[key]
        heappop(heap)
        if not heap:
            self._drop(key)

    def limit(self, size: int) -> None:
        """Drop all heaps if they have many more values than this: their groups were forgotten."""
        if self._size > size + SMALL:
            counted = sum(map(len, self._heaps.values()))
            if counted > size + SMALL:
                self.clear()
            else:
                self._size = counted

    def _note(self, key: Key) -> None:
        # Before the change, so that a rollback drops every heap with a part of it.
        if not self._changed:
            self._journal.append(self)
        self._changed.add(key)

    def _drop(self, key: Key) -> None:
        self._heaps.pop(key, None)
        self._live.pop(key, None)


def _segments(group: Codes) -> Iterable[tuple[int, int, int]]:
    """Yield (group, start, end) for each run of equal numbers."""
    if not len(group):
        return
    starts = np.flatnonzero(np.r_[True, group[1:] != group[:-1]])
    ends = np.append(starts[1:], len(group))
    yield from zip(group[starts].tolist(), starts.tolist(), ends.tolist(), strict=True)
