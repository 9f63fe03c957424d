"""Methods of expressions over dates, times and durations: the namespace `.dt`."""

from __future__ import annotations

from typing import Any

from dbsp.caller_tracebacks import methods_end_at_caller
from dbsp.data.named_choices import expect_choice
from dbsp.expressions.method_namespace import E, MethodNamespace
from dbsp.expressions.time_unit_names import TIME_UNITS, TimeUnit


@methods_end_at_caller
class TimeMethods(MethodNamespace[E]):
    """The methods of an expression over dates, times and durations, as `col("t").dt.year()`.

    They mean the same as in Python where Python has them. The result over None is None.
    """

    __slots__ = ()
    _name = "dt"
    _not_a_value = 'call a method, such as col("t").dt.year()'

    def year(self) -> E:
        """Return the year of a date or a timestamp.

        In the zone of its column for a timestamp with a zone, as the other parts below.

        Examples:
            >>> import datetime as dt
            >>> circuit = Circuit("example")
            >>> source = circuit.input("a", t=dt.datetime)
            >>> circuit.output("out", source.map(v=col("t").dt.year()))
            >>> circuit.start().step({"a": [(dt.datetime(2024, 5, 6),)]})["out"].rows()
            [(2024,)]
        """
        return self._expression._call("year")

    def month(self) -> E:
        """Return the month of a date or a timestamp, from 1 to 12.

        Examples:
            >>> import datetime as dt
            >>> circuit = Circuit("example")
            >>> source = circuit.input("a", t=dt.date)
            >>> circuit.output("out", source.map(v=col("t").dt.month()))
            >>> circuit.start().step({"a": [(dt.date(2024, 5, 6),)]})["out"].rows()
            [(5,)]
        """
        return self._expression._call("month")

    def day(self) -> E:
        """Return the day of the month of a date or a timestamp, from 1.

        Examples:
            >>> import datetime as dt
            >>> circuit = Circuit("example")
            >>> source = circuit.input("a", t=dt.date)
            >>> circuit.output("out", source.map(v=col("t").dt.day()))
            >>> circuit.start().step({"a": [(dt.date(2024, 5, 6),)]})["out"].rows()
            [(6,)]
        """
        return self._expression._call("day")

    def weekday(self) -> E:
        """Return the day of the week of a date or a timestamp: 0 for Monday, 6 for Sunday.

        Examples:
            >>> import datetime as dt
            >>> circuit = Circuit("example")
            >>> source = circuit.input("a", t=dt.date)
            >>> circuit.output("out", source.map(v=col("t").dt.weekday()))
            >>> circuit.start().step({"a": [(dt.date(2024, 5, 6),)]})["out"].rows()
            [(0,)]
        """
        return self._expression._call("weekday")

    def hour(self) -> E:
        """Return the hour of a time or a timestamp, from 0 to 23.

        Examples:
            >>> import datetime as dt
            >>> circuit = Circuit("example")
            >>> source = circuit.input("a", t=dt.time)
            >>> circuit.output("out", source.map(v=col("t").dt.hour()))
            >>> circuit.start().step({"a": [(dt.time(7, 8, 9),)]})["out"].rows()
            [(7,)]
        """
        return self._expression._call("hour")

    def minute(self) -> E:
        """Return the minute of a time or a timestamp, from 0 to 59.

        Examples:
            >>> import datetime as dt
            >>> circuit = Circuit("example")
            >>> source = circuit.input("a", t=dt.time)
            >>> circuit.output("out", source.map(v=col("t").dt.minute()))
            >>> circuit.start().step({"a": [(dt.time(7, 8, 9),)]})["out"].rows()
            [(8,)]
        """
        return self._expression._call("minute")

    def second(self) -> E:
        """Return the second of a time or a timestamp, from 0 to 59.

        Examples:
            >>> import datetime as dt
            >>> circuit = Circuit("example")
            >>> source = circuit.input("a", t=dt.time)
            >>> circuit.output("out", source.map(v=col("t").dt.second()))
            >>> circuit.start().step({"a": [(dt.time(7, 8, 9),)]})["out"].rows()
            [(9,)]
        """
        return self._expression._call("second")

    def microsecond(self) -> E:
        """Return the microsecond of a time or a timestamp, from 0 to 999,999.

        Examples:
            >>> import datetime as dt
            >>> circuit = Circuit("example")
            >>> source = circuit.input("a", t=dt.time)
            >>> circuit.output("out", source.map(v=col("t").dt.microsecond()))
            >>> circuit.start().step({"a": [(dt.time(7, 8, 9, 10),)]})["out"].rows()
            [(10,)]
        """
        return self._expression._call("microsecond")

    def in_zone(self, zone: str) -> E:
        """Return the same instant in another zone.

        Parameters:
            zone: the name of a zone, such as "UTC", "Europe/Rome" or "+02:00".

        Raises:
            SchemaError: the zone is unknown, or the value is not a timestamp with a zone.

        Examples:
            >>> import datetime as dt
            >>> circuit = Circuit("example")
            >>> source = circuit.input("a", t="timestamptz")
            >>> circuit.output("out", source.map(v=col("t").dt.in_zone("Asia/Tokyo").dt.hour()))
            >>> circuit.start().step({"a": [(dt.datetime(2024, 5, 6, tzinfo=dt.UTC),)]})["out"].rows()
            [(9,)]
        """
        return self._expression._call("in_zone", zone)

    def from_zone(self, zone: str) -> E:
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
            >>> instant = col("t").dt.from_zone("Asia/Tokyo")
            >>> circuit.output("out", source.map(v=instant.dt.in_zone("UTC").dt.hour()))
            >>> circuit.start().step({"a": [(dt.datetime(2024, 5, 6, 9),)]})["out"].rows()
            [(0,)]
        """
        return self._expression._call("from_zone", zone)

    def total_seconds(self) -> E:
        """Return a duration in seconds, as a float.

        Examples:
            >>> import datetime as dt
            >>> circuit = Circuit("example")
            >>> source = circuit.input("a", d=dt.timedelta)
            >>> circuit.output("out", source.map(v=col("d").dt.total_seconds()))
            >>> circuit.start().step({"a": [(dt.timedelta(minutes=1, milliseconds=500),)]})["out"].rows()
            [(60.5,)]
        """
        return self._expression._call("total_seconds")

    def total_microseconds(self) -> E:
        """Return a duration in microseconds, as an int.

        Examples:
            >>> import datetime as dt
            >>> circuit = Circuit("example")
            >>> source = circuit.input("a", d=dt.timedelta)
            >>> circuit.output("out", source.map(v=col("d").dt.total_microseconds()))
            >>> circuit.start().step({"a": [(dt.timedelta(milliseconds=5),)]})["out"].rows()
            [(5000,)]
        """
        return self._expression._call("total_microseconds")

    def quarter(self) -> E:
        """Return the quarter of the year of a date or a timestamp, from 1 to 4.

        Examples:
            >>> import datetime as dt
            >>> circuit = Circuit("example")
            >>> circuit.output("out", circuit.input("a", t=dt.date).map(v=col("t").dt.quarter()))
            >>> circuit.start().step({"a": [(dt.date(2024, 5, 6),)]})["out"].rows()
            [(2,)]
        """
        return self._expression._call("quarter")

    def week(self) -> E:
        """Return the week of a date or a timestamp in the year of ISO 8601, from 1 to 53.

        Examples:
            >>> import datetime as dt
            >>> circuit = Circuit("example")
            >>> circuit.output("out", circuit.input("a", t=dt.date).map(v=col("t").dt.week()))
            >>> circuit.start().step({"a": [(dt.date(2024, 12, 31),)]})["out"].rows()
            [(1,)]
        """
        return self._expression._call("week")

    def ordinal_day(self) -> E:
        """Return the day of the year of a date or a timestamp, from 1 to 366.

        Examples:
            >>> import datetime as dt
            >>> circuit = Circuit("example")
            >>> circuit.output("out", circuit.input("a", t=dt.date).map(v=col("t").dt.ordinal_day()))
            >>> circuit.start().step({"a": [(dt.date(2024, 12, 31),)]})["out"].rows()
            [(366,)]
        """
        return self._expression._call("ordinal_day")

    def truncate(self, unit: TimeUnit) -> E:
        """Return the start of the unit of time that contains the value; the type is the same.

        A week starts on Monday. For a timestamp with a zone, units are those of its zone.

        Parameters:
            unit: "year", "quarter", "month", "week" or "day" for dates and timestamps; "hour",
                "minute", "second" or "millisecond" for times and timestamps.

        Raises:
            ArgumentError: the unit is unknown.
            SchemaError: the type has no such unit, as a date has no hour.

        Examples:
            >>> import datetime as dt
            >>> circuit = Circuit("example")
            >>> source = circuit.input("a", t=dt.date)
            >>> circuit.output("out", source.map(v=col("t").dt.truncate("month")))
            >>> circuit.start().step({"a": [(dt.date(2024, 5, 6),)]})["out"].rows()
            [(datetime.date(2024, 5, 1),)]
        """
        return self._expression._call("truncate", expect_choice("unit", TIME_UNITS, unit))

    def strftime(self, pattern: Any) -> E:
        """Return a date, a time or a timestamp as text, as `strftime` of Python writes it.

        Names of days and months are those of the locale of the process, and the platform pads the
        years before 1000.

        Parameters:
            pattern: the format, such as "%Y-%m-%d", a string or an expression.

        Raises:
            EvaluationError: the platform does not accept the format.

        Examples:
            >>> import datetime as dt
            >>> circuit = Circuit("example")
            >>> circuit.output("out", circuit.input("a", t=dt.date).map(v=col("t").dt.strftime("%d.%m.%Y")))
            >>> circuit.start().step({"a": [(dt.date(2024, 5, 6),)]})["out"].rows()
            [('06.05.2024',)]
        """
        return self._expression._call("strftime", pattern)
