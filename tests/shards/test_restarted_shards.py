"""Plans that row counts chose survive a restart of a sharded run, in the header of its folder."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import dbsp
from dbsp import CheckpointError
from dbsp.durable.shards_header import read_shards_header
from dbsp.errors import expect_present
from dbsp.shards.shard_folder import ShardFolder
from dbsp.shards.sharded_run import ShardedRun
from tests.durable.test_restarted_plans import EDITED, LATER, ROWS, TEXT, TICK, TWICE, join_steps, planner
from tests.harness import deltas_of, views


def started(folder: Path, text: str = TEXT, rows: Any = None, shards: int = 2, **options: Any) -> ShardedRun:
    return dbsp.compile(text).start(
        rows, shards=shards, checkpoint=ShardFolder(folder, sync=False, **options)
    )


def document_in(folder: Path) -> str | None:
    return expect_present(read_shards_header(folder), "a header").plans


def keeps_the_join(run: ShardedRun, text: str) -> None:
    done = run.update(dbsp.compile(text))
    assert done.relations["o"] == "kept"
    other = dbsp.compile(text).start({name: run.asserted(name) for name in run.inputs})
    assert views(run) == views(other)
    assert deltas_of(run.step(TICK)) == deltas_of(other.step(TICK))
    assert views(run) == views(other)


def without_the_join(text: str) -> str:
    return text.replace("o(x, w) :- a(x, y), b(y, z), c(z, w).", "")


@pytest.mark.parametrize("way", ["first rows", "the caller", "replan", "update"])
def test_an_update_after_a_restart_keeps_counted_plans(way: str, tmp_path: Path) -> None:
    program, folder = dbsp.compile(TEXT), ShardFolder(tmp_path, sync=False)
    if way == "first rows":
        run = program.start(ROWS, shards=2, checkpoint=folder)
    elif way == "the caller":
        plans = program.plans_for(program.counted(ROWS))
        run = program.start(ROWS, shards=2, checkpoint=folder, plans=plans)
    else:
        first = dbsp.compile(without_the_join(TEXT)) if way == "update" else program
        run = first.start(shards=2, checkpoint=folder)
        run.step(ROWS)
        assert document_in(tmp_path) is None
        if way == "replan":
            assert run.replan().changes
        else:
            run.update(program)
    run.close()
    plans = planner(run).plans
    assert join_steps(plans) != join_steps(program.plans)
    for before, text in ((TEXT, EDITED), (EDITED, TWICE)):
        with started(tmp_path, before) as run:
            assert not planner(run).is_unknown
            assert join_steps(planner(run).plans) == join_steps(plans)
            keeps_the_join(run, text)
            assert document_in(tmp_path) is not None
    with started(tmp_path, TWICE) as run:
        run.step(LATER)
        run.replan()
        assert document_in(tmp_path) is None
    with started(tmp_path, TWICE) as run:
        assert not planner(run).is_unknown
        assert run.replan().changes == ()


def test_another_number_of_shards_has_the_same_plans(tmp_path: Path) -> None:
    with started(tmp_path, rows=ROWS) as run:
        document = document_in(tmp_path)
    with started(tmp_path, shards=3, reshard=True) as run:
        assert (planner(run).is_unknown, document_in(tmp_path)) == (False, document)
        keeps_the_join(run, EDITED)


def test_recursions_that_move_to_all_shards_keep_the_plans(tmp_path: Path) -> None:
    text = TEXT + ".decl r(x: number, y: number) .output r\nr(x, y) :- a(x, y).\n"
    program = dbsp.compile(text + "r(x, z) :- r(x, y), r(y, z), x != z.\n")
    run = program.start(
        ROWS, shards=2, memory_limit="2M", checkpoint=ShardFolder(tmp_path, sync=False), scopes=None
    )
    with run:
        document = expect_present(document_in(tmp_path), "stored plans")
        run.step({"a": [(i, i + 1) for i in range(1_000, 1_300)]})
        run.step(TICK)
        assert "exchanges rows in supersteps" in "\n".join(run.recursion_lines())
        assert document_in(tmp_path) == document
    with program.start(shards=2, checkpoint=ShardFolder(tmp_path, sync=False)) as run:
        assert not planner(run).is_unknown


def test_documents_of_another_form_and_other_plans(tmp_path: Path) -> None:
    with started(tmp_path, rows=ROWS):
        pass
    header = expect_present(read_shards_header(tmp_path), "a header")
    replace(header, plans="{").write(tmp_path, False)
    with pytest.raises(CheckpointError, match="cannot read the plans of the checkpoint") as error:
        started(tmp_path)
    assert error.value.code == "checkpoint-unreadable"
    replace(header, plans=json.loads("7")).write(tmp_path, False)
    with pytest.raises(CheckpointError, match="unexpected types"):
        started(tmp_path)
    replace(header, plans=None).write(tmp_path, False)
    with started(tmp_path) as run:
        assert planner(run).is_unknown
        run.update(dbsp.compile(EDITED))
        other = dbsp.compile(EDITED).start(ROWS)
        assert deltas_of(run.step(TICK)) == deltas_of(other.step(TICK))
        assert views(run) == views(other)


def test_a_circuit_by_hand_has_unknown_plans(tmp_path: Path) -> None:
    with started(tmp_path, rows=ROWS) as run:
        run.replan(dbsp.compile(TEXT, "wcoj").circuit("distributed"))
        assert document_in(tmp_path) is None
    with started(tmp_path) as run:
        assert planner(run).is_unknown
        assert len(run.replan().changes) == 2
        assert views(run) == views(dbsp.compile(TEXT).start(ROWS))
