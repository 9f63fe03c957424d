"""Rows of one attribute by column: what a transaction asserts or retracts, and its net changes."""

from __future__ import annotations

import numpy as np

from dbsp.datomic.database_schema import Attribute
from dbsp.kernels.arrays import Codes, Mask
from dbsp.lazy_dataclass import dataclass


@dataclass(slots=True)
class AttributeRows:
    """Rows of one attribute.

    Attributes:
        attribute: the attribute.
        entities: ids of entities, or placeholders.
        codes: the values; those of a ref may be placeholders.
        places: the place of the operation of each row.
    """

    attribute: Attribute
    entities: Codes
    codes: Codes
    places: Codes

    def __len__(self) -> int:
        return len(self.entities)

    def select(self, rows: Codes | Mask) -> AttributeRows:
        """Return some of the rows, by position or by a mask."""
        return AttributeRows(self.attribute, self.entities[rows], self.codes[rows], self.places[rows])

    def joined(self, other: AttributeRows) -> AttributeRows:
        """Return these rows and those of `other`."""
        return AttributeRows(
            self.attribute,
            np.concatenate((self.entities, other.entities)),
            np.concatenate((self.codes, other.codes)),
            np.concatenate((self.places, other.places)),
        )


def no_rows(attribute: Attribute) -> AttributeRows:
    """Return no row of an attribute."""
    return AttributeRows(attribute, _EMPTY, _EMPTY, _EMPTY)


_EMPTY = np.empty(0, np.int64)
