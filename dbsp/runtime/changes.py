"""From what a user calls a change to rows of codes with weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.data.zset import ZSet
from dbsp.errors import DbspError, InputError, WeightOverflowError
from dbsp.kernels import consolidate
from dbsp.kernels.arrays import Codes
from dbsp.runtime.ports import InputPort


@dataclass(frozen=True, slots=True)
class TableChange:
    """The rows of an Arrow table in their order, with a weight for each, int64[n].

    What a change feed says, where the order matters: on an input with set semantics or with a key the last
    change of a row or key decides. Of a row that is taken away by its key only the key columns are read.
    """

    table: Any
    weights: Codes


InputChange: TypeAlias = Mapping[Any, int] | Iterable[Any] | ZSet | TableChange


def encode_change(change: Any, port: InputPort, interner: Interner) -> tuple[Codes, Codes]:
    """(rows, weights) of a change, in the order given and not consolidated.

    Accepts {row: weight}, an iterable of rows (weight 1 each), a ZSet, an Arrow table, a TableChange.
    """
    if isinstance(change, TableChange):
        return _encode_table_change(change, port, interner)
    return _encoded(change, port.columns, port.relation, interner)


def _encoded(change: Any, schema: Schema, relation: str, interner: Interner) -> tuple[Codes, Codes]:
    try:
        if isinstance(change, ZSet):
            batch = change.recoded(schema, interner)
            return batch.rows, batch.weights
        if isinstance(change, Mapping):
            if len(change) == 1:
                ((row, weight),) = change.items()
                codes = np.array([schema.encode_row(row, interner)], np.int64).reshape(1, schema.arity)
                return codes, _weights((weight,))
            return schema.encode_rows(list(change), interner), _weights(list(change.values()))
        if hasattr(change, "schema") and hasattr(change, "to_batches"):
            batch = ZSet.from_arrow(change, schema=schema).recoded(schema, interner)
            return batch.rows, batch.weights
        if isinstance(change, str | bytes) or not isinstance(change, Iterable):
            raise InputError(f"a change is a collection of rows, not {change!r}")
        rows = list(change)
        return schema.encode_rows(rows, interner), np.ones(len(rows), np.int64)
    except DbspError as error:
        where = f"relation '{relation}'"
        error.where = f"{where}, {error.where}" if error.where else where
        raise


def _encode_table_change(change: TableChange, port: InputPort, interner: Interner) -> tuple[Codes, Codes]:
    import pyarrow as pa

    from dbsp.data.frames import encode_table

    table, weights, schema = change.table, change.weights, port.columns
    try:
        gone = weights < 0
        if port.kind != "key" or not gone.any():
            return encode_table(table, schema, interner), weights
        codes = np.zeros((len(weights), schema.arity), np.int64)
        codes[~gone] = encode_table(table.filter(pa.array(~gone)), schema, interner)
        keys = table.filter(pa.array(gone)).select([schema.names[c] for c in port.key])
        codes[np.ix_(np.flatnonzero(gone), np.array(port.key))] = encode_table(
            keys, schema.select(port.key), interner
        )
        return codes, weights
    except DbspError as error:
        error.where = f"relation '{port.relation}'"
        raise


def encode_keys(rows: Sequence[Any], port: InputPort, interner: Interner) -> Codes:
    """Codes of rows of which only the key matters: each is a whole row, or the values of the key alone."""
    schema, key = port.columns, port.key
    short = {_is_key(row, schema, key) for row in rows}
    if len(short) > 1:
        return np.concatenate([encode_keys([row], port, interner) for row in rows])
    if short != {True}:
        return encode_change(rows, port, interner)[0]
    codes = np.zeros((len(rows), schema.arity), np.int64)
    codes[:, key], _ = _encoded(rows, schema.select(key), port.relation, interner)
    return codes


def _is_key(row: Any, schema: Schema, key: Sequence[int]) -> bool:
    """Whether a row gives the key columns and no others."""
    if len(key) == schema.arity:
        return False
    if isinstance(row, Mapping):
        return set(row) == {schema.names[c] for c in key}
    return isinstance(row, tuple | list) and len(row) == len(key)


def _weights(weights: Sequence[Any]) -> Codes:
    for weight in weights:
        if type(weight) is not int and not isinstance(weight, np.integer):
            raise InputError(f"a weight is an int, not {weight!r} ({type(weight).__name__})")
    try:
        return np.array(weights, np.int64)
    except OverflowError:
        largest = max(weights, key=abs)
        raise WeightOverflowError(f"weight {largest} does not fit 64 bits") from None


def last_wins(rows: Codes, weights: Codes, key: Sequence[int]) -> tuple[Codes, Codes]:
    """Of the rows that share a key, only the last one given; a weight of 0 gives none. O(n log n)."""
    rows, weights = rows[weights != 0], weights[weights != 0]
    n = len(rows)
    numbered = np.empty((n, len(key) + 1), np.int64)
    for c, column in enumerate(key):
        numbered[:, c] = rows[:, column]
    numbered[:, -1] = np.arange(n)
    numbered, _ = consolidate(numbered, np.ones(n, np.int64))
    last = np.ones(n, np.bool_)
    last[:-1] = (numbered[1:, :-1] != numbered[:-1, :-1]).any(axis=1)
    chosen = numbered[last, -1]
    return np.ascontiguousarray(rows[chosen]), weights[chosen]
