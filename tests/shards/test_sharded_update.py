"""`update` of runs in processes: the result of one process, on all shards or on none."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from typing import Any
from unittest import mock

import pytest

import dbsp
from dbsp import CircuitError, DbspError, InputError, ShardError
from dbsp.compiler.program import Program
from dbsp.shards.shard_group import ShardGroup
from dbsp.shards.sharded_run import ShardedRun
from tests.compiler.test_program_update import GRAPH, OTHER, RED, ROWS, compiled
from tests.harness import deltas_of, views
from tests.shards.shop_circuit import ENDS, FAILS, act
from tests.shards.test_sharded_run import InterruptAt

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


def test_an_interrupt_at_any_line() -> None:
    with Pair() as pair:
        programs = [compiled(FACTS), compiled(RED)]
        line = undone = done = 0
        while True:
            line += 211
            before = pair.one.tick
            program = programs[0]
            interrupted = InterruptAt(line).call(lambda program=program: pair.many.update(program))
            if pair.many.tick > before:
                done += 1
                pair.one.update(program)
                programs.reverse()
            else:
                undone += 1
            pair.compare()
            if line % 3 == 0:
                pair.tick({"edge": {(line % 7, line % 5): 1 if line % 2 else -1}})
            if not interrupted:
                break
        assert undone > 3
        assert done > 1
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
