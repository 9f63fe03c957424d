"""`--negation`: the outputs of undefined rows in files, in printed sizes and in live changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import Command

pytestmark = pytest.mark.usefixtures("compiled_kernels")

GAME = """\
.decl move(x: number, y: number)
.input move
.decl win(x: number)
.output win
.printsize win
win(x) :- move(x, y), !win(y).
"""


@pytest.fixture
def game(folder: Path) -> Path:
    (folder / "game.dl").write_text(GAME)
    (folder / "move.facts").write_text("1\t2\n2\t1\n2\t3\n3\t4\n")
    return folder


def test_files_and_sizes(game: Path, run: Command) -> None:
    done = run("run", "game.dl", "--negation=well-founded", "-D", "out")
    assert (done.code, done.out, done.err) == (0, "win\t1\nwin.undefined\t2\n", "")
    assert {path.name: path.read_text() for path in (game / "out").iterdir()} == {
        "win.csv": "3\n",
        "win.undefined.csv": "1\n2\n",
    }


def test_live_changes_and_proofs(game: Path, run: Command) -> None:
    option = ("--negation", "well-founded")
    done = run("live", "game.dl", "-F", ".", *option, stdin="-move(3, 4)\ncommit\n")
    assert done.out.splitlines()[:4] == ["+win(2)", "-win(3)", "-win.undefined(1)", "-win.undefined(2)"]
    proof = run("why", "game.dl", "win.undefined(1)", "-F", ".", *option).out
    assert proof.splitlines()[2] == "├─ win.possible(1)"
    for command in ("explain", "graph", "check"):
        assert run(command, "game.dl", *option).code == 0
        assert "not-stratifiable" in run(command, "game.dl").err
    wrong = run("run", "game.dl", "--negation=stable")
    assert wrong.code == 2
    assert "'stratified', 'well-founded'" in " ".join(wrong.err.replace("│", " ").split())
