"""Blocks of the log: one or many transactions as bytes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dbsp.data.interner import Interner
from dbsp.datomic.byte_columns import ByteReader, ByteWriter
from dbsp.datomic.database_schema import Schema
from dbsp.datomic.datom_codec import decode_datoms, encode_datoms
from dbsp.kernels.arrays import Codes


class Block(NamedTuple):
    """Consecutive transactions.

    Attributes:
        datoms: the rows int64[n, 5] of all of them.
        ends: for each transaction, the end of its rows.
        instants: for each transaction, its time in microseconds since 1970.
        next_entity: the next id of an entity of a user after them.
        next_schema_entity: the next id of an entity of the schema after them.
    """

    datoms: Codes
    ends: Codes
    instants: Codes
    next_entity: int
    next_schema_entity: int


def encode_block(block: Block, schema: Schema, interner: Interner) -> bytes:
    """Return a block as bytes; the schema has the attributes of its datoms.

    Raises InputError for a value that a database on disk does not store.
    """
    writer = ByteWriter()
    writer.numbers(np.array([block.next_entity, block.next_schema_entity], np.int64))
    writer.numbers(block.ends)
    writer.numbers(block.instants)
    encode_datoms(writer, block.datoms, schema, interner)
    return writer.content()


def decode_block(content: bytes, interner: Interner) -> Block:
    """Return the block of these bytes; adds its values to the interner.

    Raises ValueError and other errors for other bytes.
    """
    reader = ByteReader(content)
    next_entity, next_schema_entity = reader.numbers().tolist()
    ends, instants = reader.numbers(), reader.numbers()
    datoms = decode_datoms(reader, interner)
    if not reader.ended:
        raise ValueError("expected the end of the datoms, got more bytes")
    if len(ends) != len(instants) or not len(ends) or ends[-1] != len(datoms):
        raise ValueError(
            f"expected {len(datoms)} datoms of {len(instants)} transactions, got {ends.tolist()}"
        )
    return Block(datoms, ends, instants, next_entity, next_schema_entity)


def join_blocks(blocks: list[Block]) -> Block:
    """Return consecutive blocks as one."""
    starts = np.cumsum([0, *(len(block.datoms) for block in blocks)])
    ends = [block.ends + start for block, start in zip(blocks, starts.tolist(), strict=False)]
    return Block(
        np.concatenate([block.datoms for block in blocks]),
        np.concatenate(ends),
        np.concatenate([block.instants for block in blocks]),
        blocks[-1].next_entity,
        blocks[-1].next_schema_entity,
    )
