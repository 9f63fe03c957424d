"""A run within a memory limit equals one without, tick by tick."""

from __future__ import annotations

import gc
import os
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dbsp
from dbsp import ArgumentError, CheckpointError, Circuit, Run, col, count
from dbsp.durable import Store
from dbsp.runtime.run_display import run_document
from dbsp.state.spill_folder import SpillFolder
from tests.profiles import examples
from tests.random_circuits import Choices, build, choices
from tests.random_datalog import INPUTS, programs

TINY = 256
"""A limit of so few bytes that nearly every run is in a file."""

Ticks = list[dict[str, dict[tuple[Any, ...], int]]]
NUMBERS = st.integers(0, 3)
ROWS = st.tuples(NUMBERS, st.none() | NUMBERS, st.sampled_from(["a", "b", "c"]))
CHANGES = st.dictionaries(ROWS, st.sampled_from([1, 1, 1, 2, -1]), max_size=12)
SETTINGS = settings(
    max_examples=examples(15),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def file_bytes(run: Run) -> int:
    return sum(trace.file_bytes for trace in run.scope.traces)


def equal_ticks(start: Callable[..., Run], ticks: Ticks) -> int:
    """Step both runs; return the most bytes that were in files."""
    limited, free = start(memory_limit=TINY), start()
    most = 0
    for changes in ticks:
        mine, theirs = limited.step(changes), free.step(changes)
        for name in free.outputs:
            assert mine[name].to_dict() == theirs[name].to_dict()
        most = max(most, file_bytes(limited))
    for name in free.outputs:
        assert limited.view(name).to_dict() == free.view(name).to_dict()
    return most


# --- random circuits and programs -----------------------------------------------------------------


@SETTINGS
@given(choices(), st.lists(st.fixed_dictionaries({"a": CHANGES, "b": CHANGES}), min_size=3, max_size=8))
def test_random_circuits(chosen: Choices, ticks: Ticks) -> None:
    present: dict[tuple[Any, ...], int] = {}
    for tick in ticks:  # a recursion over rows of negative weight need not end
        tick["a"] = {row: weight for row, weight in tick["a"].items() if weight + present.get(row, 0) >= 0}
        for row, weight in tick["a"].items():
            present[row] = present.get(row, 0) + weight
    equal_ticks(build(chosen).start, ticks)


def sets(name: str, arity: int) -> st.SearchStrategy[dict[tuple[int, ...], int]]:
    return st.dictionaries(st.tuples(*[NUMBERS] * arity), st.sampled_from([1, 1, -1]), max_size=10)


PROGRAM_TICKS = st.lists(
    st.fixed_dictionaries({name: sets(name, arity) for name, arity in INPUTS.items()}), min_size=3, max_size=6
)


@SETTINGS
@given(programs(), st.sampled_from(["binary", "wcoj"]), PROGRAM_TICKS)
def test_random_programs(text: str, strategy: Any, ticks: Ticks) -> None:
    equal_ticks(dbsp.compile(text, strategy).start, ticks)


PATHS = """
.decl edge(x: number, y: number) .input edge
.decl path(x: number, y: number) .output path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
.decl triangle(x: number, y: number, z: number) .output triangle
triangle(x, y, z) :- edge(x, y), edge(y, z), edge(z, x).
.decl degree(x: number, n: number) .output degree
degree(x, n) :- edge(x, _), n = count : { edge(x, _) }.
"""


@pytest.mark.parametrize("mode", ["auto", "incremental"])
def test_recursion_patterns_and_aggregates(mode: Any) -> None:
    program = dbsp.compile(PATHS, recursion=mode)
    chain = {(i, i + 1): 1 for i in range(60)}
    ticks = [{"edge": chain}]
    for i in range(12):
        ticks += [{"edge": {(5 * i, 5 * i + 1): -1, (i, i + 3): 1}}, {"edge": {(5 * i, 5 * i + 1): 1}}]
    assert equal_ticks(program.start, ticks) > 60 * 60 * 8


def test_replanning_and_compacting_keep_the_state_in_files() -> None:
    program = dbsp.compile(PATHS)
    limited, free = program.start(memory_limit=TINY), program.start()
    chain = {"edge": {(i, i + 1): 1 for i in range(60)}}
    for run in (limited, free):
        run.step(chain)
        run.replan()
        run.step({"edge": {(30, 31): -1}})
        run.compact()
    assert limited.state_rows == free.state_rows
    assert file_bytes(limited) > 20_000
    assert limited.state_bytes < free.state_bytes / 4
    for name in free.outputs:
        assert limited.view(name).to_dict() == free.view(name).to_dict()


def test_a_query_moves_the_rows_that_it_reads_to_files() -> None:
    """Its rows do not fit the limit, so the run moves a relation that the query still reads."""
    program = dbsp.compile("""
        .decl edge(x: number, y: number) .input edge
        .decl first(x: number, y: number) .input first
        .decl found(x: number) .output found
        found(z) :- first(y, z), edge(x, y).
        .decl path(x: number, y: number)
        path(x, y) :- first(x, y).
        path(x, z) :- edge(x, y), path(y, z).
    """)
    deltas = []
    for limit in (None, 400_000):
        run = program.start(memory_limit=limit)
        run.step({"edge": [(x, x + 1) for x in range(10_000) if (x + 1) % 100]})
        run.step({"first": [(x, x) for x in range(99, 10_000, 100)]})
        deltas.append(run.subscribe("path(x, y), x >= 0").deltas())
    assert sum(map(len, deltas[0])) == 10_000
    assert deltas[0] == deltas[1]


# --- the options ----------------------------------------------------------------------------------


def shop() -> Circuit:
    circuit = Circuit("shop")
    sales = circuit.input("sale", kind="set", id=int, item=str)
    circuit.output("sold", sales.group_by("item").agg(n=count(), total=col("id").sum()))
    circuit.output("sales", sales)
    return circuit


def sales(start: int, stop: int) -> dict[str, list[tuple[int, str]]]:
    return {"sale": [(i, f"item {i % 7}") for i in range(start, stop)]}


@pytest.mark.parametrize(
    ("limit", "problem"),
    [
        (0, 'memory_limit: expected a positive number of bytes, or an amount such as "8G"'),
        (-1, "memory_limit: expected a positive number"),
        (True, "memory_limit: expected a positive number"),
        (1.5, "memory_limit: expected a positive number"),
        ("much", "memory_limit: expected an amount of memory such as 8G, 500M or 90%, got 'much'"),
    ],
)
def test_a_limit_that_is_no_amount_is_refused(limit: Any, problem: str) -> None:
    with pytest.raises(ArgumentError, match=problem):
        shop().start(memory_limit=limit)
    with pytest.raises(ArgumentError, match=problem):
        dbsp.compile(PATHS).start(memory_limit=limit)


def test_a_percentage_needs_a_machine_that_tells_its_memory() -> None:
    with (
        patch("dbsp.runtime.memory._installed", lambda: None),
        pytest.raises(ArgumentError, match="25% has no meaning; give a number of bytes"),
    ):
        shop().start(memory_limit="25%")


def test_a_limit_as_text() -> None:
    run = shop().start(memory_limit="4K")
    assert run.budget is not None and run.budget.limit == 4096
    run.step(sales(0, 1000))
    assert file_bytes(run) > 16_000


def test_the_temporary_folder_disappears_with_the_run() -> None:
    run = shop().start(memory_limit=TINY)
    run.step(sales(0, 1000))
    assert run.budget is not None
    place = run.budget.folder.place
    assert place.name.startswith("dbsp-state-") and len(os.listdir(place)) > 1
    assert place.stat().st_mode & 0o77 == 0  # others may not read the rows
    del run
    gc.collect()
    assert not place.exists()
    assert not place.with_name(f"{place.name}.lock").exists()


# --- checkpoints ----------------------------------------------------------------------------------


def test_a_limited_run_with_a_checkpoint(tmp_path: Path) -> None:
    free = shop().start()
    for i in range(6):
        run = shop().start(
            checkpoint=Store(tmp_path, snapshot_every=2, sync=False), memory_limit=TINY if i % 3 else None
        )
        assert run.tick == free.tick
        assert run.view("sold").to_dict() == free.view("sold").to_dict()
        for j in range(3):
            changes = sales(i * 6000 + j * 2000, i * 6000 + j * 2000 + 2000)
            assert run.step(changes)["sold"].to_dict() == free.step(changes)["sold"].to_dict()
        if i % 3:
            assert any((tmp_path / "spill").iterdir())
        assert run.log is not None
        run.log.close()
        assert run.view("sales").to_dict() == free.view("sales").to_dict()
        del run


def test_a_snapshot_takes_the_files_of_the_limit(tmp_path: Path) -> None:
    """Also those of merges in which rows cancelled, so that a gap precedes the weights."""
    circuit = Circuit("weighted")
    circuit.output("a", circuit.input("a", x=int))
    run = circuit.start(checkpoint=Store(tmp_path, snapshot_every=10**6, sync=False), memory_limit="4K")
    rows = {(i,): 2 for i in range(20_000)}
    run.step({"a": rows})
    run.step({"a": {(i,): -2 for i in range(0, 20_000, 19)} | {(-i,): 3 for i in range(1, 9000)}})
    store, run.log = run.log, None  # with a checkpoint, compaction ends with a snapshot
    run.compact()
    run.log = store
    files = {trace.runs[0].file for trace in run.scope.traces}
    (gaps,) = [file.weights_at - file.end_of_rows for file in files if file is not None]
    assert gaps > 1000
    spilled = len(list((tmp_path / "spill").iterdir()))
    assert isinstance(store, Store)
    store.snapshot()
    assert len(list((tmp_path / "spill").iterdir())) == spilled - 1
    store.close()
    again = circuit.start(checkpoint=tmp_path)
    assert again.view("a").to_dict() == run.view("a").to_dict()
    assert len(again.view("a")) == 20_000 - 1053 + 8999


@pytest.mark.parametrize("background", [False, True])
def test_snapshots_take_files_while_ticks_replace_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, background: bool
) -> None:
    monkeypatch.setattr("dbsp.durable.snapshots._LARGE", 8)
    chance = random.Random(5)
    free = shop().start()
    present: set[tuple[int, str]] = set()
    taken = 0
    for _ in range(6):
        store = Store(tmp_path, snapshot_every=2, sync=False, background=background)
        run = shop().start(checkpoint=store, memory_limit="2K")
        assert run.view("sold").to_dict() == free.view("sold").to_dict()
        for _ in range(20):
            rows = {(chance.randrange(600), f"item {chance.randrange(5)}") for _ in range(40)}
            change = {"sale": {row: -1 if row in present else 1 for row in rows}}
            present ^= rows
            assert run.step(change)["sold"].to_dict() == free.step(change)["sold"].to_dict()
            files = [kept.file for trace in run.scope.traces for kept in trace.runs]
            taken += sum(file is not None and file.path.parent.name == "runs" for file in files)
            assert background or all(file is None or file.path.exists() for file in files)
        store.close()
        assert run.view("sales").to_dict() == dict.fromkeys(present, 1)
        del run
    assert background or taken > 100  # in the background, this depends on the time


def test_files_of_an_ended_process_are_removed(tmp_path: Path) -> None:
    (tmp_path / "spill").mkdir()
    (tmp_path / "spill" / "old.run").write_bytes(b"x")
    run = shop().start(checkpoint=tmp_path)
    assert not any((tmp_path / "spill").iterdir())
    assert run.log is not None
    run.log.close()


@pytest.mark.parametrize("size", [1, 10, 100])
def test_a_full_disk_refuses_ticks_and_leaves_the_run_usable(tmp_path: Path, size: int) -> None:
    run = shop().start(checkpoint=Store(tmp_path, sync=False), memory_limit="4K")
    run.step(sales(0, 100))
    sold, refused = 100, 0
    with patch.object(SpillFolder, "new_path", side_effect=OSError(28, "No space left on device")):
        for _ in range(200):
            try:
                run.step(sales(sold, sold + size))
            except CheckpointError as error:
                assert f"cannot move state to files in {tmp_path}/spill" in error.message
                assert error.code == "checkpoint-write"
                refused += 1
            else:
                sold += size
            assert run.tick == 1 + (sold - 100) / size
        assert run.view("sales").to_dict() == dict.fromkeys(sales(0, sold)["sale"], 1)
    assert refused > 10
    for _ in range(2):  # the first one may report the end of the tick before
        try:
            run.step(sales(sold, sold + 300))
        except CheckpointError:
            continue
        sold += 300
    assert sold >= 400
    assert run.view("sales").to_dict() == dict.fromkeys(sales(0, sold)["sale"], 1)
    assert run.log is not None
    run.log.close()
    assert len(shop().start(checkpoint=tmp_path).view("sales")) == sold


def test_displays_tell_memory_from_files() -> None:
    run = shop().start(memory_limit="16K")
    run.step(sales(0, 2000))
    title = "".join(span.text for span in run_document(run).title)
    assert re.search(r"2,014 rows stored, \d+ bytes in memory, 3[\d.]+ KB in files", title)
