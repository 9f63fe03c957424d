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
OF_SPARK = [example for example in NUMBERED if "spark" in example.stem]
ARROW = "# ->"


def promised(example: Path) -> list[str]:
    lines = example.read_text(encoding="utf-8").splitlines()
    return [line.removeprefix(ARROW).removeprefix(" ") for line in lines if line.startswith(ARROW)]


@pytest.mark.parametrize(
    "example", [one for one in NUMBERED if one not in OF_SPARK], ids=lambda path: path.stem
)
def test_a_numbered_example_prints_what_its_comments_promise(
    example: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert promised(example)
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out.splitlines() == promised(example)


@pytest.mark.spark
@pytest.mark.parametrize("example", OF_SPARK, ids=lambda path: path.stem)
def test_an_example_with_a_session_of_its_own_does_too(example: Path) -> None:
    """In a process of its own, since there is one session in a process, and other tests share theirs."""
    done = in_a_process(str(example))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == promised(example)


def test_there_are_numbered_examples() -> None:
    numbers = [int(example.name[:2]) for example in NUMBERED]
    assert numbers == list(range(1, len(numbers) + 1))
    assert numbers


@pytest.mark.slow
def test_the_demo_agrees_with_recomputation_on_a_part_of_the_library() -> None:
    """As the user starts it, in a process of its own."""
    done = in_a_process("-m", "examples.stdlib_demo", "--limit", "40", "--jobs", "1", "--ticks", "10")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "every view equals its recomputation, after every tick" in done.stdout
    for words in ("does not import", "calls os.system", "does nothing", "everything put back"):
        assert words in done.stdout


def in_a_process(*arguments: str) -> subprocess.CompletedProcess[str]:
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
