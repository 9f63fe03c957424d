"""Programs, circuits and errors in other processes: pickled, sent, and used there."""

from __future__ import annotations

import copy
import importlib
import multiprocessing
import pickle
import pkgutil
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import dbsp
from dbsp import Circuit, CircuitError, CompileError, DbspError, InputError, Program, Schema, col
from dbsp.circuit.graph import Graph
from dbsp.circuit.stage import Stage
from dbsp.cli.program_files import FactFileErrors
from dbsp.io.facts import read_facts
from dbsp.io.problems import DataError
from dbsp.runtime.run import Run
from dbsp.runtime.unknown_names import UnknownOutputError
from tests.circuit.test_circuit_files import doubled
from tests.random_circuits import is_small

REACH = """
.decl edge(x: number, y: number)
.input edge
.decl path(x: number, y: number)
.output path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""
EDGES = [(1, 2), (2, 3)]
PATHS = [(1, 2), (1, 3), (2, 3)]


def closure() -> Circuit:
    circuit = Circuit("closure")
    edge = circuit.input("edge", x=int, y=int)
    with circuit.fixpoint("path") as scope:
        path = scope.variable("path", edge.schema)
        step = path.join(edge, on=[("y", "x")], select=["x", "y_right"]).rename(y="y_right")
        scope.define(path, (edge + step).distinct())
    circuit.output("path", scope.leave(path))
    return circuit


def paths_of(source: Program | Graph) -> list[tuple[Any, ...]]:
    """Start a program or circuit of one output `path`, in the process that calls this."""
    run = Run(source) if type(source) is Graph else source.start()  # type: ignore[attr-defined]
    run.step({"edge": EDGES})
    return list(run.view("path").rows())


def failing(source: Program, change: Any) -> None:
    source.start().step(change)


@pytest.fixture(scope="module")
def worker() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


def test_programs_and_circuits_run_in_a_spawned_process(worker: ProcessPoolExecutor) -> None:
    sources = [dbsp.compile(REACH), closure(), *(closure().circuit(stage) for stage in Stage)]
    for source in sources:
        assert worker.submit(paths_of, source).result() == PATHS


def test_an_error_of_a_spawned_process_keeps_its_place(worker: ProcessPoolExecutor) -> None:
    text = ".decl n(x: number) .input n\n.decl r(x: number) .output r\nr(100 / x) :- n(x)."
    program = dbsp.compile(text)
    for change in ({"n": [(0,)]}, {"m": [(0,)]}, {"n": [("a",)]}):
        with pytest.raises(DbspError) as here:
            failing(program, change)
        with pytest.raises(DbspError) as there:
            worker.submit(failing, program, change).result()
        assert_equal_errors(there.value, here.value)
    with pytest.raises(CompileError) as refused:
        worker.submit(dbsp.compile, "a(x) :- b(x)\n").result()
    assert str(refused.value.diagnostics[0].span).startswith("<program>:")


def assert_equal_errors(error: BaseException, expected: BaseException) -> None:
    assert type(error) is type(expected)
    assert str(error) == str(expected)
    assert error.args == expected.args
    assert error.__dict__ == expected.__dict__


def error_classes() -> list[type[DbspError]]:
    """All classes of errors, of every module."""
    for module in pkgutil.walk_packages(dbsp.__path__, "dbsp."):
        if module.name.split(".")[1] not in ("spark", "__main__"):
            importlib.import_module(module.name)
    found = [DbspError]
    for cls in found:
        found += cls.__subclasses__()
    return [cls for cls in found if cls.__module__.startswith("dbsp.")]


@pytest.mark.parametrize("cls", error_classes(), ids=lambda cls: cls.__name__)
def test_every_error_survives_pickle(cls: type[DbspError]) -> None:
    error = DbspError.__new__(cls, "the message")
    DbspError.__init__(error, "the message", where="etl.py:3", code="a-code")
    again = pickle.loads(pickle.dumps(error))
    assert_equal_errors(again, error)
    assert (again.message, again.where, again.code) == ("the message", "etl.py:3", "a-code")


def test_errors_with_arguments_of_their_own_survive_pickle(tmp_path: Path) -> None:
    (tmp_path / "bad.facts").write_text("a\nb\n")
    with pytest.raises(DataError) as data:
        read_facts(tmp_path / "bad.facts", Schema.of(x=int))
    with pytest.raises(CompileError) as refused:
        dbsp.compile("a(x) :- b(x).")
    errors: list[DbspError] = [
        data.value,
        refused.value,
        FactFileErrors([data.value, InputError("unreadable", where="x.facts")]),
        UnknownOutputError("pth", ["edge"], ["path"]),
    ]
    for error in errors:
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), again.code) == (type(error), str(error), error.code)
    assert pickle.loads(pickle.dumps(data.value)).diagnostics == data.value.diagnostics
    assert pickle.loads(pickle.dumps(refused.value)).diagnostics == refused.value.diagnostics


def test_a_program_takes_its_included_files_along(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "more.dl").write_text(".once\n#define LIMIT 2\na(LIMIT).\n")
    (tmp_path / "main.dl").write_text(
        '.decl a(x: number)\n.output a\n#include "rules/more.dl"\n.include "rules/more.dl"\n'
        '#ifdef NEVER\n#include "missing.dl"\n#endif\na(f). // f is a macro\n'
    )
    program = dbsp.compile(tmp_path / "main.dl", macros={"f": 7}, folders=[tmp_path / "rules"], magic=True)
    written = pickle.dumps(program)
    (tmp_path / "rules" / "more.dl").unlink()
    (tmp_path / "main.dl").write_text("another program")
    again = pickle.loads(written)
    assert again.facts == program.facts == {"a": [(2,), (7,)]}
    assert again.options == program.options
    assert again.checked.facts[0].span == program.checked.facts[0].span
    assert again.circuit().same_as(program.circuit())
    assert again.identity == program.identity
    assert pickle.loads(pickle.dumps(again)).facts == program.facts


def test_functions_are_pickled_by_reference(worker: ProcessPoolExecutor) -> None:
    circuit = doubled()
    again = pickle.loads(pickle.dumps(circuit))
    assert again.same_as(circuit)
    assert again.start().step({"a": [(1,), (-1,)]})["out"].to_dict() == {(1,): 2}
    text = ".functor f(x: number): number\n.decl a(x: number)\n.output a\na(y) :- y = @f(-3).\n"
    program = pickle.loads(pickle.dumps(dbsp.compile(text, functors={"f": abs})))
    assert program.start().view("a").rows() == [(3,)]
    local = Circuit("c")
    local.output("out", local.input("a", x=int).filter(lambda row: is_small(row)))
    with pytest.raises((AttributeError, pickle.PicklingError), match=r"<lambda>"):
        pickle.dumps(local)


def test_a_circuit_with_a_functor() -> None:
    text = ".functor f(x: number): number\n.decl a(x: number)\n.input a\n.decl b(x: number)\n.output b\n"
    circuit = dbsp.compile(text + "b(@f(x)) :- a(x).", functors={"f": abs}).circuit("physical")
    run = dbsp.Run(pickle.loads(pickle.dumps(circuit)))
    assert run.step({"a": [(-3,), (3,), (4,)]})["b"].to_dict() == {(3,): 1, (4,): 1}


def test_a_run_is_not_pickled_or_copied() -> None:
    run = closure().start()
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(CircuitError) as caught:
            attempt(run)
        assert str(caught.value) == (
            "a run cannot be pickled or copied; pickle the program or circuit and start it again, or start "
            "the run with checkpoint=... [not-serialisable]"
        )
    assert run.step({"edge": [(1, 2)]})


def test_long_circuits_and_long_cycles_are_pickled() -> None:
    circuit = Circuit("long")
    start = circuit.input("edge", x=int)
    total = circuit.feedback(start.schema)
    stream = start + total
    for number in range(2000):
        stream = stream.map(x=(col("x") + number) % 5)
    circuit.connect(total, stream)
    circuit.output("path", stream)
    again = pickle.loads(pickle.dumps(circuit))
    assert again.same_as(circuit)
    again.validate()
    assert again.named.keys() == circuit.named.keys()
    assert [node.id for node in again.nodes if node.strict] == [
        node.id for node in circuit.nodes if node.strict
    ]


def test_a_circuit_that_was_sent_can_be_extended() -> None:
    circuit = pickle.loads(pickle.dumps(closure()))
    more = circuit.input("more", x=int)
    circuit.output("all", more)
    assert circuit.start().step({"more": [(1,)]})["all"].rows() == [(1,)]
    with pytest.raises(DbspError, match="already has an input 'edge'"):
        circuit.input("edge", x=int)


def test_a_result_after_values_were_freed() -> None:
    circuit = dbsp.Circuit("names")
    circuit.output("all", circuit.input("name", x=str))
    run = circuit.start()
    run.step({"name": [(f"name {number}",) for number in range(100)]})
    run.step({"name": {(f"name {number}",): -1 for number in range(100) if number != 42}})
    run.compact()
    view = run.view("all")
    assert pickle.loads(pickle.dumps(view)).rows() == view.rows() == [("name 42",)]
    assert pickle.loads(pickle.dumps(run.step({"name": [("new",)]})["all"])).rows() == [("new",)]
