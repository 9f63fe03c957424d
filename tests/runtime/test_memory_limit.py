"""A program that exceeds its memory limit ends with an error, and the tick is rolled back."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dbsp.runtime.memory import capacity, limited

PAIRS = """\
.type Pair = [left: Pair, right: Pair]
.decl seed(x: number)
.decl tree(t: Pair)
.input seed
.output tree
tree(nil) :- seed(_).
tree([x, y]) :- tree(x), tree(y).
"""
CROSS = """\
.decl a(x: number)
.decl pair(x: number, y: number)
.input a
.output pair
pair(x, y) :- a(x), a(y), a(z), z != x.
"""


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dbsp", *arguments], capture_output=True, text=True, check=False
    )


def test_growth_without_bound_ends_with_an_error_that_names_the_rule(tmp_path: Path) -> None:
    (tmp_path / "tree.dl").write_text(PAIRS)
    (tmp_path / "seed.facts").write_text("1\n")
    folder = str(tmp_path)
    done = command("run", f"{folder}/tree.dl", "-F", folder, "-D", folder, "--max-memory", "700M")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "tree.dl:7" in done.stderr
    assert "the memory limit of 700 MB is exceeded" in done.stderr
    assert "[memory-limit]" in done.stderr
    assert "--max-memory" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "tree.csv").exists()


WITHOUT_MEMORY = """
import dbsp
from dbsp.runtime.memory import limited

run = dbsp.compile(CROSS).start({"a": [(1,), (2,)]})
many = [(x,) for x in range(20_000)]
try:
    with limited("1G"):
        run.step({"a": many})
except dbsp.MemoryLimitError as error:
    assert "the tick was rolled back" in str(error)
else:
    raise AssertionError("expected MemoryLimitError")
assert run.tick == 1
assert set(run.view("pair").rows()) == {(1, 1), (1, 2), (2, 1), (2, 2)}
assert run.step({"a": {(2,): -1, (3,): 1}})["pair"].to_dict() == {
    **dict.fromkeys([(1, 2), (2, 1), (2, 2)], -1),
    **dict.fromkeys([(1, 3), (3, 1), (3, 3)], 1),
}
"""


def test_a_tick_without_memory_changes_nothing() -> None:
    # In a process of its own: the limit counts what earlier tests of this process still hold.
    code = f"CROSS = {CROSS!r}\n{WITHOUT_MEMORY}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("text", "size"),
    [("4096", 4096), ("3K", 3 << 10), ("5m", 5 << 20), ("1.5G", 3 << 29), ("2T", 2 << 40)],
)
def test_sizes(text: str, size: int) -> None:
    assert capacity(text) == size


@pytest.mark.parametrize("unit", ["M", "m", " M", "MB", "mb", " MB", "MiB", "mib", " MiB"])
def test_spellings_of_a_unit(unit: str) -> None:
    assert capacity(f"3{unit}") == 3 << 20


@pytest.mark.parametrize(
    ("text", "size"), [("1kB", 1 << 10), ("1.5 GiB", 3 << 29), ("2TB", 2 << 40), ("7 B", 7)]
)
def test_sizes_in_units_of_bytes(text: str, size: int) -> None:
    assert capacity(text) == size


def test_a_part_of_the_memory_of_the_machine() -> None:
    whole = capacity("100%")
    assert whole is not None and whole > 1 << 28
    assert capacity("50%") == whole // 2


@pytest.mark.parametrize(
    "text", ["", "G", "-1G", "0", "0%", "101%", "1X", "nan", "1e3", "1iB", "1Mi", "1  M", "1 %B", " 1M"]
)
def test_invalid_sizes_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="such as 8G"):
        capacity(text)


@pytest.mark.parametrize("text", ["9" * 400, "9" * 300 + "T", "5000000T", "1" * 5000])
def test_sizes_beyond_every_machine_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^expected less than 4,000,000 terabytes, got '"):
        capacity(text)


def test_a_wrong_size_is_a_wrong_command_line(tmp_path: Path) -> None:
    (tmp_path / "tree.dl").write_text(PAIRS)
    done = command("run", f"{tmp_path}/tree.dl", "--max-memory", "lots")
    assert done.returncode == 2
    assert "such as 8G" in done.stderr


def test_a_limit_is_taken_back() -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_DATA)
    with limited("64G"):
        assert resource.getrlimit(resource.RLIMIT_DATA)[0] in (before[0], 64 << 30)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
