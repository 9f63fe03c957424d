"""The inbox: every batch is applied once, wherever its writer or the run that takes it ends."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbsp
from dbsp import CheckpointError, InputError, Run, SchemaError, TickResult
from dbsp.durable import DeltaLog, Inbox, Store
from dbsp.durable.deliveries import Deliveries, StagedDelivery, deliveries
from tests.crashes import Ended, ends_after
from tests.profiles import examples
from tests.reference import Z, add
from tests.strategies import deltas, small

PATHS = dbsp.compile("""
    .decl edge(x: number, y: number)
    .decl mark(x: number)
    .input edge
    .input mark
    .decl path(x: number, y: number)
    .output path
    path(x, y) :- edge(x, y), mark(x).
    path(x, z) :- path(x, y), edge(y, z).
""")


def circuit() -> dbsp.Circuit:
    bags = dbsp.Circuit("bags")
    a, b = bags.input("a", x=int, y=int), bags.input("b", x=int, y=int)
    bags.output("both", a + b.map(x=dbsp.col("y"), y=dbsp.col("x")))
    return bags


def table(delta: Z) -> pa.Table:
    columns = list(zip(*delta, strict=True)) or [(), ()]
    arrays = {name: pa.array(column, pa.int64()) for name, column in zip("xy", columns, strict=True)}
    return pa.table(arrays | {"w": pa.array(list(delta.values()), pa.int64())})


Batches = list[tuple[str, Z]]
batches = st.lists(st.tuples(st.sampled_from("ab"), deltas(st.tuples(small, small))), max_size=6)


def numbered(sent: Batches) -> list[tuple[str, int, Z]]:
    count = {"a": itertools.count(), "b": itertools.count(40)}
    return [(name, next(count[name]), delta) for name, delta in sent]


def expected(sent: Batches) -> Z:
    return add(*(d if name == "a" else {(y, x): w for (x, y), w in d.items()} for name, d in sent))


def put(folder: str | Path, name: str, batch: int, delta: Z) -> bool:
    return Inbox(folder, sync=False).put(name, table(delta), batch, weight_column="w")


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


LEFT = ["batches/a/latest.json", "batches/b/latest.json", "inbox.json", "taken.json"]
"""The files of an inbox whose batches are all taken."""


@pytest.mark.slow
@given(batches, st.lists(st.booleans(), min_size=6, max_size=6))
def test_without_a_checkpoint(sent: Batches, drained: list[bool]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run, inbox = circuit().start(), Inbox(folder, sync=False)
        for (name, batch, delta), now in zip(numbered(sent), drained, strict=False):
            assert put(folder, name, batch, delta)
            assert not put(folder, name, batch, delta)
            if now:
                inbox.drain(run)
                assert inbox.waiting(run) == []
        told: list[TickResult] = []
        waiting = [delivery.rows for delivery in inbox.waiting(run)]
        assert inbox.drain(run, told.append) == len(told) == sum(rows > 0 for rows in waiting)
        assert run.tick == sum(bool(delta) for _, delta in sent)
        assert run.view("both").to_dict() == expected(sent)
        again = circuit().start()
        Inbox(folder, sync=False).drain(again)  # another run takes all of it as well
        assert again.view("both").to_dict() == expected(sent)


@pytest.mark.crash
@settings(max_examples=examples(25))
@given(batches, st.lists(st.integers(0, 60), max_size=8), st.data())
def test_processes_that_end_between_two_file_operations(
    sent: Batches, ends: list[int], data: st.DataObject
) -> None:
    """Writers and the run end at random; each begins again, knowing only what its files say."""
    with tempfile.TemporaryDirectory() as folder:
        inbox = f"{folder}/inbox"
        to_send = numbered(sent)
        limits = iter(ends)

        def start() -> Run:
            run = circuit().start(checkpoint=Store(f"{folder}/run", snapshot_every=2, sync=False))
            DeltaLog(f"{folder}/log", sync=False).catch_up(run)
            return run

        def drain(run: Run, limit: int) -> None:
            log = DeltaLog(f"{folder}/log", sync=False)
            try:
                with ends_after(limit):
                    Inbox(inbox, sync=False).drain(run, lambda result: log.append(result.number, result))
            except Ended:
                pass

        while to_send:
            name, batch, delta = to_send[0]
            try:
                with ends_after(next(limits, 10**9)):
                    put(inbox, name, batch, delta)
                if data.draw(st.booleans()):  # else it does not get to know that it has succeeded
                    to_send.pop(0)
            except Ended:
                pass
            if data.draw(st.booleans()):
                run = start()
                drain(run, next(limits, 10**9))
                assert isinstance(run.log, Store)
                run.log.close()
        run = start()
        drain(run, 10**9)
        assert run.view("both").to_dict() == expected(sent)
        assert run.tick == sum(bool(delta) for _, delta in sent)
        if run.tick:
            log = DeltaLog(f"{folder}/log")
            assert log.ticks() == list(range(1, run.tick + 1))
            assert log.view("both").to_dict() == expected(sent)
        assert isinstance(run.log, Store)
        run.log.close()


def test_every_end_of_a_drain(tmp_path: Path) -> None:
    """A drain may end between any two file operations: the batch is applied once."""

    def prepared(folder: Path) -> Run:
        put(folder / "inbox", "a", 0, {(1, 2): 1})
        put(folder / "inbox", "b", 0, {(3, 4): 2})
        return circuit().start(checkpoint=folder / "run")

    run = prepared(tmp_path / "whole")
    with ends_after(10**9) as done:
        Inbox(tmp_path / "whole" / "inbox").drain(run)
    assert files(tmp_path / "whole" / "inbox") == LEFT
    for end in range(done()):
        folder = tmp_path / str(end)
        run = prepared(folder)
        with pytest.raises(Ended), ends_after(end):
            Inbox(folder / "inbox").drain(run)
        assert isinstance(run.log, Store)
        run.log.close()
        run = circuit().start(checkpoint=folder / "run")
        Inbox(folder / "inbox").drain(run)
        assert run.view("both").to_dict() == {(1, 2): 1, (4, 3): 2}
        assert run.tick == 2
        # What the writers left is gone once they write again.
        for name in "ab":
            assert put(folder / "inbox", name, 1, {})
        Inbox(folder / "inbox").drain(run)
        assert files(folder / "inbox") == LEFT
        run.log.close()


def test_unpublished_files_are_removed(tmp_path: Path) -> None:
    side = Deliveries(tmp_path, "w", "a", weight_column="w", sync=False)
    left = side.stage(table({(9, 9): 1}).to_batches())
    discarded = side.stage(table({(9, 9): 1}).to_batches())
    side.discard([discarded, StagedDelivery("", 0)])
    assert [path.name for path in tmp_path.glob("staged/w/*")] == [left.file]
    parts = [side.stage(table({(n, n): 1}).to_batches()) for n in range(3)]
    assert side.stage([]) == StagedDelivery("", 0)
    assert side.publish(parts, 5)
    assert {path.name for path in tmp_path.glob("staged/w/*")} == {part.file for part in parts}
    (delivery,) = Inbox(tmp_path).waiting(circuit().start())
    assert (delivery.writer, delivery.batch, delivery.input, delivery.rows) == ("w", 5, "a", 3)


def test_steps_of_others_in_between(tmp_path: Path) -> None:
    """A label of somebody else's does not make the run forget what it has taken."""
    run = PATHS.start(checkpoint=tmp_path / "run")
    inbox = Inbox(tmp_path / "inbox")
    edges = pa.table({"x": [1, 2], "y": [2, 3]})
    inbox.put("edge", edges, 0)
    assert inbox.drain(run) == 1
    run.step({"mark": [(1,)]}, label="mine")
    assert run.log is not None
    run.log.close()
    run = PATHS.start(checkpoint=tmp_path / "run")
    assert not Inbox(tmp_path / "inbox").put("edge", edges, 0)
    assert Inbox(tmp_path / "inbox").drain(run) == 0
    assert run.view("path").rows() == [(1, 2), (1, 3)]
    assert run.log is not None
    run.log.close()


def test_the_last_change_of_a_row_or_key_decides(tmp_path: Path) -> None:
    """On inputs with set semantics or with a key; columns are found by their names."""
    kinds = dbsp.Circuit("kinds")
    kinds.output("set", kinds.input("s", x=int, y=int, kind="set"))
    kinds.output("last", kinds.input("k", x=int, y=int, key="x"))
    run, inbox = kinds.start(), Inbox(tmp_path)
    changes = pa.table({"w": [1, -1, 1, 1, -1], "y": [2, 2, 3, 4, 9], "x": [1, 1, 5, 5, 1]})
    inbox.put("s", changes, 0, weight_column="w")
    inbox.put("k", changes, 0, weight_column="w")
    assert inbox.drain(run) == 2
    assert run.view("set").rows() == [(5, 3), (5, 4)]
    assert run.view("last").rows() == [(5, 4)]


def test_refused_batches(tmp_path: Path) -> None:
    folder = tmp_path / "inbox"
    inbox = Inbox(folder)
    edges = pa.table({"x": [1, 2], "y": [2, 3]})
    assert inbox.put("edge", edges, 3)
    assert not inbox.put("edge", edges, 3)
    with pytest.raises(CheckpointError, match=r"already has batch 3 \(2 rows\) of writer 'edge', so batch 0"):
        inbox.put("edge", edges, 0)
    with pytest.raises(
        CheckpointError, match=r"so batch 3 \(1 rows\) belongs to another query.* \[writer-conflict\]"
    ):
        inbox.put("edge", edges.slice(1), 3)
    side = Deliveries(folder, "edge", "edge")
    staged = side.stage(edges.to_batches())
    side.discard([staged])
    with pytest.raises(
        CheckpointError,
        match=r"was removed before it was published: two queries write as 'edge'.* \[writer-conflict\]",
    ):
        side.publish([staged], 4)

    run = PATHS.start(checkpoint=tmp_path / "run")
    inbox.put("edge", pa.table({"x": [1], "z": [2]}), 4)
    with pytest.raises(
        SchemaError,
        match=r"batch 4 of writer 'edge', relation 'edge': expected the columns x, y, got x, z \[schema-mis",
    ):
        inbox.drain(run)
    other = Inbox(tmp_path / "other inbox")
    other.put("edge", pa.table({"x": ["1"], "y": [2]}), 4)
    with pytest.raises(InputError, match=r"batch 4 of writer 'edge', relation 'edge': column 'x'"):
        other.drain(PATHS.start())
    for wrong in ([1, None], ["1", "2"]):
        other = Inbox(tmp_path / f"weights {wrong[0]!r}")
        other.put("edge", edges.append_column("w", pa.array(wrong)), 0, weight_column="w")
        with pytest.raises(
            InputError,
            match="expected integers without nulls in the weight column 'w'",
        ):
            other.drain(PATHS.start())
    assert run.tick == 1
    assert [delivery.batch for delivery in inbox.waiting(run)] == [4]
    with pytest.raises(InputError, match="unknown input 'edg'; did you mean 'edge'"):
        Inbox(tmp_path / "typo").put("edg", edges, 0)
        Inbox(tmp_path / "typo").drain(PATHS.start())
    (file,) = next(d for d in inbox.waiting(run) if d.writer == "edge").files
    file.path.write_bytes(b"PAR1")
    damaged = rf"relation 'edge': cannot read {file.path}: expected [0-9]+ bytes, got 4; "
    with pytest.raises(CheckpointError, match=damaged):
        inbox.drain(run)
    assert run.log is not None
    run.log.close()
    with pytest.raises(
        CheckpointError,
        match=r"took batches .* up to its tick 1; .* of the other run.* \[checkpoint-other-program\]",
    ):
        inbox.drain(PATHS.start(checkpoint=tmp_path / "other"))
    manifest = next(path for path in sorted((folder / "batches").rglob("*")) if path.stem.isdigit())
    manifest.write_text("{")
    with pytest.raises(CheckpointError) as caught:
        deliveries(folder)
    assert str(caught.value) == (
        f"cannot read {manifest}: Expecting property name enclosed in double quotes: line 1 column 2 (char "
        "1); restore the folder from a copy, or start in an empty folder [checkpoint-unreadable]"
    )
    (folder / "inbox.json").write_text("{}")
    with pytest.raises(
        CheckpointError, match=r"expected the header of an inbox in .* \[checkpoint-unreadable\]"
    ):
        Inbox(folder)


def test_reading_names_needs_no_kernels() -> None:
    import subprocess
    import sys

    code = "import sys, dbsp.durable.deliveries; print('numba' in sys.modules, 'pyarrow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"
