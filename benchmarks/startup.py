"""What a first use costs: each step in a new process, beside the same step of other systems."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

import dbsp

PROGRAM = """.decl edge(x: number, y: number)
.input edge
.decl path(x: number, y: number)
.output path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""
SMALL = """
import dbsp
run = dbsp.compile(PROGRAM).start()
assert len(run.step({"edge": [(1, 2), (2, 3)]})["path"]) == 3
"""
LARGE = """
import dbsp
run = dbsp.compile(PROGRAM).start()
edges = [(x, x + 1) for x in range(0, 200_000, 2)]
assert len(run.step({"edge": edges})["path"]) == len(edges)
"""
POLARS = """
import polars
edges = polars.DataFrame({"x": [1, 2], "y": [2, 3]})
assert edges.join(edges, left_on="y", right_on="x").height == 1
"""
DUCKDB = """
import duckdb
edges = "(VALUES (1, 2), (2, 3)) e(x, y)"
step = f"SELECT path.x, e.y FROM path JOIN {edges} ON e.x = path.y"
path = f"WITH RECURSIVE path AS (SELECT * FROM {edges} UNION {step})"
assert len(duckdb.sql(f"{path} SELECT * FROM path").fetchall()) == 3
"""
_TABLE = """
import numpy, pyarrow
numbers = numpy.arange(300_000)
edges = pyarrow.table({"x": numbers % 1000, "y": numbers})
"""
DBSP_TABLE = f"""{_TABLE}
import dbsp
edge = ".decl edge(x: number, y: number) .input edge"
run = dbsp.compile(edge + " .decl source(x: number) .output source source(x) :- edge(x, _).").start()
assert len(run.step({{"edge": edges}})["source"]) == 1000
"""
POLARS_TABLE = f"""{_TABLE}
import polars
assert polars.from_arrow(edges).select("x").unique().height == 1000
"""
DUCKDB_TABLE = f"""{_TABLE}
import duckdb
assert len(duckdb.sql("SELECT DISTINCT x FROM edges").fetchall()) == 1000
"""


REPEATS = {"small": 1, "medium": 3, "large": 10}


_PARENT = """
import json, os, sys, time
before = time.perf_counter()
nothing = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
process = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=nothing)
_, status, usage = os.wait4(process, 0)
elapsed = time.perf_counter() - before
code = os.waitstatus_to_exitcode(status)
print(json.dumps([code, usage.ru_utime + usage.ru_stime, elapsed, usage.ru_maxrss]))
"""


@dataclass(frozen=True)
class Start:
    """One step in a new process."""

    step: str
    system: str
    processor: float | None = None
    """Seconds of processor time, of all its processes; None where it is not installed."""
    elapsed: float = 0.0
    megabytes: float = 0.0
    """The largest resident memory of one process; for the step "installed", the size on disk."""


def measure_startup(repeat: int = 3, *, cold: bool = True) -> Iterator[Start]:
    """Measure each step; the least of `repeat` times, and once where kernels are compiled.

    `dbsp warmup` must have run: the steps that are not cold find their kernels in the cache.
    """
    ours = SMALL.replace("PROGRAM", repr(PROGRAM))
    large = LARGE.replace("PROGRAM", repr(PROGRAM))
    yield python("import", "numpy and pyarrow", "import numpy, pyarrow", repeat)
    yield python("import", "dbsp", "import dbsp; dbsp.compile", repeat)
    for name in ("polars", "duckdb"):
        yield python("import", name, f"import {name}", repeat, needs=name)
    yield command("version", "dbsp", [sys.executable, "-m", "dbsp", "--version"], repeat)
    yield from souffle("version", ["--version"], repeat)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "reach.dl").write_text(PROGRAM)
        (folder / "edge.facts").write_text("1\t2\n2\t3\n")
        run = ["run", str(folder / "reach.dl"), "-F", name, "-D", name]
        yield command("run on two rows", "dbsp", [sys.executable, "-m", "dbsp", *run], repeat)
        yield from souffle("run on two rows", run[1:], repeat)
        if cold:
            empty = {"NUMBA_CACHE_DIR": str(folder / "one"), "DBSP_QUIET": "1"}
            yield command("the same, cold", "dbsp", [sys.executable, "-m", "dbsp", *run], 1, empty)
    yield python("first query of two rows", "dbsp", ours, repeat)
    yield python("first query of two rows", "polars", POLARS, repeat, needs="polars")
    yield python("first query of two rows", "duckdb", DUCKDB, repeat, needs="duckdb")
    yield python("first query of 100,000 rows", "dbsp", large, repeat)
    for name, code in (("dbsp", DBSP_TABLE), ("polars", POLARS_TABLE), ("duckdb", DUCKDB_TABLE)):
        yield python("first query of a table of 300,000 rows", name, code, repeat, needs=name)
    if cold:
        with tempfile.TemporaryDirectory() as name:
            empty = {"NUMBA_CACHE_DIR": name, "DBSP_QUIET": "1"}
            yield python("first query of 100,000 rows, cold", "dbsp", large, 1, variables=empty)
        with tempfile.TemporaryDirectory() as name:
            warmup = [sys.executable, "-m", "dbsp", "warmup"]
            yield command("warmup", "dbsp", warmup, 1, {"NUMBA_CACHE_DIR": name})
    for name in ("dbsp-circuits", "polars", "duckdb"):
        size = installed_bytes(name)
        yield Start("installed", name, None if size is None else 0.0, megabytes=(size or 0) / 1e6)


def python(
    step: str,
    system: str,
    code: str,
    repeat: int,
    *,
    needs: str = "dbsp",
    variables: Mapping[str, str] | None = None,
) -> Start:
    """Measure a program in a new interpreter."""
    if find_spec(needs) is None:
        return Start(step, system)
    return command(step, system, [sys.executable, "-c", code], repeat, variables)


def souffle(step: str, arguments: list[str], repeat: int) -> Iterator[Start]:
    """Measure Soufflé, if it is installed."""
    program = shutil.which("souffle")
    yield (
        Start(step, "souffle") if program is None else command(step, "souffle", [program, *arguments], repeat)
    )


def command(
    step: str, system: str, arguments: list[str], repeat: int, variables: Mapping[str, str] | None = None
) -> Start:
    """Measure a process and its children: the run with the least processor time."""
    environment = {
        **os.environ,
        # An installed package has its modules compiled to bytecode.
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPATH": str(Path(dbsp.__file__).parents[1]),
        **(variables or {}),
    }
    best: Start | None = None
    for _ in range(repeat):
        # A process starts with the memory peak of its parent, so the parent is a small one.
        parent = [sys.executable, "-S", "-c", _PARENT, *arguments]
        done = subprocess.run(parent, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        code, spent, elapsed, peak = json.loads(done.stdout)
        if code:
            raise RuntimeError(f"{step}: {' '.join(arguments)} failed with code {code}")
        megabytes = peak * (1 if sys.platform == "darwin" else 1024) / 1e6
        if best is None or spent < (best.processor or 0.0):
            best = Start(step, system, spent, elapsed, megabytes)
    assert best is not None
    return best


def installed_bytes(name: str) -> int | None:
    """Return the size of a distribution and of all that it requires; None if it is missing."""
    found: set[str] = set()
    waiting = [name]
    total = 0
    while waiting:
        package = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if package in found:
            continue
        found.add(package)
        try:
            files = distribution(package)
        except PackageNotFoundError:
            if package == name:
                return None
            continue
        for file in files.files or ():
            path = Path(str(file.locate()))
            total += path.stat().st_size if path.is_file() else 0
        for requirement in files.requires or ():
            if "extra ==" not in requirement:
                waiting.append(re.split(r"[ ;<>=!~\[(]", requirement, maxsplit=1)[0])
    return total
