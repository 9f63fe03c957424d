"""Run one delta term of a multi-way join on several shards: its prefixes visit the shards of atoms.

A term is a chain of stages on prefixes: rows of bound variables with weights, in any order. To bind
a variable that several atoms have, the prefixes visit the shards of each of these atoms, where the
rows that match are counted (Ammar et al., Delta-BiGJoin, VLDB 2018). On the shard of the last atom

- a prefix with the fewest matches there is extended there, and visits the other atoms again;
- for the others, the shard requests the values of the atom with the fewest, once for all prefixes
  with the same key, and intersects them with its own.

So no more values travel than the join in one process looks at, and a list of values travels once
where many prefixes share it.

The chain is a generator, which yields what it sends and receives what the other shards have sent.
The number of its rounds depends on the term only, so that the rounds of all terms are exchanged
together (see `placed_multiway_join`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from dbsp.circuit.shard_link import SentRows
from dbsp.circuit.step_roles import Arranged
from dbsp.data.batch import Batch
from dbsp.data.masks import rows_where
from dbsp.data.schema import Schema
from dbsp.data.types import INT
from dbsp.data.value_hashes import ValueHashes
from dbsp.kernels import (
    count_bounds,
    expand_lists,
    find_prefixes,
    group_requests,
    intersect_lists,
    list_values,
    test_values,
)
from dbsp.kernels.arrays import Codes, Mask
from dbsp.lazy_dataclass import dataclass

CHUNK = 1 << 16
"""The number of prefixes that are looked up together."""

Prefixes: TypeAlias = tuple[Codes, Codes]
Received: TypeAlias = Sequence[Sequence[Batch | None]]
"""By stream and shard, the rows that were sent."""


@dataclass(frozen=True, slots=True)
class Round:
    """What a term sends in one round, and how many rows it sends or keeps."""

    sent: Sequence[SentRows]
    rows: int


Rounds: TypeAlias = Generator[Round, Received, Prefixes]


@dataclass(frozen=True, slots=True)
class Spread:
    """How rows are spread over the shards."""

    hashes: ValueHashes
    shards: int

    def sent(self, rows: Codes, weights: Codes, columns: Sequence[int], schema: Schema) -> SentRows:
        """Return the rows by the shard of the hash of some columns."""
        if not len(weights):
            return SentRows([None] * self.shards, schema)
        parts = self.hashes.split(Batch(rows, weights), columns, schema.types, self.shards)
        return SentRows(parts, schema)


class Side:
    """An arrangement of an atom as a term reads it, and the variables by which it is placed."""

    __slots__ = ("_new", "_source", "key", "placed", "width")

    def __init__(self, source: Arranged, key: tuple[str, ...], placed: tuple[str, ...], *, new: bool) -> None:
        self._source = source
        self._new = new
        self.key = key
        """The variables of the atom, in the order of the arrangement."""
        self.placed = placed
        self.width = len(key)

    @property
    def runs(self) -> int:
        """The runs that the term reads."""
        return self._source.count if self._new else self._source.before

    @property
    def table(self) -> Codes:
        return self._source.table

    def bounds(self, rows: Codes, columns: Codes) -> Codes:
        """Return the bounds of the rows that begin with the values of the columns."""
        return find_prefixes(rows, columns, self.table, self.runs, self.width)

    def values(self, bounds: Codes, excludes_null: bool) -> tuple[Codes, Codes, Codes]:
        """Return the values of the last column: lengths, values, weights."""
        return list_values(bounds, self.table, self.runs, self.width, excludes_null)


class Stage(ABC):
    """A step of a term from prefixes to prefixes."""

    @abstractmethod
    def run(self, rows: Codes, weights: Codes) -> Rounds:
        """Return the prefixes after this stage."""


class Local(Stage):
    """A function of the prefixes of this shard."""

    def __init__(self, function: Callable[[Codes, Codes], Prefixes]) -> None:
        self._function = function

    def run(self, rows: Codes, weights: Codes) -> Rounds:
        yield from ()
        return self._function(rows, weights) if len(weights) else (rows, weights)


class Move(Stage):
    """Moves prefixes to the shards of the hashes of some columns."""

    def __init__(self, columns: Sequence[int], schema: Schema, spread: Spread) -> None:
        self._columns = columns
        self._schema = schema
        self._spread = spread

    def run(self, rows: Codes, weights: Codes) -> Rounds:
        sent = self._spread.sent(rows, weights, self._columns, self._schema)
        (parts,) = yield Round([sent], len(weights))
        return joined(parts, self._schema.arity)


class Test(Stage):
    """Keeps the prefixes that are in an atom, all of whose variables are bound."""

    def __init__(self, side: Side, names: Sequence[str]) -> None:
        self._side = side
        columns = [names.index(name) for name in side.key]
        self._last = columns.pop() if len(columns) > 1 else -1
        self._columns = np.array(columns, np.int64)

    def run(self, rows: Codes, weights: Codes) -> Rounds:
        yield from ()
        return self.tested(rows, weights)

    def tested(self, rows: Codes, weights: Codes) -> Prefixes:
        side = self._side
        kept = []
        for at in range(0, len(weights), CHUNK):
            part = rows[at : at + CHUNK]
            bounds = side.bounds(part, self._columns)
            found = test_values(
                part, weights[at : at + CHUNK], bounds, self._last, side.table, side.runs, side.width
            )
            kept.append(found)
        return concatenated(kept, rows.shape[1])


class Extend(Stage):
    """Binds a variable by the only atom that has it."""

    def __init__(self, side: Side, names: Sequence[str], *, excludes_null: bool) -> None:
        self._side = side
        self._columns = np.array([names.index(name) for name in side.key[:-1]], np.int64)
        self._excludes_null = excludes_null

    def run(self, rows: Codes, weights: Codes) -> Rounds:
        yield from ()
        bounds = self._side.bounds(rows, self._columns)
        return expand_lists(rows, weights, rows.shape[1], *self._side.values(bounds, self._excludes_null))


class Meet(Stage):
    """Binds a variable by several atoms, the prefixes being on the shards of the first.

    `within` keeps the prefixes that are within the limits of the variable.
    """

    def __init__(
        self,
        sides: Sequence[Side],
        schema: Schema,
        within: Callable[[Codes, Codes], Prefixes],
        spread: Spread,
        *,
        excludes_null: bool,
    ) -> None:
        bound = schema.names[:-1]
        self._sides = sides
        self._extended = schema
        self._listed = schema.select([len(bound)])
        self._within = within
        self._spread = spread
        self._excludes_null = excludes_null
        self._width = len(bound)
        self._keys = [np.array([bound.index(name) for name in side.key[:-1]], np.int64) for side in sides]
        self._requests = [schema.select(key.tolist()) for key in self._keys]
        self._tests = [Test(side, schema.names) for side in sides[:-1]]
        counts = tuple(f"matches in {number}" for number in range(len(sides)))
        self._moves = [
            Move(
                [bound.index(name) for name in side.placed],
                Schema((*bound, *counts[:number]), (*schema.types[:-1], *[INT] * number)),
                spread,
            )
            for number, side in enumerate(sides)
        ]

    def run(self, rows: Codes, weights: Codes) -> Rounds:
        rows, weights, bounds, own = yield from self._counted(rows, weights)
        if not len(weights):
            return (yield from self._answering())
        width, last = self._width, self._sides[-1]
        counts = rows[:, width:]
        chosen = counts.argmin(axis=1)
        fewest = counts[np.arange(len(rows)), chosen]
        least = np.minimum(fewest, own)
        grouped = [
            group_requests(rows, key, chosen, source, fewest, least)
            for source, key in enumerate(self._keys[:-1])
        ]
        requested = np.zeros(len(rows), np.bool_)
        for numbers, _ in grouped:
            requested |= numbers >= 0
        proposed = self._proposed(rows, weights, bounds, ~requested)

        asked = [self._asked(rows.take(firsts, 0), source) for source, (_, firsts) in enumerate(grouped)]
        first = self._sent(proposed, 0)
        kept = len(proposed[1]) + int(requested.sum())
        *requests, parts = yield Round([*(sent for sent, _ in asked), first], kept)
        proposed = self._tests[0].tested(*joined(parts, width + 1))

        answers, wanted = self._answers(requests)
        received = yield Round(answers, kept + len(proposed[1]) + wanted)
        found = [proposed]
        for source, ((numbers, _), (_, places)) in enumerate(zip(grouped, asked, strict=True)):
            if not len(places):
                found.append(_none(width + 1))
                continue
            places = np.append(places, -1)[numbers]  # numbers[i] = -1 takes the last one, -1
            ends, values, value_weights = self._lists(*received[2 * source : 2 * source + 2])
            extended = intersect_lists(
                rows, weights, width, places, ends, values, value_weights, bounds, last.table, last.runs,
                last.width,
            )  # fmt: skip
            found.append(self._within(*extended))
        return (yield from self._tested(found))

    def _answering(self) -> Rounds:
        """Take part in the rounds of the other shards, without prefixes."""
        nothing = SentRows([None] * self._spread.shards, self._extended)
        unasked = [SentRows(nothing.parts, schema) for schema in self._requests[:-1]]
        *requests, parts = yield Round([*unasked, nothing], 0)
        proposed = self._tests[0].tested(*joined(parts, self._width + 1))
        answers, wanted = self._answers(requests)
        yield Round(answers, len(proposed[1]) + wanted)
        none = _none(self._width + 1)
        return (yield from self._tested([proposed, *[none] * len(requests)]))

    def _answers(self, requests: Received) -> tuple[list[SentRows], int]:
        """Return the answers to the requests for lists of each side, and the number of lists."""
        answers = [self._answered(source, keys) for source, keys in enumerate(requests)]
        wanted = sum(len(keys) for parts in requests for keys in parts if keys is not None)
        return [sent for pair in answers for sent in pair], wanted

    def _counted(
        self, rows: Codes, weights: Codes
    ) -> Generator[Round, Received, tuple[Codes, Codes, Codes, Codes]]:
        """Visit all sides; return the prefixes that have matches in each.

        The columns after the prefix are the numbers of matches in all sides but the last. The other
        results are the bounds and the numbers of matches in the last.
        """
        before: tuple[str, ...] = self._sides[0].placed
        bounds = counts = np.empty(0, np.int64)
        for number, (side, key) in enumerate(zip(self._sides, self._keys, strict=True)):
            if number:
                if side.placed != before:
                    rows, weights = yield from self._moves[number].run(rows, weights)
                before = side.placed
            if not len(weights):
                continue
            bounds = side.bounds(rows, key)
            counts = count_bounds(bounds)
            matched = np.flatnonzero(counts)
            if len(matched) < len(rows):
                rows, weights = rows.take(matched, 0), weights.take(matched)
                bounds, counts = bounds[matched], counts[matched]
            if number < len(self._sides) - 1:
                rows = np.concatenate((rows, counts[:, None]), axis=1)
        return rows, weights, bounds, counts

    def _proposed(self, rows: Codes, weights: Codes, bounds: Codes, own: Mask) -> Prefixes:
        """Return the extensions of the prefixes `own` by the values of the last side."""
        if not own.any():
            return _none(self._width + 1)
        values = self._sides[-1].values(bounds[own], self._excludes_null)
        return self._within(*expand_lists(*rows_where(own, rows, weights), self._width, *values))

    def _asked(self, rows: Codes, source: int) -> tuple[SentRows, Codes]:
        """Return requests for the keys of rows, and the number of the list that answers each."""
        side, schema = self._sides[source], self._requests[source]
        keys = np.ascontiguousarray(rows[:, self._keys[source]])
        spread = self._spread
        placed = [side.key.index(name) for name in side.placed]
        if not len(keys):
            return SentRows([None] * spread.shards, schema), np.empty(0, np.int64)
        shards = spread.hashes.shards(keys, placed, schema.types, spread.shards)
        order = np.argsort(shards, kind="stable")
        keys = keys[order]
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        ends = np.searchsorted(shards[order], np.arange(spread.shards + 1))
        return SentRows([_part(keys[a:b]) for a, b in pairwise(ends.tolist())], schema), places

    def _answered(self, source: int, requests: Sequence[Batch | None]) -> tuple[SentRows, SentRows]:
        """Return the lengths and the values of the requested lists, by the shard that asks."""
        side = self._sides[source]
        lengths: list[Batch | None] = []
        values: list[Batch | None] = []
        for keys in requests:
            if keys is None:
                lengths.append(None)
                values.append(None)
                continue
            bounds = side.bounds(keys.rows, np.arange(side.width - 1))
            sizes, found, found_weights = side.values(bounds, self._excludes_null)
            lengths.append(_part(sizes[:, None]))
            values.append(Batch(found[:, None], found_weights) if len(found) else None)
        return SentRows(lengths, _LENGTHS), SentRows(values, self._listed)

    def _lists(
        self, lengths: Sequence[Batch | None], values: Sequence[Batch | None]
    ) -> tuple[Codes, Codes, Codes]:
        """Return where each of the received lists ends, its values in order, and their weights."""
        ends = np.cumsum(joined(lengths, 1)[0][:, 0])
        found, weights = joined(values, 1)
        column = np.ascontiguousarray(found[:, 0])
        if self._listed.types[0].interned and len(ends):
            # The ids of interned values are in another order here than at the sender.
            numbers = np.searchsorted(ends, np.arange(len(column)), side="right")
            order = np.lexsort((column, numbers))
            column, weights = column[order], weights[order]
        return ends, column, weights

    def _sent(self, prefixes: Prefixes, source: int) -> SentRows:
        """Return extended prefixes by the shards of a side."""
        columns = [self._extended.names.index(name) for name in self._sides[source].placed]
        return self._spread.sent(*prefixes, columns, self._extended)

    def _tested(self, found: Sequence[Prefixes]) -> Rounds:
        """Keep the extended prefixes that are in all sides.

        found[0] were proposed by the last side and tested by side 0; found[s + 1] were proposed by
        side s, which has answered the requests, and tested by the last side.
        """
        width = self._width + 1
        found = [*found]
        if len(self._sides) > 2:
            for number, test in enumerate(self._tests):
                seen = (0, 1) if number == 0 else (number + 1,)
                going = [at for at in range(len(found)) if at not in seen]
                rows = sum(len(weights) for _, weights in found)
                received = yield Round([self._sent(found[at], number) for at in going], rows)
                for at, parts in zip(going, received, strict=True):
                    found[at] = test.tested(*joined(parts, width))
        return concatenated(found, width)


_LENGTHS = Schema(("length",), (INT,))


def _part(rows: Codes) -> Batch | None:
    return Batch(np.ascontiguousarray(rows), np.ones(len(rows), np.int64)) if len(rows) else None


def _none(width: int) -> Prefixes:
    return np.empty((0, width), np.int64), np.empty(0, np.int64)


def joined(parts: Sequence[Batch | None], width: int) -> Prefixes:
    """Return the rows of all shards, one after the other."""
    return concatenated([(part.rows, part.weights) for part in parts if part is not None], width)


def concatenated(parts: Sequence[Prefixes], width: int) -> Prefixes:
    """Return the rows of all parts, one after the other."""
    full = [part for part in parts if len(part[1])]
    if len(full) <= 1:
        return full[0] if full else _none(width)
    return np.concatenate([rows for rows, _ in full]), np.concatenate([weights for _, weights in full])
