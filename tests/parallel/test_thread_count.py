"""The number of threads: the caller's, the environment's, or the cores of the process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

import dbsp
from dbsp import ArgumentError
from dbsp.kernels import thread_count
from tests.parallel.counted_threads import counted


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(thread_count.VARIABLE, raising=False)
    # Tests that run a task of Spark in this process have chosen another default.
    monkeypatch.setattr(thread_count, "_default", None)
    yield
    dbsp.set_threads(None)


def test_the_default_is_every_core_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3, 5, 7}, raising=False)
    assert dbsp.threads() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert dbsp.threads() == 1


def test_the_caller_comes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(thread_count.VARIABLE, "5")
    assert dbsp.threads() == 5
    dbsp.set_threads(2)
    assert dbsp.threads() == 2
    dbsp.set_threads(None)
    assert dbsp.threads() == 5


def test_the_environment_comes_before_the_default_of_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    thread_count.use_by_default(1)
    assert dbsp.threads() == 1
    monkeypatch.setenv(thread_count.VARIABLE, "6")
    assert dbsp.threads() == 6


@pytest.mark.parametrize("count", [0, -1, True, 2.0, "2"])
def test_wrong_numbers(count: Any) -> None:
    with pytest.raises(ArgumentError) as error:
        dbsp.set_threads(count)
    assert error.value.message == (
        f"threads: expected a positive number of threads, or None for all cores, got {count!r}"
    )
    assert error.value.code == "invalid-argument"


@pytest.mark.parametrize("text", ["", "0", "many", "-2", "1.5"])
def test_a_wrong_environment_variable(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(thread_count.VARIABLE, text)
    with pytest.raises(ArgumentError) as error:
        dbsp.threads()
    assert error.value.message == (
        f"DBSP_THREADS: expected a positive number of threads, got {text!r}; change the environment "
        "variable, or call dbsp.set_threads"
    )


def test_shards_divide_the_threads() -> None:
    cores = dbsp.threads()
    dbsp.set_threads(2 * cores + 3)
    with counted().start(shards=2) as run:
        run.step({"numbers": [(x,) for x in range(8)]})
        assert {threads for _, threads in run.view("out").rows()} == {cores + 1}
