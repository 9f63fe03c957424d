"""Shards in threads that continue with another program: exact, and all of them or none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import dbsp
from dbsp import DbspError
from dbsp.compiler.program import Program
from dbsp.errors import expect_present
from dbsp.operators.stages.passes.distribute import distribute
from dbsp.runtime.update_report import Updated
from tests.compiler.test_program_update import GRAPH, OTHER, RED, ROWS, fresh, ticks_of, with_facts
from tests.harness import deltas_of, views
from tests.random_edits import versions
from tests.shards.compared_shards import fail_at_every_call
from tests.shards.test_sharded_agreement import SEEDS, some
from tests.shards.thread_link import ThreadShards, dealing

VERSIONS = versions(3) | versions(3, cyclic=True) | versions(3, kinds=True)


class UpdatedShards:
    """A run of a program, and its distributed circuit on shards; both continue with others."""

    def __init__(
        self, program: Program, shards: int, scopes: str = "gather", delays: int | None = None
    ) -> None:
        self.program = program
        self.one = program.start()
        self._scopes = scopes
        self.many = ThreadShards(self._distributed(self.one.graph), shards, delays=delays)
        if self.one.tick:
            self.many.step({name: dict.fromkeys(rows, 1) for name, rows in program.facts.items()})
        self.compare()

    def _distributed(self, graph: Any) -> Any:
        return distribute(graph, scopes=self._scopes, checked=True)

    def tick(self, changes: Mapping[str, Any]) -> None:
        expected = self.one.step(changes)
        assert self.many.step(changes) == deltas_of(expected)
        assert (self.many.absent, self.many.present) == (expected.absent, expected.present)
        self.compare()

    def update(self, program: Program) -> tuple[Updated, list[Updated]]:
        proposed = expect_present(self.one.program, "a program").update_to(self.one, program)
        before = self.many.views()
        one_before = {*self.one.graph.named, *self.one.inputs, *self.one.outputs}
        kept = [{id(state) for state in (*run.scope.traces, *run.scope.tables)} for run in self.many.runs]
        deltas, reports = self.many.update(self._distributed(proposed.graph), proposed.facts)
        done = self.one.update(program)
        assert deltas == deltas_of(done.deltas)
        for run, report, states in zip(self.many.runs, reports, kept, strict=True):
            after = {id(state) for state in (*run.scope.traces, *run.scope.tables)}
            if not proposed.facts:  # the change of a fact may restart a recursion
                shared = len(after & states), len(after - states), len(states - after)
                assert (report.kept, report.rebuilt, report.dropped) == shared
            assert report.relations == reports[0].relations
            assert _written(report.relations) == _written(done.relations)
            assert report.deltas.number == run.tick == done.deltas.number
        for name in _written(done.relations):
            state = reports[0].relations[name]
            if state == "kept" and name in before and name in self.one.outputs and not proposed.facts:
                assert not deltas.get(name), f"{name} is kept, and has another view"
            assert (state == "dropped") == (done.relations[name] == "dropped")
            assert state != "added" or name not in one_before
        self.program = program
        self.compare()
        return done, reports

    def compare(self) -> None:
        assert self.many.views() == views(self.one)


@some(40)
@given(VERSIONS, ticks_of, st.sampled_from([1, 2, 3]), SEEDS, st.sampled_from(["gather", "exchange"]))
def test_every_version_equals_a_fresh_start_and_one_process(
    texts: list[str], ticks: Any, shards: int, seed: int, scopes: str
) -> None:
    programs = [dbsp.compile(text) for text in texts]
    inputs = with_facts(programs[0], None, {})
    both = UpdatedShards(programs[0], shards, scopes, seed if seed % 4 == 0 else None)
    for place, program in enumerate(programs):
        if place:
            inputs = with_facts(program, programs[place - 1], inputs)
            done, reports = both.update(program)
            assert both.many.views() == views(fresh(program, inputs))
            event("as one process" if reports[0].relations == dict(done.relations) else "more rebuilt")
            event("kept and rebuilt" if reports[0].kept and reports[0].rebuilt else "not both")
        for tick in ticks[place]:
            both.tick(tick)
            for name, weights in tick.items():
                inputs[name] |= {row for row, weight in weights.items() if weight > 0}
                inputs[name] -= {row for row, weight in weights.items() if weight < 0}


def _written(relations: Mapping[str, str]) -> set[str]:
    """Return the relations of the text, without those that the compiler has added."""
    return {name for name in relations if "#" not in name}


def started(text: str = RED, shards: int = 3) -> UpdatedShards:
    both = UpdatedShards(dbsp.compile(text), shards)
    both.tick(ROWS)
    return both


def test_an_update_keeps_what_the_edit_does_not_reach() -> None:
    both = started()
    _, reports = both.update(dbsp.compile(OTHER))
    expected = {"edge": "kept", "colour": "kept", "path": "kept", "red": "rebuilt"}
    assert dict(reports[0].relations) == expected
    assert sum(report.replayed_rows for report in reports) == len(both.one.view("path")) + 2
    both.tick({"colour": [(9, "red")], "edge": {(3, 4): -1}})


JOIN = """
    .decl a(x: number, s: symbol) .input a
    .decl b(x: number, s: symbol) .input b
    .decl c(x: number, s: symbol) .input c
    .decl out(x: number, z: symbol) .output out
"""


def test_rows_move_to_the_shards_where_the_new_program_reads_them() -> None:
    """The inputs are joined by another column, so that they are dealt in another way."""
    both = UpdatedShards(dbsp.compile(JOIN + "out(x, t) :- a(x, s), b(x, t)."), 3)
    rows = {name: {(x % 7, f"{x % 5}"): 1 for x in range(start, 40)} for start, name in enumerate("abc")}
    both.tick(rows)
    before = dealing(both.many.runs[0].graph)
    _, reports = both.update(dbsp.compile(JOIN + "out(x, s) :- a(x, s), b(_, s), c(x, _)."))
    after = dealing(both.many.runs[0].graph)
    moved = [name for name in before if before[name] != after[name]]
    assert moved, "the inputs are dealt as before"
    assert {reports[0].relations[name] for name in moved} == {"rebuilt"}
    both.tick({"a": {(1, "1"): -1, (9, "x"): 1}, "b": {(2, "x"): 1}, "c": {(9, "y"): 1}})


EDITS = [
    OTHER,
    OTHER + " edge(20, 21).",
    GRAPH + ".decl far(x: number) .output far far(y) :- path(0, y). red(x) :- far(x), colour(x, _).",
    RED.replace("path(x, y), edge(y, z)", "path(x, y), path(y, z), x != z"),
]


@pytest.mark.parametrize("text", EDITS)
def test_a_failure_at_every_call_undoes_the_update(text: str) -> None:
    both, program = started(shards=2), dbsp.compile(text)
    proposed = expect_present(both.one.program, "a program").update_to(both.one, program)
    graph = distribute(proposed.graph, checked=True)
    old = [run.graph for run in both.many.runs]
    calls = fail_at_every_call(both.many, lambda: both.many.update(graph, proposed.facts))
    assert calls > 1
    assert [run.graph for run in both.many.runs] == old
    both.tick({"edge": {(3, 4): -1}})
    both.update(program)
    both.tick({"edge": {(3, 4): 1}, "colour": [(9, "red")]})


def test_an_error_of_one_shard_undoes_the_update() -> None:
    both = started()
    for clause in ("red(10 / (x - 3)) :- path(x, y).", "red(10 / (x - 50)) :- path(x, y). edge(50, 5)."):
        program = dbsp.compile(GRAPH + clause)
        proposed = expect_present(both.one.program, "a program").update_to(both.one, program)
        before = both.many.views()
        with pytest.raises(DbspError, match="division by zero"):
            both.many.update(distribute(proposed.graph), proposed.facts)
        assert both.many.views() == before
        assert {run.tick for run in both.many.runs} == {both.one.tick}
    both.tick({"edge": {(3, 4): -1, (50, 5): 1}})


def test_before_the_first_tick() -> None:
    both = UpdatedShards(dbsp.compile(RED), 3)
    both.update(dbsp.compile(OTHER + ' edge(1, 2). colour(2, "red"). red(7) :- true.'))
    assert both.many.views()["red"] == {(1,): 1, (7,): 1}
    both.tick(ROWS)


def test_inputs_are_added_and_dropped() -> None:
    both = started()
    both.update(dbsp.compile(GRAPH.replace(".input colour", "") + " red(x) :- edge(x, _)."))
    both.tick({"edge": {(1, 2): -1}})
    both.update(dbsp.compile(RED + ".decl more(x: number) .input more red(x) :- more(x)."))
    both.tick({"more": [(3,), (4,)], "colour": [(3, "red")]})
