"""There is one stream method for each operator."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import dbsp.compiler
import dbsp.operators.streams
from dbsp import Circuit, SchemaError, Stream, ValueOutOfRangeError
from dbsp.circuit.operator import Operator
from dbsp.operators.streams.circuit_reader import catalogue
from tests.harness import start

COMPILER = sorted(Path(next(iter(dbsp.compiler.__path__))).rglob("*.py"))


def test_the_compiler_creates_operators_only_by_stream_methods() -> None:
    """A front end adds nodes by stream methods, so that there is one way to create an operator."""
    operators = {name for name, value in catalogue().items() if issubclass(value, Operator)}
    calls = []
    for path in COMPILER:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imported = {
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dbsp.operators")
            for alias in node.names
        }
        calls += [
            f"{path.name}:{node.lineno} {node.func.id}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in operators & imported
        ]
    assert len(COMPILER) > 40
    assert not calls


# --- widen ----------------------------------------------------------------------------------------


def widened(c: Circuit) -> Stream:
    return c.input("a", x=int, s=str).widen("x", "s")


def test_widen_allows_none_and_keeps_the_rows() -> None:
    run = start(widened)
    assert run.outputs["out"].describe() == "x: int?, s: str?"
    assert run.step({"a": {(1, "p"): 2}})["out"].to_dict() == {(1, "p"): 2}
    assert run.step({"a": {(1, "p"): -2}})["out"].to_dict() == {(1, "p"): -2}


def test_a_widened_stream_fits_an_optional_one() -> None:
    def build(c: Circuit) -> Stream:
        optional = c.input("b", schema={"x": "int?", "s": "str?"})
        return widened(c) - optional

    run = start(build)
    assert run.step({"a": [(1, "p")], "b": [(None, "q")]})["out"].to_dict() == {(1, "p"): 1, (None, "q"): -1}


def test_the_int_that_represents_none_is_rejected() -> None:
    run = start(widened)
    with pytest.raises(ValueOutOfRangeError, match=r"Widen at test_stream_methods\.py:\d+: column 'x' of"):
        run.step({"a": [(-(2**63), "p")]})
    assert not run.view("out")


def test_widen_names_columns_that_exist() -> None:
    with pytest.raises(SchemaError, match=r"Widen at test_stream_methods\.py:\d+: .*'z'"):
        start(lambda c: c.input("a", x=int).widen("z"))


# --- number_rows ----------------------------------------------------------------------------------


def test_rows_of_positive_weight_get_numbers() -> None:
    run = start(lambda c: c.input("a", x=int).number_rows())
    assert run.step({"a": {(7,): 2, (8,): -1}})["out"].to_dict() == {(7, 0): 1}
    assert run.step({"a": {(7,): -1, (8,): 2}})["out"].to_dict() == {(8, 1): 1}
    assert run.step({"a": {(7,): -1}})["out"].to_dict() == {(7, 0): -1}
