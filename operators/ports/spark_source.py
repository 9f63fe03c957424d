"""SparkSource: an input whose changes are the rows of micro-batches.

A micro-batch is an Arrow table with the relation's columns and the additional column of its
encoding. The encoding defines the Z-set of the micro-batch; x ranges over its rows, in order:

| encoding     | additional column        | delta                                         |
|--------------|--------------------------|-----------------------------------------------|
| `append`     | none                     | sum of 1 * x                                  |
| `weight`     | a signed integer         | sum of w(x) * x                               |
| `operations` | the operation on the row | sum of x over inserts - sum of x over deletes |
| `upsert`     | none                     | x replaces the row with its key               |

The operation names of Delta's change data feed, Debezium and Flink are all accepted:

| meaning         | operation                                                         |
|-----------------|-------------------------------------------------------------------|
| insert the row  | `I` `insert` `c` `create` `r` `read` `update_postimage` `+I` `+U` |
| retract the row | `D` `delete` `d` `update_preimage` `-U` `-D`                      |
| replace the row | `U` `update` `u`; the row with the same key                       |

This module reads weights and sorts the rows of an unordered micro-batch by the column
`sequence_by`.
`dbsp.runtime.input_changes` defines the meaning of weights on an input with set semantics or with a
key. A retraction of an absent row changes nothing and is counted (`TickResult.absent`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dbsp.data.arrow_types import without_zones
from dbsp.data.schema import suggestion
from dbsp.errors import InputError, SchemaError
from dbsp.kernels.arrays import Codes
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.ports.input import Input
from dbsp.runtime.input_changes import TableChange

ENCODINGS = ("append", "weight", "operations", "upsert")

_UPDATE = 2
_OPERATIONS = (
    dict.fromkeys(("i", "insert", "c", "create", "r", "read", "update_postimage", "+i", "+u"), 1)
    | dict.fromkeys(("d", "delete", "update_preimage", "-u", "-d"), -1)
    | dict.fromkeys(("u", "update"), _UPDATE)
)
_DEFAULT_COLUMN = {"weight": "weight", "operations": "operation"}


@dataclass(frozen=True)
class SparkSource(Input):
    """An input relation and the encoding of its changes in micro-batches.

    Place it in a circuit by hand (`circuit.add_source`) to keep the settings of a source with the
    circuit: `dbsp.spark.stream` uses them.

    Parameters:
        relation: the name of the input.
        columns: the schema of the relation.
        kind: "zset", "set" or "key", as for `Circuit.input`.
        key: the positions of the key columns.
        encoding: "append", "weight", "operations" or "upsert" (see `dbsp.spark.Pipeline.source`).
        column: the column of the weight or operation; default "weight" or "operation".
        sequence_by: the column that orders the changes of a micro-batch.
        ordered: the rows of a micro-batch arrive in the order of their changes.
        frame: the table or temporary view to read; "" if the pipeline gives the DataFrame.

    Raises:
        InputError: the encoding is unknown, or "upsert" without a key.
        SchemaError: the relation has a column with the name of the weight or operation.

    Examples:
        >>> circuit = Circuit("copy")
        >>> columns = dbsp.Schema.of(x=int, y=int)
        >>> source = dbsp.spark.SparkSource("edge", columns, encoding="weight", frame="edges")
        >>> circuit.output("out", circuit.add_source(source))
        >>> [node.label for node in circuit.nodes]
        ['SparkSource edge [weight] of edges', 'Output out']
    """

    encoding: str = "append"
    column: str = ""
    sequence_by: str = ""
    ordered: bool = False
    frame: str = ""

    def __post_init__(self) -> None:
        if self.encoding not in ENCODINGS:
            raise InputError(
                f"unknown encoding {self.encoding!r}; expected one of {', '.join(ENCODINGS)}"
                f"{suggestion(self.encoding, ENCODINGS)}",
                where=self.where,
                code="unknown-encoding",
            )
        if self.encoding == "upsert" and self.kind != "key":
            raise InputError(
                "encoding='upsert' needs a key; name the key columns with key=...",
                where=self.where,
                code="missing-key",
            )
        if self.column and self.encoding not in _DEFAULT_COLUMN:
            raise InputError(
                f"encoding={self.encoding!r} has no weight or operation; remove column={self.column!r}",
                where=self.where,
                code="invalid-option",
            )
        for name in self.control:
            if name in self.columns.names:
                raise SchemaError(
                    f"{name!r} is a column of the relation, so encoding={self.encoding!r} cannot use it;"
                    " choose another column=...",
                    where=self.where,
                    code="duplicate-column",
                )

    @property
    def label(self) -> str:
        of = f" of {self.frame}" if self.frame else ""
        return f"SparkSource {self.relation} [{self.encoding}]{of}"

    @property
    def where(self) -> str:
        """The name of this source in errors."""
        return f"source '{self.relation}'"

    @property
    def control(self) -> tuple[str, ...]:
        """The columns of a micro-batch that are not columns of the relation."""
        named = self.column or _DEFAULT_COLUMN.get(self.encoding, "")
        ordering = self.sequence_by if self.sequence_by not in self.columns.names else ""
        return tuple(dict.fromkeys(name for name in (named, ordering) if name))

    @property
    def order_matters(self) -> bool:
        """Whether the order of the rows in a micro-batch changes the result.

        Weights of a Z-set are summed. In a set, and for a key, the last change decides; rows that
        are only appended to a set are all insertions.
        """
        return self.kind == "key" or (self.kind == "set" and self.encoding != "append")

    def change(self, table: pa.Table) -> TableChange:
        """Return the changes of a micro-batch of n rows. Cost: O(n), and O(n log n) with
        `sequence_by`; no Python per row.

        Raises SchemaError for unexpected columns, and InputError for a null in a key or for an
        invalid weight or operation. The message names the column and the number of rows. Values are
        checked when the change is staged.
        """
        self.check(table.column_names)
        weights = self._weights(table)
        if self.sequence_by:
            table, weights = self._in_order(table, weights)
        table = without_zones(table.select(list(self.columns.names)), self.columns)
        if self.kind == "key":
            for c in self.key:
                if nulls := table.column(c).null_count:
                    name = self.columns.names[c]
                    raise InputError(
                        f"the key column {name!r} is null in {_rows(nulls)}",
                        where=self.where,
                        code="missing-value",
                    )
        return TableChange(table, weights)

    def check(self, names: list[str]) -> None:
        """Raise SchemaError unless these are the columns of a micro-batch, in any order."""
        expected = (*self.columns.names, *self.control)
        missing = [name for name in expected if name not in names]
        extra = [name for name in names if name not in expected]
        if missing or extra:
            parts = [f"missing {', '.join(map(repr, missing))}"] if missing else []
            parts += [f"unexpected {', '.join(map(repr, extra))}"] if extra else []
            hint = suggestion(missing[0], extra) if missing else "; drop or rename it"
            raise SchemaError(
                f"expected the columns ({', '.join(expected)}), got ({', '.join(names)}):"
                f" {', '.join(parts)}{hint}",
                where=self.where,
                code="schema-mismatch",
            )

    def _weights(self, table: pa.Table) -> Codes:
        if self.encoding == "weight":
            given = table.column(self.control[0])
            if not pa.types.is_integer(given.type):
                raise SchemaError(
                    f"the weight column {self.control[0]!r}: expected integers, got {given.type}",
                    where=self.where,
                    code="wrong-type",
                )
            if given.null_count:
                raise InputError(
                    f"the weight column {self.control[0]!r} is null in {_rows(given.null_count)}",
                    where=self.where,
                    code="missing-value",
                )
            return np.asarray(given.cast(pa.int64()).to_numpy(), np.int64)
        if self.encoding == "operations":
            return self._operations(table.column(self.control[0]))
        return np.ones(table.num_rows, np.int64)

    def _operations(self, given: pa.ChunkedArray) -> Codes:
        name = self.control[0]
        if pa.types.is_dictionary(given.type):
            given = given.cast(given.type.value_type)
        if not pa.types.is_string(given.type) and not pa.types.is_large_string(given.type):
            raise SchemaError(
                f"the operation column {name!r}: expected strings, got {given.type}",
                where=self.where,
                code="wrong-type",
            )
        if given.null_count:
            raise InputError(
                f"the operation column {name!r} is null in {_rows(given.null_count)}",
                where=self.where,
                code="missing-value",
            )
        encoded = pc.dictionary_encode(given).combine_chunks()
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.chunk(0) if encoded.num_chunks else pa.array([], given.type).dictionary_encode()
        codes = [_OPERATIONS.get(word.lower(), 0) for word in encoded.dictionary.to_pylist()]
        meanings = np.array(codes, np.int64)[np.asarray(encoded.indices.to_numpy(), np.int64)]
        unknown = meanings == 0
        if unknown.any():
            word = encoded.dictionary[codes.index(0)].as_py()
            raise InputError(
                f"the operation column {name!r}: expected insert, delete, update, I, U, D, c, r, u, d, ...,"
                f" got {word!r} in {_rows(int(unknown.sum()))}",
                where=self.where,
                code="unknown-operation",
            )
        updates = meanings == _UPDATE
        if updates.any() and self.kind != "key":
            word = encoded.dictionary[codes.index(_UPDATE)].as_py()
            raise InputError(
                f"the operation {word!r} in {_rows(int(updates.sum()))} of column {name!r} needs a key to"
                " find the row to replace; name the key columns with key=...",
                where=self.where,
                code="missing-key",
            )
        return np.sign(meanings)

    def _in_order(self, table: pa.Table, weights: Codes) -> tuple[pa.Table, Codes]:
        """Sort the changes by `sequence_by`; for equal values, deletions before insertions."""
        if nulls := table.column(self.sequence_by).null_count:
            raise InputError(
                f"the column {self.sequence_by!r} of sequence_by is null in {_rows(nulls)}",
                where=self.where,
                code="missing-value",
            )
        # The position is the last key, because Arrow's sort is not stable.
        keyed = pa.table(
            [table.column(self.sequence_by), pa.array(weights > 0), pa.array(np.arange(len(weights)))],
            ["by", "there", "at"],
        )
        order: Any = pc.sort_indices(keyed, sort_keys=[(name, "ascending") for name in keyed.column_names])
        return table.take(order), weights[order.to_numpy()]


def _rows(number: int) -> str:
    return "1 row" if number == 1 else f"{number:,} rows"
