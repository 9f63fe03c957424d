"""The relations that a query reads, and what the compiler needs to know of a database."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any, Protocol

from dbsp.compiler.datalog.tree.kinds import VALUE, AnyKind, Kind
from dbsp.lazy_dataclass import dataclass

COLUMNS = ("e", "a", "v", "tx", "added")
"""The columns of a datom, in the order of the terms of a pattern."""


@dataclass(frozen=True, slots=True)
class KnownAttribute:
    """An attribute of a database: its entity, and the kind of its values.

    `names_keyword` says that a text `":red"` of the Python form stands for a keyword here, and
    `unique` that a lookup ref may have the attribute. `stored` returns the form in which the
    database stores a value, or raises a DbspError if the attribute does not accept it.
    """

    id: int
    name: str
    kind: AnyKind
    is_ref: bool = False
    names_keyword: bool = False
    unique: bool = True
    stored: Callable[[Any], Any] = field(default=lambda value: value, compare=False, repr=False)


class Catalog(Protocol):
    """What the compiler knows of one source: a database, or a collection of tuples."""

    @property
    def is_database(self) -> bool:
        """Whether the source is a database; else it is a collection of tuples."""

    @property
    def is_history(self) -> bool:
        """Whether patterns read all datoms, those that are retracted by now included."""

    def attribute(self, name: Any) -> KnownAttribute | None:
        """Return the attribute with this ident or entity id.

        Returns None if the database may define it later. Raises SchemaError if it is unknown.
        """


@dataclass(frozen=True, slots=True)
class BaseRelation:
    """Some columns of the datoms of one attribute, or of all (None), in one source.

    Without `tx` and `added` it holds current facts, with `tx` each with the transaction that
    asserted it; with `added` it holds every datom, 1 for an assertion. The values in `boxed`
    columns are codes of the kind `VALUE`.
    """

    source: str
    attribute: int | None
    columns: tuple[str, ...]
    boxed: frozenset[str] = frozenset()
    kind: AnyKind = VALUE
    """The kind of the values of the attribute."""
    label: str = ""
    """The ident of the attribute."""

    @property
    def name(self) -> str:
        """The name of the input of the circuit."""
        attribute = f"{self.label} " if self.label else ""
        columns = " ".join(f"{column}*" if column in self.boxed else column for column in self.columns)
        return f"{self.source} {attribute}{columns}"

    def own_kind(self, column: str) -> AnyKind:
        """Return the kind of a column that is not boxed."""
        if column == "v":
            return self.kind
        return Kind.NUMBER

    def kind_of(self, column: str) -> AnyKind:
        """Return the kind of a column."""
        return VALUE if column in self.boxed else self.own_kind(column)
