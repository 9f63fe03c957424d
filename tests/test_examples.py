"""The examples run and print the lines in their comments."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
NUMBERED = sorted((ROOT / "examples").glob("[0-9][0-9]_*.py"))
SPARK_EXAMPLES = [example for example in NUMBERED if "spark" in example.stem]
"""Those that tests/spark/test_scripts.py runs."""
ARROW = "# ->"


def expected_lines(example: Path) -> list[str]:
    lines = example.read_text(encoding="utf-8").splitlines()
    arrows = [line.lstrip() for line in lines if line.lstrip().startswith(ARROW)]
    return [line.removeprefix(ARROW).removeprefix(" ") for line in arrows]


@pytest.mark.parametrize(
    "example", [one for one in NUMBERED if one not in SPARK_EXAMPLES], ids=lambda path: path.stem
)
def test_a_numbered_example_prints_the_lines_in_its_comments(
    example: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert expected_lines(example)
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out.splitlines() == expected_lines(example)


def test_there_are_numbered_examples() -> None:
    numbers = [int(example.name[:2]) for example in NUMBERED]
    assert numbers == list(range(1, len(numbers) + 1))
    assert numbers


DEMO = ("-m", "examples.stdlib_demo", "--limit", "30", "--jobs", "1", "--ticks", "2")


@pytest.mark.parametrize(
    "mode",
    [
        pytest.param(("--local",), marks=pytest.mark.slow, id="local"),
        pytest.param(("--shards", "2"), marks=pytest.mark.spark, id="shards"),
    ],
)
def test_the_demo_agrees_with_recomputation_on_a_part_of_the_library(mode: tuple[str, ...]) -> None:
    """Run as a user does, in a new process; tests/spark/test_demo.py has Spark without shards."""
    done = run_process(*DEMO, *mode)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.rstrip().endswith("every view equals its recomputation, after every tick")
    assert ("shard 1: " in done.stdout) == ("--shards" in mode)
    for words in ("no longer imports", "calls os.system", "does nothing", "all files restored"):
        assert words in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--local", "--shards", "2"), "--shards and --folder need Spark; remove --local"),
        (("--folder", "."), "--folder expects a new folder, got ., which exists"),
    ],
)
def test_the_demo_refuses_options_that_do_not_fit(options: tuple[str, ...], message: str) -> None:
    done = run_process(*DEMO, *options)
    assert done.returncode == 2
    assert message in done.stderr


def run_process(*arguments: str) -> subprocess.CompletedProcess[str]:
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
