"""The rows that the watermark has not passed: compared with the definition in every stage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbsp
from dbsp import Circuit, CircuitError, EvaluationError, Run, SchemaError, Stream, col, count, lit
from dbsp.circuit.stage import Stage
from dbsp.durable import Store
from tests import reference
from tests.harness import start, view
from tests.profiles import examples
from tests.reference import Z, add, aggregate, flat_map, minus, select
from tests.strategies import Tick, rows, small, ticks

EVENT = rows(st.integers(0, 30), small)
EVENTS = ticks({"a": EVENT}, max_ticks=10, max_size=4)
LATENESS = 5


def circuit_of() -> Circuit:
    """The recent rows of all rows, of windows of the rows on time, and of their groups."""
    circuit = Circuit()
    a = circuit.input("a", t=int, v=int)
    split = a.watermark("t", LATENESS)
    circuit.output("rows", a.recent(split.watermark, "t"))
    windows = split.on_time.window("t", 6, 3)
    grouped = windows.group_by("window_end").agg(n=count(), s=col("v").sum())
    circuit.output("groups", grouped.recent(split.watermark, "window_end"))
    recent = windows.recent(split.watermark, "window_end")
    circuit.output("again", recent.group_by("window_end").agg(n=count(), s=col("v").sum()))
    return circuit


class Model:
    """Computes the outputs by loops."""

    def __init__(self) -> None:
        self.mark: int | None = None
        self.all: Z = {}
        self.on_time: Z = {}

    def step(self, delta: Z) -> dict[str, Z]:
        before = self.mark
        self.all = add(self.all, delta)
        kept = select(delta, lambda row: before is None or row[0] >= before)
        self.on_time = add(self.on_time, kept)
        inserted = [row[0] - LATENESS for row, weight in delta.items() if weight > 0]
        self.mark = max([*inserted, *([] if before is None else [before])], default=None)
        windows = flat_map(self.on_time, lambda row: [(*row, end) for end in _ends(row[0])])
        groups = aggregate(windows, [2], [(reference.count, None), (reference.total, 1)])
        recent = self._recent(groups, 0)
        return {"rows": self._recent(self.all, 0), "groups": recent, "again": recent}

    def _recent(self, z: Z, column: int) -> Z:
        return select(z, lambda row: self.mark is None or row[column] > self.mark)


def _ends(time: int) -> list[int]:
    return [start + 6 for start in range(-30, 60, 3) if start <= time < start + 6]


@pytest.mark.parametrize("stage", Stage)
@settings(max_examples=examples(25))
@given(EVENTS)
def test_the_rows_beyond_the_watermark(stage: Stage, sequence: list[Tick]) -> None:
    run = circuit_of().start(stage)
    model = Model()
    before: dict[str, Z] = {"rows": {}, "groups": {}, "again": {}}
    for tick in sequence:
        value = model.step(tick.get("a", {}))
        result = run.step(tick)
        for name, expected in value.items():
            assert view(run, name) == expected
            assert result[name].to_dict() == minus(expected, before[name])
        before = value


def ended(run: Run) -> None:
    assert isinstance(run.log, Store)
    run.log.close()


@settings(max_examples=10)
@given(EVENTS, st.integers(0, 9))
def test_a_checkpoint_and_a_failed_tick(tmp_path_factory: Any, sequence: list[Tick], at: int) -> None:
    def build() -> Circuit:
        circuit = circuit_of()
        circuit.output("failing", circuit.input("b", x=int).map(y=lit(1) // col("x")))
        return circuit

    folder: Path = tmp_path_factory.mktemp("recent")
    run = build().start(checkpoint=Store(folder, snapshot_every=2, sync=False))
    model = Model()
    for number, tick in enumerate(sequence):
        if number == at:
            with pytest.raises(EvaluationError):
                run.step({"a": [(1000, 0), (30, 1)], "b": [(0,)]})
            ended(run)
            run = build().start(checkpoint=Store(folder, snapshot_every=2, sync=False))
        value = model.step(tick.get("a", {}))
        run.step(tick)
        assert {name: view(run, name) for name in value} == value
    ended(run)


def test_what_happens_to_late_rows() -> None:
    def build(c: Circuit) -> Stream:
        a = c.input("a", t=int)
        return a.recent(a.watermark("t", 0).watermark, "t")

    run = start(build)
    assert run.step({"a": {(-5,): -2}})["out"].to_dict() == {(-5,): -2}  # before the first watermark
    assert run.step({"a": {(9,): 1, (8,): 1, (10,): -1}})["out"].to_dict() == {(-5,): 2, (10,): -1}
    run.step({"a": [(10,), (11,)]})
    assert view(run) == {}
    assert run.step({"a": {(11,): -1, (3,): 1}})["out"].to_dict() == {}
    assert view(run) == {}


def test_the_view_and_the_state_are_bounded() -> None:
    def build(c: Circuit) -> Stream:
        split = c.input("a", t=int, v=int).watermark("t", 20)
        recent = split.on_time.window("t", 10).recent(split.watermark, "window_end")
        return recent.group_by("window_end", "v").agg(n=count()).distinct()

    run = start(build)
    for tick in range(1500):
        run.step({"a": [(tick, v) for v in range(10)]})
    assert len(run.view("out")) == 10 * 3
    assert run.state_rows < 6000 < 3 * 15_000


def test_a_view_needs_no_second_copy() -> None:
    c = Circuit()
    a = c.input("a", t=int)
    c.output("out", a.recent(a.watermark("t", 0).watermark, "t"))
    run = c.start()
    run.step({"a": [(t,) for t in range(100)]})
    run.step({"a": [(t,) for t in range(100, 200)]})
    assert len(run.scope.traces) == 1
    again = dbsp.from_json(c.to_json()).start()
    again.step({"a": [(1,), (2,)]})
    assert again.view("out").rows() == []


def test_replanning_keeps_the_recent_rows() -> None:
    from dbsp.operators.stages.circuit_stages import physical

    run = circuit_of().start()
    model = Model()
    model.step({(20, 1): 1, (3, 2): 1})
    run.step({"a": [(20, 1), (3, 2)]})
    assert run.replan(physical(circuit_of())).rebuilt == 0
    value = model.step({(28, 1): 2, (16, 1): 1})
    run.step({"a": {(28, 1): 2, (16, 1): 1}})
    assert {name: view(run, name) for name in value} == value


def test_refused() -> None:
    c = Circuit()
    a = c.input("a", t=int, u=int | None, s=str)
    mark = a.watermark("t", 1).watermark
    for message, refused in [
        (r"Recent at .*column that makes a row recent, 's: str'", lambda: a.recent(mark, "s")),
        (r"column that makes a row recent, 'u: int\?'", lambda: a.recent(mark, "u")),
        ("expected the watermark of a stream, got the output of Input", lambda: a.recent(a, "t")),
        ("unknown column 'x'", lambda: a.recent(mark, "x")),
    ]:
        with pytest.raises(SchemaError, match=message):
            refused()
    with c.fixpoint("scope") as scope:
        v = scope.variable("v", a.schema)
        scope.define(v, a)
        with pytest.raises(CircuitError, match=r"call recent\(\) on a stream outside"):
            v.recent(mark, "t")
