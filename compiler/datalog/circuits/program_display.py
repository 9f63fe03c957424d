"""The display of a compiled program: its text in colours, its relations and its warnings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from textwrap import dedent
from typing import Protocol

from dbsp.compiler.datalog.text.highlighting import highlighted
from dbsp.data.schema import Schema
from dbsp.diagnostics import Diagnostic
from dbsp.display.document import (
    Block,
    Code,
    Column,
    Document,
    Line,
    Row,
    Section,
    Span,
    Table,
    code_of,
    limited,
    line,
    muted,
    printable,
    strong,
)
from dbsp.errors import counted

LINES = 80
RELATIONS = 20
_WIDE = 80


class CompiledProgram(Protocol):
    """The parts of a program that its display reads."""

    @property
    def text(self) -> str: ...
    @property
    def file(self) -> str: ...
    @property
    def inputs(self) -> Mapping[str, Schema]: ...
    @property
    def outputs(self) -> Mapping[str, Schema]: ...
    @property
    def warnings(self) -> Sequence[Diagnostic]: ...


def program_document(program: CompiledProgram, rules: int) -> Document:
    """Return the display of a program with this number of rules."""
    title = line(strong(f"program {printable(program.file, _WIDE)}"), muted(f"  {counted(rules, 'rule')}"))
    return Document(title, tuple(_blocks(program)))


def _blocks(program: CompiledProgram) -> Iterator[Block]:
    yield Code(tuple(limited(_numbered(program.text), LINES)))
    ports = [("input", name, schema) for name, schema in program.inputs.items()]
    ports += [("output", name, schema) for name, schema in program.outputs.items()]
    rows = tuple(
        Row((muted(kind), strong(printable(name, _WIDE)), Span(printable(schema.describe(), _WIDE))))
        for kind, name, schema in ports[:RELATIONS]
    )
    more = len(ports) - RELATIONS
    columns = (Column("relation"), Column("name"), Column("columns"))
    if rows:
        yield Table(columns, rows, f"and {more:,} more relations" if more > 0 else "")
    if program.warnings:
        shown = "\n\n".join(warning.render() for warning in program.warnings)
        title = line(strong(counted(len(program.warnings), "warning")))
        yield Section(title, (code_of(shown, LINES),))


def _numbered(text: str) -> list[Line]:
    """Return the lines of a program with the numbers by which errors and proofs name them.

    Empty lines at the start and at the end are omitted.
    """
    body = dedent(text.rstrip())
    first = len(body) - len(body.lstrip("\n"))
    lines = highlighted(body)
    width = len(str(len(lines)))
    return [(muted(f"{number:>{width}}  "), *spans) for number, spans in enumerate(lines[first:], first + 1)]
