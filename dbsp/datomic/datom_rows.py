"""Datoms for users from rows of codes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from dbsp.data.columns import decode_column
from dbsp.data.interner import Interner
from dbsp.data.key_order import key_order
from dbsp.data.value_order import rank_codes
from dbsp.datomic.database_schema import Schema
from dbsp.datomic.datom import Datom
from dbsp.datomic.relation_rows import type_of
from dbsp.kernels.arrays import Codes


def datoms_from(rows: Codes, schema: Schema, interner: Interner) -> list[Datom]:
    """Return the datoms of rows int64[n, 5]. O(n), by attribute."""
    if not len(rows):
        return []
    values = np.empty(len(rows), object)
    names = np.empty(len(rows), object)
    for attribute in np.unique(rows[:, 1]).tolist():
        places = np.flatnonzero(rows[:, 1] == attribute)
        decoded: list[Any] = decode_column(type_of(schema, attribute), rows[places, 2], interner)
        for place, value in zip(places.tolist(), decoded, strict=True):
            values[place] = value
        names[places] = schema.by_id[attribute].ident
    columns = (rows[:, 0].tolist(), names, values, rows[:, 3].tolist(), (rows[:, 4] == 1).tolist())
    return list(itertools.starmap(Datom, zip(*columns, strict=True)))


def in_order(rows: Codes, order: tuple[int, ...], schema: Schema, interner: Interner) -> Codes:
    """Return rows int64[n, 5] sorted by some columns; the values have the order of their type."""
    keys = []
    for column in order:
        key = rows[:, column]
        if column == 2:
            key = np.empty(len(rows), np.int64)
            for attribute in np.unique(rows[:, 1]).tolist():
                mask = rows[:, 1] == attribute
                key[mask] = rank_codes(type_of(schema, attribute), rows[mask, 2], interner)
        keys.append(key)
    return rows.take(key_order(keys), 0)
