"""Python functions for a program's functors, from files and modules named on the command line."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from dbsp.errors import InputError, cause_text, expect_present


def load_functors(sources: Sequence[str]) -> dict[str, Callable[..., Any]]:
    """Return the callables of each FILE.py or module by name; later sources override earlier ones.

    Raises InputError if a source cannot be loaded.
    """
    functors: dict[str, Callable[..., Any]] = {}
    for source in sources:
        try:
            module = _from_file(Path(source)) if source.endswith(".py") else importlib.import_module(source)
        except Exception as error:  # the imported code can raise anything
            raise InputError(
                f"cannot load functors from {source}: {cause_text(error)}",
                code="functors-not-loaded",
            ) from error
        functors.update((name, value) for name, value in vars(module).items() if callable(value))
    return functors


def _from_file(path: Path) -> ModuleType:
    spec = expect_present(importlib.util.spec_from_file_location(path.stem, path), "a module spec")
    module = importlib.util.module_from_spec(spec)
    expect_present(spec.loader, "a loader of Python files").exec_module(module)
    return module
