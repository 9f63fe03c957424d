"""Compilation in advance: all kernels whose machine code is not on disk yet, on all cores.

Numba compiles under one lock, so other processes compile. Each is a new interpreter without a main
module of its own, which also works in notebooks, `python -c`, daemons and Spark workers.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

from dbsp.deferred_signals import call_undisturbed
from dbsp.errors import counted
from dbsp.kernels.code_files import cache_folder, is_cached
from dbsp.kernels.code_loader import load
from dbsp.kernels.jit import WANTED, callees, entries

Kernel: TypeAlias = Callable[..., Any]

MOST_PROCESSES = 8

_CODE = """
import sys
sys.path[:] = sys.argv[1:]
from dbsp.kernels.kernel_cache import compile_named
compile_named()
"""


def compile_for_use() -> None:
    """Compile the kernels that most runs use, and those that this process calls or expects to call.

    Says so on stderr, unless the environment variable DBSP_QUIET is set. Other kernels are compiled
    at their first call: most runs never call them.
    """
    names = _USUAL | WANTED
    missing = missing_kernels(kernel for kernel in entries() if kernel.__name__ in names)
    if missing:
        with shown_progress(missing) as done:
            fill_cache(missing, done)


def ready_for_calls(kernel: Kernel) -> Kernel:
    """Return the compiled function of a kernel; compile what is missing, as above.

    Its machine code is on disk, unless this process may not write it.
    """
    # After an exception at some places of the loader, it can load no kernel any more.
    found = call_undisturbed(load, kernel)
    if found is None:
        WANTED.add(kernel.__name__)
        compile_for_use()
        found = call_undisturbed(load, kernel)
    return found or call_undisturbed(_compiled_here, kernel)


def _compiled_here(kernel: Kernel) -> Kernel:
    from dbsp.kernels.compiled import compiled_function

    return compiled_function(kernel)


_USUAL = {
    "assert_runs",
    "change_presence",
    "column_limits",
    "consolidate",
    "consolidate_few",
    "consolidate_owned",
    "count_asserted",
    "expand_frontier",
    "find_ranges",
    "find_shards",
    "has_many_pairs",
    "is_sorted",
    "join_runs",
    "merge_backward",
    "merge_runs",
    "move_to_ranges",
    "pack_part",
    "project",
    "range_keys",
    "rearrange",
    "register_run",
    "scatter_keys",
    "sort_owned",
    "split_rows",
    "subtract_runs",
    "sum_runs",
    "sum_scattered",
    "sum_weights",
    "unpack_part",
}
"""Kernels that many examples, benchmarks and large loads call; that of recursion takes longest to
compile."""


def missing_kernels(kernels: Iterable[Kernel]) -> list[Kernel]:
    """Return the kernels whose machine code is not on disk, those that call most others first."""
    missing = [kernel for kernel in kernels if not is_cached(kernel)]
    return sorted(missing, key=lambda kernel: -len(callees(kernel)))


def fill_cache(kernels: Iterable[Kernel], done: Callable[[str], None]) -> None:
    """Compile the missing ones of these kernels; call `done` with the name of each.

    This process compiles what other processes leave, for example because it may not start any.
    """
    with _alone():
        missing = missing_kernels(kernels)
        modules = _Modules(missing)
        count = min(_cores(), modules.count) if _starts_python() and cache_folder() else 0
        processes: list[subprocess.Popen[str]] = []
        try:
            with suppress(OSError):
                processes.extend(_process() for _ in range(count))
            with ThreadPoolExecutor(max(1, len(processes))) as threads:
                for process in processes:
                    threads.submit(_feed, process, modules, done)
        finally:
            for process in processes:
                process.kill()
                process.communicate()
        for kernel in missing_kernels(missing):
            call_undisturbed(_compiled_here, kernel)
            done(kernel.__name__)


def compile_named() -> None:
    """Compile the kernels whose names are the lines of standard input; confirm each by a line."""
    from dbsp.kernels.compiled import compile_kernel

    by_name = {kernel.__name__: kernel for kernel in entries()}
    for line in sys.stdin:
        compile_kernel(by_name[line.strip()])
        print(line, end="", flush=True)


@contextmanager
def shown_progress(kernels: Sequence[Kernel]) -> Iterator[Callable[[str], None]]:
    """Announce the compilation of kernels on stderr: a bar on a terminal, else a line."""
    if os.environ.get("DBSP_QUIET"):
        yield lambda name: None
        return
    text = (
        f"dbsp: compiling {counted(len(kernels), 'kernel')} for this machine on {counted(_cores(), 'core')}"
    )
    if len(kernels) == 1:
        text = f"dbsp: compiling the kernel {kernels[0].__name__} for this machine"
    if not sys.stderr.isatty():
        print(f"{text}; this happens once ('dbsp warmup' does it in advance)", file=sys.stderr, flush=True)
        yield lambda name: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(text, total=len(kernels))
        yield lambda name: progress.advance(task)


def _process() -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _CODE, *(str(Path(folder or ".").absolute()) for folder in sys.path)]
    pipe, none = subprocess.PIPE, subprocess.DEVNULL
    # Numba makes errors as it tries types, and colours each, although nobody reads them.
    environment = {**os.environ, "NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING": "1"}
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=none, text=True, env=environment)


class _Modules:
    """The kernels that are left to compile, by module: those of one call the same others."""

    def __init__(self, missing: Iterable[Kernel]) -> None:
        self._left: dict[str, list[Kernel]] = {}
        for kernel in missing:
            self._left.setdefault(kernel.__module__, []).append(kernel)
        self._needs = {
            module: frozenset(kernels).union(*map(callees, kernels)) for module, kernels in self._left.items()
        }
        self._compiled: dict[int, str] = {}
        """The module that each process compiles now."""
        self._lock = threading.Lock()

    @property
    def count(self) -> int:
        return len(self._left)

    def take(self, process: int) -> list[str]:
        """Return the names of the kernels that a process compiles next; none if nothing is left.

        Two processes that need the same kernel at the same time both compile it. So the next module
        shares the fewest kernels with those that other processes compile.
        """
        with self._lock:
            self._compiled.pop(process, None)
            if not self._left:
                return []
            others = frozenset().union(*(self._needs[module] for module in self._compiled.values()))
            module = min(
                self._left, key=lambda name: (len(self._needs[name] & others), -len(self._needs[name]))
            )
            self._compiled[process] = module
            return [kernel.__name__ for kernel in self._left.pop(module)]


def _feed(process: subprocess.Popen[str], modules: _Modules, done: Callable[[str], None]) -> None:
    """Give the kernels of one module after the other to a process."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(OSError):  # the process has ended
        while names := modules.take(process.pid):
            process.stdin.write("".join(f"{name}\n" for name in names))
            process.stdin.flush()
            for _ in names:
                line = process.stdout.readline()
                if not line:
                    return
                done(line.strip())


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return min(MOST_PROCESSES, len(os.sched_getaffinity(0)))
    return min(MOST_PROCESSES, os.cpu_count() or 1)


def _starts_python() -> bool:
    """Whether `sys.executable` is an interpreter, and not a program that contains one."""
    return "python" in Path(sys.executable or "").name.lower() and not getattr(sys, "frozen", False)


@contextmanager
def _alone() -> Iterator[None]:
    """Wait for another process that fills the same cache."""
    from filelock import FileLock

    folder = cache_folder()
    if folder is None:
        yield
        return
    with FileLock(folder / "kernels.lock"):
        yield
