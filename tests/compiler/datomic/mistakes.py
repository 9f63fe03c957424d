"""Shared by the tests of queries: the errors of a query, in a form that tests compare."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from dbsp.compiler.datomic.meaning.query_checks import check_query
from dbsp.compiler.datomic.text.query_parser import parse_query
from dbsp.compiler.datomic.text.rule_parser import parse_rules
from dbsp.errors import CompileError


@dataclass(frozen=True)
class Mistake:
    """An error: its code, its message, the text that the caret marks, and its hint."""

    code: str | None
    message: str
    marked: str
    hint: str | None = None


def mistakes(run: Callable[[], object]) -> list[Mistake]:
    """The errors that a call reports, in their order."""
    with pytest.raises(CompileError) as caught:
        run()
    found = []
    for diagnostic in caught.value.diagnostics:
        span, line = diagnostic.span, diagnostic.line_text or ""
        end = span.end_column - 1 if span.end_line == span.line else len(line)
        found.append(
            Mistake(diagnostic.code, diagnostic.message, line[span.column - 1 : end], diagnostic.hint)
        )
        assert diagnostic.render() in str(caught.value)
    return found


def check(query: Any, rules: Any = None, **options: Any) -> None:
    """Parse and check a query with its rules."""
    check_query(parse_query(query), parse_rules(rules) if rules is not None else None, **options)


def checked_mistakes(query: Any, rules: Any = None, **options: Any) -> list[Mistake]:
    """The errors of a query and its rules."""
    return mistakes(lambda: check(query, rules, **options))
