"""The package on a system without POSIX modules, and the lock of a checkpoint on every system."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dbsp.durable import DeltaLog, Store

ROOT = Path(__file__).resolve().parent.parent.parent
CLOSURE = """
    .decl edge(x: number, y: number)
    .input edge
    .decl path(x: number, y: number)
    .output path
    path(x, y) :- edge(x, y).
    path(x, z) :- path(x, y), edge(y, z).
"""


def run_python(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=240)


def test_every_module_imports_without_posix_modules() -> None:
    done = run_python("""
        import tests.windows
        import importlib, pkgutil, sys, dbsp
        for module in pkgutil.walk_packages(dbsp.__path__, "dbsp."):
            if module.name != "dbsp.__main__":
                importlib.import_module(module.name)
        for name in dbsp.__all__:
            getattr(dbsp, name)
        print(*sys.modules)
    """)
    assert done.returncode == 0, done.stderr
    assert {"dbsp.durable", "dbsp.operators.joins.join", "dbsp.compiler.datalog", "dbsp.cli.app"} <= {
        *done.stdout.split()
    }


def test_a_checkpoint_and_a_delta_log_without_posix_modules(tmp_path: Path) -> None:
    code = """
        import tests.windows
        import sys
        import dbsp
        from dbsp.durable import DeltaLog, Store
        program = dbsp.compile(sys.argv[3])
        store, log = Store(sys.argv[1], snapshot_every=2), DeltaLog(sys.argv[2])
        run = program.start(checkpoint=store)
        for edge in [(1, 2), (2, 3), (3, 4)]:
            log.append(run.tick + 1, run.step({"edge": [edge]}))
        try:
            program.start(checkpoint=sys.argv[1])
        except dbsp.CheckpointError as error:
            print(error)
        store.close()
        run = program.start(checkpoint=sys.argv[1])
        print(run.tick, len(run.view("path").rows()), len(log.view("path").rows()))
    """
    done = run_python(code, tmp_path / "state", tmp_path / "log", CLOSURE)
    assert done.returncode == 0, done.stderr
    in_use, views = done.stdout.splitlines()
    assert f"{tmp_path / 'state'} is in use by process " in in_use
    assert views == "3 6 6"


def test_the_command_line_without_posix_modules(tmp_path: Path) -> None:
    (tmp_path / "reach.dl").write_text(CLOSURE)
    (tmp_path / "edge.facts").write_text("1\t2\n2\t3\n")
    (tmp_path / "changes").write_text("+edge(3, 4)\ncommit\n")
    code = """
        import tests.windows
        from dbsp.cli import main
        main()
    """
    run = ["run", tmp_path / "reach.dl", "-F", tmp_path, "-D", "-", "--deltas", tmp_path / "changes"]
    done = run_python(code, *run)
    assert done.returncode == 0, done.stderr
    assert "+path(1, 4)\n" in done.stdout


OPEN = """
    import os, sys
    from dbsp.durable import Store
    from dbsp.errors import CheckpointError
    try:
        store = Store(sys.argv[1])
    except CheckpointError as error:
        print(error)
    else:
        print("opened", flush=True)
        os._exit(0)  # without closing the store
"""


def test_a_second_process_gets_an_error_that_names_the_first(tmp_path: Path) -> None:
    store = Store(tmp_path)
    in_use = (
        f"{tmp_path} is in use by process {os.getpid()}; a checkpoint belongs to one run at a time: "
        "close the other run, or choose another folder [checkpoint-in-use]"
    )
    assert run_python(OPEN, tmp_path).stdout.strip() == in_use
    closing = threading.Thread(target=store.close)  # any thread may close it
    closing.start()
    closing.join()
    assert run_python(OPEN, tmp_path).stdout.strip() == "opened"
    Store(tmp_path).close()  # the process that held the lock has ended


def test_the_writers_of_a_delta_log_take_turns(tmp_path: Path) -> None:
    code = """
        import sys
        from dbsp import Schema, ZSet
        from dbsp.durable import DeltaLog
        log = DeltaLog(sys.argv[1], sync=False)
        for tick in range(1, 41):
            log.append(tick, {"out": ZSet({(tick,): 1}, Schema.of(x=int))})
    """
    with ThreadPoolExecutor() as pool:
        done = list(pool.map(lambda _: run_python(code, tmp_path), range(2)))
    assert [process.returncode for process in done] == [0, 0], [process.stderr for process in done]
    assert DeltaLog(tmp_path).view("out").rows() == [(tick,) for tick in range(1, 41)]
