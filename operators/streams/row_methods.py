"""Stream methods that process each row by itself, all linear: filters, maps, columns, series."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, NamedTuple, Never, TypeVar

from dbsp.caller_tracebacks import methods_end_at_caller
from dbsp.circuit import graph
from dbsp.data.schema import Schema, as_schema
from dbsp.errors import ArgumentError, SchemaError, shorten, wrong_argument
from dbsp.expressions import Column, Expression, as_expression, col
from dbsp.operators.linear.explode import Explode
from dbsp.operators.linear.filter import Filter, FilterFunction
from dbsp.operators.linear.generate_series import GenerateSeries
from dbsp.operators.linear.map import FlatMap, Map, MapFunction
from dbsp.operators.linear.preceded import Preceded
from dbsp.operators.linear.project import Project, Rename
from dbsp.operators.linear.try_map import TryMap, TryMapFunction
from dbsp.operators.streams.fit import expect_function, expect_names, located, widened
from dbsp.operators.streams.stream_columns import own_columns, own_values

S = TypeVar("S", bound="RowMethods")


class Tried(NamedTuple, Generic[S]):
    """The two streams of `try_map`."""

    good: S
    """The results."""
    failed: S
    """The rows without a result, each with the reason."""


@methods_end_at_caller
class RowMethods(graph.Stream):
    """The methods of a stream that compute rows from single rows."""

    __slots__ = ()

    @located("Filter")
    def filter(self: S, predicate: Expression | Callable[[Any], Any], *further: Never) -> S:
        """Keep the rows for which `predicate` is true; drop the rows where it is false or None.

            filter(s)(x) = s(x) if predicate(x) else 0

        Linear: O(|delta|) per tick, no state. An expression is evaluated for all rows of a delta at
        once; a Python function is called once per row.

        Parameters:
            predicate: a boolean expression over the columns, or a function of a row, which is
                passed as a named tuple.
            further: none; a second condition is an error.

        Returns:
            A stream with the same columns.

        Raises:
            SchemaError: a column does not exist, or the expression is not boolean.
            ArgumentError: there are several conditions.

        Examples:
            >>> circuit = Circuit("orders")
            >>> order = circuit.input("order", id=int, price=float)
            >>> circuit.output("large", order.filter(col("price") > 5.0))
            >>> circuit.start().step({"order": [(1, 3.0), (2, 7.5)]})["large"].rows()
            [(2, 7.5)]
        """
        if further:
            raise ArgumentError(
                f"filter expects one condition, got {1 + len(further)}; join them, as in (a > 1) & (b < 3)"
            )
        if isinstance(predicate, Expression):
            return Filter(own_columns(self, predicate))(self)
        if not callable(predicate):
            raise SchemaError(
                "filter expects a boolean expression such as col('x') > 0, or a function of a row; got "
                f"{shorten(predicate)}",
                code="invalid-expression",
            )
        return FilterFunction(predicate)(self)

    @located("Map")
    def map(
        self: S,
        function: Callable[[Any], Any] | None = None,
        schema: Schema | Mapping[str, Any] | None = None,
        /,
        **columns: Any,
    ) -> S:
        """Compute one row from each row, as `map(sum=col("a") + col("b"))` or `map(f, schema)`.

            map(s)(y) = sum of s(x) over the rows x with f(x) = y

        Linear: O(|delta| log |delta|) per tick, no state. Weights of rows that become equal add up.
        A function must be deterministic, because a retracted row is mapped again.

        Parameters:
            function: a function that takes a row as a named tuple and returns a row of `schema`.
            schema: the columns of the rows that `function` returns.
            columns: an expression for each column of the result; instead of `function`.

        Returns:
            A stream with the columns of `schema`, or with the named columns.

        Raises:
            SchemaError: a column does not exist, or the arguments mix the two forms.

        Examples:
            >>> circuit = Circuit("orders")
            >>> order = circuit.input("order", id=int, price=float, pieces=int)
            >>> total = order.map(id=col("id"), total=col("price") * col("pieces").cast(float))
            >>> circuit.output("total", total)
            >>> circuit.start().step({"order": [(1, 2.5, 4)]})["total"].rows()
            [(1, 10.0)]
        """
        if function is not None:
            if schema is None or columns:
                raise SchemaError(
                    "map expects either a function and the schema of its rows, or named expressions",
                    code="invalid-argument",
                )
            expect_function(function, "function")
            return MapFunction(function, as_schema(schema))(self)
        if not columns:
            raise SchemaError(
                "map needs at least one column, such as map(total=col('a') + col('b'))",
                code="invalid-argument",
            )
        return mapped(self, columns)

    @located("Map")
    def with_columns(self: S, **columns: Any) -> S:
        """Add columns to each row; a column with the name of another replaces it in its place.

            with_columns(s)(y) = sum of s(x) over the rows x with (x, f(x)) = y

        All expressions are evaluated over the columns of this stream, so one of them does not see
        the result of another. Linear: the cost is that of `map`.

        Parameters:
            columns: an expression for each new column.

        Returns:
            A stream with the columns of this one and the new ones.

        Raises:
            SchemaError: a column does not exist, types do not fit, or there is no new column.

        Examples:
            >>> circuit = Circuit("orders")
            >>> order = circuit.input("order", id=int, price=float, pieces=int)
            >>> circuit.output("total", order.with_columns(total=col("price") * col("pieces")))
            >>> circuit.start().step({"order": [(1, 2.5, 4)]})["total"].rows()
            [(1, 2.5, 4, 10.0)]
        """
        if not columns:
            raise SchemaError(
                "with_columns needs at least one column, such as with_columns(total=col('a') + col('b'))",
                code="invalid-argument",
            )
        return mapped(self, {**{name: col(name) for name in self.schema.names}, **columns})

    @located("TryMap")
    def try_map(
        self: S,
        function: Callable[[Any], Any] | None = None,
        schema: Schema | Mapping[str, Any] | None = None,
        /,
        *,
        reason: str = "reason",
        **columns: Any,
    ) -> Tried[S]:
        """Compute one row from each row as `map` does, and set the rows without a result aside.

            good(s)(y)      = sum of s(x) over the rows x with f(x) = y
            failed(s)(x, r) = s(x)   if f(x) raises an error with the text r,   else 0

        A row for which an expression has no value, such as a division by zero, or for which the
        function raises an exception or returns no row of `schema`, is in `failed` with the reason,
        and the tick continues. Both streams are linear and have no state. Each of them evaluates
        the columns or calls the function, which must be deterministic: the reason of a retracted
        row is computed again. A tick costs that of two maps, and k failed rows of n evaluate the
        columns up to k log n times, each time for a part of the rows.

        Parameters:
            function: a function that takes a row as a named tuple and returns a row of `schema`.
            schema: the columns of the rows that `function` returns.
            reason: the name of the column with the reasons, the last one of `failed`.
            columns: an expression for each column of the result; instead of `function`.

        Returns:
            A named tuple of two streams: `good` with the results, and `failed` with the columns of
            this stream and the reason.

        Raises:
            SchemaError: a column does not exist, the arguments mix the two forms, or `reason` is
                the name of a column of this stream.
            ArgumentError: `reason` is not a string.

        Examples:
            >>> circuit = Circuit("readings")
            >>> line = circuit.input("line", text=str)
            >>> good, failed = line.try_map(value=col("text").cast(int))
            >>> circuit.output("value", good)
            >>> circuit.output("failed", failed)
            >>> deltas = circuit.start().step({"line": [("7",), ("seven",)]})
            >>> deltas["value"].rows()
            [(7,)]
            >>> for text, reason in deltas["failed"].rows():
            ...     print(reason)
            the string is not an integer: col("text").cast(int) with text = 'seven'
        """
        if not isinstance(reason, str):
            raise wrong_argument("reason", "a column name", reason)
        good: TryMap | TryMapFunction
        if function is not None:
            if schema is None or columns:
                raise SchemaError(
                    "try_map expects either a function and the schema of its rows, or named expressions",
                    code="invalid-argument",
                )
            expect_function(function, "function")
            good = TryMapFunction(function, as_schema(schema))
        elif not columns:
            raise SchemaError(
                "try_map needs at least one column, such as try_map(n=col('text').cast(int))",
                code="invalid-argument",
            )
        else:
            values = own_values(self, columns)
            good = TryMap(tuple(map(as_expression, values.values())), tuple(columns))
        return Tried(good(self), replace(good, reason=reason)(self))

    @located("FlatMap")
    def flat_map(self: S, function: Callable[[Any], Iterable[Any]], schema: Schema | Mapping[str, Any]) -> S:
        """Compute any number of rows from each row, by a Python function.

            flat_map(s)(y) = sum over the rows x of s(x) * (how often function(x) yields y)

        Linear: O(rows returned, sorted) per tick, no state. The function must be deterministic,
        because it is called again for a retracted row.

        Parameters:
            function: a function that takes a row as a named tuple and returns an iterable of rows
                of `schema`.
            schema: the columns of the rows that `function` returns.

        Returns:
            A stream with the columns of `schema`.

        Raises:
            SchemaError: `schema` is not valid.

        Examples:
            >>> circuit = Circuit("words")
            >>> line = circuit.input("line", text=str)
            >>> words = line.flat_map(lambda row: [(w,) for w in row.text.split()], {"word": str})
            >>> circuit.output("word", words)
            >>> circuit.start().step({"line": [("to be or not to be",)]})["word"].to_dict()
            {('be',): 2, ('not',): 1, ('or',): 1, ('to',): 2}
        """
        expect_function(function, "function")
        return FlatMap(function, as_schema(schema))(self)

    @located("Select")
    def select(self: S, *columns: str, **expressions: Any) -> S:
        """Keep the named columns and compute others, in this order.

            select(s)(y) = sum of s(x) over the rows x with (x[columns], f(x)) = y

        Linear: O(|delta| log |delta|) per tick, no state. Weights of rows that become equal add up;
        use `distinct()` on the result for a set.

        Parameters:
            columns: the names of the columns to keep, each as one argument.
            expressions: further columns, each with the expression of its values.

        Returns:
            A stream with these columns.

        Raises:
            SchemaError: a column does not exist, or is named twice.
            ArgumentError: an argument is not a column name.

        Examples:
            >>> circuit = Circuit("people")
            >>> person = circuit.input("person", name=str, city=str, age=int)
            >>> circuit.output("city", person.select("city", adult=col("age") >= 18))
            >>> rows = [("Ada", "Bonn", 36), ("Ben", "Bonn", 40)]
            >>> circuit.start().step({"person": rows})["city"].to_dict()
            {('Bonn', True): 2}
        """
        expect_names(columns, "select", 'select("a", "b")')
        indices = self.schema.indices(columns)
        if not expressions:
            return Project(indices, tuple(columns), _keeps_all(indices, self.schema))(self)
        self.schema.select(indices)  # refuses a name that is given twice
        for name in expressions:
            if name in columns:
                raise SchemaError(
                    f"'{name}' is already a column of the result; give the expression another name",
                    code="duplicate-column",
                )
        return mapped(self, {**{name: col(name) for name in columns}, **expressions})

    @located("Project")
    def drop(self: S, *columns: str) -> S:
        """Keep all columns but the named ones.

        Weights of rows that become equal add up. Linear: the cost is that of `select`.

        Parameters:
            columns: the names of the columns to remove, each as one argument.

        Returns:
            A stream with the other columns.

        Raises:
            SchemaError: a column does not exist, or is named twice.
            ArgumentError: an argument is not a column name.

        Examples:
            >>> circuit = Circuit("people")
            >>> person = circuit.input("person", name=str, city=str)
            >>> circuit.output("city", person.drop("name"))
            >>> circuit.start().step({"person": [("Ada", "Bonn"), ("Ben", "Bonn")]})["city"].to_dict()
            {('Bonn',): 2}
        """
        expect_names(columns, "drop", 'drop("a", "b")')
        dropped = self.schema.indices(columns)
        self.schema.select(dropped)  # refuses a name that is given twice
        kept = [name for index, name in enumerate(self.schema.names) if index not in dropped]
        return self.select(*kept) if columns else self

    @located("Rename")
    def rename(self: S, *unnamed: Never, **new_to_old: str) -> S:
        """Rename columns; the rows stay as they are.

        No cost: names do not exist at run time.

        Parameters:
            unnamed: none; a dictionary of names is an error.
            new_to_old: the new name of each column to rename, with its old name.

        Returns:
            A stream with the same rows and the new column names.

        Raises:
            SchemaError: a column does not exist, or two columns would have one name.
            ArgumentError: an old name is not a string, or has no new name.

        Examples:
            >>> edge = Circuit("graph").input("edge", x=int, y=int)
            >>> edge.rename(source="x").schema.describe()
            'source: int, y: int'
        """
        if unnamed:
            raise ArgumentError(
                f'rename expects new names for old ones, such as rename(new="old"), got {shorten(unnamed[0])}'
            )
        expect_names(list(new_to_old.values()), "rename", 'rename(new="old")')
        return Rename(self.schema.rename(**new_to_old).names)(self)

    @located("GenerateSeries")
    def generate_series(self: S, start: Any, end: Any, step: Any = None, *, name: str = "n") -> S:
        """Repeat each row for every number of the series from `start` to before `end`.

            generate(s)(x, n) = s(x)  for every n in series(start(x), end(x), step(x)),  else 0

        Linear: a tick costs the generated numbers of the changed rows; no state. A tick with a
        series of too many numbers raises EvaluationError.

        Parameters:
            start: the first number: a column name, an expression or a number.
            end: the number before which the series stops, written like `start`.
            step: the distance between two numbers; by default 1, or -1 if `end` is less than
                `start`.
            name: the name of the new column.

        Returns:
            A stream with the columns of this one and the new column.

        Raises:
            SchemaError: `start`, `end` and `step` are not all int or all float.

        Examples:
            >>> circuit = Circuit("nights")
            >>> booking = circuit.input("booking", guest=str, first=int, last=int)
            >>> circuit.output("night", booking.generate_series("first", "last", name="day"))
            >>> circuit.start().step({"booking": [("Ada", 3, 5)]})["night"].rows()
            [('Ada', 3, 5, 3), ('Ada', 3, 5, 4)]
        """
        given = (start, end) if step is None else (start, end, step)
        values = (col(value) if isinstance(value, str) else as_expression(value) for value in given)
        ends = tuple(own_columns(self, value) for value in values)
        return GenerateSeries(ends, name)(self)

    @located("Explode")
    def explode(
        self: S, column: str, into: str | None = None, position: str | None = None, *, keep_empty: bool = True
    ) -> S:
        """Replace each row by one row for each element of a list.

            explode(s)(x, e) = sum over the lists l of s(x, l) * (how often e occurs in l)

        Linear: O(elements of the changed rows, sorted) per tick, no state. A row keeps its weight,
        so an element that occurs twice in a list has twice the weight. An empty list and None give
        one row whose element is None, as in Polars, or no row with `keep_empty=False`.

        Parameters:
            column: the name of the column with the lists.
            into: the name of the column of the elements, in the place of the lists; by default the
                name of the column.
            position: the name of a last column with the position of the element, from 0; by
                default there is no such column.
            keep_empty: False to drop the rows whose list is empty or None. Then the elements and
                positions are optional only if the elements of the lists are.

        Returns:
            A stream with the columns of this one, but elements instead of lists.

        Raises:
            SchemaError: the column does not exist or does not hold lists, or two columns would have
                one name.
            ArgumentError: a name is not a string.
            ValueOutOfRangeError: in a tick, if an element of an int column is -2**63, whose code is
                that of None.

        Examples:
            >>> circuit = Circuit("orders")
            >>> order = circuit.input("order", id=int, items=list[str])
            >>> circuit.output("item", order.explode("items", into="item", position="place"))
            >>> circuit.start().step({"order": [(1, ["tea", "pen"]), (2, [])]})["item"].rows()
            [(1, 'pen', 1), (1, 'tea', 0), (2, None, None)]
        """
        names = [name for name in (column, into, position) if name is not None]
        expect_names(names, "explode", 'explode("items", into="item")')
        return Explode(self.schema.index(column), into or column, position, keep_empty)(self)

    @located("Unnest")
    def unnest(self: S, *columns: str, separator: str | None = None) -> S:
        """Replace columns of structs by the fields of the structs, one column each.

            unnest(s)(x, f1, ..., fn) = s(x, {f1, ..., fn})

        The fields of None are None. Linear: the cost is that of `map`, no state. `explode` gives a
        row for each element of a list.

        Parameters:
            columns: the names of the columns with the structs, each as one argument.
            separator: a text between the name of the column and that of the field in the new names;
                by default a new column has the name of the field.

        Returns:
            A stream with the fields in the place of their struct.

        Raises:
            SchemaError: a column does not exist, is named twice or does not hold structs, or two
                columns would have one name.
            ArgumentError: an argument is not a column name.

        Examples:
            >>> circuit = Circuit("people")
            >>> person = circuit.input("person", name=str, home={"city": str, "zip": int})
            >>> circuit.output("flat", person.unnest("home"))
            >>> circuit.start().step({"person": [("Ada", {"city": "Bonn", "zip": 7})]})["flat"].rows()
            [('Ada', 'Bonn', 7)]
            >>> person.unnest("home", separator="_").schema.describe()
            'name: str, home_city: str, home_zip: int'
        """
        expect_names(columns, "unnest", 'unnest("home")')
        indices = self.schema.indices(columns)
        self.schema.select(indices)  # refuses a name that is given twice
        found: dict[str, Expression] = {}
        for index, (name, type_) in enumerate(zip(self.schema.names, self.schema.types, strict=True)):
            fields = {name: col(name)}
            if index in indices:
                if type_.kind != "struct":
                    hint = "; use explode for a list" if type_.kind == "list" else ""
                    raise SchemaError(
                        f"unnest expects a struct, got '{name}: {type_}'{hint}", code="wrong-type"
                    )
                start = "" if separator is None else f"{name}{separator}"
                fields = {
                    f"{start}{field}": col(name).field(field) for field in (part.name for part in type_.parts)
                }
            for new, expression in fields.items():
                if new in found:
                    raise SchemaError(
                        f"column '{new}' would occur twice; add a separator=, or rename a column before",
                        code="duplicate-column",
                    )
                found[new] = expression
        return mapped(self, found) if columns else self

    @located("Widen")
    def widen(self: S, *columns: str) -> S:
        """Allow None in the named columns; the rows stay as they are.

        A union and a variable of a fixpoint widen their inputs where needed. O(|delta|) for int
        columns, no cost for others, no state. A tick with the int -2**63 in a widened column, whose
        code is that of None, raises ValueOutOfRangeError.

        Parameters:
            columns: the names of the columns, each as one argument.

        Returns:
            A stream with the same rows; the types of these columns are optional.

        Raises:
            SchemaError: a column does not exist.
            ArgumentError: an argument is not a column name.

        Examples:
            >>> a = Circuit("wide").input("a", x=int, y=int)
            >>> a.widen("y").schema.describe()
            'x: int, y: int?'
        """
        expect_names(columns, "widen", 'widen("a", "b")')
        indices = self.schema.indices(columns)
        types = self.schema.types
        return widened(self, tuple(t.optional() if c in indices else t for c, t in enumerate(types)))

    @located("Preceded")
    def preceded(self: S) -> S:
        """Keep the pairs of rows whose second row comes before the first row.

            preceded(s)(a, b) = s(a, b) if b < a else 0

        A row of this stream is a pair: the first half of its columns is row a, the second half row
        b. Rows compare column by column from the left, strings alphabetically. Linear: O(|delta|)
        and the cost of sorting the strings; no state.

        Returns:
            A stream with the same columns.

        Raises:
            SchemaError: the two halves of the columns have different types.

        Examples:
            >>> circuit = Circuit("order")
            >>> pair = circuit.input("pair", a=str, b=str)
            >>> circuit.output("turned", pair.preceded())
            >>> circuit.start().step({"pair": [("x", "y"), ("y", "x")]})["turned"].rows()
            [('y', 'x')]
        """
        return Preceded()(self)


def mapped(stream: S, columns: Mapping[str, Any]) -> S:
    """Return the given columns of a stream; plain column references need no evaluation."""
    columns = own_values(stream, columns)
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
