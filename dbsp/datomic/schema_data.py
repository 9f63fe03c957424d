"""Schemas as DataScript writes them: a map from attributes to what defines them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dbsp.edn.edn_reader import read
from dbsp.errors import InputError, shorten

_CARDINALITY = ":db/cardinality"


def schema_transaction(schema: Any) -> Any:
    """Return the transaction data of a schema.

    A schema is a map `{:person/name {:db/valueType :db.type/string}}`, where cardinality one is the
    default, or transaction data; as EDN text or Python data.

    Raises InputError for a map with anything but maps as its values.
    """
    if isinstance(schema, str):
        schema = read(schema, "<schema>")
    if not isinstance(schema, Mapping):
        return schema
    forms = []
    for name, definition in schema.items():
        if definition is not None and not isinstance(definition, Mapping):
            raise InputError(
                f"schema: expected a map for {shorten(name)}, such as "
                f"{{':db/cardinality': ':db.cardinality/many'}}, got {shorten(definition)}",
                code="invalid-schema",
            )
        properties = {_text(key): value for key, value in (definition or {}).items()}
        forms.append({":db/ident": name, _CARDINALITY: ":db.cardinality/one", **properties})
    return forms


def _text(key: Any) -> str:
    return key if isinstance(key, str) else repr(key)
