"""The meaning of a change of an input: from the caller's form to the delta of the stored relation.

A change is encoded into pieces, in the order given. The pieces of one tick are netted into the
batch that is staged at the input's port. The input's step turns that batch into its delta:

| kind   | positive weight         | negative weight        | several changes in a tick  |
|--------|-------------------------|------------------------|----------------------------|
| `zset` | adds to the row's weight| subtracts from it      | are summed                 |
| `set`  | asserts the row         | retracts the row       | the last one of a row wins |
| `key`  | replaces the key's row  | removes the key's row  | the last one of a key wins |

"The last one" needs an order. Rows, tables and staged changes have an order. A mapping
{row: weight} and a ZSet have none: their weights are summed, and a second row of one key is an
error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from os import PathLike
from typing import Any, TypeAlias

import numpy as np

from dbsp.data.batch import Batch
from dbsp.data.column_chunks import Chunk, RowSource, encode_chunks, encode_narrow
from dbsp.data.interner import Interner
from dbsp.data.masks import rows_where
from dbsp.data.run_batch import sum_in_place
from dbsp.data.schema import Schema
from dbsp.data.table_forms import (
    ArrowTable,
    chunks_of,
    gathered,
    is_table,
)
from dbsp.data.weights import overflow_text
from dbsp.data.zset import ZSet
from dbsp.errors import DbspError, InputError, WeightOverflowError, shorten
from dbsp.kernels import assert_runs, replace_by_key
from dbsp.kernels.arrays import Codes, Mask, StoredRows
from dbsp.kernels.limits import INT64_MAX, INT64_MIN
from dbsp.kernels.narrow_rows import empty_rows, widened
from dbsp.lazy_dataclass import dataclass
from dbsp.parallel.narrow_sort import sort_narrow
from dbsp.parallel.range_sort import consolidate, consolidate_sole
from dbsp.runtime.ports import InputPort


@dataclass(frozen=True, slots=True)
class TableChange:
    """The rows of an Arrow table in their order, with a weight for each, int64[n].

    This is the form of a change feed. Of a row that is removed by its key only the key columns are
    read.
    """

    table: Any
    weights: Codes


InputChange: TypeAlias = Mapping[Any, Any] | Iterable[Any] | ZSet | TableChange | RowSource | ArrowTable
"""A mapping from rows to weights or from names to columns; rows, with weight 1 each; a Z-set; a
table (see `dbsp.data.table_forms`). A column `weight` that the relation lacks has weights."""


_CODE = np.dtype(np.int64)

Piece: TypeAlias = tuple[Codes, Codes, bool]
"""An encoded change: rows and weights as given, not consolidated, and whether their order counts.
A plain tuple, because every tick of one row builds one."""

StoredPiece: TypeAlias = tuple[StoredRows, Codes, bool]
"""A piece that may be in 32 bits, see `encode_load`."""


# --- encoding -------------------------------------------------------------------------------------


def encode_change(change: Any, port: InputPort, interner: Interner) -> Piece:
    """Encode a change in one of the forms of `InputChange`."""
    if type(change) is dict and len(change) == 1:
        batch = encode_one(change, port, interner)
        if batch is not None:
            return batch.rows, batch.weights, False
    if isinstance(change, TableChange):
        return *_encode_table_change(change, port, interner), True
    rows, weights, _ = _encoded(change, port.columns, port.relation, interner)
    return rows, weights, not isinstance(change, Mapping | ZSet) or _has_columns(change)


def encode_load(change: Any, port: InputPort, interner: Interner) -> StoredPiece:
    """As `encode_change`, but many rows of a table may be in 32 bits.

    Then there is a single weight, the 1 of all rows, and nobody else reads the rows.
    """
    if isinstance(change, TableChange) or port.kind == "external":
        return encode_change(change, port, interner)
    rows, weights, _ = _stored(change, port.columns, port.relation, interner, narrow=True)
    return rows, weights, not isinstance(change, Mapping | ZSet) or _has_columns(change)


def is_copied(change: Any) -> bool:
    """Return whether `encode_change` copies all codes and weights of a change."""
    return type(change) is dict or not isinstance(change, ZSet)


def encode_one(change: dict[Any, Any], port: InputPort, interner: Interner) -> Batch | None:
    """Encode a mapping from one row to its weight, the usual change of a small tick.

    Return None if the weight is 0 or wrong, and for other mappings.
    """
    ((row, weight),) = change.items()
    if type(weight) is not int or type(row) is str or not weight or not INT64_MIN <= weight <= INT64_MAX:
        return None
    try:
        codes = port.columns.encode_row(row, interner)
    except DbspError as error:
        add_relation(error, port.relation)
        raise
    return Batch(np.array(codes, _CODE, ndmin=2), np.array(weight, _CODE, ndmin=1))


def encode_staged(change: Any, port: InputPort, interner: Interner) -> Piece:
    """Encode a change that is ordered among the other changes of the tick."""
    rows, weights, _ = encode_change(change, port, interner)
    return rows, weights, True


def encode_deletions(rows: Any, port: InputPort, interner: Interner) -> Piece:
    """Encode every row with weight -1. On a keyed input the key values are enough."""
    try:
        if isinstance(rows, Mapping | ZSet) and not _has_columns(rows):
            weighted = True
        elif isinstance(rows, str | bytes) or not (isinstance(rows, Iterable) or is_table(rows)):
            raise InputError(
                "expected a collection of rows or of keys, or a table by columns, got "
                f"{shorten(rows)} of type {type(rows).__name__}",
                code="invalid-change",
            )
        elif isinstance(rows := gathered(rows), list):
            codes = _encode_keys(rows, port, interner) if port.kind == "key" else _rows(rows, port, interner)
            return codes, np.full(len(codes), -1), True
        else:
            codes, weighted = _encode_deleted(chunks_of(rows, port.columns), port, interner)
        if weighted:
            raise InputError(
                "expected rows to delete, got rows with weights; pass them to run.step, where negative "
                "weights delete",
                code="invalid-weight",
            )
    except DbspError as error:
        add_relation(error, port.relation)
        raise
    return codes, np.full(len(codes), -1), True


def _encode_deleted(chunks: Iterator[Chunk], port: InputPort, interner: Interner) -> tuple[Codes, bool]:
    """Encode a table of rows, or of keys if the input has one; return whether it has weights."""
    schema, key = port.columns, port.key
    all_chunks = list(chunks)
    if port.kind != "key" or not all_chunks or len(all_chunks[0].columns) != len(key):
        codes, _, weighted = encode_chunks(all_chunks, schema, interner)
        return codes, weighted
    keys, _, weighted = encode_chunks(all_chunks, schema.select(key), interner)
    codes = np.zeros((len(keys), schema.arity), np.int64)
    codes[:, key] = keys
    return codes, weighted


def encode_upserts(rows: Any, port: InputPort, interner: Interner) -> Piece:
    """Replace the rows with the same keys. Raises InputError on an input without a key."""
    if port.kind != "key":
        raise InputError(
            "upsert needs an input with a key; declare it with key=(...), or use insert and delete",
            where=f"relation '{port.relation}'",
            code="missing-key",
        )
    return encode_staged(rows, port, interner)


def _rows(rows: Sequence[Any], port: InputPort, interner: Interner) -> Codes:
    return encode_change(rows, port, interner)[0]


def _encoded(change: Any, schema: Schema, relation: str, interner: Interner) -> tuple[Codes, Codes, bool]:
    """Return rows, weights and whether the caller gave the weights."""
    rows, weights, weighted = _stored(change, schema, relation, interner, narrow=False)
    return widened(rows), weights, weighted


def _stored(
    change: Any, schema: Schema, relation: str, interner: Interner, *, narrow: bool
) -> tuple[StoredRows, Codes, bool]:
    """As `_encoded`; the rows of a table may be `narrow` as those of `encode_narrow`."""
    try:
        if isinstance(change, ZSet):
            if (order := schema.match(change.schema.names)) is not None:
                change = change.ordered(order)
            batch = change.recoded(schema, interner)
            return batch.rows, batch.weights, True
        if isinstance(change, Mapping) and not _has_columns(change):
            return schema.encode_rows(list(change), interner), _weights(list(change.values())), True
        if not (is_table(change) or isinstance(change, Mapping)):
            _check_rows(change, schema)
            change = gathered(change)
            if isinstance(change, list):
                return schema.encode_rows(change, interner), np.ones(len(change), np.int64), False
        return encode_narrow(chunks_of(change, schema), schema, interner, narrow=narrow)
    except DbspError as error:
        add_relation(error, relation)
        raise


def _has_columns(change: Mapping[Any, Any] | ZSet) -> bool:
    """Whether a mapping is one from names to columns. A row is never a string."""
    return isinstance(change, Mapping) and isinstance(next(iter(change), None), str)


def add_relation(error: DbspError, relation: str) -> None:
    """Name the relation in the place of an error of its rows."""
    where = f"relation '{relation}'"
    if error.where and not error.where.startswith(where):
        where = f"{where}, {error.where}"
    error.where = where


_FORMS = (
    "a collection of rows, a mapping from rows to weights, a ZSet, or a table by columns (a data frame, "
    "Arrow, an array, a dict of columns)"
)


def _check_rows(change: Any, schema: Schema) -> None:
    """Raise InputError if a change is not a collection of rows."""
    shown = None
    if _is_single_row(change, schema):
        shown = f"the single row {shorten(change)}; write it as a list, [{shorten(change)}]"
    elif isinstance(change, str | bytes) or not isinstance(change, Iterable):
        shown = f"{shorten(change)} of type {type(change).__name__}"
        if isinstance(change, str | PathLike):
            shown += "; read a file by dbsp.read_csv, read_parquet or read_ndjson"
        elif type(change).__name__ == "DuckDBPyConnection":
            shown += "; pass the result of connection.sql(...)"
    if shown is not None:
        raise InputError(f"expected {_FORMS}, got {shown}", code="invalid-change")


def _is_single_row(change: Any, schema: Schema) -> bool:
    """Whether a change is one row instead of a list of one."""
    if is_dataclass(change):
        return not isinstance(change, type)
    return (
        type(change) is tuple
        and len(change) == schema.arity
        and not any(isinstance(value, tuple) or is_table(value) for value in change)
    )


def _encode_table_change(change: TableChange, port: InputPort, interner: Interner) -> tuple[Codes, Codes]:
    import pyarrow as pa

    from dbsp.data.frames import encode_table

    # The caller may read the weights from an Arrow column, which nobody may write.
    table, weights, schema = change.table, np.array(change.weights, np.int64), port.columns
    try:
        retracted = weights < 0
        if port.kind != "key" or not retracted.any():
            return encode_table(table, schema, interner), weights
        codes = np.zeros((len(weights), schema.arity), np.int64)
        codes[~retracted] = encode_table(table.filter(pa.array(~retracted)), schema, interner)
        keys = table.filter(pa.array(retracted)).select([schema.names[c] for c in port.key])
        codes[np.ix_(np.flatnonzero(retracted), np.array(port.key))] = encode_table(
            keys, schema.select(port.key), interner
        )
        return codes, weights
    except DbspError as error:
        error.where = f"relation '{port.relation}'"
        raise


def _encode_keys(rows: Sequence[Any], port: InputPort, interner: Interner) -> Codes:
    """Encode rows of which only the key matters, given as full rows or as key values."""
    schema, key = port.columns, port.key
    short = {_is_key(row, schema, key) for row in rows}
    if len(short) > 1:
        return np.concatenate([_encode_keys([row], port, interner) for row in rows])
    if short != {True}:
        return _rows(rows, port, interner)
    codes = np.zeros((len(rows), schema.arity), np.int64)
    codes[:, key], _, _ = _encoded(rows, schema.select(key), port.relation, interner)
    return codes


def _is_key(row: Any, schema: Schema, key: Sequence[int]) -> bool:
    """Whether a row has the key columns and no others."""
    if len(key) == schema.arity:
        return False
    if isinstance(row, Mapping):
        return set(row) == {schema.names[c] for c in key}
    return isinstance(row, tuple | list) and len(row) == len(key)


def _weights(weights: Sequence[Any]) -> Codes:
    for weight in weights:
        if type(weight) is not int and not isinstance(weight, np.integer):
            raise InputError(
                f"expected an int as the weight of a row, got {shorten(weight)} of type "
                f"{type(weight).__name__}",
                code="invalid-weight",
            )
    try:
        return np.array(weights, np.int64)
    except OverflowError:
        largest = max(weights, key=abs)
        raise WeightOverflowError(f"the weight {shorten(largest)} is outside the 64-bit range") from None


# --- netting --------------------------------------------------------------------------------------


def net_change(pieces: Sequence[Piece], port: InputPort, owned: bool = False) -> Batch | None:
    """Return the net change of the pieces of one tick, to stage at the port; None if it is empty.

    If `owned`, nobody else reads the pieces: their memory may become that of the result. Raises
    WeightOverflowError. O(n log n).
    """
    codes, weights, _ = pieces[0]
    if len(pieces) > 1:
        codes = np.concatenate([rows for rows, _, _ in pieces])
        weights = np.concatenate([given for _, given, _ in pieces])
        owned = True
    if len(weights) > 1:
        try:
            if port.kind != "zset" and any(ordered for _, _, ordered in pieces):
                if owned and not port.key and weights[0] in (1, -1) and (weights == weights[0]).all():
                    # Equal changes of one row: any of them is the last one.
                    sign = weights[0]
                    codes, weights = consolidate_sole(codes, weights)
                    weights[:] = sign
                else:
                    codes, weights = _last_changes(codes, weights, port)
            elif owned:
                codes, weights = consolidate_sole(codes, weights)
            else:
                codes, weights = consolidate(codes, weights)
        except OverflowError as error:
            where = f"relation '{port.relation}'"
            raise WeightOverflowError(overflow_text(error), where=where) from None
    return Batch(codes, weights) if len(weights) and weights[0] != 0 else None


def net_load(rows: StoredRows, kind: str, key: Sequence[int] = ()) -> Batch | None:
    """Return the net change of narrow rows of weight 1 at an input, sorted in place.

    Nobody else may read the rows. Returns None if they cannot be sorted in 32 bits; then nothing
    has changed. O(n) per 11 bits of a row.
    """
    last = _last_narrow_rows(rows, key) if key else rows
    batch = None if last is None else sum_in_place([last])
    return batch.with_units() if batch is not None and kind != "zset" else batch


def _last_narrow_rows(rows: StoredRows, key: Sequence[int]) -> StoredRows | None:
    """Return the last of the narrow rows of each key, or `rows` themselves if no key is repeated.

    Returns None if the keys with the numbers of their rows cannot be sorted in 32 bits.
    """
    numbered = _numbered_keys(rows, key)
    if not sort_narrow(numbered, np.arange(len(key) + 1)):
        return None
    chosen = _last_numbers(numbered)
    if len(chosen) == len(rows):
        return rows
    found = empty_rows(len(chosen), rows.shape[1], True)
    return rows.take(chosen, 0, out=found, mode="clip")  # the default mode copies the result


def _last_changes(codes: Codes, weights: Codes, port: InputPort) -> tuple[Codes, Codes]:
    """Return the last change of each key, or of each row without a key, sorted."""
    if not port.key:
        try:
            rows, sums = consolidate(codes, weights)
        except OverflowError:
            pass  # some row occurs twice
        else:
            if len(sums) == len(weights):
                return rows, sums  # no row occurs twice, so the order does not matter
    key = port.key or tuple(range(port.columns.arity))
    return consolidate(*_last_of_each(codes, weights, key))


def _last_of_each(rows: Codes, weights: Codes, key: Sequence[int]) -> tuple[Codes, Codes]:
    """Return the last of the rows that share a key; drop rows of weight 0. O(n log n)."""
    if not weights.all():
        rows, weights = rows_where(weights != 0, rows, weights)
    numbered = widened(_numbered_keys(rows, key))
    numbered, _ = consolidate(numbered, np.ones(len(numbered), np.int64))
    chosen = _last_numbers(numbered)
    return rows.take(chosen, 0), weights.take(chosen)


def _numbered_keys(rows: StoredRows, key: Sequence[int]) -> StoredRows:
    """Return the key of each row and, in the last column, the number of the row."""
    numbered = empty_rows(len(rows), len(key) + 1, rows.itemsize == 4)
    for c, column in enumerate(key):
        numbered[:, c] = rows[:, column]
    numbered[:, -1] = np.arange(len(rows))
    return numbered


def _last_numbers(numbered: StoredRows) -> StoredRows:
    """Return the last number of each key, from the sorted rows of `_numbered_keys`."""
    last = np.append(~_with_equal_keys(numbered, numbered.shape[1] - 1), True)
    numbers: StoredRows = numbered[last[: len(numbered)], -1]
    return numbers


# --- the delta of the stored relation -------------------------------------------------------------


Applied: TypeAlias = tuple[Codes, Codes, int, int]
"""The delta of a stored relation, rows and weights in the order of its sorted runs; the number of
assertions of rows that were already present; the number of retractions of absent rows."""


def apply_to_set(rows: Codes, weights: Codes, table: Codes, runs: int) -> Applied:
    """Apply a batch staged at an input with set semantics to the sorted runs of the relation.

    out(x) = [w(x) > 0] - [x is stored]         for the rows x of the batch
    """
    return assert_runs(rows, weights, table, runs)


def apply_by_key(rows: Codes, weights: Codes, key: int, table: Codes, runs: int, relation: str) -> Applied:
    """Apply a batch staged at a keyed input; the key is the first `key` columns of rows and runs.

    Raises InputError when the batch has two rows for one key.
    """
    changed, changes, present, absent, clash = replace_by_key(rows, weights, key, table, runs)
    if clash >= 0:
        raise _repeated_key(clash, relation)
    return changed, changes, present, absent


def expect_distinct_keys(rows: StoredRows, m: int, relation: str) -> None:
    """Raise InputError if two of the sorted rows have the same m-column key."""
    same = _with_equal_keys(rows, m)
    if same.any():
        raise _repeated_key(int(np.argmax(same)) + 1, relation)


def _with_equal_keys(rows: StoredRows, m: int) -> Mask:
    """Return for each sorted row but the first whether the row before has the same m-column key."""
    same: Mask = np.ones(max(0, len(rows) - 1), np.bool_)
    for c in range(m):
        same &= rows[1:, c] == rows[:-1, c]
    return same


def _repeated_key(index: int, relation: str) -> InputError:
    return InputError(
        f"relation '{relation}': a change without an order has two rows of one key "
        f"(row {index + 1} of the change in key order); pass a list of rows to keep the last row of each key",
        code="duplicate-key",
    )
