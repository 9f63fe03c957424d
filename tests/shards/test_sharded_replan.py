"""`replan` of runs in processes: the plan of one process, durable, all shards or none."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import dbsp
from dbsp import CheckpointError, Circuit, CircuitError, Run, ShardError
from dbsp.durable.shards_header import ShardsHeader
from dbsp.operators.stages.passes.distribute import distribute
from dbsp.shards.shard_folder import ShardFolder
from dbsp.shards.sharded_run import ShardedRun
from tests.harness import deltas_of, views
from tests.shards.interrupted_lines import InterruptAt
from tests.shards.shop_circuit import ENDS, FAILS, act

PROGRAM = dbsp.compile("""
    .decl a(x: number, s: symbol) .input a
    .decl b(s: symbol, w: number) .input b
    .decl c(w: number, z: number) .input c
    .decl chain(x: number, z: number) .output chain
    chain(x, z) :- a(x, s), b(s, w), c(w, z).
""")


def rows_of(repeated: str) -> dict[str, dict[Any, int]]:
    """Return rows in which one relation has few different values in its first column."""
    first = [x % 5 if repeated == "a" else x for x in range(200)]
    last = [x % 5 if repeated == "c" else x for x in range(200)]
    return {
        "a": {(first[x], f"{x}"): 1 for x in range(200)},
        "b": {(f"{x}", x): 1 for x in range(200)},
        "c": {(last[x], x): 1 for x in range(200)},
    }


FIRST = rows_of("a")
GROWN = {name: {**dict.fromkeys(FIRST[name], -1), **rows_of("c")[name]} for name in "ac"}
MORE = {"a": {(x, f"{x}"): -1 for x in range(0, 200, 3)}, "c": {(1, 1): -1, (7, 501): 1}}


def full(*arguments: object) -> None:
    raise CheckpointError("the disk is full", code="checkpoint-write")


def planned(folder: Path | ShardFolder | None = None) -> tuple[Run, ShardedRun]:
    """Return runs in one process and on shards that are planned for other rows than they have."""
    one, many = PROGRAM.start(FIRST), PROGRAM.start(FIRST, shards=2, checkpoint=folder)
    for run in (one, many):
        run.step(GROWN)
    return one, many


def expect_same(one: Run, many: ShardedRun) -> None:
    assert (many.tick, views(many)) == (one.tick, views(one))


def has_plan_of(one: Run, many: ShardedRun) -> bool:
    return many.graph.same_as(distribute(one.graph))


def expect_later_ticks(one: Run, many: ShardedRun) -> None:
    for changes in (MORE, {"b": {("5", 5): -1}}):
        assert deltas_of(many.step(changes)) == deltas_of(one.step(changes))
    expect_same(one, many)


def test_the_plan_is_that_of_one_process() -> None:
    one, many = planned()
    with many:
        assert has_plan_of(one, many)
        assert many.drift() > 1
        before = many.graph
        many.input("a").insert([(7, "staged")])
        done, expected = many.replan(), one.replan()
        assert done.changes == expected.changes != ()
        assert (done.kept, done.rebuilt) == (2, 3)
        assert has_plan_of(one, many)
        assert not many.graph.same_as(before)
        assert many.drift() == 1.0
        expect_same(one, many)
        one.input("a").insert([(7, "staged")])
        expect_later_ticks(one, many)
        done, expected = many.replan(), one.replan()
        assert done.changes == expected.changes
        assert has_plan_of(one, many)


LINEAR = "path(x, z) :- path(x, y), edge(y, z)."
NONLINEAR = "path(x, z) :- path(x, y), path(y, z), x + z != 100."


@pytest.mark.parametrize("rule", [LINEAR, NONLINEAR])
@pytest.mark.parametrize("scopes", ["gather", "exchange"])
def test_recursive_relations_are_counted(rule: str, scopes: Any) -> None:
    program = dbsp.compile(f"""
        .decl edge(x: number, y: number) .input edge
        .decl path(x: number, y: number)
        path(x, y) :- edge(x, y).
        {rule}
        .decl back(x: number) .output back
        back(x) :- path(x, y), edge(y, x).
    """)
    rows = {"edge": [(x, (x + 1) % 9) for x in range(9)]}
    with program.start(rows, shards=2, scopes=scopes) as many:
        one = program.start(rows)
        counted, expected = many.rows("path"), one.rows("path")
        assert counted is not None
        assert expected is not None
        assert counted.tolist() == expected.tolist()
        assert len(counted) == 81


def test_a_checkpoint_has_the_new_plan(tmp_path: Path) -> None:
    one, many = planned(ShardFolder(tmp_path, snapshot_every=2))
    with many:
        many.replan()
        one.replan()
        expect_later_ticks(one, many)
    with PROGRAM.start(shards=2, checkpoint=tmp_path) as many:
        assert has_plan_of(one, many)
        expect_same(one, many)
        kill(many, 1)
        expect_later_ticks(one, many)
        assert many.replan().changes == PROGRAM_CHANGES  # its plans are unknown, as in one process
    with PROGRAM.start(shards=3, checkpoint=ShardFolder(tmp_path, reshard=True)) as many:
        expect_same(one, many)


PROGRAM_CHANGES = ("<program>:6:5: chain(x, z) :- a(x, s), b(s, w), c(w, z).",)


def test_a_plan_of_a_first_tick_that_failed_is_replaced(tmp_path: Path) -> None:
    with (
        mock.patch.object(ShardFolder, "commit", side_effect=full),
        pytest.raises(CheckpointError, match="the disk is full"),
    ):
        PROGRAM.start(FIRST, shards=2, checkpoint=tmp_path)
    rows = rows_of("c")
    one = PROGRAM.start(rows)
    with PROGRAM.start(rows, shards=2, checkpoint=tmp_path) as many:
        assert has_plan_of(one, many)
        expect_same(one, many)
    with PROGRAM.start(shards=2, checkpoint=tmp_path) as many:  # of the first tick, not the default
        assert has_plan_of(one, many)
        expect_same(one, many)


def test_a_switch_before_the_first_tick(tmp_path: Path) -> None:
    one = PROGRAM.start(FIRST)
    one.replan(PROGRAM.start(rows_of("c")).graph)
    with PROGRAM.start(shards=2, checkpoint=tmp_path) as many:
        many.replan(one.graph)
        many.step(FIRST)
        expect_same(one, many)
        assert has_plan_of(one, many)
    with PROGRAM.start(shards=2, checkpoint=tmp_path) as many:
        expect_same(one, many)


# --- all or nothing -------------------------------------------------------------------------------


def kill(run: ShardedRun, shard: int) -> None:
    os.kill(run.stats()[shard].process, signal.SIGKILL)


def at_the_switch(before: Callable[[], None], after: Callable[[], None]) -> Any:
    """Call functions before and after the header with the new circuit or program is written."""
    genuine = ShardFolder.switch

    def switch(self: ShardFolder, header: ShardsHeader) -> None:
        before()
        genuine(self, header)
        after()

    return mock.patch.object(ShardFolder, "switch", switch)


def nothing() -> None:
    pass


def test_a_crash_before_or_after_the_decision(tmp_path: Path) -> None:
    """Copies of the folder are what a crash of all processes at that moment would leave."""
    one, many = planned(tmp_path / "run")
    with many:
        many.snapshot()
        old = many.graph

        def copy(name: str) -> Callable[[], None]:
            def act() -> None:
                shutil.copytree(tmp_path / "run", tmp_path / name)

            return act

        with at_the_switch(copy("before"), copy("after")):
            many.replan()
        one.replan()
    for name in ("before", "after"):
        other = PROGRAM.start(FIRST)
        other.step(GROWN)
        with PROGRAM.start(shards=2, checkpoint=tmp_path / name) as many:
            assert many.graph.same_as(old) == (name == "before")
            assert has_plan_of(one, many) == (name == "after")
            expect_later_ticks(other, many)


def test_a_circuit_that_is_withdrawn_is_not_continued(tmp_path: Path) -> None:
    """All shards have written their snapshots, but the header could not be written."""
    one, many = planned(ShardFolder(tmp_path, snapshot_every=3))
    with many:
        old = many.graph
        for _ in range(2):
            with (
                mock.patch.object(ShardFolder, "switch", side_effect=full),
                pytest.raises(CheckpointError, match="the disk is full"),
            ):
                many.replan()
            assert many.graph is old
            expect_same(one, many)
        expect_later_ticks(one, many)
        many.snapshot()
        kill(many, 0)
        expect_later_ticks(one, many)
    with PROGRAM.start(shards=2, checkpoint=tmp_path) as many:
        assert many.graph.same_as(old)
        expect_same(one, many)


def test_a_shard_that_ends_after_the_decision(tmp_path: Path) -> None:
    one, many = planned(tmp_path)
    with many:
        process = many.stats()[1].process
        with at_the_switch(nothing, lambda: os.kill(process, signal.SIGKILL)):
            assert many.replan().changes == one.replan().changes
        expect_same(one, many)
        expect_later_ticks(one, many)
        assert has_plan_of(one, many)


def test_an_interrupt_at_any_line(tmp_path: Path) -> None:
    one, many = planned(tmp_path)
    other = one.graph
    with many:
        one.replan()
        line = switched = kept = 0
        assert not one.graph.same_as(other)
        targets = [one.graph, other]
        while True:
            line += 97
            before, target = many.graph, targets[0]
            interrupted = InterruptAt(line).call(lambda target=target: many.replan(target))
            new = many.graph.same_as(distribute(target)) and many.graph is not before
            switched, kept = switched + new, kept + (not new)
            targets.reverse()
            if line % 5 == 0:
                deltas = deltas_of(many.step(changes := {"c": [(3, line)]}))
                assert deltas == deltas_of(one.step(changes))
            if not interrupted:
                break
        expect_later_ticks(one, many)
        assert switched > 1
        assert kept > 3


def checked(function: bool) -> Circuit:
    """Return a circuit; with `function`, another one of the same query that calls it for rows."""
    circuit = Circuit("checked")
    rows = circuit.input("sale", id=int, kind="set")
    if function:
        rows = rows.map(act, dbsp.Schema.of(id=int, rest=int)).select("id")
    circuit.output("all", rows)
    return circuit


def test_an_error_or_the_end_of_a_shard_leaves_the_circuit(tmp_path: Path) -> None:
    with checked(False).start(shards=2, checkpoint=tmp_path) as many:
        old = many.graph
        for number, error, text in ((FAILS, dbsp.UserFunctionError, "thirteen"), (ENDS, ShardError, "ended")):
            many.step({"sale": [(number,), (1,)]})
            with pytest.raises(error, match=text):
                many.replan(checked(True).circuit("physical"))
            assert many.graph is old
            many.step({"sale": {(number,): -1, (number + 2,): 1}})
            assert many.view("all").rows()[-1] == (number + 2,)
    with checked(False).start(shards=2) as many:
        many.step({"sale": [(ENDS,)]})
        with pytest.raises(ShardError, match="its part of the state is lost"):
            many.replan(checked(True).circuit("distributed"))
        with pytest.raises(ShardError, match="its part of the state is lost"):
            many.view("all")


def test_what_is_refused() -> None:
    with checked(False).start(shards=2) as many:
        with pytest.raises(CircuitError, match="no planner") as error:
            many.replan()
        assert error.value.code == "no-planner"
        with pytest.raises(dbsp.ArgumentError, match="circuit: expected a circuit of the same query"):
            many.replan("other")  # type: ignore[arg-type]
        with pytest.raises(CircuitError) as error:
            many.replan(PROGRAM.circuit("physical"))
        assert error.value.code == "different-circuits"
        many.step({"sale": [(5,)]})
    with pytest.raises(ShardError, match="closed"):
        many.replan()
