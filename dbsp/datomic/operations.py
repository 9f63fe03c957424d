"""Reads transaction data into columns: one pass over the forms, one column per attribute.

    [:db/add e a v] [:db/retract e a v] [:db/retract e a] [:db/retractEntity e]
    [:db/cas e a old new] [:db.fn/call f args...] {:db/id e, a v, ...}

A map form is one assertion per attribute; `dbsp.datomic.map_values` reads their nested maps,
collections and reverse attributes.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from dbsp.datomic.database_facts import Facts
from dbsp.datomic.database_schema import Attribute
from dbsp.datomic.datom import Datom
from dbsp.datomic.entity_references import EntityReferences
from dbsp.datomic.map_values import assert_value
from dbsp.datomic.operation_places import WHOLE, Element, OperationPlaces, as_ident, function_name
from dbsp.datomic.value_codes import described
from dbsp.edn.edn_values import Keyword, Symbol
from dbsp.errors import DbspError, UserFunctionError, cause_text, shorten

_PLAIN: Final = frozenset({str, int, float, bool, bytes, Keyword, Symbol, uuid.UUID, dt.datetime, Decimal})
"""Classes of values that stand for themselves in a map form."""
_NAMES: Final = frozenset({str, Keyword, int})

_OPERATIONS: Final = {
    "db/add": "add",
    "db/retract": "retract",
    "db/retractEntity": "retract entity",
    "db.fn/retractEntity": "retract entity",
    "db/cas": "cas",
    "db.fn/cas": "cas",
    "db.fn/call": "call",
}
_IGNORED: Final = frozenset({"db.install/_attribute", "db.alter/_attribute"})
"""Keys of the map forms of earlier schemas, which have no meaning."""
_NO_COLUMNS: Final = {form: None for name in ("db/id", *_IGNORED) for form in (f":{name}", Keyword(name))}
_OPERATION_NAMES: Final = {
    form: operation for name, operation in _OPERATIONS.items() for form in (f":{name}", Keyword(name))
}
_SHAPES: Final = {
    "add": "[:db/add entity attribute value]",
    "retract": "[:db/retract entity attribute value] or [:db/retract entity attribute]",
    "retract entity": "[:db/retractEntity entity]",
    "cas": "[:db/cas entity attribute old-value new-value]",
    "call": "[:db.fn/call function argument ...]",
}
_LENGTHS: Final = {"add": (4, 4), "retract": (3, 4), "retract entity": (2, 2), "cas": (5, 5)}


class Column:
    """The assertions, or the retractions, about one attribute.

    Attributes:
        attribute: the attribute; of a reverse name, the one that it reverses.
        plain: the classes of values of map forms that need no other treatment.
        entities: ids or placeholders.
        values: the values; those of a ref are ids or placeholders.
        places: the places of the operations.
    """

    __slots__ = ("attribute", "entities", "places", "plain", "reverse", "values")

    def __init__(self, attribute: Attribute, reverse: bool = False) -> None:
        self.attribute = attribute
        self.reverse = reverse
        simple = not (reverse or attribute.is_ref or attribute.value_type == "tuple")
        self.plain: frozenset[type] = _PLAIN if simple else frozenset()
        self.entities: list[int] = []
        self.values: list[Any] = []
        self.places: list[int] = []

    def append(self, entity: int, value: Any, place: int) -> None:
        """Add a row."""
        self.entities.append(entity)
        self.values.append(value)
        self.places.append(place)


class Operations:
    """The operations of a transaction by column.

    Attributes:
        asserted, retracted: the rows by the id of their attribute.
        retracted_all: retractions of all values, of an attribute or (None) of an entity, each with
            its place.
        compared: rows (entity, attribute, old value, place) of `:db/cas`; an old value of None
            means that there is no value.
        new_attributes: the attributes that an open schema gets by this transaction.
    """

    def __init__(
        self, facts: Facts, places: OperationPlaces, references: EntityReferences, database: Any
    ) -> None:
        self.places = places
        self.references = references
        self.asserted: dict[int, Column] = {}
        self.retracted: dict[int, Column] = {}
        self.retracted_all: list[tuple[int, Attribute | None, int]] = []
        self.compared: list[tuple[int, Attribute, Any, int]] = []
        self.new_attributes: dict[Keyword, Attribute] = {}
        self._facts = facts
        self._database = database
        self._schema = facts.schema
        self._columns: dict[Any, Column | None] = dict(_NO_COLUMNS)
        self._forms: Sequence[Any] = ()

    def read(self, forms: Sequence[Any]) -> None:
        """Read the forms of a transaction, which have the places 0, 1, 2, ..."""
        self._forms = forms
        for place, form in enumerate(forms):
            self.read_form(form, place)

    def read_form(self, form: Any, place: int) -> None:
        """Read one form."""
        if isinstance(form, dict):
            self.read_map(form, place)
        elif isinstance(form, list | tuple) and form:
            if isinstance(form, Datom):
                self._read_datom(form, place)
            else:
                self._read_list(form, place)
        elif isinstance(form, Mapping):
            self.read_map(dict(form), place)
        else:
            raise self.error(
                place, f"expected an operation such as [:db/add ...] or a map, got {described(form)}"
            )

    def error(
        self, place: int, message: str, code: str = "invalid-transaction", part: Any = WHOLE
    ) -> DbspError:
        """Return the error for an operation; `part` is the value that it is about."""
        return self.places.error(place, message, code, part)

    # --- map forms --------------------------------------------------------------------------------

    def read_map(self, form: Mapping[Any, Any], place: int) -> int:
        """Read a map form and return its entity."""
        given = form.get(":db/id")
        if given is None:
            given = form.get(_DB_ID)
        if given is None:
            entity = self.references.placeholders.new(place)
        elif type(given) is int and given > 0:
            entity = given
        else:
            entity = self.references.entity(given, place)
        columns = self._columns
        for name, value in form.items():
            column = columns.get(name, _MISSING)
            if column is _MISSING:
                column = self._named_column(name, place)
            if column is None:
                continue
            if type(value) in column.plain:
                column.entities.append(entity)
                column.values.append(value)
                column.places.append(place)
            else:
                assert_value(self, column, entity, value, place)
        return entity

    def column(self, attribute: Attribute) -> Column:
        """Return the assertions about an attribute."""
        found = self.asserted.get(attribute.id)
        if found is None:
            found = self.asserted[attribute.id] = Column(attribute)
        return found

    def _named_column(self, name: Any, place: int) -> Column | None:
        """Return the column of a key of a map form that is new in this transaction."""
        ident = self._ident(name, place)
        reversed_ = (
            ident is not None
            and ident.name.startswith("_")
            and len(ident.name) > 1
            and ident not in self._schema.by_ident
        )
        if ident is not None and reversed_:
            prefix = f"{ident.namespace}/" if ident.namespace else ""
            forward = self.attribute(Keyword(prefix + ident.name[1:]), place)
            if not forward.is_ref:
                raise self.error(
                    place,
                    f"{ident} reverses {forward}, which is not a ref; only refs can be reversed",
                    part=ident,
                )
            column = Column(forward, reverse=True)
        else:
            column = self.column(self.attribute(name, place))
        self._columns[name] = column
        return column

    # --- lists ------------------------------------------------------------------------------------

    def _read_list(self, form: Any, place: int) -> None:
        name = form[0]
        operation = _OPERATION_NAMES.get(name) if type(name) in _NAMES else None
        if operation == "add" and len(form) == 4:
            attribute_name = form[2]
            column = self._columns.get(attribute_name) if type(attribute_name) in _NAMES else None
            if column is None or column.reverse:
                column = self.column(self.attribute(attribute_name, place))
                self._columns[attribute_name] = column
            entity, value = form[1], form[3]
            if type(entity) is not int or entity <= 0:
                entity = self.references.entity(entity, place)
            if column.attribute.is_ref:
                value = self.references.entity(value, place)
            elif type(value) not in column.plain:
                value = self.references.plain_value(column.attribute, value, place)
            column.append(entity, value, place)
            return
        if callable(name) or operation == "call":
            self._call(form if callable(name) else form[1:], place)
            return
        if operation is None:
            raise self.error(
                place,
                f"expected an operation such as :db/add, got {described(name)}; "
                f"the operations are {', '.join(f':{each}' for each in _OPERATIONS)}",
            )
        least, most = _LENGTHS[operation]
        if not least <= len(form) <= most:
            raise self.error(place, f"expected {_SHAPES[operation]}, got {len(form)} elements")
        if operation == "retract entity":
            self.retracted_all.append((self.references.known_entity(form[1], place), None, place))
        elif operation == "retract":
            self._retract(form, place)
        else:
            self._compare_and_set(form, place)

    def _retract(self, form: Any, place: int) -> None:
        if self._schema.open and self._unknown(form[2]):
            return
        attribute = self.attribute(form[2], place)
        if attribute.tuple_attributes:
            parts = " ".join(map(str, attribute.tuple_attributes))
            raise self.error(
                place,
                f"the composite tuple {attribute} is computed; retract the values of [{parts}]",
                part=attribute.ident,
            )
        entity = self.references.known_entity(form[1], place)
        if len(form) == 3:
            self.retracted_all.append((entity, attribute, place))
            return
        value = form[3]
        if attribute.is_ref:
            value = self.references.known_entity(value, place)
        elif type(value) not in _PLAIN:
            value = self.references.plain_value(attribute, value, place)
        column = self.retracted.get(attribute.id)
        if column is None:
            column = self.retracted[attribute.id] = Column(attribute)
        column.append(entity, value, place)

    def _compare_and_set(self, form: Any, place: int) -> None:
        _, raw, name, old, new = form
        attribute = self.attribute(name, place)
        if attribute.many:
            raise self.error(
                place,
                f":db/cas needs an attribute of cardinality one, {attribute} has cardinality many",
                part=attribute.ident,
            )
        if new is None:
            raise self.error(
                place,
                "the new value of :db/cas is nil; use :db/retract to remove a value",
                part=Element(4),
            )
        entity = self.references.known_entity(raw, place)
        if attribute.is_ref:
            old = None if old is None else self.references.known_entity(old, place)
            new = self.references.entity(new, place)
        else:
            old = self.references.plain_value(attribute, old, place)
            new = self.references.plain_value(attribute, new, place)
        self.compared.append((entity, attribute, old, place))
        self.column(attribute).append(entity, new, place)

    def _read_datom(self, datom: Datom, place: int) -> None:
        operation = ":db/add" if datom.added else ":db/retract"
        self._read_list((operation, datom.e, datom.a, datom.v), place)

    def _call(self, call: Any, place: int) -> None:
        """Call a transaction function and read the forms that it returns."""
        if not call or not callable(call[0]):
            raise self.error(place, f"expected {_SHAPES['call']} with a callable as function")
        function: Callable[..., Any] = call[0]
        try:
            result = function(self._database, *call[1:])
        except Exception as error:
            message = f"the transaction function {function_name(function)} raised {cause_text(error)}"
            raise self.places.located(place, UserFunctionError(message)) from error
        if result is None:
            return
        if not isinstance(result, list | tuple):
            raise self.error(
                place,
                f"the transaction function {function_name(function)} must return a list of operations, got "
                f"{shorten(result)} of type {type(result).__name__}",
            )
        for position, form in enumerate(result):
            self.read_form(form, self.places.returned(place, position, form))

    # --- attributes -------------------------------------------------------------------------------

    def attribute(self, name: Any, place: int) -> Attribute:
        """Return an attribute by its keyword, its text or its entity."""
        if type(name) is int:
            found = self._schema.by_id.get(name)
            if found is None:
                raise self.error(place, f"entity {name} is not an attribute", code="unknown-attribute")
            return found
        ident = self._ident(name, place)
        if ident is None:
            hint = f'; write ":{name}"' if type(name) is str and name else ""
            raise self.error(
                place, f"expected an attribute such as :person/name, got {described(name)}{hint}", part=name
            )
        found = self._schema.by_ident.get(ident) or self.new_attributes.get(ident)
        if found is not None:
            return found
        if self._defines(ident):
            raise self.error(
                place,
                f"attribute {ident} is defined in the same transaction; transact its definition first",
                code="unknown-attribute",
                part=ident,
            )
        entity = self.references.found_ident(ident)
        if entity is not None:
            raise self.error(
                place,
                f"{ident} is the ident of entity {entity}, which is not an attribute; a definition has a "
                ":db/valueType or a :db/cardinality",
                code="unknown-attribute",
                part=ident,
            )
        if not self._schema.open:
            raise self.places.located(place, self._schema.unknown(ident), ident)
        if is_reserved(ident):
            raise self.error(
                place, f"the namespace of {ident} is reserved for the system", code="invalid-schema"
            )
        found = Attribute(self._facts.next_schema_entity + len(self.new_attributes), ident)
        self.new_attributes[ident] = found
        return found

    def _ident(self, name: Any, place: int) -> Keyword | None:
        try:
            return as_ident(name)
        except DbspError as error:
            raise self.places.located(place, error) from None

    def _unknown(self, name: Any) -> bool:
        ident = as_ident(name)
        return ident is not None and ident not in self._schema.by_ident

    def _defines(self, ident: Keyword) -> bool:
        """Whether the transaction itself defines an attribute."""
        maps = (form for form in self._forms if isinstance(form, dict))
        return any(ident in (as_ident(form.get(":db/ident")), form.get(_DB_IDENT)) for form in maps)


_DB_ID: Final = Keyword("db/id")
_DB_IDENT: Final = Keyword("db/ident")
_MISSING: Final = Column(Attribute(0, Keyword("db/missing")))


def is_reserved(ident: Keyword) -> bool:
    """Whether the namespace of an ident belongs to the system: `db`, `db.type`, ..."""
    return ident.namespace is not None and ident.namespace.split(".")[0] == "db"
