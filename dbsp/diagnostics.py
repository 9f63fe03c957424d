"""Places in source text and the messages that point at them.

A `SourceSpan` is a place in source text: a rule in a program file, or the line of Python that built
a node of a circuit. A `Diagnostic` is one message about such a place. Its text shows the file, the
number and text of the line, a caret under the part in question, and a hint:

>>> span = SourceSpan("reach.dl", 3, 17, 3, 21)
>>> print(Diagnostic("undefined relation 'egde'", span, hint="did you mean 'edge'?",
...                  line_text="reach(x, y) :- egde(x, y).").render())
reach.dl:3:17: error: undefined relation 'egde'
    reach(x, y) :- egde(x, y).
                    ^^^^
    hint: did you mean 'edge'?
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from dbsp.lazy_dataclass import dataclass

Severity = Literal["error", "warning"]

# Longer source lines are shown in part.
MAX_WIDTH = 160


@dataclass(frozen=True, slots=True, order=True)
class SourceSpan:
    """A stretch of source text. Lines and columns count from 1; `end_column` is exclusive.

    A column of 0 means that only the line is known (as for a frame of Python code).
    """

    file: str
    line: int
    column: int = 0
    end_line: int = 0
    end_column: int = 0

    @property
    def place(self) -> str:
        """`file:line`, the short form used in messages of operators."""
        return f"{self.file}:{self.line}"

    def to(self, end: SourceSpan) -> SourceSpan:
        """Return the span from the start of this one to the end of `end`.

        Returns this span alone if `end` does not follow it: in another file, or in the text of a
        macro.
        """
        if end.file != self.file or (end.end_line, end.end_column) < (self.end_line, self.end_column):
            return self
        return SourceSpan(self.file, self.line, self.column, end.end_line, end.end_column)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.column else self.place


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One message about one place. `line_text` is the text of the line on which `span` starts.

    `note` has further facts, one per line, such as the instance of a component that the place
    belongs to. `code` is the stable name of the cause; a section of `docs/reference/errors`
    explains it.
    """

    message: str
    span: SourceSpan
    hint: str | None = None
    severity: Severity = "error"
    line_text: str | None = None
    note: str | None = None
    code: str | None = None

    def render(self) -> str:
        """Return the message with its line, carets and hint, as in the example above."""
        code = f" [{self.code}]" if self.code else ""
        parts = [f"{self.span}: {self.severity}: {self.message}{code}"]
        if self.line_text is not None:
            carets = caret_line(self.line_text, self.span) if self.span.column else ""
            parts.extend(f"    {line}".rstrip() for line in _window(self.line_text, carets))
        if self.hint is not None:
            parts.append(f"    hint: {self.hint}")
        if self.note is not None:
            parts.extend(f"    note: {line}" for line in self.note.split("\n"))
        return "\n".join(parts)

    def with_note(self, note: str) -> Diagnostic:
        """The same message with one more note."""
        return replace(self, note=note if self.note is None else f"{self.note}\n{note}")

    def __str__(self) -> str:
        return self.render()


@dataclass(frozen=True, slots=True)
class ProgramSources:
    """The texts of a program by file, for messages about its places when it runs.

    `note` goes with every message (see `Diagnostic`).
    """

    texts: Mapping[str, str]
    note: str | None = None

    def lines(self, span: SourceSpan) -> list[str]:
        """The lines that the span covers, in full; fewer if the text is unknown."""
        lines = self.texts.get(span.file, "").split("\n")
        return [line.rstrip("\r") for line in lines[span.line - 1 : max(span.line, span.end_line)]]

    def between(self, span: SourceSpan) -> str:
        """The text that the span covers, in one line."""
        lines = self.lines(span)
        if not lines or not span.column:
            return ""
        if span.end_line > span.line:
            lines[-1] = lines[-1][: span.end_column - 1]
            lines[0] = lines[0][span.column - 1 :]
            return " ".join(line.strip() for line in lines).strip()
        return lines[0][span.column - 1 : span.end_column - 1]

    def diagnostic(self, message: str, span: SourceSpan, code: str | None) -> Diagnostic:
        """An error at a place of the program."""
        lines = self.lines(span)
        line = lines[0] if lines else None
        return Diagnostic(message, span, line_text=line, note=self.note, code=code)


def caret_line(text: str, span: SourceSpan) -> str:
    """Return blanks and carets that mark `span` in the line below `text`.

    Tabs before the span stay tabs, so that the carets line up in any terminal. A span of several
    lines is marked to the end of its first line.
    """
    start = min(span.column - 1, len(text))
    if span.end_line == span.line:
        end = min(span.end_column - 1, len(text))
    elif span.end_line > span.line:
        end = len(text.rstrip())
    else:
        end = start + 1
    blanks = "".join("\t" if char == "\t" else " " for char in text[:start])
    return blanks + "^" * max(1, end - start)


def _window(text: str, carets: str) -> list[str]:
    """Return the line and its caret line; of long lines the part around the caret."""
    start = 0
    if len(text) > MAX_WIDTH:
        first = len(carets) - len(carets.lstrip())
        start = max(0, min(first - MAX_WIDTH // 4, len(text) - MAX_WIDTH))
    end = start + MAX_WIDTH
    before, after = "..." if start else "", "..." if end < len(text) else ""
    lines = [before + text[start:end] + after]
    if carets:
        lines.append(" " * len(before) + carets[start:end])
    return lines


def render_all(diagnostics: Iterable[Diagnostic]) -> str:
    """Return the text of all messages, one after the other."""
    return "\n".join(diagnostic.render() for diagnostic in diagnostics)


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """Return a hint with the known name closest to a misspelt one, or None if no name is close.

    >>> did_you_mean("egde", ["edge", "node"])
    "did you mean 'edge'?"
    """
    lowered = {candidate.lower(): candidate for candidate in sorted(set(known), reverse=True)}
    # Names of very different length are never close; skipping them keeps large programs fast.
    near: Sequence[str] = [key for key in lowered if abs(len(key) - len(name)) <= max(2, len(name) // 2)]
    matches = difflib.get_close_matches(name.lower(), near, n=1, cutoff=0.6)
    return f"did you mean {lowered[matches[0]]!r}?" if matches else None
