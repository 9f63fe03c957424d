"""How a database value shows its entities: ids and idents, pulled facts, and lazy mappings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dbsp.datomic import system_idents as system
from dbsp.datomic.entity import Entity, entity_of
from dbsp.datomic.entity_ids import entity_id
from dbsp.datomic.fact_lookups import FactLookups
from dbsp.datomic.pull import Pulled, pull, pull_many
from dbsp.datomic.pull_syntax import parse_pattern
from dbsp.datomic.value_codes import decode_one
from dbsp.edn.edn_values import Keyword
from dbsp.errors import ArgumentError, wrong_argument

Functions = Mapping[str, Callable[[Any], Any]]


class EntityAccess(ABC):
    """The methods of a `Database` about entities."""

    __slots__ = ()

    @property
    @abstractmethod
    def facts(self) -> FactLookups:
        """The facts by code."""

    @property
    @abstractmethod
    def is_history(self) -> bool:
        """Whether the facts are all datoms, also retracted facts."""

    def entid(self, entity: Any) -> int | None:
        """Return the id of an entity.

        Cost: O(log n).

        Parameters:
            entity: an id, an ident such as `:color/red`, or a lookup ref: an attribute with unique
                values and a value, such as `(":person/email", "ada@example.com")`.

        Returns:
            The id; None if no entity has the ident or the value.

        Raises:
            InputError: the argument is none of these.
            SchemaError: the attribute of a lookup ref does not exist.

        Examples:
            >>> from dbsp.datomic import connect
            >>> conn = connect(schema={":email": {":db/unique": ":db.unique/identity"}})
            >>> _ = conn.transact([{":db/id": 7, ":email": "ada@example.com"}])
            >>> conn.db().entid((":email", "ada@example.com")), conn.db().entid((":email", "x"))
            (7, None)
        """
        return entity_id(self.facts, entity)

    def ident(self, entity: Any) -> Keyword | None:
        """Return the ident of an entity, as its `:db/ident` says.

        Cost: O(log n).

        Parameters:
            entity: as for `entid`.

        Returns:
            The ident; None if it has none.

        Raises:
            InputError: the argument is none of the forms of an entity.

        Examples:
            >>> from dbsp.datomic import connect
            >>> conn = connect()
            >>> _ = conn.transact([{":db/id": 1, ":db/ident": ":color/red"}])
            >>> conn.db().ident(1), conn.db().ident(2)
            (:color/red, None)
        """
        id_ = self.entid(entity)
        if id_ is None:
            return None
        known = self.facts.schema.ident(id_)
        if known is not None:
            return known
        attribute = self.facts.schema.by_id[system.IDENT]
        codes = self.facts.values(id_, attribute)
        found: Keyword | None = decode_one(attribute, codes[0], self.facts.interner) if codes else None
        return found

    def pull(self, pattern: Any, entity: Any, *, functions: Functions | None = None) -> Pulled:
        """Return the facts about an entity that a pattern selects.

        Cost: O(log n) per attribute, and the values.

        Parameters:
            pattern: EDN text such as `[:person/name {:person/friend [:person/name]}]`, EDN values,
                or Python data; the reference of pull patterns has all forms.
            entity: as for `entid`.
            functions: functions that symbols after `:xform` name, besides those of queries.

        Returns:
            A dict with keywords as keys; None if nothing is selected. If no entity has the ident or
            the value, `:db/id` is None.

        Raises:
            CompileError: the pattern has an error; the text shows its place.
            InputError: the entity is none of the forms of an entity.
            UserFunctionError: a function of `:xform` raises an exception.
            ArgumentError: the database is a history, which has no facts at one time.

        Examples:
            >>> from dbsp.datomic import connect
            >>> conn = connect(schema={":name": {}, ":friend": {":db/valueType": ":db.type/ref"}})
            >>> ada, grace = {":db/id": 1, ":name": "Ada", ":friend": 2}, {":db/id": 2, ":name": "Grace"}
            >>> _ = conn.transact([ada, grace])
            >>> conn.db().pull("[:name {:friend [:name]}]", 1)
            {:name: 'Ada', :friend: {:name: 'Grace'}}
        """
        return pull(self._present("pull"), parse_pattern(pattern, functions=functions), entity)

    def pull_many(
        self, pattern: Any, entities: Iterable[Any], *, functions: Functions | None = None
    ) -> list[Pulled]:
        """Return the facts about many entities that a pattern selects.

        Parameters:
            pattern: as for `pull`.
            entities: the entities, each as for `entid`.
            functions: as for `pull`.

        Returns:
            The results of `pull`, in the order of the entities.

        Raises:
            CompileError: the pattern has an error; the text shows its place.
            InputError: an entity is none of the forms of an entity.
            UserFunctionError: a function of `:xform` raises an exception.
            ArgumentError: the database is a history, which has no facts at one time, or `entities`
                is not a collection.

        Examples:
            >>> from dbsp.datomic import connect
            >>> conn = connect(schema={":name": {}})
            >>> _ = conn.transact([{":name": "Ada"}, {":name": "Grace"}])
            >>> conn.db().pull_many("[:name]", [2, 1, 3])
            [{:name: 'Grace'}, {:name: 'Ada'}, None]
        """
        facts = self._present("pull_many")
        if isinstance(entities, str) or not isinstance(entities, Iterable):
            raise wrong_argument("entities", "a list of entities", entities)
        return pull_many(facts, parse_pattern(pattern, functions=functions), entities)

    def entity(self, entity: Any) -> Entity | None:
        """Return an entity: a mapping that reads the facts about it when they are needed.

        Parameters:
            entity: as for `entid`.

        Returns:
            The entity, which may have no facts; None if no entity has the ident or the value.

        Raises:
            InputError: the argument is none of the forms of an entity.
            SchemaError: the attribute of a lookup ref does not exist.
            ArgumentError: the database is a history, which has no facts at one time.

        Examples:
            >>> from dbsp.datomic import connect
            >>> conn = connect(schema={":name": {}, ":friend": {":db/valueType": ":db.type/ref"}})
            >>> ada, grace = {":db/id": 1, ":name": "Ada", ":friend": 2}, {":db/id": 2, ":name": "Grace"}
            >>> _ = conn.transact([ada, grace])
            >>> conn.db().entity(1)[":friend"][":name"]
            'Grace'
        """
        return entity_of(self, self._present("entity"), entity)

    def _present(self, name: str) -> FactLookups:
        """Return the facts. Raises ArgumentError if they are a history."""
        if self.is_history:
            raise ArgumentError(
                f"{name}: expected a database at one time, got a history, which also has retracted facts; "
                "use as_of, or read its datoms"
            )
        return self.facts
