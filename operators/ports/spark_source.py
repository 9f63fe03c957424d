"""SparkSource: an input whose changes are the rows of micro-batches.

A micro-batch is an Arrow table. Besides the relation's columns it has what its encoding needs, and
the encoding defines which Z-set it represents; x runs over its rows, in their order:

| encoding     | further column                 | delta                                                      |
|--------------|--------------------------------|------------------------------------------------------------|
| `append`     | none                           | sum of 1 * x                                               |
| `weight`     | a signed integer               | sum of w(x) * x                                            |
| `operations` | what happened to the row       | sum of x over inserts - sum of x over deletes              |
| `upsert`     | none                           | x in place of the row with its key                         |

The names that Delta's change data feed, Debezium and Flink give to operations are all understood:

| means                                 | operation                                                     |
|---------------------------------------|---------------------------------------------------------------|
| the row is there now                  | `I` `insert` `c` `create` `r` `read` `update_postimage` `+I` `+U` |
| the row is gone                       | `D` `delete` `d` `update_preimage` `-U` `-D`                  |
| the row replaces that of its key      | `U` `update` `u`                                              |

This module reads weights and puts rows in order (`sequence_by` names the column to order by, if the
micro-batch is not in order itself); what the weights mean on an input with set semantics or with a
key is defined in `dbsp.runtime.input_changes`. A retraction of what is not there changes nothing and is
counted (`TickResult.absent`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dbsp.data.schema import suggestion
from dbsp.errors import InputError, SchemaError
from dbsp.kernels.arrays import Codes
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
    """An input relation together with how micro-batches say what changed in it.

    `column` is that of the weight or the operation ("weight" or "operation" unless given). Raises
    InputError for an unknown encoding, and for `upsert` without a key.
    """

    encoding: str = "append"
    column: str = ""
    sequence_by: str = ""

    def __post_init__(self) -> None:
        if self.encoding not in ENCODINGS:
            raise InputError(
                f"there is no encoding {self.encoding!r}{suggestion(self.encoding, ENCODINGS)};"
                f" the encodings are {', '.join(ENCODINGS)}",
                where=self.where,
            )
        if self.encoding == "upsert" and self.kind != "key":
            raise InputError(
                "the encoding 'upsert' needs key=, the columns that tell rows apart", where=self.where
            )
        if self.column and self.encoding not in _DEFAULT_COLUMN:
            raise InputError(f"the encoding {self.encoding!r} reads no further column", where=self.where)
        for name in self.control:
            if name in self.columns.names:
                raise SchemaError(
                    f"{name!r} is a column of the relation, so the {self.encoding} cannot be read from it;"
                    " give it another name",
                    where=self.where,
                )

    @property
    def label(self) -> str:
        return f"SparkSource {self.relation} [{self.encoding}]"

    @property
    def where(self) -> str:
        """How errors name this source."""
        return f"source '{self.relation}'"

    @property
    def control(self) -> tuple[str, ...]:
        """The columns of a micro-batch that are none of the relation."""
        named = self.column or _DEFAULT_COLUMN.get(self.encoding, "")
        ordering = self.sequence_by if self.sequence_by not in self.columns.names else ""
        return tuple(dict.fromkeys(name for name in (named, ordering) if name))

    def change(self, table: pa.Table) -> TableChange:
        """What a micro-batch of n rows changes. O(n), and O(n log n) with `sequence_by`; no Python
        per row.

        Raises SchemaError for other columns than expected, InputError for a null in a key, a weight
        or an operation that cannot be read, each naming the column and how many rows it is about.
        Values are checked when the change is staged.
        """
        self.check(table.column_names)
        weights = self._weights(table)
        if self.sequence_by:
            table, weights = self._in_order(table, weights)
        table = table.select(list(self.columns.names))
        if self.kind == "key":
            for c in self.key:
                if nulls := table.column(c).null_count:
                    name = self.columns.names[c]
                    raise InputError(
                        f"column {name!r} is of the key, and null in {_rows(nulls)}", where=self.where
                    )
        return TableChange(table, weights)

    def check(self, names: list[str]) -> None:
        """Raises SchemaError unless these are the columns of a micro-batch, in any order."""
        expected = (*self.columns.names, *self.control)
        missing = [name for name in expected if name not in names]
        extra = [name for name in names if name not in expected]
        if missing or extra:
            parts = [f"lacks {', '.join(map(repr, missing))}"] if missing else []
            if extra:
                parts.append(f"has {', '.join(map(repr, extra))}, which is not expected; drop or rename it")
            raise SchemaError(
                f"the DataFrame {' and '.join(parts)} (expected: {', '.join(expected)})", where=self.where
            )

    def _weights(self, table: pa.Table) -> Codes:
        if self.encoding == "weight":
            given = table.column(self.control[0])
            if not pa.types.is_integer(given.type):
                raise SchemaError(
                    f"the weights in {self.control[0]!r} are {given.type}, no integers", where=self.where
                )
            if given.null_count:
                raise InputError(
                    f"the weight {self.control[0]!r} is null in {_rows(given.null_count)}", where=self.where
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
            raise SchemaError(f"the operations in {name!r} are {given.type}, no strings", where=self.where)
        if given.null_count:
            raise InputError(f"the operation {name!r} is null in {_rows(given.null_count)}", where=self.where)
        encoded = pc.dictionary_encode(given).combine_chunks()
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.chunk(0) if encoded.num_chunks else pa.array([], given.type).dictionary_encode()
        codes = [_OPERATIONS.get(word.lower(), 0) for word in encoded.dictionary.to_pylist()]
        meanings = np.array(codes, np.int64)[np.asarray(encoded.indices.to_numpy(), np.int64)]
        for code, problem in (
            (0, "is none that is known (insert, delete, update, ..., I, U, D, c, r, u, d)"),
            (_UPDATE, "does not tell the row that it replaces, so the source needs key="),
        ):
            if code == _UPDATE and self.kind == "key":
                continue
            found = meanings == code
            if found.any():
                word = encoded.dictionary[codes.index(code)].as_py()
                raise InputError(
                    f"the operation {word!r} in column {name!r} {problem}; {_rows(int(found.sum()))}",
                    where=self.where,
                )
        return np.sign(meanings)

    def _in_order(self, table: pa.Table, weights: Codes) -> tuple[pa.Table, Codes]:
        """The changes by `sequence_by`; for equal values, deletions before insertions."""
        if nulls := table.column(self.sequence_by).null_count:
            raise InputError(
                f"column {self.sequence_by!r} orders the changes, and is null in {_rows(nulls)}",
                where=self.where,
            )
        # The position is the last key, since Arrow's sort does not keep the order of equal rows.
        keyed = pa.table(
            [table.column(self.sequence_by), pa.array(weights > 0), pa.array(np.arange(len(weights)))],
            ["by", "there", "at"],
        )
        order: Any = pc.sort_indices(keyed, sort_keys=[(name, "ascending") for name in keyed.column_names])
        return table.take(order), weights[order.to_numpy()]


def _rows(number: int) -> str:
    return "1 row" if number == 1 else f"{number:,} rows"
