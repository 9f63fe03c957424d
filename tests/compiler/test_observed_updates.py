"""Watches, recordings and the inspector follow a run that continues with another program."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

import pytest
from hypothesis import Phase, event, given, settings
from hypothesis import strategies as st

from dbsp import DbspError, InputError
from dbsp.inspector.inspected_run import InspectedRun
from tests.compiler.test_program_update import GRAPH, OTHER, RED, compiled, row_changes, started
from tests.harness import deltas_of, views
from tests.profiles import examples
from tests.random_edits import versions


@settings(max_examples=examples(30), phases=[Phase.explicit, Phase.generate])
@given(
    versions(3) | versions(3, cyclic=True),
    st.lists(st.lists(row_changes(), min_size=1, max_size=2), min_size=3, max_size=3),
)
def test_the_deltas_of_a_watch_add_up(texts: list[str], ticks: Any) -> None:
    """Also over updates: their sum is the change of the rows since the watch began."""
    programs = [compiled(text) for text in texts]
    run = programs[0].start()
    sums: dict[str, Counter[Any]] = {name: Counter() for name in (*run.outputs, *run.inputs)}
    before = {name: Counter(run.asserted(name).to_dict()) for name in run.inputs}
    before |= {name: Counter(run.view(name).to_dict()) for name in run.outputs}
    watches = {
        name: run.watch(name, lambda tick, name=name: sums[name].update(tick.delta.to_dict()))  # type: ignore[misc]
        for name in sums
    }
    for program, changes in zip(programs, ticks, strict=True):
        with warnings.catch_warnings(record=True) as ended:
            warnings.simplefilter("always")
            if program is not programs[0]:
                run.update(program)
        for each in ended:
            name = next(name for name in watches if f"the watch of {name} has ended" in str(each.message))
            assert name not in run.outputs
            event("ended")
            del watches[name]
        for tick in changes:
            run.step(tick)
        for name in watches:
            # The name of an output means its rows, even if the relation also has an input of facts.
            now = run.view(name) if name in run.outputs else None
            if now is None:
                now = run.asserted(name) if name in run.inputs else program.state(run).rows(name)
            total = before[name].copy()
            total.update(sums[name])
            assert {row: weight for row, weight in total.items() if weight} == now.to_dict(), name


def test_a_watch_gets_the_difference_of_the_two_programs() -> None:
    run, got = started(), []
    run.watch("red", lambda tick: got.append((tick.number, tick.delta.to_dict(), tick.integral().rows())))
    kept: list[Any] = []
    run.watch("path", lambda tick: kept.append((tick.number, tick.delta.to_dict())))
    done = run.update(compiled(OTHER + " edge(20, 21)."))
    assert got == [(2, done.deltas["red"].to_dict(), run.view("red").rows())]
    assert kept == [(2, {(20, 21): 1})]
    run.step({"colour": [(21, "red")]})
    assert got[1:] == [(3, {(20,): 1}, run.view("red").rows())]


def test_a_watch_of_a_dropped_stream_ends() -> None:
    run, got = started(), []
    watch = run.watch("red", got.append)
    with pytest.warns(UserWarning, match="the watch of red has ended: the update of tick 2 has dropped this"):
        run.update(compiled(GRAPH.replace(".decl red(x: number) .output red", "")))
    run.step({"edge": [(30, 31)]})
    assert (got, watch.latest) == ([], None)
    run = started()
    run.watch("red")
    other = GRAPH.replace("red(x: number)", "red(c: symbol)") + "red(c) :- colour(_, c)."
    with pytest.warns(UserWarning, match="the update of tick 2 has changed the columns of this stream"):
        run.update(compiled(other))


def test_an_update_that_fails_notifies_nobody() -> None:
    run, got = started(), []
    run.watch("red", lambda tick: got.append(tick.delta.to_dict()))
    recording = run.record()
    run.step({"colour": [(3, "red")]})
    seen = list(got)
    with pytest.raises(DbspError, match="division by zero"):
        run.update(compiled(GRAPH + "red(10 / (x - 50)) :- path(x, _). edge(50, 5)."))
    run.preview_update(compiled(OTHER))
    assert got == seen
    result = run.step({"colour": {(3, "red"): -1, (9, "red"): 1}})
    assert got[len(seen) :] == ([deltas_of(result)["red"]] if result["red"] else [])
    assert recording.ticks == (2, 3)
    assert recording.integral("red", 2).rows() == started().view("red").rows()


def test_a_recording_continues_after_an_update() -> None:
    run = started()
    recording = run.record()
    first = run.step({"colour": [(3, "red")]})
    run.update(compiled(OTHER))
    held = views(run)
    assert recording.ticks == (2,)
    assert recording.delta("red", 2).to_dict() == first["red"].to_dict()
    message = r"tick 3 has updated the run to another program.*no integrals as of tick 2.*not-recorded\]$"
    with pytest.raises(InputError, match=message):
        recording.integral("red", 2)
    result = run.step({"colour": [(9, "red")]})
    assert recording.ticks == (2, 4)
    assert recording.delta("red").to_dict() == result["red"].to_dict()
    assert recording.integral("red", 4).to_dict() == run.view("red").to_dict()
    with pytest.raises(InputError, match="tick 3 has updated the run"):
        recording.integral("red", 2)
    run.step({"colour": {(9, "red"): -1}})
    assert recording.integral("red", 5).to_dict() == held["red"]


def test_the_inspector_shows_the_new_program() -> None:
    program, other = compiled(RED), compiled(OTHER)
    run = started()
    shown = InspectedRun(run, program, (), 10, 1000)
    version = shown.version
    run.step({"colour": [(3, "red")]})
    run.update(other)
    assert shown.version > version + 1
    assert shown.circuit("run")["proofs"]
    assert shown.state(None)["tick"] == 3
    assert shown._query is not program
    run.step({"colour": [(9, "red")]})
    assert shown.state(None)["shown"] == 4
    shown.release()
