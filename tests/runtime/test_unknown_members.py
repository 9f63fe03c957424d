"""Attributes that runs and results of ticks do not have: the error says what to write."""

from __future__ import annotations

import copy
import pickle

import pytest

import dbsp
from dbsp import Circuit, CircuitError, Run


def started() -> Run:
    circuit = Circuit("shop")
    sale = circuit.input("sale", x=int)
    circuit.output("big", sale)
    return circuit.start()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("big", "a run has no 'big'; the rows are run.view(\"big\")"),
        ("sale", "a run has no 'sale'; the input is run.input(\"sale\")"),
        ("insert", "a run has no 'insert'; write run.input(name).insert(rows)"),
        ("query", "a run has no 'query'; write run.subscribe(query), or program.query(run, query)"),
        ("viev", "a run has no 'viev'; did you mean 'view'?"),
        ("qqqq", "a run has no 'qqqq'"),
        ("__qqqq__", "__qqqq__"),
    ],
)
def test_an_unknown_attribute_of_a_run(name: str, message: str) -> None:
    with pytest.raises(AttributeError) as raised:
        getattr(started(), name)
    assert str(raised.value) == message


def test_an_unknown_attribute_of_a_result() -> None:
    result = started().step({"sale": [(1,)]})
    with pytest.raises(AttributeError) as raised:
        result.big  # type: ignore[attr-defined]  # noqa: B018
    assert str(raised.value) == "the result of a tick has no 'big'; the delta is result[\"big\"]"
    with pytest.raises(AttributeError, match=r"^the result of a tick has no 'rows'$"):
        result.rows  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("step", "; write run = {}.start(), then run.step"),
        ("run", "; write run = {}.start(), then run.step({{name: rows}})"),
        ("insert", "; write run = {}.start(), then run.input(name).insert(rows)"),
        ("strat", "; did you mean 'start'?"),
        ("qqqq", ""),
    ],
)
def test_an_unknown_attribute_of_a_circuit_and_of_a_program(name: str, advice: str) -> None:
    program = dbsp.compile(".decl a(x: number)")
    for kind, value in (("circuit", Circuit("c")), ("program", program)):
        with pytest.raises(AttributeError) as raised:
            getattr(value, name)
        assert str(raised.value) == f"a {kind} has no '{name}'" + advice.format(kind)


def test_results_are_copied_and_runs_are_not() -> None:
    run = started()
    result = run.step({"sale": [(1,)]})
    assert copy.copy(result).number == 1
    assert copy.copy(result)["big"] == result["big"]
    with pytest.raises(CircuitError):
        pickle.dumps(run)
