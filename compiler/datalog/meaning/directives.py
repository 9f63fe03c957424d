"""Where a relation's rows are read from and written to: the parameters of `.input` and `.output`.

The names and the defaults are Soufflé's. docs/reference/file-formats.md describes each of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from dbsp.diagnostics import did_you_mean
from dbsp.errors import InputError
from dbsp.io.places import TABLES, Medium, Place
from dbsp.io.table_places import TABLE_FILES

_MEDIA = {
    "file": Medium.TEXT,
    "stdin": Medium.TEXT,
    "stdout": Medium.TEXT,
    "json": Medium.JSON,
    "jsonfile": Medium.JSON,
    "sqlite": Medium.SQLITE,
    "parquet": Medium.PARQUET,
    "csv": Medium.CSV,
    "ndjson": Medium.NDJSON,
    "stdoutprintsize": Medium.SIZE,
}
_CONSOLE = ("stdin", "stdout", "json", "stdoutprintsize")
_IO = {
    "input": ("file", "stdin", "json", "jsonfile", "sqlite", "parquet", "csv", "ndjson"),
    "output": ("file", "stdout", "stdoutprintsize", "json", "jsonfile", "sqlite", "parquet", "csv", "ndjson"),
    "printsize": ("stdoutprintsize",),
}
_COMMON = ("IO", "name", "filename", "dbname", "delimiter", "headers", "rfc4180", "attributeNames")
_KNOWN = {
    "input": (*_COMMON, "columns", "format"),
    "output": (*_COMMON, "compress", "format"),
    "printsize": ("IO", "name"),
}
_ENDINGS = {
    Medium.JSON: ".json",
    Medium.SQLITE: ".sqlite",
    Medium.PARQUET: ".parquet",
    Medium.CSV: ".csv",
    Medium.NDJSON: ".ndjson",
}
_ESCAPES = {"\\t": "\t", "\\n": "\n", "\\\\": "\\"}
_COLUMNS = re.compile(r"[0-9]{1,6}(:[0-9]{1,6})*")


def fact_source(relation: str, parameters: Mapping[str, str], folder: Path) -> Place:
    """Where an `.input` directive reads; `folder/relation.facts` without parameters.

    Raises InputError for invalid values of parameters.
    """
    return _place("input", relation, parameters, folder)


def result_target(relation: str, parameters: Mapping[str, str], folder: Path) -> Place:
    """Where an `.output` directive writes; `folder/relation.csv` without parameters.

    Raises InputError for invalid values of parameters.
    """
    return _place("output", relation, parameters, folder)


def wrong_parameters(kind: str, parameters: Mapping[str, str], arity: int) -> list[tuple[str, str | None]]:
    """The errors in the values of a directive's parameters: messages, each with a hint.

    `kind` is "input", "output" or "printsize"; `arity` is the relation's number of columns.
    """
    found: list[tuple[str, str | None]] = []
    medium = _io(kind, parameters)
    if medium not in _IO[kind]:
        found.append((f"unknown value IO={medium} in .{kind}", f"known: {', '.join(_IO[kind])}"))
    if _MEDIA.get(medium) in TABLES:
        if "columns" in parameters:
            found.append((f"columns= does not apply to IO={medium}", "its columns match by name"))
        if medium == "csv" and len(_delimiter(parameters, ",")) > 1:
            found.append(("with IO=csv the delimiter is one character", None))
    if parameters.get("delimiter") == "":
        found.append(("the delimiter is empty", None))
    if parameters.get("rfc4180") == "true" and '"' in parameters.get("delimiter", ""):
        found.append(("with rfc4180=true the delimiter cannot contain a quotation mark", None))
    columns = parameters.get("columns")
    if columns:
        given = columns.split(":")
        if not _COLUMNS.fullmatch(columns) or len(set(map(int, given))) < len(given) or len(given) != arity:
            hint = f"write the position in a line, from 0, of each of the {arity} columns, such as '2:0'"
            found.append((f"columns={columns!r} does not give the position of every column", hint))
    if parameters.get("format", "list") not in ("list", "object"):
        found.append((f"unknown value format={parameters['format']}", "known: list, object"))
    return found


def unknown_parameters(kind: str, parameters: Mapping[str, str]) -> list[tuple[str, str | None]]:
    """The unknown parameters, which Soufflé ignores: messages, each with a hint."""
    known = _KNOWN[kind]
    return [
        (f"unknown parameter '{name}' of .{kind} is ignored", did_you_mean(name, known))
        for name in parameters
        if name not in known
    ]


def _place(kind: str, relation: str, parameters: Mapping[str, str], folder: Path) -> Place:
    # The compiler reports these errors with a position; this check is for direct calls.
    columns = parameters.get("columns")
    width = 0 if not columns else columns.count(":") + 1
    for message, hint in wrong_parameters(kind, parameters, width):
        text = f"{message}; {hint}" if hint else message
        raise InputError(text, where=f".{kind} {relation}", code="invalid-directive")
    given = _io(kind, parameters)
    medium = _MEDIA[given]
    lines = (Medium.TEXT, Medium.CSV, Medium.NDJSON)
    compressed = kind == "output" and medium in lines and _flag(parameters, "compress")
    name = parameters.get("name", relation)
    ending = _ENDINGS.get(medium, ".facts" if kind == "input" else ".csv") + ".gz" * compressed
    file = parameters.get("filename", parameters.get("dbname", name + ending))
    if medium is Medium.SQLITE:
        file = file.removeprefix("file:")
    quoted = _flag(parameters, "rfc4180")
    csv = medium is Medium.CSV
    return Place(
        medium,
        None if given in _CONSOLE else folder / file,
        name,
        _delimiter(parameters, "," if quoted or csv else "\t"),
        _flag(parameters, "headers", default=csv),
        parameters.get("attributeNames"),
        quoted,
        compressed,
        tuple(map(int, columns.split(":"))) if columns else None,
        parameters.get("format") == "object",
    )


def _io(kind: str, parameters: Mapping[str, str]) -> str:
    """Return the value of IO; without one, Parquet and NDJSON files are recognised by their names.

    Files named `.csv` are not: Soufflé writes lines with tabs to them.
    """
    by_name = TABLE_FILES.get(Path(parameters.get("filename", "")).suffix, "csv")
    default = _IO[kind][0] if by_name == "csv" or kind == "printsize" else by_name
    return parameters.get("IO", default)


def _delimiter(parameters: Mapping[str, str], default: str) -> str:
    delimiter = parameters.get("delimiter", default)
    return _ESCAPES.get(delimiter, delimiter)


def _flag(parameters: Mapping[str, str], name: str, *, default: bool = False) -> bool:
    return parameters.get(name, str(default).lower()) == "true"
