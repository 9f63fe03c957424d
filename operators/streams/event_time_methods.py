"""Stream methods that go by event time: windows, and the watermark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from dbsp.circuit import graph
from dbsp.errors import CircuitError, SchemaError, shorten
from dbsp.operators.joins.band import distance
from dbsp.operators.streams.fit import located
from dbsp.operators.time.watermark import Timely, Watermark
from dbsp.operators.time.window import Window, check_time

S = TypeVar("S", bound="EventTimeMethods")


@dataclass(frozen=True)
class Watermarked(Generic[S]):
    """What a watermark makes of a stream: `on_time + late` is the stream itself."""

    on_time: S
    """The rows that are not older than the watermark was when they came."""
    late: S
    """All the others; count them by `late.group_by().agg(n=count())`."""
    watermark: S
    """One row, one column: the watermark."""


class EventTimeMethods(graph.Stream):
    """The methods of a stream for times that stand in its rows."""

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
        """Each row once for every window its time is in, with two more columns: start and end.

        Windows are `size` long and begin every `hop`, counted from 0 or 1970-01-01; the end is not
        part of them. Without `hop` they tumble, so that a row is in exactly one. Times are int, date or
        timestamp; `size` and `hop` are ints, or timedeltas for the last two. A row without a time is in
        no window. Raises ValueOutOfRangeError for a window beyond the times there are.
        """
        index = self.schema.index(column)
        check_time(self.schema, index)
        sizes = [
            _length(self, index, size, "size"),
            _length(self, index, size if hop is None else hop, "hop"),
        ]
        return Window(index, sizes[0], sizes[1], names)(self)

    @located("Watermark")
    def watermark(self: S, column: str, lateness: Any) -> Watermarked[S]:
        """The stream split into rows that are on time and rows that are late, and the watermark.

        The watermark is the largest time inserted so far less `lateness`; it never goes back. A row
        (a retraction too) is late if its time is less than the watermark was before the tick.
        """
        if self.graph.parent is not None:
            raise CircuitError("a watermark goes by ticks, and a fixpoint by iterations; take it outside")
        index = self.schema.index(column)
        check_time(self.schema, index)
        mark = Watermark(index, _length(self, index, lateness, "lateness", least=0))(self)
        return Watermarked(Timely(index, False)(self, mark), Timely(index, True)(self, mark), mark)


def _length(stream: graph.Stream, column: int, length: Any, which: str, least: int = 1) -> int:
    """A length of time in units of the codes."""
    steps = distance(stream.schema.types[column], length, which)
    if not isinstance(steps, int) or steps < least:
        raise SchemaError(
            f"{which} is {'more than nothing' if least else 'not negative'}, not {shorten(length)}"
        )
    return steps
