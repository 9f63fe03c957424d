"""`dbsp top`: the table of operators, at the end of the changes and while they arrive."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

import dbsp
from dbsp import ArgumentError
from dbsp.cli.operator_table import OperatorTable
from dbsp.cli.sort_by import SortBy
from tests.cli.support import REACH, Command, read_until

pytestmark = pytest.mark.usefixtures("compiled_kernels")

CHANGES = "+edge(3, 4)\ncommit\n-edge(1, 2)\ncommit\n"


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")


def lines_of(out: str, label: str) -> list[str]:
    return [line for line in out.splitlines() if line.strip().startswith(label)]


def test_after_a_script(folder: Path, run: Command) -> None:
    (folder / "changes.txt").write_text(CHANGES)
    done = run("top", "reach.dl", "-F", "facts", "--deltas", "changes.txt")
    assert (done.code, done.err) == (0, "")
    assert re.match(
        r"reach  3 ticks, \d+ rows stored, .*; latest tick .*, median .*, longest .* of 2\n", done.out
    )
    (line,) = lines_of(done.out, "Input edge")
    # In the latest tick one row, in all ticks four; the input stores none.
    assert re.search(r"reach\.dl:1:7 +1 +\d+ µs +4 +[\d.]+ .s +\d+% *$", line), line
    (line,) = lines_of(done.out, "Delay path")
    assert line.startswith("  Delay path"), "operators inside of the recursion are indented"


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_changes_on_standard_input(folder: Path, run: Command, mark: str) -> None:
    done = run("top", "reach.dl", "-n", "1", stdin=mark + CHANGES + "+edge(7)\ncommit\n+edge(8, 9)\ncommit\n")
    assert done.code == 1
    assert "<stdin>:5:" in done.err
    assert done.out.startswith("reach  3 ticks,"), "the wrong tick does not count"
    assert re.search(r"\nand \d+ more operators\n$", done.out)


def test_wrong_options(folder: Path, run: Command) -> None:
    assert run("top", "reach.dl", "--sort", "name").code == 2
    assert run("top", "reach.dl", "-n", "0").code == 2
    done = run("top", "reach.dl", "--deltas", "none.txt")
    assert (done.code, done.out) == (1, "")
    assert "none.txt" in done.err


def test_on_a_terminal(folder: Path) -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "160", "LINES": "30"}
    command = [sys.executable, "-m", "dbsp", "top", "reach.dl", "-F", "facts"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=theirs, stderr=theirs, env=environment
    ) as top:
        os.close(theirs)
        assert top.stdin is not None
        try:
            read_until(ours, "1 tick, ")
            top.stdin.write(b"+edge(3, 4)\ncommit\n")
            top.stdin.flush()
            read_until(ours, "2 ticks, ")
            top.stdin.close()
            read_until(ours, "\x1b[?1049l")  # leaves the screen of its own
            assert "Fixpoint path" in read_until(ours, "Delay path")
            assert top.wait(60) == 0
        finally:
            top.kill()
            os.close(ours)


def test_counts_of_the_latest_tick_and_of_all() -> None:
    run = dbsp.compile(REACH).start({"edge": [(1, 2), (2, 3)]}, observe=True)
    table = OperatorTable(run)
    loaded = {row.node: row for row in table.rows()}
    assert all((row.latest_rows, row.latest_seconds) == (row.rows, row.seconds) for row in loaded.values())
    (source,) = (row for row in loaded.values() if row.node.label == "Input edge")
    assert source.rows == 2
    for change in ({"edge": [(3, 4)]}, {}):
        before = {stats.node: (stats.rows_out, stats.seconds) for stats in run.stats()}
        table.ticked(run.step(change))
        for row in table.rows():
            rows, seconds = before[row.node]
            assert row.latest_rows == row.rows - rows
            assert row.latest_seconds == pytest.approx(row.seconds - seconds)
            assert (row.stored_rows, row.stored_bytes) == run.kept().get(row.node, (0, 0))


@pytest.mark.parametrize(("sort", "key"), [(SortBy.ROWS, "rows"), (SortBy.MEMORY, "stored_bytes")])
def test_order(sort: SortBy, key: str) -> None:
    run = dbsp.compile(REACH).start({"edge": [(1, 2), (2, 3), (3, 4)]}, observe=True)
    found = [getattr(row, key) for row in OperatorTable(run, sort).rows()]
    assert found == sorted(found, reverse=True)
    assert found[0] > found[-1]


def test_statistics_from_the_first_tick_on() -> None:
    program = dbsp.compile(REACH)
    run = program.start({"edge": [(1, 2)]}, observe=True)
    assert sum(stats.rows_out for stats in run.stats() if stats.node.label == "Input edge") == 1
    assert program.start({"edge": [(1, 2)]}).stats() == []
    with pytest.raises(ArgumentError, match="observe= needs a run of one process; stats"):
        program.start(shards=2, observe=True)  # type: ignore[call-overload]
