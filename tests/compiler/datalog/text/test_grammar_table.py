"""The table of the grammar that is built in advance."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbsp.compiler.datalog.text import grammar_table
from dbsp.compiler.datalog.text.grammar_table import built_grammar, grammar, table_text


@pytest.fixture(autouse=True)
def read_again() -> Iterator[None]:
    grammar.cache_clear()
    yield
    grammar.cache_clear()


def test_the_table_is_up_to_date() -> None:
    same = grammar_table.TABLE.read_text("utf-8") == table_text()
    assert same, "run python -m dbsp.compiler.datalog.text.grammar_table"


def test_the_table_is_read_as_it_was_built(monkeypatch: pytest.MonkeyPatch) -> None:
    built = built_grammar()
    monkeypatch.setattr(grammar_table, "built_grammar", lambda: pytest.fail("the table was built"))
    assert grammar() == built


def test_the_table_is_the_same_in_every_process() -> None:
    code = "from dbsp.compiler.datalog.text.grammar_table import table_text; print(table_text(), end='')"
    for seed in ("1", "2"):
        command = [sys.executable, "-c", code]
        result = subprocess.run(command, env={"PYTHONHASHSEED": seed}, capture_output=True, text=True)
        assert result.stdout == grammar_table.TABLE.read_text("utf-8"), result.stderr


def test_the_table_of_another_grammar_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = tmp_path / "grammar.lark"
    changed.write_text('start: "A" names\nnames: B*\n%declare A B\n', "utf-8")
    monkeypatch.setattr(grammar_table, "GRAMMAR", changed)
    assert {rule.tree for rule in grammar().rules} == {"start", "names", "__names_star_0"}


def test_a_program_is_read_without_lark() -> None:
    code = "import sys, dbsp; dbsp.compile('.decl a(x: number)').start(); print('lark' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout == "False\n", result.stderr
