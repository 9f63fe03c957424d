"""`Stream`: one method per operator."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dbsp.caller_tracebacks import methods_end_at_caller
from dbsp.circuit import graph
from dbsp.data.interner import Interner
from dbsp.data.values import decode_value
from dbsp.errors import ArgumentError, SchemaError, expect_type, shorten
from dbsp.expressions import Expression, StreamColumn, coalesce, col, lit
from dbsp.operators.joins.band import distance
from dbsp.operators.streams.event_time_methods import EventTimeMethods, window_length
from dbsp.operators.streams.fit import expect_pair, listed, located
from dbsp.operators.streams.foreign_verbs import unknown_verb
from dbsp.operators.streams.grouped import Aggregated, Grouped
from dbsp.operators.streams.inspection_methods import InspectionMethods
from dbsp.operators.streams.join_methods import JoinMethods
from dbsp.operators.streams.ranking_methods import RankingMethods
from dbsp.operators.streams.row_methods import RowMethods
from dbsp.operators.streams.set_methods import SetMethods
from dbsp.operators.streams.stream_columns import own_values
from dbsp.operators.time.delay import Delay
from dbsp.operators.time.differentiate import Differentiate
from dbsp.operators.time.integrate import Integrate
from dbsp.operators.time.window import check_time


@methods_end_at_caller
class Stream(RowMethods, SetMethods, JoinMethods, RankingMethods, InspectionMethods, EventTimeMethods):
    """A stream of Z-sets; every method adds one operator to the circuit and returns its output."""

    __slots__ = ()
    public_names = (
        "filter",
        "map",
        "with_columns",
        "try_map",
        "select",
        "drop",
        "rename",
        "flat_map",
        "generate_series",
        "explode",
        "unnest",
        "scale",
        "distinct",
        "union",
        "join",
        "range_join",
        "interval_join",
        "asof_join",
        "group_by",
        "rank",
        "dense_rank",
        "row_number",
        "number_rows",
        "top_k",
        "lag",
        "lead",
        "rolling",
        "window",
        "session_window",
        "watermark",
        "recent",
        "preceded",
        "choice_domain",
        "equivalence_classes",
        "sample",
        "at_least",
        "widen",
        "delay",
        "integrate",
        "differentiate",
        "inspect",
        "assert_nonnegative",
        "schema",
    )

    @located("Column")
    def __getitem__(self, name: str) -> Expression:
        """Return the column of this stream as an expression, for its methods and its joins.

        The same as `col(name)` in the methods of this stream. In the condition of a join it is the
        column of this side, also if both sides have a column of this name.

        Parameters:
            name: the name of the column.

        Raises:
            SchemaError: the column does not exist.
            ArgumentError: `name` is not a string.

        Examples:
            >>> circuit = Circuit("people")
            >>> person = circuit.input("person", name=str, age=int)
            >>> circuit.output("adult", person.filter(person["age"] >= 18))
            >>> circuit.start().step({"person": [("Ada", 36), ("Ben", 7)]})["adult"].rows()
            [('Ada', 36)]
        """
        if not isinstance(name, str):
            if isinstance(name, list | tuple) and all(isinstance(each, str) for each in name):
                hint = f"; use select({', '.join(map(json.dumps, name))}) for several columns"
            elif isinstance(name, Expression):
                hint = "; use filter(...) for the rows that satisfy a condition"
            else:
                hint = "; a stream has no rows before circuit.start(): read run.view(name) of an output"
            raise ArgumentError(
                f"stream[...] expects a column name, got {shorten(name)} of type {type(name).__name__}{hint}"
            )
        self.schema.index(name)
        return StreamColumn(name, self)

    @located("Aggregate")
    def group_by(self, *columns: str, **expressions: Expression) -> Grouped[Stream]:
        """Group the rows by columns and expressions; without any, all rows are one group.

        No cost by itself: call `agg` or `final` on the result.

        Parameters:
            columns: the names of the grouping columns, each as one argument.
            expressions: further grouping columns, each with the expression of its values.

        Returns:
            The groups, with the methods `agg` and `final`.

        Raises:
            SchemaError: a column does not exist, or is named twice.
            ArgumentError: an argument is not a column name, or a named one is not an expression.

        Examples:
            >>> circuit = Circuit("shops")
            >>> sale = circuit.input("sale", shop=str, euro=int)
            >>> circuit.output("sum", sale.group_by("shop").agg(n=count(), euro=col("euro").sum()))
            >>> circuit.start().step({"sale": [("a", 3), ("a", 4), ("b", 5)]})["sum"].rows()
            [('a', 2, 7), ('b', 1, 5)]

            Groups of an expression:

            >>> circuit = Circuit("sizes")
            >>> sale = circuit.input("sale", shop=str, euro=int)
            >>> circuit.output("count", sale.group_by(large=col("euro") >= 4).agg(n=count()))
            >>> circuit.start().step({"sale": [("a", 3), ("a", 4), ("b", 5)]})["count"].rows()
            [(False, 1), (True, 2)]
        """
        return Grouped(self, columns, expressions)

    @located("Rolling")
    def rolling(
        self,
        column: str,
        size: Any,
        *,
        partition: Sequence[str] = (),
        **calls: Aggregated,
    ) -> Stream:
        """Add aggregates over the rows up to `size` before each row, the row itself included.

            out(x) = x . f({ y : y.partition = x.partition
                                 and x.column - size <= y.column <= x.column })

        A row that occurs several times is one row of the result and counts several times in
        windows. Composed of a range join and an aggregate: a tick costs the rows of the windows
        that contain a changed row.

        Parameters:
            column: the column that orders the rows: int, float, date or timestamp.
            size: the length of the window: a number, or a timedelta for dates and timestamps.
            partition: the columns in which the rows of a window agree with its row.
            calls: an aggregate for each new column, as in `Grouped.agg`.

        Returns:
            A stream with the columns of this one and one column per call.

        Raises:
            SchemaError: a column does not exist, a name is already that of a column, or `size` does
                not fit the type of the column.
            ArgumentError: a call is not an aggregate.

        Examples:
            >>> circuit = Circuit("traffic")
            >>> seen = circuit.input("seen", second=int, cars=int)
            >>> circuit.output("sum", seen.rolling("second", 10, cars_10s=col("cars").sum()))
            >>> circuit.start().step({"seen": [(1, 3), (9, 4), (15, 5)]})["sum"].rows()
            [(1, 3, 3), (9, 4, 7), (15, 5, 9)]
        """
        partition = listed(partition, "partition=")
        names = self.schema.names
        at, *_ = self.schema.indices((column, *partition))
        extent = distance(self.schema.types[at], size, "size") if size is not None else None
        if extent is None or extent < 0:
            raise SchemaError(
                f"size= expects a length that is not negative, got {shorten(size)}", code="invalid-window"
            )
        calls = own_values(self, calls)
        for name in calls:
            if name in names:
                raise SchemaError(
                    f"'{name}' is already a column; give the aggregate another name", code="duplicate-column"
                )
        own = {name: f"{name} of the row" for name in names}
        rows = self.distinct().rename(**{renamed: name for name, renamed in own.items()})
        pairs = rows.range_join(
            self,
            on=[(own[name], name) for name in partition],
            left=own[column],
            right=column,
            low=-size,
            high=size - size,
            select=[*own.values(), *names],
        )
        return pairs.group_by(*own.values()).agg(**calls).rename(**own)

    @located("SessionWindow")
    def session_window(
        self,
        column: str,
        gap: Any,
        *,
        partition: Sequence[str] = (),
        names: tuple[str, str] = ("session_start", "session_end"),
    ) -> Stream:
        """Add the start and the end of the session of each row: rows less than `gap` apart.

            session(s)(x, b, e) = s(x)   for the times b = t1 < ... < tn = e - gap of a session
                                         with t1 <= x.column <= tn

        A row whose time is `gap` or more after the time before it starts a session. The end is
        `gap` after the last time of the session and not part of it. A session has the rows of one
        partition whose weights sum to more than 0 for their time; a row whose time is None, or
        whose time has another sum, is in no session. When sessions join or part, their rows are
        retracted and inserted with the new start and end.

        Composed of lag, an as-of join, an aggregate and joins: a tick costs O(|delta| log n), plus
        the rows of the sessions whose start or end changes. The state is a trace of the rows and
        several traces of the times.

        Parameters:
            column: the column of the time: int, date or timestamp.
            gap: the least distance between sessions: an int, or a timedelta for dates and
                timestamps.
            partition: the columns that divide the rows; each part has sessions of its own.
            names: the names of the two new columns.

        Returns:
            A stream with the columns of this one, the start and the end.

        Raises:
            SchemaError: a column does not exist or is named twice, the column is not a time, `gap`
                is not a positive length of time for its type, or a new name is already a column.

        Examples:
            >>> circuit = Circuit("visits")
            >>> click = circuit.input("click", user=str, minute=int)
            >>> sessions = click.session_window("minute", 30, partition=["user"])
            >>> visits = sessions.group_by("user", "session_start", "session_end").agg(clicks=count())
            >>> circuit.output("visits", visits)
            >>> run = circuit.start()
            >>> run.step({"click": [("ada", 5), ("ada", 20), ("ada", 90)]})["visits"].rows()
            [('ada', 5, 50, 2), ('ada', 90, 120, 1)]
            >>> run.step({"click": [("ada", 45), ("ada", 70)]})["visits"].to_dict()
            {('ada', 5, 50, 2): -1, ('ada', 5, 120, 5): 1, ('ada', 90, 120, 1): -1}
        """
        partition = listed(partition, "partition=")
        schema = self.schema
        at, *_ = schema.indices((column, *partition))
        schema.select(schema.indices((column, *partition)))  # refuses a name that is given twice
        check_time(schema, at)
        window_length(self, at, gap, "gap")
        first, last = expect_pair(names)
        for name in (first, last):
            if name in schema.names or first == last:
                raise SchemaError(
                    f"'{name}' is already a column; give the sessions other names with names=",
                    code="duplicate-column",
                )
        type_ = schema.types[at].required()
        time, keys = (
            "time of the session",
            {f"key {i} of the session": name for i, name in enumerate(partition)},
        )
        # The rows have a time here, so the other value of `coalesce` only makes the type required.
        zero = lit(decode_value(type_, 0, Interner()), type_)
        timed = self.filter(~col(column).is_null()) if schema.types[at].nullable else self
        moment = coalesce(col(column), zero) if schema.types[at].nullable else col(column)
        times = timed.map(**{time: moment, **{key: col(name) for key, name in keys.items()}}).distinct()
        previous = times.lag(time, by=time, partition=list(keys), name=last)
        begins = col(last).is_null() | (col(last) + gap <= col(time))
        starts = previous.filter(begins).select(time, *keys).rename(**{first: time})
        placed = times.asof_join(starts, on=list(keys), left=time, right=first)
        ends = placed.group_by(*keys, first).agg(**{last: col(time).max()})
        sessions = placed.join(ends, on=[*keys, first]).with_columns(**{last: col(last) + gap})
        on = [(column, time), *((name, key) for key, name in keys.items())]
        return self.join(sessions, on=on, select=[*schema.names, first, last])

    def delay(self) -> Stream:
        """Delay the stream by one tick, inside a fixpoint by one iteration.

            z^-1(s)[t] = s[t - 1],   z^-1(s)[0] = 0

        O(|delta|) per tick; the state is one delta.

        Returns:
            A stream whose delta is that of the previous tick.

        Examples:
            >>> circuit = Circuit("late")
            >>> circuit.output("late", circuit.input("now", x=int).delay())
            >>> run = circuit.start()
            >>> run.step({"now": [(1,)]})["late"].rows(), run.step()["late"].rows()
            ([], [(1,)])
        """
        delayed = self.graph.add_source(Delay(self.schema))
        self.graph.connect(delayed, self)
        return own_stream(delayed)

    def integrate(self) -> Stream:
        """Sum the stream over all ticks so far, inside a fixpoint over the iterations so far.

            I(s)[t] = s[0] + s[1] + ... + s[t]

        Every tick emits the complete sum as its delta, so a tick costs the size of the sum, and so
        does the state. To read the sum of an output use `run.view` instead.

        Inside a fixpoint, `s[i]` is the value of the stream at iteration i, and the sum is built of
        a delay. It has a value at the fixpoint only if the stream is empty from some iteration on,
        as the difference of a stream that converges is; otherwise a tick raises
        IterationLimitError.

        Returns:
            A stream with the same columns.

        Examples:
            >>> circuit = Circuit("sums")
            >>> circuit.output("sum", circuit.input("a", x=int).integrate())
            >>> run = circuit.start()
            >>> run.step({"a": [(1,)]})["sum"].to_dict(), run.step({"a": [(2,)]})["sum"].to_dict()
            ({(1,): 1}, {(1,): 1, (2,): 1})
        """
        if self.graph.parent is None:
            return Integrate()(self)
        before = self.graph.add_source(Delay(self.schema))
        total = self.union(own_stream(before))
        self.graph.connect(before, total)
        return total

    def differentiate(self) -> Stream:
        """Subtract the previous tick's delta from that of this tick; the inverse of `integrate`.

            D(s)[t] = s[t] - s[t - 1]

        O(|s[t]| + |s[t - 1]|) per tick; the state is one delta. Inside a fixpoint, `s[i]` is the
        value of the stream at iteration i, and the difference is built of a delay.

        Returns:
            A stream with the same columns.

        Examples:
            >>> circuit = Circuit("changes")
            >>> circuit.output("change", circuit.input("a", x=int).differentiate())
            >>> run = circuit.start()
            >>> run.step({"a": [(1,)]})["change"].to_dict(), run.step()["change"].to_dict()
            ({(1,): 1}, {(1,): -1})
        """
        if self.graph.parent is None:
            return Differentiate()(self)
        return self - self.delay()


if not TYPE_CHECKING:  # a type checker reports unknown attributes itself

    def _unknown(self, name):
        if name.startswith("_"):  # looked up by copy, pickle and others before there are attributes
            raise AttributeError(name)
        raise unknown_verb(name, type(self).public_names, self.schema.names)

    Stream.__getattr__ = _unknown


def own_stream(stream: graph.Stream) -> Stream:
    """Return the stream as one with the methods of the builder."""
    return expect_type(stream, Stream, "a stream with the methods of the builder")
