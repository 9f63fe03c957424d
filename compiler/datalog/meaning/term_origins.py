"""The place of a term in the program, for the message when it has no value for a row.

    t.dl:5:3: error: division by zero: 100 / n with n = 0 [division-by-zero]
        r(100 / n) :- s(n, _).
          ^^^^^^^

The text is that of the program. A rewritten term keeps its place, and a term that replaces a
variable gets the place of the variable: the text there is the variable's name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from dbsp.compiler.datalog.meaning.show import show_literal, show_term, show_variable
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.kinds import Kind
from dbsp.compiler.datalog.tree.traversal import children
from dbsp.diagnostics import Diagnostic, ProgramSources, SourceSpan
from dbsp.expressions import Expression
from dbsp.expressions.origin import NamedValues, Origin, failure_text
from dbsp.lazy_dataclass import dataclass

MOST_VARIABLES = 8
"""More variables would hide the reason."""

MOST_CHARACTERS = 60
"""Longer values are cut."""

_NAME = re.compile(r"[A-Za-z_?][A-Za-z0-9_?]*\Z")


@dataclass(frozen=True)
class TermOrigin(Origin[Expression]):
    """The place of a function or comparison; `compute` turns its variables into expressions."""

    node: syntax.Call | syntax.Comparison
    sources: ProgramSources
    compute: Callable[[syntax.Term], Expression]

    def variables(self) -> Iterator[tuple[str, Expression]]:
        found: dict[str, syntax.Term] = {}
        for name, term in self._named(self.node):
            found.setdefault(name, term)
        for name, term in list(found.items())[:MOST_VARIABLES]:
            yield name, self.compute(term)

    def diagnostic(self, reason: str, code: str | None, values: NamedValues) -> Diagnostic:
        message = failure_text(reason, self._text(), values, show_value)
        return self.sources.diagnostic(message, written_at(self.node), code)

    def _named(self, node: syntax.Node) -> Iterator[tuple[str, syntax.Term]]:
        """Yield the terms with a name: variables, and terms that replaced a variable."""
        for term in children(node):
            # All tokens of a macro have the place where it is used.
            in_macro = term.span == written_at(self.node)
            text = "" if in_macro else self.sources.between(term.span)
            match term:
                case syntax.Variable(name=name):
                    # A variable that the compiler made has the place of the term that it holds.
                    yield text or show_variable(name), term
                case syntax.Constant() if _NAME.match(text):
                    yield text, term
                case syntax.Call(written=SourceSpan()) if _NAME.match(text):
                    yield text, term
                case syntax.Call():
                    yield from self._named(term)

    def _text(self) -> str:
        """Return the term as written, or as the compiler shows it if a macro produced it."""
        text = self.sources.between(written_at(self.node))
        if self._is_whole(text):
            return text if '"' in text else " ".join(text.split())
        if isinstance(self.node, syntax.Comparison):
            return show_literal(self.node)
        return show_term(self.node)

    def _is_whole(self, text: str) -> bool:
        """Whether a text contains the function or comparison, not only a part of a macro call."""
        node = self.node
        name = node.operator.lstrip("!") if isinstance(node, syntax.Comparison) else node.function
        if name == "in":
            name = "range"
        if text.count("(") != text.count(")") or "//" in text or "/*" in text:
            return False
        if name in ("[]", "nil"):
            return True
        return name in text


def written_at(node: syntax.Call | syntax.Comparison) -> SourceSpan:
    """Return the place where a term was written, also if it replaced a variable elsewhere."""
    written = node.written if isinstance(node, syntax.Call) else None
    return written or node.span


def show_value(value: Any) -> str:
    """Return a value as a program writes it, cut if it is long."""
    text = show_term(syntax.Constant(value, SourceSpan("", 0), Kind.NUMBER))
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 3]}..."
