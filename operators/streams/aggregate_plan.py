"""The plan of an `agg`: the values that its aggregates read, their functions, and the results.

    values      the grouping columns, and one column for each different argument
    functions   the aggregates of these columns
    results     the columns of the aggregate operator, by name
    computed    the columns of the result: expressions over the results

An expression over aggregates reads the results of hidden columns, which `computed` drops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dbsp.data.schema import Schema
from dbsp.errors import ArgumentError, SchemaError, shorten
from dbsp.expressions import AggregateCall, Expression, bind, col
from dbsp.expressions.readable_text import readable
from dbsp.expressions.substitution import aggregates, columns_outside, replace_aggregates
from dbsp.operators.groups.aggregate_functions import GroupFunction
from dbsp.operators.groups.order_statistics import FunctionOfSums
from dbsp.operators.streams.aggregate_calls import (
    LinearAggregateCall,
    aggregated_values,
    group_function,
)


class AggregatePlan:
    """The aggregates `calls` of groups by the expressions `keys`, over rows of `schema`."""

    def __init__(self, keys: Mapping[str, Expression], calls: Mapping[str, Any], schema: Schema) -> None:
        self.keys = keys
        self.schema = schema
        self.values: dict[str, Expression] = dict(keys)
        self.functions: list[GroupFunction] = []
        self.results: dict[str, int | FunctionOfSums] = {name: at for at, name in enumerate(keys)}
        self.computed: dict[str, Expression] = {name: col(name) for name in keys}
        self._places: dict[Any, int] = {}
        self._hidden: dict[Any, Expression] = {}
        for name, call in calls.items():
            self._check(name, call)
            if isinstance(call, LinearAggregateCall):
                terms = tuple(self._add(term, name) for term in call.terms)
                self.results[name] = FunctionOfSums(call.function, terms, call.type)
                self.computed[name] = col(name)
            elif isinstance(call, AggregateCall):
                self.results[name] = self._add(call, name)
                self.computed[name] = col(name)
            else:
                for part in aggregates(call):
                    self._hide(part, name, calls)
                self.computed[name] = replace_aggregates(call, self._hidden)

    @property
    def has_expressions(self) -> bool:
        """Whether `computed` differs from the results."""
        return bool(self._hidden)

    def _add(self, call: AggregateCall, name: str) -> int:
        """Add an aggregate; return the column of its result in the aggregate operator."""
        if any(map(aggregates, call.arguments)):
            raise SchemaError(
                f"{call!r} is an aggregate of an aggregate; compute the inner one by an agg() of its own",
                code="invalid-aggregate",
            )
        values = aggregated_values(call, self.schema)
        self._check_types(call, values, name)
        self.functions.append(group_function(call, [self._place(value, name) for value in values]))
        return len(self.keys) + len(self.functions) - 1

    def _check_types(self, call: AggregateCall, values: Sequence[Expression], name: str) -> None:
        """Raise SchemaError for values of a wrong type, which names the aggregate `name`.

        The operator would name the first aggregate that reads the same values.
        """
        names = tuple(f"{name}.{at}" if at else name for at in range(len(values)))
        types = tuple(bind(value, self.schema).type for value in values)
        group_function(call, range(len(values))).result(Schema(names, types))

    def _place(self, argument: Expression, name: str) -> int:
        """Return the column that holds the values of an argument; equal arguments share it."""
        if argument.key not in self._places:
            at = len(self.values)
            self._places[argument.key] = at
            self.values[name if name not in self.values else f"{name}.{at}"] = argument
        return self._places[argument.key]

    def _hide(self, part: AggregateCall, name: str, calls: Mapping[str, Any]) -> None:
        """Add an aggregate within an expression as a hidden column, which errors name."""
        if part.key in self._hidden:
            return
        text = readable(part)
        unique = text if text not in {*self.results, *calls} else f"{text}.{len(self.results)}"
        self.results[unique] = self._add(part, name)
        self._hidden[part.key] = col(unique)

    def _check(self, name: str, call: Any) -> None:
        if name in self.keys:
            raise SchemaError(
                f"'{name}' is already a grouping column; give the aggregate another name",
                code="duplicate-column",
            )
        if isinstance(call, LinearAggregateCall):
            return
        if not isinstance(call, Expression):
            hint = "; add the parentheses of the call" if callable(call) else ""
            raise ArgumentError(
                f"agg expects an aggregate such as {name}=count(), got {name}={shorten(call)}{hint}"
            )
        of_rows = [column for column in columns_outside(call) if column not in self.keys]
        if of_rows:
            column = f'col("{of_rows[0]}")'
            raise SchemaError(
                f"{name}={call!r} has a value for each row and not for each group; write an aggregate of "
                f"the column, such as {column}.max(), or group by it",
                code="invalid-aggregate",
            )
        if not aggregates(call):
            raise SchemaError(
                f'{name}={call!r} has no aggregate, such as count() or col("x").sum(); add the column '
                "with with_columns() after agg()",
                code="invalid-aggregate",
            )
