"""An exception at any point of a tick: the run equals one without the tick, or one with it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import dbsp
from benchmarks.fault_circuits import CIRCUITS, FaultCircuit
from benchmarks.faults import HOW, KINDS, Injector, inject
from dbsp import (
    Circuit,
    CircuitError,
    EvaluationError,
    MemoryLimitError,
    Run,
    UserFunctionError,
    col,
    count,
)
from dbsp.data.interner import Interner
from dbsp.data.types import Layout
from dbsp.deferred_signals import call_undisturbed, interrupt_behind
from dbsp.durable import Store
from dbsp.runtime.input_handle import InputHandle
from dbsp.runtime.scope import Scope
from dbsp.state.trace import Trace
from tests.profiles import distance

# Python ignores an exception that a generator raises while it is closed.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("circuit", CIRCUITS, ids=lambda circuit: circuit.name)
def test_faults_at_sampled_steps(circuit: FaultCircuit, how: str) -> None:
    # `python -m benchmarks faults` injects them at every step.
    stride = {"stage": 97, "compact": 97, "transaction": 1801, "reopened transaction": 1801}.get(how, 701)
    if how in ("spilled", "replan", "compact") or circuit.name == "nested":  # these have many steps
        stride = distance(stride)
    for seed, kind in enumerate(KINDS):
        done = inject(circuit, kind, how, stride=stride, seed=seed)
        if not done.undone + done.committed:  # a tick of few steps ends before the first sampled one
            done = inject(circuit, kind, how, stride=stride // 8, seed=seed)
        assert not done.problems
        assert done.undone + done.committed > 0


@pytest.mark.parametrize("circuit", CIRCUITS[:3], ids=lambda circuit: circuit.name)
def test_faults_at_sampled_bytecodes(circuit: FaultCircuit) -> None:
    done = inject(circuit, KeyboardInterrupt, "durable", opcodes=True, stride=179)
    assert not done.problems
    assert done.undone > 10
    assert done.committed > 0


def test_the_injection_notices_state_that_is_not_rolled_back() -> None:
    with patch.object(Trace, "rollback", lambda trace: None):
        assert inject(CIRCUITS[0], MemoryError, stride=17).problems


# --- values ---------------------------------------------------------------------------------------


def many(names: Interner) -> None:
    names.encode_many([f"many{i}" for i in range(5)])


def one_by_one(names: Interner) -> None:
    for value in ("one", 7, ("pair", (1, "inner")), frozenset({"set"})):
        names.encode(value)


def constructed(names: Interner) -> None:
    for start in (0, 12, 24):  # the second call makes the table grow
        rows = np.array([(i, -1) for i in range(start, start + 12)])
        names.construct(Layout("", (False, True)), rows)


@pytest.mark.parametrize("add", [many, one_by_one, constructed])
def test_an_interrupted_addition_of_values_leaves_none(add: Callable[[Interner], None]) -> None:
    at = 0
    while True:
        names = Interner()
        names.encode_many(["a", "b"])
        injector = Injector(KeyboardInterrupt, at, None, opcodes=True)
        injector.call(lambda names=names: add(names))  # type: ignore[misc]
        for more in (add, many, one_by_one, constructed):
            more(names)
        layout = Layout("", (False, True))
        cells = [names.construct_one(layout, (i, -1)) for i in range(36)]
        assert [names.encode(value) for value in ("a", "b")] == [0, 1]
        for value in ("a", *(f"many{i}" for i in range(5)), "one", 7, ("pair", (1, "inner"))):
            assert names.decode(names.encode(value)) == value
        values = names.decode_many(range(len(names)))
        plain = [i for i, value in enumerate(values) if repr(value) != "<cell>"]
        assert [names.find(values[i]) for i in plain] == plain
        assert sorted(cells) == sorted(set(range(len(values))) - set(plain))
        assert [names.cells.cell(cell)[1] for cell in cells] == [[i, -1] for i in range(36)]
        if not injector.place:
            break
        at += 3
    assert at > 100


# --- the changes staged by handles ----------------------------------------------------------------


def quotients() -> Run:
    circuit = Circuit("quotients")
    circuit.output("q", circuit.input("a", x=int).map(q=10 // col("x")))
    return circuit.start()


def test_staged_changes_remain_after_a_tick_that_was_rolled_back() -> None:
    run = quotients()
    run.input("a").insert([(5,)])
    with pytest.raises(EvaluationError):
        run.step({"a": [(0,)]})
    assert repr(run.input("a")) == "<input 'a' (x: int): 1 row staged>"
    assert run.step()["q"].to_dict() == {(2,): 1}
    assert run.step()["q"].to_dict() == {}


def test_clear_drops_staged_changes() -> None:
    run = quotients()
    run.input("a").insert([(0,)])
    with pytest.raises(EvaluationError):
        run.step()
    run.input("a").clear()
    assert run.step({"a": [(2,)]})["q"].to_dict() == {(5,): 1}


def test_changes_staged_by_a_callback_wait_for_the_next_tick() -> None:
    circuit = Circuit("staging")
    source = circuit.input("a", x=int)
    runs: list[Run] = []

    def stage(delta: Any) -> None:
        if (9,) not in delta.to_dict():
            runs[0].input("a").insert([(9,)])

    source.inspect(stage)
    circuit.output("all", source)
    runs.append(circuit.start())
    runs[0].input("a").insert([(1,)])
    assert runs[0].step()["all"].to_dict() == {(1,): 1}
    assert runs[0].step()["all"].to_dict() == {(9,): 1}


def test_a_commit_that_is_repeated_removes_only_the_changes_of_its_tick() -> None:
    circuit = Circuit("staging")
    runs: list[Run] = []

    def stage(row: Any) -> bool:
        if row.x == 1:
            runs[0].input("a").insert([(9,)])
        return True

    circuit.output("all", circuit.input("a", x=int).filter(stage))
    runs.append(circuit.start())
    runs[0].input("a").insert([(1,)])
    genuine = InputHandle.remove
    interrupts = [KeyboardInterrupt]

    def remove(handle: InputHandle, pieces: Any) -> None:
        genuine(handle, pieces)
        if interrupts:
            raise interrupts.pop()

    with patch.object(InputHandle, "remove", remove), pytest.raises(KeyboardInterrupt):
        runs[0].step()
    assert runs[0].tick == 1
    assert runs[0].step()["all"].to_dict() == {(9,): 1}


# --- callbacks ------------------------------------------------------------------------------------


def test_callbacks_that_an_interrupt_prevented_are_called_before_the_next_tick() -> None:
    circuit = Circuit("callbacks")
    source = circuit.input("a", x=int)
    seen: list[Any] = []
    interrupt = [True]

    def first(delta: Any) -> None:
        if interrupt:
            interrupt.clear()
            raise KeyboardInterrupt

    source.inspect(first)
    source.inspect(lambda delta: seen.append(delta.to_dict()))
    circuit.output("all", source)
    run = circuit.start()
    with pytest.raises(KeyboardInterrupt):
        run.step({"a": [(1,)]})
    assert (run.tick, run.view("all").rows(), seen) == (1, [(1,)], [])
    with pytest.raises(dbsp.InputError):
        run.step({"a": [("text",)]})
    run.step({"a": [(2,)]})
    assert seen == [{(1,): 1}, {(2,): 1}]


def test_callbacks_get_nothing_of_a_tick_that_was_rolled_back() -> None:
    circuit = Circuit("callbacks")
    source = circuit.input("a", x=int)
    seen: list[Any] = []
    source.inspect(lambda delta: seen.append(delta.to_dict()))
    circuit.output("q", source.map(q=10 // col("x")))
    run = circuit.start()
    with pytest.raises(EvaluationError):
        run.step({"a": [(0,)]})
    run.step({"a": [(5,)]})
    assert seen == [{(5,): 1}]


# --- threads --------------------------------------------------------------------------------------


def test_another_thread_cannot_use_a_run_in_a_tick() -> None:
    inside, done = threading.Event(), threading.Event()

    def wait(row: Any) -> bool:
        inside.set()
        return done.wait(60)

    circuit = Circuit("waiting")
    circuit.output("all", circuit.input("a", x=int).filter(wait))
    run = circuit.start()
    thread = threading.Thread(target=run.step, args=({"a": [(1,)]},), name="the first")
    thread.start()
    inside.wait(60)
    message = "step is running in thread 'the first', and a run serves one thread at a time"
    try:
        for use in (run.step, lambda: run.view("all"), lambda: run.tick, run.replan, run.compact):
            with pytest.raises(CircuitError, match=message):
                use()
    finally:
        done.set()
        thread.join()
    assert run.view("all").rows() == [(1,)]


def test_a_tick_inside_a_tick_is_refused() -> None:
    circuit = Circuit("again")
    runs: list[Run] = []
    circuit.output("all", circuit.input("a", x=int).filter(lambda row: bool(runs[0].step()) or True))
    runs.append(circuit.start())
    with pytest.raises(UserFunctionError, match="step was called inside a tick, by a function"):
        runs[0].step({"a": [(1,)]})
    assert runs[0].tick == 0


# --- memory ---------------------------------------------------------------------------------------


def counted() -> Run:
    circuit = Circuit("counted")
    circuit.output("n", circuit.input("a", x=int).group_by("x").agg(n=count()))
    return circuit.start()


def test_a_merge_without_memory_is_dropped() -> None:
    run, other = counted(), counted()
    with patch.object(Trace, "_merge_within", side_effect=MemoryError):
        for tick in range(40):
            change = {"a": {(tick % 3,): 1, (tick,): 1}}
            assert run.step(change)["n"].to_dict() == other.step(change)["n"].to_dict()
    for tick in range(40):
        change = {"a": {(tick,): -1}}
        assert run.step(change)["n"].to_dict() == other.step(change)["n"].to_dict()


def test_a_commit_without_memory_is_repeated() -> None:
    run = counted()
    with patch.object(Scope, "commit", autospec=True, side_effect=[MemoryError, None]) as commit:
        result = run.step({"a": [(1,)]})
    assert commit.call_count == 2
    assert (result.number, run.tick) == (1, 1)


def test_a_commit_without_any_memory_is_completed_at_the_next_use() -> None:
    run = counted()
    with (
        patch.object(Scope, "commit", side_effect=MemoryError),
        pytest.raises(MemoryLimitError, match="the run completes tick 1 at its next use"),
    ):
        run.step({"a": [(1,)]})
    assert run.view("n").to_dict() == {(1, 1): 1}
    assert run.tick == 1


def test_a_rollback_without_any_memory_is_completed_at_the_next_use() -> None:
    run = counted()
    with (
        patch.object(Scope, "rollback", side_effect=MemoryError),
        patch.object(Scope, "run", side_effect=MemoryError),
        pytest.raises(MemoryLimitError, match="the run undoes tick 1 at its next use"),
    ):
        run.step({"a": [(1,)]})
    assert run.tick == 0
    assert run.step({"a": [(1,)]})["n"].to_dict() == {(1, 1): 1}


def test_a_tick_of_the_journal_is_not_overwritten(tmp_path: Path) -> None:
    program = dbsp.compile(".decl a(s: symbol) .input a .output a")
    run = program.start(checkpoint=Store(tmp_path, sync=False))
    run.step({"a": [("one",)]})
    with patch.object(Scope, "commit", side_effect=MemoryError), pytest.raises(MemoryLimitError):
        run.step({"a": [("two",)]})
    run.step({"a": [("three",)]})
    expected = [("one",), ("three",), ("two",)]
    assert (run.tick, run.view("a").rows()) == (3, expected)
    assert run.log is not None
    run.log.close()
    again = program.start(checkpoint=tmp_path)
    assert (again.tick, again.view("a").rows()) == (3, expected)


def test_a_tick_in_the_journal_is_committed_in_memory(tmp_path: Path) -> None:
    program = dbsp.compile(".decl a(s: symbol) .input a .output a")
    run = program.start(checkpoint=Store(tmp_path, sync=False))
    genuine = Store.record

    def record(store: Store, *arguments: Any) -> None:
        genuine(store, *arguments)
        raise KeyboardInterrupt

    with patch.object(Store, "record", record), pytest.raises(KeyboardInterrupt):
        run.step({"a": [("one",)]}, label="first")
    assert run.log is not None
    assert (run.tick, run.log.label, run.view("a").rows()) == (1, "first", [("one",)])
    run.step({"a": [("two",)]})
    run.log.close()
    again = program.start(checkpoint=tmp_path)
    assert (again.tick, again.view("a").rows()) == (2, [("one",), ("two",)])


# --- signals --------------------------------------------------------------------------------------


def test_signals_wait_until_a_kernel_is_loaded() -> None:
    steps: list[str] = []

    def load() -> None:
        signal.raise_signal(signal.SIGINT)
        steps.append("loaded")

    # A process in the background ignores the signal, unless it sets a handler.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            call_undisturbed(load)
        with pytest.raises(KeyboardInterrupt):
            call_undisturbed(lambda: (call_undisturbed(load), steps.append("outer")))
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert steps == ["loaded", "loaded", "outer"]
    assert call_undisturbed(lambda: 7) == 7


@pytest.mark.parametrize("nested", [False, True])
def test_an_error_in_the_deferral_of_signals_loses_no_later_signal(nested: bool) -> None:
    def work() -> None:
        if nested:
            call_undisturbed(int)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        for step in range(10_000):
            injector = Injector(MemoryError, step, None, opcodes=True)
            injector.call(lambda: call_undisturbed(work))
            for call in (signal.raise_signal, partial(call_undisturbed, signal.raise_signal)):
                with pytest.raises(KeyboardInterrupt):
                    call(signal.SIGINT)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            if not injector.place:
                break
    finally:
        signal.signal(signal.SIGINT, before)
    assert 100 < step < 9_999


def test_kernels_are_loaded_in_other_threads_too() -> None:
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(call_undisturbed(lambda: 7)))
    thread.start()
    thread.join()
    assert found == [7]


@pytest.mark.parametrize("cause", [KeyboardInterrupt(), MemoryError()])
def test_an_interrupt_that_numba_reports_as_an_error_of_the_system(cause: BaseException) -> None:
    inner, outer = SystemError("inner"), SystemError("outer")
    inner.__cause__, outer.__cause__ = cause, inner
    assert interrupt_behind(outer) is cause
    run = counted()
    with patch.object(Scope, "run", side_effect=outer):
        with pytest.raises((KeyboardInterrupt, MemoryLimitError)):
            run.step({"a": [(1,)]})
        with pytest.raises(SystemError, match="another"):
            patch.object(Scope, "run", side_effect=SystemError("another")).start()
            try:
                run.step({"a": [(1,)]})
            finally:
                patch.stopall()
    assert run.tick == 0


def test_signals_at_random_times() -> None:
    """A real signal handler raises at random times, without any guard."""
    circuit = next(circuit for circuit in CIRCUITS if circuit.name == "records")
    run, right = circuit.start(), circuit.start()
    for each in (run, right):
        each.step(circuit.first)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    interrupted = 0
    try:
        for n in range(400):
            change = circuit.tick(n)
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.00005 + n % 40 * 0.00005)
                run.step(change)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                interrupted += 1
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            expected = right.step(change)
            if run.tick < right.tick:
                delta = run.step(change)
                assert {name: delta[name].to_dict() for name in delta} == {
                    name: expected[name].to_dict() for name in expected
                }
    except KeyboardInterrupt:
        pytest.fail("a signal arrived after its tick")
    finally:
        signal.signal(signal.SIGALRM, before)
    assert interrupted
    assert [run.view(name).to_dict() for name in run.outputs] == [
        right.view(name).to_dict() for name in right.outputs
    ]
