"""Programs that are replanned while they run, for their current rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from dbsp import CircuitError, DbspError, Run, compile
from dbsp.circuit.graph_json import to_json
from dbsp.circuit.stage import Stage
from tests.harness import deltas_of, views
from tests.profiles import examples
from tests.random_datalog import INPUTS, programs
from tests.strategies import Tick, set_ticks

CAP = 60

few = st.integers(0, 3)
ticks = set_ticks({name: st.tuples(*[few] * arity) for name, arity in INPUTS.items()}, max_ticks=5)
schedules = st.lists(
    st.lists(st.sampled_from(["by counts", "auto", "binary", "wcoj"]), max_size=2), min_size=1, max_size=4
)
"""The replans before some ticks, once or twice."""


def answer(run: Run, tick: Tick) -> Any:
    try:
        return deltas_of(run.step(tick)), views(run)
    except DbspError as error:
        return type(error).__name__


@pytest.mark.slow
@settings(max_examples=examples(80))
@given(programs(), ticks, schedules)
def test_replanning_does_not_change_results(
    text: str, sequence: list[Tick], schedule: list[list[str]]
) -> None:
    run, other = (compile(text).start(max_iterations=CAP) for _ in range(2))
    of_strategy = {s: compile(text, s) for s in ("auto", "binary", "wcoj")}
    for number, tick in enumerate(sequence):
        for how in schedule[number % len(schedule)]:
            if how == "by counts":
                done = run.replan()
            else:
                program = of_strategy[how]
                done = run.replan(program.circuit_for(program.plans, CAP).circuit("physical"))
            event(f"rebuilt: {done.rebuilt > 0}, kept: {done.kept > 0}")
            assert views(run) == views(other)
        expected = answer(other, tick)
        assert answer(run, tick) == expected, f"tick {number} of {sequence}"


PAIRS = """
    .decl follows(x: number, y: number)
    .decl vip(x: number)
    .decl reached(x: number, y: number)
    .decl out(x: number, z: number)
    .input follows, vip
    .output out
    reached(x, y) :- follows(x, y), vip(x).
    reached(x, z) :- reached(x, y), follows(y, z).
    out(x, w) :- follows(x, y), follows(y, z), reached(z, w), vip(x).
"""


def grid(n: int) -> list[tuple[int, int]]:
    return [(x, (x * k + k) % n) for x in range(n) for k in (1, 2, 3, 5)]


def test_live_rows_of_inputs_and_derived_relations() -> None:
    run = compile(PAIRS).start({"follows": [(1, 2), (2, 3), (3, 4)], "vip": [(1,), (2,)]})
    rows = run.rows("follows")
    assert rows is not None and rows.tolist() == [[1, 2], [2, 3], [3, 4]]
    reached = run.rows("reached")
    assert reached is not None and reached.tolist() == [[1, 2], [1, 3], [1, 4], [2, 3], [2, 4]]
    run.step({"vip": {(1,): -1}})
    reached = run.rows("reached")
    assert reached is not None and reached.tolist() == [[2, 3], [2, 4]]


def test_the_first_tick_is_planned_for_its_rows_and_replan_for_current_rows() -> None:
    program = compile(
        """
        .decl a(x: number, y: number)
        .decl b(y: number, z: number)
        .decl c(z: number, w: number)
        .decl o(x: number, w: number)
        .input a, b, c
        .output o
        o(x, w) :- a(x, y), b(y, z), c(z, w).
        """
    )
    a, b, c = (
        [(i, i % 10) for i in range(500)],
        [(i % 10, i % 50) for i in range(50)],
        [(i % 50, i) for i in range(500)],
    )
    run = program.start({"a": a, "b": b, "c": c[:1]})
    other = program.start({"a": a[:1], "b": b, "c": c})
    assert run.graph.content_hash() != other.graph.content_hash()
    assert program.explain(run) != program.explain(other)
    assert run.drift() == other.drift() == 1.0
    assert run.replan().changes == ()
    run.step({"a": dict.fromkeys(a[1:], -1), "c": c})
    assert run.drift() > 100
    before = views(run)
    done = run.replan()
    assert [change.split(": ", 1)[1] for change in done.changes] == ["o(x, w) :- a(x, y), b(y, z), c(z, w)."]
    assert done.kept and done.rebuilt
    assert run.graph.same_as(other.graph)
    assert views(run) == before
    assert run.drift() == 1.0


def test_only_the_physical_circuit_is_replanned() -> None:
    run = compile(PAIRS).start({"vip": [(1,)]}, stage=Stage.QUERY)
    with pytest.raises(CircuitError, match="has no planner"):
        run.replan()
    rows = run.rows("vip")
    assert rows is not None and rows.tolist() == [[1]]
    assert run.rows("reached") is None


def test_a_durable_run_continues_with_the_circuit_of_its_snapshot(tmp_path: Path) -> None:
    program = compile(PAIRS)
    run = program.start({"vip": [(1,)], "follows": [(1, 2), (2, 1)]}, checkpoint=tmp_path)
    run.step({"follows": grid(30)})
    run.replan(compile(PAIRS, "wcoj").circuit("physical"))
    assert run.log is not None
    run.step({"vip": [(4,)]})
    run.log.snapshot()
    circuit, before = to_json(run.graph), views(run)
    run.step({"vip": {(1,): -1}})
    after = views(run)
    assert after != before
    run.log.close()
    again = program.start(checkpoint=tmp_path)
    assert to_json(again.graph) == circuit
    assert views(again) == after
    assert len(again.replan().changes) == 3
    again.step({"vip": [(1,)]})
    assert views(again) == before
    assert again.log is not None
    again.log.close()
