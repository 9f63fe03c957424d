"""A sharded run returns what a run of one process returns, and raises the same errors."""

from __future__ import annotations

import datetime as dt
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dbsp
from dbsp import Circuit, CircuitError, DbspError, ShardError, UserFunctionError
from dbsp.data.interner import Interner
from dbsp.data.types import INT
from dbsp.data.value_hashes import ValueHashes
from dbsp.shards.sharded_run import ShardedRun
from dbsp.shards.shipped_errors import ShardTracebackError
from tests.harness import deltas_of, views
from tests.shards.interrupted_lines import InterruptAt
from tests.shards.process_ends import alive, expect_end
from tests.shards.shop_circuit import CHANGES, ENDS, EXITS, FAILS, FULL, SLEEPS, shop

GRAPH = shop().circuit("distributed")
ROOT = Path(__file__).resolve().parent.parent.parent


class Pair:
    """A sharded run beside a run of one process."""

    def __init__(self, shards: int) -> None:
        self.one = shop().start()
        self.many = ShardedRun(GRAPH, shards)

    def tick(self, changes: Any) -> None:
        one, many = self.one.step(changes), self.many.step(changes)
        assert deltas_of(many) == deltas_of(one)
        assert (many.number, many.absent, many.present) == (one.number, one.absent, one.present)
        self.compare()

    def compare(self) -> None:
        assert self.many.tick == self.one.tick
        assert views(self.many) == views(self.one)

    def fail(self, changes: Any) -> DbspError:
        """Apply changes that raise the same error in both; return that of the sharded run."""
        with pytest.raises(DbspError) as expected:
            self.one.step(changes)
        with pytest.raises(DbspError) as found:
            self.many.step(changes)
        error = found.value
        assert type(error) is type(expected.value)
        assert str(error) == str(expected.value)
        assert (error.where, error.code) == (expected.value.where, expected.value.code)
        self.compare()
        return error


@pytest.fixture(scope="module")
def started() -> Iterator[Pair]:
    pair = Pair(2)
    yield pair
    pair.many.close()


@pytest.fixture
def pair(started: Pair) -> Iterator[Pair]:
    """Both runs, whose views are equal before and after each test."""
    started.compare()
    yield started
    started.tick({"sale": [(started.one.tick + 1000, "later")]})


def test_ticks_and_views_are_those_of_one_process(pair: Pair) -> None:
    for changes in CHANGES:
        pair.tick(changes)
    assert len(pair.many.view("paid")) == 3
    assert pair.many.inputs == pair.one.inputs
    assert pair.many.outputs == pair.one.outputs


def test_staged_changes_are_applied(pair: Pair) -> None:
    for run in (pair.one, pair.many):
        run.input("sale").insert([(500, "plum"), (501, "plum")])
        run.input("sale").delete([(501, "plum")])
        run.input("price").upsert([("plum", 3)])
    pair.tick({"visit": [(4,)]})
    assert pair.many.view("paid").to_dict()[500, "plum", 3] == 1


def test_staged_changes_stay_after_an_error(pair: Pair) -> None:
    for run in (pair.one, pair.many):
        run.input("sale").insert([(600, "nut")])
    pair.fail({"visit": [(FAILS,)]})
    pair.tick({})
    assert pair.many.view("large").to_dict()[600, "nut"] == 1


def test_a_data_frame_is_a_change(pair: Pair) -> None:
    import polars

    pair.tick({"sale": polars.DataFrame({"item": ["kiwi", "kiwi"], "id": [700, 701], "weight": [1, 1]})})


@pytest.mark.parametrize(
    "changes",
    [
        {"sale": [("x", "pear")]},
        {"sales": [(1, "pear")]},
        {"large": [(1, "pear")]},
        {"price": {("a", 1): 1, ("a", 2): 1}},
        {"visit": {(1,): 2**63 - 1, (2,): 1}, "sale": 7},
        [("sale", 1)],
    ],
)
def test_errors_of_changes(pair: Pair, changes: Any) -> None:
    pair.fail(changes)


def test_an_error_of_a_shard_has_its_cause(pair: Pair) -> None:
    error = pair.fail({"visit": [(1,), (FAILS,)], "sale": [(800, "lost")]})
    assert isinstance(error, UserFunctionError)
    assert isinstance(error.__cause__, ValueError)
    assert "thirteen" in str(error.__cause__)
    assert "shop_circuit.py" in "".join(error.__cause__.__notes__)


def test_an_exception_that_cannot_be_pickled_has_a_text(pair: Pair) -> None:
    error = pair.fail({"visit": [(FAILS + 1,)]})
    assert isinstance(error.__cause__, ShardTracebackError)
    assert "OddError: odd 14" in str(error.__cause__)


def test_an_overflow_names_its_node(pair: Pair) -> None:
    pair.tick({"visit": {(9,): 2**62}})
    pair.tick({"visit": {(9,): 2**62 - 1}})
    pair.fail({"visit": {(9,): 2**62}})
    pair.tick({"visit": {(9,): -(2**62)}})
    pair.tick({"visit": {(9,): -(2**62 - 1)}})


def test_exit_of_a_function_ends_the_tick_only(pair: Pair) -> None:
    with pytest.raises(SystemExit):
        pair.many.step({"visit": [(EXITS,)], "sale": [(801, "lost")]})
    pair.compare()


@pytest.mark.parametrize("call", ["step", "view"])
def test_an_error_after_the_commit_is_raised_by_the_next_call(call: str) -> None:
    with ShardedRun(GRAPH, 2) as run:
        result = run.step({"visit": [(FULL,), (5,)]})
        assert result["visits"].to_dict() == {(FULL, 0): 1, (5, 2): 1}
        with pytest.raises(dbsp.MemoryLimitError, match="no space to merge"):
            run.step({"visit": [(6,)], "sale": [(7, "lost")]}) if call == "step" else run.view("visits")
        assert (run.tick, run.view("visits").to_dict()) == (1, {(FULL, 0): 1, (5, 2): 1})
        assert run.view("large").to_dict() == {}
        assert run.step({"visit": [(6,)]})["visits"].to_dict() == {(6, 0): 1}


def test_preview_changes_nothing(pair: Pair) -> None:
    change = {"sale": [(900, "melon")]}
    expected = pair.one.preview(pair.one.prepare(change))
    assert deltas_of(pair.many.preview(pair.many.prepare(change))) == deltas_of(expected)
    pair.compare()


def test_stats_and_compact(pair: Pair) -> None:
    pair.tick({"sale": [(number, f"tea {number}") for number in range(930, 940)]})
    stats = pair.many.stats()
    assert [each.shard for each in stats] == [0, 1]
    assert len({each.process for each in stats} | {os.getpid()}) == 3
    assert all(each.rows > 0 and each.values > 0 for each in stats)
    assert any(counters.bytes_sent > 0 for each in stats for counters in each.exchanges.values())
    pair.tick({"sale": [(950, "gone")]})
    pair.tick({"sale": {(950, "gone"): -1}})
    assert pair.many.compact().rows > 0
    pair.compare()


def test_the_change_of_an_input_has_rows_that_are_equal_in_python() -> None:
    circuit = Circuit("calls")
    circuit.output("call", circuit.input("call", n=int, at="timestamptz(Europe/Rome)"))
    night = dt.datetime(2024, 10, 27, tzinfo=dt.UTC)
    rows = [(n, night + dt.timedelta(minutes=minutes)) for n in range(9) for minutes in (30, 90)]
    with circuit.start(shards=2) as run:
        run.step({"call": rows})
        assert len(run.changed("call")) == len(rows)
        assert run.changed("call") == run.view("call")


def test_unknown_outputs_and_refused_methods(pair: Pair) -> None:
    with pytest.raises(KeyError, match="unknown output 'lage'"):
        pair.many.view("lage")
    with pytest.raises(CircuitError, match="a sharded run has no transaction; stage the parts"):
        pair.many.transaction()
    with pytest.raises(CircuitError, match="cannot be pickled"):
        pair.many.__reduce__()


# --- interrupts -----------------------------------------------------------------------------------


def interrupt_process() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def interrupt_this_thread() -> None:
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)


@pytest.mark.parametrize("interrupt", [interrupt_process, interrupt_this_thread])
def test_an_interrupt_ends_a_tick_that_shards_compute(pair: Pair, interrupt: Callable[[], None]) -> None:
    threading.Timer(0.5, interrupt).start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        pair.many.step({"visit": [(SLEEPS,)], "sale": [(802, "lost")]})
    assert time.monotonic() - started < 100
    pair.compare()


def test_a_failed_tick_does_not_wait_for_a_shard_that_computes(pair: Pair) -> None:
    numbers = np.array([[FAILS], [SLEEPS]])
    assert sorted(ValueHashes(Interner()).shards(numbers, (0,), (INT,), 2)) == [0, 1]
    started = time.monotonic()
    with pytest.raises(UserFunctionError) as error:
        pair.many.step({"visit": [(SLEEPS,), (FAILS,)], "sale": [(802, "lost")]})
    assert "thirteen" in str(error.value.__cause__)
    assert time.monotonic() - started < 100
    pair.compare()


def test_a_shard_ignores_interrupts_between_ticks(pair: Pair) -> None:
    for stats in pair.many.stats():
        os.kill(stats.process, signal.SIGINT)
    pair.compare()


def test_an_interrupt_at_any_time(pair: Pair) -> None:
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    undone = 0
    for number in range(60):
        change = {"sale": [(number, f"late {number}")], "link": [(number, 1)], "visit": {(-number,): 1}}
        before = pair.one.tick
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.0003 * (1 + number % 12))
            pair.many.step(change)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            pass
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        if pair.many.tick > before:
            pair.one.step(change)
        else:
            undone += 1
        pair.compare()
    assert undone > 5


def test_signals_of_other_programs_change_nothing(pair: Pair) -> None:
    processes = [stats.process for stats in pair.many.stats()]
    ended = threading.Event()

    def send() -> None:
        gap = 0.005
        while not ended.wait(gap):
            os.kill(processes[0], signal.SIGINT)
            gap *= 1.02  # else a busy machine never finishes a tick between two signals

    thread = threading.Thread(target=send)
    thread.start()
    try:
        for number in range(20):
            pair.tick({"sale": [(number, f"signal {number}")], "link": [(number, 2)]})
    finally:
        ended.set()
        thread.join()


def test_an_interrupt_at_any_line_of_a_tick(pair: Pair) -> None:
    line = undone = done = 0
    while True:
        line += 23
        change = {"sale": [(line, f"item {line}")], "visit": [(line,)], "link": [(line, 1)]}
        injection = InterruptAt(line)
        before = pair.one.tick
        interrupted = injection.call(lambda change=change: pair.many.step(change))  # type: ignore[misc]
        if pair.many.tick > before:
            done += 1
            pair.one.step(change)
        else:
            undone += 1
        pair.compare()
        if not interrupted and injection.left > 0:
            break
    assert undone > 10
    assert done > 3


def test_an_interrupt_at_any_line_of_a_view(pair: Pair) -> None:
    for line in range(1, 100_000, 17):
        injection = InterruptAt(line)
        if not injection.call(lambda: pair.many.view("paid")) and injection.left > 0:
            break
        pair.compare()
    assert line > 100


# --- the end of processes -------------------------------------------------------------------------


def test_a_killed_shard_ends_the_run() -> None:
    run = ShardedRun(GRAPH, 2)
    run.step(CHANGES[0])
    processes = [stats.process for stats in run.stats()]
    os.kill(processes[1], signal.SIGKILL)
    expect_end(processes[1:])
    with pytest.raises(ShardError, match=r"shard 1 of 2 ended during tick 2 \(killed by SIGKILL\)") as lost:
        run.step(CHANGES[1])
    assert lost.value.code == "shard-lost"
    expect_end(processes)
    with pytest.raises(ShardError, match="its part of the state is lost"):
        run.view("large")
    assert run.tick == 1
    run.close()


def test_a_shard_that_ends_in_a_tick_ends_the_run() -> None:
    with ShardedRun(GRAPH, 2) as run:
        processes = [stats.process for stats in run.stats()]
        with pytest.raises(ShardError, match="ended during tick 1"):
            run.step({"visit": [(ENDS,), (SLEEPS,)]})
        expect_end(processes)


def test_close_ends_the_processes() -> None:
    with ShardedRun(GRAPH, 3) as run:
        processes = [stats.process for stats in run.stats()]
        assert len(processes) == 3
    assert not any(map(alive, processes))
    with pytest.raises(
        ShardError, match=r"step was called on a closed run; call it before close\(\)"
    ) as closed:
        run.step()
    assert closed.value.code == "run-closed"
    run.close()
    assert repr(run) == (
        "<run of 'shop' on 3 shards: (sale, price, visit, link) -> "
        "(large, counts, paid, seen, reached, visits), closed>"
    )


def test_a_run_that_is_not_used_any_more_ends_its_processes() -> None:
    run = ShardedRun(GRAPH, 1)
    processes = [stats.process for stats in run.stats()]
    del run
    expect_end(processes)


def test_shards_end_with_their_coordinator(tmp_path: Path) -> None:
    program = """
        import os, signal, threading, sys, time
        from pathlib import Path
        from dbsp.shards.sharded_run import ShardedRun
        from tests.shards.shop_circuit import SLEEPS, shop

        def kill():
            while not os.path.exists(os.environ["DBSP_TEST_MARK"]):
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGKILL)

        run = ShardedRun(shop().circuit("distributed"), 2)
        print(*[stats.process for stats in run.stats()], flush=True)
        threading.Thread(target=kill).start()
        run.step({"visit": [(SLEEPS,)]})
    """
    done = python(tmp_path, program, {"DBSP_TEST_MARK": str(tmp_path / "mark")})
    assert done.returncode == -signal.SIGKILL
    expect_end([int(number) for number in done.stdout.split()])


def test_a_forked_process_does_not_own_the_shards(tmp_path: Path) -> None:
    program = """
        import os
        from dbsp import ShardError
        from dbsp.shards.sharded_run import ShardedRun
        from tests.shards.shop_circuit import shop

        run = ShardedRun(shop().circuit("distributed"), 1)
        if os.fork() == 0:
            try:
                run.step()
            except ShardError as error:
                print(error, flush=True)
            del run
            os._exit(0)
        os.wait()
        print(run.step({"sale": [(7, "a")]})["large"].to_dict())
    """
    first, second = python(tmp_path, program).stdout.splitlines()
    assert first.endswith("call it in the process that has started the run [run-in-other-process]")
    assert second == "{(7, 'a'): 1}"


def test_the_shards_share_the_memory_limit() -> None:
    circuit = Circuit("sales")
    circuit.output("sales", circuit.input("sale", x=int, kind="set"))
    with ShardedRun(circuit.circuit("distributed"), 2, memory_limit="200K") as run:
        run.step({"sale": [(x,) for x in range(60_000)]})
        for stats in run.stats():
            assert stats.bytes < 100_000
            assert stats.file_bytes > 50_000
        assert len(run.view("sales")) == 60_000


# --- functions and the main module ----------------------------------------------------------------


def python(
    folder: Path, program: str, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program from a file, and return its output."""
    file = folder / "main_program.py"
    file.write_text(textwrap.dedent(program))
    path = {"PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, file],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | path | (environment or {}),
    )


MAIN = """
from dbsp import Circuit, DbspError
from dbsp.shards.sharded_run import ShardedRun

def double(row):
    return (2 * row[0],)

def start():
    circuit = Circuit("c")
    circuit.output("b", circuit.input("a", x=int).map({function}, {{"x": int}}))
    with ShardedRun(circuit.circuit("distributed"), 1) as run:
        print(run.step({{"a": [(4,)]}})["b"].to_dict())

{guard}
    try:
        start()
    except DbspError as error:
        print(error)
"""


def test_a_guarded_program_has_functions_of_its_own(tmp_path: Path) -> None:
    done = python(tmp_path, MAIN.format(function="double", guard='if __name__ == "__main__":'))
    assert (done.stdout, done.stderr) == ("{(8,): 1}\n", "")


def test_a_program_without_functions_needs_no_guard(tmp_path: Path) -> None:
    program = MAIN.format(function="double", guard="if True:").replace(
        '.map(double, {"x": int})', ".map(x=2 * __import__('dbsp').col('x'))"
    )
    done = python(tmp_path, program)
    assert (done.stdout, done.stderr) == ("{(8,): 1}\n", "")


def test_a_program_without_a_guard_has_an_error(tmp_path: Path) -> None:
    done = python(tmp_path, MAIN.format(function="double", guard="if True:"))
    assert 'put the start of the run under `if __name__ == "__main__":`' in done.stdout
    assert "[unguarded-main]" in done.stdout


def test_a_lambda_is_refused_at_its_node(tmp_path: Path) -> None:
    program = MAIN.format(function="lambda row: row", guard='if __name__ == "__main__":')
    done = python(tmp_path, program)
    assert "main_program.py:10: a function or value of this node cannot be sent" in done.stdout
    assert "define it at the top level of a module [not-picklable]" in done.stdout


def test_a_function_of_an_interactive_session_is_refused() -> None:
    program = MAIN.format(function="double", guard="if True:")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "is defined in the interactive session, which other processes cannot import" in done.stdout


# --- refusals at the start ------------------------------------------------------------------------


def test_arguments_are_checked() -> None:
    for shards in (0, -1, True, "2", 1.0):
        with pytest.raises(dbsp.ArgumentError, match="shards: expected a number of processes, 1 or more"):
            ShardedRun(GRAPH, shards)  # type: ignore[arg-type]
    with pytest.raises(dbsp.ArgumentError, match="memory_limit: expected an amount of memory"):
        ShardedRun(GRAPH, 2, memory_limit="much")
    with pytest.raises(dbsp.ArgumentError, match="graph: expected a distributed circuit"):
        ShardedRun("shop", 2)  # type: ignore[arg-type]


def test_a_circuit_that_is_not_distributed_is_refused() -> None:
    with pytest.raises(CircuitError, match=r"shop_circuit.py:\d+: expected a distributed circuit") as error:
        ShardedRun(shop().circuit("physical"), 2)
    assert error.value.code == "not-distributed"


def notice(change: Any) -> None:
    raise AssertionError("a refused circuit runs")


def test_callbacks_are_refused_at_their_node() -> None:
    circuit = shop()
    stream = circuit.input("more", x=int)
    circuit.output("more", stream.inspect(notice))
    with pytest.raises(CircuitError, match=r"^Inspect at .*: a sharded run calls no functions") as error:
        ShardedRun(circuit.circuit("distributed"), 2)
    assert error.value.code == "not-shardable"


def test_numbers_of_values_are_refused_at_their_rule() -> None:
    program = dbsp.compile(
        ".decl a(x: symbol) .input a  .decl b(n: number) .output b\nb(n) :- a(x), n = ord(x)."
    )
    with pytest.raises(CircuitError, match="ord numbers the values of one process") as error:
        ShardedRun(program.circuit("distributed"), 2)
    assert error.value.code == "not-shardable"


def test_external_inputs_are_refused_at_their_node() -> None:
    circuit = Circuit("c")
    circuit.output("b", circuit.input("a", x=int, kind="external"))
    with pytest.raises(CircuitError, match="the rows of this input are kept outside of the circuit"):
        ShardedRun(circuit.circuit("distributed"), 2)


def test_shards_keep_freed_memory_unless_the_environment_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "1000000")
    monkeypatch.delenv("MALLOC_MMAP_THRESHOLD_", raising=False)
    with ShardedRun(GRAPH, 1) as run:
        environment = Path(f"/proc/{run.stats()[0].process}/environ").read_bytes().split(b"\0")
    assert b"MALLOC_TRIM_THRESHOLD_=1000000" in environment
    assert b"MALLOC_MMAP_THRESHOLD_=33554432" in environment
