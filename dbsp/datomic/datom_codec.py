"""Datoms as bytes that need no interner and no schema: transactions and snapshots in the log.

attributes   ids, and how their values are coded
e, a, tx, added   by column; a is the place among the attributes
numbers      the codes of ints, then of floats, in the order of the datoms
values       the distinct other values, and for each other datom its place among them
"""

from __future__ import annotations

from typing import Final

import numpy as np

from dbsp.data.distinct_codes import distinct_codes
from dbsp.data.interner import Interner
from dbsp.datomic.byte_columns import ByteReader, ByteWriter
from dbsp.datomic.database_schema import Schema
from dbsp.datomic.relation_rows import type_of
from dbsp.datomic.value_codec import read_values, write_values
from dbsp.kernels.arrays import Codes

_CODINGS: Final = {"int": 0, "float": 1, "str": 2, "object": 2}
"""How values are coded, by the kind of their type; part of the format of stored databases."""

_NUMBERS: Final = (0, 1)


def encode_datoms(writer: ByteWriter, datoms: Codes, schema: Schema, interner: Interner) -> None:
    """Write datoms int64[n, 5], with values in place of codes.

    Raises InputError for a value of a class that a database on disk does not store.
    """
    attributes, places = distinct_codes(datoms[:, 1])
    codings = np.array(
        [_CODINGS[type_of(schema, attribute).kind] for attribute in attributes.tolist()], np.int64
    )
    for column in (attributes, codings, datoms[:, 0], places, datoms[:, 3], datoms[:, 4]):
        writer.numbers(column)
    coding = codings[places]
    for number in _NUMBERS:
        writer.numbers(datoms[coding == number, 2])
    ids, indices = distinct_codes(datoms[coding == 2, 2])
    writer.numbers(indices)
    write_values(writer, interner.decode_many(ids))


def decode_datoms(reader: ByteReader, interner: Interner) -> Codes:
    """Read the datoms of `encode_datoms`; adds their values to the interner.

    Raises ValueError and other errors for other bytes.
    """
    attributes, codings, entities, places, transactions, added = (reader.numbers() for _ in range(6))
    datoms = np.empty((len(entities), 5), np.int64)
    datoms[:, 0] = entities
    datoms[:, 1] = attributes[places]
    datoms[:, 3] = transactions
    datoms[:, 4] = added
    coding = codings[places]
    for number in _NUMBERS:
        datoms[coding == number, 2] = reader.numbers()
    indices = reader.numbers()
    ids = interner.encode_many(read_values(reader))
    datoms[coding == 2, 2] = ids[indices]
    return datoms
