"""Errors of a query, with the place, the line and a hint. One run of the parser reports several."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from dbsp.compiler.datomic.text.query_forms import QueryForm
from dbsp.diagnostics import Diagnostic, ProgramSources, SourceSpan
from dbsp.errors import CompileError


class QueryMistake(Exception):
    """A part of a query has no meaning; `collecting` notes it and continues after the part."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


class QueryReport:
    """The errors found so far, and the texts for their lines."""

    def __init__(self, sources: ProgramSources) -> None:
        self.sources = sources
        self.diagnostics: list[Diagnostic] = []

    def mistake(
        self, message: str, at: QueryForm | SourceSpan, *, code: str, hint: str | None = None
    ) -> QueryMistake:
        """Return the error to raise where the part in question cannot be used."""
        span = at.span if isinstance(at, QueryForm) else at
        return QueryMistake(replace(self.sources.diagnostic(message, span, code), hint=hint))

    def error(self, message: str, at: QueryForm | SourceSpan, *, code: str, hint: str | None = None) -> None:
        """Note an error, and continue with the same part."""
        self._note(self.mistake(message, at, code=code, hint=hint).diagnostic)

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Note a mistake inside, and continue after the block."""
        try:
            yield
        except QueryMistake as mistake:
            self._note(mistake.diagnostic)

    def raise_errors(self) -> None:
        """Raise all errors, in the order of their places within a text, if there are any."""
        if self.diagnostics:
            raise self.compile_error()

    def compile_error(self) -> CompileError:
        """Return the error with all errors so far, in the order of their places within a text."""
        return CompileError(tuple(sorted(self.diagnostics, key=self._place)))

    def _place(self, diagnostic: Diagnostic) -> tuple[int, int, int]:
        span = diagnostic.span
        files = list(self.sources.texts)
        number = files.index(span.file) if span.file in files else len(files)
        return number, span.line, span.column

    def _note(self, diagnostic: Diagnostic) -> None:
        if diagnostic not in self.diagnostics:
            self.diagnostics.append(diagnostic)
