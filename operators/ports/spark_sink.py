"""SparkSink: an output that emits its deltas as tables.

What the table of a tick holds, for the delta d of the tick and the integral v after it:

| encoding     | rows                                             | further column                           |
|--------------|--------------------------------------------------|------------------------------------------|
| `weight`     | every row of d once                              | its weight, a signed integer             |
| `operations` | a row of d as often as the weight says           | "delete" or "insert"; deletes come first |
| `view`       | a row of v as often as the weight says           | none                                     |

The first two cost O(d), the view O(v log v). A `SparkSource` of the same encoding reads what the
first two have written, so that one circuit can follow another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from dbsp.data.frames import decode_table
from dbsp.data.schema import suggestion
from dbsp.data.zset import ZSet
from dbsp.errors import InputError, SchemaError
from dbsp.operators.ports.output import Output

ENCODINGS = ("weight", "operations", "view")
_DEFAULT_COLUMN = {"weight": "weight", "operations": "operation"}


@dataclass(frozen=True)
class SparkSink(Output):
    """A named output, and the encoding of its deltas as tables.

    `column` names that of the weight or the operation. Raises InputError for an unknown encoding,
    SchemaError if the stream has a column of that name itself.
    """

    encoding: str = "weight"
    column: str = ""

    def __post_init__(self) -> None:
        if self.encoding not in ENCODINGS:
            raise InputError(
                f"there is no encoding {self.encoding!r}{suggestion(self.encoding, ENCODINGS)};"
                f" the encodings are {', '.join(ENCODINGS)}",
                where=self.where,
            )
        if self.columns is not None and self.control in self.columns.names:
            raise SchemaError(
                f"{self.control!r} is a column of the output itself; name another column=", where=self.where
            )

    @property
    def label(self) -> str:
        return f"SparkSink {self.relation} [{self.encoding}]"

    @property
    def where(self) -> str:
        """How errors name this sink."""
        return f"sink '{self.relation}'"

    @property
    def control(self) -> str:
        """The further column of the table; "" if it has none."""
        return self.column or _DEFAULT_COLUMN.get(self.encoding, "")

    def table(
        self, delta: ZSet, view: Callable[[], ZSet], objects: Mapping[str, pa.DataType] | None = None
    ) -> pa.Table:
        """The table of a tick. `objects` are the Arrow types of columns that hold objects.

        Raises InputError for a view with rows of negative weight, SchemaError for objects that are
        not of the type given.
        """
        zset = view() if self.encoding == "view" else delta
        rows, weights = zset.batch.rows, zset.batch.weights
        if self.encoding == "weight":
            table = decode_table(rows, zset.schema, zset.interner, objects)
            return table.append_column(self.control, pa.array(weights, pa.int64()))
        if self.encoding == "view":
            if len(weights) and weights.min() < 0:
                raise InputError(
                    "the view has rows of negative weight; hand out its deltas with encoding='weight'",
                    where=self.where,
                )
            return decode_table(np.repeat(rows, weights, axis=0), zset.schema, zset.interner, objects)
        order = np.argsort(weights > 0, kind="stable")
        rows, weights = (
            np.repeat(rows[order], np.abs(weights[order]), axis=0),
            np.repeat(weights[order], np.abs(weights[order])),
        )
        table = decode_table(rows, zset.schema, zset.interner, objects)
        words = pa.array(["delete", "insert"]).take(pa.array((weights > 0).astype(np.int8)))
        return table.append_column(self.control, words)
