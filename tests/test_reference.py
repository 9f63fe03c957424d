"""The reference of the Python API has every public name, and every entry is complete."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import dbsp

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted((ROOT / "docs" / "reference" / "api").glob("*.md"))


def entries() -> Iterator[tuple[str, list[str]]]:
    """The objects of the reference pages, each with the members that its page lists."""
    for page in PAGES:
        for block in re.findall(r"^::: .*\n(?:    .*\n)*", page.read_text(encoding="utf-8"), re.MULTILINE):
            heading, _, options = block.partition("\n")
            members = yaml.safe_load(options)["options"]["members"] if options else []
            yield heading.removeprefix("::: "), members


def resolve(path: str) -> Any:
    """The object with this dotted name."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def callables() -> list[tuple[str, Any]]:
    """Every function and method of the reference."""
    found = []
    for path, members in entries():
        value = resolve(path)
        named = {f"{path}.{name}": inspect.getattr_static(value, name) for name in members}
        for name, member in {path: value, **named}.items():
            function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
            if inspect.isfunction(function):
                found.append((name, function))
    return found


@pytest.mark.parametrize(("name", "function"), callables(), ids=[name for name, _ in callables()])
def test_the_reference_says_all_that_a_caller_needs(name: str, function: Any) -> None:
    text = inspect.getdoc(function) or ""
    parameters = [
        parameter.name.lstrip("*")
        for parameter in inspect.signature(function).parameters.values()
        if parameter.name not in ("self", "cls")
    ]
    section = re.search(r"^Parameters:\n((?:    .*\n|\n)+)", text + "\n", re.MULTILINE)
    described = re.findall(r"^    \*{0,2}(\w+): ", section[1], re.MULTILINE) if section else []
    assert described == parameters
    assert ">>> " in text, "an example is missing"


def test_every_public_name_is_in_the_reference() -> None:
    listed = {path for path, _ in entries()}
    expected = {f"dbsp.{name}" for name in dbsp.__all__ if name != "__version__"}
    assert expected - listed == set()
