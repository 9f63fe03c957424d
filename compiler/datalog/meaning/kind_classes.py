"""The possible kinds of terms: classes of terms of one kind, merged and narrowed (union-find)."""

from __future__ import annotations

import re
from collections.abc import Collection

from dbsp.compiler.datalog.meaning.show import show_term
from dbsp.compiler.datalog.text.report import Report
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.kinds import AnyKind, Kind, Structured
from dbsp.diagnostics import SourceSpan
from dbsp.lazy_dataclass import dataclass

NUMERIC: frozenset[AnyKind] = frozenset(Kind) - {Kind.SYMBOL}
PREFERRED = (Kind.NUMBER, Kind.UNSIGNED, Kind.FLOAT, Kind.SYMBOL)
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")


class MismatchError(Exception):
    """A type error is reported; the rest of the clause would only repeat it."""


@dataclass(slots=True)
class _Class:
    """Terms that have one kind. `why` is the reason for the last narrowing of `kinds`."""

    kinds: frozenset[AnyKind]
    why: str = ""
    where: SourceSpan | None = None


class Kinds:
    """Classes of terms with one kind each; terms are numbered. A contradiction is reported."""

    def __init__(self, every: frozenset[AnyKind], report: Report) -> None:
        self.all = every
        self.report = report
        self.parents: list[int] = []
        self.classes: list[_Class] = []

    def _new(self) -> int:
        self.parents.append(len(self.parents))
        self.classes.append(_Class(self.all))
        return len(self.parents) - 1

    def _find(self, node: int) -> int:
        while self.parents[node] != node:
            self.parents[node] = self.parents[self.parents[node]]
            node = self.parents[node]
        return node

    def _roots(self) -> list[int]:
        return [node for node, parent in enumerate(self.parents) if node == parent]

    def _kinds(self, node: int) -> frozenset[AnyKind]:
        return self.classes[self._find(node)].kinds

    def _narrow(
        self, node: int, kinds: frozenset[AnyKind], term: syntax.Term, demand: str = "it is", why: str = ""
    ) -> None:
        """Allow only `kinds` for a class.

        `demand` and `why` are parts of messages: "but <demand> <kinds>", "because <why>".
        """
        cell = self.classes[self._find(node)]
        left = cell.kinds & kinds
        if not left:
            hint = literal_hint(term, kinds)
            if hint is None and cell.why and cell.where is not None:
                hint = f"it is {kinds_text(cell.kinds)} because {cell.why} at line {cell.where.line}"
            self._mismatch(
                term.span,
                f"type mismatch: {quoted(term)} is {kinds_text(cell.kinds)},"
                f" but {demand} {kinds_text(kinds)}",
                hint,
            )
        if left != cell.kinds:
            cell.kinds, cell.why, cell.where = left, why, term.span

    def _join(self, a: int, b: int, term: syntax.Term, why: str) -> None:
        """Merge two classes for the reason `why`; `term` is a term of class b."""
        a, b = self._find(a), self._find(b)
        if a == b:
            return
        first, second = self.classes[a], self.classes[b]
        kinds = first.kinds & second.kinds
        if not kinds:
            self._mismatch(
                term.span,
                f"type mismatch: {quoted(term)} is {kinds_text(second.kinds)},"
                f" but must be {kinds_text(first.kinds)} because {why}",
                literal_hint(term, first.kinds),
            )
        better = first if first.kinds == kinds else second
        self.parents[b] = a
        self.classes[a] = _Class(kinds, better.why, better.where)

    def _mismatch(
        self, span: SourceSpan, message: str, hint: str | None, *, code: str = "type-mismatch"
    ) -> None:
        self.report.error(span, message, hint, code=code)
        raise MismatchError


def quoted(term: syntax.Term) -> str:
    text = show_term(term)
    return text if isinstance(term, syntax.Constant) and term.kind is Kind.SYMBOL else f"'{text}'"


def kinds_text(kinds: frozenset[AnyKind]) -> str:
    if kinds >= frozenset(Kind):
        return "anything"
    if kinds == NUMERIC:
        return "a number"
    if len(kinds) > 1 and all(isinstance(kind, Structured) for kind in kinds):
        return "a record"
    names: list[str] = [kind.value for kind in PREFERRED if kind in kinds]
    names += sorted(kind.name for kind in kinds if isinstance(kind, Structured))
    return f"{'an' if names[0][0].lower() in 'aeiou' else 'a'} {' or '.join(names)}"


def literal_hint(term: syntax.Term, kinds: Collection[AnyKind]) -> str | None:
    """How to write a literal as one of these kinds, with or without quotes or a decimal point."""
    match term:
        case syntax.Constant(value=str(text), kind=Kind.SYMBOL) if _NUMBER.fullmatch(text):
            fits = Kind.SYMBOL not in kinds and ("." not in text or Kind.FLOAT in kinds)
            return f"write {text} without quotes" if fits else None
        case syntax.NumberLiteral(value=value) if set(kinds) == {Kind.SYMBOL}:
            return f'write "{value}" in quotes'
        case syntax.NumberLiteral(value=value) if set(kinds) == {Kind.FLOAT}:
            return f"write {value}.0"
    return None
