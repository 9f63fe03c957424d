"""Where a relation's rows are read from and written to: the parameters of `.input` and `.output`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dbsp.errors import InputError

_KNOWN = ("IO", "filename", "delimiter", "headers")
_ESCAPES = {"\\t": "\t", "\\n": "\n", "\\\\": "\\"}


@dataclass(frozen=True, slots=True)
class Place:
    """A file of rows and its format. A `path` of None is standard output."""

    path: Path | None
    delimiter: str
    headers: bool


@dataclass(frozen=True, slots=True)
class Source(Place):
    """A place that facts are read from; it has a path."""

    path: Path


def fact_source(relation: str, parameters: Mapping[str, str], folder: Path) -> Source:
    """The file of a `.input` directive: `folder/relation.facts` if its parameters do not say otherwise.

    Raises InputError for parameters that are not known.
    """
    where = f".input {relation}"
    _check(parameters, where, ("file",))
    name = parameters.get("filename", f"{relation}.facts")
    return Source(folder / name, _delimiter(parameters, where), _headers(parameters))


def result_target(relation: str, parameters: Mapping[str, str], folder: Path) -> Place:
    """The file of an `.output` directive: `folder/relation.csv` if its parameters do not say otherwise.

    Raises InputError for parameters that are not known.
    """
    where = f".output {relation}"
    _check(parameters, where, ("file", "stdout"))
    path = folder / parameters.get("filename", f"{relation}.csv")
    to_stdout = parameters.get("IO", "file") == "stdout"
    return Place(None if to_stdout else path, _delimiter(parameters, where), _headers(parameters))


def _check(parameters: Mapping[str, str], where: str, kinds: tuple[str, ...]) -> None:
    for name in parameters:
        if name not in _KNOWN:
            raise InputError(
                f"the parameter '{name}' is not supported; known are {', '.join(_KNOWN)}", where=where
            )
    kind = parameters.get("IO", "file")
    if kind not in kinds:
        raise InputError(f"IO={kind} is not supported; known are {', '.join(kinds)}", where=where)


def _delimiter(parameters: Mapping[str, str], where: str) -> str:
    given = parameters.get("delimiter", "\t")
    delimiter = _ESCAPES.get(given, given)
    if not delimiter:
        raise InputError("the delimiter is empty", where=where)
    return delimiter


def _headers(parameters: Mapping[str, str]) -> bool:
    return parameters.get("headers", "false") == "true"
