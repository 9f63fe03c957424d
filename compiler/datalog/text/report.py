"""The errors and warnings of a compilation: many messages, one exception."""

from __future__ import annotations

from dbsp.diagnostics import Diagnostic, Severity, SourceSpan
from dbsp.errors import CompileError

MAX_ERRORS = 100


class Report:
    """Collects the diagnostics of one source text and of the files that it includes.

    A pass calls `error` and continues with the next clause, so one run shows several errors;
    `raise_errors` ends the run when there are any. The same message for the same place is stored
    once (a clause with `;` is checked once per alternative).
    """

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.sources: dict[str, str] = {}
        """The texts of the program by file, in the order in which the compiler reads them."""
        self.note: str | None = None
        """Added to every message, until it changes."""
        self._lines: dict[str, list[str]] = {}
        self.add_source(file, text)
        self._found: dict[tuple[SourceSpan, str], Diagnostic] = {}
        self._errors = 0
        self.undeclared: set[str] = set()
        """The relations reported as not declared; their other uses are the same mistake."""

    def add_source(self, file: str, text: str) -> None:
        """Register another text, whose lines are shown with the errors in it."""
        self.sources[file] = text
        self._lines[file] = text.split("\n")

    def error(self, span: SourceSpan, message: str, hint: str | None = None, *, code: str) -> None:
        """Add an error; after `MAX_ERRORS` of them, raise CompileError."""
        self._add(span, message, hint, "error", code)
        if self._errors >= MAX_ERRORS:
            self.raise_errors()

    def warning(self, span: SourceSpan, message: str, hint: str | None = None, *, code: str) -> None:
        """Add a warning."""
        self._add(span, message, hint, "warning", code)

    def _add(self, span: SourceSpan, message: str, hint: str | None, severity: Severity, code: str) -> None:
        if (span, message) not in self._found:
            lines = self._lines.get(span.file, [])
            line = lines[span.line - 1].rstrip("\r") if 0 < span.line <= len(lines) else None
            self._found[span, message] = Diagnostic(message, span, hint, severity, line, self.note, code)
            self._errors += severity == "error"

    @property
    def error_count(self) -> int:
        return self._errors

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """The errors and warnings, in the order of their places."""
        files = list(self.sources)
        return tuple(
            sorted(
                self._found.values(),
                key=lambda diagnostic: (files.index(diagnostic.span.file), diagnostic.span),
            )
        )

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        return tuple(found for found in self.diagnostics if found.severity == "warning")

    def raise_errors(self) -> None:
        """Raise CompileError with all errors and warnings if there is an error.

        A warning at the place of an error is left out: both are about one mistake.
        """
        if self._errors:
            wrong = {found.span for found in self.diagnostics if found.severity == "error"}
            raise CompileError(
                [found for found in self.diagnostics if found.severity == "error" or found.span not in wrong]
            )
