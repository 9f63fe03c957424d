"""`dbsp checkpoint verify`, `show`, `compact` and `as-of`."""

from __future__ import annotations

import json
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest

import dbsp
from dbsp.cli.console import slow_work
from dbsp.durable import DeltaLog, Inbox, Store
from dbsp.durable.moments import shown_time
from tests.cli.support import REACH, Command

pytestmark = pytest.mark.usefixtures("compiled_kernels")


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A folder with a checkpoint, a delta log and an inbox."""
    (tmp_path / "reach.dl").write_text(REACH)
    program = dbsp.compile(tmp_path / "reach.dl")
    run = program.start(checkpoint=Store(tmp_path / "run", sync=False, keep=9))
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

    started = json.loads((made / "run" / "history" / "0.json").read_text())["time"]
    found = {name: text.strip() for name, text in shown("run").items()}
    others = ("identity", "time", "snapshot", "previous snapshot", "history", "traces", "journal")
    sizes = {name: found.pop(name) for name in others}
    assert found == {
        "kind": "checkpoint",
        "format version": "3",
        "program": "reach",
        "tick": "4",
        "label": '{"batch": 4}',
        "changes of edge": "2 rows",
        "snapshot of tick 0": f"{shown_time(started)}, 0 files of its own, 0 bytes",
        "interned values": "0",
        "pickled values": "none",
    }
    assert sizes["snapshot"].startswith("tick 3: ") and " rows, 3 files, " in sizes["snapshot"]
    assert sizes["previous snapshot"].startswith("tick 1: ")
    assert sizes["history"].startswith("ticks 0 to 4 since 20") and sizes["history"].endswith(
        "; keeps 9 ticks"
    )
    assert sizes["traces"].startswith("3 with ")
    assert sizes["journal"].startswith("ticks 4 to 4 after the snapshot, 4 ticks in all, ")
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


def test_show_as_json(run: Command, made: Path) -> None:
    found = json.loads(run("checkpoint", "show", str(made / "run"), "--json").out)
    assert (found["kind"], found["tick"], found["label"]) == ("checkpoint", 4, {"batch": 4})
    assert found["journal"]["ticks"] == 4
    assert found["journal"]["parts"] == {"changes of edge": 2}
    journal = sum(path.stat().st_size for path in (made / "run" / "journal").glob("*.ticks"))
    assert found["journal"]["bytes"] == journal
    assert (found["history"]["keep"], found["history"]["first_tick"]) == (9, 0)
    assert found["history"]["parts"]["snapshot of tick 0"]["files"] == 0
    assert found["snapshot"]["files"] == 3
    found = json.loads(run("checkpoint", "show", str(made / "log"), "--json").out)
    assert found["stored_views"]["parts"]["path(x: int, y: int)"]["rows"] == 20
    found = json.loads(run("checkpoint", "show", str(made / "in"), "--json").out)
    assert found["taken_up_to_tick"]["parts"]["writer 'edge'"]["waiting"] == 4


def as_of(run: Command, made: Path, *arguments: str) -> list[str]:
    done = run("checkpoint", "as-of", str(made / "run"), str(made / "reach.dl"), *arguments)
    assert (done.code, done.err) == (0, "")
    return done.out.splitlines()


def test_as_of_prints_the_results(run: Command, made: Path) -> None:
    table = ["---------------", "path", "x\ty", "===============", "1\t2", "1\t10", "==============="]
    assert as_of(run, made, "1") == table
    time = dbsp.compile(made / "reach.dl").open(made / "run", as_of=1).time
    assert as_of(run, made, str(time)) == table
    assert len(as_of(run, made)) == 5 + 20
    assert as_of(run, made, "2", "--relation", "edge")[4:-1] == ["1\t2", "1\t10", "2\t3", "2\t11"]
    assert as_of(run, made, "2", "-D", str(made / "out")) == []
    written = (made / "out" / "path.csv").read_text().splitlines()
    assert written == ["1\t2", "1\t3", "1\t10", "1\t11", "2\t3", "2\t11"]


def test_as_of_prints_changes(run: Command, made: Path) -> None:
    second = ["+path(1, 3)", "+path(1, 11)", "+path(2, 3)", "+path(2, 11)"]
    assert as_of(run, made, "2", "--since", "1") == second
    assert as_of(run, made, "2", "--since", "1", "--each", "--relation", "path") == [
        *second,
        "commit  // tick 2",
    ]
    lines = as_of(run, made, "--since", "0", "--each")
    assert [line for line in lines if line.startswith("c")] == [f"commit  // tick {t}" for t in range(1, 5)]
    assert sorted(line for line in lines if line.startswith("+")) == sorted(as_of(run, made, "--since", "0"))


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            ("soon",),
            2,
            "T: expected a tick or a time such as '2026-01-31 18:00', got 'soon' [",
        ),
        (("1", "--since", "-"), 2, "--since: expected a tick or a time such as"),
        (("1", "--each"), 2, "expected --since with --each [invalid-option]"),
        (("1", "--since", "0", "-D", "x"), 2, "expected --output-dir without --since and --relation"),
        (("5",), 1, "can be opened as of tick 0"),
        (("1", "--relation", "edgy"), 1, "unknown output 'edgy'"),
        (("1", "--since", "0", "--each", "--relation", "edge"), 1, "'edge' is an input, not an output"),
        (("1", "--since", "3"), 1, "expected since <= until, got tick 3 and tick 1"),
    ],
)
def test_errors_of_as_of(
    run: Command, made: Path, arguments: tuple[str, ...], code: int, message: str
) -> None:
    done = run("checkpoint", "as-of", str(made / "run"), str(made / "reach.dl"), *arguments)
    assert (done.code, done.out) == (code, "")
    assert message in " ".join(done.err.replace("│", " ").split())


def test_compact_writes_the_compacted_state(run: Command, made: Path) -> None:
    program = dbsp.compile(made / "reach.dl")
    started = program.start(checkpoint=Store(made / "run", sync=False))
    started.step({"edge": {(1, 2): -1, (1, 10): -1}})
    started.snapshot()  # so that the compacted state is of the same tick
    seen = started.view("path").rows()
    rows = started.state_rows
    assert started.log is not None
    started.log.close()
    done = run("checkpoint", "compact", str(made / "run"), str(made / "reach.dl"))
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"{made / 'run'}: tick 5, ")
    found = json.loads(run("checkpoint", "show", str(made / "run"), "--json").out)
    assert found["snapshot"]["tick"] == found["tick"] == 5
    assert found["snapshot"]["rows"] < found["previous_snapshot"]["rows"]
    assert found["traces"]["runs"] <= found["traces"]["traces"]
    assert f"{rows - found['snapshot']['rows']} rows freed" in done.out
    assert f"{found['snapshot']['rows']} rows left" in done.out
    again = run("checkpoint", "compact", str(made / "run"), str(made / "reach.dl"))
    assert "0 rows freed, 0 bytes" in again.out
    assert run("checkpoint", "verify", str(made / "run")).code == 0
    for tick, number in ((5, len(seen)), (4, 20)):
        assert len(program.open(made / "run", as_of=tick).view("path")) == number
    started = program.start(checkpoint=Store(made / "run", sync=False))
    assert started.view("path").rows() == seen
    started.step({"edge": [(1, 2)]})
    started.snapshot()
    started.compact()
    assert started.log is not None
    started.log.close()
    assert run("checkpoint", "verify", str(made / "run")).code == 0
    assert program.open(made / "run", as_of=5).view("path").rows() == seen


def test_compact_needs_a_checkpoint_with_ticks(run: Command, made: Path) -> None:
    folder = made / "new"
    done = run("checkpoint", "compact", str(folder), str(made / "reach.dl"))
    assert (done.code, folder.exists()) == (1, False)
    assert f"expected a checkpoint in {folder}, got no folder [checkpoint-unreadable]" in done.err
    (made / "facts.dl").write_text(REACH + "edge(1, 2).")
    program = dbsp.compile(made / "facts.dl")
    store = Store(folder, sync=False)  # as if the process had ended before the first tick
    store.resume(program.identity, lambda _: program.circuit_for(program.plans).start())
    store.close()
    done = run("checkpoint", "compact", str(folder), str(made / "facts.dl"))
    assert (done.code, done.out) == (0, f"{folder}: no ticks, nothing to compact\n")
    assert program.open(folder).tick == 0


def test_as_of_needs_permission_for_pickled_values(run: Command, tmp_path: Path) -> None:
    (tmp_path / "reach.dl").write_text(REACH)
    store = Store(tmp_path / "run", sync=False, allow_pickle=True)
    started = dbsp.compile(tmp_path / "reach.dl").start({"edge": [(1, 2)]}, checkpoint=store)
    assert started.log is not None
    started.log.close()
    done = run("checkpoint", "as-of", str(tmp_path / "run"), str(tmp_path / "reach.dl"))
    assert done.code == 1
    assert "open it with --allow-pickle [checkpoint-pickle]" in done.err
    assert as_of(run, tmp_path, "--allow-pickle")[4:-1] == ["1\t2"]
    live = ["live", str(tmp_path / "reach.dl"), "--checkpoint", str(tmp_path / "run")]
    assert "open it with --allow-pickle [checkpoint-pickle]" in run(*live).err
    assert run(*live, "--allow-pickle").code == 0


def test_advice_is_about_commands(run: Command, made: Path) -> None:
    (made / "other.dl").write_text(".decl other(x: number)\n.input other\n.output other\n")
    folder = made / "run"
    for command in ("compact", "as-of"):
        done = run("checkpoint", command, str(folder), str(made / "other.dl"))
        advice = "give the program of the checkpoint, or continue with this one: dbsp live PROGRAM --che"
        assert advice in done.err and "update=True" not in done.err
    sharded = dbsp.compile(made / "reach.dl").start(shards=1, checkpoint=made / "sharded")
    sharded.close()
    for command in ("compact", "as-of"):
        done = run("checkpoint", command, str(made / "sharded"), str(made / "reach.dl"))
        assert "commands open runs without shards only; open it in Python with shards=1" in done.err
    outside = run("checkpoint", "as-of", str(folder), str(made / "reach.dl"), "2000-01-01")
    assert "; dbsp live --checkpoint FOLDER --keep N|TIME keeps more of the past from now on" in outside.err


def test_progress_of_long_work_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    times = mock.Mock(monotonic=iter([0.0, 0.5, 2.0, 2.1, 3.0]).__next__)
    terminal = mock.patch("sys.stderr.isatty", return_value=True)
    with mock.patch("dbsp.cli.console.time", times), terminal, slow_work("repeating") as show:
        for tick in range(4):
            show(f"tick {tick}")
    assert capsys.readouterr().err == "\r\x1b[Krepeating: tick 1\r\x1b[Krepeating: tick 3\r\x1b[K"
    with slow_work("repeating") as show:
        show("tick 1")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("command", ["verify", "show", "compact", "as-of"])
def test_help(run: Command, command: str) -> None:
    done = run("checkpoint", command, "--help")
    assert done.code == 0
    assert f"dbsp checkpoint {command} state" in done.out
