"""The table of the grammar that is built in advance."""

from __future__ import annotations

from pathlib import Path

import pytest

from dbsp.compiler.datalog.text import grammar_table
from dbsp.compiler.datalog.text.grammar_table import built_grammar, grammar, table_text


def test_the_table_is_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    command = "python -m dbsp.compiler.datalog.text.grammar_table"
    monkeypatch.setattr(grammar_table, "built_grammar", lambda: pytest.fail(f"run {command}"))
    grammar.cache_clear()
    grammar()


def test_the_table_has_the_rules_and_terminals_of_the_grammar() -> None:
    assert [str(rule) for rule in grammar().rules] == [str(rule) for rule in built_grammar().rules]
    assert {t.name for t in grammar().terminals} == {t.name for t in built_grammar().terminals}


def test_the_table_of_another_grammar_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = tmp_path / "grammar.lark"
    changed.write_bytes(grammar_table.GRAMMAR.read_bytes() + b"\n// changed\n")
    monkeypatch.setattr(grammar_table, "GRAMMAR", changed)
    built: list[str] = []
    monkeypatch.setattr(grammar_table, "built_grammar", lambda: built.append("built"))
    grammar.cache_clear()
    grammar()
    grammar.cache_clear()
    assert built == ["built"]


def test_the_table_is_written_as_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "table.json").write_text(table_text(), "utf-8")
    monkeypatch.setattr(grammar_table, "TABLE", tmp_path / "table.json")
    grammar.cache_clear()
    rules = [str(rule) for rule in grammar().rules]
    grammar.cache_clear()
    assert rules == [str(rule) for rule in built_grammar().rules]
