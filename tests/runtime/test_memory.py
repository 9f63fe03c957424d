"""Freed memory is used again within large ticks, and returns to the system, where the C library
supports that."""

from __future__ import annotations

import ctypes
import resource
from pathlib import Path

import numpy as np
import pytest

from benchmarks.processes import in_new_process
from dbsp.runtime import memory
from dbsp.runtime.memory import give_back, reused_memory

STATUS = Path("/proc/self/statm")


def test_freed_memory_goes_back() -> None:
    if not STATUS.exists() or not hasattr(ctypes.CDLL(None), "malloc_trim"):
        give_back()  # nothing to do, and no error
        return
    # Every tenth block stays, so that the others leave holes that the library would keep.
    blocks = [bytearray(60_000) for _ in range(1_000)]
    kept = blocks[::10]
    before = resident()
    del blocks
    give_back()
    assert before - resident() > 20_000_000
    assert len(kept) == 100


def test_large_arrays_use_freed_memory_again() -> None:
    # In a new process: what other tests have allocated may keep the memory of the array.
    grown, again = in_new_process(reuse)
    assert grown < 40_000_000  # the memory of the array has returned to the system
    if memory._heap() is not None:
        assert again < 1_000  # without huge pages, each array would take 20,000


def reuse() -> tuple[int, int]:
    """Return by how much the process has grown, and the page faults of all arrays but the first."""
    before = resident()
    with reused_memory():
        np.ones(10_000_000)
        first = faults()
        for _ in range(20):
            np.ones(10_000_000)
        again = faults() - first
    return resident() - before, again


def test_an_error_restores_the_usual_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    settings: dict[int, int] = {}
    monkeypatch.setattr(memory, "_heap", lambda: (settings.__setitem__, lambda _: 0))
    with pytest.raises(ValueError), reused_memory():
        assert settings[memory._MMAP_MAX] == 0
        raise ValueError
    assert settings == memory._USUAL


@pytest.mark.parametrize(
    ("name", "value"), [("MALLOC_MMAP_MAX_", "1"), ("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")]
)
def test_settings_of_the_environment_stay(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    memory._heap.cache_clear()
    assert memory._heap() is None
    memory._heap.cache_clear()


def faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def resident() -> int:
    return int(STATUS.read_text().split()[1]) * 4096
