"""Two tiers: a short run interprets its kernels, a longer one compiles them.

Loading Numba and a few compiled kernels takes longer than most small programs run, and compiling
the kernels for the first time takes seconds. So a process starts with plain Python, and switches to
compiled kernels at the first call with much work, or when the interpreted calls together have taken
`BUDGET`. From then on every kernel is compiled, and a call costs nothing on top of its own work:
the first call of a kernel replaces the function below by its machine code in every module that
imported it.

Both tiers give the same results, in the same order, and raise the same errors. The environment
variable DBSP_KERNELS chooses one tier for the whole process: `interpreted` or `compiled`.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from dbsp.deferred_signals import call_undisturbed
from dbsp.kernels.arrays import Codes
from dbsp.kernels.frontier import CALL_MATCHES, JOIN, STARTED, USED
from dbsp.kernels.group_search import SEARCH
from dbsp.kernels.jit import ENTRIES, WANTED, at_address
from dbsp.kernels.term_sum import SOURCE, TERM

F = TypeVar("F", bound=Callable[..., Any])

BUDGET = 0.1
"""Seconds that interpreted calls may take together before the process switches."""

MOST_WORK = 2_000
"""The largest work, in numbers read or written, of an interpreted call: it takes a few ms."""

INTERPRETED, COMPILED, AUTOMATIC = "interpreted", "compiled", "automatic"


class _Tiers:
    """The current tier of this process."""

    def __init__(self) -> None:
        self.chosen = os.environ.get("DBSP_KERNELS", AUTOMATIC)
        self.spent = 0.0
        """Seconds that interpreted calls have taken."""
        self.lock = threading.RLock()
        self.entries: list[_Entry] = []
        self.compiles = False
        """Whether the process has switched."""
        self.callers: dict[int, list[tuple[dict[str, Any], str]]] = {}
        """The global names of modules that are entries, by the identity of the entry."""
        self.modules = 0
        """The number of modules that `callers` knows."""

    def interprets(self, work: int) -> bool:
        """Whether a call with this work is interpreted."""
        if self.compiles:
            return False
        if self.chosen != AUTOMATIC:
            return self.chosen == INTERPRETED
        return self.spent < BUDGET and work <= MOST_WORK


class _Entry(NamedTuple):
    kernel: Callable[..., Any]
    call: Callable[..., Any]
    """The function that callers import."""
    compiled: list[Any]
    """The machine code, after its first call."""


_tiers = _Tiers()


def choose_tier(name: str) -> None:
    """Choose the tier of all later calls, as DBSP_KERNELS does."""
    with _tiers.lock:
        _tiers.chosen = name
        _replace([(compiled, entry.call) for entry in _tiers.entries for compiled in entry.compiled])
        for entry in _tiers.entries:
            entry.compiled.clear()
        _tiers.compiles, _tiers.modules = False, 0


def interprets_small_calls() -> bool:
    """Return whether a call with little work is interpreted now."""
    return _tiers.interprets(0)


def entry(kernel: F) -> F:
    """Return a function that calls a kernel in the current tier."""
    work_of = _measure_of(kernel)
    changes_arguments = kernel.__name__ in _CHANGING
    compiled: list[Any] = []

    @wraps(kernel)
    def call(*arguments: Any) -> Any:
        if compiled:  # a caller kept this function from before its first call
            return compiled[0](*arguments)
        WANTED.add(kernel.__name__)
        if not _tiers.interprets(work_of(arguments)):
            _use_machine_code(found)
            return compiled[0](*arguments)
        started = time.perf_counter()
        try:
            # Compiled kernels wrap around silently, too.
            with np.errstate(all="ignore"):
                if changes_arguments:
                    return _plain(call_undisturbed(kernel, *arguments))
                return _plain(kernel(*arguments))
        finally:
            _tiers.spent += time.perf_counter() - started

    ENTRIES.append(kernel)
    found = _Entry(kernel, call, compiled)
    _tiers.entries.append(found)
    return cast(F, call)


_CHANGING = {"extend_by_levels", "intern_rows", "merge_runs", "register_run", "sum_terms"}
"""Kernels that change what a run stores: a signal must not end them half way."""


def _use_machine_code(entry: _Entry) -> None:
    """Make all callers of an entry call its machine code."""
    # An interrupt of an import would leave modules that are imported in part.
    kernel_cache = call_undisturbed(_kernel_cache)
    with _tiers.lock:
        if not _tiers.compiles:
            kernel_cache.compile_for_use()
            _tiers.compiles = True
        if not entry.compiled:
            call_undisturbed(_install, entry, kernel_cache.ready_for_calls(entry.kernel))


def _kernel_cache() -> ModuleType:
    from dbsp.kernels import kernel_cache

    return kernel_cache


def _install(entry: _Entry, machine_code: Callable[..., Any]) -> None:
    if len(sys.modules) != _tiers.modules:
        _tiers.modules = len(sys.modules)
        _tiers.callers = _users([entry.call for entry in _tiers.entries])
    entry.compiled[:] = [machine_code]
    for names, name in _tiers.callers.pop(id(entry.call), []):
        names[name] = machine_code


def _replace(pairs: list[tuple[Any, Any]]) -> None:
    """Replace the first of each pair by the second in the global names of all modules of dbsp."""
    users = _users([before for before, _ in pairs])
    for before, after in pairs:
        for names, name in users.get(id(before), []):
            names[name] = after


def _users(functions: list[Any]) -> dict[int, list[tuple[dict[str, Any], str]]]:
    """Return the global names of modules of dbsp that are these functions, by their identities.

    Modules import functions by their own names: to look for names takes a third of the time that to
    look for the functions among all values takes.
    """
    found: dict[int, list[tuple[dict[str, Any], str]]] = {id(function): [] for function in functions}
    wanted = {function.__name__ for function in functions}
    for module in [name for name in list(sys.modules) if name.startswith("dbsp.")]:
        names = vars(sys.modules[module])
        for name in wanted.intersection(names):
            if id(names[name]) in found:
                found[id(names[name])].append((names, name))
    return found


def _plain(answer: Any) -> Any:
    """Return the answer of an interpreted kernel with the types of a compiled one."""
    if isinstance(answer, tuple):
        return tuple(map(_plain, answer))
    return answer.item() if isinstance(answer, np.generic) else answer


# --- the work of a call ---------------------------------------------------------------------------


def _measure_of(kernel: Callable[..., Any]) -> Callable[[tuple[Any, ...]], int]:
    """Return a function of the arguments of a kernel: an upper bound of its work."""
    names = list(kernel.__annotations__)
    if "tables" in names:
        return _work_of_multiway_join
    if "sources" in names:
        return _work_of_all_terms
    if "joins" in names:
        return _work_of_iterations
    if names[:2] == ["given", "plan"]:
        return _work_of_edges
    if "targets" in names:
        return _work_of_search
    if names[:2] == ["table", "k"]:
        return _work_of_merge
    if names[:2] == ["table", "column"]:
        return _work_of_transposition
    if "slots" in names or names[:2] == ["table", "numbers"]:
        return _measure_in_table(names)
    if names[0] == "word" and "rows" in names:
        return _measure_at_address(names)
    if "first" in names:
        return _work_of_sum
    if "runs" not in names:
        return _size
    table, runs = names.index("table"), names.index("runs")

    def work(arguments: tuple[Any, ...]) -> int:
        # Each row may match each stored row.
        rows, columns = arguments[0].shape
        stored = int(arguments[table][: arguments[runs], 2].sum())
        others = _size(arguments) - int(arguments[table].size)
        return others + int(rows * stored * (columns + 1))

    return work


def _size(arguments: tuple[Any, ...]) -> int:
    return sum(argument.size for argument in arguments if isinstance(argument, np.ndarray))


def _measure_in_table(names: list[str]) -> Callable[[tuple[Any, ...]], int]:
    """Return the work of a kernel that finds or moves rows of a table with spare room."""
    table = names.index("table")
    numbers, used = (names.index(name) if name in names else -1 for name in ("numbers", "used"))

    def work(arguments: tuple[Any, ...]) -> int:
        rows = arguments[used] if numbers < 0 else len(arguments[numbers])
        return int(rows * (arguments[table].shape[1] + 1))

    return work


def _measure_at_address(names: list[str]) -> Callable[[tuple[Any, ...]], int]:
    """Return the work of a kernel that gets rows as the word of their address, and their number."""
    rows = names.index("rows")
    k, columns = (names.index(name) if name in names else -1 for name in ("k", "columns"))

    def work(arguments: tuple[Any, ...]) -> int:
        return int(arguments[rows] * (len(arguments[columns]) if k < 0 else arguments[k]))

    return work


def _work_of_merge(arguments: tuple[Any, ...]) -> int:
    table, columns, *_ = arguments
    fuel = arguments[3:]  # of `merge_runs` only
    rows = min([int(table[:2, 2].sum()), *fuel])
    return int(2 * rows * (columns + 1))


def _work_of_transposition(arguments: tuple[Any, ...]) -> int:
    table, _, most = arguments
    return int(8 * table[:2, 2].sum() + most)


def _work_of_sum(arguments: tuple[Any, ...]) -> int:
    table, first, count, columns = arguments
    rows = int(table[first : first + count, 2].sum())
    return int(2 * count * rows * (columns + 1))


def _work_of_all_terms(arguments: tuple[Any, ...]) -> int:
    terms, sources = arguments[0].tolist(), arguments[1].tolist()
    work: int = 0
    at = 0
    while at < len(terms):
        size, delta, uses = terms[at : at + 3]
        changes = _rows_of(*sources[SOURCE * delta : SOURCE * delta + 3])
        for use in range(uses):
            source, new = terms[at + TERM + 2 * use : at + TERM + 2 * use + 2]
            table, *runs = sources[SOURCE * source : SOURCE * source + 3]
            changes *= max(1, _rows_of(table, 0, runs[new]))
        work += changes * (size + 1)
        at += size
    return work


def _work_of_iterations(arguments: tuple[Any, ...]) -> int:
    given, table, _, _, joins, *_, state, limits = arguments
    columns = table.shape[1]
    stored = _rows_of_joins(joins, columns - 2)
    # A call ends with the first row that exceeds the limit, and a row matches each stored row once.
    rows = len(given) - state[STARTED] + state[USED]
    return int(columns * (rows + limits[CALL_MATCHES] + stored))


def _work_of_edges(arguments: tuple[Any, ...]) -> int:
    given, plan, most = arguments
    return int(given.size + most + 3 * min(most, _rows_of_joins(plan, given.shape[1])))


def _work_of_search(arguments: tuple[Any, ...]) -> int:
    given, _, starts, targets, *_, past, _, runs, _, _, _, _, _, state, limits = arguments
    # A call ends with the first group that exceeds the limit, and a group takes each edge once.
    matches = int(limits[CALL_MATCHES]) + len(targets)
    rows = len(given) - int(state[STARTED]) + len(starts)
    rows += min(SEARCH * matches, int(past[:runs, 2].sum()))
    return int(given.shape[1] * (rows + matches))


def _rows_of_joins(joins: Codes, columns: int) -> int:
    """Return the number of rows in the runs of all joins, for results with so many columns."""
    numbers = joins.tolist()
    stored = at = 0
    while at < len(numbers):
        key, _, runs, side = numbers[at : at + JOIN]
        stored += _rows_of(side, 0, runs)
        at += JOIN + key + columns
    return stored


def _rows_of(table: int, first: int, until: int) -> int:
    """Return the number of rows in these runs of a run table."""
    lengths = at_address(table)
    return sum(lengths[3 * run + 2] for run in range(first, until))


def _work_of_multiway_join(arguments: tuple[Any, ...]) -> int:
    # Each prefix consists of one stored row of each use at most.
    rows, tables = arguments[0], arguments[3].tolist()
    work: int = 4 * rows.size
    for table, runs in zip(tables[::2], tables[1::2], strict=True):
        work = work * max(1, _rows_of(table, 0, runs))
    return work
