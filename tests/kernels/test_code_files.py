"""Machine code on disk: when it is used, and when a kernel is compiled again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dbsp.kernels.code_files import cache_folder
from dbsp.kernels.kernel_cache import fill_cache
from dbsp.kernels.run_merge import subtract_runs
from tests.kernels.compiling_children import CALLED, change_amount, output


@pytest.fixture(autouse=True)
def tier() -> None:
    """The processes of these tests choose their tier themselves."""


USE = """
from calling_kernel import doubled
from dbsp.kernels.code_files import is_cached
from dbsp.kernels.code_loader import load
before, loaded = is_cached(doubled), load(doubled)
assert (loaded is not None) is before
if loaded is None:
    from dbsp.kernels.compiled import compiled_function
    loaded = compiled_function(doubled)
print(before, loaded())
"""


def code_of(folder: Path) -> Path:
    (path,) = folder.rglob("calling_kernel.doubled.*.code")
    return path


def test_a_kernel_is_compiled_again_when_one_that_it_calls_has_changed(kernel_folder: Path) -> None:
    found = []
    for amount in (1, 5, 1):
        change_amount(kernel_folder, amount)
        found.append(output(USE, kernel_folder))
    assert found == ["False 2", "False 10", "True 2"]


def test_a_kernel_is_compiled_again_when_a_number_of_another_module_has_changed(kernel_folder: Path) -> None:
    called = CALLED.format("LIMIT").replace("@kernel", "from some_limits import LIMIT\n\n@kernel")
    (kernel_folder / "called_kernel.py").write_text(called)
    found = []
    for limit in (1, 5):
        (kernel_folder / "some_limits.py").write_text(f"LIMIT = {limit}")
        found.append(output(USE, kernel_folder))
    assert found == ["False 2", "False 10"]


def test_a_comment_changes_no_kernel(kernel_folder: Path) -> None:
    assert output(USE, kernel_folder) == "False 6"
    path = kernel_folder / "called_kernel.py"
    path.write_text(f"# A comment\n{path.read_text()}")
    assert output(USE, kernel_folder) == "True 6"


CALLER = """
from calling_kernel import doubled
from dbsp.kernels.jit import kernel

@kernel
def quadrupled() -> int:
    return 2 * doubled()
"""

CALLED_ENTRY = """
import sys
from caller_kernel import quadrupled
from calling_kernel import doubled
from dbsp.kernels.code_files import is_cached
from dbsp.kernels.code_loader import load
from dbsp.kernels.jit import ENTRIES
ENTRIES += [doubled, quadrupled]
before = is_cached(doubled), is_cached(quadrupled)
for kernel in (quadrupled, doubled):
    if not is_cached(kernel):
        from dbsp.kernels.compiled import compile_kernel
        compile_kernel(kernel)
print(*before, load(doubled)(), load(quadrupled)())
"""


def test_a_kernel_that_others_call_too_has_its_own_machine_code(kernel_folder: Path) -> None:
    def used() -> str:
        return output(CALLED_ENTRY, kernel_folder)

    (kernel_folder / "caller_kernel.py").write_text(CALLER)
    assert used() == "False False 6 12"
    code_of(kernel_folder).unlink()  # its bitcode is still there
    assert used() == "False True 6 12"
    (path,) = kernel_folder.rglob("caller_kernel.quadrupled.*.code")
    path.unlink()
    assert used() == "True False 6 12"
    change_amount(kernel_folder, 5)
    assert [used(), used()] == ["False False 10 20", "True True 10 20"]


def test_machine_code_for_another_processor_is_not_used(kernel_folder: Path) -> None:
    found = [output(USE, kernel_folder, NUMBA_CPU_NAME=name) for name in ("", "generic", "")]
    assert found == ["False 6", "False 6", "True 6"]


def test_damaged_machine_code_is_compiled_again(kernel_folder: Path) -> None:
    assert output(USE, kernel_folder) == "False 6"
    program = """
        import sys
        from pathlib import Path
        from calling_kernel import doubled
        from dbsp.kernels.code_files import is_cached, read_code
        path = Path(sys.argv[2])
        content = path.read_bytes()
        for place in range(-1, len(content), 997):
            damaged = bytearray(content)
            damaged[place] ^= 1
            path.write_bytes(damaged)
            assert is_cached(doubled) and read_code(doubled) is None and not is_cached(doubled), place
        for size in range(5):
            path.write_bytes(content[:size])
            assert read_code(doubled) is None and not is_cached(doubled), size
    """
    assert output(program, kernel_folder, str(code_of(kernel_folder))) == ""
    assert [output(USE, kernel_folder) for _ in range(2)] == ["False 6", "True 6"]


def test_machine_code_of_another_machine_under_the_same_name_is_not_used(kernel_folder: Path) -> None:
    assert output(USE, kernel_folder) == "False 6"
    program = """
        from calling_kernel import doubled
        from dbsp.kernels import code_files
        machine, name = code_files._machine(), code_files._name(doubled)
        code_files._name, code_files._machine = lambda kernel: name, lambda: machine + " and more"
        print(code_files.is_cached(doubled), code_files.read_code(doubled))
    """
    assert output(program, kernel_folder) == "True None"


def test_a_package_that_is_read_only_has_its_machine_code_in_the_folder_of_the_user(
    kernel_folder: Path, tmp_path: Path
) -> None:
    (kernel_folder / "__pycache__").write_text("not a folder")
    home = str(tmp_path / "of the user")
    found = [output(USE, kernel_folder, XDG_CACHE_HOME=home) for _ in range(2)]
    assert found == ["False 6", "True 6"]
    assert code_of(tmp_path / "of the user").parent.parent.name == "dbsp"


def test_machine_code_in_a_folder_that_is_read_only_is_used(kernel_folder: Path) -> None:
    assert output(USE, kernel_folder) == "False 6"
    program = """
        import tempfile
        from calling_kernel import doubled
        from dbsp.kernels.code_files import cache_folder, is_cached
        from dbsp.kernels.code_loader import load

        def refuse(*arguments, **options):
            raise PermissionError(13, "read only")

        tempfile.TemporaryFile = refuse
        print(cache_folder(doubled.__code__.co_filename), is_cached(doubled), load(doubled)())
    """
    assert output(program, kernel_folder) == "None True 6"


def test_other_users_may_read_machine_code(kernel_folder: Path) -> None:
    assert output(f"import os; os.umask(0o022){USE}", kernel_folder) == "False 6"
    assert code_of(kernel_folder).stat().st_mode & 0o777 == 0o644


def test_a_process_that_may_write_nowhere_compiles_for_itself(kernel_folder: Path, tmp_path: Path) -> None:
    for name in ("__pycache__", "no folder"):
        (kernel_folder / name).write_text("not a folder")
    variables = {"NUMBA_CACHE_DIR": str(kernel_folder / "no folder")}
    found = [output(USE, kernel_folder, **variables) for _ in range(2)]
    assert found == ["False 6", "False 6"]


def test_the_machine_code_of_the_kernels_is_in_the_chosen_folder() -> None:
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    folder = cache_folder()
    assert folder is not None
    assert folder.is_relative_to(chosen) if chosen else folder.name == "__pycache__"
    fill_cache([subtract_runs], lambda name: None)
    assert any(folder.glob("run_merge.subtract_runs.*.code"))
