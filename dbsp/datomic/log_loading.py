"""Opens a database: from the log to indices."""

from __future__ import annotations

import datetime as dt
import warnings

import numpy as np

from dbsp.data.interner import Interner
from dbsp.datomic import system_idents as system
from dbsp.datomic.bootstrap import START, system_datoms, system_schema
from dbsp.datomic.entity_ranges import TX0
from dbsp.datomic.indices import Indices, microseconds
from dbsp.datomic.log_blocks import Block, decode_block, encode_block, join_blocks
from dbsp.datomic.log_store import LogStore, StoredTransaction, damaged
from dbsp.datomic.relation_rows import latest_facts
from dbsp.datomic.shared_values import SHARED_INTERNER, SHARED_LOCK
from dbsp.datomic.transaction import PreparedTransaction
from dbsp.errors import CheckpointWarning, DbspError, cause_text

_DECODING_ERRORS = (ValueError, LookupError, TypeError, ArithmeticError, DbspError)
"""What decoding of wrong bytes may raise."""


def new_indices(open_schema: bool) -> Indices:
    """Return the indices of a database without transactions but number 0, its own schema."""
    with SHARED_LOCK:
        indices = Indices(system_schema(open_schema), SHARED_INTERNER)
        _load(indices, _first_block(SHARED_INTERNER))
    return indices


def load(store: LogStore, open_schema: bool) -> Indices:
    """Return the indices of a stored database.

    Cost: O(n log n) for n datoms, which segments contain without Python code per transaction.

    Raises CheckpointError for a damaged transaction. A damaged segment is only a warning.
    """
    with SHARED_LOCK:
        indices = Indices(system_schema(open_schema), SHARED_INTERNER)
        _load(indices, join_blocks(_read_blocks(store, SHARED_INTERNER)))
    return indices


def _read_blocks(store: LogStore, interner: Interner) -> list[Block]:
    """Return all transactions, those of whole segments first."""
    blocks = [_first_block(interner)]
    t = 0
    for first, last, content in store.read_segments():
        if first != t + 1:
            continue  # after a damaged one
        try:
            if content is None:
                raise ValueError("its checksum is wrong")
            blocks.append(_checked(decode_block(content, interner), first, last))
        except _DECODING_ERRORS as error:
            warnings.warn(
                f"{store.path}: the segment of transactions {first} to {last} is damaged "
                f"({cause_text(error)}); the transactions are read one by one",
                CheckpointWarning,
                stacklevel=4,
            )
            break
        t = last
    return blocks + [decode_stored(store, row, interner) for row in store.read_after(t)]


def decode_stored(store: LogStore, row: StoredTransaction, interner: Interner) -> Block:
    """Return a transaction of the log. Raises CheckpointError if it cannot be decoded."""
    try:
        return _checked(decode_block(row.content, interner), row.t, row.t)
    except _DECODING_ERRORS as error:
        raise damaged(store.path, row.t, cause_text(error)) from None


def prepared_from(block: Block, indices: Indices) -> PreparedTransaction:
    """Return a transaction of another process, to apply it."""
    t = indices.basis_t + 1
    return PreparedTransaction(
        t=t,
        tx=TX0 + t,
        instant=START + dt.timedelta(microseconds=int(block.instants[0])),
        datoms=block.datoms,
        tempids={},
        schema=indices.schema.changed(block.datoms, indices.interner),
        next_entity=block.next_entity,
        next_schema_entity=block.next_schema_entity,
    )


def encode_prepared(prepared: PreparedTransaction, indices: Indices) -> StoredTransaction:
    """Return a transaction as a row of the log.

    Raises InputError for a value that a database on disk does not store.
    """
    instant = microseconds(prepared.instant)
    block = Block(
        prepared.datoms,
        np.array([len(prepared.datoms)], np.int64),
        np.array([instant], np.int64),
        prepared.next_entity,
        prepared.next_schema_entity,
    )
    content = encode_block(block, prepared.schema, indices.interner)
    return StoredTransaction(prepared.t, instant, content)


def encode_segment(indices: Indices, first: int, last: int) -> bytes:
    """Return committed transactions as a segment; `last` is the latest one."""
    log = indices.log
    datoms = log.rows(log.start(first), log.start(last + 1))
    ends, instants = log.ends(first, last), log.instants(first, last)
    block = Block(datoms, ends, instants, indices.next_entity, indices.next_schema_entity)
    return encode_block(block, indices.schema, indices.interner)


def _first_block(interner: Interner) -> Block:
    datoms = system_datoms(interner)
    ends, instants = np.array([len(datoms)]), np.array([microseconds(START)])
    return Block(datoms, ends, instants, 1, system.FIRST_ATTRIBUTE)


def _checked(block: Block, first: int, last: int) -> Block:
    """Return a block of these transactions. Raises ValueError if it has others."""
    numbers = np.repeat(np.arange(first, last + 1), np.diff(block.ends, prepend=0))
    if len(block.ends) != last - first + 1 or not np.array_equal(block.datoms[:, 3] - TX0, numbers):
        raise ValueError(f"expected the datoms of transactions {first} to {last}, got others")
    return block


def _load(indices: Indices, block: Block) -> None:
    indices.load(block.datoms, block.ends, block.instants)
    indices.next_entity, indices.next_schema_entity = block.next_entity, block.next_schema_entity
    of_schema = block.datoms[block.datoms[:, 0] >= system.FIRST_ATTRIBUTE]
    indices.schema = indices.schema.changed(latest_facts(of_schema), indices.interner)
