"""Every error of the package has a stable code, and every code a section of the documentation."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import dbsp.errors
from dbsp.errors import DbspError

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted((ROOT / "docs" / "reference" / "errors").glob("*.md"))
FAMILY = {name: value for name, value in vars(dbsp.errors).items() if isinstance(value, type)}
# Classes whose code depends on the cause, so that each raise names it.
WITHOUT_CODE = {name for name, value in FAMILY.items() if issubclass(value, DbspError) and not value.code}


def modules() -> Iterator[tuple[Path, ast.Module]]:
    """The syntax tree of every module of the package."""
    for top in ("dbsp", "operators", "compiler"):
        for path in sorted((ROOT / top).rglob("*.py")):
            found = path.relative_to(ROOT)
            # `dbsp/operators` and `dbsp/compiler` are links to the folders at the top.
            if found.parts[:2] not in {("dbsp", "operators"), ("dbsp", "compiler")}:
                yield found, ast.parse(path.read_text(encoding="utf-8"))


def used_codes() -> set[str]:
    """The codes of error classes, and those given as `code="..."` or returned beside a message."""
    found = {value.code for value in FAMILY.values() if issubclass(value, DbspError) and value.code}
    for _, tree in modules():
        for node in ast.walk(tree):
            match node:
                case ast.keyword(arg="code", value=value):
                    found |= {c.value for c in ast.walk(value) if isinstance(c, ast.Constant) and c.value}
                case ast.arguments(posonlyargs=first, args=second, defaults=defaults) if defaults:
                    last = (first + second)[-len(defaults) :]
                    given = zip(last, defaults, strict=True)
                    found |= {ast.literal_eval(value) for name, value in given if name.arg == "code"}
                case ast.Assign(targets=[ast.Name(id="code")], value=value):
                    found |= {c.value for c in ast.walk(value) if isinstance(c, ast.Constant) and c.value}
    return {code for code in found if isinstance(code, str) and re.fullmatch(r"[a-z0-9-]+", code)}


def documented_codes() -> list[str]:
    """The headings of the pages of errors."""
    return [
        code
        for page in PAGES
        for code in re.findall(r"^## ([a-z0-9-]+)$", page.read_text("utf-8"), re.MULTILINE)
    ]


def test_every_raise_names_its_cause() -> None:
    without = []
    for path, tree in modules():
        for node in ast.walk(tree):
            match node:
                case ast.Call(func=ast.Name("CompileError"), args=[ast.Call() | ast.ListComp()]):
                    pass  # from diagnostics, which have a code each
                case ast.Call(func=ast.Name(id=name), keywords=keywords) if name in WITHOUT_CODE:
                    if not {"code", None} & {keyword.arg for keyword in keywords}:
                        without.append(f"{path}:{node.lineno} {name}")
    assert without == []


def test_every_code_is_documented_once_and_no_other() -> None:
    documented = documented_codes()
    assert sorted(documented) == sorted(set(documented))
    assert used_codes() == set(documented)
