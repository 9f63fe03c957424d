"""Datoms: the facts of a database, as users read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from dbsp.edn.edn_values import Keyword


class Datom(NamedTuple):
    """One fact, and the transaction that asserted or retracted it.

    Attributes:
        e: the id of the entity.
        a: the name of the attribute.
        v: the value.
        tx: the id of the transaction.
        added: True for an assertion, False for a retraction.
    """

    e: int
    a: Keyword
    v: Any
    tx: int
    added: bool
