"""`update` of runs in processes: the result of one process, on all shards or on none."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dbsp
from dbsp import CheckpointError, CircuitError, DbspError, InputError, Run, ShardError
from dbsp.compiler.program import Program
from dbsp.durable.folder_report import verify_folder
from dbsp.shards.shard_folder import ShardFolder
from dbsp.shards.shard_group import ShardGroup
from dbsp.shards.sharded_run import ShardedRun
from tests.compiler.test_program_update import GRAPH, OTHER, RED, ROWS, compiled, ticks_of
from tests.harness import deltas_of, views
from tests.profiles import distance
from tests.random_edits import versions
from tests.shards.interrupted_lines import InterruptAt, count_lines
from tests.shards.shop_circuit import ENDS, FAILS, act
from tests.shards.test_sharded_agreement import some
from tests.shards.test_sharded_replan import at_the_switch

TICK: Any = {"edge": {(3, 4): -1, (21, 5): 1}, "colour": [(9, "red"), (4, "blue")]}
FACTS = OTHER + " edge(20, 21). .decl n(x: number) .output n n(x) :- edge(x, 21)."


class Pair:
    """A run of a program in one process, and one on shards."""

    def __init__(self, text: str = RED, shards: int = 2, rows: Any = ROWS, **options: Any) -> None:
        self.one = compiled(text).start(rows)
        self.many: ShardedRun = compiled(text).start(rows, shards=shards, **options)

    def __enter__(self) -> Pair:
        return self

    def __exit__(self, *error: object) -> None:
        self.many.close()

    def tick(self, changes: Any) -> None:
        expected, found = self.one.step(changes), self.many.step(changes)
        assert deltas_of(found) == deltas_of(expected)
        assert (found.number, found.absent, found.present) == (
            expected.number,
            expected.absent,
            expected.present,
        )
        self.compare()

    def update(self, program: Program) -> Mapping[str, str]:
        expected, found = self.one.update(program), self.many.update(program)
        assert deltas_of(found.deltas) == deltas_of(expected.deltas)
        assert found.deltas.number == expected.deltas.number
        assert found.relations.keys() == expected.relations.keys()
        self.compare()
        return found.relations

    def compare(self) -> None:
        assert (self.many.tick, views(self.many)) == (self.one.tick, views(self.one))
        assert dict(self.many.inputs) == dict(self.one.inputs)
        assert dict(self.many.outputs) == dict(self.one.outputs)


@pytest.mark.parametrize("shards", [1, 2, 3])
def test_updates_return_what_one_process_returns(shards: int) -> None:
    with Pair(shards=shards) as pair:
        done = pair.one.preview_update(compiled(FACTS))
        would = pair.many.preview_update(compiled(FACTS))
        assert deltas_of(would.deltas) == deltas_of(done.deltas)
        pair.compare()
        relations = pair.update(compiled(FACTS))
        # Shards rebuild what one process changes.
        rebuilt = {name: "rebuilt" if state == "changed" else state for name, state in done.relations.items()}
        assert relations == would.relations == rebuilt
        assert compiled(FACTS).explain(pair.many).partition("\nupdate (tick 2)\n")[2].splitlines() == [
            f"  {state}: {', '.join(sorted(name for name in relations if relations[name] == state))}"
            for state in ("kept", "rebuilt", "added")
        ]
        pair.tick(TICK)
        pair.update(compiled(GRAPH.replace(".input colour", "") + " red(x) :- edge(x, _), x > 5."))
        pair.tick({"edge": {(1, 2): -1, (9, 3): 1}})
        pair.update(compiled(RED + " edge(30, 31)."))
        pair.tick(TICK)
        assert {stats.shard for stats in pair.many.stats()} == set(range(shards))


def test_counts_and_plans_continue() -> None:
    with Pair() as pair:
        pair.many.input("edge").insert([(50, 51)])
        pair.one.input("edge").insert([(50, 51)])
        program = compiled(OTHER)
        pair.update(program)
        assert pair.many.drift() == 1.0
        message = r"tick 2 was an update to another program"
        with pytest.raises(CircuitError, match=message):
            pair.many.changed("edge")
        assert pair.many.changed_output("red").to_dict() == pair.one.changed_output("red").to_dict()
        pair.tick({})
        expected = pair.one.replan().changes
        assert pair.many.replan().changes == expected
        pair.compare()
        assert "red(x) :- path(x, y)" in program.explain(pair.many)
        pair.many.compact()
        pair.tick(TICK)


def test_dropped_inputs() -> None:
    with Pair() as pair:
        handle = pair.many.input("colour")
        handle.insert([(1, "red")])
        without = compiled(GRAPH.replace(".decl colour(x: number, c: symbol) .input colour", ""))
        with pytest.raises(CircuitError, match="no input 'colour', and changes of it are staged") as error:
            pair.many.update(without)
        assert error.value.code == "update-refused"
        handle.clear()
        pair.update(without)
        with pytest.raises(InputError, match="an update of the run has dropped the input 'colour'"):
            handle.insert([(1, "red")])
        pair.update(compiled(RED))
        pair.tick({"colour": [(8, "red")]})


# --- all or nothing -------------------------------------------------------------------------------


def test_an_error_leaves_all_shards_as_they_were() -> None:
    with Pair(shards=3) as pair:
        graph = pair.many.graph
        for clause in (
            'red(10 / (x - 3)) :- path(x, y), colour(y, "red").',  # while the relation is rebuilt
            'red(10 / (x - 50)) :- path(x, y), colour(y, "red"). edge(50, 5).',  # for the fact
        ):
            with pytest.raises(DbspError) as expected:
                pair.one.update(compiled(GRAPH + clause))
            with pytest.raises(DbspError) as found:
                pair.many.update(compiled(GRAPH + clause))
            assert (str(found.value), found.value.code) == (str(expected.value), expected.value.code)
            assert pair.many.graph is graph
            pair.compare()
        with pytest.raises(CircuitError, match="changed-input"):
            pair.many.update(compiled(GRAPH.replace("c: symbol", "c: number") + "red(x) :- colour(x, 1)."))
        pair.tick(TICK)


CALLS = """
    .decl a(x: number) .input a
    .decl b(x: number) .output b
    .functor rest(x: number): number
"""


def rest(x: int) -> int:
    """Return the number, or do what it means."""
    return act((x, 0))[0]


FUNCTORS = {"rest": rest}


def calls(clause: str) -> Program:
    return dbsp.compile(CALLS + clause, functors=FUNCTORS)


def test_a_function_that_fails_or_ends_its_process() -> None:
    with calls("b(x) :- a(x).").start(shards=2) as run:
        run.step({"a": [(FAILS,), (1,)]})
        with pytest.raises(dbsp.EvaluationError, match="thirteen"):
            run.update(calls("b(@rest(x)) :- a(x)."))
        assert run.step({"a": {(FAILS,): -1, (2,): 1}})["b"].to_dict() == {(FAILS,): -1, (2,): 1}
        run.step({"a": [(ENDS,)]})
        with pytest.raises(ShardError, match=r"ended during the update.*its part of the state is lost"):
            run.update(calls("b(@rest(x)) :- a(x)."))
        with pytest.raises(ShardError, match="its part of the state is lost"):
            run.view("b")


def test_a_shard_that_ends_around_the_decision() -> None:
    genuine = ShardGroup.commit
    for after in (False, True):
        with Pair() as pair:
            process = pair.many.stats()[1].process

            def commit(group: ShardGroup, process: int = process, after: bool = after) -> None:
                if not after:
                    os.kill(process, signal.SIGKILL)
                genuine(group)
                if after:
                    os.kill(process, signal.SIGKILL)

            with (
                mock.patch.object(ShardGroup, "commit", commit),
                pytest.raises(ShardError, match="its part of the state is lost"),
            ):
                pair.many.update(compiled(OTHER))
            with pytest.raises(ShardError, match="its part of the state is lost, so the run has ended"):
                pair.many.view("red")


def interrupt_at_sampled_lines(pair: Pair, step: int) -> tuple[int, int]:
    """Interrupt updates between two programs at each `step`-th line, and densely at the end.

    All shards take a new program at a few of its last lines. Return the number of interrupted
    updates that were undone, and the number of those that took place. The program RED runs then.
    """
    undone = done = 0
    facts, red = compiled(FACTS), compiled(RED)
    for old, new in ((red, facts), (facts, red)):
        update = partial(pair.many.update, new)
        pair.update(old)
        lines = count_lines(update)
        pair.one.update(new)
        pair.update(old)
        for line in (*range(step, lines, step), *range(lines - 1400, lines, 97)):
            interrupted = InterruptAt(line).call(update)
            if pair.many.tick > pair.one.tick:
                done += interrupted
                pair.one.update(new)
                pair.update(old)
            else:
                undone += 1
                pair.compare()
            if line % 3 == 0:
                pair.tick({"edge": {(line % 7, line % 5): 1 if line % 2 else -1}})
        pair.update(new)
    return undone, done


def test_an_interrupt_at_any_line() -> None:
    with Pair() as pair:
        undone, done = interrupt_at_sampled_lines(pair, distance(331))
        assert undone > 20
        assert done > 5
        pair.tick(TICK)


@pytest.mark.parametrize("name", ["drop_handles", "commit_update", "continue_with", "record_sizes"])
def test_an_interrupted_commit_is_completed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Pair() as pair:
        genuine, interrupts = getattr(ShardedRun, name), [KeyboardInterrupt]

        def interrupted(*arguments: Any) -> Any:
            if interrupts:
                raise interrupts.pop()
            return genuine(*arguments)

        monkeypatch.setattr(ShardedRun, name, interrupted)
        with pytest.raises(KeyboardInterrupt):
            pair.many.update(compiled(FACTS))
        pair.one.update(compiled(FACTS))
        pair.tick(TICK)
        pair.update(compiled(RED))


# --- refused --------------------------------------------------------------------------------------


def test_programs_that_shards_cannot_run() -> None:
    with calls("b(x) :- a(x).").start({"a": [(1,)]}, shards=2) as run:
        with pytest.raises(CircuitError, match="define it at the top level of a module"):
            run.update(dbsp.compile(CALLS + "b(@rest(x)) :- a(x).", functors={"rest": lambda x: x}))
        with pytest.raises(CircuitError, match="depends on the past ticks"):
            run.update(dbsp.compile(CALLS + "b(autoinc() + x) :- a(x)."))
        with pytest.raises(dbsp.ArgumentError, match="expected a compiled program"):
            run.update("b(x) :- a(x).")
        assert run.step({"a": [(2,)]})["b"].to_dict() == {(2,): 1}
    with pytest.raises(ShardError, match="update was called on a closed run"):
        run.update(calls("b(x) :- a(x)."))
    circuit = dbsp.Circuit("by hand")
    circuit.output("all", circuit.input("sale", x=int, kind="set"))
    with (
        circuit.start(shards=1) as many,
        pytest.raises(CircuitError, match="update needs a run of a compiled program"),
    ):
        many.update(calls("b(x) :- a(x)."))


# --- with a checkpoint ----------------------------------------------------------------------------


def expect_continued(folder: Path, text: str, one: Run, shards: int = 2) -> None:
    """Check that a folder continues where a run of one process is."""
    with compiled(text).start(shards=shards, checkpoint=folder) as many:
        assert (many.tick, views(many)) == (one.tick, views(one))
        assert deltas_of(many.step(TICK)) == deltas_of(one.step(TICK))
        assert views(many) == views(one)


@pytest.mark.parametrize("every", [1, 3, 1000])
def test_an_update_is_durable(tmp_path: Path, every: int) -> None:
    folder = ShardFolder(tmp_path, snapshot_every=every)
    with Pair(checkpoint=folder) as pair:
        pair.tick({"edge": {(3, 4): -1}})
        pair.update(compiled(FACTS))
        assert pair.many.log is not None
        assert pair.many.log.result is not None
        assert deltas_of(pair.many.log.result) == {
            name: pair.one.changed_output(name).to_dict()
            for name in pair.one.outputs
            if len(pair.one.changed_output(name))
        }
    assert not list(verify_folder(tmp_path).problems)
    with pytest.raises(CheckpointError, match="is the checkpoint of another query"):
        compiled(RED).start(shards=2, checkpoint=tmp_path)
    with compiled(FACTS).start(shards=2, checkpoint=tmp_path) as many:
        assert (many.tick, views(many)) == (pair.one.tick, views(pair.one))
        assert many.log is not None
        assert many.log.result is not None
        assert deltas_of(many.log.result)["n"] == pair.one.view("n").to_dict()
        pair.many = many
        pair.tick(TICK)
        pair.update(compiled(OTHER))
        pair.tick({"colour": [(7, "red")]})
        many.snapshot()
        pair.tick({"colour": [(8, "red")]})
        os.kill(many.stats()[1].process, signal.SIGKILL)
        pair.tick({"edge": [(9, 1)]})
    expect_continued(tmp_path, OTHER, pair.one)
    with compiled(OTHER).start(shards=3, checkpoint=ShardFolder(tmp_path, reshard=True)) as many:
        assert (many.tick, views(many)) == (pair.one.tick, views(pair.one))


def test_before_the_first_tick(tmp_path: Path) -> None:
    one = compiled(RED).start()
    with compiled(RED).start(shards=2, checkpoint=tmp_path) as many:
        assert deltas_of(many.update(compiled(FACTS)).deltas) == deltas_of(one.update(compiled(FACTS)).deltas)
    expect_continued(tmp_path, FACTS, one)


@pytest.mark.parametrize("ticks", [0, 3])
def test_a_crash_before_or_after_the_decision(tmp_path: Path, ticks: int) -> None:
    """Copies of the folder are what a crash of all processes at that moment would leave."""
    with Pair(checkpoint=ShardFolder(tmp_path / "run", snapshot_every=2)) as pair:
        old = compiled(RED).start(ROWS)
        for number in range(ticks):
            change = {"edge": [(number, 7)]}
            pair.tick(change)
            old.step(change)

        def copy(name: str) -> Callable[[], None]:
            return lambda: shutil.copytree(tmp_path / "run", tmp_path / name) and None

        with at_the_switch(copy("before"), copy("after")):
            pair.update(compiled(FACTS))
        copy("committed")()
    for name in ("after", "committed"):
        new = compiled(RED).start(ROWS)
        for number in range(ticks):
            new.step({"edge": [(number, 7)]})
        new.update(compiled(FACTS))
        assert not list(verify_folder(tmp_path / name).problems)
        expect_continued(tmp_path / name, FACTS, new)
    assert not list(verify_folder(tmp_path / "before").problems)
    with compiled(RED).start(shards=2, checkpoint=tmp_path / "before") as many:
        assert (many.tick, views(many)) == (old.tick, views(old))
        for change in (TICK, {"edge": [(9, 1)]}, {"colour": [(6, "red")]}):  # beyond the tick of the update
            assert deltas_of(many.step(change)) == deltas_of(old.step(change))
        many.update(compiled(OTHER))
        old.update(compiled(OTHER))
    expect_continued(tmp_path / "before", OTHER, old)


@pytest.mark.parametrize("stage", ["nothing", "journal", "state", "previous"])
@pytest.mark.parametrize("late", [0, 1])
def test_a_crash_while_one_shard_writes(tmp_path: Path, stage: str, late: int) -> None:
    """One shard has written its new state, and another one has come to a stage before."""
    with Pair(checkpoint=ShardFolder(tmp_path / "run", snapshot_every=2)) as pair:
        pair.tick({"edge": [(2, 7)]})
        pair.tick({"edge": [(3, 7)]})
        pair.many.snapshot()
        pair.tick({"edge": [(4, 7)]})
        shutil.copytree(tmp_path / "run", tmp_path / "pristine")

        def stop() -> None:
            shutil.copytree(tmp_path / "run", tmp_path / "crashed")

        with at_the_switch(stop, nothing):
            pair.many.update(compiled(FACTS))
    shard, before = (tmp_path / name / f"shard-{late}" for name in ("crashed", "pristine"))
    if stage == "nothing":
        shutil.rmtree(shard)
        shutil.copytree(before, shard)
    else:
        shutil.copy(before / "manifest.json", shard)
        if stage != "previous":
            shutil.copy(before / "manifest.previous.json", shard)
        if stage == "journal":
            for part in ("runs", "small", "memory", "interned", "tables"):
                shutil.rmtree(shard / part)
                shutil.copytree(before / part, shard / part)
    with compiled(RED).start(shards=2, checkpoint=tmp_path / "crashed") as many:
        assert (many.tick, views(many)) == (pair.one.tick, views(pair.one))
        pair.many = many
        pair.tick({"edge": [(5, 7)]})
        pair.update(compiled(OTHER))
    expect_continued(tmp_path / "crashed", OTHER, pair.one)


def full(*arguments: object) -> None:
    raise CheckpointError("the disk is full", code="checkpoint-write")


def test_an_update_that_is_withdrawn_is_not_continued(tmp_path: Path) -> None:
    """All shards have written their states, but the header could not be written."""
    with Pair(checkpoint=ShardFolder(tmp_path, snapshot_every=3)) as pair:
        graph = pair.many.graph
        for number in range(3):
            with (
                mock.patch.object(ShardFolder, "switch", side_effect=full),
                pytest.raises(CheckpointError, match="the disk is full"),
            ):
                pair.many.update(compiled(FACTS))
            assert pair.many.graph is graph
            assert list(pair.many.inputs) == ["edge", "colour"]
            pair.compare()
            assert not list(verify_folder(tmp_path).problems)
            pair.tick({"edge": [(number, 8)]})
        os.kill(pair.many.stats()[0].process, signal.SIGKILL)
        pair.tick({"edge": [(5, 8)]})
        would = pair.many.preview_update(compiled(FACTS))
        assert deltas_of(would.deltas) == deltas_of(pair.one.preview_update(compiled(FACTS)).deltas)
        pair.tick({"edge": [(6, 8)]})
    expect_continued(tmp_path, RED, pair.one)


def test_the_same_program_after_a_crash_is_not_taken_for_the_old_one(tmp_path: Path) -> None:
    """The attempt has the circuit and the identity of the run, but another state."""
    with Pair(checkpoint=tmp_path / "run") as pair:

        def stop() -> None:
            shutil.copytree(tmp_path / "run", tmp_path / "crashed")

        with at_the_switch(stop, nothing):
            pair.many.update(compiled(RED))
    with compiled(RED).start(shards=2, checkpoint=tmp_path / "crashed") as many:
        assert many.tick == 1
        many.step({"edge": [(3, 8)]})
        pair.one.step({"edge": [(3, 8)]})
    expect_continued(tmp_path / "crashed", RED, pair.one)


def nothing() -> None:
    pass


def test_a_shard_that_ends_is_started_again(tmp_path: Path) -> None:
    """Before its answer the update is repeated, and after the decision the run continues."""
    with Pair(checkpoint=tmp_path) as pair:
        for text, after in ((FACTS, False), (RED, True), (OTHER, False)):
            process = pair.many.stats()[1].process

            def kill(process: int = process) -> None:
                os.kill(process, signal.SIGKILL)

            with at_the_switch(nothing if after else kill, kill if after else nothing):
                pair.update(compiled(text))
            pair.tick(TICK)
            pair.tick({"edge": {(21, 5): -1}})
        genuine, killed = ShardGroup.ask, [False]

        def ask(group: ShardGroup, messages: Any, when: str) -> Any:
            if when == "during the update" and not killed[0]:
                killed[0] = True
                next(iter(group)).process.kill()
            return genuine(group, messages, when)

        with mock.patch.object(ShardGroup, "ask", ask):
            pair.update(compiled(FACTS))
        assert killed[0]
        pair.tick(TICK)
    expect_continued(tmp_path, FACTS, pair.one)


def test_an_interrupt_at_any_line_with_a_checkpoint(tmp_path: Path) -> None:
    with Pair(checkpoint=ShardFolder(tmp_path, snapshot_every=3)) as pair:
        undone, done = interrupt_at_sampled_lines(pair, distance(499))
        assert undone > 20
        assert done > 5
        pair.tick(TICK)
    expect_continued(tmp_path, RED, pair.one)


@some(5)
@given(
    versions(3) | versions(3, kinds=True),
    ticks_of,
    st.lists(st.sampled_from(["", "snapshot", "end", "kill"]), min_size=6, max_size=6),
    st.sampled_from([1, 2, 1000]),
)
def test_random_programs_with_a_checkpoint(
    texts: list[str], ticks: Any, pauses: list[str], every: int
) -> None:
    with tempfile.TemporaryDirectory() as name:
        pair = Pair(texts[0], 2, None, checkpoint=ShardFolder(name, snapshot_every=every))
        waiting = iter(pauses)
        try:
            for place, text in enumerate(texts):
                if place:
                    pair.update(compiled(text))
                    pause(pair, text, name, next(waiting))
                for tick in ticks[place]:
                    pair.tick(tick)
                pause(pair, text, name, next(waiting))
                pair.compare()
        finally:
            pair.many.close()
        assert not verify_folder(Path(name)).problems


def pause(pair: Pair, text: str, folder: str, act: str) -> None:
    if act == "end":
        pair.many.close()
        pair.many = compiled(text).start(shards=2, checkpoint=folder)
    elif act == "snapshot":
        pair.many.snapshot()
    elif act == "kill":
        os.kill(pair.many.stats()[0].process, signal.SIGKILL)
