"""The layout of the code: modules in packages, unique file names, a docstring per package."""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "explanation" / "architecture.md"
LOOSE = {
    "dbsp/__init__.py",
    "dbsp/__main__.py",
    "dbsp/caller_tracebacks.py",
    "dbsp/deferred_signals.py",
    "dbsp/diagnostics.py",
    "dbsp/errors.py",
    "dbsp/lazy_dataclass.py",
}


def modules() -> list[Path]:
    """The files of the package, by their path from the root of the repository."""
    found = (path for top in ("dbsp", "operators", "compiler") for path in (ROOT / top).rglob("*.py"))
    links = {ROOT / "dbsp" / "operators", ROOT / "dbsp" / "compiler"}
    return sorted(path.relative_to(ROOT) for path in found if not links.intersection(path.parents))


def test_no_module_of_the_kernel_or_the_operators_is_outside_a_package() -> None:
    loose = {str(path) for path in modules() if len(path.parts) == 2 and path.parts[0] != "compiler"}
    assert loose == LOOSE | {"operators/__init__.py"}


def test_every_file_name_occurs_once() -> None:
    names = Counter(path.name for path in modules() if path.name != "__init__.py")
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize("top", ["dbsp", "operators", "compiler"])
def test_every_package_is_described(top: str) -> None:
    page = PAGE.read_text(encoding="utf-8")
    packages = {path.parent for path in modules() if path.parts[0] == top and path.name != "__init__.py"}
    assert [
        str(package) for package in packages if package != Path("dbsp") and f"`{package}" not in page
    ] == []


def test_every_package_has_a_docstring() -> None:
    silent = [
        str(path)
        for path in modules()
        if path.name == "__init__.py" and not ast.get_docstring(ast.parse((ROOT / path).read_text("utf-8")))
    ]
    assert silent == []


def test_every_package_is_in_a_layer() -> None:
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    layers = {package.strip() for layer in contract["layers"] for package in layer.split("|")}
    without = []
    for path in modules():
        parts = ("dbsp", *path.parts) if path.parts[0] != "dbsp" else path.parts
        name = ".".join(parts).removesuffix(".py").removesuffix(".__init__")
        covers = any(
            f"{name}.".startswith(f"{package}.") or package.startswith(f"{name}.") for package in layers
        )
        if not covers:
            without.append(str(path))
    assert without == []
