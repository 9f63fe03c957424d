"""Stream methods that add and subtract weights, or select rows by their weight."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from dbsp.caller_tracebacks import methods_end_at_caller
from dbsp.circuit import graph
from dbsp.data.schema import Schema
from dbsp.data.types import INT
from dbsp.errors import SchemaError, shorten
from dbsp.operators.groups.at_least import AtLeast
from dbsp.operators.groups.choice import ChoiceDomain
from dbsp.operators.groups.distinct import Distinct
from dbsp.operators.groups.equivalence import EquivalenceClasses
from dbsp.operators.groups.number_rows import NumberRows
from dbsp.operators.linear.union import Minus, Negate, Union
from dbsp.operators.streams.fit import alike, expect_int, expect_stream, listed, located

S = TypeVar("S", bound="SetMethods")


@methods_end_at_caller
class SetMethods(graph.Stream):
    """The methods of a stream that combine Z-sets, or treat each row by its weight."""

    __slots__ = ()

    @located("Union")
    def union(self: S, *others: S) -> S:
        """Add the weights of this stream and of others; also written `a + b`.

            (a + b)(x) = a(x) + b(x)

        Linear: one merge of the deltas per tick, no state. For a union of sets use `distinct()` on
        the result. A column of the result is optional if it is optional in one of the streams.

        Parameters:
            others: streams with columns of the same types.

        Returns:
            A stream with the column names of this one.

        Raises:
            SchemaError: the streams have columns of different types.
            ArgumentError: an argument is not a stream.
            CircuitError: the streams belong to different circuits.

        Examples:
            >>> circuit = Circuit("sum")
            >>> a, b = circuit.input("a", x=int), circuit.input("b", x=int)
            >>> circuit.output("sum", a.union(b))
            >>> circuit.start().step({"a": [(1,), (2,)], "b": [(2,)]})["sum"].to_dict()
            {(1,): 1, (2,): 2}
        """
        for other in others:
            expect_stream(other, "union")
        return Union()(*alike(self, *others)) if others else self

    def __add__(self: S, other: S) -> S:
        return self.union(other)

    @located("Minus")
    def __sub__(self: S, other: S) -> S:
        expect_stream(other, "a difference")
        return Minus()(*alike(self, other))

    def __neg__(self: S) -> S:
        return Negate()(self)

    def distinct(self: S) -> S:
        """Keep the rows of positive weight, each with weight 1.

            distinct(s)(x) = 1 if s(x) > 0 else 0

        O(|delta| log n) per tick; the state is a trace of the n rows, shared with other operators.

        Returns:
            A stream with the same columns whose integral is a set.

        Examples:
            >>> circuit = Circuit("set")
            >>> circuit.output("set", circuit.input("bag", x=int).distinct())
            >>> run = circuit.start()
            >>> run.step({"bag": {(1,): 3, (2,): -1}})["set"].to_dict()
            {(1,): 1}
        """
        return Distinct()(self)

    @located("AtLeast")
    def at_least(self: S, number: int) -> S:
        """Keep the rows of weight `number` or more, each with weight 1.

            at_least(s)(x) = 1 if s(x) >= number else 0

        O(|delta| log n) per tick; the state is a trace of the rows. `s.select()` has one row
        without columns, whose weight is the number of rows of `s`: so
        `s.select().at_least(n)` is not empty when `s` has n rows or more.

        Parameters:
            number: the least weight, 1 or more.

        Returns:
            A stream with the same columns whose integral is a set.

        Raises:
            SchemaError: `number` is not an int of 1 or more.

        Examples:
            >>> circuit = Circuit("often")
            >>> circuit.output("often", circuit.input("seen", x=int).at_least(2))
            >>> circuit.start().step({"seen": {(1,): 1, (2,): 3}})["often"].to_dict()
            {(2,): 1}
        """
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise SchemaError(
                f"at_least expects a weight of 1 or more, got {shorten(number)}", code="invalid-argument"
            )
        return AtLeast(number)(self)

    @located("ChoiceDomain")
    def choice_domain(self: S, *domains: str | Sequence[str]) -> S:
        """Keep at most one row for each value of every domain; a domain is one or more columns.

        The rows of positive weight are visited in the order of their values, column by column. A
        row is kept, with weight 1, unless it agrees in a domain with a row kept before. So the
        result does not depend on the order of arrival. A tick recomputes the rows that agree with a
        changed row in the columns common to all domains, O(m log m) for m such rows.

        Parameters:
            domains: the domains, each a column name or a list of column names.

        Returns:
            A stream with the same columns whose integral is a set.

        Raises:
            SchemaError: a column does not exist, there is no domain, or a domain has no column.

        Examples:
            >>> circuit = Circuit("advisers")
            >>> can = circuit.input("can", student=str, teacher=str)
            >>> circuit.output("adviser", can.choice_domain("student"))
            >>> run = circuit.start()
            >>> run.step({"can": [("Ada", "Kay"), ("Ada", "Liv"), ("Ben", "Kay")]})["adviser"].rows()
            [('Ada', 'Kay'), ('Ben', 'Kay')]
        """
        named = [listed(domain, "choice_domain") for domain in domains]
        if not named or not all(named):
            raise SchemaError(
                'choice_domain needs one or more domains, each with at least one column, such as ("a", "b")',
                code="invalid-argument",
            )
        return ChoiceDomain(tuple(map(self.schema.indices, named)))(self)

    @located("EquivalenceClasses")
    def equivalence_classes(self: S) -> S:
        """Map each value of two columns to the least value of its equivalence class.

            classes(s) = { (v, least member of the class of v) }   for every v in a pair of s

        Two values are in one class if pairs of positive weight connect them. "Least" is by stored
        code, so for strings it is an arbitrary but fixed member. A tick recomputes the classes that
        contain a changed value: O(m log m) for m connected pairs. The state is two traces of the
        pairs, one by each column.

        Returns:
            A stream with the same two columns: a value, and the least value of its class.

        Raises:
            SchemaError: the stream does not have two columns of one type.

        Examples:
            >>> circuit = Circuit("same")
            >>> circuit.output("class_of", circuit.input("same", x=int, y=int).equivalence_classes())
            >>> circuit.start().step({"same": [(3, 2), (2, 7)]})["class_of"].rows()
            [(2, 2), (3, 2), (7, 2)]
        """
        return EquivalenceClasses()(self)

    @located("NumberRows")
    def number_rows(
        self: S, *, by: str | Sequence[str] = (), name: str = "id", first: int = 0, step: int = 1
    ) -> S:
        """Give each row of positive weight a unique number, which it keeps while it is present.

            number(D(s)) = [+(x, n)] for each inserted row x, with a new n
                           [-(x, n)] for each deleted row x, with its n

        The numbers are first, first + step, ... in the order of insertion. Rows of one tick are
        numbered in the order of the columns `by`, then of the whole row. A number is never used
        twice, so the result depends on the ticks and not only on the set; `row_number` gives
        positions in an order. O(|delta| log n) per tick; the state is a trace of the result.

        Parameters:
            by: the columns that order the rows of one tick: a name or several.
            name: the name of the new column.
            first: the first number, 0 or more.
            step: the distance between two numbers, 1 or more.

        Returns:
            A stream with the columns of this one and the number.

        Raises:
            SchemaError: a column does not exist, `first` is negative or `step` is less than 1.
            CircuitError: when the circuit starts, if the stream is inside a fixpoint.

        Examples:
            >>> circuit = Circuit("people")
            >>> circuit.output("numbered", circuit.input("person", name=str).number_rows(first=1))
            >>> run = circuit.start()
            >>> run.step({"person": [("Ben",), ("Ada",)]})["numbered"].rows()
            [('Ada', 1), ('Ben', 2)]
            >>> run.step({"person": {("Ada",): -1, ("Cid",): 1}})["numbered"].to_dict()
            {('Ada', 1): -1, ('Cid', 3): 1}
        """
        order = self.schema.indices(listed(by, "by="))
        Schema((*self.schema.names, name), (*self.schema.types, INT))  # refuses a name that is taken
        expect_int(first, "first")
        expect_int(step, "step")
        return NumberRows(order, name, first, step)(self.distinct())
