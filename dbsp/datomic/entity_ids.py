"""Entity ids from what users write: an id, an ident such as `:color/red`, or a lookup ref."""

from __future__ import annotations

from typing import Any

from dbsp.data.finder import Finder
from dbsp.datomic import system_idents as system
from dbsp.datomic.database_facts import Facts
from dbsp.datomic.database_schema import Attribute
from dbsp.datomic.value_codes import encode_one
from dbsp.edn.edn_values import Keyword
from dbsp.errors import InputError, shorten
from dbsp.kernels.limits import INT64_MAX, INT64_MIN


def entity_id(facts: Facts, entity: Any) -> int | None:
    """Return the id of an entity; None if an ident or a lookup ref has no entity.

    Parameters:
        facts: the database.
        entity: an id, an ident (a `Keyword` or ":color/red"), or a lookup ref: an attribute with
            unique values and its value, `(":person/email", "ada@example.com")`. The value of an
            attribute of type ref may be an ident or a lookup ref, too.

    Raises:
        InputError: it is none of these.
        SchemaError: the attribute of a lookup ref does not exist.

    Cost: O(log n).
    """
    if isinstance(entity, int) and not isinstance(entity, bool):
        if not INT64_MIN <= entity <= INT64_MAX:
            raise InputError(
                f"expected the id of an entity, from 1 to 2**42 - 1, got {shorten(entity)}",
                code="unknown-entity",
            )
        return entity
    ident = as_keyword(entity)
    if ident is not None:
        known = facts.schema.entid(ident)
        return _owner(facts, facts.schema.by_id[system.IDENT], ident) if known is None else known
    name = as_keyword(entity[0]) if isinstance(entity, list | tuple) and len(entity) == 2 else None
    if name is None:
        raise InputError(
            "expected the id of an entity, an ident such as :color/red or a lookup ref such as "
            f'[:person/email "ada@example.com"], got {shorten(entity)}',
            code="unknown-entity",
        )
    attribute = facts.schema.by_ident.get(name)
    if attribute is None and facts.schema.open:
        return None
    attribute = facts.schema.attribute(name)
    if attribute.unique is None:
        raise InputError(
            f"lookup ref {shorten(list(entity))}: the values of {name} are not unique; use an attribute with "
            ":db/unique",
            code="unknown-entity",
        )
    value = entity[1]
    if attribute.is_ref:
        value = entity_id(facts, value)
        return None if value is None else next(iter(facts.entities(attribute, value)), None)
    return _owner(facts, attribute, value)


def as_keyword(name: Any) -> Keyword | None:
    """Return a keyword that is given as a `Keyword` or as a string that starts with ":".

    Returns None for everything else.
    """
    if isinstance(name, Keyword):
        return name
    return Keyword(name[1:]) if isinstance(name, str) and name.startswith(":") and len(name) > 1 else None


def _owner(facts: Facts, attribute: Attribute, value: Any) -> int | None:
    """Return the entity with a unique value, or None. Adds nothing to the interner."""
    try:
        code = encode_one(attribute, value, Finder(facts.interner))
    except KeyError:
        return None
    return next(iter(facts.entities(attribute, code)), None)
