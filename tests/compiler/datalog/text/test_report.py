"""Errors and warnings of one program, together."""

from __future__ import annotations

import pytest

import dbsp
from dbsp.errors import CompileError

BOTH = """.decl edge(x: number, y: number) input
.decl r(x: number)
.output r
r(x) :- edge(x, z).
r(y) :- edge(x, _).
"""


def test_warnings_come_with_the_errors_in_the_order_of_the_text() -> None:
    with pytest.raises(CompileError) as refused:
        dbsp.compile(BOTH)
    assert [(found.span.line, found.severity, found.code) for found in refused.value.diagnostics] == [
        (1, "warning", "deprecated"),
        (4, "warning", "unused-variable"),
        (5, "error", "unbound-variable"),
        (5, "warning", "unused-variable"),
    ]
    assert "4:17: warning: variable 'z' is used only once" in str(refused.value)


def test_a_warning_at_the_place_of_an_error_is_left_out() -> None:
    with pytest.raises(CompileError) as refused:
        dbsp.compile(".decl r(x: number)\n.input r\n.decl s(x: number)\ns(x) :- r(x), y < 1.")
    (found,) = refused.value.diagnostics
    assert (found.severity, found.code) == ("error", "unbound-variable")
