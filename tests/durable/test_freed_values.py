"""Checkpoints of runs that free interned values: bounded files, and any crash in between."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbsp
from dbsp import CheckpointError, Circuit, Run
from dbsp.data.interner import Interner
from dbsp.data.live_values import LiveValues, PartTypes
from dbsp.data.types import OBJECT
from dbsp.durable import Store
from dbsp.durable.array_frames import frames, read_frames
from dbsp.durable.folder_report import describe_folder
from dbsp.durable.sealed_files import read_sealed, seal
from dbsp.durable.value_arrays import merged_from, restore_arrays, value_arrays
from dbsp.runtime.compaction import MANY_VALUES
from tests.durable.test_stored_values import VALUES, shown
from tests.harness import deltas_of, views
from tests.runtime.test_compaction import CIRCUITS, unclashing

ECHO = ".decl e(x: symbol)\n.input e\n.output e\n"


def opened(start: Callable[..., Run], folder: Path, every: int = 1000) -> Run:
    return start(checkpoint=Store(folder, snapshot_every=every, sync=False, background=False))


def interned_files(folder: Path) -> list[str]:
    manifest = json.loads((folder / "manifest.json").read_bytes())
    return list(manifest["snapshot"]["interned"])


def crash(run: Run) -> None:
    """End the run as the end of its process does: nothing more is written."""
    log = run.log
    assert log is not None
    log.close()


def free(run: Run) -> None:
    """Compact without writing a snapshot, as before a crash or while a thread writes it."""
    log, run.log = run.log, None
    run.compact()
    run.log = log


# --- pieces ---------------------------------------------------------------------------------------


@given(st.lists(VALUES | st.text(), max_size=10), st.data())
def test_pieces_with_holes_are_read_back(values: list[Any], data: st.DataObject) -> None:
    interner = Interner()
    codes = [interner.encode(value) for value in values]
    live = LiveValues(interner, PartTypes())
    for code in codes:
        if data.draw(st.booleans()):
            live.add_rows(np.array([[code]]), [OBJECT])
    live.add_parts()
    freed = interner.some(live.marks)
    middle = data.draw(st.integers(0, freed.end))
    again = Interner()
    for start, end in ((0, middle), (middle, freed.end)):
        head, arrays = value_arrays(freed, start, end, allow_pickle=False)
        text = json.dumps(head, ensure_ascii=False).encode("utf-8", "surrogatepass")
        restore_arrays(again, json.loads(text.decode("utf-8", "surrogatepass")), arrays, allow_pickle=False)
    assert again.end == freed.end and again.ids.tolist() == freed.ids.tolist()
    assert [shown(again.decode(code)) for code in again.ids] == [
        shown(freed.decode(code)) for code in freed.ids
    ]
    for code in freed.ids.tolist():
        value = freed.decode(code)
        # A branch with a NaN equals only itself, so not the one that is read back.
        assert again.find(value) == code or pickle.loads(pickle.dumps(value)) != value
    assert again.encode("one more") in (freed.end, freed.find("one more"))


@pytest.mark.parametrize(
    "texts",
    [[], [""], ["", ""], ["\0"], ["a\0b", "\n"], ["\0\n\x1f", "\ufdd0", "\ud800"], ["é", "\U0001f600"]],
)
def test_any_text_is_read_back(texts: list[str]) -> None:
    interner = Interner()
    interner.encode_many([*texts, *(f"{text} again" for text in texts)])
    head, arrays = value_arrays(interner, 0, interner.end, allow_pickle=False)
    again = Interner()
    restore_arrays(again, head, arrays, allow_pickle=False)
    assert again.decode_many(again.ids) == interner.decode_many(interner.ids)


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("start", 1),
        ("end", 2),
        ("separator", "x"),
        ("bytes", 1),
        ("others", []),
        ("layouts", [["", [False]]]),
    ],
)
def test_piece_arrays_of_a_wrong_form(member: str, value: Any) -> None:
    interner = Interner()
    interner.encode_many(["a", "b", (1, 2)])
    head, arrays = value_arrays(interner, 0, 3, allow_pickle=False)
    with pytest.raises((ValueError, IndexError)):
        restore_arrays(Interner(), head | {member: value}, arrays, allow_pickle=False)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=60))
def test_pieces_merge_geometrically(sizes: list[int]) -> None:
    ends: list[int] = []
    end = written = 0
    for size in sizes:
        end += size
        start = merged_from(ends, end)
        assert start == (ends[-1] if ends else 0)
        written += end - start
        ends.append(end)
        assert ends == sorted(set(ends)) and len(ends) <= end.bit_length() + 1
    assert written <= end * (end.bit_length() + 1)
    assert merged_from(list(ends), end) == end


def test_pieces_of_version_two_stay_readable(tmp_path: Path) -> None:
    piece = {
        "start": 0,
        "values": ["a", {"lost": None}, {"tuple": [1, "a"]}, {"cell": [0, 0]}],
        "layouts": [["", [False]]],
    }
    path = tmp_path / "0.json"
    path.write_bytes(b"".join(map(bytes, seal("x", frames(piece, [])).parts)))
    again = Interner()
    restore_arrays(again, *read_frames(read_sealed(path, "x")), allow_pickle=False)
    assert (again.decode(0), again.decode(2), again.cells.cell(3)[1], again.end) == ("a", (1, "a"), [0], 4)


# --- long runs ------------------------------------------------------------------------------------


def test_churn_of_fresh_strings_leaves_few_values_and_files(tmp_path: Path) -> None:
    """One row at a time, always with a new text: nothing grows."""
    run = opened(dbsp.compile(ECHO).start, tmp_path, every=2)
    before: tuple[str, ...] | None = None
    sizes = []
    for tick in range(1, 241):
        row = (f"session-{tick}",)
        run.step({"e": {row: 1} | ({} if before is None else {before: -1})})
        before = row
        if tick % 60 == 0:
            done = run.compact()
            assert done.values >= 57
            run.step({})
            log = run.log
            assert log is not None
            log.snapshot()
            assert len(run.interner) <= 3
            sizes.append(
                (len(os.listdir(tmp_path / "interned")), (tmp_path / "manifest.json").stat().st_size)
            )
    assert max(count for count, _ in sizes) <= 4
    assert max(size for _, size in sizes) < min(size for _, size in sizes) + 100
    crash(run)
    again = opened(dbsp.compile(ECHO).start, tmp_path)
    assert again.view("e").rows() == [("session-240",)] and len(again.interner) <= 3


def test_a_report_counts_the_values_that_are_left(tmp_path: Path) -> None:
    run = opened(dbsp.compile(ECHO).start, tmp_path)
    run.step({"e": [("a",), ("b",), ("c",)]})
    run.step({"e": {("b",): -1}})
    run.step()
    run.compact()
    run.step({"e": [("d",)]})
    crash(run)
    facts = {fact.name: fact.value for fact in describe_folder(tmp_path)}
    assert facts["interned values"] == 3


def test_files_stay_few_without_compactions(tmp_path: Path) -> None:
    run = opened(dbsp.compile(ECHO).start, tmp_path, every=1)
    for tick in range(100):
        run.step({"e": [(f"text {tick}",)]})
        assert tick < 2 or len(interned_files(tmp_path)) <= tick.bit_length()
    crash(run)
    again = opened(dbsp.compile(ECHO).start, tmp_path)
    assert len(again.view("e")) == 100


def test_many_strings_that_come_and_go_leave_no_trace(tmp_path: Path) -> None:
    run = opened(dbsp.compile(ECHO).start, tmp_path, every=2)
    run.step({"e": [("stays",)]})
    run.compact()
    run.step({})
    texts = {(f"a text that is long enough to be seen {n}",): 1 for n in range(MANY_VALUES + 30_000)}
    run.step({"e": texts})
    run.step({"e": dict.fromkeys(texts, -1)})
    for _ in range(6):
        run.step({})  # a snapshot frees the values
    assert len(run.interner) <= 2
    assert sum(path.stat().st_size for path in (tmp_path / "interned").iterdir()) < 2_000
    crash(run)
    again = opened(dbsp.compile(ECHO).start, tmp_path)
    assert again.view("e").rows() == [("stays",)]


# --- crashes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CIRCUITS)
@settings(max_examples=10)
@given(data=st.data())
def test_a_crash_after_any_tick_loses_nothing(
    name: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Values that were freed and come back have two ids in a journal without a snapshot between."""
    folder = tmp_path_factory.mktemp("crashed")
    start, sequences = CIRCUITS[name]
    plain, run = start(), opened(start, folder)
    for tick in map(unclashing, data.draw(sequences)):
        action = data.draw(st.sampled_from(["compact", "free", "free", "crash", "crash", "snapshot", ""]))
        if action == "compact":
            run.compact()
        elif action == "free":
            free(run)
        elif action == "snapshot":
            assert run.log is not None
            run.log.snapshot()
        elif action == "crash":
            crash(run)
            run = opened(start, folder)
        assert views(run) == views(plain)
        assert deltas_of(run.step(tick)) == deltas_of(plain.step(tick))
    crash(run)
    for _ in range(2):
        run = opened(start, folder)
        assert views(run) == views(plain)
        run.step({})
        plain.step({})
        crash(run)


def test_a_value_that_comes_back_is_found_after_a_crash(tmp_path: Path) -> None:
    start = dbsp.compile(ECHO + '.decl f(x: symbol)\n.output f\nf(x) :- e(x), x != "b".\n').start
    run = opened(start, tmp_path)
    run.step({"e": [("a",), ("b",)]})
    assert run.log is not None
    run.log.snapshot()
    run.step({"e": {("b",): -1}})
    run.step({})
    old = run.interner
    free(run)
    run.step({"e": [("b",), ("c",)]})
    assert run.interner.find("b") != old.find("b")
    crash(run)
    run = opened(start, tmp_path)
    assert run.view("e").rows() == [("a",), ("b",), ("c",)] and run.view("f").rows() == [("a",), ("c",)]
    run.step({"e": {("b",): -1, ("d",): 1}})
    crash(run)
    run = opened(start, tmp_path)
    assert run.view("e").rows() == [("a",), ("c",), ("d",)]
    assert run.step({"e": {("c",): -1}})["f"].to_dict() == {("c",): -1}
    crash(run)
    assert opened(start, tmp_path).view("f").rows() == [("a",), ("d",)]


def test_removals_by_key_are_replayed_when_the_first_value_is_freed(tmp_path: Path) -> None:
    def start(**options: Any) -> Run:
        circuit = Circuit("keyed")
        circuit.output("all", circuit.input("a", id=str, x=str, key=["id"]))
        return circuit.start(**options)

    run = opened(start, tmp_path)
    run.step({"a": [("first", "second")]})
    run.step({"a": [("first", "third")]})
    run.input("a").delete([("first",)])
    run.step()
    run.step()
    assert run.compact().values == 3
    run.step({"a": [("k", "v"), ("l", "w")]})
    run.input("a").delete([("k",)])
    run.step()
    crash(run)
    assert opened(start, tmp_path).view("all").rows() == [("l", "w")]


def test_constants_of_a_circuit_are_restored(tmp_path: Path) -> None:
    def start(**options: Any) -> Run:
        circuit = Circuit("constant")
        constant = circuit.constant({("one",): 1, ("two",): 1}, {"x": str})
        circuit.output("all", circuit.input("a", x=str, kind="set") + constant)
        return circuit.start(**options)

    run = opened(start, tmp_path, every=2)
    for number in range(5):
        run.step({"a": [(f"text {number}",)]})
    crash(run)
    run = opened(start, tmp_path, every=2)
    assert len(run.view("all")) == 7
    run.step({"a": {("text 0",): -1}})
    run.step({})
    run.compact()
    run.step({"a": [("one",)]})
    crash(run)
    assert opened(start, tmp_path).view("all").to_dict()[("one",)] == 2


def test_a_damaged_piece_is_named(tmp_path: Path) -> None:
    run = opened(dbsp.compile(ECHO).start, tmp_path, every=1)
    for number in range(3):
        run.step({"e": [(f"text {number}",)]})
    crash(run)
    (tmp_path / "manifest.previous.json").unlink()
    for path in (tmp_path / "interned").iterdir():
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"interned/\d+\.values: its content does not match"):
        opened(dbsp.compile(ECHO).start, tmp_path)
