"""The source of a node of a Datalog program: its place, and the declared types of its columns.

The source of any node is text, `file:line`. For a node of a Datalog program it is a `ProgramPlace`:
the same text, with the data that messages and drawings show of the program. JSON keeps the text
only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from dbsp.data.schema import Schema
from dbsp.diagnostics import Diagnostic, ProgramSources, SourceSpan
from dbsp.lazy_dataclass import dataclass


@dataclass(frozen=True)
class ColumnTypes:
    """The types of columns in the words of a language.

    `relation` has the declared type of every column of a relation, and `variables` the types of the
    variables of a rule. `words` are the words for types of the engine, for all other columns.
    """

    relation: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)

    def describe(self, schema: Schema, shown: Sequence[str] | None = None) -> str:
        """The columns with their types, like `Schema.describe`; `shown` replaces the names."""
        whole = tuple(self.relation) == schema.names
        known = self.relation if whole or not self.variables else self.variables
        return ", ".join(
            f"{title}: {known.get(name) or self.words.get(str(type_), str(type_))}"
            for title, name, type_ in zip(shown or schema.names, schema.names, schema.types, strict=True)
        )


class ProgramPlace(str):
    """`file:line:column` in a program, with the program's text and the types of columns there."""

    span: SourceSpan
    sources: ProgramSources
    types: ColumnTypes
    clause: SourceSpan | None
    """The whole rule that the place is a part of; None for a declaration."""

    @classmethod
    def of(
        cls,
        span: SourceSpan,
        sources: ProgramSources,
        types: ColumnTypes,
        clause: SourceSpan | None = None,
    ) -> ProgramPlace:
        """The place of a span of a program; `clause` is the rule around it."""
        place = cls(str(span))
        place.span, place.sources, place.types = span, sources, types
        place.clause = clause
        return place

    @property
    def clause_text(self) -> str:
        """The text of the rule, in one line; empty for a declaration."""
        return " ".join(self.sources.between(self.clause).split()) if self.clause else ""

    def diagnostic(self, message: str, code: str | None) -> Diagnostic:
        """An error at this place."""
        return self.sources.diagnostic(message, self.span, code)


def columns_text(source: str, schema: Schema) -> str:
    """The columns of a node with their types, in the words of the program that it comes from."""
    return source.types.describe(schema) if isinstance(source, ProgramPlace) else schema.describe()
