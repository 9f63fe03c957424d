"""Recognise how the lines of a fact file are written, for the error when they do not fit.

A table from elsewhere often has a first line of column names, or commas between the columns. The
error names the parameters of `.input` that read it, and the declared types of the columns. Files
that are not text are recognised by their first bytes.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping, Sequence

from dbsp.data.schema import Schema
from dbsp.errors import InputError
from dbsp.io.term_text import value_of

_DELIMITERS = ("\t", ",", ";", "|", " ")
_ARROW = (b"ARROW1\0\0", b"FEA1\0", b"\xff\xff\xff\xff")
"""The first bytes of Arrow files, of Feather files of version 1, and of Arrow streams."""
_PARQUET = b"PAR1"
"""The first and the last bytes of Parquet files."""
_WORD = re.compile(r'"?[^\W\d][\w .-]*"?\Z')


def has_empty_line(data: bytes) -> bool:
    """Return whether a line has no text.

    >>> has_empty_line(b"a\\n\\nb\\n"), has_empty_line(b"a\\r\\nb\\r\\n")
    (True, False)
    """
    begins = data[:5].removeprefix(codecs.BOM_UTF8).startswith((b"\n", b"\r\n"))
    return begins or b"\n\n" in data or b"\n\r\n" in data


def layout_hint(line: str, schema: Schema, delimiter: str, relation: str) -> str | None:
    """Return how to read a file whose first line has the wrong number of columns, if that is clear.

    >>> layout_hint("x,y", Schema.of(x=int, y=int), "\\t", "edge")
    'the columns are separated by commas; add delimiter=",", headers=true to .input edge'
    """
    for other in _DELIMITERS:
        cells = line.strip().split(other)
        if other == delimiter or len(cells) != schema.arity or len(cells) < 2:
            continue
        options = [f'delimiter="{_ESCAPED.get(other, other)}"']
        if other == "," and '"' in line:
            options = ["rfc4180=true"]
        if is_header(cells, schema):
            options.append("headers=true")
        return f"the columns are separated by {_NAMES[other]}; add {', '.join(options)} to .input {relation}"
    return None


def typed_columns(schema: Schema, declared: Mapping[str, str]) -> str:
    """Return the columns of a relation with their types, as `declared` if it has the column.

    >>> typed_columns(Schema.of(x=int, y=int), {"x": "number", "y": "Age"})
    'x: number, y: Age'
    """
    types = zip(schema.names, schema.types, strict=True)
    return ", ".join(f"{name}: {declared.get(name, type_)}" for name, type_ in types)


def an_arrow_file(relation: str) -> str:
    """Return what an Arrow file in place of facts is, and how to read it."""
    return (
        "an Arrow file; read it in Python with PyArrow and pass the table to run.step, or write the table "
        f"to a Parquet file and add IO=parquet to .input {relation}"
    )


def refuse_binary(data: bytes, file: str, relation: str = "NAME") -> None:
    """Raise InputError if a file of text lines is an Arrow or a Parquet file."""
    if data.startswith(_ARROW):
        found = an_arrow_file(relation)
    elif data.startswith(_PARQUET) and data.endswith(_PARQUET) and b"\0" in data:
        found = f"a Parquet file; add IO=parquet to .input {relation}"
    else:
        return
    raise InputError(f"expected lines of text, got {found}", where=file, code="unreadable-file")


def is_header(cells: Sequence[str], schema: Schema) -> bool:
    """Whether the cells of a first line are the names of the columns.

    They are if they equal the names of the relation, or if every column that is not a text has a
    word that does not fit its type.
    """
    words = [cell.strip().strip('"').lower() for cell in cells]
    if words == [name.lower() for name in schema.names]:
        return True
    places = [place for place, type_ in enumerate(schema.types) if type_.kind != "str"]
    named = all(_WORD.match(cells[place].strip()) for place in places)
    values = (_fits(cells[place].strip(), schema, place) for place in places)
    return bool(places) and named and not any(values) and "" not in words and len(set(words)) == len(words)


def _fits(cell: str, schema: Schema, place: int) -> bool:
    try:
        value_of(schema.types[place], cell)
    except ValueError:
        return False
    return True


_ESCAPED = {"\t": "\\t"}
_NAMES = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "vertical bars", " ": "blanks"}
