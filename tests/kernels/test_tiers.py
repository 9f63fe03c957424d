"""Interpreted and compiled kernels: equal results, and the switch from one to the other."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dbsp
import dbsp.kernels
from benchmarks.every_kernel import use_every_kernel
from dbsp.kernels import frontier, group_search, hashing, jit, kernel_cache, narrow_keys, tiers
from dbsp.kernels.compiled import signature_of
from dbsp.kernels.jit import KERNELS, entries
from dbsp.kernels.kernel_cache import ready_for_calls
from dbsp.kernels.tiers import AUTOMATIC, BUDGET, COMPILED, INTERPRETED, choose_tier

ROOT = Path(__file__).resolve().parents[2]

NARROW_SORT = (
    "count_different",
    "divide_keys",
    "narrow_limits",
    "pack_narrow",
    "sort_divided",
    "sum_repeated",
    "unpack_narrow",
)
"""They sort long narrow runs in their own memory: see `tests/parallel/test_narrow_sort.py`."""


@pytest.fixture(autouse=True)
def tier() -> Iterator[None]:
    """Each test chooses its tier itself."""
    yield
    choose_tier(COMPILED)


@pytest.fixture
def automatic(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Behave as a new process."""
    monkeypatch.setattr(tiers._tiers, "spent", 0.0)
    choose_tier(AUTOMATIC)
    yield


def outcome(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Return the result or error of a call, and the arguments after it, as comparable values."""
    copies = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    try:
        with np.errstate(all="ignore"):
            result = tiers._plain(function(*copies))
    except OverflowError as error:
        return str(error)
    if function.__name__ == "register_run":
        copies[0][:, :2] = 0  # the addresses of the copies
    if function.__name__ in ("join_timed_runs", "join_timed_bands"):
        result[2][: result[3]] = 0  # these rows have no times
    return comparable(result), [comparable(copy) for copy in copies]


def comparable(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(comparable, value))
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, value.tolist()
    return type(value), value


def test_both_tiers_agree_in_every_call_of_every_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    use_every_kernel(long_runs=False)  # imports all callers
    calls: dict[str, int] = {}
    compiled = {kernel: ready_for_calls(kernel) for kernel in entries()}
    choose_tier(INTERPRETED)
    callers = ("dbsp.", use_every_kernel.__module__)
    for module in [m for name, m in sys.modules.items() if name.startswith(callers)]:
        for name, value in list(vars(module).items()):
            kernel = inspect.unwrap(value) if inspect.isfunction(value) else None
            if kernel is None or kernel is value or kernel not in entries():
                continue

            def compare(*arguments: Any, kernel: Callable[..., Any] = kernel) -> Any:
                calls[kernel.__name__] = calls.get(kernel.__name__, 0) + 1
                if sum(a.size for a in arguments if isinstance(a, np.ndarray)) < 20_000:
                    # The addresses in the arguments are those of the same memory.
                    plain, machine = outcome(kernel, arguments), outcome(compiled[kernel], arguments)
                    assert plain == machine, kernel.__name__
                return compiled[kernel](*arguments)

            monkeypatch.setattr(module, name, compare)
    use_every_kernel(long_runs=False)
    assert set(calls) >= set(dbsp.kernels.__all__) - {
        "join_timed_intervals",  # no example has an interval join in a recursion
        "merge_backward",  # merges long runs only
        "merge_runs",
        *NARROW_SORT,
    }


@pytest.mark.parametrize("name", [INTERPRETED, COMPILED])
def test_every_kernel_runs_in_each_tier(name: str) -> None:
    choose_tier(name)
    use_every_kernel(long_runs=False)


def test_every_kernel_declares_its_signature() -> None:
    for kernel in KERNELS:
        parameters = inspect.signature(kernel).parameters
        assert len(signature_of(kernel)) == len(parameters), kernel.__name__


def test_a_small_run_is_interpreted_and_a_longer_one_compiled(automatic: None) -> None:
    from dbsp.state import trace

    circuit = dbsp.Circuit("c")
    circuit.output("out", circuit.input("a", x=int).distinct())
    run = circuit.start()
    run.step({"a": [(1,)]})
    assert inspect.isfunction(trace.register_run)
    assert 0 < tiers._tiers.spent < BUDGET
    tiers._tiers.spent = BUDGET  # as after many more steps
    assert run.step({"a": [(2,)]})["out"].to_dict() == {(2,): 1}
    assert inspect.isbuiltin(trace.register_run)
    assert dbsp.kernels.register_run is trace.register_run


def test_a_large_call_compiles_at_once(automatic: None) -> None:
    rows = np.arange(10_000).reshape(5_000, 2)
    called = dbsp.kernels.consolidate
    called(rows[:2], np.ones(2, np.int64))
    assert dbsp.kernels.consolidate is called
    called(rows, np.ones(5_000, np.int64))
    assert dbsp.kernels.consolidate is not called
    # Who kept the function also calls the compiled kernel.
    spent = tiers._tiers.spent
    assert called(rows[:2], np.ones(2, np.int64))[0].tolist() == rows[:2].tolist()
    assert tiers._tiers.spent == spent


def test_the_switch_compiles_what_was_called_and_what_steps_expect(
    automatic: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[set[str]] = []
    wanted = set[str]()

    def note(kernels: list[kernel_cache.Kernel]) -> list[kernel_cache.Kernel]:
        asked.append({kernel.__name__ for kernel in kernels})
        return []

    monkeypatch.setattr(kernel_cache, "missing_kernels", note)
    for module in (jit, kernel_cache, tiers):
        monkeypatch.setattr(module, "WANTED", wanted)
    rows = np.zeros((2, 2), np.int64)
    dbsp.kernels.with_time(rows, np.zeros(1, np.int64))
    jit.expect_calls(dbsp.kernels.leading)
    dbsp.kernels.total_blocks(np.ones(10_000, np.int64))
    (names,) = asked
    assert names == kernel_cache._USUAL | {"with_time", "leading", "total_blocks"}


def test_modules_call_machine_code_itself_after_the_first_call() -> None:
    choose_tier(COMPILED)
    use_every_kernel()
    before = {id(entry.call) for entry in tiers._tiers.entries if entry.compiled}
    users = [
        (module, name)
        for module, loaded in list(sys.modules.items())
        if module.startswith("dbsp.")
        for name, value in vars(loaded).items()
        if id(value) in before
    ]
    assert users == []
    assert len(before) > len(entries()) // 2


def test_the_work_of_a_join_is_bounded_by_its_matches() -> None:
    rows, weights = np.zeros((100, 1), np.int64), np.ones(100, np.int64)
    table = np.zeros((1, 3), np.int64)
    dbsp.kernels.register_run(table, 0, rows, weights)
    work = tiers._measure_of(dbsp.kernels.matches.join_runs)
    matches = work((rows, weights, 1, table, 1, 1, np.zeros(1, np.int64)))
    assert matches > 100 * 100 > tiers.MOST_WORK
    assert work((rows[:1], weights[:1], 1, table, 1, 1, np.zeros(1, np.int64))) < tiers.MOST_WORK
    tables = np.array([table.ctypes.data, 1] * 2, np.int64)
    work = tiers._measure_of(dbsp.kernels.multiway.extend_by_levels)
    assert work((rows[:1], weights[:1], weights, tables, weights, weights)) == 4 * 100 * 100
    # The delta is a run of 100 rows. One use reads 200 rows, with the delta, the other 100 rows.
    table = np.zeros((2, 3), np.int64)
    for run in range(2):
        dbsp.kernels.register_run(table, run, rows, weights)
    source = [table.ctypes.data, 1, 2, 1]
    term = [9, 0, 2, 0, 0, 1, 0, 0, 7]
    work = tiers._measure_of(dbsp.kernels.term_sum.sum_terms)
    measured = work((np.array(2 * term), np.array(source), 1, weights))
    assert measured == 2 * 100 * 200 * 100 * (9 + 1)


@pytest.mark.parametrize("nodes, is_compiled", [(12, False), (25, False), (60, True)])
def test_a_small_recursion_is_interpreted(
    automatic: None, monkeypatch: pytest.MonkeyPatch, nodes: int, is_compiled: bool
) -> None:
    monkeypatch.setattr(tiers, "BUDGET", 60.0)  # only the work decides
    source = ".decl e(x: number, y: number) .input e .decl p(x: number, y: number) .output p "
    run = dbsp.compile(source + "p(x, y) :- e(x, y). p(x, z) :- p(x, y), e(y, z).").start()
    paths = run.step({"e": [(x, x + 1) for x in range(nodes)]})["p"]
    assert set(paths.to_dict()) == {(x, y) for x in range(nodes) for y in range(x + 1, nodes + 1)}
    assert tiers.interprets_small_calls() is not is_compiled


def test_the_work_of_iterations_is_bounded_by_the_limit_of_matches() -> None:
    rows, weights = np.zeros((100, 3), np.int64), np.ones(100, np.int64)
    table = np.zeros((2, 3), np.int64)
    for run in range(2):
        dbsp.kernels.register_run(table, run, rows, weights)
    # Two joins of rows with two columns, with one and with two runs.
    joins = np.array([1, 3, 1, table.ctypes.data, 0, 0, -3, 0, 3, 2, table.ctypes.data, 1, -1])
    state, limits = np.zeros(frontier.STATE, np.int64), np.zeros(frontier.LIMITS, np.int64)
    state[frontier.USED], limits[frontier.CALL_MATCHES] = 40, 7
    work = tiers._measure_of(frontier.expand_frontier)
    # The table may have any numbers where it has no row yet.
    found, given = np.full((512, 4), 1 << 40), np.zeros((9, 2), np.int64)
    state[frontier.STARTED] = 4
    places = np.arange(2)
    arguments = (given, found, weights, weights, joins, places, 1, table, 1, 2, weights, state, limits)
    assert work(arguments) == 4 * (5 + 40 + 7 + 300)


def test_the_work_of_a_search_is_bounded_by_its_edges() -> None:
    rows, weights = np.zeros((100, 3), np.int64), np.ones(100, np.int64)
    table = np.zeros((2, 3), np.int64)
    for run in range(2):
        dbsp.kernels.register_run(table, run, rows, weights)
    joins = np.array([1, 3, 1, table.ctypes.data, 1, 0, -3, 1, 3, 2, table.ctypes.data, 1, 0, -2])
    given = np.zeros((9, 2), np.int64)
    work = tiers._measure_of(group_search.list_edges)
    assert work((given, joins, 1000)) == 18 + 1000 + 3 * 300
    assert work((given, joins, 250)) == 18 + 250 + 3 * 250  # it stops when there are more edges
    state, limits = np.zeros(frontier.STATE, np.int64), np.zeros(frontier.LIMITS, np.int64)
    state[frontier.STARTED], limits[frontier.CALL_MATCHES] = 4, 7
    starts, targets = np.zeros(51, np.int64), np.zeros(300, np.int64)
    # The rows may have room that is not used.
    room, none = np.zeros((1 << 15, 2), np.int64), np.zeros(0, np.int64)
    before = (given, 0, starts, targets, none, room, none, none, none, none, none)
    after = (none, room, room, none, none, state, limits)
    work = tiers._measure_of(group_search.search_groups)
    assert work((*before, table, 0, 0, *after)) == 2 * (5 + 51 + 307)
    assert work((*before, table, 1, 2, *after)) == 2 * (5 + 51 + 307 + 200)  # reads all groups
    table[1, 2] = 1 << 40
    assert work((*before, table, 1, 2, *after)) == 2 * (5 + 51 + 307 + 32 * 307)


def test_spare_room_of_a_table_is_no_work() -> None:
    table, slots, numbers = np.zeros((512, 3), np.int64), np.zeros(1024, np.int64), np.zeros(9, np.int64)
    rows = table[:9]
    for kernel, arguments in {
        frontier.collect_rows: (table, numbers, np.arange(1)),
        hashing.find_rows: (rows, table, slots, numbers),
        hashing.intern_rows: (rows, table, 100, slots, numbers),
        hashing.place_rows: (table, 9, slots),
    }.items():
        assert tiers._measure_of(kernel)(arguments) == 9 * (3 + 1), kernel.__name__


def test_rows_that_a_kernel_gets_by_their_address_are_work() -> None:
    for kernel, arguments in {
        narrow_keys.count_different: (8, 3, 1_000),
        narrow_keys.narrow_limits: (8, 1_000, np.arange(3)),
        narrow_keys.sum_repeated: (8, 3, 1_000, np.zeros(1, np.int64)),
    }.items():
        assert tiers._measure_of(kernel)(arguments) == 3 * 1_000, kernel.__name__


def test_an_interrupt_waits_until_an_interpreted_kernel_has_stored_all() -> None:
    code = """
import signal, numpy as np
from dbsp.kernels import run_merge, tiers
from dbsp.kernels.run_tables import run_entry

def merge_runs(*arguments):
    signal.raise_signal(signal.SIGINT)
    print("interrupted")
    run_merge.merge_runs(*arguments)
    print("merged")

merge_runs.__annotations__ = run_merge.merge_runs.__annotations__
one, out = (np.array([[1]]), np.array([1])), (np.empty((2, 1), int), np.empty(2, int))
table = np.array([run_entry(*each) for each in (one, one, out)])
try:
    tiers.entry(merge_runs)(table, 1, np.zeros(4, int), 9)
except KeyboardInterrupt:
    print("then raised")
"""
    assert python(code).splitlines() == ["interrupted", "merged", "then raised"]


def python(code: str, **variables: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | variables
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


SMALL = """
import sys, dbsp
run = dbsp.compile(".decl a(x: number) .input a .decl b(x: number) .output b b(x) :- a(x).").start()
print(run.step({"a": [(1,), (2,)]})["b"].rows())
print([m for m in ("numba", "llvmlite", "scipy") if m in sys.modules])
"""


def test_a_small_run_loads_no_compiler() -> None:
    assert python(SMALL) == "[(1,), (2,)]\n[]\n"


def test_the_variable_chooses_the_tier() -> None:
    assert python(SMALL, DBSP_KERNELS=COMPILED) == "[(1,), (2,)]\n['llvmlite']\n"
    assert python(
        SMALL + "\nrun.step({'a': [(x,) for x in range(9000)]})\nprint('llvmlite' in sys.modules)",
        DBSP_KERNELS=INTERPRETED,
    ).endswith("[]\nFalse\n")


INTERRUPTED = """
import signal, sys, dbsp

class Interrupting:
    left = 20  # modules; llvmlite has more

    def find_spec(self, name, path, target=None):
        if name.startswith("llvmlite"):
            self.left -= 1
            if self.left == 0:
                signal.raise_signal(signal.SIGINT)

run = dbsp.compile(".decl a(x: number) .input a .decl b(x: number) .output b b(x) :- a(x).").start()
sys.meta_path.insert(0, Interrupting())
rows = {"a": [(x,) for x in range(9000)]}
try:
    run.step(rows)
except KeyboardInterrupt:
    print("interrupted with all modules:", "dbsp.kernels.kernel_cache" in sys.modules)
print(run.tick, len(run.step(rows)["b"]))
"""


def test_an_interrupt_waits_until_the_compiler_is_imported() -> None:
    """The next call cannot use modules that are imported in part."""
    assert python(INTERRUPTED).splitlines() == ["interrupted with all modules: True", "0 9000"]
