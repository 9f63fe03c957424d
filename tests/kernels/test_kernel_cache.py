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

import numpy as np
import pytest

import dbsp
from dbsp.kernels import jit, kernel_cache, tiers
from dbsp.kernels.compiled import _CodeOnlyCache, callees, compiled, compiled_for_calls
from dbsp.kernels.jit import ENTRIES, KERNELS, entries
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


CALLED = """
from dbsp.kernels.jit import kernel

@kernel
def amount() -> int:
    return {}
"""

CALLING = """
from called_kernel import amount
from dbsp.kernels.jit import kernel

@kernel
def doubled() -> int:
    return 2 * amount()
"""

BEGIN = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
if "refused" in sys.argv:
    def refuse(path, missing_ok=False):
        raise PermissionError(13, "read only")
    Path.unlink = refuse
"""

USE = f"""{BEGIN}
from calling_kernel import doubled
from dbsp.kernels.compiled import compiled, is_cached
before = is_cached(doubled)
print(before, compiled(doubled)())
"""


def output(code: str, folder: Path, *options: str, processor: str = "") -> str:
    """Return what a new process with this code prints, for the kernels in a folder."""
    environment = {**os.environ, "NUMBA_CPU_NAME": processor} if processor else None
    command = [sys.executable, "-c", code, str(folder), *options]
    child = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return child.stdout.strip()


def change_amount(folder: Path, amount: int, seconds: int) -> None:
    """Write the kernel that others call, so many seconds later than now."""
    path = folder / "called_kernel.py"
    path.write_text(CALLED.format(amount))
    later = os.stat(path).st_mtime + seconds
    os.utime(path, (later, later))


def test_machine_code_is_as_new_as_the_kernels_that_it_calls(tmp_path: Path) -> None:
    def used(*options: str) -> str:
        return output(USE, tmp_path, *options)

    change_amount(tmp_path, 1, -10)
    (tmp_path / "calling_kernel.py").write_text(CALLING)
    os.utime(tmp_path / "calling_kernel.py", (0, 0))
    assert [used(), used()] == ["False 2", "True 2"]
    change_amount(tmp_path, 5, 0)
    assert [used("refused"), used(), used()] == ["False 10", "False 10", "True 10"]


CALLER = """
from calling_kernel import doubled
from dbsp.kernels.jit import kernel

@kernel
def quadrupled() -> int:
    return 2 * doubled()
"""

CALLED_ENTRY = f"""{BEGIN}
from caller_kernel import quadrupled
from calling_kernel import doubled
from dbsp.kernels.compiled import _CallCache, compiled, compiled_for_calls, is_cached
from dbsp.kernels.jit import ENTRIES
ENTRIES += [doubled, quadrupled]
form = compiled_for_calls(doubled)
assert isinstance(form._cache, _CallCache) and compiled_for_calls(quadrupled) is compiled(quadrupled)
before = is_cached(doubled)
called = form()
if "caller" in sys.argv:
    compiled(quadrupled)._cache.index.unlink()
print(before, called, compiled(quadrupled)(), form(), len(compiled(doubled).signatures))
"""


def test_a_kernel_that_others_call_too_is_called_without_its_bitcode(tmp_path: Path) -> None:
    def used(*options: str, processor: str = "") -> str:
        return output(CALLED_ENTRY, tmp_path, *options, processor=processor)

    change_amount(tmp_path, 1, -10)
    for name, text in {"calling_kernel.py": CALLING, "caller_kernel.py": CALLER}.items():
        (tmp_path / name).write_text(text)
        os.utime(tmp_path / name, (0, 0))
    assert [used(), used()] == ["False 2 4 2 1", "True 2 4 2 0"]
    assert used("caller") == "True 2 4 2 1"  # its compilation loads the bitcode
    assert used(processor="generic") == "True 2 4 2 1"
    change_amount(tmp_path, 5, 0)
    new = "10 20 10"
    assert [used("refused"), used(), used()] == [f"False {new} 1", f"False {new} 1", f"True {new} 0"]


LOAD = """
import sys
sys.path.insert(0, sys.argv[1])
from calling_kernel import doubled
from dbsp.kernels.compiled import compiled
assert compiled(doubled)() == 6
registries = not {"numba.np.linalg", "numba.np.arrayobj"}.isdisjoint(sys.modules)
import numba, numpy
assert numba.njit(lambda values: values.sum() * numpy.sqrt(4.0))(numpy.arange(4)) == 12
print(registries, "numba.np.linalg" in sys.modules)
"""


def test_a_kernel_from_disk_is_loaded_without_the_registries_of_the_compiler(tmp_path: Path) -> None:
    (tmp_path / "called_kernel.py").write_text(CALLED.format(3))
    (tmp_path / "calling_kernel.py").write_text(CALLING)
    assert [output(LOAD, tmp_path) for _ in range(2)] == ["True True", "False True"]


def test_machine_code_for_another_processor_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "called_kernel.py").write_text(CALLED.format(3))
    (tmp_path / "calling_kernel.py").write_text(CALLING)
    processors = ("", "generic", "generic", "")
    found = [output(LOAD, tmp_path, processor=processor) for processor in processors]
    assert found == ["True True", "True True", "False True", "False True"]


def test_kernels_that_others_call_are_kept_with_their_bitcode() -> None:
    called = set().union(*map(callees, KERNELS))
    code_only = {k for k in KERNELS if isinstance(compiled(k)._cache, _CodeOnlyCache)}
    assert called.intersection(ENTRIES)
    assert code_only == set(ENTRIES) - called
    assert all(isinstance(compiled_for_calls(k)._cache, _CodeOnlyCache) for k in ENTRIES)


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


def test_a_call_with_arrays_that_are_not_contiguous_has_the_same_result() -> None:
    choose_tier(COMPILED)
    keys, old, new = (np.arange(at, at + 12).reshape(6, 2)[:, :1] for at in (0, 5, 9))
    before, after = np.arange(6) % 3 != 0, np.arange(6) % 2 == 0
    strided = dbsp.kernels.replace_rows(keys, old, new, before, after)
    contiguous = map(np.ascontiguousarray, (keys, old, new))
    for found, expected in zip(strided, dbsp.kernels.replace_rows(*contiguous, before, after), strict=True):
        assert found.tolist() == expected.tolist()


READY = """
import sys
sys.path.insert(0, sys.argv[1])
from calling_kernel import doubled
from dbsp.kernels import kernel_cache
from dbsp.kernels.jit import WANTED
kernel_cache.entries = lambda: [doubled]
kernel_cache._starts_python = lambda: False
ready = kernel_cache.ready_for_calls(doubled)
print(ready(), ready(), sorted(WANTED), kernel_cache.ready_for_calls(doubled) is ready)
"""


def test_the_first_call_of_a_kernel_that_is_not_on_disk_is_announced(tmp_path: Path) -> None:
    (tmp_path / "called_kernel.py").write_text(CALLED.format(3))
    (tmp_path / "calling_kernel.py").write_text(CALLING)
    command = [sys.executable, "-c", READY, str(tmp_path)]
    environment = {name: value for name, value in os.environ.items() if name != "DBSP_QUIET"}
    for announced, wanted in ((True, ["doubled"]), (False, [])):
        child = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        assert child.stdout.strip() == f"6 6 {wanted} True"
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
