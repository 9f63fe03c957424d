"""Simulation of a process that ends between two file operations."""

from __future__ import annotations

import builtins
import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pyarrow.parquet as pq

_OPERATIONS = ("mkdir", "rename", "replace", "unlink", "rmdir", "fsync", "link", "write", "ftruncate")


class Ended(BaseException):
    """The simulated process has ended."""


@contextmanager
def ends_after(count: int) -> Iterator[Callable[[], int]]:
    """Let `count` operations that change files succeed; every later one raises Ended.

    So the code in `finally` and `except` has no effect on files either, as if the process were
    killed. Yields a function that returns the number of operations.
    """
    done = 0

    def counted(genuine: Callable[..., Any], changes: Callable[..., bool]) -> Callable[..., Any]:
        def operation(*args: Any, **kwargs: Any) -> Any:
            nonlocal done
            if changes(*args, **kwargs):
                done += 1
                if done > count:
                    raise Ended
            return genuine(*args, **kwargs)

        return operation

    def always(*args: Any, **kwargs: Any) -> bool:
        return True

    def writes(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> bool:
        return "r" not in mode

    def creates(path: Any, flags: int, *args: Any, **kwargs: Any) -> bool:
        return bool(flags & os.O_CREAT)

    operations = {name: counted(getattr(os, name), always) for name in _OPERATIONS}
    with mock.patch.multiple(os, open=counted(os.open, creates), **operations):  # noqa: SIM117
        with mock.patch.object(builtins, "open", counted(builtins.open, writes)):
            with mock.patch.object(pq, "write_table", counted(pq.write_table, always)):
                yield lambda: done


def count_operations(life: Callable[[], None]) -> int:
    """Return the number of operations of a life that does not end early.

    Later collections of garbage pass over the objects that exist after it. A test that collects
    after each simulated end, to release the locks of the ended life, would else look at all objects
    of all tests every time.
    """
    with ends_after(10**9) as done:
        life()
    gc.collect()
    gc.freeze()
    return done()
