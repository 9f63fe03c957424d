"""Stream methods that treat each row by itself: filters, maps, columns, series. All are linear."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from dbsp.circuit import graph
from dbsp.data.schema import Schema, as_schema
from dbsp.errors import SchemaError, shorten
from dbsp.expressions import Column, Expression, as_expression, col
from dbsp.operators.linear.filter import Filter, FilterFunction
from dbsp.operators.linear.generate_series import GenerateSeries
from dbsp.operators.linear.map import FlatMap, Map, MapFunction
from dbsp.operators.linear.preceded import Preceded
from dbsp.operators.linear.project import Project, Rename
from dbsp.operators.streams.fit import located, widened

S = TypeVar("S", bound="RowMethods")


class RowMethods(graph.Stream):
    """The methods of a stream that make rows out of single rows."""

    __slots__ = ()

    @located("Filter")
    def filter(self: S, predicate: Expression | Callable[[Any], Any]) -> S:
        """The rows for which the condition holds; a function is called with a named tuple."""
        if isinstance(predicate, Expression):
            return Filter(predicate)(self)
        if not callable(predicate):
            raise SchemaError(f"filter takes a condition on columns or a function, not {shorten(predicate)}")
        return FilterFunction(predicate)(self)

    @located("Map")
    def map(
        self: S,
        function: Callable[[Any], Any] | None = None,
        schema: Schema | Mapping[str, Any] | None = None,
        /,
        **columns: Any,
    ) -> S:
        """Each row becomes another: `map(total=col("a") + col("b"))` or `map(function, schema)`."""
        if function is not None:
            if schema is None or columns:
                raise SchemaError(
                    "map takes either a function and the schema of its rows, or named expressions"
                )
            return MapFunction(function, as_schema(schema))(self)
        if not columns:
            raise SchemaError("map needs at least one output column")
        return mapped(self, columns)

    @located("FlatMap")
    def flat_map(self: S, function: Callable[[Any], Iterable[Any]], schema: Schema | Mapping[str, Any]) -> S:
        """Each row becomes any number of rows of `schema`: those that the function returns."""
        return FlatMap(function, as_schema(schema))(self)

    @located("Project")
    def project(self: S, *columns: str) -> S:
        """Only these columns, in this order; weights of rows that become equal add up."""
        indices = self.schema.indices(columns)
        return Project(indices, tuple(columns), _keeps_all(indices, self.schema))(self)

    @located("Rename")
    def rename(self: S, **new_to_old: str) -> S:
        """The same rows with columns renamed: `rename(a="x")` calls column x now a."""
        return Rename(self.schema.rename(**new_to_old).names)(self)

    @located("GenerateSeries")
    def generate_series(self: S, start: Any, end: Any, step: Any = None, *, name: str = "n") -> S:
        """Each row once for every number of the series from `start` to before `end`.

            generate(s)(x, n) = s(x)  for every n in series(start(x), end(x), step(x)),  else 0

        The number is a new column `name`. `start`, `end` and `step` are columns or expressions, all
        int or all float; without `step` the series counts up by 1, or down if `end` is less than
        `start`. The cost of a tick is the numbers of the changed rows. Raises SchemaError for other
        types; a tick with a series of too many numbers raises EvaluationError.

        >>> from dbsp import Circuit
        >>> circuit = Circuit("nights")
        >>> booking = circuit.input("booking", guest=str, first=int, last=int)
        >>> circuit.output("night", booking.generate_series("first", "last", name="day"))
        >>> circuit.start().step({"booking": [("Ada", 3, 5)]})["night"].rows()
        [('Ada', 3, 5, 3), ('Ada', 3, 5, 4)]
        """
        given = (start, end) if step is None else (start, end, step)
        ends = tuple(col(value) if isinstance(value, str) else as_expression(value) for value in given)
        return GenerateSeries(ends, name)(self)

    @located("Widen")
    def widen(self: S, *columns: str) -> S:
        """The same rows, with None allowed in the given columns.

        Streams that meet in a union or in a variable of a fixpoint are widened by it where needed.
        O(|delta|) for int columns, else nothing. A tick with the int -2**63, whose code is that of
        None in an optional column, raises ValueOutOfRangeError.

        >>> from dbsp import Circuit
        >>> a = Circuit().input("a", x=int, y=int)
        >>> a.widen("y").schema.describe()
        'x: int, y: int?'
        """
        indices = self.schema.indices(columns)
        types = self.schema.types
        return widened(self, tuple(t.optional() if c in indices else t for c, t in enumerate(types)))

    @located("Preceded")
    def preceded(self: S) -> S:
        """Of pairs of rows side by side, those whose second row comes before the first.

            preceded(s)(a, b) = s(a, b) if b < a else 0

        The columns are those of the first row, then those of the second, of the same types. Rows
        compare column by column from the left, strings as strings. O(|delta|), and sorting strings.
        Raises SchemaError if the halves differ in type.

        >>> from dbsp import Circuit
        >>> circuit = Circuit("order")
        >>> pair = circuit.input("pair", a=str, b=str)
        >>> circuit.output("turned", pair.preceded())
        >>> circuit.start().step({"pair": [("x", "y"), ("y", "x")]})["turned"].rows()
        [('y', 'x')]
        """
        return Preceded()(self)


def mapped(stream: S, columns: Mapping[str, Any]) -> S:
    """The given columns of a stream; plain column references need no evaluation."""
    names = tuple(columns)
    schema = stream.schema
    plain = [e.name for e in columns.values() if isinstance(e, Column)]
    if len(plain) == len(columns):
        indices = schema.indices(plain)
        if indices == tuple(range(schema.arity)):
            return stream if names == schema.names else Rename(names)(stream)
        return Project(indices, names, _keeps_all(indices, schema))(stream)
    injective = set(plain) == set(schema.names)
    return Map(tuple(map(as_expression, columns.values())), names, injective)(stream)


def _keeps_all(indices: Sequence[int], schema: Schema) -> bool:
    return set(indices) == set(range(schema.arity))
