"""Large sorted runs of a checkpoint, in files that are mapped."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import xxhash

import dbsp
from dbsp import CheckpointError, Circuit, Run
from dbsp.durable import Store, run_files
from dbsp.durable.array_frames import frames
from dbsp.durable.folder_report import describe_folder, verify_folder
from dbsp.durable.manifest import VERSION
from dbsp.durable.run_files import adopt_run_file, mapped, open_run_file, write_run_file
from dbsp.durable.sealed_files import seal, sealed_json
from dbsp.errors import CheckpointWarning
from dbsp.kernels.narrow_rows import narrowed
from dbsp.state.mapped_runs import map_run, write_run
from dbsp.state.memory_budget import MemoryBudget
from dbsp.state.run_file import HEADER
from dbsp.state.sorted_run import SortedRun
from dbsp.state.spill_folder import SpillFolder
from dbsp.state.trace import Trace
from tests.crashes import Ended, ends_after

ROWS = 10_000


def counting() -> Circuit:
    circuit = Circuit("counting")
    circuit.output("out", circuit.input("a", x=int, y=int).group_by("x").agg(n=dbsp.count()))
    return circuit


def rows_of(start: int, end: int) -> list[tuple[int, int]]:
    return [(x // 2, x) for x in range(start, end)]


def started(folder: Path, ticks: int = 1, **options: Any) -> Run:
    """Return a run that has written a snapshot after each tick."""
    run = counting().start(checkpoint=Store(folder, sync=False, **options))
    for tick in range(ticks):
        run.step({"a": rows_of(tick * ROWS, (tick + 1) * ROWS)})
        snapshot(run)
    return run


def snapshot(run: Run) -> None:
    assert isinstance(run.log, Store)
    run.log.snapshot()


def closed(run: Run) -> Run:
    assert isinstance(run.log, Store)
    run.log.close()
    return run


def reopened(folder: Path, **options: Any) -> Run:
    return closed(counting().start(checkpoint=Store(folder, sync=False, **options)))


def expected(rows: int) -> dict[tuple[int, int], int]:
    return {(x, 2): 1 for x in range(rows // 2)}


def rows_in(run: Run) -> dict[tuple[int, int], int]:
    return dict(run.view("out").items())


def run_of(rows: int, weight: int = 1, narrow: bool = False, width: int = 2) -> SortedRun:
    codes = np.arange(width * rows, dtype=np.int64).reshape(rows, width)
    run = SortedRun(narrowed(codes) if narrow else codes, np.full(rows, weight, np.int64))
    run.largest = abs(weight)
    return run


def large_files(folder: Path) -> list[Path]:
    return sorted((folder / "runs").iterdir())


def changed(path: Path, at: int, content: bytes) -> None:
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(content)


def resealed(path: Path, change: Callable[[bytearray], None]) -> str:
    """Change the header of a run file, with a valid checksum; return that."""
    content = bytearray(path.read_bytes())
    change(content)
    content[64:80] = bytes(16)
    digest = hashlib.blake2b(content[:HEADER], digest_size=16).digest()
    content[64:80] = digest
    path.write_bytes(content)
    return digest.hex()


# --- one file -------------------------------------------------------------------------------------


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("width", [2, 3])
@pytest.mark.parametrize("weight", [1, -3])
def test_a_run_file_is_mapped_as_it_was_written(
    tmp_path: Path, weight: int, width: int, narrow: bool
) -> None:
    run, path = run_of(301, weight, narrow, width), tmp_path / "7.run"
    file = write_run_file(path, "id/runs/7.run", run, sync=True)
    assert [path.name for path in tmp_path.iterdir()] == ["7.run"]
    assert open_run_file(path, "id/runs/7.run", file.digest, verify=True) == file
    found = mapped(file)
    assert (found.rows.tolist(), found.weights.tolist()) == (run.rows.tolist(), run.weights.tolist())
    assert (found.largest, found.file, found.saved) == (abs(weight), file, file)
    assert found.narrow == narrow
    rows = 301 * width * (4 if narrow else 8)
    assert path.stat().st_size == HEADER + rows + (0 if weight == 1 else rows % 8 + 301 * 8)
    assert file.weights_at % 8 == 0


def test_the_header_is_as_documented(tmp_path: Path) -> None:
    path = tmp_path / "7.run"
    file = write_run_file(path, "id/runs/7.run", run_of(300, 5), sync=False)
    content = path.read_bytes()
    numbers = np.frombuffer(content[16:48], "<u8").tolist()
    assert content[:16] == b"dbsprun\0" + bytes([1, 0, 13, 0, 1, 0, 0, 0])
    assert numbers == [300, 2, HEADER + 300 * 16, 5]
    assert content[48:64] != bytes(16)
    assert content[48:64] == xxhash.xxh3_128(content[HEADER:]).digest()
    assert content[64:80].hex() == file.digest
    assert content[80:101] == bytes([2, 0, 0, 0, 8, 0, 0, 0]) + b"id/runs/7.run"
    assert not any(content[101:HEADER])
    narrow = tmp_path / "8.run"
    write_run_file(narrow, "id/runs/8.run", run_of(301, 5, narrow=True, width=3), sync=False)
    content = narrow.read_bytes()
    assert np.frombuffer(content[16:48], "<u8").tolist() == [301, 3, HEADER + 301 * 12 + 4, 5]
    assert content[:16] == b"dbsprun\0" + bytes([1, 0, 13, 0, 1, 0, 0, 0])
    assert content[80:88] == bytes([3, 0, 0, 0, 4, 0, 0, 0])
    assert content[48:64] == xxhash.xxh3_128(content[HEADER:]).digest()
    assert np.frombuffer(content[HEADER : HEADER + 301 * 12], "<i4").tolist() == list(range(903))


@pytest.mark.parametrize("at", [0, 9, 17, 40, 50, 70, 82, 90, 120, HEADER - 1])
def test_every_byte_of_the_header_is_verified_without_the_content(tmp_path: Path, at: int) -> None:
    path = tmp_path / "7.run"
    file = write_run_file(path, "id/runs/7.run", run_of(300), sync=False)
    changed(path, at, bytes([path.read_bytes()[at] ^ 4]))
    message = r"7\.run: (its header does not match its checksum|expected a run file of dbsp); .*unreadable\]"
    with pytest.raises(CheckpointError, match=message):
        open_run_file(path, "id/runs/7.run", file.digest, verify=False)


def test_damaged_content_is_found_unless_verification_is_off(tmp_path: Path) -> None:
    path = tmp_path / "7.run"
    file = write_run_file(path, "id/runs/7.run", run_of(300, 2), sync=False)
    for at in (HEADER, HEADER + 300 * 16 + 7, path.stat().st_size - 1):
        content = path.read_bytes()
        changed(path, at, bytes([content[at] ^ 1]))
        with pytest.raises(CheckpointError, match=r"7\.run: its content does not match its checksum; "):
            open_run_file(path, "id/runs/7.run", file.digest, verify=True)
        assert open_run_file(path, "id/runs/7.run", file.digest, verify=False) == file
        path.write_bytes(content)
    for size in (HEADER - 1, HEADER, path.stat().st_size - 8, path.stat().st_size + 1):
        content = path.read_bytes()
        path.write_bytes((content + b"x")[:size])
        with pytest.raises(CheckpointError, match=r"7\.run: expected "):
            open_run_file(path, "id/runs/7.run", file.digest, verify=False)
        path.write_bytes(content)


def test_a_run_file_of_another_place_or_time_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "7.run"
    file = write_run_file(path, "id/runs/7.run", run_of(300), sync=False)
    message = r"it is a file of another place \(id/runs/7\.run\), expected id/runs/8\.run; "
    with pytest.raises(CheckpointError, match=message):
        open_run_file(path, "id/runs/8.run", file.digest, verify=False)
    write_run_file(path, "id/runs/7.run", run_of(301), sync=False)
    with pytest.raises(CheckpointError, match=r"it is not the file that was written there last; "):
        open_run_file(path, "id/runs/7.run", file.digest, verify=False)
    with pytest.raises(CheckpointError, match=r"7\.run is not the file that was written there last; "):
        mapped(file)
    path.unlink()
    with pytest.raises(CheckpointError, match=r"7\.run: the file is missing; "):
        open_run_file(path, "id/runs/7.run", file.digest, verify=False)
    with pytest.raises(CheckpointError, match=r"7\.run: the file is missing; "):
        mapped(file)
    path.mkdir()
    with pytest.raises(CheckpointError, match=r"7\.run: .*Is a directory.*; "):
        open_run_file(path, "id/runs/7.run", file.digest, verify=False)


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        (
            8,
            2,
            r"7\.run is a run file of version 2, this version of dbsp expects 1; .*\[checkpoint-version\]",
        ),
        (84, 5, r"7\.run has 2 columns of 5 bytes, this version of dbsp expects 8 or 4 bytes; .*-version\]"),
        (84, 4, r"7\.run: expected 6,496 bytes, got 8,896; .*-unreadable\]"),
        (80, 3, r"7\.run: its content is not as expected \(ValueError: 2 columns, weights at 0\); .*unread"),
        (12, 255, r"7\.run: it is a file of another place \(.*\), expected id/runs/7\.run; .*-unreadable\]"),
        (24, 3, r"7\.run: its content is not as expected \(ValueError: 3 columns, weights at 0\); .*unread"),
    ],
)
def test_other_forms_are_refused_by_name(tmp_path: Path, at: int, value: int, message: str) -> None:
    path = tmp_path / "7.run"
    write_run_file(path, "id/runs/7.run", run_of(300), sync=False)
    digest = resealed(path, lambda content: content.__setitem__(at, value))
    with pytest.raises(CheckpointError, match=message):
        open_run_file(path, "id/runs/7.run", digest, verify=False)


def test_columns_of_different_widths_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "7.run"
    write_run_file(path, "id/runs/7.run", run_of(300), sync=False)

    def two_groups(content: bytearray) -> None:
        content[12] = 2
        groups = np.array([1, 8, 1, 4], "<u4").tobytes()
        content[80 : 96 + 13] = groups + b"id/runs/7.run"

    digest = resealed(path, two_groups)
    message = r"7\.run has 1 column of 4 bytes, this version of dbsp expects 8 bytes; .*-version\]"
    with pytest.raises(CheckpointError, match=message):
        open_run_file(path, "id/runs/7.run", digest, verify=False)


@pytest.mark.parametrize("narrow", [False, True])
def test_a_spilled_file_is_adopted_without_writing_its_rows(tmp_path: Path, narrow: bool) -> None:
    run = run_of(300_001, 2, narrow, 3)
    spilled = write_run(tmp_path / "1.spill", run)
    reader = map_run(spilled)
    number, path = spilled.path.stat().st_ino, tmp_path / "7.run"
    written: list[int] = []
    genuine = os.write

    def counted(descriptor: int, content: Any) -> int:
        written.append(len(content))
        return genuine(descriptor, content)

    with mock.patch.object(os, "write", counted):
        file = adopt_run_file(spilled, path, "id/runs/7.run", sync=True)
    assert sum(written) == HEADER
    assert (file.path, path.stat().st_ino, spilled.path.exists()) == (path, number, False)
    assert open_run_file(path, "id/runs/7.run", file.digest, verify=True) == file
    assert np.array_equal(reader.rows, run.rows)


def test_an_end_while_a_run_file_is_written_leaves_no_run_file(tmp_path: Path) -> None:
    with ends_after(10**9) as done:
        write_run_file(tmp_path / "whole", "id/runs/7.run", run_of(300, 2), sync=True)
    assert done() >= 7
    for end in range(done()):
        path = tmp_path / f"{end}.run"
        with pytest.raises(Ended), ends_after(end):
            write_run_file(path, "id/runs/7.run", run_of(300, 2), sync=True)
        if path.exists():  # it is then complete: the end came after the renaming
            (digest,) = {page[64:80].hex() for page in [path.read_bytes()]}
            open_run_file(path, "id/runs/7.run", digest, verify=True)
            assert end == done() - 1
        # The next process of the same number replaces what this one has left.
        file = write_run_file(path, "id/runs/7.run", run_of(300, 2), sync=True)
        assert open_run_file(path, "id/runs/7.run", file.digest, verify=True) == file
        assert not list(tmp_path.glob(f".{path.name}*"))


def test_a_full_disk_leaves_no_draft(tmp_path: Path) -> None:
    full = mock.patch.object(os, "write", side_effect=OSError(28, "No space left on device"))
    with full, pytest.raises(OSError, match="No space left"):
        write_run_file(tmp_path / "7.run", "id/runs/7.run", run_of(300), sync=False)
    assert not list(tmp_path.iterdir())


# --- checkpoints ----------------------------------------------------------------------------------


def test_opening_maps_large_runs(tmp_path: Path) -> None:
    closed(started(tmp_path, 2))
    run = reopened(tmp_path)
    assert rows_in(run) == expected(2 * ROWS)
    files = [kept.file for trace in run.scope.traces for kept in trace.runs]
    assert None not in files
    assert {file.path for file in files if file is not None} <= set(large_files(tmp_path))
    run = counting().start(checkpoint=Store(tmp_path, sync=False, snapshot_every=1))
    for tick in range(3, 6):  # mapped runs are read and merged as those in memory
        run.step({"a": rows_of((tick - 1) * ROWS, tick * ROWS)})
    run.step({"a": dict.fromkeys(rows_of(0, 10), -1)})
    assert rows_in(closed(run)) == {(x, 2): 1 for x in range(5, 5 * ROWS // 2)}
    assert rows_in(reopened(tmp_path)) == rows_in(run)


def test_a_checkpoint_of_64_bit_codes_continues_in_32_bits(tmp_path: Path) -> None:
    with mock.patch("dbsp.kernels.narrow_rows.LARGE", 10**9):
        closed(started(tmp_path, 2))
    run = counting().start(checkpoint=Store(tmp_path, sync=False))
    mapped_runs = [kept for trace in run.scope.traces for kept in trace.runs]
    assert mapped_runs and not any(kept.narrow for kept in mapped_runs)
    run.step({"a": rows_of(2 * ROWS, 3 * ROWS)})
    run.step({"a": {**dict.fromkeys(rows_of(0, 10), -1), (2**31, -(2**31)): 1}})
    run.compact()
    traces = [(kept.size, kept.narrow) for trace in run.scope.traces for kept in trace.runs]
    assert (3 * ROWS // 2 - 4, False) in traces  # the counts of 2^31 and the others
    run.step({"a": {(2**31, -(2**31)): -1}})
    run.step({"a": rows_of(3 * ROWS, 4 * ROWS)})
    run.compact()
    run.step({"a": rows_of(4 * ROWS, 5 * ROWS)})
    run.compact()
    assert all(kept.narrow for trace in run.scope.traces for kept in trace.runs)
    assert rows_in(closed(run)) == {(x, 2): 1 for x in range(5, 5 * ROWS // 2)}
    run = reopened(tmp_path)
    assert rows_in(run) == {(x, 2): 1 for x in range(5, 5 * ROWS // 2)}


@pytest.mark.parametrize("damage", ["flipped", "missing", "empty", "longer", "header", "foreign"])
def test_a_damaged_run_file_is_replaced_by_the_previous_snapshot(tmp_path: Path, damage: str) -> None:
    closed(started(tmp_path / "other", 2))
    closed(started(tmp_path / "it", 2))
    path = large_files(tmp_path / "it")[-1]
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "foreign":
        path.write_bytes((tmp_path / "other" / "runs" / path.name).read_bytes())
    elif damage in ("flipped", "header"):
        at = len(content) // 2 if damage == "flipped" else 20
        changed(path, at, bytes([content[at] ^ 1]))
    else:
        path.write_bytes(b"" if damage == "empty" else content + b"x")
    report = verify_folder(tmp_path / "it")
    assert [problem.startswith(f"cannot read {path}: ") for problem in report.problems] == [True]
    with pytest.warns(CheckpointWarning, match="the snapshot of tick 1 and the journal replace it") as warned:
        run = reopened(tmp_path / "it")
    assert str(warned[0].message).startswith(f"cannot read {path}: ")
    assert rows_in(run) == expected(2 * ROWS)
    run = counting().start(checkpoint=Store(tmp_path / "it", sync=False, snapshot_every=1))
    run.step({"a": rows_of(2 * ROWS, 3 * ROWS)})
    snapshot(run)
    closed(run)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert rows_in(reopened(tmp_path / "it")) == expected(3 * ROWS)


def test_without_verification_only_headers_are_read(tmp_path: Path) -> None:
    closed(started(tmp_path))
    path = large_files(tmp_path)[-1]
    at = path.stat().st_size - 16
    changed(path, at, bytes([path.read_bytes()[at] ^ 1]))
    read: list[Path] = []
    with mock.patch.object(run_files, "_content_digest", read.append):
        assert reopened(tmp_path, verify=False).tick == 1
    assert read == []
    changed(path, 20, b"x")
    with pytest.warns(CheckpointWarning, match=r"\.run: its header does not match its checksum; nothing"):
        assert rows_in(reopened(tmp_path, verify=False)) == expected(ROWS)


def test_a_snapshot_writes_what_has_changed(tmp_path: Path) -> None:
    """A change of 1 % of the rows writes less than 5 % of the bytes of the state."""
    run = counting().start(checkpoint=Store(tmp_path, sync=False, snapshot_every=10**9))
    rows = 200_000
    run.step({"a": rows_of(0, rows)})
    snapshot(run)
    state = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    assert state > rows * 2 * 4
    run.step(
        {"a": dict.fromkeys(rows_of(0, rows // 200), -1) | dict.fromkeys(rows_of(rows, rows + 1_000), 1)}
    )
    written: list[int] = []
    genuine = os.write

    def counted(descriptor: int, content: Any) -> int:
        written.append(genuine(descriptor, content))
        return written[-1]

    with mock.patch.object(os, "write", counted):
        snapshot(run)
    assert 0 < sum(written) < 0.05 * state
    assert rows_in(reopened_after(run, tmp_path)) == rows_in(run)


def reopened_after(run: Run, folder: Path) -> Run:
    closed(run)
    return reopened(folder)


def test_a_run_of_another_checkpoint_is_written_again(tmp_path: Path) -> None:
    """The runs of a mapped trace can come into a run with another folder, as a transplant does."""
    closed(started(tmp_path / "one"))
    run, source = counting().start(), reopened(tmp_path / "one")
    run.step({"a": rows_of(0, ROWS)})
    for ours, theirs in zip(run.scope.traces, source.scope.traces, strict=True):
        ours.runs = list(theirs.runs)
    store = Store(tmp_path / "two", sync=False)
    store.attach(counting().start(), "id")
    written = store._snapshots.write(store._capture(run), "id")
    assert any(path.parent == tmp_path / "two" / "runs" and path.exists() for path in written.new)
    store.close()


def test_a_run_that_was_spilled_into_the_folder_is_adopted(tmp_path: Path) -> None:
    run = started(tmp_path)
    run.step({"a": rows_of(ROWS, 2 * ROWS)})
    (tmp_path / "spill").mkdir()
    spilled = []
    for number, trace in enumerate(run.scope.traces):
        for place, kept in enumerate(trace.runs):
            if kept.size == ROWS and kept.saved is None:
                mapped_run = map_run(write_run(tmp_path / "spill" / f"{number}.run", kept))
                trace.runs[place] = mapped_run
                spilled.append(mapped_run)
    assert spilled
    full = mock.patch("dbsp.durable.manifest.write_atomically", side_effect=OSError(28, "No space left"))
    with full, pytest.raises(CheckpointError, match="No space left"):
        snapshot(run)
    assert {folder_of(kept) for kept in spilled} == {"spill"}
    snapshot(run)
    assert not list((tmp_path / "spill").iterdir())
    assert {folder_of(kept) for kept in spilled} == {"runs"}
    assert all(kept.file == kept.saved for kept in spilled)
    assert rows_in(reopened_after(run, tmp_path)) == expected(2 * ROWS)


@pytest.mark.parametrize("later", ["kept", "removed", "replaced"])
def test_the_memory_limit_uses_the_file_of_a_snapshot(tmp_path: Path, later: str) -> None:
    run = run_of(50_000, 2)
    path = tmp_path / "7.run"
    run.saved = write_run_file(path, "id/runs/7.run", run, sync=False)
    expected = run.rows.tolist()
    if later == "removed":
        path.unlink()
    elif later == "replaced":  # as when somebody began another checkpoint in the folder
        path.unlink()
        write_run_file(path, "other/runs/7.run", run_of(50_000, 3), sync=False)
    budget = MemoryBudget(300_000, SpillFolder(tmp_path / "spill"))
    trace = Trace(2, [], budget)
    trace.restore([run])
    budget.add(300_000)
    (kept,) = trace.runs
    assert kept.file is not None
    assert (kept.file.path == path) == (later == "kept")
    assert (kept.rows.tolist(), set(kept.weights.tolist())) == (expected, {2})


def test_a_file_removed_while_it_is_mapped(tmp_path: Path) -> None:
    closed(started(tmp_path))
    run = reopened(tmp_path)
    for path in large_files(tmp_path):
        path.unlink()
    assert rows_in(run) == expected(ROWS)
    run.step({"a": rows_of(ROWS, ROWS + 2)})
    assert rows_in(run) == expected(ROWS + 2)
    with pytest.warns(CheckpointWarning, match="the file is missing; nothing is lost"):
        assert rows_in(reopened(tmp_path)) == expected(ROWS)


def folder_of(run: SortedRun) -> str:
    assert run.file is not None
    assert run.file.path.exists()
    return run.file.path.parent.name


READER = """
import sys
from pathlib import Path
from dbsp.durable.run_files import mapped, open_run_file
path = Path(sys.argv[1])
run = mapped(open_run_file(path, sys.argv[2], sys.argv[3], verify=True))
print(run.rows.sum(), flush=True)
sys.stdin.readline()
print(run.rows.sum(), flush=True)
"""


def test_two_processes_map_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "7.run"
    file = write_run_file(path, "id/runs/7.run", run_of(300_000), sync=False)
    own = mapped(file)
    child = subprocess.Popen(
        [sys.executable, "-c", READER, str(path), "id/runs/7.run", file.digest],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert int(child.stdout.readline()) == own.rows.sum()
    path.unlink()
    out, _ = child.communicate("\n")
    assert int(out) == own.rows.sum()
    assert child.returncode == 0


# --- version 2 ------------------------------------------------------------------------------------


def as_version_2(folder: Path) -> None:
    """Write the folder as version 2 of the format has it: large runs are sealed frames."""
    for file in ("manifest.json", "manifest.previous.json"):
        document = json.loads((folder / file).read_text())
        assert document["version"] == VERSION
        digests = {} if document["snapshot"] is None else document["snapshot"]["digests"]
        for name in list(digests):
            if name.startswith("runs/"):
                place, path = f"{document['id']}/{name}", folder / name
                run = mapped(open_run_file(path, place, digests[name], verify=True))
                sealed = seal(place, frames(run.rows.shape[1], [run.rows, run.weights]))
                digests[name] = sealed.digest
                path.with_suffix(".old").write_bytes(b"".join(sealed.parts))
        del document["place"], document["checksum"]
        (folder / file).write_bytes(sealed_json("manifest", document | {"version": 2}, indent=1))
    for path in large_files(folder):
        if path.suffix == ".old":
            path.replace(path.with_suffix(".run"))


def test_a_checkpoint_of_version_2_is_read_and_continued(tmp_path: Path) -> None:
    closed(started(tmp_path, 2))
    as_version_2(tmp_path)
    assert {path.read_bytes()[:8] for path in large_files(tmp_path)} == {b"dbspseal"}
    assert verify_folder(tmp_path).problems == []
    assert "20,000 rows" in {fact.name: fact.text for fact in describe_folder(tmp_path)}["snapshot"]
    run = counting().start(checkpoint=Store(tmp_path, sync=False))
    assert rows_in(run) == expected(2 * ROWS)
    run.step({"a": rows_of(2 * ROWS, 3 * ROWS)})
    snapshot(run)
    snapshots = [
        json.loads((tmp_path / name).read_text()) for name in ("manifest.json", "manifest.previous.json")
    ]
    assert [document["version"] for document in snapshots] == [VERSION, VERSION]
    closed(run)
    newest = large_files(tmp_path)[-1]
    assert newest.read_bytes()[:8] == b"dbsprun\0"
    assert rows_in(reopened(tmp_path)) == expected(3 * ROWS)
    newest.unlink()  # the previous snapshot still has files of the earlier format
    with pytest.warns(CheckpointWarning, match="the snapshot of tick 2 and the journal replace it"):
        assert rows_in(reopened(tmp_path)) == expected(3 * ROWS)


def test_a_damaged_file_of_version_2(tmp_path: Path) -> None:
    closed(started(tmp_path, 2))
    as_version_2(tmp_path)
    path = large_files(tmp_path)[-1]
    for at in (3, 40, 5_000):
        content = path.read_bytes()
        changed(path, at, bytes([content[at] ^ 1]))
        with pytest.warns(
            CheckpointWarning, match=r"\.run: .*the snapshot of tick 1 and the journal replace"
        ):
            assert rows_in(reopened(tmp_path)) == expected(2 * ROWS)
        path.write_bytes(content)
