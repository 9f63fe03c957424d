"""Plans that row counts chose survive a restart: an edit of another rule keeps the joins."""

from __future__ import annotations

import contextlib
import gc
import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

import dbsp
from benchmarks.faults import Injector
from dbsp import CheckpointError, Run
from dbsp.compiler.datalog.plans.plan_steps import RulePlan
from dbsp.compiler.program import Program
from dbsp.compiler.program_planner import ProgramPlanner
from dbsp.durable import Store
from dbsp.durable.manifest import CURRENT, Manifest, SnapshotFiles, read_manifest
from dbsp.errors import CheckpointWarning, expect_present, expect_type
from dbsp.runtime.replanning import Proposal
from dbsp.runtime.transplant import Transplant
from tests.compiler.datalog.rewrites.test_choose_demand import CHAINS, GRAPH, LEFT, NEAR, RIGHT, is_on_demand
from tests.compiler.test_program_update import row_changes
from tests.crashes import Ended, count_operations, ends_after
from tests.durable.test_updated_start import closed
from tests.faulted_updates import expect_all_or_nothing
from tests.harness import deltas_of, views
from tests.profiles import examples, sampled
from tests.random_edits import layered_versions, versions

TEXT = """
    .decl a(x: number, y: number) .input a
    .decl b(y: number, z: number) .input b
    .decl c(z: number, w: number) .input c
    .decl o(x: number, w: number) .output o
    o(x, w) :- a(x, y), b(y, z), c(z, w).
    .decl p(x: number) .output p
    p(x) :- a(x, y), y < 3.
"""
EDITED = TEXT.replace("y < 3", "y < 5")
TWICE = TEXT.replace("y < 3", "y < 7")
ROWS: Any = {
    "a": [(i, i % 10) for i in range(500)],
    "b": [(i % 10, i % 50) for i in range(50)],
    "c": [(0, 0)],
}
LATER: Any = {"a": dict.fromkeys(ROWS["a"][1:], -1), "c": [(i % 50, i) for i in range(500)]}
"""With these changes, counts choose another plan."""
TICK: Any = {"a": {(7, 7): 1, (0, 0): -1}, "b": {(7, 3): 1}, "c": {(3, 3): -1}}


def planner(run: Any) -> ProgramPlanner:
    return expect_type(run.planner, ProgramPlanner, "a planner of a program")


def join_steps(plans: Mapping[int, RulePlan]) -> Any:
    """Return the steps of the plan of `o`."""
    return next(plan.steps for plan in plans.values() if plan.rule.relation == "o")


def has_counted_plan(run: Run) -> bool:
    """Whether the plan of the join is another one than that of the text."""
    own = dbsp.compile(TEXT).plans
    return bool(join_steps(planner(run).plans) != join_steps(own))


def restarted(run: Run, folder: Path, text: str = TEXT, **options: Any) -> Run:
    """Restart a run from a snapshot; it has the same plans, explained by the same counts."""
    plans, program, held, stored = planner(run).plans, dbsp.compile(text), views(run), run.stored_plans
    explained = program.explain(run).partition("\nupdate (tick")[0].rstrip()
    run.snapshot()
    closed(run)
    run = program.start(checkpoint=folder, **options)
    assert not planner(run).is_unknown
    assert {number: plan.steps for number, plan in planner(run).plans.items()} == {
        number: plan.steps for number, plan in plans.items()
    }
    assert stored is None or program.explain(run).rstrip() == explained
    assert views(run) == held
    return run


def keeps_the_join(run: Run, text: str) -> None:
    """Update a run; the join must be kept, and the results are those of a new run."""
    before = views(run)
    inputs = {name: run.asserted(name) for name in run.inputs}
    done = run.update(dbsp.compile(text))
    assert dict(done.relations) == {"a": "kept", "b": "kept", "c": "kept", "o": "kept", "p": "changed"}
    assert (done.rebuilt, done.dropped) == (0, 0)
    other = dbsp.compile(text).start(inputs)
    assert views(run) == views(other)
    added = {row: 1 for row in views(other)["p"] if row not in before["p"]}
    assert deltas_of(done.deltas) == ({"p": added} if added else {})


def follows(run: Run, text: str) -> None:
    """Compare a tick with that of a new run."""
    other = dbsp.compile(text).start({name: run.asserted(name) for name in run.inputs})
    assert deltas_of(run.step(TICK)) == deltas_of(other.step(TICK))
    assert views(run) == views(other)


def by_first_rows(folder: Path) -> Run:
    return dbsp.compile(TEXT).start(ROWS, checkpoint=folder)


def by_replanning(folder: Path) -> Run:
    run = dbsp.compile(TEXT).start(checkpoint=folder)
    run.step(ROWS)
    assert not has_counted_plan(run)
    assert run.replan().changes
    return run


def by_update(folder: Path) -> Run:
    without = TEXT.replace("o(x, w) :- a(x, y), b(y, z), c(z, w).", "")
    run = dbsp.compile(without).start(ROWS, checkpoint=folder)
    run.update(dbsp.compile(TEXT))
    return run


def by_the_caller(folder: Path) -> Run:
    program = dbsp.compile(TEXT)
    return program.start(ROWS, plans=program.plans_for(program.counted(ROWS)), checkpoint=folder)


def by_a_second_plan(folder: Path) -> Run:
    run = by_first_rows(folder)
    steps = join_steps(planner(run).plans)
    run.snapshot()
    run.step(LATER)
    run.replan()
    assert steps != join_steps(planner(run).plans)
    return run


WAYS = [by_first_rows, by_replanning, by_update, by_the_caller, by_a_second_plan]


@pytest.mark.parametrize("begin", WAYS)
def test_an_update_after_a_restart_keeps_counted_plans(begin: Callable[[Path], Run], tmp_path: Path) -> None:
    run = begin(tmp_path)
    if begin is not by_a_second_plan:
        assert has_counted_plan(run)
    run = restarted(run, tmp_path)
    keeps_the_join(run, EDITED)
    run = restarted(run, tmp_path, EDITED)
    follows(run, EDITED)
    run = restarted(run, tmp_path, EDITED)
    keeps_the_join(run, TWICE)
    follows(run, TWICE)
    assert run.replan() is not None
    closed(run)


@pytest.mark.parametrize("begin", WAYS)
def test_a_restart_with_the_edited_program_keeps_counted_plans(
    begin: Callable[[Path], Run], tmp_path: Path
) -> None:
    for text, before in ((EDITED, TEXT), (TWICE, EDITED)):
        if before is TEXT:
            run = begin(tmp_path)
            run.snapshot()
        plans, number, program = planner(run).plans, run.tick, dbsp.compile(text)
        traces, held = len(run.scope.traces), views(run)
        closed(run)
        run = program.start(checkpoint=tmp_path, update=True)
        assert run.latest_update is not None
        tick, relations = run.latest_update
        assert (tick, relations["o"], len(run.scope.traces)) == (number + 1, "kept", traces)
        assert join_steps(planner(run).plans) == join_steps(plans)
        assert views(run)["o"] == held["o"]
        follows(run, text)
    closed(run)


def test_a_restart_without_a_snapshot_has_the_plans_of_the_text(tmp_path: Path) -> None:
    closed(by_first_rows(tmp_path))
    run = dbsp.compile(TEXT).start(checkpoint=tmp_path)
    assert not planner(run).is_unknown
    assert not has_counted_plan(run)
    assert run.graph.same_as(dbsp.compile(TEXT).circuit("physical"))
    keeps_the_join(run, EDITED)
    closed(run)


def test_replanning_after_a_restart_compares_with_the_plans_of_the_run(tmp_path: Path) -> None:
    run = restarted(by_first_rows(tmp_path), tmp_path)
    assert run.replan().changes == ()
    run.step(LATER)
    assert len(run.replan().changes) == 1
    closed(run)


# --- relations on demand, numbered rows, live queries, the past -----------------------------------


@pytest.mark.parametrize("rules", [RIGHT, LEFT])
def test_relations_on_demand_are_kept(rules: str, tmp_path: Path) -> None:
    text = GRAPH + rules + NEAR + "o(x) :- n(x), x > 30.\n"
    rows: Any = {"e": CHAINS, "n": [(20,), (70,)]}
    run = dbsp.compile(text).start(rows, checkpoint=tmp_path)
    assert is_on_demand(dbsp.compile(text), run)
    run = restarted(run, tmp_path, text)
    assert is_on_demand(dbsp.compile(text), run)
    edited = text.replace("x > 30", "x > 10")
    done = run.update(dbsp.compile(edited))
    assert (done.relations["oo"], done.relations["p"], done.rebuilt) == ("kept", "kept", 0)
    assert deltas_of(done.deltas) == {"o": {(20,): 1}}
    run = restarted(run, tmp_path, edited)
    assert is_on_demand(dbsp.compile(edited), run)
    other = dbsp.compile(edited).start(rows)
    tick: Any = {"n": {(20,): -1, (41,): 1}, "e": {CHAINS[50]: -1}}
    assert deltas_of(run.step(tick)) == deltas_of(other.step(tick))
    assert views(run) == views(other)
    closed(run)


def test_a_program_with_relations_on_demand_has_its_own_circuit() -> None:
    program = dbsp.compile(GRAPH + LEFT + NEAR)
    full = program.physical_for(program.plans)
    suited = expect_present(program.on_demand({"p": "few"}), "a program")
    found = suited.physical_for(suited.plans)
    assert found.same_as(suited.circuit("physical"))
    assert not found.same_as(full)
    assert program.on_demand({"e": "few"}) is None


def test_a_program_that_numbers_rows_keeps_the_plans_of_its_start(tmp_path: Path) -> None:
    text = TEXT + ".decl nth(n: number, x: number) .output nth\nnth(autoinc(), x) :- a(x, _)."
    program = dbsp.compile(text)
    counted = dbsp.compile(TEXT).counted(ROWS)
    run = program.start(ROWS, plans=program.plans_for(counted), checkpoint=tmp_path)
    graph = run.graph
    run.snapshot()
    closed(run)
    run = program.start(checkpoint=tmp_path)
    assert run.planner is None
    assert run.graph.same_as(graph)
    assert not graph.same_as(program.circuit("physical"))
    done = run.update(dbsp.compile(text.replace("y < 3", "y < 5")))
    assert (done.relations["o"], done.rebuilt) == ("kept", 0)
    closed(run)


def test_a_live_query_reads_the_running_relation_after_a_restart(tmp_path: Path) -> None:
    text = TEXT + ".decl r(x: number, w: number)\nr(x, w) :- o(x, w).\nr(x, w) :- o(w, x).\n"
    text += ".decl s(x: number) .output s\ns(x) :- r(x, _).\ns(x) :- r(_, x).\n"
    run = restarted(dbsp.compile(text).start(ROWS, checkpoint=tmp_path), tmp_path, text)
    stored, tens = run.state_rows, range(0, 500, 10)
    with run.subscribe("r") as subscription:
        assert run.state_rows == stored
        assert subscription.view().to_dict().keys() == {(i, 0) for i in tens} | {(0, i) for i in tens}
    closed(run)


def test_live_queries_have_all_rows_if_the_plans_are_unknown(tmp_path: Path) -> None:
    program = dbsp.compile(GRAPH + LEFT + NEAR)
    rows: Any = {"e": CHAINS, "n": [(20,), (70,)]}
    run = program.start(rows, checkpoint=tmp_path)
    assert is_on_demand(program, run)
    run.snapshot()
    closed(run)
    write_document(tmp_path, None)
    run = program.start(checkpoint=tmp_path)
    assert planner(run).is_unknown
    full = dbsp.compile(GRAPH + LEFT + NEAR + ".output p").start(rows)
    with run.subscribe("p") as subscription:
        assert subscription.view().to_dict() == full.view("p").to_dict()
    closed(run)


def test_the_past_is_explained_by_its_own_plans(tmp_path: Path) -> None:
    program = dbsp.compile(TEXT)
    run = program.start(ROWS, checkpoint=Store(tmp_path, keep=100))
    run.snapshot()
    first = program.explain(run).rstrip()
    run.step(LATER)
    run.replan()
    run.snapshot()
    closed(run)
    past = program.open(tmp_path, as_of=1)
    assert not planner(past).is_unknown
    assert program.explain(past).rstrip() == first
    latest = program.open(tmp_path)
    assert join_steps(planner(latest).plans) != join_steps(planner(past).plans)


# --- documents ------------------------------------------------------------------------------------


def snapshot_in(folder: Path) -> tuple[Manifest, SnapshotFiles]:
    manifest = expect_present(read_manifest(folder / CURRENT), "a manifest")
    return manifest, expect_present(manifest.snapshot, "a snapshot")


def write_document(folder: Path, document: Any) -> None:
    manifest, snapshot = snapshot_in(folder)
    replace(manifest, snapshot=replace(snapshot, plans=document)).write(folder, False)


def stored_document(folder: Path) -> Any:
    """Return the document of the plans in a new checkpoint."""
    run = by_first_rows(folder)
    run.snapshot()
    closed(run)
    return json.loads(expect_present(snapshot_in(folder)[1].plans, "stored plans"))


def test_only_plans_that_counts_chose_are_written(tmp_path: Path) -> None:
    run = dbsp.compile(TEXT).start(checkpoint=tmp_path)
    run.step(ROWS)
    run.snapshot()
    assert snapshot_in(tmp_path)[1].plans is None
    run.replan()
    run.step(TICK)
    run.snapshot()
    document = json.loads(expect_present(snapshot_in(tmp_path)[1].plans, "stored plans"))
    assert [rule["fields"]["text"] for rule in document["fields"]["rules"]] == [
        "o(x, w) :- a(x, y), b(y, z), c(z, w)."
    ]
    run.update(dbsp.compile(TEXT.replace("o(x, w) :- a(x, y), b(y, z), c(z, w).", "")))
    assert snapshot_in(tmp_path)[1].plans is None
    closed(run)


@pytest.mark.parametrize(
    "document",
    [
        "{",
        "[]",
        "7",
        7,
        '{"class": "StoredPlans", "fields": {}}',
        '{"class": "StoredPlans", "fields": {"demanded": [], "rules": [7]}}',
        '{"class": "StoredPlans", "fields": []}',
        '{"class": "Input", "fields": {}}',
        '{"function": "os:system"}',
        '{"scope": {}}',
        "[" * 100_000,
    ],
)
def test_documents_of_another_form_are_refused(document: Any, tmp_path: Path) -> None:
    right = stored_document(tmp_path)
    write_document(tmp_path, document)
    for start in (
        lambda: dbsp.compile(TEXT).start(checkpoint=tmp_path),
        lambda: dbsp.compile(TEXT).open(tmp_path),
    ):
        with pytest.raises(CheckpointError, match="cannot read the plans of the checkpoint") as error:
            start()
        assert error.value.code == "checkpoint-unreadable"
    write_document(tmp_path, json.dumps(right))
    run = dbsp.compile(TEXT).start(checkpoint=tmp_path)  # the folder was released
    assert has_counted_plan(run)
    closed(run)


def rule_in(document: Any) -> Any:
    return document["fields"]["rules"][0]["fields"]


def choice_in(document: Any) -> Any:
    return rule_in(document)["choices"][0]["fields"]


def test_an_unknown_strategy_is_refused(tmp_path: Path) -> None:
    document = stored_document(tmp_path)
    choice_in(document)["strategy"] = "other"
    write_document(tmp_path, json.dumps(document))
    with pytest.raises(CheckpointError, match="'other' is not a valid Strategy"):
        dbsp.compile(TEXT).start(checkpoint=tmp_path)


def multiway(document: Any, orders: list[list[str]]) -> None:
    nodes = choice_in(document)["nodes"]
    leaves = [node for node in nodes if "atom" in node["fields"]]
    choice_in(document)["nodes"] = [*leaves, {**nodes[-1], "fields": {"orders": orders}}]


OTHERS: dict[str, Callable[[Any], Any]] = {
    "no document": lambda document: None,
    "no rule of this number": lambda document: rule_in(document).update(number=9),
    "another rule": lambda document: rule_in(document).update(text="o(x, w) :- a(x, w)."),
    "too few choices": lambda document: rule_in(document).update(choices=[]),
    "too many choices": lambda document: rule_in(document).update(choices=rule_in(document)["choices"] * 2),
    "too few nodes": lambda document: choice_in(document)["nodes"].pop(),
    "too many nodes": lambda document: choice_in(document)["nodes"].append(choice_in(document)["nodes"][-1]),
    "no nodes": lambda document: choice_in(document).update(nodes=[]),
    "an atom twice": lambda document: choice_in(document)["nodes"][0]["fields"].update(atom=1),
    "an atom below 0": lambda document: choice_in(document)["nodes"][0]["fields"].update(atom=-1),
    "one part": lambda document: multiway(document, [["x"]]),
    "too many parts": lambda document: multiway(document, [[]] * 4),
    "a variable twice": lambda document: multiway(document, [["z", "z", "w"], ["x", "w"], ["y", "x"]]),
    "another plan": lambda document: multiway(document, [["z", "w"], ["x", "w"], ["y", "x"]]),
    "unknown variables": lambda document: multiway(document, [["t", "w"], ["x", "#"], ["y", "x"]]),
    "unknown relations": lambda document: document["fields"].update(demanded=[["a", "few"]]),
}


@pytest.mark.parametrize("name", OTHERS)
def test_plans_that_do_not_give_the_circuit_are_unknown(name: str, tmp_path: Path) -> None:
    document = stored_document(tmp_path)
    OTHERS[name](document)
    write_document(tmp_path, None if name == "no document" else json.dumps(document))
    run = dbsp.compile(TEXT).start(checkpoint=tmp_path)
    assert planner(run).is_unknown
    follows(run, TEXT)
    run.update(dbsp.compile(EDITED))
    follows(run, EDITED)
    assert not planner(run).is_unknown
    run = restarted(run, tmp_path, EDITED)
    keeps_the_join(run, TWICE)
    closed(run)


def test_another_strategy_does_not_know_the_plans(tmp_path: Path) -> None:
    stored_document(tmp_path)
    program = dbsp.compile(TEXT, "wcoj")
    run = program.start(checkpoint=tmp_path)
    assert not planner(run).is_unknown  # the circuit is that of the document all the same
    keeps_the_join(run, EDITED)
    closed(run)


def test_a_circuit_by_hand_has_unknown_plans(tmp_path: Path) -> None:
    run = by_first_rows(tmp_path)
    run.replan(dbsp.compile(TEXT, "wcoj").circuit("physical"))
    run.step(TICK)
    run.snapshot()
    closed(run)
    run = dbsp.compile(TEXT).start(checkpoint=tmp_path)
    assert planner(run).is_unknown
    follows(run, TEXT)
    assert len(run.replan().changes) == 2
    assert not planner(run).is_unknown
    restarted(run, tmp_path)


def test_the_plans_are_those_of_the_snapshot_that_is_intact(tmp_path: Path) -> None:
    run = by_first_rows(tmp_path)
    run.snapshot()
    first = join_steps(planner(run).plans)
    run.step(LATER)
    run.replan()
    held = views(run)
    run.snapshot()
    closed(run)
    damaged = tmp_path / snapshot_in(tmp_path)[1].memory
    damaged.write_bytes(b"damaged")
    with pytest.warns(CheckpointWarning):
        run = dbsp.compile(TEXT).start(checkpoint=tmp_path)
    assert not planner(run).is_unknown
    assert join_steps(planner(run).plans) == first
    assert views(run) == held
    closed(run)


# --- every end of the process ---------------------------------------------------------------------


@pytest.mark.crash
def test_every_end_of_the_process_leaves_plans_that_fit_the_circuit(tmp_path: Path) -> None:
    programs = {text: dbsp.compile(text) for text in (TEXT, EDITED)}
    closed(programs[TEXT].start(checkpoint=tmp_path / "started"))

    def life(folder: Path) -> None:
        run = programs[TEXT].start(checkpoint=Store(folder, sync=False, background=False))
        run.step(ROWS)
        run.replan()
        run.snapshot()
        run.step(LATER)
        run.replan()
        run.step(TICK)
        run.snapshot()
        run.update(programs[EDITED])
        closed(run)

    shutil.copytree(tmp_path / "started", tmp_path / "all")
    outcomes = set()
    for operations in sampled(count_operations(lambda: life(tmp_path / "all"))):
        folder = tmp_path / str(operations)
        shutil.copytree(tmp_path / "started", folder)
        with contextlib.suppress(Ended), ends_after(operations):
            life(folder)
        gc.collect()
        manifest = expect_present(read_manifest(folder / CURRENT), "a manifest")
        text = TEXT if manifest.query == programs[TEXT].identity else EDITED
        run = programs[text].start(checkpoint=Store(folder, sync=False))
        assert not planner(run).is_unknown
        outcomes.add((text is TEXT, manifest.tick, has_counted_plan(run)))
        if run.tick:
            keeps_the_join(run, TWICE)
        closed(run)
        shutil.rmtree(folder)
    assert outcomes == {(True, 0, False), (True, 1, True), (True, 3, False), (False, 4, False)}


# --- faults ---------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("kind", [KeyboardInterrupt, MemoryError])
def test_a_fault_in_an_update_leaves_the_plans_of_one_program(
    kind: type[BaseException], tmp_path: Path
) -> None:
    numbers = count()
    edited = dbsp.compile(EDITED.replace("o(x, w) :-", "o(x, 0) :- a(x, _), b(_, x).\no(x, w) :-"))
    expect_all_or_nothing(lambda: by_first_rows(tmp_path / str(next(numbers))), edited, TICK, kind, 2503)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_fault_in_a_switch_leaves_the_plans_of_one_circuit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = dbsp.compile(TEXT)
    run = program.start(checkpoint=tmp_path)
    run.step(ROWS)
    counted = expect_present(planner(run).propose(run), "another plan")
    graph, faults, at = run.graph, 0, 17
    while True:
        injector = Injector(MemoryError, at, None, False)
        injector.call(lambda: run.switch_to(counted))
        if run.graph is not graph:
            break
        assert run.stored_plans is None, injector.place
        faults, at = faults + 1, at + 401
    assert faults > 5
    assert run.stored_plans == counted.plans is not None
    run.step()  # completes the switch, if the last fault came after its decision
    genuine, interrupts = Transplant.release, [KeyboardInterrupt]

    def release(transplant: Transplant) -> None:
        if interrupts:
            raise interrupts.pop()
        genuine(transplant)

    monkeypatch.setattr(Transplant, "release", release)
    with pytest.raises(KeyboardInterrupt):  # after the decision
        run.switch_to(Proposal(program.circuit("physical")))
    assert run.stored_plans is None
    held = views(run)
    run.step()
    run.snapshot()
    closed(run)
    run = program.start(checkpoint=tmp_path)
    assert not planner(run).is_unknown
    assert not has_counted_plan(run)
    assert views(run) == held
    closed(run)


# --- random programs ------------------------------------------------------------------------------


@settings(max_examples=examples(30))
@given(
    versions(4, cyclic=True) | versions(4, kinds=True) | layered_versions(4),
    st.lists(row_changes(), min_size=4, max_size=4),
    st.lists(st.sampled_from(["replan", "restart", "both", "none"]), min_size=4, max_size=4),
)
def test_updates_after_restarts_keep_what_updates_without_restarts_keep(
    texts: list[str], ticks: Any, actions: list[str]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        programs: list[Program] = [dbsp.compile(text) for text in texts]
        run = programs[0].start(ticks[0], checkpoint=Store(folder, sync=False))
        other = programs[0].start(ticks[0])
        for place, program in enumerate(programs):
            if place:
                done, expected = run.update(program), other.update(program)
                for name in ("relations", "kept", "changed", "rebuilt", "dropped", "replayed_rows"):
                    assert getattr(done, name) == getattr(expected, name), (place, name)
                assert deltas_of(done.deltas) == deltas_of(expected.deltas)
                assert deltas_of(run.step(ticks[place])) == deltas_of(other.step(ticks[place]))
            if actions[place] in ("replan", "both"):
                assert run.replan().changes == other.replan().changes
            if actions[place] in ("restart", "both") and run.tick:
                run.step()
                other.step()
                run.snapshot()
                closed(run)
                run = program.start(checkpoint=Store(folder, sync=False))
                assert not planner(run).is_unknown
                event("counted plans" if run.stored_plans is not None else "plans of the text")
            assert run.graph.same_as(other.graph)
            assert views(run) == views(other)
        closed(run)
