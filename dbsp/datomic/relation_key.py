"""Names of the relations that queries read: columns of the datoms, of one attribute or of all."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from dbsp.errors import InvariantError
from dbsp.lazy_dataclass import dataclass

COLUMNS = ("e", "a", "v", "tx", "added")
"""The columns of a datom, in the order in which arrays of datoms have them."""

Order = tuple[str, ...]
"""Names of all columns of a relation, in the order in which a trace sorts them."""


@dataclass(frozen=True, slots=True)
class RelationKey:
    """A relation over the datoms of a database; every row has weight 1.

    Attributes:
        attribute: the id of the attribute of all rows; None for the rows of all attributes.
        columns: the columns, in the order of `COLUMNS`. Without `tx` and `added` the rows are the
            current facts, with `tx` the current facts and the transactions that asserted them, with
            `tx` and `added` all datoms, retractions too.
        boxed: the columns whose values have the codes of the type object, whatever their own type.
    """

    attribute: int | None
    columns: Order
    boxed: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        names = self.columns
        in_order = tuple(name for name in COLUMNS if name in names) == names
        keyed = {"e", "v"} <= set(names) and (self.attribute is not None or "a" in names)
        if not (in_order and keyed and ("tx" in names or "added" not in names)):
            raise InvariantError(
                "expected the columns of a relation as e, a, v, tx, added in this order: e and v always, "
                f"a for all attributes, tx if added; got {', '.join(names)}; this is a defect of dbsp"
            )

    @property
    def places(self) -> list[int]:
        """The place of each column among the columns of a datom."""
        return [COLUMNS.index(name) for name in self.columns]

    def permutation(self, order: Iterable[str]) -> tuple[int, ...]:
        """Return the place of each column of an order among the columns of this relation."""
        places = tuple(self.columns.index(name) for name in order)
        if sorted(places) != list(range(len(self.columns))):
            raise InvariantError(
                f"expected an order of the columns {', '.join(self.columns)}, got {', '.join(order)}; "
                "this is a defect of dbsp"
            )
        return places


EV: Order = ("e", "v")
VE: Order = ("v", "e")


@functools.lru_cache(maxsize=4096)
def current_facts(attribute: int) -> RelationKey:
    """Return the key of the current facts of an attribute, columns e and v."""
    return RelationKey(attribute, EV)
