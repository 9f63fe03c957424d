"""Machine code of kernels on disk, and the announcement of a compilation."""

from __future__ import annotations

import ast
import inspect
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

import dbsp
from dbsp.kernels import jit, kernel_cache, tiers
from dbsp.kernels.jit import KERNELS, callees, entries
from dbsp.kernels.kernel_cache import Kernel, shown_progress
from dbsp.kernels.tiers import COMPILED, INTERPRETED, choose_tier


@pytest.fixture(autouse=True)
def tier() -> Iterator[None]:
    """Each test chooses its tier itself."""
    yield
    choose_tier(COMPILED)


def test_a_compilation_is_announced_on_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("DBSP_QUIET", raising=False)
    monkeypatch.setattr(kernel_cache, "_cores", lambda: 2)
    with shown_progress(entries()[:7]) as done:
        done("consolidate")
    line = "dbsp: compiling 7 kernels for this machine on 2 cores; this happens once"
    assert capsys.readouterr().err == f"{line} ('dbsp warmup' does it in advance)\n"


def test_a_quiet_process_announces_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DBSP_QUIET", "1")
    with shown_progress(entries()[:7]) as done:
        done("consolidate")
    assert capsys.readouterr().err == ""


def test_usual_kernels_are_kernels() -> None:
    assert {kernel.__name__ for kernel in entries()} >= kernel_cache._USUAL


def test_processes_compile_modules_that_share_few_kernels() -> None:
    def needs(names: list[str]) -> set[Kernel]:
        chosen = [by_name[name] for name in names]
        return set(chosen).union(*map(callees, chosen))

    by_name = {kernel.__name__: kernel for kernel in entries()}
    modules: dict[str, list[str]] = {}
    for kernel in entries():
        modules.setdefault(kernel.__module__, []).append(kernel.__name__)
    left = kernel_cache._Modules(entries())
    first = left.take(1)
    assert len(needs(first)) == max(len(needs(names)) for names in modules.values())
    second = left.take(2)
    others = [names for names in modules.values() if names not in (first, second)]
    assert all(len(needs(second) & needs(first)) <= len(needs(names) & needs(first)) for names in others)
    taken = [first, second]
    while names := left.take(1):  # as if the second process did not end
        taken.append(names)
    assert sorted(name for names in taken for name in names) == sorted(by_name)
    shared = [len(needs(names) & needs(second)) for names in taken[2:]]
    assert shared == sorted(shared)


def test_kernels_assign_no_slices() -> None:
    """Numba compiles the assignment of a slice to a slice for seconds (`dbsp.kernels.copies`)."""
    for kernel in KERNELS:
        for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(kernel)))):
            if isinstance(node, ast.Assign) and not _is_constant(node.value):
                assert not any(map(_is_slice, node.targets)), ast.unparse(node)


def _is_constant(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) or (isinstance(value, ast.Name) and value.id.isupper())


def _is_slice(target: ast.expr) -> bool:
    return isinstance(target, ast.Subscript) and any(
        isinstance(part, ast.Slice) for part in ast.walk(target.slice)
    )


READY = """
import sys
sys.path.insert(0, sys.argv[1])
from calling_kernel import doubled
from dbsp.kernels import kernel_cache
from dbsp.kernels.jit import WANTED
kernel_cache.entries = lambda: [doubled]
kernel_cache._starts_python = lambda: False
print(kernel_cache.ready_for_calls(doubled)(), sorted(WANTED), "numba" in sys.modules)
"""


def test_the_first_call_of_a_kernel_that_is_not_on_disk_is_announced(kernel_folder: Path) -> None:
    command = [sys.executable, "-c", READY, str(kernel_folder)]
    environment = {name: value for name, value in os.environ.items() if name != "DBSP_QUIET"}
    for announced, wanted in ((True, ["doubled"]), (False, [])):
        child = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        assert child.stdout.strip() == f"6 {wanted} {announced}"
        assert ("compiling the kernel doubled for this machine" in child.stderr) is announced
        assert child.stderr.count("\n") == announced


SLOW = {
    "change_digits",
    "change_groups",
    "extend_by_levels",
    "join_bands",
    "join_by_groups",
    "join_intervals",
    "join_timed_bands",
    "join_timed_runs",
    "sum_terms",
    "values_at",
}
"""Kernels that are compiled for three seconds and more, on a core of a virtual machine."""

EDGES = ".decl e(x: number, y: number) .input e .decl r({columns}) .output r "


@pytest.fixture
def wanted(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The names of the kernels that a process has called or expects to call, as in a new one."""
    found = set[str]()
    for module in (jit, tiers):
        monkeypatch.setattr(module, "WANTED", found)
    choose_tier(INTERPRETED)
    return found


@pytest.mark.parametrize(
    "columns, rules, expected",
    [
        (
            "x: number, y: number",
            "r(x, y) :- e(x, y). r(x, z) :- r(x, y), e(y, z).",
            {"join_timed_runs", "distinct_timed_runs", "with_time"},
        ),
        ("x: number, y: number", "r(x, y) :- e(x, y). r(x, z) :- r(x, y), r(y, z).", {"join_timed_runs"}),
        ("x: number, z: number", "r(x, z) :- e(x, y), e(y, z).", {"join_by_groups"}),
        ("x: number, z: number", "r(x, z) :- e(x, y), e(z, _), y <= z, z <= y + 3.", {"join_bands"}),
        ("x: number, w: number", "r(x, w) :- e(x, y), e(z, w), x <= w, w <= y.", {"join_intervals"}),
        (
            "x: number, y: number",
            "r(x, y) :- e(x, y). r(x, z) :- r(x, y), e(z, _), y <= z, z <= y + 3.",
            {"join_timed_bands"},
        ),
        ("x: number", "r(x) :- e(x, y), e(y, z), e(z, x).", {"extend_by_levels", "sum_terms"}),
        ("x: number, n: number", "r(x, n) :- e(x, _), n = count : { e(x, _) }.", {"change_groups"}),
        ("x: number, n: number", "r(x, n) :- e(x, _), n = max y : { e(x, y) }.", set()),
    ],
)
def test_no_tick_calls_a_slow_kernel_that_no_step_has_named(
    columns: str, rules: str, expected: set[str], wanted: set[str]
) -> None:
    run = dbsp.compile(EDGES.format(columns=columns) + rules).start()
    before = set(wanted)
    assert before >= expected
    wanted.clear()
    edges = [(x, y) for x in range(7) for y in (x + 1, 2 * x + 1)]
    run.step({"e": edges})
    for edge in edges:
        run.step({"e": {edge: -1}})
    assert "consolidate_owned" in wanted  # the kernels that were called
    assert wanted & SLOW <= before


def test_aggregates_name_their_slow_kernels(wanted: set[str]) -> None:
    circuit = dbsp.Circuit("aggregates")
    values = circuit.input("values", group=int, value=float)
    value = dbsp.col("value")
    grouped = values.group_by("group").agg(total=value.sum(), median=value.median(), spread=value.var())
    circuit.output("result", grouped)
    run = circuit.start()
    before = set(wanted)
    assert before & SLOW == {"change_digits", "values_at"}
    wanted.clear()
    rows = [(group, group + step / 2) for group in range(3) for step in range(40)]
    run.step({"values": rows})
    run.step({"values": {rows[0]: -1}})
    assert wanted & SLOW == before & SLOW
