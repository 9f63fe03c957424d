"""Methods of expressions over dates, times, durations, decimals, structs and lists."""

from __future__ import annotations

from typing import Any, Self

from dbsp.caller_tracebacks import methods_end_at_caller


@methods_end_at_caller
class ValueMethods:
    """The methods of `Expression` for times, decimals, structs and lists."""

    def _call(self, function: str, *arguments: Any) -> Self:
        raise TypeError(f"{type(self).__name__} is not a form of expression")

    # --- parts of times ---------------------------------------------------------------------------

    def year(self) -> Self:
        """Return the year of a date or a timestamp.

        In the zone of its column for a timestamp with a zone, as the other parts below.

        Examples:
            >>> import datetime as dt
            >>> circuit = Circuit("example")
            >>> source = circuit.input("a", t=dt.datetime)
            >>> circuit.output("out", source.map(v=col("t").year()))
            >>> circuit.start().step({"a": [(dt.datetime(2024, 5, 6),)]})["out"].rows()
            [(2024,)]
        """
        return self._call("year")

    def month(self) -> Self:
        """Return the month of a date or a timestamp, from 1 to 12.

        Examples:
            >>> import datetime as dt
            >>> circuit = Circuit("example")
            >>> source = circuit.input("a", t=dt.date)
            >>> circuit.output("out", source.map(v=col("t").month()))
            >>> circuit.start().step({"a": [(dt.date(2024, 5, 6),)]})["out"].rows()
            [(5,)]
        """
        return self._call("month")

    def day(self) -> Self:
        """Return the day of the month of a date or a timestamp, from 1.

        Examples:
            >>> import datetime as dt
            >>> circuit = Circuit("example")
            >>> source = circuit.input("a", t=dt.date)
            >>> circuit.output("out", source.map(v=col("t").day()))
            >>> circuit.start().step({"a": [(dt.date(2024, 5, 6),)]})["out"].rows()
            [(6,)]
        """
        return self._call("day")

    def weekday(self) -> Self:
        """Return the day of the week of a date or a timestamp: 0 for Monday, 6 for Sunday.

        Examples:
            >>> import datetime as dt
            >>> circuit = Circuit("example")
            >>> source = circuit.input("a", t=dt.date)
            >>> circuit.output("out", source.map(v=col("t").weekday()))
            >>> circuit.start().step({"a": [(dt.date(2024, 5, 6),)]})["out"].rows()
            [(0,)]
        """
        return self._call("weekday")

    def hour(self) -> Self:
        """Return the hour of a time or a timestamp, from 0 to 23.

        Examples:
            >>> import datetime as dt
            >>> circuit = Circuit("example")
            >>> source = circuit.input("a", t=dt.time)
            >>> circuit.output("out", source.map(v=col("t").hour()))
            >>> circuit.start().step({"a": [(dt.time(7, 8, 9),)]})["out"].rows()
            [(7,)]
        """
        return self._call("hour")

    def minute(self) -> Self:
        """Return the minute of a time or a timestamp, from 0 to 59.

        Examples:
            >>> import datetime as dt
            >>> circuit = Circuit("example")
            >>> source = circuit.input("a", t=dt.time)
            >>> circuit.output("out", source.map(v=col("t").minute()))
            >>> circuit.start().step({"a": [(dt.time(7, 8, 9),)]})["out"].rows()
            [(8,)]
        """
        return self._call("minute")

    def second(self) -> Self:
        """Return the second of a time or a timestamp, from 0 to 59.

        Examples:
            >>> import datetime as dt
            >>> circuit = Circuit("example")
            >>> source = circuit.input("a", t=dt.time)
            >>> circuit.output("out", source.map(v=col("t").second()))
            >>> circuit.start().step({"a": [(dt.time(7, 8, 9),)]})["out"].rows()
            [(9,)]
        """
        return self._call("second")

    def microsecond(self) -> Self:
        """Return the microsecond of a time or a timestamp, from 0 to 999,999.

        Examples:
            >>> import datetime as dt
            >>> circuit = Circuit("example")
            >>> source = circuit.input("a", t=dt.time)
            >>> circuit.output("out", source.map(v=col("t").microsecond()))
            >>> circuit.start().step({"a": [(dt.time(7, 8, 9, 10),)]})["out"].rows()
            [(10,)]
        """
        return self._call("microsecond")

    # --- conversions of times ---------------------------------------------------------------------

    def to_date(self) -> Self:
        """Return the date of a timestamp.

        Examples:
            >>> import datetime as dt
            >>> circuit = Circuit("example")
            >>> source = circuit.input("a", t=dt.datetime)
            >>> circuit.output("out", source.map(v=col("t").to_date()))
            >>> circuit.start().step({"a": [(dt.datetime(2024, 5, 6, 7),)]})["out"].rows()
            [(datetime.date(2024, 5, 6),)]
        """
        return self._call("to_date")

    def to_time(self) -> Self:
        """Return the time of day of a timestamp.

        Examples:
            >>> import datetime as dt
            >>> circuit = Circuit("example")
            >>> source = circuit.input("a", t=dt.datetime)
            >>> circuit.output("out", source.map(v=col("t").to_time()))
            >>> circuit.start().step({"a": [(dt.datetime(2024, 5, 6, 7),)]})["out"].rows()
            [(datetime.time(7, 0),)]
        """
        return self._call("to_time")

    def to_timestamp(self) -> Self:
        """Return the timestamp without zone of a date, or of a timestamp with a zone.

        A date becomes its midnight, an instant the local time in the zone of its column.

        Examples:
            >>> import datetime as dt
            >>> circuit = Circuit("example")
            >>> source = circuit.input("a", t=dt.date)
            >>> circuit.output("out", source.map(v=col("t").to_timestamp()))
            >>> circuit.start().step({"a": [(dt.date(2024, 5, 6),)]})["out"].rows()
            [(datetime.datetime(2024, 5, 6, 0, 0),)]
        """
        return self._call("to_timestamp")

    def in_zone(self, zone: str) -> Self:
        """Return the same instant in another zone.

        Parameters:
            zone: the name of a zone, such as "UTC", "Europe/Rome" or "+02:00".

        Raises:
            SchemaError: the zone is unknown, or the value is not a timestamp with a zone.

        Examples:
            >>> import datetime as dt
            >>> circuit = Circuit("example")
            >>> source = circuit.input("a", t="timestamptz")
            >>> circuit.output("out", source.map(v=col("t").in_zone("Asia/Tokyo").hour()))
            >>> circuit.start().step({"a": [(dt.datetime(2024, 5, 6, tzinfo=dt.UTC),)]})["out"].rows()
            [(9,)]
        """
        return self._call("in_zone", zone)

    def from_zone(self, zone: str) -> Self:
        """Return the instant of a local time in a zone.

        A local time that occurs twice, when clocks are set back, is the first of the two.

        Parameters:
            zone: the name of a zone, such as "UTC", "Europe/Rome" or "+02:00".

        Raises:
            SchemaError: the zone is unknown, or the value is not a timestamp without zone.

        Examples:
            >>> import datetime as dt
            >>> circuit = Circuit("example")
            >>> source = circuit.input("a", t=dt.datetime)
            >>> circuit.output("out", source.map(v=col("t").from_zone("Asia/Tokyo").in_zone("UTC").hour()))
            >>> circuit.start().step({"a": [(dt.datetime(2024, 5, 6, 9),)]})["out"].rows()
            [(0,)]
        """
        return self._call("from_zone", zone)

    def total_seconds(self) -> Self:
        """Return a duration in seconds, as a float.

        Examples:
            >>> import datetime as dt
            >>> circuit = Circuit("example")
            >>> source = circuit.input("a", d=dt.timedelta)
            >>> circuit.output("out", source.map(v=col("d").total_seconds()))
            >>> circuit.start().step({"a": [(dt.timedelta(minutes=1, milliseconds=500),)]})["out"].rows()
            [(60.5,)]
        """
        return self._call("total_seconds")

    def total_microseconds(self) -> Self:
        """Return a duration in microseconds, as an int.

        Examples:
            >>> import datetime as dt
            >>> circuit = Circuit("example")
            >>> source = circuit.input("a", d=dt.timedelta)
            >>> circuit.output("out", source.map(v=col("d").total_microseconds()))
            >>> circuit.start().step({"a": [(dt.timedelta(milliseconds=5),)]})["out"].rows()
            [(5000,)]
        """
        return self._call("total_microseconds")

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

    # --- decimals ---------------------------------------------------------------------------------

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

    def round(self, digits: int) -> Self:
        """Return a decimal with this number of digits after the point, rounded half to even.

        Parameters:
            digits: the number of digits, from 0 to 18.

        Examples:
            >>> from decimal import Decimal
            >>> circuit = Circuit("example")
            >>> source = circuit.input("a", p="decimal(18, 3)")
            >>> circuit.output("out", source.map(v=col("p").round(2)))
            >>> circuit.start().step({"a": [(Decimal("1.235"),), (Decimal("1.225"),)]})["out"].rows()
            [(Decimal('1.22'),), (Decimal('1.24'),)]
        """
        return self._call("round", digits)

    def to_decimal(self, digits: int) -> Self:
        """Convert a number or a string to a decimal.

        Floats are rounded half to even; other values must have an exact result.

        Parameters:
            digits: the number of digits after the point of the result, from 0 to 18.

        Raises:
            EvaluationError: a string is not a number, or a float is infinite or NaN.
            ValueOutOfRangeError: the value has too many digits.

        Examples:
            >>> circuit = Circuit("example")
            >>> source = circuit.input("a", s=str)
            >>> circuit.output("out", source.map(v=col("s").to_decimal(2)))
            >>> circuit.start().step({"a": [("12.5",)]})["out"].rows()
            [(Decimal('12.50'),)]
        """
        return self._call("to_decimal", digits)

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
