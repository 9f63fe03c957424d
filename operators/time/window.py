"""Window: each row once for every time window that contains its event time.

    window(s)(x, b, e) = s(x)   for every window b <= x.time < e = b + size with b a multiple of hop

With hop = size (tumbling windows) every row is in exactly one window. With a smaller hop windows
overlap, with a larger hop there are gaps between them. Windows are counted from 0, dates and
timestamps from 1970-01-01. A row without a time is in no window. Linear: its own incremental form.
Cost: O(|delta| * size / hop).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

import numpy as np

from dbsp.circuit.field_ranges import COLUMN, ONE_INPUT, POSITIVE
from dbsp.circuit.operator import Operator
from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.masks import any_true, rows_where
from dbsp.data.schema import Schema
from dbsp.data.timestamps import TIME_RANGES
from dbsp.data.types import Type
from dbsp.errors import SchemaError, ValueOutOfRangeError
from dbsp.kernels.limits import INT64_MAX, INT64_MIN, NULL
from dbsp.lazy_dataclass import dataclass
from dbsp.parallel.range_sort import consolidate

TIMES = ("int", "date", "timestamp", "timestamptz")

MOST_WINDOWS = 10_000_000
"""A row is in at most so many windows: each becomes a row."""


@dataclass(frozen=True)
class Window(Operator):
    """Adds the columns `names`, start and end of the window; sizes are in units of the codes."""

    input_counts = ONE_INPUT

    column: int = field(metadata=COLUMN)
    size: int = field(metadata=POSITIVE)
    hop: int = field(metadata=POSITIVE)
    names: tuple[str, str]

    @property
    def label(self) -> str:
        return f"Window {self.names[0]}"

    def schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs
        check_time(schema, self.column)
        if self.size // self.hop >= MOST_WINDOWS:
            raise SchemaError(
                f"a row would be in {self.size // self.hop:,} windows; the maximum is {MOST_WINDOWS:,}, so "
                "choose a larger hop",
                code="invalid-window",
            )
        time = schema.types[self.column].required()
        return Schema((*schema.names, *self.names), (*schema.types, time, time))

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return inputs[0]

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        time = inputs[0].types[self.column]
        first, last = extent(time)

        def assign(batch: Batch) -> Batch:
            rows, weights = batch.rows, batch.weights
            if time.nullable:
                present = rows[:, self.column] != NULL
                rows, weights = rows_where(present, rows, weights)
            times = rows[:, self.column]
            since = times % self.hop  # since the start of the latest window
            left = self.size - since  # until its end; not positive in a gap
            counts = np.maximum(-(-left // self.hop), 0)
            earlier = (counts - 1) * self.hop  # the first window starts so much before the latest
            if any_true((counts > 0) & ((times < first + (since + earlier)) | (times > last - left))):
                raise ValueOutOfRangeError(f"the window of a row is beyond the range of type {time}")
            row = np.repeat(np.arange(len(times)), counts)
            number = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
            begin = (times - since - earlier).take(row) + number * self.hop
            windows = np.column_stack((rows.take(row, 0), begin, begin + self.size))
            return Batch(*consolidate(np.ascontiguousarray(windows), weights.take(row)))

        return assign


def check_time(schema: Schema, column: int) -> None:
    """Raise SchemaError unless the column holds event times."""
    type_ = schema.types[column]
    if type_.kind not in TIMES:
        raise SchemaError(
            f"an event time is an int, date or timestamp, got '{schema.names[column]}: {type_}'",
            code="invalid-event-time",
        )


def extent(type_: Type) -> tuple[int, int]:
    """The codes of the first and the last time of a type."""
    if type_.kind == "int":
        return INT64_MIN, INT64_MAX
    return TIME_RANGES[type_.kind]
