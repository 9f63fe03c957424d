"""The ids of the entities that every database starts with: the attributes of the schema itself.

The ids are part of the format of stored databases: never change one, add new ones at the end.
"""

from __future__ import annotations

from typing import Final

from dbsp.datomic.entity_ranges import DB0

IDENT: Final = DB0 + 1
VALUE_TYPE: Final = DB0 + 2
CARDINALITY: Final = DB0 + 3
UNIQUE: Final = DB0 + 4
IS_COMPONENT: Final = DB0 + 5
INDEX: Final = DB0 + 6
DOC: Final = DB0 + 7
NO_HISTORY: Final = DB0 + 8
TUPLE_ATTRS: Final = DB0 + 9
TUPLE_TYPE: Final = DB0 + 10
TUPLE_TYPES: Final = DB0 + 11
TX_INSTANT: Final = DB0 + 12

SYSTEM_ATTRIBUTES: Final = {
    # id: (ident, value type, documentation)
    IDENT: (
        "db/ident",
        "keyword",
        "The name of an entity, such as an attribute or a member of an enumeration",
    ),
    VALUE_TYPE: ("db/valueType", "ref", "The type of the values of an attribute"),
    CARDINALITY: ("db/cardinality", "ref", "Whether an entity has one value of an attribute or many"),
    UNIQUE: ("db/unique", "ref", "Whether each value of an attribute belongs to at most one entity"),
    IS_COMPONENT: ("db/isComponent", "boolean", "Whether the values of a ref are parts of the entity"),
    INDEX: ("db/index", "boolean", "Whether the values of an attribute are indexed; they always are"),
    DOC: ("db/doc", "string", "A text about an entity"),
    NO_HISTORY: ("db/noHistory", "boolean", "Whether the past values of an attribute are dropped"),
    TUPLE_ATTRS: ("db/tupleAttrs", "tuple", "The attributes whose values a composite tuple holds"),
    TUPLE_TYPE: ("db/tupleType", "keyword", "The type of all elements of a tuple"),
    TUPLE_TYPES: ("db/tupleTypes", "tuple", "The type of each element of a tuple"),
    TX_INSTANT: ("db/txInstant", "instant", "The time of a transaction"),
}

VALUE_TYPES: Final = (
    "long",
    "double",
    "float",
    "boolean",
    "string",
    "keyword",
    "symbol",
    "ref",
    "instant",
    "uuid",
    "uri",
    "bigint",
    "bigdec",
    "bytes",
    "tuple",
)
"""The value types by the names of their idents, in the order of their ids."""

TYPE_IDS: Final = {name: DB0 + 32 + place for place, name in enumerate(VALUE_TYPES)}
TYPE_NAMES: Final = {id_: name for name, id_ in TYPE_IDS.items()}

CARDINALITY_ONE: Final = DB0 + 64
CARDINALITY_MANY: Final = DB0 + 65
UNIQUE_NAMES: Final = {DB0 + 66: "identity", DB0 + 67: "value"}

FUNCTIONS: Final = {
    "db/add": DB0 + 80,
    "db/retract": DB0 + 81,
    "db/retractEntity": DB0 + 82,
    "db/cas": DB0 + 83,
    "db.fn/retractEntity": DB0 + 84,
    "db.fn/cas": DB0 + 85,
    "db.fn/call": DB0 + 86,
}

FIRST_ATTRIBUTE: Final = DB0 + 128
"""The id of the first attribute of the user."""

SYSTEM_NAMES: Final = {
    **{id_: name for id_, (name, _, _) in SYSTEM_ATTRIBUTES.items()},
    **{id_: f"db.type/{name}" for name, id_ in TYPE_IDS.items()},
    CARDINALITY_ONE: "db.cardinality/one",
    CARDINALITY_MANY: "db.cardinality/many",
    **{id_: f"db.unique/{name}" for id_, name in UNIQUE_NAMES.items()},
    DB0 + 68: "db.part/db",
    DB0 + 69: "db.part/user",
    DB0 + 70: "db.part/tx",
    **{id_: name for name, id_ in FUNCTIONS.items()},
}
"""All idents of a new database, by id."""
