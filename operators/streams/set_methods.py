"""Stream methods on streams as Z-sets and sets: sums and differences, which rows are in, by what
rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from dbsp.circuit import graph
from dbsp.errors import SchemaError, shorten
from dbsp.operators.groups.at_least import AtLeast
from dbsp.operators.groups.choice import ChoiceDomain
from dbsp.operators.groups.distinct import Distinct
from dbsp.operators.groups.equivalence import EquivalenceClasses
from dbsp.operators.groups.number_rows import NumberRows
from dbsp.operators.linear.union import Minus, Negate, Union
from dbsp.operators.streams.fit import alike, located

S = TypeVar("S", bound="SetMethods")


class SetMethods(graph.Stream):
    """The methods of a stream that add and subtract weights, or go by the weight of each row."""

    __slots__ = ()

    @located("Union")
    def union(self: S, *others: S) -> S:
        """The sum of the streams; follow it by `distinct()` for a union of sets."""
        return Union()(*alike(self, *others)) if others else self

    def __add__(self: S, other: S) -> S:
        return self.union(other)

    @located("Minus")
    def __sub__(self: S, other: S) -> S:
        return Minus()(*alike(self, other))

    def __neg__(self: S) -> S:
        return Negate()(self)

    def distinct(self: S) -> S:
        """The rows of positive weight, each with weight 1."""
        return Distinct()(self)

    @located("AtLeast")
    def at_least(self: S, number: int) -> S:
        """The rows of weight `number` or more, each with weight 1.

            at_least(s)(x) = 1 if s(x) >= number else 0

        Of `s.project()`, which has one row without columns, it states whether `s` has that many
        rows. O(|delta| log n), and a trace of the rows. Raises SchemaError if `number` is less than
        1.

        >>> from dbsp import Circuit
        >>> circuit = Circuit("often")
        >>> seen = circuit.input("seen", x=int)
        >>> circuit.output("often", seen.at_least(2))
        >>> circuit.start().step({"seen": {(1,): 1, (2,): 3}})["often"].to_dict()
        {(2,): 1}
        """
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise SchemaError(f"at_least takes a weight of 1, 2, ..., got {shorten(number)}")
        return AtLeast(number)(self)

    @located("ChoiceDomain")
    def choice_domain(self: S, *domains: str | Sequence[str]) -> S:
        """The rows taken one after the other, without those that agree in a domain with one before.

        A domain is a column or several. Rows of positive weight are taken in the order of their
        values, column by column, so the result does not depend on the order of arrival; every row
        of it has weight 1. A change recomputes the rows that agree with it in the columns common to
        all domains, O(m log m) for m such rows. Raises SchemaError without a domain, or for an
        empty one.

        >>> from dbsp import Circuit
        >>> circuit = Circuit("advisers")
        >>> can = circuit.input("can", student=str, teacher=str)
        >>> circuit.output("adviser", can.choice_domain("student"))
        >>> circuit.start().step({"can": [("Ada", "Kay"), ("Ada", "Liv"), ("Ben", "Kay")]})["adviser"].rows()
        [('Ada', 'Kay'), ('Ben', 'Kay')]
        """
        named = [(domain,) if isinstance(domain, str) else tuple(domain) for domain in domains]
        if not named or not all(named):
            raise SchemaError("choice_domain takes one or more domains, each with at least one column")
        return ChoiceDomain(tuple(map(self.schema.indices, named)))(self)

    @located("EquivalenceClasses")
    def equivalence_classes(self: S) -> S:
        """Each value of two columns of one type, with the least value of its class.

            classes(s) = { (v, least member of the class of v) }   for every v in a pair of s

        Values are in one class if pairs of positive weight connect them. A change recomputes the
        classes it touches: O(m log m) for m connected pairs, and traces by either column.
        "Least" is by stored code: for strings it is some fixed member. Raises SchemaError unless
        there are two columns of one type.

        >>> from dbsp import Circuit
        >>> circuit = Circuit("same")
        >>> same = circuit.input("same", x=int, y=int)
        >>> circuit.output("class_of", same.equivalence_classes())
        >>> circuit.start().step({"same": [(3, 2), (2, 7)]})["class_of"].rows()
        [(2, 2), (3, 2), (7, 2)]
        """
        return EquivalenceClasses()(self)

    @located("NumberRows")
    def number_rows(
        self: S, *, by: str | Sequence[str] = (), name: str = "id", first: int = 0, step: int = 1
    ) -> S:
        """Each row of positive weight with a number that it keeps while it is present.

            number(D(s)) = [+(x, n)] for every row x inserted, n a new number;  [-(x, n)] for one deleted

        The numbers are first, first + step, ... in the order of insertion; rows of one tick in the
        order of the columns `by`, then of the whole row. No number is used twice, so the result
        depends on the ticks and not only on the set: for positions in an order, which change with
        it, see `row_number`. Not for fixpoints: CircuitError. O(|delta| log |delta|), and a
        table entry per row. Raises SchemaError if `step` is less than 1 or `first` is negative.

        >>> from dbsp import Circuit
        >>> circuit = Circuit("people")
        >>> person = circuit.input("person", name=str)
        >>> circuit.output("numbered", person.number_rows(first=1))
        >>> run = circuit.start()
        >>> run.step({"person": [("Ben",), ("Ada",)]})["numbered"].rows()
        [('Ada', 1), ('Ben', 2)]
        >>> run.step({"person": {("Ada",): -1, ("Cid",): 1}})["numbered"].to_dict()
        {('Ada', 1): -1, ('Cid', 3): 1}
        """
        order = self.schema.indices((by,) if isinstance(by, str) else by)
        return NumberRows(order, name, first, step)(self.distinct())
