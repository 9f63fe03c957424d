"""Stream methods that combine the rows of two streams: the joins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, TypeVar, get_args

from dbsp.caller_tracebacks import methods_end_at_caller
from dbsp.circuit import graph
from dbsp.data.named_choices import expect_choice
from dbsp.data.schema import Schema
from dbsp.errors import SchemaError
from dbsp.expressions import Expression
from dbsp.operators.joins.asof_join import AsofJoin
from dbsp.operators.joins.band import Band
from dbsp.operators.joins.interval_join import IntervalJoin, interval_offset
from dbsp.operators.joins.join import Join
from dbsp.operators.joins.join_columns import JoinColumns
from dbsp.operators.joins.outer_join import OuterJoin
from dbsp.operators.joins.range_join import RangeJoin
from dbsp.operators.joins.semijoin import Antijoin, Semijoin
from dbsp.operators.linear.filter import Filter
from dbsp.operators.linear.project import Project
from dbsp.operators.streams.fit import (
    On,
    agreeing,
    as_condition,
    either_key,
    expect_stream,
    key_columns,
    located,
)
from dbsp.operators.streams.foreign_verbs import HOW
from dbsp.operators.streams.multiway_atoms import Atom, atom
from dbsp.operators.streams.stream_columns import columns_of_sides

S = TypeVar("S", bound="JoinMethods")
How: TypeAlias = Literal["inner", "left", "right", "full", "semi", "anti"]
HOWS: tuple[How, ...] = get_args(How)


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
        self: S,
        other: S,
        on: On | None = None,
        select: Sequence[str] | None = None,
        *,
        left_on: str | Sequence[str] | None = None,
        right_on: str | Sequence[str] | None = None,
        how: How = "inner",
        where: Expression | None = None,
    ) -> S:
        """Combine the pairs of rows that have equal values in the key columns.

            (a join b)(x, y) = a(x) * b(y)   where x[on] = y[on] and where(x, y) is true

        `how` says which rows the result has:

        - "inner": the pairs;
        - "left", "right", "full": also the rows of this stream, of `other` or of both that have no
          partner, with None for the columns of the other side;
        - "semi": the rows of this stream with a partner, with their own weights;
        - "anti": the rows of this stream without a partner, with their own weights.

        A row has a partner while the weights of the rows of its key on the other side add up to
        more than 0; with `where`, while the weights of its pairs do. As in ON of SQL, a row whose
        pairs all fail `where` has no partner. None is equal to None in a key; `where` with None
        counts as false.

        The result has all columns of the left, then the columns of the right that are not part of
        the key; of "semi" and "anti" only those of the left. A name that both sides have gets the
        suffix `_right` on the right. The columns of a side that can be missing are optional; a key
        column of the left always holds the key.

        An inner join is bilinear: a tick costs O(|delta| log n + output), and the state is one
        trace per side, shared with other operators. The other joins also cost the rows of a key
        that gets its first partner or loses its last one; with `where` they keep one more trace, of
        the rows with a partner. Conditions in `where` that read one side are evaluated before the
        pairs are made.

        Parameters:
            other: the stream on the right.
            on: the key: column names, or pairs (name on the left, name on the right); `[]` pairs
                every row with every row.
            select: the names of the columns of the result, key columns of the right included; by
                default all columns as described.
            left_on: the key columns of the left, instead of `on`.
            right_on: the key columns of the right, in the same order as `left_on`.
            how: "inner", "left", "right", "full", "semi" or "anti".
            where: a further condition on a pair, over the same names, selected or not, or over
                columns of the streams, such as `left["x"] < right["x"]`.

        Returns:
            A stream of the selected columns.

        Raises:
            SchemaError: a column does not exist, the types of a key differ, a name would occur
                twice, or there is no key.
            ArgumentError: `other` is not a stream, `how` is another word, or a key does not name
                columns.
            CircuitError: the streams belong to different circuits.

        Examples:
            >>> circuit = Circuit("shop")
            >>> order = circuit.input("order", id=int, customer=int)
            >>> customer = circuit.input("customer", id=int, name=str)
            >>> for how in ("inner", "left", "semi", "anti"):
            ...     joined = order.join(customer, left_on="customer", right_on="id", how=how)
            ...     circuit.output(how, joined)
            >>> deltas = circuit.start().step({"order": [(1, 7), (2, 8)], "customer": [(7, "Ada")]})
            >>> deltas["inner"].rows(), deltas["left"].rows()
            ([(1, 7, 'Ada')], [(1, 7, 'Ada'), (2, 8, None)])
            >>> deltas["semi"].rows(), deltas["anti"].rows()
            ([(1, 7)], [(2, 8)])

            A condition on the columns of both sides:

            >>> circuit = Circuit("bids")
            >>> bid = circuit.input("bid", item=str, euro=int)
            >>> ask = circuit.input("ask", item=str, euro=int)
            >>> circuit.output("deal", bid.join(ask, on="item", where=bid["euro"] >= ask["euro"]))
            >>> circuit.start().step({"bid": [("tea", 5), ("pen", 1)], "ask": [("tea", 4), ("pen", 2)]})[
            ...     "deal"
            ... ].rows()
            [('tea', 5, 4)]
        """
        expect_stream(other, "join")
        how = expect_choice("how", HOWS, how, HOW)
        pairs = key_columns(self.schema, other.schema, either_key(on, left_on, right_on))
        left_key, right_key = tuple(a for a, _ in pairs), tuple(b for _, b in pairs)
        offered = JoinColumns.of(self.schema, other.schema, right_key)
        condition = None if where is None else columns_of_sides(self, other, offered, as_condition(where))
        if how == "semi" or how == "anti":
            return _semijoin(self, other, pairs, offered, condition, how, select)
        names = offered.chosen(select)
        if how == "inner":
            return _joined_where(
                lambda chosen: _pairs(self, other, pairs, offered, chosen), names, offered, condition
            )
        if len(set(left_key)) < len(pairs) or len(set(right_key)) < len(pairs):
            raise SchemaError(
                f'a column occurs twice in the key of a join with how="{how}"; name each column once, and '
                "compare others with where=",
                code="invalid-join-key",
            )
        left, right = how in ("left", "full"), how in ("right", "full")
        columns = offered.columns(names)
        return OuterJoin(left_key, right_key, columns, names, left, right, condition)(self, other)

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

        condition = None if where is None else columns_of_sides(self, other, offered, as_condition(where))
        return _joined_where(joined, names, offered, condition)

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

        condition = None if where is None else columns_of_sides(self, other, offered, as_condition(where))
        return _joined_where(joined, names, offered, condition)

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


def _pairs(
    left: S, right: S, pairs: Sequence[tuple[int, int]], offered: JoinColumns, names: Sequence[str]
) -> S:
    """Return the inner join of two streams with the columns `names`."""
    left_rows, right_rows = agreeing(left, [(b, a) for a, b in pairs]), agreeing(right, pairs)
    key: dict[int, int] = {}
    for a, b in pairs:  # one of the pairs that share a column is enough from here on
        if b not in key.values():
            key.setdefault(a, b)
    columns = offered.columns(names)
    return Join(tuple(key), tuple(key.values()), columns, tuple(names))(left_rows, right_rows)


def _semijoin(
    left: S,
    right: S,
    pairs: Sequence[tuple[int, int]],
    offered: JoinColumns,
    where: Expression | None,
    how: How,
    select: Sequence[str] | None,
) -> S:
    """Return the rows of the left with a partner, or without one, with the columns `select`."""
    names = left.schema.names
    columns = left.schema.indices(names if select is None else tuple(select))
    operator = Semijoin if how == "semi" else Antijoin
    if where is None:
        key = dict(reversed(pairs))
        found = operator(tuple(key), tuple(key.values()))(left, agreeing(right, pairs))
    else:
        partnered = _joined_where(lambda c: _pairs(left, right, pairs, offered, c), names, offered, where)
        rows = tuple(range(len(names)))
        found = operator(rows, rows)(left, partnered)
    return found if select is None else Project(columns, tuple(select))(found)


def _joined_where(
    joined: Callable[[Sequence[str]], S], names: Sequence[str], offered: JoinColumns, where: Expression | None
) -> S:
    """Return the pairs with the columns `names`, all or those for which the condition is true."""
    if where is None:
        return joined(names)
    kept = Filter(where)(joined(offered.with_those_of(where, names)))
    if len(names) == kept.schema.arity:
        return kept
    return Project(tuple(range(len(names))), tuple(names))(kept)
