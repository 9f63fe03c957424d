"""Marks, time limits and schedule of tests."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator

import pytest
from xdist.scheduler import LoadScopeScheduling

from dbsp.kernels.tiers import COMPILED, INTERPRETED, choose_tier
from dbsp.operators.recursion import fixpoint_step
from tests import class_archive, spark_home
from tests.inspector.browsers import chromium
from tests.profiles import PROFILE

# Until the tests start: a module imported after the switch would call compiled kernels even in
# tests that choose the interpreted ones.
choose_tier(INTERPRETED)

# A Java of a test lives for seconds: the second compiler, and threads that collect garbage, take a
# fifth of its processor time and gain nothing.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# The tests start a thousand Pythons, and some machines forbid to keep bytecode: then each of them
# compiles 500 modules, half of its processor time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# And none of them needs threads for linear algebra, which take half of the processor time in which
# NumPy loads.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

_LONG = 900
"""The time limit, in seconds, of slow tests; pyproject.toml has the limit of the others."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests of Spark, set longer time limits, leave out tests that need a browser."""
    if chromium() is None:
        left_out = [item for item in items if item.get_closest_marker("browser")]
        items[:] = [item for item in items if not item.get_closest_marker("browser")]
        config.hook.pytest_deselected(items=left_out)
    for item in items:
        if "spark" in item.path.parts:
            item.add_marker("spark")
        if PROFILE == "long":
            item.add_marker(pytest.mark.timeout(0))
        elif any(item.get_closest_marker(name) for name in ("spark", "crash", "slow")):
            item.add_marker(pytest.mark.timeout(_LONG))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Give the tests of Spark a home of Spark, and their Javas an archive of its classes."""
    if item.get_closest_marker("spark") and not item.config.stash.get(_HAS_SPARK, False):
        item.config.stash[_HAS_SPARK] = True
        jars = spark_home.use(item.config.cache.mkdir("spark-home"))
        class_archive.use(class_archive.archive_in(item.config.cache.mkdir("spark-classes"), jars))


_HAS_SPARK = pytest.StashKey[bool]()


def pytest_collection_finish() -> None:
    """Choose compiled kernels; let collections of garbage pass over the collected tests."""
    # In the automatic tier, the first tests of a process would interpret kernels, and others not.
    choose_tier(COMPILED)
    gc.collect()
    gc.freeze()


TOGETHER = {
    "tests/spark/": "session",
    "tests/test_docstrings.py::test_examples_print_what_they_show[dbsp.spark": "session",
    "tests/inspector/test_browser.py": "browser",
}
"""What tests share, by the beginnings of their names: a session of Spark, or a browser."""


class SharingTogether(LoadScopeScheduling):
    """Runs tests that share something expensive in one worker, and the rest one by one."""

    def _split_scope(self, nodeid: str) -> str:
        return next((shared for start, shared in TOGETHER.items() if nodeid.startswith(start)), nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(
    config: pytest.Config, log: Callable[..., None]
) -> LoadScopeScheduling | None:
    """Schedule the tests of `--dist loadgroup`; its groups by marks do nothing with pytest 9.2."""
    return SharingTogether(config, log) if config.getvalue("dist") == "loadgroup" else None


def pytest_report_header() -> str:
    """Say which tests are left out on this machine."""
    found = chromium()
    if found is None:
        return (
            "browser: none found, so the tests in tests/inspector/test_browser.py are left out; install "
            "chromium to run them"
        )
    return f"browser: {found}"


@pytest.fixture(scope="module", params=["auto", "incremental"])
def every_recursion(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run tests also with incremental scopes, since small ticks usually restart the scope."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "incremental":
            options = fixpoint_step.evaluation_options
            patch.setattr(
                fixpoint_step,
                "evaluation_options",
                lambda body: options(body)._replace(restarts=False, insert_only=False),
            )
        yield
