"""Groups of a stream and their aggregates: `stream.group_by("shop").agg(n=count())`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, Never, TypeVar

from dbsp.caller_tracebacks import methods_end_at_caller
from dbsp.circuit import graph
from dbsp.errors import ArgumentError, CircuitError, SchemaError, shorten
from dbsp.expressions import Expression, bind, col
from dbsp.operators.groups.aggregate import Aggregate
from dbsp.operators.groups.order_statistics import FinishAggregates
from dbsp.operators.streams.aggregate_calls import LinearAggregateCall
from dbsp.operators.streams.aggregate_plan import AggregatePlan
from dbsp.operators.streams.fit import expect_names, expect_stream, located
from dbsp.operators.streams.foreign_verbs import unknown_group_verb
from dbsp.operators.streams.row_methods import RowMethods, mapped
from dbsp.operators.streams.stream_columns import own_values
from dbsp.operators.time.closing import Close, PerTick

S = TypeVar("S", bound=RowMethods)
Aggregated = Expression | LinearAggregateCall
"""An aggregate, or an expression over aggregates and grouping columns."""


@methods_end_at_caller
class Grouped(Generic[S]):
    """A stream with its grouping columns; `agg` computes aggregates of each group."""

    __slots__ = ("_columns", "_stream")

    def __init__(
        self, stream: S, columns: Sequence[str], expressions: Mapping[str, Expression] | None = None
    ) -> None:
        for column in columns:
            if isinstance(column, Expression):
                raise ArgumentError(
                    f"group_by expects a name for the expression {column!r}, such as "
                    f"group_by(name={column!r})"
                )
        expect_names(columns, "group_by", 'group_by("a", "b")')
        stream.schema.select(stream.schema.indices(columns))
        self._stream = stream
        self._columns: dict[str, Expression] = {name: col(name) for name in columns}
        for name, expression in own_values(stream, expressions or {}).items():
            if not isinstance(expression, Expression):
                raise ArgumentError(
                    f"group_by expects an expression such as {name}=col('x') // 10, got "
                    f"{name}={shorten(expression)} of type {type(expression).__name__}"
                )
            if name in self._columns:
                raise SchemaError(
                    f"'{name}' is already a grouping column; give the expression another name",
                    code="duplicate-column",
                )
            bind(expression, stream.schema)
            self._columns[name] = expression

    _not_a_value = "call .agg(...) on it first"

    if not TYPE_CHECKING:  # a type checker reports unknown attributes itself

        def __getattr__(self, name):
            # Copy, pickle and others look up names with underscores.
            raise AttributeError(name) if name.startswith("_") else unknown_group_verb(name)

    def __repr__(self) -> str:
        return f"<groups of {self._stream!r} by ({', '.join(self._columns)})>"

    @property
    def graph(self) -> graph.Graph:
        return self._stream.graph

    @located("Aggregate")
    def agg(self, *unnamed: Never, **calls: Aggregated) -> S:
        """Compute one row per group: the grouping columns and one column per aggregate.

            agg(s) = { (k, f(s_k)) : groups k of s }      s_k the rows of the group k

        A group is present while the sum of its weights is positive. Cost per tick:
        O(|delta| log n), or log^2 n for medians and quantiles. `fold`, quantiles of strings, and
        `first` or `last` beside other functions read the groups with changes, and so do all
        functions of the same call.

        Parameters:
            unnamed: none; an aggregate without a name is an error.
            calls: an aggregate for each new column, such as `n=count()` or
                `total=col("price").sum()`, or an expression over aggregates and grouping columns.

        Returns:
            A stream with the grouping columns and one column per call.

        Raises:
            SchemaError: a column does not exist or has the wrong type for its aggregate, there is
                no call, a call has no aggregate or reads a column outside of one, or a name is
                already that of a grouping column.
            ArgumentError: a call is not an aggregate, or has no name.

        Examples:
            >>> circuit = Circuit("shops")
            >>> sale = circuit.input("sale", shop=str, euro=int)
            >>> circuit.output("sum", sale.group_by("shop").agg(n=count(), euro=col("euro").sum()))
            >>> circuit.start().step({"sale": [("a", 3), ("a", 4), ("b", 5)]})["sum"].rows()
            [('a', 2, 7), ('b', 1, 5)]

            An expression over aggregates:

            >>> circuit = Circuit("range")
            >>> sale = circuit.input("sale", shop=str, euro=int)
            >>> euro = col("euro")
            >>> ranges = sale.group_by("shop").agg(range=euro.max() - euro.min())
            >>> circuit.output("range", ranges)
            >>> circuit.start().step({"sale": [("a", 3), ("a", 9), ("b", 5)]})["range"].rows()
            [('a', 6), ('b', 0)]
        """
        if unnamed:
            raise ArgumentError(
                f"agg expects a name for each aggregate, such as total={shorten(unnamed[0])}, got "
                f"{shorten(unnamed[0])} without a name"
            )
        return self._aggregated(calls, lambda aggregate, values: aggregate(values))

    @located("Aggregate")
    def final(self, watermark: S, closes: str, **calls: Aggregated) -> S:
        """Compute the row of each group once, when the watermark reaches the end of the group.

        Like `agg`, without updates: a group is emitted when the watermark reaches the value of its
        column `closes`, and its rows are dropped. So the state holds only rows whose end is beyond
        the watermark. Call it on the `on_time` rows of the same watermark: a row of a group that is
        already closed raises InvariantError. O(|delta| log n) per tick and the rows of the groups
        that close.

        Parameters:
            watermark: the `watermark` stream of `Stream.watermark`.
            closes: the grouping column with the end of the group, such as `window_end`.
            calls: an aggregate for each new column, as in `agg`.

        Returns:
            A stream with the grouping columns and one column per call.

        Raises:
            SchemaError: `closes` is not a grouping column or not a time like the watermark, or as
                in `agg`.
            CircuitError: the stream is inside a fixpoint.

        Examples:
            >>> circuit = Circuit("windows")
            >>> marked = circuit.input("seen", time=int).watermark("time", 0)
            >>> windows = marked.on_time.window("time", 10).group_by("window_start", "window_end")
            >>> circuit.output("count", windows.final(marked.watermark, "window_end", n=count()))
            >>> run = circuit.start()
            >>> run.step({"seen": [(3,), (5,)]})["count"].rows(), run.step({"seen": [(12,)]})["count"].rows()
            ([], [(0, 10, 2)])
        """
        expect_stream(watermark, "final")
        if not isinstance(closes, str) or closes not in self._columns:
            raise SchemaError(
                f"closes= expects a grouping column, so that a group has one end; got {shorten(closes)}, "
                f"and the grouping columns are {', '.join(self._columns) or 'none'}",
                code="invalid-window",
            )
        if self.graph.parent is not None:
            raise CircuitError(
                "a watermark follows ticks, and a fixpoint follows iterations; call final() on a "
                "stream outside the fixpoint",
                code="scope-misuse",
            )
        close = Close(list(self._columns).index(closes))
        return self._aggregated(calls, lambda aggregate, values: PerTick(aggregate)(close(values, watermark)))

    def _aggregated(self, calls: Mapping[str, Aggregated], apply: Callable[[Aggregate, S], S]) -> S:
        if not calls:
            raise SchemaError("agg needs at least one aggregate, such as n=count()", code="invalid-aggregate")
        plan = AggregatePlan(self._columns, own_values(self._stream, calls), self._stream.schema)
        values = mapped(self._stream, plan.values) if plan.values else self._stream.select()
        key, functions, names = len(self._columns), tuple(plan.functions), tuple(plan.results)
        if all(isinstance(result, int) for result in plan.results.values()):
            found = apply(Aggregate(key, functions, names), values)
        else:
            numbered = tuple(f"sum{i}" for i in range(len(functions)))
            sums_names = (*(f"key{i}" for i in range(key)), *numbered)
            sums = apply(Aggregate(key, functions, sums_names), values)
            found = FinishAggregates(tuple(plan.results.values()), names)(sums)
        return mapped(found, plan.computed) if plan.has_expressions else found
