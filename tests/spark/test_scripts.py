"""The pages and the examples that use Spark run as shown, one after another in one process.

To start a Java takes most of the time of such a script. A session that is stopped leaves its Java
to the next session of the process.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.quick_start import Python, run_page
from tests.test_examples import SPARK_EXAMPLES, expected_lines
from tests.test_packaging import PAGES, ROOT, runs_spark

STOP = """
from pyspark.sql import SparkSession
if (left := SparkSession.getActiveSession()) is not None:
    left.stop()
"""


def is_classic(script: Path) -> bool:
    """Whether a script has no sessions of Spark Connect: a process has one kind of sessions."""
    return 'remote="' not in script.read_text(encoding="utf-8")


SPARK_PAGES = [page for page in PAGES if runs_spark(page)]


@pytest.fixture(scope="module")
def classic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Python, Path]]:
    """A process for all scripts with classic sessions, and where it runs.

    Relative paths of a Java begin where it was started, so all these scripts run there.
    """
    python, folder = Python(), tmp_path_factory.mktemp("scripts")
    yield python, folder
    python.end()


@pytest.fixture
def place(request: pytest.FixtureRequest, script: Path, tmp_path: Path) -> Iterator[tuple[Python, Path]]:
    """A process for the script, and an empty folder."""
    if is_classic(script):
        python, folder = request.getfixturevalue("classic")
        yield python, folder
        stopped = python.run(STOP)
        shutil.rmtree(folder)
        folder.mkdir()
        assert stopped.succeeded, stopped.errors
    else:
        python = Python()
        yield python, tmp_path
        python.end()


@pytest.mark.parametrize("script", SPARK_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_examples_of_a_page_run_as_shown(script: Path, place: tuple[Python, Path]) -> None:
    python, folder = place
    assert run_page(script, folder, python) == []


@pytest.mark.parametrize("script", SPARK_EXAMPLES, ids=lambda example: example.stem)
def test_an_example_prints_the_lines_in_its_comments(script: Path, place: tuple[Python, Path]) -> None:
    python, folder = place
    python.begin(folder)
    done = python.run(f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')")
    assert done.succeeded, done.printed + done.errors
    assert done.printed.removesuffix("\n").splitlines() == expected_lines(script)
