"""The sessions at the prompt of `dbsp live` that the documentation shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dbsp.cli import program_files
from dbsp.cli.commands import ConsoleCommands
from dbsp.cli.options import Compilation
from dbsp.cli.prompt import LiveConsole
from tests.quick_start import FENCE, Example, Session, examples

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "how-to" / "explore-live.md").read_text(
    encoding="utf-8"
)
SESSIONS = [match["body"] for match in FENCE.finditer(PAGE) if match["info"] == "console"]

_COMMAND = re.compile(r"\$ dbsp live (\S+) -F (\S+)")
_PROMPT = re.compile(r"((?:\d+ pending )?dbsp> |  \.\.\. )(.*)")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, with the files that the page makes."""
    monkeypatch.chdir(tmp_path)
    files: Example = next(examples(PAGE))
    with Session(tmp_path) as session:
        assert session.run(files).succeeded
    return tmp_path


def replayed(shown: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Return a session with the prompts and outputs that its lines give now."""
    first, _, *lines = shown.splitlines()
    command = _COMMAND.fullmatch(first)
    assert command, first
    program = program_files.load_program(Path(command[1]), Compilation())
    console = LiveConsole(
        ConsoleCommands(program, program_files.start(program, Path(command[2]), 100_000), timed=False)
    )
    text = f"{first}\n{console.greeting}\n"
    for line in lines:
        typed = _PROMPT.fullmatch(line)
        if typed:
            text += f"{console.prompt}{typed[2]}\n"
            console.handle(typed[2])
            text += capsys.readouterr().out
    return text


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("shown", SESSIONS)
def test_a_session_runs_as_shown(shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert replayed(shown, capsys) == re.sub(r", [0-9.]+ ms$", "", shown, flags=re.MULTILINE)


def test_the_page_has_sessions() -> None:
    assert len(SESSIONS) == 4
