"""Groups of a stream, and the aggregates computed of each: `stream.group_by("shop").agg(n=count())`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from dbsp.circuit import graph
from dbsp.errors import CircuitError, SchemaError
from dbsp.expressions import Expression, col
from dbsp.operators.groups.aggregate import Aggregate
from dbsp.operators.groups.aggregate_functions import GroupFunction
from dbsp.operators.groups.order_statistics import FinishAggregates, FunctionOfSums
from dbsp.operators.streams.aggregate_calls import AggregateCall, LinearAggregateCall
from dbsp.operators.streams.fit import located
from dbsp.operators.streams.row_methods import RowMethods, mapped
from dbsp.operators.time.closing import Close, PerTick

S = TypeVar("S", bound=RowMethods)


class Grouped(Generic[S]):
    """A stream with its grouping columns; `agg` says what to compute of each group."""

    __slots__ = ("_columns", "_stream")

    def __init__(self, stream: S, columns: Sequence[str]) -> None:
        stream.schema.select(stream.schema.indices(columns))
        self._stream = stream
        self._columns = tuple(columns)

    @property
    def graph(self) -> graph.Graph:
        return self._stream.graph

    @located("Aggregate")
    def agg(self, **calls: AggregateCall | LinearAggregateCall) -> S:
        """One row per group: the grouping columns and one column per call.

        A group is present while its summed weight is positive.
        """
        return self._aggregated(calls, lambda aggregate, values: aggregate(values))

    @located("Aggregate")
    def final(self, watermark: S, closes: str, **calls: AggregateCall | LinearAggregateCall) -> S:
        """As `agg`, but of a group only its last word: one row, when the watermark reaches `closes`.

        `closes` names the grouping column that says when a group ends, such as `window_end`. Groups
        that are closed are forgotten: rows are kept only while their end is beyond the watermark.
        Read from the `on_time` rows of that watermark; a row of a closed group raises InvariantError.
        """
        if closes not in self._columns:
            raise SchemaError(
                f"'{closes}' has to be one of the grouping columns, for a group to have one end"
            )
        if self.graph.parent is not None:
            raise CircuitError(
                "a watermark goes by ticks, and a fixpoint by iterations; close groups outside"
            )
        close = Close(self._columns.index(closes))
        return self._aggregated(calls, lambda aggregate, values: PerTick(aggregate)(close(values, watermark)))

    def _aggregated(
        self,
        calls: Mapping[str, AggregateCall | LinearAggregateCall],
        apply: Callable[[Aggregate, S], S],
    ) -> S:
        if not calls:
            raise SchemaError("agg needs at least one aggregate, such as n=count()")
        columns: dict[str, Expression] = {name: col(name) for name in self._columns}
        places: dict[Any, int] = {}
        functions: list[GroupFunction] = []

        def place(argument: Expression, name: str) -> int:
            """The column that holds an argument's values; equal ones share it."""
            if argument.key not in places:
                places[argument.key] = len(columns)
                columns[name if name not in columns else f"{name}.{len(columns)}"] = argument
            return places[argument.key]

        def add(call: AggregateCall, name: str) -> int:
            """The column of the aggregate that holds a call's result."""
            functions.append(call.make(*[place(argument, name) for argument in call.arguments]))
            return len(self._columns) + len(functions) - 1

        results: list[int | FunctionOfSums] = list(range(len(self._columns)))
        for name, call in calls.items():
            if name in self._columns:
                raise SchemaError(f"'{name}' is a grouping column already")
            if isinstance(call, AggregateCall):
                results.append(add(call, name))
            else:
                sums = tuple(add(term, name) for term in call.terms)
                results.append(FunctionOfSums(call.function, sums, call.type))
        values = mapped(self._stream, columns) if columns else self._stream.project()
        key, names = len(self._columns), (*self._columns, *calls)
        if all(isinstance(result, int) for result in results):
            return apply(Aggregate(key, tuple(functions), names), values)
        numbered = tuple(f"sum{i}" for i in range(len(functions)))
        sums_names = (*(f"key{i}" for i in range(key)), *numbered)
        return FinishAggregates(tuple(results), names)(
            apply(Aggregate(key, tuple(functions), sums_names), values)
        )
