"""SparkSink: an output that emits its deltas as tables.

The table of a tick, for the delta d of the tick and the integral v after it:

| encoding     | rows                                  | additional column                   |
|--------------|---------------------------------------|-------------------------------------|
| `weight`     | every row of d once                   | its weight, a signed integer        |
| `operations` | each row of d, repeated by its weight | "delete" or "insert"; deletes first |
| `append`     | each row of d, repeated by its weight | none; d must not retract rows       |
| `view`       | each row of v, repeated by its weight | none                                |

Cost: O(d), for the view O(v log v). A `SparkSource` with the same encoding reads the tables of the
first three, so that one circuit can follow another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa

from dbsp.data.frames import decode_table, repeated
from dbsp.data.schema import suggestion
from dbsp.data.zset import ZSet
from dbsp.errors import InputError, SchemaError, counted
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.ports.output import Output

ENCODINGS = ("weight", "operations", "append", "view")
_DEFAULT_COLUMN = {"weight": "weight", "operations": "operation"}


@dataclass(frozen=True)
class SparkSink(Output):
    """A named output, and the encoding of its deltas as tables.

    Place it in a circuit by hand to keep the settings of a sink with the circuit:
    `dbsp.spark.stream` uses them.

    Parameters:
        relation: the name of the output.
        columns: the columns with their names; None for those of the stream.
        encoding: "weight", "operations", "append" or "view" (see `dbsp.spark.Pipeline.sink`).
        column: the column of the weight or operation; default "weight" or "operation".
        target: a folder or the name of a table; "" if the pipeline gives it.
        sink_name: the name of the sink, if the output has several; default the output's name.

    Raises:
        InputError: the encoding is unknown.
        SchemaError: the output has a column with the name of the weight or operation.

    Examples:
        >>> circuit = Circuit("copy")
        >>> edge = circuit.input("edge", x=int, y=int)
        >>> sink = dbsp.spark.SparkSink("out", encoding="operations", target="out/edge")(edge)
        >>> [node.label for node in circuit.nodes]
        ['Input edge', 'SparkSink out [operations] to out/edge']
    """

    encoding: str = "weight"
    column: str = ""
    target: str = ""
    sink_name: str = ""

    def __post_init__(self) -> None:
        if self.encoding not in ENCODINGS:
            raise InputError(
                f"unknown encoding {self.encoding!r}; expected one of {', '.join(ENCODINGS)}"
                f"{suggestion(self.encoding, ENCODINGS)}",
                where=self.where,
                code="unknown-encoding",
            )
        if self.column and self.encoding not in _DEFAULT_COLUMN:
            raise InputError(
                f"encoding={self.encoding!r} has no weight or operation; remove column={self.column!r}",
                where=self.where,
                code="invalid-option",
            )
        if self.columns is not None and self.control in self.columns.names:
            raise SchemaError(
                f"{self.control!r} is a column of the output, so encoding={self.encoding!r} cannot use it;"
                " choose another column=...",
                where=self.where,
                code="duplicate-column",
            )

    @property
    def label(self) -> str:
        to = f" to {self.target}" if self.target else ""
        return f"SparkSink {self.sink} [{self.encoding}]{to}"

    @property
    def sink(self) -> str:
        """The name of the sink."""
        return self.sink_name or self.relation

    @property
    def where(self) -> str:
        """The name of this sink in errors."""
        return f"sink '{self.sink}'"

    @property
    def control(self) -> str:
        """The column of the weight or operation; "" for views."""
        return self.column or _DEFAULT_COLUMN.get(self.encoding, "")

    def table(
        self, delta: ZSet, view: Callable[[], ZSet], objects: Mapping[str, pa.DataType] | None = None
    ) -> pa.Table:
        """Return the table of a tick. `objects` are the Arrow types of columns that hold objects.

        Raises InputError for a view with rows of negative weight, and SchemaError for objects of
        another type than the given one.
        """
        zset = view() if self.encoding == "view" else delta
        rows, weights = zset.stored.rows, zset.stored.weights
        if self.encoding == "weight":
            table = decode_table(rows, zset.schema, zset.interner, objects)
            return table.append_column(self.control, pa.array(weights, pa.int64()))
        if self.encoding == "view":
            if len(weights) and weights.min() < 0:
                raise InputError(
                    "the view has rows with negative weight; emit its deltas with encoding='weight'",
                    where=self.where,
                    code="invalid-weight",
                )
            return decode_table(repeated(rows, weights), zset.schema, zset.interner, objects)
        if self.encoding == "append":
            if len(weights) and weights.min() < 0:
                raise InputError(
                    f"the delta retracts {counted(int((weights < 0).sum()), 'row')}, which encoding='append'"
                    " cannot express; use encoding='weight' or encoding='operations'",
                    where=self.where,
                    code="invalid-weight",
                )
            return decode_table(repeated(rows, weights), zset.schema, zset.interner, objects)
        order = np.argsort(weights > 0, kind="stable")
        rows, weights = rows.take(order, 0), weights.take(order)
        rows, weights = repeated(rows, weights), repeated(weights, weights)
        table = decode_table(rows, zset.schema, zset.interner, objects)
        words = pa.array(["delete", "insert"]).take(pa.array((weights > 0).astype(np.int8)))
        return table.append_column(self.control, words)
