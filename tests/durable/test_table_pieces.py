"""Tables in checkpoints: large ones are pieces with the changed entries, merged geometrically."""

from __future__ import annotations

import contextlib
import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.table_totals import Totals
from dbsp import CheckpointError, Circuit, Run
from dbsp.durable import Store, table_pieces
from dbsp.durable.manifest import read_manifest
from dbsp.durable.snapshot_policy import SnapshotPolicy
from dbsp.durable.snapshots import Snapshots
from dbsp.durable.table_pieces import CapturedTable, Frames, appended, encoded, entries_of, merge, restored
from dbsp.durable.typed_values import UnsupportedValueError
from dbsp.state.state_table import ABSENT, StateTable
from tests.harness import views
from tests.profiles import examples

# --- pieces ---------------------------------------------------------------------------------------

codes = st.tuples(st.integers(0, 3), st.integers(-(2**63), 2**63 - 1) | st.integers(0, 3))
others = st.sampled_from([None, "a", ("a", 1), frozenset({1}), True, (), (True, 1), 2**70, (1,), ((2,), 3)])
tables = st.sampled_from([(codes, st.integers(-5, 5)), (others, others), (codes | others, st.integers())])


@given(tables.flatmap(lambda kv: st.lists(st.dictionaries(kv[0], kv[1] | st.just(ABSENT), max_size=8))))
def test_pieces_have_the_entries_of_the_table(changes: list[dict[Any, Any]]) -> None:
    files: dict[str, Frames] = {}

    def write(piece: Frames) -> str:
        files[f"tables/{len(files)}"] = piece
        return f"tables/{len(files) - 1}"

    table: StateTable[Any, Any] = StateTable([])
    model: dict[Any, Any] = {}
    pieces: list[tuple[str, int]] = []
    for change in changes:
        for key, value in change.items():
            if value is ABSENT:
                model.pop(key, None)
            else:
                model[key] = value
        pieces = appended(CapturedTable(table, change, pieces, True), files.__getitem__, write, False)
        found = restored((files[name] for name, _ in pieces), False)
        assert {(key, type(key)): value for key, value in found.items()} == {
            (key, type(key)): value for key, value in model.items()
        }
        for (_, older), (_, newer) in itertools.pairwise(pieces):
            assert older > table_pieces.RATIO * newer
        for name, size in pieces:
            assert len(list(entries_of(files[name], False))) == size


def test_ints_are_arrays_and_other_keys_are_values() -> None:
    head, arrays = encoded({(1, 2): 3, (4, 5): ABSENT}, False)
    assert head == {"codes": 2}
    assert [array.tolist() for array in arrays] == [[1, 2], [3], [4, 5]]
    for entries in ({(1, True): 3}, {(1, 2): 3, (4,): 5}, {(1, 2): True}, {(2**63, 1): 1}, {1: 2}, {(): 1}):
        head, arrays = encoded(entries, False)
        assert len(head["set"]) == len(entries) and not arrays
    with pytest.raises(UnsupportedValueError):
        encoded({(1,): object()}, False)


def test_the_oldest_piece_needs_no_removed_keys() -> None:
    for key in ((1, 2), "text"):
        old, new = encoded({key: 3}, False), encoded({key: ABSENT}, False)
        assert list(entries_of(merge([old, new], True, False), False)) == []
        assert list(entries_of(merge([old, new], False, False), False)) == [(key, ABSENT)]


def test_a_snapshot_costs_its_changes() -> None:
    """Of 200 times 50 changes of 20,000 entries, a few times as many entries are written."""
    written = 0
    files: dict[str, Frames] = {}

    def write(piece: Frames) -> str:
        nonlocal written
        written += len(list(entries_of(piece, False)))
        files[name] = piece
        return name

    table: StateTable[Any, Any] = StateTable([])
    name = "tables/first"
    pieces = appended(
        CapturedTable(table, {(i, 0): i for i in range(20_000)}, [], True), files.__getitem__, write, False
    )
    written = 0
    for number in range(200):
        name = f"tables/{number}"
        change = {((number * 50 + i) % 20_000, 0): number for i in range(50)}
        pieces = appended(CapturedTable(table, change, pieces, True), files.__getitem__, write, False)
        assert len(pieces) < 10
    assert written < 12 * 200 * 50


# --- a run ----------------------------------------------------------------------------------------


def totals() -> Circuit:
    circuit = Circuit("totals")
    circuit.output("out", Totals()(circuit.input("a", x=int, kind="set")))
    return circuit


def started(folder: Path, every: Any = 1, background: bool = False) -> Run:
    return totals().start(checkpoint=Store(folder, snapshot_every=every, sync=False, background=background))


def ended(run: Run) -> None:
    assert run.log is not None
    run.log.close()


def pieces_of(folder: Path) -> list[tuple[str, int]]:
    manifest = read_manifest(folder / "manifest.json")
    assert manifest is not None and manifest.snapshot is not None
    return [(name, size) for pieces in manifest.snapshot.tables for name, size in pieces]


def test_a_snapshot_of_a_large_table_writes_its_changes(tmp_path: Path) -> None:
    run = started(tmp_path, every=1000)
    run.step({"a": [(x,) for x in range(10_000)]})
    run.snapshot()
    (first,) = pieces_of(tmp_path)
    assert first[1] == 10_000
    run.step({"a": {(3,): -1, (20_000,): 1}})
    run.step({"a": {(4,): -1, (3,): 1}})
    run.snapshot()
    assert pieces_of(tmp_path)[0] == first
    assert [size for _, size in pieces_of(tmp_path)] == [10_000, 3]
    run.step({})
    run.snapshot()
    assert [size for _, size in pieces_of(tmp_path)] == [10_000, 3]
    small = sum(path.stat().st_size for path in (tmp_path / "memory").iterdir())
    assert small < 3_000
    expected = views(run)
    ended(run)
    run = started(tmp_path, every=1000)
    assert views(run) == expected
    run.step({"a": {(5,): -1, (30_000,): 1}})
    run.snapshot()
    assert pieces_of(tmp_path)[0] == first
    expected = views(run)
    ended(run)
    run = started(tmp_path)
    assert views(run) == expected
    assert run.step({"a": [(40_000,)]})["out"].to_dict() == {(40_000, 1): 1}
    ended(run)


def test_a_table_becomes_small_again(tmp_path: Path) -> None:
    run = started(tmp_path, every=1000)
    run.step({"a": [(x,) for x in range(10_000)]})
    run.snapshot()
    run.step({"a": {(x,): -1 for x in range(9_000)}})
    run.snapshot()
    run.step({})
    run.snapshot()
    assert not pieces_of(tmp_path)
    assert not list((tmp_path / "tables").iterdir())
    expected = views(run)
    ended(run)
    run = started(tmp_path, every=1000)
    assert views(run) == expected
    run.step({"a": [(x,) for x in range(20_000, 30_000)]})
    run.snapshot()
    assert [size for _, size in pieces_of(tmp_path)] == [11_000]
    ended(run)


def failing() -> Any:
    failed = mock.Mock(side_effect=CheckpointError("full", code="checkpoint-write"))
    return mock.patch.object(Snapshots, "write", failed)


@pytest.mark.parametrize("background", [False, True])
def test_changes_of_a_snapshot_that_failed_are_in_the_next_one(tmp_path: Path, background: bool) -> None:
    run = started(tmp_path, 1000, background)
    assert isinstance(run.log, Store)
    run.step({"a": [(x,) for x in range(10_000)]})
    run.snapshot()
    first = pieces_of(tmp_path)[0]
    for change in ({(3,): -1, (20_000,): 1}, {(4,): -1}, {(5,): -1, (20_000,): -1}):
        run.step({"a": change})
        with failing():
            if background:
                run.log.snapshot_every = SnapshotPolicy(ticks=1)
                run.step({})
                run.log.wait()
            with pytest.raises(CheckpointError, match="full"):
                run.step({}) if background else run.snapshot()
            run.log.snapshot_every = SnapshotPolicy(ticks=1000)
    run.snapshot()
    assert pieces_of(tmp_path) == [first, (pieces_of(tmp_path)[1][0], 4)]
    expected = views(run)
    ended(run)
    run = started(tmp_path)
    assert views(run) == expected
    ended(run)


@pytest.mark.filterwarnings("ignore::dbsp.errors.CheckpointWarning")
def test_a_damaged_piece_is_replaced_by_the_whole_table(tmp_path: Path) -> None:
    run = started(tmp_path, every=1000)
    run.step({"a": [(x,) for x in range(10_000)]})
    run.snapshot()
    ((name, _),) = pieces_of(tmp_path)
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    run.step({"a": {(x,): -1 for x in range(5_000)}})
    with pytest.raises(CheckpointError, match=r"its content does not match its checksum"):
        run.snapshot()
    run.snapshot()
    assert [size for _, size in pieces_of(tmp_path)] == [5_000]
    expected = views(run)
    ended(run)
    run = started(tmp_path)
    assert views(run) == expected
    ended(run)


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["step", "step", "undone", "snapshot", "failed", "reopen", "wait"]),
        st.dictionaries(st.integers(0, 30), st.sampled_from([1, -1]), max_size=12),
    ),
    max_size=25,
)


@pytest.mark.slow
@settings(max_examples=examples(60))
@given(st.booleans(), st.integers(1, 5), st.sampled_from([1, 4, 12]), ACTIONS)
def test_any_sequence(background: bool, every: int, large: int, actions: list[tuple[str, Any]]) -> None:
    whole = totals().start()
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(table_pieces, "LARGE", large):
        run = started(Path(folder), every, background)
        for action, rows in actions:
            assert isinstance(run.log, Store)
            change = {"a": {(x,): weight for x, weight in rows.items()}}
            if action == "step":
                assert run.step(change)["out"].to_dict() == whole.step(change)["out"].to_dict()
            elif action == "undone":
                run.preview(run.prepare(change))
            elif action == "snapshot":
                run.snapshot()
            elif action == "failed":
                run.log.wait()
                with failing(), contextlib.suppress(CheckpointError):
                    run.snapshot()
            elif action == "wait":
                run.log.wait()
            else:
                ended(run)
                run = started(Path(folder), every, background)
                assert views(run) == views(whole)
        ended(run)
        run = started(Path(folder), every, background)
        assert views(run) == views(whole)
        ended(run)


@pytest.fixture(autouse=True)
def _no_rests() -> Iterator[None]:
    with mock.patch("dbsp.durable.background._REST", 0.0):
        yield
