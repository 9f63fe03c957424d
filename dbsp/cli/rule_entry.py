"""Entries of `dbsp live` that are text of a program: rules, declarations, directives.

An entry begins with a relation and its columns, or with a directive. It may have several lines: a
rule ends with its `.`, and every bracket must be closed. An empty line abandons it.
"""

from __future__ import annotations

import enum
import re

from dbsp.compiler.datalog.text.lexer import DIRECTIVES, Lexer
from dbsp.compiler.datalog.text.report import Report
from dbsp.errors import InputError

_ATOM = re.compile(r"\s*[A-Za-z_?][\w?.]*\s*\(")
_DIRECTIVE = re.compile(r"\s*\.[A-Za-z_]")
_OPENING = frozenset({"LPAREN", "LBRACE", "LBRACKET"})
_CLOSING = frozenset({"RPAREN", "RBRACE", "RBRACKET"})
_CONTINUED = frozenset({"IF", "COMMA", "SEMICOLON", "PIPE", "EQUALS"})
_DIRECTIVE_TOKENS = frozenset({*DIRECTIVES.values(), "BROKEN_DIRECTIVE"})


class EntryState(enum.Enum):
    """What a text is: text of a program, the beginning of it, or a row without a sign."""

    COMPLETE = "complete"
    OPEN = "open"
    ATOM = "atom"


def state_of_entry(text: str) -> EntryState:
    """Return whether a text that begins like an entry is complete.

    A string that does not end on its line makes it complete, and so does a '.' inside brackets: the
    compiler reports the mistake, and no further line can correct it.
    """
    depth, ended = 0, False
    item: list[str] = []
    for token in Lexer(text, Report("<entry>", text)).tokens():
        kind = token.type
        if kind == "BROKEN_LINE":
            return EntryState.OPEN if token.startswith("/*") else EntryState.COMPLETE
        depth += (kind in _OPENING) - (kind in _CLOSING)
        item.append(kind)
        in_component = "COMP" in item
        if kind == "DOT" and depth > 0 and not in_component:
            return EntryState.COMPLETE
        if (kind == "DOT" or (kind == "RBRACE" and in_component)) and depth <= 0:
            ended, item = True, []
    if depth > 0:
        return EntryState.OPEN
    if not item:
        return EntryState.COMPLETE
    if "IF" in item or item[-1] in _CONTINUED:
        return EntryState.OPEN
    if item[0] in _DIRECTIVE_TOKENS:
        return EntryState.COMPLETE
    return EntryState.OPEN if ended else EntryState.ATOM


def begins_entry(line: str) -> bool:
    """Return whether a line is an entry or begins one; a row without a sign is none."""
    if _DIRECTIVE.match(line) is None and _ATOM.match(line) is None:
        return False
    return state_of_entry(line) is not EntryState.ATOM


def is_rule_of(name: str, rest: str) -> bool:
    """Return whether a line that begins with the name of a command is a rule of such a relation."""
    return rest.lstrip().startswith("(") and ":-" in rest and begins_entry(f"{name} {rest}")


class RuleEntry:
    """The lines of an entry that is not complete."""

    def __init__(self) -> None:
        self.first_line = 0
        self._lines: list[str] = []

    def __bool__(self) -> bool:
        return bool(self._lines)

    def feed(self, line: str, number: int) -> str | None:
        """Add a line; return the entry if it is complete. An empty line abandons the entry.

        Raises InputError if the line abandons the entry.
        """
        text = line.rstrip()
        if self._lines and not text:
            raise self.abandoned()
        if not self._lines:
            self.first_line = number
        self._lines.append(text)
        entry = "\n".join(self._lines)
        if state_of_entry(entry) is EntryState.OPEN:
            return None
        self._lines = []
        return entry

    def abandoned(self, end: str = "an empty line") -> InputError:
        """Forget the lines; return the error that says so."""
        text, self._lines = self._lines[0], []
        return InputError(
            f"{end} ends the rule that begins with '{text.strip()}' before it is complete, and the program "
            "is unchanged; a rule ends with '.', and every bracket must be closed",
            code="incomplete-rule",
        )
