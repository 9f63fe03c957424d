"""`Program.start(update=True)`: an edited program continues the state of the old one."""

from __future__ import annotations

import contextlib
import gc
import json
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbsp
from dbsp import ArgumentError, CheckpointError, Circuit, CompileError, EvaluationError, Run
from dbsp.compiler.program import Program
from dbsp.compiler.stored_source import read_source
from dbsp.durable import Store
from dbsp.durable.manifest import CURRENT, Manifest, read_manifest
from tests.compiler.test_program_update import changed, compiled, fresh, row_changes, with_facts
from tests.crashes import Ended, count_operations, ends_after
from tests.harness import deltas_of, views
from tests.profiles import examples, sampled
from tests.random_edits import versions

TEXT = """
    .decl edge(x: number, y: number) .input edge
    .decl path(x: number, y: number) .output path
    path(x, y) :- edge(x, y).
"""
LONGER = TEXT + "path(x, z) :- path(x, y), edge(y, z)."


def closed(run: Run) -> None:
    assert run.log is not None
    run.log.close()


@settings(max_examples=examples(30))
@given(
    versions(3) | versions(3, kinds=True),
    st.lists(st.lists(row_changes(), max_size=2), min_size=3, max_size=3),
    st.sampled_from([1, 50]),
)
def test_a_restart_with_each_version_equals_a_fresh_start(texts: list[str], ticks: Any, every: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        programs = [compiled(text) for text in texts]
        inputs: Any = {}
        held: Any = None
        tick = 0
        for place, program in enumerate(programs):
            before = programs[place - 1] if place else None
            inputs = with_facts(program, before, inputs)
            run = program.start(checkpoint=Store(folder, snapshot_every=every, sync=False), update=True)
            other = fresh(program, inputs)
            assert views(run) == views(other), place
            if before is not None and program.identity != before.identity and tick:
                assert run.tick == tick + 1
                assert run.log is not None and run.log.result is not None
                assert deltas_of(run.log.result) == changed(held, views(other)), place
            for changes in ticks[place]:
                assert deltas_of(run.step(changes)) == deltas_of(other.step(changes)), place
                for name, weights in changes.items():
                    inputs[name] |= {row for row, weight in weights.items() if weight > 0}
                    inputs[name] -= {row for row, weight in weights.items() if weight < 0}
            held, tick = views(run), run.tick
            closed(run)
            del run
        again = programs[-1].start(checkpoint=folder)
        assert (again.tick, views(again)) == (tick, held)
        closed(again)


@pytest.mark.crash
def test_every_end_of_the_process_leaves_the_old_or_the_new_program(tmp_path: Path) -> None:
    old, new = dbsp.compile(TEXT), dbsp.compile(LONGER)
    closed(old.start({"edge": [(1, 2), (2, 3)]}, checkpoint=tmp_path / "started"))

    def restart(folder: Path) -> Run:
        return new.start(checkpoint=Store(folder, sync=False), update=True)

    shutil.copytree(tmp_path / "started", tmp_path / "all")
    operations = count_operations(lambda: closed(restart(tmp_path / "all")))
    outcomes = []
    for count in sampled(operations):
        folder = tmp_path / str(count)
        shutil.copytree(tmp_path / "started", folder)
        with contextlib.suppress(Ended), ends_after(count):
            closed(restart(folder))
        gc.collect()
        manifest = read_manifest(folder / CURRENT)
        assert manifest is not None
        outcomes.append(manifest.query == new.identity)
        run = restart(folder)
        assert run.tick == 2
        assert run.view("path").rows() == [(1, 2), (1, 3), (2, 3)]
        closed(run)
        shutil.rmtree(folder)
    assert outcomes == sorted(outcomes)
    assert set(outcomes) == {False, True}


def test_a_new_folder_and_the_same_program(tmp_path: Path) -> None:
    program = dbsp.compile(TEXT)
    run = program.start({"edge": [(1, 2)]}, checkpoint=tmp_path, update=True)
    closed(run)
    run = program.start({"edge": [(5, 6)]}, checkpoint=str(tmp_path), update=True)
    assert (run.tick, run.view("path").rows()) == (1, [(1, 2)])
    closed(run)


def test_the_folder_belongs_to_the_new_program(tmp_path: Path) -> None:
    closed(dbsp.compile(TEXT).start({"edge": [(1, 2), (2, 3)]}, checkpoint=tmp_path))
    with pytest.raises(CheckpointError, match=r"another query .*start this one with update=True, or"):
        dbsp.compile(LONGER).start(checkpoint=tmp_path)
    run = dbsp.compile(LONGER).start(checkpoint=tmp_path, update=True, observe=True)
    assert run.log is not None and run.log.result is not None
    assert run.log.result["path"].to_dict() == {(1, 3): 1}
    assert run.stats()
    closed(run)
    with pytest.raises(CheckpointError, match="another query"):
        dbsp.compile(TEXT).start(checkpoint=tmp_path)


def test_inputs_with_rows_are_not_dropped(tmp_path: Path) -> None:
    text = TEXT + ".decl city(x: number) .input city\ncity(7)."
    closed(dbsp.compile(text).start({"edge": [(1, 2)]}, checkpoint=tmp_path))
    renamed = dbsp.compile(text.replace("edge", "link"))
    with pytest.raises(CheckpointError, match=r"no input 'edge', which has 1 row in the checkpoint"):
        renamed.start(checkpoint=tmp_path, update=True)
    run = dbsp.compile(TEXT).start(checkpoint=tmp_path, update=True)  # city has only its fact
    assert run.view("path").rows() == [(1, 2)]
    closed(run)
    store = Store(tmp_path)
    held = renamed.stored_in(store)
    assert held is not None and held.text == TEXT
    run = held.start(checkpoint=store)
    run.update(renamed)
    closed(run)


def test_an_update_that_fails_changes_nothing_and_releases_the_folder(tmp_path: Path) -> None:
    closed(dbsp.compile(TEXT).start({"edge": [(1, 0)]}, checkpoint=tmp_path))
    wrong = dbsp.compile(TEXT + "path(x / y, 0) :- edge(x, y).")
    with pytest.raises(EvaluationError, match="division by zero"):
        wrong.start(checkpoint=tmp_path, update=True)
    run = dbsp.compile(TEXT).start(checkpoint=tmp_path)
    assert run.tick == 1
    closed(run)


def test_the_old_program_has_its_own_options_and_the_functors_of_the_new_one(tmp_path: Path) -> None:
    (tmp_path / "lib.dl").write_text(".functor up(x: number): number\n")
    text = '#include "lib.dl"\n' + TEXT + "path(@up(x), LEAST) :- edge(x, _).\n"
    text += ".decl odd(x: number) .output odd\nodd(x) :- edge(x, y), !odd(y).\n"

    def up(x: int) -> int:
        return x + 1

    def program(text: str, **options: Any) -> Program:
        return dbsp.compile(text, include=[tmp_path], functors={"up": up}, **options)

    options: dict[str, Any] = {"macros": {"LEAST": 3}, "negation": "well-founded", "word_size": 32}
    options |= {"magic": ["path"], "rewrites": ["propagate_constants"], "recursion": "incremental"}
    old = program(text, strategy="binary", legacy=True, **options)
    run = old.start({"edge": [(1, 2), (2, 1), (4, 9)]}, checkpoint=tmp_path / "state")
    assert run.view("odd.undefined").rows() == [(1,), (2,)]
    closed(run)
    (tmp_path / "lib.dl").write_text(".functor up(y: number): number\n")
    new = program(text.replace("@up(x)", "@up(x + 0)"), **options)
    store = Store(tmp_path / "state")
    held = new.stored_in(store)
    assert held is not None
    assert (held.identity, held.explain()) == (old.identity, old.explain())
    assert held.options == replace(old.options, functors=new.options.functors)
    store.close()
    run = new.start(checkpoint=tmp_path / "state", update=True)
    assert run.view("path").rows() == [(1, 2), (2, 1), (2, 3), (3, 3), (4, 9), (5, 3)]
    closed(run)
    other = dbsp.compile(TEXT)
    with pytest.raises(CheckpointError, match=r"does not compile with these functors: .*'up'"):
        other.start(checkpoint=tmp_path / "state", update=True)
    closed(new.start(checkpoint=tmp_path / "state"))  # the folder was released


def test_a_folder_without_a_text_is_that_of_another_program(tmp_path: Path) -> None:
    circuit = Circuit("shop")
    circuit.output("copy", circuit.input("edge", x=int, y=int))
    closed(circuit.start(checkpoint=tmp_path))
    assert dbsp.compile(TEXT).stored_in(Store(tmp_path)) is None
    gc.collect()
    with pytest.raises(CheckpointError, match=r"the checkpoint of another query \('shop'\)"):
        dbsp.compile(TEXT).start(checkpoint=tmp_path, update=True)


def test_documents_of_another_form_are_refused(tmp_path: Path) -> None:
    program = dbsp.compile(TEXT)
    document = json.loads(json.dumps(program.stored_source))
    assert read_source(document, {})[0].text == TEXT
    for name in document:
        part = {key: value for key, value in document.items() if key != name}
        with pytest.raises(CheckpointError, match=rf"cannot read the program .*KeyError: '{name}'"):
            read_source(part, {})
    with pytest.raises(CheckpointError, match="'other' is not a valid Strategy"):
        read_source({**document, "options": {**document["options"], "strategy": "other"}}, {})
    closed(program.start(checkpoint=tmp_path))
    manifest = read_manifest(tmp_path / CURRENT)
    assert isinstance(manifest, Manifest) and manifest.source == document
    with pytest.raises(CheckpointError, match="unexpected types"):
        replace(manifest, source=[1]).write(tmp_path, False)
        read_manifest(tmp_path / CURRENT)


def test_refused_combinations(tmp_path: Path) -> None:
    program = dbsp.compile(TEXT)
    with pytest.raises(ArgumentError, match="update= needs checkpoint="):
        program.start(update=True)
    for options in ({"shards": 2}, {"stage": "query"}, {"plans": program.plans}):
        with pytest.raises(ArgumentError, match="update= cannot be combined"):
            program.start(checkpoint=tmp_path, update=True, **options)  # type: ignore[call-overload]
    with pytest.raises(CompileError):
        dbsp.compile("path(x")
