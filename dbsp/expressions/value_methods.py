"""Methods of expressions over numbers, structs and lists, and conversions."""

from __future__ import annotations

from typing import Any, Self

from dbsp.caller_tracebacks import methods_end_at_caller
from dbsp.expressions.casts import cast_call


@methods_end_at_caller
class ValueMethods:
    """The methods of `Expression` for numbers, structs and lists, and its conversions."""

    def _call(self, function: str, *arguments: Any) -> Self:
        raise TypeError(f"{type(self).__name__} is not a form of expression")

    # --- conversions ------------------------------------------------------------------------------

    def cast(self, type: Any) -> Self:
        """Convert the value to another type; None stays None.

        To int: floats are cut toward zero, booleans are 0 or 1, and strings hold a decimal integer,
        or one in the form 0x... or 0b... To float: ints, booleans, decimals and strings. Blanks
        around the number of a string are an error. To str: the text that Python's `str` writes. To
        a decimal: floats are rounded half to even, other values must have an exact result. To date,
        time or timestamp: a part of a timestamp, in the zone of its column; a date becomes the
        timestamp of its midnight; a string is read in the form of ISO 8601.

        Parameters:
            type: int, float, str, "date", "time", "timestamp", or a decimal such as
                "decimal(18, 2)", in the forms of a column type.

        Raises:
            SchemaError: no value of the type of the expression has this type.
            EvaluationError: a string is not a number or a time, or a float without an integer part,
                such as NaN, is converted to an int or a decimal.
            ValueOutOfRangeError: the result is outside of the range of its type.

        Examples:
            >>> circuit = Circuit("example")
            >>> source = circuit.input("a", s=str, x=float)
            >>> circuit.output("out", source.map(n=col("s").cast(int), x=col("x").cast(str)))
            >>> circuit.start().step({"a": [("7", 2.5), ("0x1F", 7.0)]})["out"].rows()
            [(7, '2.5'), (31, '7.0')]
        """
        return self._call(*cast_call(type))

    def microseconds(self) -> Self:
        """Return the duration of a number of microseconds.

        Examples:
            >>> circuit = Circuit("example")
            >>> source = circuit.input("a", n=int)
            >>> circuit.output("out", source.map(v=(col("n") * 1_000_000).microseconds()))
            >>> circuit.start().step({"a": [(90,)]})["out"].rows()
            [(datetime.timedelta(seconds=90),)]
        """
        return self._call("microseconds")

    # --- numbers ----------------------------------------------------------------------------------

    def divide(self, other: Any, digits: int) -> Self:
        """Return the quotient of two decimals or ints as a decimal, rounded half to even.

        Parameters:
            other: the divisor.
            digits: the number of digits after the point of the result.

        Raises:
            EvaluationError: the divisor of a row is 0.
            ValueOutOfRangeError: the quotient has too many digits before the point.

        Examples:
            >>> from decimal import Decimal
            >>> circuit = Circuit("example")
            >>> source = circuit.input("a", p="decimal(18, 2)")
            >>> circuit.output("out", source.map(v=col("p").divide(3, 2)))
            >>> circuit.start().step({"a": [(Decimal("10.00"),)]})["out"].rows()
            [(Decimal('3.33'),)]
        """
        return self._call("divide", other, digits)

    def round(self, digits: int = 0) -> Self:
        """Return a number with this number of digits after the point, rounded half to even.

        The result of a float is the float that is nearest to the rounded decimal number, as in
        Python; infinities and NaN are unchanged, and so are ints. The result of a decimal is a
        decimal with `digits` digits after the point.

        Parameters:
            digits: the number of digits, from 0 to 18.

        Raises:
            SchemaError: the value is not a number, or `digits` is not between 0 and 18.

        Examples:
            >>> from decimal import Decimal
            >>> circuit = Circuit("example")
            >>> source = circuit.input("a", p="decimal(18, 3)", x=float)
            >>> circuit.output("out", source.map(p=col("p").round(2), x=col("x").round(1)))
            >>> rows = [(Decimal("1.235"), 2.26), (Decimal("1.225"), -1.5)]
            >>> circuit.start().step({"a": rows})["out"].rows()
            [(Decimal('1.22'), -1.5), (Decimal('1.24'), 2.3)]
        """
        return self._call("round", digits)

    def floor(self) -> Self:
        """Return the greatest whole number that is not greater than the number.

        A float stays a float, so infinities and NaN are unchanged; a decimal becomes one without
        digits after the point. Convert the result with `cast(int)` for an int.

        Examples:
            >>> circuit = Circuit("example")
            >>> circuit.output("out", circuit.input("a", x=float).map(v=col("x").floor()))
            >>> circuit.start().step({"a": [(2.5,), (-2.5,)]})["out"].rows()
            [(-3.0,), (2.0,)]
        """
        return self._call("floor")

    def ceil(self) -> Self:
        """Return the least whole number that is not less than the number.

        Types are as for `floor`.

        Examples:
            >>> circuit = Circuit("example")
            >>> circuit.output("out", circuit.input("a", x=float).map(v=col("x").ceil()))
            >>> circuit.start().step({"a": [(2.5,), (-2.5,)]})["out"].rows()
            [(-2.0,), (3.0,)]
        """
        return self._call("ceil")

    # --- hashes -----------------------------------------------------------------------------------

    def hash(self) -> Self:
        """Return a hash of the value: an int of 64 bits, the same in every process and version.

        Equal values of one type have equal hashes; an int and the equal float do not. The hash of
        None is None. The definition is that of the hashes that place rows on shards.

        Examples:
            >>> circuit = Circuit("example")
            >>> circuit.output("out", circuit.input("a", s=str).map(s=col("s"), part=col("s").hash() % 4))
            >>> circuit.start().step({"a": [("tea",), ("pen",)]})["out"].rows()
            [('pen', 2), ('tea', 3)]
        """
        return self._call("hash")

    # --- structs and lists ------------------------------------------------------------------------

    def field(self, name: str) -> Self:
        """Return a field of a struct.

        Parameters:
            name: the name of the field.

        Raises:
            SchemaError: the struct has no such field.

        Examples:
            >>> circuit = Circuit("example")
            >>> source = circuit.input("a", place={"city": str, "zip": int})
            >>> circuit.output("out", source.map(v=col("place").field("city")))
            >>> circuit.start().step({"a": [({"city": "Rome", "zip": 42},)]})["out"].rows()
            [('Rome',)]
        """
        return self._call("field", name)

    def element(self, position: Any) -> Self:
        """Return the element of a list at a position; None outside of the list.

        Parameters:
            position: the position, from 0; from the end if it is negative.

        Examples:
            >>> circuit = Circuit("example")
            >>> source = circuit.input("a", l=list[int])
            >>> circuit.output("out", source.map(v=col("l").element(-1)))
            >>> circuit.start().step({"a": [([1, 2],), ([],)]})["out"].rows()
            [(None,), (2,)]
        """
        return self._call("element", position)
