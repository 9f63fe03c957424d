"""The examples in docstrings print what they show."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path
from typing import Any

import pytest

import dbsp

ROOT = Path(__file__).resolve().parent.parent
# Every example may use these without an import, as the pages of the reference say.
NAMES = {"dbsp": dbsp, **{name: getattr(dbsp, name) for name in dbsp.__all__}}


def modules_with_examples() -> list[Any]:
    """The names of the modules that have at least one example."""
    files = (path for top in ("dbsp", "operators", "compiler") for path in (ROOT / top).rglob("*.py"))
    names = set()
    for path in files:
        if ">>> " in path.read_text(encoding="utf-8"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            parts = parts if parts[0] == "dbsp" else ("dbsp", *parts)
            names.add(".".join(parts).removesuffix(".__init__"))
    return [
        pytest.param(name, marks=[pytest.mark.spark] if name.startswith("dbsp.spark") else [])
        for name in sorted(names)
    ]


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples_print_what_they_show(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    failed, attempted = doctest.testmod(module, globs={**NAMES, **vars(module)})
    assert attempted > 0
    assert failed == 0
