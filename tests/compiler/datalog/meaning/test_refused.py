"""Programs with errors: compare every message with its place, line, caret and hint."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dbsp.compiler.datalog.text.preprocess import Sources
from dbsp.errors import CompileError, DbspError
from tests.compiler.support import checked_program

FOLDER = Path(__file__).parents[3] / "programs" / "refused"
PROGRAMS = sorted(FOLDER.glob("*.dl"))


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_messages(path: Path) -> None:
    text = path.read_text()
    with pytest.raises(CompileError) as refused:
        checked_program(text, path.name, Sources(path))
    assert f"{refused.value}\n" == path.with_suffix(".txt").read_text()


def test_every_code_is_documented() -> None:
    page = (Path(__file__).parents[4] / "docs" / "reference" / "errors" / "datalog.md").read_text()
    documented = set(re.findall(r"^## ([a-z-]+)$|`([a-z-]+)`", page, re.MULTILINE))
    used = {
        code
        for path in FOLDER.glob("*.txt")
        for code in re.findall(r": error: .* \[([a-z-]+)\]$", path.read_text(), re.MULTILINE)
    }
    assert len(used) > 30
    assert used <= {code for pair in documented for code in pair}


def test_there_are_many() -> None:
    assert len(PROGRAMS) >= 60


def test_the_error_carries_its_diagnostics() -> None:
    text = ".decl edge(x: number)\negde(1).\nedge(y).\n"
    with pytest.raises(CompileError) as refused:
        checked_program(text, "g.dl")
    first, second = refused.value.diagnostics
    assert (first.message, first.hint) == ("undefined relation 'egde'", "did you mean 'edge'?")
    assert (first.span.file, first.span.line, first.span.column) == ("g.dl", 2, 1)
    assert (first.span.end_line, first.span.end_column) == (2, 5)
    assert first.line_text == "egde(1)."
    assert second.span.line == 3
    assert isinstance(refused.value, DbspError)


def test_the_compiler_stops_after_a_hundred_errors() -> None:
    text = ".decl edge(x: number)\n" + "edge(y).\n" * 1_000
    with pytest.raises(CompileError) as refused:
        checked_program(text, "g.dl")
    assert len(refused.value.diagnostics) == 100


def test_carets_with_tabs_and_in_long_lines() -> None:
    text = ".decl edge(x: number)\n\t\tedge(y).\n" + "edge(1). " * 40 + "edge(z).\n"
    with pytest.raises(CompileError) as refused:
        checked_program(text, "g.dl")
    tabs, long = (diagnostic.render().split("\n") for diagnostic in refused.value.diagnostics)
    assert tabs[1:3] == ["    \t\tedge(y).", "    \t\t     ^"]
    column = long[2].index("^")
    assert long[1][column] == "z"
    assert max(map(len, long)) < 180
