"""The forms in which a transaction names an entity.

17                              an id
:color/red                      an ident
[:person/email "ada@x.org"]     a lookup ref
"ada", -1, #db/id [:db.part/user -1]    a tempid
"datomic.tx", :db/current-tx    the transaction itself
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from dbsp.datomic import system_idents as system
from dbsp.datomic.database_facts import Facts
from dbsp.datomic.database_schema import Attribute
from dbsp.datomic.operation_places import WHOLE, OperationPlaces, as_ident, form_text, value_text
from dbsp.datomic.placeholders import Placeholders
from dbsp.datomic.value_codes import decode_one, described, encode_one
from dbsp.edn.edn_values import Keyword, Tagged
from dbsp.errors import DbspError, InputError

_TRANSACTION_NAMES: Final = frozenset({"datomic.tx", "datascript.tx", ":db/current-tx"})


class EntityReferences:
    """Turns the forms that name an entity into ids and placeholders.

    Parameters:
        facts: the database before the transaction.
        places: the places of the operations, for errors.
        tx: the entity of the transaction.
    """

    def __init__(self, facts: Facts, places: OperationPlaces, tx: int) -> None:
        self._facts = facts
        self._places = places
        self._tx = tx
        self._idents: dict[Keyword, int] = {}
        self.placeholders = Placeholders()
        self.transaction_names: list[Any] = []

    def entity(self, form: Any, place: int) -> int:
        """Return the entity of an assertion, or the one that its value is."""
        return self._reference(form, place, tempids=True)

    def known_entity(self, form: Any, place: int) -> int:
        """Return an entity that a transaction may not create."""
        return self._reference(form, place, tempids=False)

    def plain_value(self, attribute: Attribute, value: Any, place: int) -> Any:
        """Return the value of an attribute that is not a ref.

        Idents and lookup refs in a tuple are replaced by their entities.
        """
        types = attribute.tuple_types or (attribute.tuple_type,)
        if attribute.value_type != "tuple" or "ref" not in types or not isinstance(value, list | tuple):
            return value
        if not attribute.tuple_types:
            types = types * len(value)
        elements = list(value)
        for at, type_ in enumerate(types[: len(elements)]):
            if type_ == "ref" and elements[at] is not None:
                entity = self._reference(elements[at], place, tempids=False)
                elements[at] = self.found_now(entity, elements[at], place)
        return tuple(elements)

    def is_unique(self, ident: Keyword) -> bool:
        """Whether a name is that of a unique attribute."""
        attribute = self._facts.schema.by_ident.get(ident)
        return attribute is not None and attribute.unique is not None

    def is_lookup(self, form: Any) -> bool:
        """Whether a list is a lookup ref: the name of a unique attribute and a value."""
        if len(form) != 2:
            return False
        ident = as_ident(form[0])
        return ident is not None and self.is_unique(ident)

    def found_now(self, entity: int, form: Any, place: int) -> int:
        """Return the id of an entity, for which a lookup ref may be a placeholder."""
        if entity >= 0:
            return entity
        attribute, code = self.placeholders.lookup_of(entity)
        found = self._facts.entities(attribute, code)
        if not found:
            value = decode_one(attribute, code, self._facts.interner)
            raise self._places.located(place, no_entity(attribute, value), form)
        return found[0]

    def _reference(self, form: Any, place: int, *, tempids: bool) -> int:
        if isinstance(form, np.integer) or (not isinstance(form, int) and hasattr(form, "__index__")):
            form = form.__index__()
        if type(form) is int and form > 0:
            return form
        if type(form) is str and form[:1] != ":":
            if form in _TRANSACTION_NAMES:
                return self._transaction(form)
            return self._tempid(form, form, place, tempids)
        if type(form) is int and form < 0:
            return self._tempid(form, form, place, tempids)
        if isinstance(form, Tagged):
            return self._tagged(form, place, tempids)
        if isinstance(form, list | tuple):
            return self._lookup(form, place)
        ident = self._located(lambda: as_ident(form), place, form)
        if ident is None:
            raise self._error(
                place,
                f"expected an entity: an id, a tempid, an ident or a lookup ref, got {described(form)}",
                part=form,
            )
        if f":{ident.text}" in _TRANSACTION_NAMES:
            return self._transaction(form)
        found = self.found_ident(ident)
        if found is None:
            raise self._error(place, f"no entity has the ident {ident}", part=ident)
        return found

    def _transaction(self, form: Any) -> int:
        if form not in self.transaction_names:
            self.transaction_names.append(form)
        return self._tx

    def _tempid(self, key: Any, form: Any, place: int, allowed: bool) -> int:
        if not allowed:
            raise self._error(
                place,
                f"the tempid {value_text(form)} is a new entity, and this operation needs a known one; "
                "use an id, an ident or a lookup ref",
                code="invalid-tempid",
                part=form,
            )
        return self.placeholders.tempid(key, place)

    def _tagged(self, form: Tagged, place: int, allowed: bool) -> int:
        """Return the entity of `#db/id [:db.part/user -1]`."""
        parts = form.value
        if form.tag.text != "db/id" or not isinstance(parts, tuple) or not 1 <= len(parts) <= 2:
            raise self._error(place, f"expected #db/id [partition number], got {value_text(form)}", part=form)
        partition = as_ident(parts[0])
        if partition is Keyword("db.part/tx"):
            return self._transaction(form)
        if len(parts) == 1 and allowed:
            return self.placeholders.new(place)
        number = parts[-1]
        if len(parts) == 2 and (type(number) is not int or number >= 0):
            raise self._error(
                place, f"expected a negative number in #db/id, got {value_text(number)}", part=form
            )
        return self._tempid(number, form, place, allowed)

    def _lookup(self, form: Any, place: int) -> int:
        ident = self._located(lambda: as_ident(form[0]), place, form) if len(form) == 2 else None
        if ident is None:
            raise self._error(
                place, f"expected a lookup ref [unique-attribute value], got {described(form)}", part=form
            )
        attribute = self._located(lambda: self._facts.schema.attribute(ident), place, ident)
        if attribute.unique is None:
            raise self._error(
                place,
                f"the lookup ref {form_text(tuple(form))} needs a unique attribute, "
                f"{attribute} is not unique",
                part=form,
            )
        value = form[1]
        if attribute.is_ref:
            value = self.found_now(self.known_entity(value, place), value, place)
        value = self.plain_value(attribute, value, place)
        code = self._located(lambda: encode_one(attribute, value, self._facts.interner), place, form)
        return self.placeholders.lookup(attribute, code, place)

    def found_ident(self, ident: Keyword) -> int | None:
        """Return the entity with an ident."""
        found = self._facts.schema.entid(ident)
        if found is None:
            found = self._idents.get(ident)
        if found is None:
            attribute = self._facts.schema.by_id[system.IDENT]
            code = self._facts.interner.find(ident)
            entities = [] if code is None else self._facts.entities(attribute, code)
            if not entities:
                return None
            found = self._idents[ident] = entities[0]
        return found

    def _located(self, function: Callable[[], Any], place: int, part: Any) -> Any:
        try:
            return function()
        except DbspError as error:
            raise self._places.located(place, error, part) from None

    def _error(self, place: int, message: str, code: str = "unknown-entity", part: Any = WHOLE) -> DbspError:
        return self._places.error(place, message, code, part)


def no_entity(attribute: Attribute, value: Any) -> DbspError:
    """Return the error for a lookup ref without an entity."""
    return InputError(
        f"no entity has the {attribute} {value_text(value)}; a lookup ref finds entities of the database "
        "before the transaction",
        code="unknown-entity",
    )
