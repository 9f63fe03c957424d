"""The examples run by themselves and print what their comments promise."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
NUMBERED = sorted((ROOT / "examples").glob("[0-9][0-9]_*.py"))
ARROW = "# -> "


@pytest.mark.parametrize("example", NUMBERED, ids=lambda path: path.stem)
def test_a_numbered_example_prints_what_its_comments_promise(
    example: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = example.read_text(encoding="utf-8").splitlines()
    promised = [line.removeprefix(ARROW) for line in lines if line.startswith(ARROW)]
    assert promised
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out.splitlines() == promised


def test_there_are_numbered_examples() -> None:
    numbers = [int(example.name[:2]) for example in NUMBERED]
    assert numbers == list(range(1, len(numbers) + 1))
    assert numbers


def test_the_demo_agrees_with_recomputation_on_a_part_of_the_library() -> None:
    """As the user starts it, in a process of its own."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-m", "examples.stdlib_demo", "--limit", "40", "--jobs", "1", "--ticks", "10"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "every view equals its recomputation, after every tick" in done.stdout
    for words in ("does not import", "calls os.system", "does nothing", "everything put back"):
        assert words in done.stdout
