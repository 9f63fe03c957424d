"""Reads ranges of the indices `:eavt`, `:aevt`, `:avet` and `:vaet`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from dbsp.data.values import encode_value
from dbsp.datomic.database_schema import Attribute
from dbsp.datomic.datom import Datom
from dbsp.datomic.datom_rows import datoms_from, in_order
from dbsp.datomic.entity_ids import as_keyword, entity_id
from dbsp.datomic.entity_ranges import TX0
from dbsp.datomic.fact_lookups import FactLookups, rows_with_prefix
from dbsp.datomic.relation_key import COLUMNS, Order, RelationKey
from dbsp.datomic.value_codes import canonical
from dbsp.errors import ArgumentError, InputError, SchemaError, shorten
from dbsp.kernels.arrays import Codes

_E, _A, _V, _TX = range(4)

_INDEXES: Final = {
    "eavt": (_E, _A, _V, _TX),
    "aevt": (_A, _E, _V, _TX),
    "avet": (_A, _V, _E, _TX),
    "vaet": (_V, _A, _E, _TX),
}
"""The columns of each index, in its order."""


def datoms_in(facts: FactLookups, history: bool, index: Any, components: Sequence[Any]) -> list[Datom]:
    """Return the datoms of an index that start with these components, in the order of the index."""
    order = _columns(index)
    if len(components) > len(order):
        raise ArgumentError(f"{index} expects at most 4 components, got {len(components)}")
    bound: dict[int, int] = {}
    attribute: Attribute | None = None
    # The attribute first: it says what the code of a value is.
    for column, component in sorted(zip(order, components, strict=False), key=lambda pair: pair[0] != _A):
        code: int | None
        if column == _A:
            attribute = _attribute(facts, component)
            code = attribute.id
        elif column == _V and order[0] != _V and attribute is not None and not attribute.is_ref:
            value = canonical(attribute, component)
            code = encode_value(attribute.type, value, facts.interner)
        elif column == _TX:
            code = _transaction(component)
        else:
            code = entity_id(facts, component)
        if code is None:
            return []
        bound[column] = code
    if order[0] == _V:
        attributes = [each for each in facts.schema.by_id.values() if each.is_ref]
        chosen = attributes if attribute is None else [each for each in attributes if each is attribute]
        parts = [_rows(facts, history, each, bound) for each in chosen]
        rows = np.concatenate(parts) if parts else np.empty((0, 5), np.int64)
    else:
        rows = _rows(facts, history, attribute, bound)
    for column, code in bound.items():
        rows = rows[rows[:, column] == code]
    rows = in_order(rows, (*order, 4), facts.schema, facts.interner)
    return datoms_from(rows, facts.schema, facts.interner)


def _rows(facts: FactLookups, history: bool, attribute: Attribute | None, bound: dict[int, int]) -> Codes:
    """Return the rows of an attribute, or of all, with the bound entity or the bound value."""
    names: Order = ("e", "v", "tx") if attribute is not None else ("e", "a", "v", "tx")
    names += ("added",) if history else ()
    key = RelationKey(None if attribute is None else attribute.id, names)
    lead = "e" if _E in bound else "v" if _V in bound else ""
    order = (*(name for name in names if name == lead), *(name for name in names if name != lead))
    prefix = [bound[{"e": _E, "v": _V}[lead]]] if lead else []
    found = rows_with_prefix(facts.trace(key, order), prefix)
    columns = {name: found[:, place] for place, name in enumerate(order[len(prefix) :])}
    rows = np.ones((len(found), 5), np.int64)
    for place, name in enumerate(COLUMNS):
        if name in columns:
            rows[:, place] = columns[name]
    if lead:
        rows[:, COLUMNS.index(lead)] = prefix[0]
    if attribute is not None:
        rows[:, _A] = attribute.id
    return rows


def _columns(index: Any) -> tuple[int, ...]:
    name = as_keyword(index)
    columns = _INDEXES.get(name.text if name is not None else str(index))
    if columns is None:
        raise ArgumentError(f"datoms: expected the index :eavt, :aevt, :avet or :vaet, got {shorten(index)}")
    return columns


def _attribute(facts: FactLookups, component: Any) -> Attribute:
    name = as_keyword(component)
    if name is not None:
        return facts.schema.attribute(name)
    found = facts.schema.by_id.get(component) if isinstance(component, int) else None
    if found is None:
        raise SchemaError(
            f"datoms: expected an attribute such as :person/name, got {shorten(component)}",
            code="unknown-attribute",
        )
    return found


def _transaction(component: Any) -> int:
    if not isinstance(component, int) or isinstance(component, bool) or component < 0:
        raise InputError(
            f"datoms: expected a transaction as t or as its id, got {shorten(component)}",
            code="unknown-entity",
        )
    return component if component >= TX0 else TX0 + component
