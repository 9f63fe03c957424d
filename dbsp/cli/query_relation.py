"""A watched query of `dbsp live`: an output relation at the end of the running program.

    watch path(1, x), x > 3      watch_1(x) :- path(1, x), x > 3.  .output watch_1

So its rows stay up to date as those of any output, and each tick prints their changes.
"""

from __future__ import annotations

import re

from dbsp.compiler.datalog.text.preprocess import AddedText
from dbsp.compiler.program import Program
from dbsp.errors import CompileError
from dbsp.lazy_dataclass import dataclass

_FILE = re.compile(r"<watch (\d+)>")


@dataclass(frozen=True)
class QueryRelation:
    """A query with its number, and the relation of its rows."""

    number: int
    body: str
    relation: str
    added: AddedText
    """The text of the relation."""

    @classmethod
    def of(cls, program: Program, body: str, number: int) -> QueryRelation:
        """Return the relation of a query of a program; `number` rises if its name is taken.

        Raises CompileError with every error of the query.
        """
        from dbsp.compiler.why.question import read_question  # loads slowly

        body = body.strip().removesuffix(".").rstrip()
        columns = read_question(program.checked, body, "<query>").answer.attributes
        while f"watch_{number}" in program.relations:
            number += 1
        name = f"watch_{number}"
        head = f"{name}({', '.join(column.name for column in columns)})"
        declared = ", ".join(f"{column.name}: {column.type_name}" for column in columns)
        # The rule is the first line, which messages show. Its '.' is not behind a comment.
        text = f"{head} :- {body}\n.\n.decl {name}({declared})\n.output {name}\n"
        return cls(number, body, name, AddedText(f"<watch {number}>", text))

    @classmethod
    def read(cls, added: AddedText) -> QueryRelation | None:
        """Return the query of a text that `of` has made; None for any other text."""
        found = _FILE.fullmatch(added.file)
        if found is None:
            return None
        rule, _, _ = added.text.partition("\n.\n")
        head, _, body = rule.partition(" :- ")
        return cls(int(found[1]), body, head.partition("(")[0], added)


def with_hint(error: CompileError, watched: list[QueryRelation]) -> CompileError:
    """Return the error of a program, with a hint if it is in the text of a watched query."""
    numbers = {each.added.file: each.number for each in watched}
    if not any(found.span.file in numbers for found in error.diagnostics):
        return error
    return CompileError(
        [
            found.with_note(f"'unwatch {numbers[found.span.file]}' removes this query")
            if found.span.file in numbers
            else found
            for found in error.diagnostics
        ]
    )
