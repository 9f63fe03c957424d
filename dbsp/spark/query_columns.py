"""Map the rows of a query over facts to columns of Spark.

Longs, refs, doubles and strings have a Spark type; the type of other columns is given, since a
value of a query has no declared type. A text stands for a keyword, a symbol, a character or a UUID,
and a timestamp for an instant.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, Final

import pyarrow as pa

from dbsp.compiler.datomic.tree import query_tree as tree
from dbsp.data.frames import decode_table
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.data.types import Type
from dbsp.data.zset import ZSet
from dbsp.datomic.query import BoundQuery
from dbsp.edn.edn_values import Char, Keyword, Symbol
from dbsp.errors import InputError, SchemaError, shorten
from dbsp.lazy_dataclass import dataclass
from dbsp.spark.spark_types import arrow_types, as_struct, conform, schema_of, struct_of

_TEXTS: Final = (Keyword, Symbol, Char, uuid.UUID)
_CLASSES: Final[Mapping[str, tuple[type, ...]]] = {
    "int": (int,),
    "float": (float, int),
    "bool": (bool,),
    "str": (str,),
    "bytes": (bytes,),
    "date": (dt.date,),
    "timestamp": (dt.datetime,),
}


@dataclass(frozen=True)
class QueryColumns:
    """The columns of the rows of a query."""

    schema: Schema
    struct: Any
    """The Spark schema."""

    def zset(self, pairs: Iterable[tuple[tuple[Any, ...], int]]) -> ZSet:
        """Return rows with their weights. Raises SchemaError for a value of another type."""
        listed = list(pairs)
        columns = [[self._plain(at, row[at]) for row, _ in listed] for at in range(len(self.schema.names))]
        return ZSet.from_rows(
            zip(*columns, strict=True), [weight for _, weight in listed], schema=self.schema
        )

    def table(self, rows: Iterable[tuple[Any, ...]]) -> pa.Table:
        """Return rows in their order as a table with the Spark types."""
        interner = Interner()
        plain = [tuple(self._plain(at, value) for at, value in enumerate(row)) for row in rows]
        codes = self.schema.encode_rows(plain, interner)
        table = decode_table(codes, self.schema, interner, arrow_types(self.struct))
        return conform(table, self.struct)

    def _plain(self, at: int, value: Any) -> Any:
        """Return a value of a query as the value of its column."""
        kind = self.schema.types[at].kind
        if value is None or kind == "object":
            return value
        if kind == "str" and isinstance(value, _TEXTS):
            prefix = ":" if isinstance(value, Keyword) else ""
            return f"{prefix}{getattr(value, 'text', value)}"
        if not isinstance(value, _CLASSES[kind]) or (isinstance(value, bool) and kind != "bool"):
            raise SchemaError(
                f"column {self.schema.names[at]!r}: expected values for the Spark type"
                f" {self.struct[at].dataType.simpleString()}, got {shorten(value)} of type"
                f" {type(value).__name__}; give the column another type with schema=...",
                code="schema-mismatch",
            )
        if isinstance(value, dt.datetime) and value.tzinfo is not None:
            return value.astimezone(dt.UTC).replace(tzinfo=None)
        return value


def query_columns(bound: BoundQuery, given: Any) -> QueryColumns:
    """Return the columns of a query; `given` are the Spark types of some of them.

    Raises SchemaError for a column without a type or a unique name, InputError for maps as rows.
    """
    query = bound.query
    names = _names(query)
    found = bound.compiled.program.live_graph.nodes[-1].schema
    chosen = {} if given is None else {field.name: field for field in as_struct(given).fields}
    types: list[Type] = []
    for name, type_ in zip(names, found.types, strict=True):
        if type_.kind == "object":
            if name not in chosen:
                raise SchemaError(
                    f"the Spark type of column {name!r} is unknown; give it, for example"
                    f" schema='{name} timestamp'",
                    code="invalid-type",
                )
            struct = as_struct(given)
            type_ = schema_of(type(struct)([chosen[name]])).types[0].optional()
        types.append(type_)
    schema = Schema(names, tuple(types))
    return QueryColumns(schema, struct_of(schema, given))


def _names(query: tree.Query) -> tuple[str, ...]:
    """Return the names of the columns: those of `:keys`, or the variables without `?`."""
    labels = query.labels
    names = tuple(map(_name, query.find.elements)) if labels is None else labels.names
    for name in names:
        if names.count(name) > 1:
            raise SchemaError(
                f"the query has two columns {name!r}; name the columns with :keys", code="duplicate-column"
            )
    return names


def _name(element: Any) -> str:
    if isinstance(element, tree.FindPull):
        raise InputError(
            "a pull expression returns maps, which a table cannot hold; find the values with variables",
            code="invalid-find",
        )
    variable: str = element.variable.name.removeprefix("?")
    if isinstance(element, tree.FindAggregate):
        function = element.function
        called = function.name.removeprefix("?") if isinstance(function, tree.Variable) else function
        return f"{called}_{variable}"
    return variable
