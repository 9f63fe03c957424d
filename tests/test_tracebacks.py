"""Tracebacks of mistakes end at the caller's line; those of defects are whole."""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas
import pytest

import dbsp
from dbsp import Circuit, Schema, ZSet, col
from dbsp.caller_tracebacks import SWITCH, ends_at_caller
from dbsp.errors import DbspError, InvariantError, violated

ROOT = Path(__file__).resolve().parent.parent
REACH = """
.decl edge(x: number, y: number)
.input edge
.decl path(x: number, y: number)
.output path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""


def closure() -> Circuit:
    circuit = Circuit("closure")
    edge = circuit.input("edge", x=int, y=int)
    with circuit.fixpoint("path") as scope:
        path = scope.variable("path", edge.schema)
        step = path.join(edge, on=[("y", "x")], select=["x", "y_right"])
        scope.define(path, (edge + step.map(x=col("x"), y=col("y_right") // (col("y_right") - 3))).distinct())
    circuit.output("path", scope.leave(path))
    return circuit


def stream() -> Any:
    return Circuit("c").input("a", x=int)


def divide(row: Any) -> bool:
    return bool(1 // row.x)


def failing_function() -> None:
    circuit = Circuit("c")
    circuit.output("out", circuit.input("a", x=int).filter(divide))
    circuit.start().step({"a": [(0,)]})


def unfinished_scope() -> None:
    with Circuit("c").fixpoint("path") as scope:
        scope.variable("path", Schema.of(x=int))


MISTAKES: dict[str, Callable[[], Any]] = {
    "compile": lambda: dbsp.compile("path(x) :- ."),
    "compile a file": lambda: dbsp.compile("no such file.dl"),
    "program.start": lambda: dbsp.compile(REACH).start({"edge": [(1,)]}),
    "program.start, unknown": lambda: dbsp.compile(REACH).start({"edges": [(1, 2)]}),
    "why": lambda: (program := dbsp.compile(REACH)).why(program.start(), "path", (1,)),
    "query": lambda: (program := dbsp.compile(REACH)).query(program.start(), "nothing(x)"),
    "explain": lambda: dbsp.compile(REACH).explain(after="nothing"),
    "circuit.start": lambda: Circuit("c").start("unknown"),
    "circuit.input": lambda: Circuit("c").input("a", x=3),
    "circuit.output": lambda: Circuit("c").output("out", 3),
    "circuit.validate": lambda: (circuit := Circuit("c"), circuit.feedback({"x": int}), circuit.validate()),
    "fixpoint": unfinished_scope,
    "filter": lambda: stream().filter(col("y") > 1),
    "map": lambda: stream().map(y=col("x") + "a"),
    "rank": lambda: stream().rank(by=["y"]),
    "join": lambda: stream().join(stream(), on=["x"]),
    "group_by": lambda: stream().group_by("x").agg(n=dbsp.col("y").sum()),
    "quantile": lambda: dbsp.col("x").quantile(3),
    "prefixes": lambda: dbsp.extend_prefixes(ZSet([(1,)]), 3),
    "step": lambda: closure().start().step({"edge": [("a", "b")]}),
    "step, unknown input": lambda: closure().start().step({"egde": [(1, 2)]}),
    "step in a fixpoint": lambda: closure().start().step({"edge": [(1, 2), (2, 3)]}),
    "view": lambda: closure().start().view("nothing"),
    "insert": lambda: closure().start().input("edge").insert([(1,)]),
    "result": lambda: closure().start().step()["nothing"],
    "zset": lambda: ZSet([(1,), (1, 2)]),
    "from_pandas": lambda: ZSet.from_pandas(pandas.DataFrame({"x": [1, "a"]})),
    "index": lambda: ZSet([(1,)]).index_by("x"),
    "schema": lambda: Schema.of(x=3),
    "truth of an expression": lambda: bool(col("x")),
    "comparison with None": lambda: col("x") == None,  # noqa: E711
    "from_json": lambda: dbsp.from_json("{}"),
    "draw": lambda: dbsp.draw.to_dot(3),
}


def frames(error: BaseException) -> list[str]:
    """The files of the frames of a traceback, from the outermost one on."""
    return [Path(entry.filename).name for entry in traceback.extract_tb(error.__traceback__)]


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_the_traceback_of_a_mistake_ends_at_the_callers_line(mistake: Callable[[], Any]) -> None:
    with pytest.raises(DbspError) as caught:
        mistake()
    assert set(frames(caught.value)) == {"test_tracebacks.py"}
    chained = caught.value.__context__
    assert chained is None or caught.value.__suppress_context__ or chained is caught.value.__cause__


def test_the_function_of_the_caller_stays_in_the_traceback() -> None:
    with pytest.raises(dbsp.UserFunctionError) as caught:
        failing_function()
    cause = caught.value.__cause__
    assert isinstance(cause, ZeroDivisionError)
    assert [entry.name for entry in traceback.extract_tb(cause.__traceback__)] == ["divide"]


def test_a_function_of_the_caller_that_calls_dbsp_stays() -> None:
    circuit = Circuit("c")

    def body(step: Any) -> Any:
        return step.filter(col("y") > 1)

    with pytest.raises(dbsp.SchemaError) as caught:
        circuit.iterate("halve", circuit.input("n", x=int), body)
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (last.name, set(frames(caught.value))) == ("body", {"test_tracebacks.py"})


def test_the_switch_keeps_every_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "1")
    with pytest.raises(DbspError) as caught:
        MISTAKES["step in a fixpoint"]()
    assert {"ticks.py", "scope.py"} <= set(frames(caught.value))
    monkeypatch.setenv(SWITCH, "0")
    with pytest.raises(DbspError) as caught:
        MISTAKES["step in a fixpoint"]()
    assert "ticks.py" not in frames(caught.value)


@pytest.mark.parametrize("error", [InvariantError("a defect"), KeyError("no DbspError")], ids=repr)
def test_a_defect_keeps_every_frame(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise error

    run = closure().start()
    monkeypatch.setattr(run, "net", fail)
    with pytest.raises(type(error)) as caught:
        run.step()
    assert "ticks.py" in frames(caught.value)


def test_data_that_violates_a_validator_is_no_defect() -> None:
    circuit = Circuit("c")
    circuit.output("out", circuit.input("a", x=int).assert_nonnegative("stock"))
    with pytest.raises(InvariantError) as caught:
        circuit.start().step({"a": {(1,): -1}})
    assert set(frames(caught.value)) == {"test_tracebacks.py"}
    assert not violated("x").defect and InvariantError("x").defect


def test_a_cycle_of_causes_ends() -> None:
    first, second = DbspError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first

    @ends_at_caller
    def fail() -> None:
        raise first

    with pytest.raises(DbspError, match="first"):
        fail()


PROGRAM = """\
from dbsp import Circuit
circuit = Circuit("c")
circuit.output("out", circuit.input("a", x=int))
run = circuit.start()
run.step({"a": [("seven",)]})
"""


def test_what_python_prints(tmp_path: Path) -> None:
    script = tmp_path / "etl.py"
    script.write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop(SWITCH, None)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=environment)
    lines = done.stderr.splitlines()
    assert lines[:3] == [
        "Traceback (most recent call last):",
        f'  File "{script}", line 5, in <module>',
        '    run.step({"a": [("seven",)]})',
    ]
    assert lines[-1].startswith("dbsp.errors.InputError: ")
    assert len([line for line in lines if line.startswith("  File")]) == 1
