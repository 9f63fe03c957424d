"""Stream methods that bring two streams together: the joins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from dbsp.circuit import graph
from dbsp.data.schema import Schema
from dbsp.errors import SchemaError
from dbsp.expressions import Expression
from dbsp.operators.joins.asof_join import AsofJoin
from dbsp.operators.joins.band import Band
from dbsp.operators.joins.join import Join
from dbsp.operators.joins.outer_join import OuterJoin
from dbsp.operators.joins.range_join import RangeJoin
from dbsp.operators.joins.semijoin import Antijoin, Semijoin
from dbsp.operators.linear.filter import Filter
from dbsp.operators.linear.project import Project
from dbsp.operators.streams.fit import On, agreeing, key_columns, located
from dbsp.operators.streams.multiway_atoms import Atom, atom

S = TypeVar("S", bound="JoinMethods")


class JoinMethods(graph.Stream):
    """The methods of a stream that take another one to pair rows with."""

    __slots__ = ()

    @located("MultiwayJoin")
    def __call__(self: S, *terms: Any) -> Atom[S]:
        """An atom of `dbsp.multiway_join`, a term per column: `edge("a", "b")`."""
        return atom(self, terms)

    @located("Join")
    def join(
        self: S, other: S, on: On, select: Sequence[str] | None = None, *, where: Expression | None = None
    ) -> S:
        """All pairs of rows that agree on `on`: column names, or pairs (left name, right name).

        The result has all columns of the left, then those of the right that are not part of the
        key; a name that both have gets the suffix `_right`. `select` picks among these names (and
        may name key columns of the right, with the suffix where needed). `where` is a further
        condition on a pair, over the same names, whether selected or not.
        """
        pairs = key_columns(self.schema, other.schema, on)
        offered = JoinColumns.of(self.schema, other.schema, [b for _, b in pairs])
        names = offered.chosen(select)
        left, right = agreeing(self, [(b, a) for a, b in pairs]), agreeing(other, pairs)
        key: dict[int, int] = {}
        for a, b in pairs:  # of pairs with a column in common one is enough now
            if b not in key.values():
                key.setdefault(a, b)

        def joined(columns: Sequence[str]) -> S:
            return Join(tuple(key), tuple(key.values()), offered.columns(columns), tuple(columns))(
                left, right
            )

        if where is None:
            return joined(names)
        return _where(joined(offered.with_those_of(where, names)), where, names)

    @located("LeftJoin")
    def left_join(self: S, other: S, on: On, select: Sequence[str] | None = None) -> S:
        """The join, and every row without a partner with None for the columns of `other`.

        Columns as in `join`; those of `other` become optional. A row that gets its first partner
        loses its padded form in the same tick, and has it back when the last partner goes.
        """
        return _outer_join(self, other, on, select, left=True, right=False)

    @located("RightJoin")
    def right_join(self: S, other: S, on: On, select: Sequence[str] | None = None) -> S:
        """The join, and every row of `other` without a partner with None for the columns of the left.

        Columns as in `join`; those of the left become optional, but for the key columns: these hold
        the key of the row that is there.
        """
        return _outer_join(self, other, on, select, left=False, right=True)

    @located("FullJoin")
    def full_join(self: S, other: S, on: On, select: Sequence[str] | None = None) -> S:
        """The join, and the rows of both sides that have no partner, padded with None.

        Columns as in `join`; all become optional, but for the key columns of the left: these hold the
        key of whichever row is there.
        """
        return _outer_join(self, other, on, select, left=True, right=True)

    @located("RangeJoin")
    def range_join(
        self: S,
        other: S,
        on: On = (),
        *,
        left: str,
        right: str,
        low: Any = None,
        high: Any = None,
        select: Sequence[str] | None = None,
        where: Expression | None = None,
    ) -> S:
        """The pairs that agree on `on` and have low <= right - left <= high, both included.

        `left` and `right` name an ordered column of each side: int, float, date or timestamp. The
        bounds are differences of such values (timedeltas for the last two); None leaves a side open.
        None and NaN are near nothing. Columns of the result, `select` and `where` as in `join`.
        """
        pairs = key_columns(self.schema, other.schema, on)
        left_key, right_key = tuple(a for a, _ in pairs), tuple(b for _, b in pairs)
        x, y = self.schema.index(left), other.schema.index(right)
        if len({*left_key, x}) <= len(pairs) or len({*right_key, y}) <= len(pairs):
            raise SchemaError(
                "name every column once in `on`, `left` and `right`; compare others with `where`"
            )
        band = Band.of(self.schema.types[x], low, high)
        offered = JoinColumns.of(self.schema, other.schema, right_key)
        names = offered.chosen(select)

        def joined(chosen: Sequence[str]) -> S:
            columns = offered.columns(chosen)
            return RangeJoin(left_key, right_key, x, y, band, columns, tuple(chosen))(self, other)

        if where is None:
            return joined(names)
        return _where(joined(offered.with_those_of(where, names)), where, names)

    @located("AsofJoin")
    def asof_join(
        self: S,
        other: S,
        on: On = (),
        *,
        left: str,
        right: str,
        outer: bool = False,
        select: Sequence[str] | None = None,
    ) -> S:
        """Each row with the latest row of `other` that agrees on `on` and has right <= left.

        `left` and `right` name the times: int, float, date or timestamp. Rows keep their weights;
        `other` counts as a set. Of several latest rows it is the one with the greatest values in the
        other columns, in column order. A row that nothing precedes is left out, or with `outer` kept
        with None for the columns of `other`. Columns of the result and `select` as in `join`.
        """
        pairs = key_columns(self.schema, other.schema, on)
        left_key, right_key = tuple(a for a, _ in pairs), tuple(b for _, b in pairs)
        x, y = self.schema.index(left), other.schema.index(right)
        if len({*left_key, x}) <= len(pairs) or len({*right_key, y}) <= len(pairs):
            raise SchemaError("name every column once in `on`, `left` and `right`")
        offered = JoinColumns.of(self.schema, other.schema, right_key)
        names = offered.chosen(select)
        return AsofJoin(left_key, right_key, x, y, offered.columns(names), names, outer)(self, other)

    @located("Semijoin")
    def semijoin(self: S, other: S, on: On) -> S:
        """The rows that have a partner in `other`, with their own weights."""
        pairs = key_columns(self.schema, other.schema, on)
        key = dict(reversed(pairs))
        return Semijoin(tuple(key), tuple(key.values()))(self, agreeing(other, pairs))

    @located("Antijoin")
    def antijoin(self: S, other: S, on: On) -> S:
        """The rows that have no partner in `other`, with their own weights."""
        pairs = key_columns(self.schema, other.schema, on)
        key = dict(reversed(pairs))
        return Antijoin(tuple(key), tuple(key.values()))(self, agreeing(other, pairs))


@dataclass(frozen=True)
class JoinColumns:
    """The columns that a pair of rows has to offer, by their names in the result of a join."""

    places: dict[str, int]
    """v >= 0: column v of the left; v < 0: column -v - 1 of the right."""
    default: tuple[str, ...]

    @staticmethod
    def of(left: Schema, right: Schema, right_key: Sequence[int]) -> JoinColumns:
        places = {name: index for index, name in enumerate(left.names)}
        default = list(left.names)
        for index, name in enumerate(right.names):
            unique = f"{name}_right" if name in left.names else name
            if unique in places:
                raise SchemaError(f"rename a column first: '{unique}' would occur twice")
            places[unique] = -index - 1
            if index not in right_key:
                default.append(unique)
        return JoinColumns(places, tuple(default))

    def chosen(self, select: Sequence[str] | None) -> tuple[str, ...]:
        """The names of the result's columns."""
        names = self.default if select is None else tuple(select)
        for name in names:
            self._check(name)
        return names

    def columns(self, names: Sequence[str]) -> tuple[int, ...]:
        return tuple(self.places[name] for name in names)

    def with_those_of(self, condition: Expression, names: Sequence[str]) -> tuple[str, ...]:
        """The names and, behind them, the others that the condition reads."""
        read = [name for name in condition.columns if name not in names]
        for name in read:
            self._check(name)
        return (*names, *read)

    def _check(self, name: str) -> None:
        if name not in self.places:
            raise SchemaError(f"join has no output column '{name}'; it has {', '.join(self.places)}")


def _where(pairs: S, condition: Expression, names: Sequence[str]) -> S:
    """The pairs for which the condition holds, with the columns `names`, which come first."""
    kept = Filter(condition)(pairs)
    if len(names) == pairs.schema.arity:
        return kept
    return Project(tuple(range(len(names))), tuple(names))(kept)


def _outer_join(
    left_rows: S, right_rows: S, on: On, select: Sequence[str] | None, left: bool, right: bool
) -> S:
    pairs = key_columns(left_rows.schema, right_rows.schema, on)
    left_key, right_key = tuple(a for a, _ in pairs), tuple(b for _, b in pairs)
    if len(set(left_key)) < len(pairs) or len(set(right_key)) < len(pairs):
        raise SchemaError("name every column once in `on` of an outer join; compare the others beforehand")
    offered = JoinColumns.of(left_rows.schema, right_rows.schema, right_key)
    names = offered.chosen(select)
    return OuterJoin(left_key, right_key, offered.columns(names), names, left, right)(left_rows, right_rows)
