"""What a transaction reads of a database at one time: schema, ids and look-ups by code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from dbsp.kernels.arrays import Codes, Mask

if TYPE_CHECKING:
    from dbsp.data.interner import Interner
    from dbsp.datomic.database_schema import Attribute, Schema


class Facts(Protocol):
    """The current facts of a database, for the code that prepares a transaction.

    Entities, attributes and values are int64 codes; the code of a value is that of the type of its
    attribute. Vectors of results are sorted by position.
    """

    @property
    def schema(self) -> Schema:
        """The attributes, by name and by id."""

    @property
    def interner(self) -> Interner:
        """The values of the codes of interned types."""

    @property
    def next_entity(self) -> int:
        """The smallest id that is larger than all ids of users' entities."""

    @property
    def next_schema_entity(self) -> int:
        """The smallest id that is larger than all ids of entities of the schema."""

    @property
    def basis_t(self) -> int:
        """The number of the latest transaction; 0 if there is none."""

    def values(self, entity: int, attribute: Attribute) -> list[int]:
        """Return the values of an attribute of an entity."""

    def values_of_many(self, entities: Codes, attribute: Attribute) -> tuple[Codes, Codes]:
        """Return (positions in `entities`, values): one pair per value of each entity."""

    def contains_many(self, entities: Codes, codes: Codes, attribute: Attribute) -> Mask:
        """Return whether each entity has the value in the same row."""

    def all_values(self, attribute: Attribute) -> tuple[Codes, Codes]:
        """Return (entities, values) of all facts of an attribute, in the order of entities."""

    def entities(self, attribute: Attribute, code: int) -> list[int]:
        """Return the entities that have the value."""

    def entities_of_many(self, codes: Codes, attribute: Attribute) -> tuple[Codes, Codes]:
        """Return (positions in `codes`, entities): one pair per entity that has the value."""

    def entity_datoms(self, entity: int) -> list[tuple[int, int]]:
        """Return (attribute id, value) of all facts about the entity."""

    def references_to(self, entity: int) -> list[tuple[int, int]]:
        """Return (entity, attribute id) of all facts whose value is a reference to the entity."""
