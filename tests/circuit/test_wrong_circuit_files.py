"""Circuits whose JSON text has a changed number: reading refuses them, or they run without harm."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from random import Random
from typing import Any

import pytest

import dbsp
from dbsp import Circuit, DbspError, Run, Stream, col, from_json
from dbsp.circuit.field_ranges import ANY_INPUTS
from dbsp.circuit.graph import Graph
from dbsp.circuit.operator import Operator
from dbsp.operators.streams.circuit_reader import catalogue

from ..random_circuits import BINARY, COLUMNS, FUNCTIONS, UNARY, build

STAGES = ("query", "incremental", "physical", "distributed")
MAX_ITERATIONS = 20
CASES_PER_DOCUMENT = 25
"""The number of changes that the tests try of each document, of all that `changes` yields."""


def ignored(change: Any) -> None:
    """A callback that does nothing."""


def windowed(a: Stream) -> Stream:
    marked = a.watermark("x", 2)
    windows = marked.on_time.window("x", size=3, hop=2)
    groups = windows.group_by("window_start", "window_end")
    return groups.final(marked.watermark, closes="window_end", n=dbsp.count())


OTHERS: dict[str, Callable[[Circuit, Stream, Stream, Stream], Stream]] = {
    "windowed": lambda c, a, b, d: windowed(a),
    "late": lambda c, a, b, d: a.watermark("x", 2).late,
    "range_join": lambda c, a, b, d: a.range_join(b, left="x", right="x", low=-1, high=1, on=["s"]),
    "asof_join": lambda c, a, b, d: a.asof_join(b, left="x", right="x", on=["s"]),
    "classes": lambda c, a, b, d: d.equivalence_classes(),
    "choice": lambda c, a, b, d: a.choice_domain(["x", "s"], "s"),
    "number_rows": lambda c, a, b, d: b.number_rows(by="x", first=1),
    "sample": lambda c, a, b, d: a.sample(0.5, 1, on=["x", "s"]),
    "series": lambda c, a, b, d: d.generate_series("x", "y", 1),
    "explode": lambda c, a, b, d: c.input("l", x=int, e=list[int]).explode("e", position="n"),
    "scale": lambda c, a, b, d: a.scale(3),
    "at_least": lambda c, a, b, d: a.at_least(2),
    "widen": lambda c, a, b, d: a.widen("x"),
    "nonnegative": lambda c, a, b, d: a.assert_nonnegative("a"),
    "preceded": lambda c, a, b, d: d.preceded(),
    "same": lambda c, a, b, d: a.filter(col("x") == col("y")),
    "two_keys": lambda c, a, b, d: a.join(b, on=["x", ("s", "s")], select=["y_right", "s", "x"]),
    "right_join": lambda c, a, b, d: a.join(b, on=["x"], how="right"),
    "full_join": lambda c, a, b, d: a.join(b, on=["s"], how="full"),
    "inspect": lambda c, a, b, d: a.distinct().inspect(ignored),
    "time": lambda c, a, b, d: a.integrate().differentiate().delay(),
}


def other(name: str) -> Circuit:
    circuit = Circuit(name)
    a = circuit.input("a", schema=COLUMNS)
    b = circuit.input("b", schema=COLUMNS, kind="set")
    d = circuit.input("d", x=int, y=int)
    circuit.input("k", schema=COLUMNS, kind="key", key=["x"])
    circuit.output("out", OTHERS[name](circuit, a, b, d))
    return circuit


PROGRAM = """
.decl e(x: number, y: number) .input e
.decl t(x: number) .output t
t(x) :- e(x, y), e(y, z), e(z, x), y != 3, w = x + 1, w < 9.
.decl p(x: number, y: number) .output p
p(x, y) :- e(x, y), x < 5.
p(x, z) :- p(x, y), e(y, z), !e(z, x).
.decl n(s: number, m: number) .output n
n(s, m) :- e(s, _), m = max y : { e(s, y) }.
"""


@cache
def documents() -> dict[str, str]:
    """The JSON text of circuits with all operators, in all stages, by name."""
    sources: dict[str, Any] = {name: build([(name, 2, 1)]) for name in (*UNARY, *BINARY)}
    sources |= {name: other(name) for name in OTHERS}
    sources["program"] = dbsp.compile(PROGRAM, folders=[])
    sources["wcoj"] = dbsp.compile(PROGRAM, folders=[], strategy="wcoj")
    return {
        f"{name} {stage}": source.circuit(stage).to_json().replace(": 100000", f": {MAX_ITERATIONS}")
        for name, source in sources.items()
        for stage in STAGES
    }


def numbers_in(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield all (container, key) of ints in a document."""
    keys = list(value) if isinstance(value, dict) else range(len(value))
    for key in keys:
        if type(value[key]) is int and key != "max_iterations":
            yield value, key
        elif isinstance(value[key], dict | list):
            yield from numbers_in(value[key])


def changes(text: str) -> Iterator[tuple[str, str]]:
    """Yield the text with one int changed, and a description of the change."""
    document = json.loads(text)
    for number, (container, key) in enumerate(numbers_in(document)):
        before = container[key]
        others = (before + 1, before - 1, -before - 1, 0, 3, 100, -(2**40), 2**63, 10**30)
        for after in dict.fromkeys(others):
            if after != before:
                container[key] = after
                yield json.dumps(document), f"int {number}: {key} = {before} becomes {after}"
        container[key] = before
    yield from _other_inputs(document)


def _other_inputs(document: Any) -> Iterator[tuple[str, str]]:
    """Yield the text with one input more or less of one node."""
    waiting = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict) and isinstance(value.get("inputs"), list):
            before = value["inputs"]
            for after in (before[:-1], [*before, *before[-1:]], before[::-1]):
                value["inputs"] = after
                yield json.dumps(document), f"inputs {before} become {after}"
            value["inputs"] = before
        waiting += value.values() if isinstance(value, dict) else value if isinstance(value, list) else []


TICKS: tuple[dict[str, Any], ...] = (
    {
        "a": [(1, 2, "a"), (2, 1, "b"), (3, None, "a"), (1, 1, "a")],
        "b": [(1, 1, "a"), (2, None, "b"), (4, 1, "c")],
        "d": [(1, 2), (2, 3), (5, 4)],
        "k": [(1, 1, "a")],
        "e": [(1, 2), (2, 3), (3, 1), (2, 2)],
    },
    {
        "a": {(1, 2, "a"): -1, (9, 9, "b"): 2},
        "b": {(1, 1, "a"): -1},
        "d": {(1, 2): -1, (7, 7): 1},
        "k": {(1, 2, "b"): 1},
        "e": {(2, 3): -1, (3, 2): 1},
    },
)


def attempt(text: str) -> bool:
    """Read and run a circuit; return whether it was refused. Raises what is not a DbspError."""
    try:
        graph: Any = from_json(text, functions=[*FUNCTIONS, ignored])
        run: Run = Run(graph) if type(graph) is Graph else graph.start()
    except DbspError:
        return True
    for tick in TICKS:
        try:
            run.step({name: rows for name, rows in tick.items() if name in run.inputs})
        except DbspError:
            continue
    for name in run.outputs:
        run.view(name).rows()
    return False


@pytest.mark.parametrize("name", list(documents()))
def test_a_changed_number_raises_no_raw_error(name: str) -> None:
    text = documents()[name]
    assert not attempt(text)
    found = list(changes(text))
    for changed, what in Random(name).sample(found, min(CASES_PER_DOCUMENT, len(found))):
        try:
            attempt(changed)
        except Exception as error:
            raise AssertionError(f"{name}, {what}: {error!r}") from error


def test_every_operator_declares_its_number_of_inputs() -> None:
    classes = [c for c in catalogue().values() if issubclass(c, Operator) and c.__module__ != "dbsp.circuit"]
    undeclared = {c.__name__ for c in classes if c.input_counts == ANY_INPUTS}
    # Bases, and operators whose inputs are those of another operator or of a scope.
    bases = {"Projectable", "IncrementalForm", "ForgettingOperator"}
    assert undeclared == {*bases, "Change", "Nested", "PerTick", "Fixpoint"}
