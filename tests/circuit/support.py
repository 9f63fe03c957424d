"""A circuit with one input, and the check of the errors that building on it raises."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from dbsp import Circuit, DbspError, Stream

Build: TypeAlias = Callable[[Circuit, Stream], None]
Refusal: TypeAlias = tuple[type[DbspError], str, str]
"""The type of an error, the operator that it names and a part of its message."""

PAIR = {"x": int, "y": int}


def edges(name: str = "c") -> tuple[Circuit, Stream]:
    circuit = Circuit(name)
    return circuit, circuit.input("edge", x=int, y=int)


def check_refused(build: Build, kind: type[DbspError], operator: str, message: str) -> None:
    """Check that `build` raises this error and that the error names a line of `build` itself."""
    with pytest.raises(kind) as caught:
        build(*edges())
    assert type(caught.value) is kind
    text = str(caught.value)
    code = build.__code__
    found = re.match(rf"{operator} at {re.escape(Path(code.co_filename).name)}:(\d+): ", text)
    assert found, text
    assert message in text
    lines = range(code.co_firstlineno, max(line for *_, line in code.co_lines() if line is not None) + 1)
    assert int(found[1]) in lines, text
