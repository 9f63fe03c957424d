"""Stream methods that combine the rows of two streams: the joins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from dbsp.caller_tracebacks import methods_end_at_caller
from dbsp.circuit import graph
from dbsp.data.schema import Schema, suggestion
from dbsp.errors import SchemaError
from dbsp.expressions import Expression
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.joins.asof_join import AsofJoin
from dbsp.operators.joins.band import Band
from dbsp.operators.joins.interval_join import IntervalJoin, interval_offset
from dbsp.operators.joins.join import Join
from dbsp.operators.joins.outer_join import OuterJoin
from dbsp.operators.joins.range_join import RangeJoin
from dbsp.operators.joins.semijoin import Antijoin, Semijoin
from dbsp.operators.linear.filter import Filter
from dbsp.operators.linear.project import Project
from dbsp.operators.streams.fit import On, agreeing, expect_stream, key_columns, located
from dbsp.operators.streams.multiway_atoms import Atom, atom

S = TypeVar("S", bound="JoinMethods")


@methods_end_at_caller
class JoinMethods(graph.Stream):
    """The methods of a stream that pair its rows with the rows of another stream."""

    __slots__ = ()

    @located("MultiwayJoin")
    def __call__(self: S, *terms: Any) -> Atom[S]:
        """Return an atom for `dbsp.multiway_join`, with one term per column: `edge("a", "b")`."""
        return atom(self, terms)

    @located("Join")
    def join(
        self: S, other: S, on: On, select: Sequence[str] | None = None, *, where: Expression | None = None
    ) -> S:
        """Combine the pairs of rows that have equal values in the columns `on`.

            (a join b)(x, y) = a(x) * b(y)   where x[on] = y[on]

        The result has all columns of the left, then the columns of the right that are not part of
        the key. A name that both sides have gets the suffix `_right` on the right. Bilinear: a tick
        costs O(|delta| log n + output); the state is one trace per side, shared with other
        operators.

        Parameters:
            other: the stream on the right.
            on: the key: column names, or pairs (name on the left, name on the right).
            select: the names of the columns of the result, key columns of the right included; by
                default all columns as described.
            where: a further condition on a pair, over the same names, selected or not.

        Returns:
            A stream of the selected columns.

        Raises:
            SchemaError: a column does not exist, the types of a key differ, or a name would occur
                twice.
            ArgumentError: `other` is not a stream, or `on` does not name columns.
            CircuitError: the streams belong to different circuits.

        Examples:
            >>> circuit = Circuit("shop")
            >>> order = circuit.input("order", id=int, customer=int)
            >>> customer = circuit.input("customer", id=int, name=str)
            >>> circuit.output("who", order.join(customer, on=[("customer", "id")], select=["id", "name"]))
            >>> run = circuit.start()
            >>> run.step({"order": [(1, 7), (2, 8)], "customer": [(7, "Ada"), (9, "Ben")]})["who"].rows()
            [(1, 'Ada')]
        """
        expect_stream(other, "join")
        pairs = key_columns(self.schema, other.schema, on)
        offered = JoinColumns.of(self.schema, other.schema, [b for _, b in pairs])
        names = offered.chosen(select)
        left, right = agreeing(self, [(b, a) for a, b in pairs]), agreeing(other, pairs)
        key: dict[int, int] = {}
        for a, b in pairs:  # one of the pairs that share a column is enough from here on
            if b not in key.values():
                key.setdefault(a, b)

        def joined(columns: Sequence[str]) -> S:
            return Join(tuple(key), tuple(key.values()), offered.columns(columns), tuple(columns))(
                left, right
            )

        return _joined_where(joined, offered, names, where)

    @located("LeftJoin")
    def left_join(self: S, other: S, on: On, select: Sequence[str] | None = None) -> S:
        """Join, and keep every row without a partner, with None for the columns of `other`.

        The columns are those of `join`; those of `other` become optional. A tick in which a row
        gets its first partner retracts its padded form, and a tick in which it loses its last
        partner inserts it again. Cost and state are those of a join and an antijoin.

        Parameters:
            other: the stream on the right.
            on: the key: column names, or pairs (name on the left, name on the right).
            select: the names of the columns of the result; by default all columns as described.

        Returns:
            A stream of the selected columns.

        Raises:
            SchemaError: a column does not exist, the types of a key differ, or a name would occur
                twice.
            ArgumentError: `other` is not a stream, or `on` does not name columns.
            CircuitError: the streams belong to different circuits.

        Examples:
            >>> circuit = Circuit("shop")
            >>> order = circuit.input("order", id=int, customer=int)
            >>> customer = circuit.input("customer", id=int, name=str)
            >>> circuit.output("all", order.left_join(customer, on=[("customer", "id")]))
            >>> run = circuit.start()
            >>> run.step({"order": [(1, 7), (2, 8)], "customer": [(7, "Ada"), (9, "Ben")]})["all"].rows()
            [(1, 7, 'Ada'), (2, 8, None)]
        """
        return _outer_join(self, other, on, select, left=True, right=False)

    @located("RightJoin")
    def right_join(self: S, other: S, on: On, select: Sequence[str] | None = None) -> S:
        """Join, and keep every row of `other` without a partner, with None for the other columns.

        The columns are those of `join`. The columns of the left become optional, except the key
        columns, which hold the key of the right row. Cost and state are those of a join and an
        antijoin.

        Parameters:
            other: the stream on the right.
            on: the key: column names, or pairs (name on the left, name on the right).
            select: the names of the columns of the result; by default all columns as described.

        Returns:
            A stream of the selected columns.

        Raises:
            SchemaError: a column does not exist, the types of a key differ, or a name would occur
                twice.
            ArgumentError: `other` is not a stream, or `on` does not name columns.
            CircuitError: the streams belong to different circuits.

        Examples:
            >>> circuit = Circuit("shop")
            >>> order = circuit.input("order", id=int, customer=int)
            >>> customer = circuit.input("customer", id=int, name=str)
            >>> circuit.output("all", order.right_join(customer, on=[("customer", "id")]))
            >>> run = circuit.start()
            >>> run.step({"order": [(1, 7), (2, 8)], "customer": [(7, "Ada"), (9, "Ben")]})["all"].rows()
            [(None, 9, 'Ben'), (1, 7, 'Ada')]
        """
        return _outer_join(self, other, on, select, left=False, right=True)

    @located("FullJoin")
    def full_join(self: S, other: S, on: On, select: Sequence[str] | None = None) -> S:
        """Join, and keep the rows of both sides that have no partner, padded with None.

        The columns are those of `join`. All become optional except the key columns of the left,
        which hold the key of the left row or, in a row without one, of the right row. Cost and
        state are those of a join and two antijoins.

        Parameters:
            other: the stream on the right.
            on: the key: column names, or pairs (name on the left, name on the right).
            select: the names of the columns of the result; by default all columns as described.

        Returns:
            A stream of the selected columns.

        Raises:
            SchemaError: a column does not exist, the types of a key differ, or a name would occur
                twice.
            ArgumentError: `other` is not a stream, or `on` does not name columns.
            CircuitError: the streams belong to different circuits.

        Examples:
            >>> circuit = Circuit("shop")
            >>> order = circuit.input("order", id=int, customer=int)
            >>> customer = circuit.input("customer", id=int, name=str)
            >>> circuit.output("all", order.full_join(customer, on=[("customer", "id")]))
            >>> run = circuit.start()
            >>> run.step({"order": [(1, 7), (2, 8)], "customer": [(7, "Ada"), (9, "Ben")]})["all"].rows()
            [(None, 9, 'Ben'), (1, 7, 'Ada'), (2, 8, None)]
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
        """Combine the pairs with equal `on` columns and `low <= right - left <= high`.

            (a join b)(x, y) = a(x) * b(y)   where x[on] = y[on]
                                             and low <= y[right] - x[left] <= high

        The columns of the result are those of `join`. A row whose value is None or NaN has no
        partner. A tick costs O(|delta| log n + output); the state is one trace per side.

        Parameters:
            other: the stream on the right.
            on: the key, as in `join`; by default none.
            left: a column of this stream: int, float, date or timestamp.
            right: a column of `other` of the same type.
            low: the least difference: an int, a float, or a timedelta for dates and timestamps;
                None for no bound.
            high: the largest difference, written like `low`.
            select: the names of the columns of the result, as in `join`.
            where: a further condition on a pair, as in `join`.

        Returns:
            A stream of the selected columns.

        Raises:
            SchemaError: a column does not exist or occurs twice in `on`, `left` and `right`; types
                differ; a bound does not fit the type; or `low` is more than `high`.
            ArgumentError: `other` is not a stream, or `on` does not name columns.

        Examples:
            >>> circuit = Circuit("near")
            >>> a, b = circuit.input("a", x=int), circuit.input("b", y=int)
            >>> circuit.output("near", a.range_join(b, left="x", right="y", low=-1, high=1))
            >>> circuit.start().step({"a": [(5,)], "b": [(4,), (6,), (7,)]})["near"].rows()
            [(5, 4), (5, 6)]
        """
        expect_stream(other, "range_join")
        options = "left= and right=; name each column once, and compare others with where="
        left_key, right_key, x, y = _ordered_key(self.schema, other.schema, on, left, right, options)
        band = Band.of(self.schema.types[x], low, high)
        offered = JoinColumns.of(self.schema, other.schema, right_key)
        names = offered.chosen(select)

        def joined(chosen: Sequence[str]) -> S:
            columns = offered.columns(chosen)
            return RangeJoin(left_key, right_key, x, y, band, columns, tuple(chosen))(self, other)

        return _joined_where(joined, offered, names, where)

    @located("IntervalJoin")
    def interval_join(
        self: S,
        other: S,
        on: On = (),
        *,
        left: str,
        first: str,
        last: str,
        low: Any = 0,
        high: Any = 0,
        select: Sequence[str] | None = None,
        where: Expression | None = None,
    ) -> S:
        """Combine each row with the intervals of `other` that contain it.

            (a join b)(x, y) = a(x) * b(y)   where x[on] = y[on]
                                             and y[first] + low <= x[left] <= y[last] + high

        The columns of the result are those of `join`. A row whose value is None has no partner. A
        changed interval costs O(log n + matches), a changed point also one comparison for each
        interval of its key that begins before it; the state is one trace per side.

        Parameters:
            other: the stream of intervals.
            on: the key, as in `join`; by default none.
            left: a column of this stream: int, date or timestamp.
            first: the column of `other` with the start of the interval, of the same type.
            last: the column of `other` with its end, of the same type.
            low: added to the start: an int, or a timedelta for dates and timestamps.
            high: added to the end, written like `low`; -1 for int intervals without their end.
            select: the names of the columns of the result, as in `join`.
            where: a further condition on a pair, as in `join`.

        Returns:
            A stream of the selected columns.

        Raises:
            SchemaError: a column does not exist or occurs twice in `on`, `left` and `first`; types
                differ; or an offset does not fit the type.
            ArgumentError: `other` is not a stream, or `on` does not name columns.

        Examples:
            >>> circuit = Circuit("prices")
            >>> day = circuit.input("day", day=int)
            >>> price = circuit.input("price", since=int, until=int, euro=int)
            >>> circuit.output("at", day.interval_join(price, left="day", first="since", last="until"))
            >>> circuit.start().step({"day": [(5,)], "price": [(1, 5, 10), (6, 9, 11)]})["at"].rows()
            [(5, 1, 5, 10)]
        """
        expect_stream(other, "interval_join")
        options = "left= and first=; name each column once, and compare others with where="
        left_key, right_key, point, start = _ordered_key(self.schema, other.schema, on, left, first, options)
        end = other.schema.index(last)
        type_ = self.schema.types[point]
        offsets = interval_offset(type_, low, "low"), interval_offset(type_, high, "high")
        offered = JoinColumns.of(self.schema, other.schema, right_key)
        names = offered.chosen(select)

        def joined(chosen: Sequence[str]) -> S:
            columns = offered.columns(chosen)
            return IntervalJoin(left_key, right_key, point, start, end, *offsets, columns, tuple(chosen))(
                self, other
            )

        return _joined_where(joined, offered, names, where)

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
        """Combine each row with the latest row of `other` that is not later than it.

            asof(a, b)(x, y) = a(x)   for y the row of b with y[on] = x[on] and the largest
                                      y[right] <= x[left]

        Rows keep their weights; `other` counts as a set. Of several latest rows the one with the
        greatest values in the other columns is used, in column order. The columns of the result are
        those of `join`. A tick costs O(log n) for each changed row and for each row whose partner
        changes; the state is one trace per side.

        Parameters:
            other: the stream on the right.
            on: the key, as in `join`; by default none.
            left: the time of this stream: a column of type int, float, date or timestamp.
            right: the time of `other`: a column of the same type.
            outer: True to keep a row without a partner, with None for the columns of `other`.
            select: the names of the columns of the result, as in `join`.

        Returns:
            A stream of the selected columns.

        Raises:
            SchemaError: a column does not exist or occurs twice in `on`, `left` and `right`, or
                types differ.
            ArgumentError: `other` is not a stream, or `on` does not name columns.

        Examples:
            >>> circuit = Circuit("prices")
            >>> trade = circuit.input("trade", time=int, pieces=int)
            >>> price = circuit.input("price", since=int, euro=int)
            >>> circuit.output("at", trade.asof_join(price, left="time", right="since"))
            >>> circuit.start().step({"trade": [(5, 2)], "price": [(1, 10), (4, 11), (9, 12)]})["at"].rows()
            [(5, 2, 4, 11)]
        """
        expect_stream(other, "asof_join")
        options = "left= and right=; name each column once"
        left_key, right_key, x, y = _ordered_key(self.schema, other.schema, on, left, right, options)
        offered = JoinColumns.of(self.schema, other.schema, right_key)
        names = offered.chosen(select)
        return AsofJoin(left_key, right_key, x, y, offered.columns(names), names, outer)(self, other)

    @located("Semijoin")
    def semijoin(self: S, other: S, on: On) -> S:
        """Keep the rows that have a partner in `other`, with their own weights.

            semijoin(a, b)(x) = a(x) if sum of b(y) over the rows y with y[on] = x[on] > 0, else 0

        A tick costs O(|delta| log n), plus the rows of `self` whose key gets its first partner or
        loses its last one. The state is a trace of the rows, and one of the keys of `other`.

        Parameters:
            other: the stream that holds the partners; it counts as a set.
            on: the key: column names, or pairs (name on the left, name on the right).

        Returns:
            A stream with the same columns.

        Raises:
            SchemaError: a column does not exist, or the types of a key differ.
            ArgumentError: `other` is not a stream, or `on` does not name columns.
            CircuitError: the streams belong to different circuits.

        Examples:
            >>> circuit = Circuit("shop")
            >>> order = circuit.input("order", id=int, customer=int)
            >>> customer = circuit.input("customer", id=int, name=str)
            >>> circuit.output("semijoin", order.semijoin(customer, on=[("customer", "id")]))
            >>> run = circuit.start()
            >>> run.step({"order": [(1, 7), (2, 8)], "customer": [(7, "Ada"), (9, "Ben")]})["semijoin"].rows()
            [(1, 7)]
        """
        expect_stream(other, "semijoin")
        pairs = key_columns(self.schema, other.schema, on)
        key = dict(reversed(pairs))
        return Semijoin(tuple(key), tuple(key.values()))(self, agreeing(other, pairs))

    @located("Antijoin")
    def antijoin(self: S, other: S, on: On) -> S:
        """Keep the rows that have no partner in `other`, with their own weights.

            antijoin(a, b)(x) = a(x) - semijoin(a, b)(x)

        A tick costs O(|delta| log n), plus the rows of `self` whose key gets its first partner or
        loses its last one. The state is a trace of the rows, and one of the keys of `other`.

        Parameters:
            other: the stream that holds the partners; it counts as a set.
            on: the key: column names, or pairs (name on the left, name on the right).

        Returns:
            A stream with the same columns.

        Raises:
            SchemaError: a column does not exist, or the types of a key differ.
            ArgumentError: `other` is not a stream, or `on` does not name columns.
            CircuitError: the streams belong to different circuits.

        Examples:
            >>> circuit = Circuit("shop")
            >>> order = circuit.input("order", id=int, customer=int)
            >>> customer = circuit.input("customer", id=int, name=str)
            >>> circuit.output("antijoin", order.antijoin(customer, on=[("customer", "id")]))
            >>> run = circuit.start()
            >>> run.step({"order": [(1, 7), (2, 8)], "customer": [(7, "Ada"), (9, "Ben")]})["antijoin"].rows()
            [(2, 8)]
        """
        expect_stream(other, "antijoin")
        pairs = key_columns(self.schema, other.schema, on)
        key = dict(reversed(pairs))
        return Antijoin(tuple(key), tuple(key.values()))(self, agreeing(other, pairs))


@dataclass(frozen=True)
class JoinColumns:
    """The columns that the result of a join can have, by name."""

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
                raise SchemaError(
                    f"column '{unique}' would occur twice in the result; rename a column before the join",
                    code="duplicate-column",
                )
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
        """The names, followed by the other names that the condition reads."""
        read = [name for name in condition.columns if name not in names]
        for name in read:
            self._check(name)
        return (*names, *read)

    def _check(self, name: str) -> None:
        if name not in self.places:
            raise SchemaError(
                f"the join has no column {name!r}{suggestion(str(name), self.places)}; its columns are "
                f"{', '.join(self.places)}",
                code="unknown-column",
            )


def _ordered_key(
    a: Schema, b: Schema, on: On, left: str, right: str, options: str
) -> tuple[tuple[int, ...], tuple[int, ...], int, int]:
    """Return the keys of two sides, and the ordered column of each, which is not part of its key.

    `options` continues the message about a column that is.
    """
    pairs = key_columns(a, b, on)
    left_key, right_key = tuple(x for x, _ in pairs), tuple(y for _, y in pairs)
    x, y = a.index(left), b.index(right)
    if len({*left_key, x}) <= len(pairs) or len({*right_key, y}) <= len(pairs):
        raise SchemaError(f"a column occurs twice in on=, {options}", code="invalid-join-key")
    return left_key, right_key, x, y


def _joined_where(
    joined: Callable[[Sequence[str]], S], offered: JoinColumns, names: Sequence[str], where: Expression | None
) -> S:
    """Return the pairs with the columns `names`, all or those for which the condition is true."""
    if where is None:
        return joined(names)
    return _where(joined(offered.with_those_of(where, names)), where, names)


def _where(pairs: S, condition: Expression, names: Sequence[str]) -> S:
    """Keep the pairs for which the condition is true, with their first columns, `names`."""
    kept = Filter(condition)(pairs)
    if len(names) == pairs.schema.arity:
        return kept
    return Project(tuple(range(len(names))), tuple(names))(kept)


def _outer_join(
    left_rows: S, right_rows: S, on: On, select: Sequence[str] | None, left: bool, right: bool
) -> S:
    expect_stream(right_rows, "an outer join")
    pairs = key_columns(left_rows.schema, right_rows.schema, on)
    left_key, right_key = tuple(a for a, _ in pairs), tuple(b for _, b in pairs)
    if len(set(left_key)) < len(pairs) or len(set(right_key)) < len(pairs):
        raise SchemaError(
            "a column occurs twice in on= of an outer join; name each column once, and filter the "
            "streams before the join",
            code="invalid-join-key",
        )
    offered = JoinColumns.of(left_rows.schema, right_rows.schema, right_key)
    names = offered.chosen(select)
    return OuterJoin(left_key, right_key, offered.columns(names), names, left, right)(left_rows, right_rows)
