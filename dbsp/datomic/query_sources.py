"""The sources of a query: databases, and collections of tuples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias

from dbsp.compiler.datalog.tree.kinds import VALUE, AnyKind, Kind
from dbsp.compiler.datomic.meaning.base_relations import BaseRelation, KnownAttribute
from dbsp.data.interner import Interner
from dbsp.datomic.database_schema import Attribute, Schema
from dbsp.datomic.relation_key import Order, RelationKey
from dbsp.datomic.value_codes import canonical
from dbsp.edn.edn_values import Keyword
from dbsp.errors import SchemaError
from dbsp.lazy_dataclass import dataclass
from dbsp.state.trace import Trace

_KINDS: Mapping[str, AnyKind] = {"int": Kind.NUMBER, "float": Kind.FLOAT, "str": Kind.SYMBOL}


class TracedFacts(Protocol):
    """Facts whose relations can be read as traces: live indices, or facts of the past."""

    schema: Schema
    interner: Interner

    def trace(self, key: RelationKey, order: Order) -> Trace: ...


@dataclass(frozen=True)
class DatabaseCatalog:
    """What the compiler needs to know of a database."""

    schema: Schema
    is_history: bool
    is_database: bool = True

    @property
    def is_open(self) -> bool:
        """Whether attributes may be used before they are defined."""
        return self.schema.open

    def attribute(self, name: Any) -> KnownAttribute | None:
        """Return the attribute with this ident or entity id.

        Raises SchemaError if there is none. Returns None if it may be defined later.
        """
        if isinstance(name, str):
            name = Keyword(name.removeprefix(":"))
        known = self.schema.by_ident if isinstance(name, Keyword) else self.schema.by_id
        found = known.get(name)
        if found is not None:
            return known_attribute(found)
        if self.schema.open:
            return None
        raise (
            self.schema.unknown(name)
            if isinstance(name, Keyword)
            else SchemaError(
                f"unknown attribute {name!r}; write the ident of an attribute", code="unknown-attribute"
            )
        )


def known_attribute(attribute: Attribute) -> KnownAttribute:
    """Return what the compiler needs to know of an attribute."""
    return KnownAttribute(
        attribute.id,
        str(attribute.ident),
        _KINDS.get(attribute.type.kind, VALUE),
        attribute.is_ref,
        attribute.value_type in ("keyword", "ref"),
        attribute.unique is not None,
        partial(canonical, attribute),
    )


@dataclass(frozen=True)
class TuplesCatalog:
    """A collection of tuples as a source."""

    is_database: bool = False
    is_history: bool = False
    is_open: bool = False

    def attribute(self, name: Any) -> KnownAttribute | None:
        """Return None: the second item of a tuple is a value like the others."""
        return None


Tuples: TypeAlias = Iterable[Sequence[Any]]


def relation_key(base: BaseRelation) -> RelationKey:
    """Return the key by which the indices know a relation of a query."""
    return RelationKey(base.attribute, base.columns, base.boxed)


class SourceTraces:
    """The traces that the circuit of a query reads, from the facts of its sources."""

    def __init__(self, bases: Mapping[str, BaseRelation], facts: Mapping[str, TracedFacts]) -> None:
        self.bases = bases
        self.facts = facts

    def trace(self, relation: str, order: tuple[int, ...]) -> Trace:
        """Return the trace of an input of the circuit in an order of its columns."""
        base = self.bases[relation]
        key = relation_key(base)
        return self.facts[base.source].trace(key, tuple(base.columns[column] for column in order))
