"""Where a relation's rows are read from and written to: the parameters of `.input` and `.output`.

The names are Soufflé's, and so are the defaults. What each means is described in
docs/reference/file-formats.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from dbsp.diagnostics import did_you_mean
from dbsp.errors import InputError
from dbsp.io.places import Medium, Place

_MEDIA = {
    "file": Medium.TEXT,
    "stdin": Medium.TEXT,
    "stdout": Medium.TEXT,
    "json": Medium.JSON,
    "jsonfile": Medium.JSON,
    "sqlite": Medium.SQLITE,
    "stdoutprintsize": Medium.SIZE,
}
_CONSOLE = ("stdin", "stdout", "json", "stdoutprintsize")
_IO = {
    "input": ("file", "stdin", "json", "jsonfile", "sqlite"),
    "output": ("file", "stdout", "stdoutprintsize", "json", "jsonfile", "sqlite"),
    "printsize": ("stdoutprintsize",),
}
_COMMON = ("IO", "name", "filename", "dbname", "delimiter", "headers", "rfc4180", "attributeNames")
_KNOWN = {
    "input": (*_COMMON, "columns", "format"),
    "output": (*_COMMON, "compress", "format"),
    "printsize": ("IO", "name"),
}
_ENDINGS = {Medium.JSON: ".json", Medium.SQLITE: ".sqlite"}
_ESCAPES = {"\\t": "\t", "\\n": "\n", "\\\\": "\\"}
_COLUMNS = re.compile(r"[0-9]{1,6}(:[0-9]{1,6})*")


def fact_source(relation: str, parameters: Mapping[str, str], folder: Path) -> Place:
    """Where an `.input` directive reads: `folder/relation.facts` if its parameters do not say otherwise.

    Raises InputError for parameters with values that mean nothing.
    """
    return _place("input", relation, parameters, folder)


def result_target(relation: str, parameters: Mapping[str, str], folder: Path) -> Place:
    """Where an `.output` directive writes: `folder/relation.csv` if its parameters do not say otherwise.

    Raises InputError for parameters with values that mean nothing.
    """
    return _place("output", relation, parameters, folder)


def wrong_parameters(kind: str, parameters: Mapping[str, str], arity: int) -> list[tuple[str, str | None]]:
    """What is wrong with the values of a directive's parameters: messages, each with a hint.

    `kind` is "input", "output" or "printsize", `arity` that of the relation.
    """
    found: list[tuple[str, str | None]] = []
    medium = parameters.get("IO", _IO[kind][0])
    if medium not in _IO[kind]:
        found.append((f"IO={medium} is not known for .{kind}", f"known are {', '.join(_IO[kind])}"))
    if parameters.get("delimiter") == "":
        found.append(("the delimiter is empty", None))
    if parameters.get("rfc4180") == "true" and '"' in parameters.get("delimiter", ""):
        found.append(("with rfc4180=true the delimiter has no quotation mark in it", None))
    columns = parameters.get("columns")
    if columns:
        given = columns.split(":")
        if not _COLUMNS.fullmatch(columns) or len(set(map(int, given))) < len(given) or len(given) != arity:
            hint = f"write for each of the {arity} columns its place in a line, counted from 0, such as '2:0'"
            found.append((f"columns={columns!r} does not say where the columns are", hint))
    if parameters.get("format", "list") not in ("list", "object"):
        found.append((f"format={parameters['format']} is not known", "known are list, object"))
    return found


def unknown_parameters(kind: str, parameters: Mapping[str, str]) -> list[tuple[str, str | None]]:
    """The parameters that mean nothing, as Soufflé takes any: messages, each with a hint."""
    known = _KNOWN[kind]
    return [
        (f"the parameter '{name}' of .{kind} means nothing", did_you_mean(name, known))
        for name in parameters
        if name not in known
    ]


def _place(kind: str, relation: str, parameters: Mapping[str, str], folder: Path) -> Place:
    # The compiler has said so with a position; this is for callers of their own.
    columns = parameters.get("columns")
    width = 0 if not columns else columns.count(":") + 1
    for message, hint in wrong_parameters(kind, parameters, width):
        raise InputError(message + (f"; {hint}" if hint else ""), where=f".{kind} {relation}")
    given = parameters.get("IO", "file")
    medium = _MEDIA[given]
    compressed = kind == "output" and medium is Medium.TEXT and _flag(parameters, "compress")
    name = parameters.get("name", relation)
    ending = _ENDINGS.get(medium, ".facts" if kind == "input" else ".csv.gz" if compressed else ".csv")
    file = parameters.get("filename", parameters.get("dbname", name + ending))
    if medium is Medium.SQLITE:
        file = file.removeprefix("file:")
    quoted = _flag(parameters, "rfc4180")
    delimiter = parameters.get("delimiter", "," if quoted else "\t")
    return Place(
        medium,
        None if given in _CONSOLE else folder / file,
        name,
        _ESCAPES.get(delimiter, delimiter),
        _flag(parameters, "headers"),
        parameters.get("attributeNames"),
        quoted,
        compressed,
        tuple(map(int, columns.split(":"))) if columns else None,
        parameters.get("format") == "object",
    )


def _flag(parameters: Mapping[str, str], name: str) -> bool:
    return parameters.get(name, "false") == "true"
