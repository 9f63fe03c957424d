"""`dbsp checkpoint verify` and `dbsp checkpoint show`."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import dbsp
from dbsp.durable import DeltaLog, Inbox, Store
from tests.cli.support import REACH, Command

pytestmark = pytest.mark.usefixtures("compiled_kernels")


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A folder with a checkpoint, a delta log and an inbox."""
    (tmp_path / "reach.dl").write_text(REACH)
    program = dbsp.compile(tmp_path / "reach.dl")
    run = program.start(checkpoint=Store(tmp_path / "run", sync=False))
    log, inbox = DeltaLog(tmp_path / "log", sync=False), Inbox(tmp_path / "in", sync=False)
    assert isinstance(run.log, Store)
    for tick in range(1, 5):
        result = run.step({"edge": [(tick, tick + 1), (tick, tick + 9)]}, label={"batch": tick})
        log.append(tick, result, label=tick)
        inbox.put("edge", pa.table({"x": [tick], "y": [0]}), tick)
        if tick in (1, 3):
            run.log.snapshot()
    run.log.close()
    return tmp_path


def test_verify_names_every_damaged_file(run: Command, made: Path) -> None:
    for name, kind in (("run", "checkpoint"), ("log", "delta log"), ("in", "inbox")):
        done = run("checkpoint", "verify", str(made / name))
        assert (done.code, done.err) == (0, "")
        assert done.out.startswith(f"{made / name}: {kind}, ") and done.out.endswith(" files, no problems\n")
    damaged = [made / "run" / "small" / "1.runs", made / "run" / "memory" / "3.json"]
    damaged += [made / "run" / "journal" / "4.ticks"]
    for path in damaged:
        path.write_bytes(path.read_bytes()[:-1])
    (made / "run" / "interned").rmdir()  # is empty, and not needed
    done = run("checkpoint", "verify", str(made / "run"))
    assert done.code == 1
    assert [line.partition(": ")[0] for line in done.out.splitlines()] == [
        f"cannot read {path}" for path in (damaged[1], damaged[0], damaged[2])
    ]
    for folder, pattern in (("log", "ticks/*2/path.parquet"), ("in", "staged/edge/*.parquet")):
        (path, *_) = sorted((made / folder).glob(pattern))
        path.unlink()
        done = run("checkpoint", "verify", str(made / folder))
        assert (done.code, done.out.startswith(f"cannot read {path}: the file is missing; ")) == (1, True)


def test_show(run: Command, made: Path) -> None:
    def shown(name: str) -> dict[str, str]:
        done = run("checkpoint", "show", str(made / name))
        assert (done.code, done.err) == (0, "")
        return dict(line.strip().split("  ", 1) for line in done.out.splitlines())

    found = {name: text.strip() for name, text in shown("run").items()}
    sizes = {name: found.pop(name) for name in ("identity", "snapshot", "previous snapshot", "journal")}
    assert found == {
        "kind": "checkpoint",
        "format version": "3",
        "program": "reach",
        "tick": "4",
        "label": '{"batch": 4}',
        "changes of edge": "2 rows",
        "interned values": "0",
        "pickled values": "none",
    }
    assert sizes["snapshot"].startswith("tick 3: ") and " rows, 3 files, " in sizes["snapshot"]
    assert sizes["previous snapshot"].startswith("tick 1: ")
    assert sizes["journal"].startswith("ticks 4 to 4 after the snapshot, ")
    found = {name: text.strip() for name, text in shown("log").items()}
    assert found["tick"] == found["label"] == found["recorded ticks"] == "4"
    assert found["path(x: int, y: int)"].startswith("20 rows of deltas, ")
    found = {name: text.strip() for name, text in shown("in").items()}
    assert found["writer 'edge'"] == "nothing taken; 4 batches waiting, 4 rows"


def test_other_folders(run: Command, tmp_path: Path) -> None:
    for command in ("verify", "show"):
        done = run("checkpoint", command, str(tmp_path / "nothing"))
        assert done.code == 1
        assert f"expected a checkpoint, a delta log or an inbox in {tmp_path / 'nothing'}, got no" in done.err
        done = run("checkpoint", command, str(tmp_path))
        assert "got other files [checkpoint-unreadable]" in done.err


def test_show_of_a_damaged_folder(run: Command, made: Path) -> None:
    for name, header in (("run", "manifest.json"), ("log", "log.json"), ("in", "inbox.json")):
        (made / name / header).write_text("{")
        done = run("checkpoint", "show", str(made / name))
        assert (done.code, done.out) == (1, "")
        assert f"cannot read {made / name / header}: " in done.err


@pytest.mark.parametrize("command", ["verify", "show"])
def test_help(run: Command, command: str) -> None:
    done = run("checkpoint", command, "--help")
    assert done.code == 0
    assert f"dbsp checkpoint {command} state" in done.out
