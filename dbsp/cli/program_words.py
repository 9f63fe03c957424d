"""Errors of tables in the words of a program: its types, in place of those of Python."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from dbsp.compiler.program import Program
from dbsp.data.plain_codes import ANY_INT
from dbsp.data.types import INT
from dbsp.data.weights import weight_name
from dbsp.errors import DbspError

_WORDS = {"int": "number", "str": "symbol"}
_ANY_NUMBER = "a number from -2^63 to 2^63-1"
_GOT_TYPE = re.compile(r" of type (int|str)(?=$|;)")
_GOT_NONE = "got None; to allow None, declare the column optional"


@contextmanager
def declared_types(program: Program, tables: Collection[str]) -> Iterator[None]:
    """Report errors of the rows of tables (Parquet, CSV, NDJSON) with the declared types."""
    try:
        yield
    except DbspError as error:
        for name in tables:
            if error.where is not None and error.where.startswith(f"relation '{name}'"):
                error.message = _worded(error.message, program, name)
        raise


def _worded(message: str, program: Program, name: str) -> str:
    schema, declared, ranges = program.inputs[name], program.type_names[name], program.ranges[name]
    columns = ", ".join(f"{column}: {declared[column]}" for column in schema.names)
    message = message.replace(f"({schema.describe()})", f"({columns})", 1)
    typed = [*zip(schema.names, schema.types, strict=True), (weight_name(schema), INT)]
    for column, type_ in typed:
        word = ranges[column].expected if column in ranges else _WORDS.get(str(type_), str(type_))
        place = f"column {column!r}: expected "
        for old, new in (
            (ANY_INT, _ANY_NUMBER),
            (f"{type_},", f"{word},"),
            (f"a column of type {type_},", f"a column of type {declared.get(column, 'number')},"),
        ):
            message = message.replace(f"{place}{old}", f"{place}{new}", 1)
    message = message.replace(_GOT_NONE, "got no value")
    return _GOT_TYPE.sub(lambda found: f" of type {_WORDS[found[1]]}", message)
