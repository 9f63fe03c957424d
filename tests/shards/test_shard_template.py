"""Shards that are forked from a template: what they inherit, and the end of all processes."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from dbsp import ShardError
from dbsp.shards import shard_template
from dbsp.shards.sharded_run import ShardedRun
from tests.shards.interrupted_lines import InterruptAt
from tests.shards.observed_process import observing, parent, seen
from tests.shards.process_ends import alive, expect_end
from tests.shards.shop_circuit import CHANGES, shop

GRAPH = observing()
SHOP = shop().circuit("distributed")
ROOT = Path(__file__).resolve().parents[2]


def ask(question: int) -> str:
    with ShardedRun(GRAPH, 1) as run:
        return seen(run, question)


def template() -> int:
    """Return the process that starts shards now."""
    with ShardedRun(GRAPH, 1) as run:
        return parent(run.stats()[0].process)


def python(program: str, **options: object) -> subprocess.CompletedProcess[str]:
    """Run a program that starts shards, and return its output."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", textwrap.dedent(program)]
    return subprocess.run(  # type: ignore[call-overload,no-any-return]
        command, capture_output=True, text=True, check=False, env=environment, **options
    )


# --- what a shard inherits ------------------------------------------------------------------------


def nothing(folder: Path) -> None:
    pass


def environment(folder: Path) -> None:
    os.environ["SHARD_TEST"] = "a value \udcff"
    del os.environ["SHARD_TEST_GONE"]


def folder_gone(folder: Path) -> None:
    sys.path.remove("")  # it means the current directory
    gone = folder / "gone"
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()


def path(folder: Path) -> None:
    sys.path.insert(0, str(folder))


def streams(folder: Path) -> None:
    with open(folder / "output", "w") as output, open(folder / "errors", "w") as errors:
        os.dup2(output.fileno(), 1)
        os.dup2(errors.fileno(), 2)


def terminal(folder: Path) -> None:
    _, theirs = os.openpty()
    os.dup2(theirs, 1)


def limits(folder: Path) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


CHANGES_OF_PROCESS: list[Callable[[Path], object]] = [
    nothing,
    environment,
    folder_gone,
    path,
    streams,
    terminal,
    limits,
    lambda folder: os.chdir(folder),
    lambda folder: os.umask(0o27),
    lambda folder: os.nice(3),
    lambda folder: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}),
    lambda folder: signal.signal(signal.SIGUSR1, signal.SIG_IGN),
    lambda folder: signal.signal(signal.SIGCHLD, signal.SIG_IGN),
    lambda folder: signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2]),
    lambda folder: os.environ.update(MALLOC_TRIM_THRESHOLD_="1000000", PYTHONUNBUFFERED="1"),
    lambda folder: os.environ.update(LC_ALL="C", PYTHONUTF8="0", PYTHONIOENCODING="latin-1"),
]


@pytest.mark.slow
def test_a_forked_shard_is_like_one_with_a_new_python(tmp_path: Path) -> None:
    """Change a process that has a template, and compare the next shards of both kinds."""
    program = f"""
        import json, os
        from pathlib import Path
        from dbsp.shards import shard_template
        from tests.shards.test_shard_template import CHANGES_OF_PROCESS, ask

        os.environ["SHARD_TEST_GONE"] = "1"
        result = os.dup(1)
        ask(0)
        for change in CHANGES_OF_PROCESS:
            change(Path({str(tmp_path)!r}))
            forked = ask(0)
            shard_template.FORKS = False
            os.write(result, json.dumps([forked, ask(0)]).encode() + b"\\n")
            shard_template.FORKS = True
    """
    done = python(program)
    assert done.returncode == 0, done.stderr
    results = done.stdout.splitlines()
    assert len(set(results)) == len(results) == len(CHANGES_OF_PROCESS)
    for number, line in enumerate(results):
        forked, fresh = map(json.loads, json.loads(line))
        assert forked.pop("inheritable") == []
        del fresh["inheritable"]
        fresh["kinds of descriptors"]["other"] += 1  # the pipe that says when the shard ends
        assert forked == fresh, f"change {number}"


HARMLESS = {"COLUMNS", "LINES", "VS_PROFILER"}
"""Variables that modules of numpy read as they load, with no effect on a shard."""


def test_every_variable_that_a_module_reads_as_it_loads_belongs_to_the_settings() -> None:
    program = """
        import importlib, os, pkgutil

        read = set()

        class Noting(type(os.environ)):
            def __getitem__(self, name):
                read.add(name)
                return super().__getitem__(name)

            def __contains__(self, name):
                read.add(name)
                return super().__contains__(name)

            def items(self):  # numpy keeps a copy
                return {os.fsdecode(name): os.fsdecode(self._data[name]) for name in self._data}.items()

        os.environ.__class__ = Noting
        import dbsp.shards.template_process
        import dbsp.kernels.code_loader
        import dbsp.operators

        for module in pkgutil.walk_packages(dbsp.operators.__path__, "dbsp.operators."):
            importlib.import_module(module.name)
        from dbsp.shards.inherited_settings import is_read_at_load

        print(len(read), *sorted(name for name in read if not is_read_at_load(name)))
    """
    done = python(program)
    assert done.returncode == 0, done.stderr
    count, *others = done.stdout.split()
    assert int(count) > 10
    assert set(others) <= HARMLESS


def test_a_shard_has_its_own_random_numbers() -> None:
    with ShardedRun(GRAPH, 1) as first, ShardedRun(GRAPH, 1) as second:
        numbers = [*json.loads(seen(first, 1)), *json.loads(seen(second, 1))]
    assert len(set(numbers)) == 4


def test_a_shard_writes_to_the_streams_of_its_start(capfd: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        ask(2)
        written = capfd.readouterr()
        assert (written.out, written.err) == ("to 1,printed,", "to 2,")


def test_closed_streams(tmp_path: Path) -> None:
    program = f"""
        import os
        from pathlib import Path
        from tests.shards.test_shard_template import ask
        for number in range(3):
            os.close(number)
        for _ in range(2):
            ask(2)
        Path({str(tmp_path / "done")!r}).touch()
    """
    python(program)
    assert (tmp_path / "done").exists()


def test_a_module_of_the_user_is_imported_as_it_is_at_the_start_of_the_shard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    first = template()
    for value in ("one", "another"):
        (tmp_path / "module_of_a_test.py").write_text(f"VALUE = {value!r}")
        assert ask(3) == value
    assert template() == first


# --- the end of processes -------------------------------------------------------------------------


def test_a_change_of_the_settings_starts_another_template(monkeypatch: pytest.MonkeyPatch) -> None:
    with ShardedRun(SHOP, 2) as run:
        first = parent(run.stats()[0].process)
        assert template() == parent(run.stats()[1].process) == first
        monkeypatch.setenv("NUMBA_SHARD_TEST", "1")
        second = template()
        assert second != first
        assert alive(first)
        run.step(CHANGES[0])
        os.kill(run.stats()[1].process, signal.SIGKILL)
        with pytest.raises(ShardError, match=r"\(killed by SIGKILL\)"):
            run.step(CHANGES[1])
    expect_end([first])
    assert template() == second


def test_a_killed_template_is_replaced_and_its_shards_continue() -> None:
    with ShardedRun(SHOP, 2) as run:
        first = parent(run.stats()[0].process)
        os.kill(first, signal.SIGKILL)
        expect_end([first])
        assert template() != first
        run.step(CHANGES[0])
        processes = [stats.process for stats in run.stats()]
    assert not any(map(alive, processes))


def test_the_end_of_a_shard_whose_template_was_killed() -> None:
    with ShardedRun(SHOP, 2) as run:
        processes = [stats.process for stats in run.stats()]
        first = parent(processes[0])
        os.kill(first, signal.SIGKILL)
        expect_end([first])
        os.kill(processes[0], signal.SIGKILL)
        with pytest.raises(ShardError, match=r"exit status unknown, since the process that started it"):
            run.step(CHANGES[0])
        expect_end(processes)


def test_a_template_that_ends_at_a_request() -> None:
    first = template()
    os.kill(first, signal.SIGSTOP)
    killer = threading.Timer(0.2, os.kill, (first, signal.SIGKILL))
    killer.start()
    with pytest.raises(ShardError, match=r"has ended \(killed by SIGKILL\); start the run again") as lost:
        ask(0)
    killer.join()
    assert lost.value.code == "shard-lost"
    assert template() != first


def test_a_template_that_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_SHARD_TEST", "2")
    with monkeypatch.context() as broken:
        broken.setattr(shard_template, "_PROGRAM", "raise SystemExit(5)")
        for _ in range(2):
            with pytest.raises(ShardError, match=r"has ended \(exit status 5\).*\[shard-lost\]"):
                ask(0)
    assert ask(4)


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), signal.SIGKILL)", "os._exit(0)", "sys.exit()"])
def test_no_process_survives_its_coordinator(end: str) -> None:
    program = f"""
        import os, signal, sys
        from dbsp.shards.sharded_run import ShardedRun
        from tests.shards.test_shard_template import GRAPH, SHOP, parent

        runs = []
        for number in range(2):
            os.environ["NUMBA_SHARD_TEST"] = str(number)
            runs.append(ShardedRun(SHOP, 2))
        shards = [stats.process for run in runs for stats in run.stats()]
        print(*shards, *set(map(parent, shards)), flush=True)
        {end}
    """
    processes = [int(number) for number in python(program).stdout.split()]
    assert len(processes) == 6
    expect_end(processes)


def test_a_forked_process_starts_its_own_template() -> None:
    program = """
        import os, time
        from tests.shards.test_shard_template import ask, template

        first = template()
        child = os.fork()
        if child == 0:
            print("child", template() != first, ask(4) != "", flush=True)
            os.close(1)
            os.close(2)
            time.sleep(600)
        while os.waitpid(-1, os.WNOHANG) == (0, 0) and template() == first:
            break
        print("parent", template() == first, first, child, flush=True)
    """
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(program)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = dict(line.split(maxsplit=1) for line in process.stdout)
    outcome, first, child = lines["parent"].split()
    try:
        assert (lines["child"].strip(), outcome) == ("True True", "True")
        expect_end([int(first)])
    finally:
        os.kill(int(child), signal.SIGKILL)


def test_threads_start_runs_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_SHARD_TEST", "3")
    answers: list[str] = []
    threads = [threading.Thread(target=lambda: answers.append(ask(4))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 8
    assert len(set(answers)) == 1


# An interrupt may also hit the finalizer of a run that an earlier interrupt left.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_at_any_line_of_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    for line in range(1, 100_000, 97):
        monkeypatch.setenv("NUMBA_SHARD_TEST", str(4 + line // 2000))
        injection = InterruptAt(line)
        if not injection.call(lambda: ShardedRun(GRAPH, 1).close()) and injection.left > 0:
            break
        assert ask(4)
    assert line > 500


@pytest.mark.parametrize("forks", [True, False])
def test_the_end_of_a_shard_is_described(forks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_template, "FORKS", forks)
    with ShardedRun(SHOP, 2) as run:
        run.step(CHANGES[0])
        shard = run.stats()[1].process
        os.kill(shard, signal.SIGTERM)
        expect_end([shard])
        with pytest.raises(ShardError, match=r"shard 1 of 2 ended during tick 2 \(killed by SIGTERM\)"):
            run.step(CHANGES[1])
