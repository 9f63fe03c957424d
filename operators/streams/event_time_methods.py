"""Stream methods for event time: windows, and the watermark."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from dbsp.caller_tracebacks import methods_end_at_caller
from dbsp.circuit import graph
from dbsp.errors import CircuitError, SchemaError, shorten
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.joins.band import distance
from dbsp.operators.streams.fit import expect_pair, expect_stream, located
from dbsp.operators.time.recent import Recent, expect_watermark
from dbsp.operators.time.watermark import Timely, Watermark
from dbsp.operators.time.window import Window, check_time

S = TypeVar("S", bound="EventTimeMethods")


@dataclass(frozen=True)
class Watermarked(Generic[S]):
    """A stream split by its watermark: `on_time + late` is the stream itself."""

    on_time: S
    """The rows whose time was not before the watermark when they arrived."""
    late: S
    """All other rows; `late.group_by().agg(n=count())` counts them."""
    watermark: S
    """A stream of one row with one column: the watermark."""


@methods_end_at_caller
class EventTimeMethods(graph.Stream):
    """The methods of a stream whose rows have a time."""

    __slots__ = ()

    @located("Window")
    def window(
        self: S,
        column: str,
        size: Any,
        hop: Any = None,
        *,
        names: tuple[str, str] = ("window_start", "window_end"),
    ) -> S:
        """Repeat each row for every window that contains its time, with the window's start and end.

            window(s)(x, b, e) = s(x)   for every b <= x.column < e = b + size,
                                        b a multiple of hop

        Windows are counted from 0, dates and timestamps from 1970-01-01. The end is not part of the
        window. A row whose time is None is in no window. Linear: O(|delta| * size / hop) per tick,
        no state. A tick with a window beyond the range of the type raises ValueOutOfRangeError.

        Parameters:
            column: the column of the time: int, date or timestamp.
            size: the length of a window: an int, or a timedelta for dates and timestamps.
            hop: the distance between the starts of two windows, written like `size`; by default
                `size`, so that every row is in exactly one window.
            names: the names of the two new columns.

        Returns:
            A stream with the columns of this one, the start and the end.

        Raises:
            SchemaError: the column does not exist or is not a time, `size` or `hop` is not a
                positive length of time for its type, or a row is in more than 10,000,000 windows.
            ArgumentError: `names` are not two names.

        Examples:
            >>> circuit = Circuit("windows")
            >>> circuit.output("windowed", circuit.input("seen", time=int).window("time", 10))
            >>> circuit.start().step({"seen": [(3,), (12,)]})["windowed"].rows()
            [(3, 0, 10), (12, 10, 20)]
        """
        index = self.schema.index(column)
        check_time(self.schema, index)
        sizes = [
            window_length(self, index, size, "size"),
            window_length(self, index, size if hop is None else hop, "hop"),
        ]
        return Window(index, sizes[0], sizes[1], expect_pair(names))(self)

    @located("Watermark")
    def watermark(self: S, column: str, lateness: Any) -> Watermarked[S]:
        """Split the stream into rows that are on time and rows that are late.

            watermark[t] = max of x.column over the rows inserted in ticks 0..t - lateness
            on_time(s)[t](x) = s[t](x) if x.column >= watermark[t - 1] else 0
            late(s) = s - on_time(s)

        The watermark never decreases. A retraction is late under the same condition as an
        insertion. O(|delta|) per tick; the state is one time. Use the watermark with
        `Grouped.final` to emit each window once.

        Parameters:
            column: the column of the time: int, date or timestamp, not optional.
            lateness: how much later than a newer row a row may arrive: an int, or a timedelta for
                dates and timestamps; not negative.

        Returns:
            An object with three streams: `on_time`, `late`, and `watermark`, which has one row.

        Raises:
            SchemaError: the column does not exist, is not a time or is optional, or `lateness` is
                not a length of time for its type.
            CircuitError: the stream is inside a fixpoint.

        Examples:
            >>> circuit = Circuit("late")
            >>> marked = circuit.input("seen", time=int).watermark("time", 5)
            >>> circuit.output("late", marked.late)
            >>> run = circuit.start()
            >>> run.step({"seen": [(20,)]})["late"].rows(), run.step({"seen": [(14,), (15,)]})["late"].rows()
            ([], [(14,)])
        """
        if self.graph.parent is not None:
            raise CircuitError(
                "a watermark follows ticks, and a fixpoint follows iterations; call watermark() on a "
                "stream outside the fixpoint",
                code="scope-misuse",
            )
        index = self.schema.index(column)
        check_time(self.schema, index)
        mark = Watermark(index, window_length(self, index, lateness, "lateness", least=0))(self)
        return Watermarked(Timely(index, False)(self, mark), Timely(index, True)(self, mark), mark)

    @located("Recent")
    def recent(self: S, watermark: S, column: str) -> S:
        """Keep the rows that the watermark has not passed.

            recent(s, w)(x) = s(x) if x.column > w else 0

        A row is retracted when the watermark reaches its time, so operators and views after this
        one forget it. A row that arrives behind the watermark never appears, and its retraction
        has no effect. Before the first watermark all rows are recent. The state is the recent rows.
        O(|delta| log n) per tick and the rows that the watermark passes.

        Parameters:
            watermark: the `watermark` stream of `Stream.watermark`, of this stream or another one.
            column: the column with the time of a row, of the type of the watermark: the time
                itself, or the end of a window, such as `window_end`.

        Returns:
            A stream of the same columns.

        Raises:
            SchemaError: the column does not exist or has not the type of the watermark, or
                `watermark` is not a watermark.
            CircuitError: the stream is inside a fixpoint.

        Examples:
            >>> circuit = Circuit("open")
            >>> marked = circuit.input("seen", time=int).watermark("time", 0)
            >>> windows = marked.on_time.window("time", 10)
            >>> counts = windows.group_by("window_start", "window_end").agg(n=count())
            >>> circuit.output("open", counts.recent(marked.watermark, "window_end"))
            >>> run = circuit.start()
            >>> _ = run.step({"seen": [(3,), (5,)]})
            >>> run.step({"seen": [(12,)]})["open"].to_dict(), run.view("open").rows()
            ({(0, 10, 2): -1, (10, 20, 1): 1}, [(10, 20, 1)])
        """
        expect_stream(watermark, "recent")
        if self.graph.parent is not None:
            raise CircuitError(
                "a watermark follows ticks, and a fixpoint follows iterations; call recent() on a "
                "stream outside the fixpoint",
                code="scope-misuse",
            )
        expect_watermark(watermark)
        return Recent(self.schema.index(column))(self, watermark)


def window_length(stream: graph.Stream, column: int, length: Any, which: str, least: int = 1) -> int:
    """A length of time in units of the codes."""
    steps = distance(stream.schema.types[column], length, which)
    if not isinstance(steps, int) or steps < least:
        expected = "a length of time above 0" if least else "a length of time that is not negative"
        raise SchemaError(f"{which}= expects {expected}, got {shorten(length)}", code="invalid-window")
    return steps
