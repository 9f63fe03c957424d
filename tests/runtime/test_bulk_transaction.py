"""Transactions: many steps as one tick, all or nothing."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dbsp
from benchmarks.fault_circuits import CIRCUITS, FaultCircuit
from benchmarks.table_totals import Totals
from dbsp import (
    Circuit,
    CircuitError,
    InputError,
    MemoryLimitError,
    Run,
    UserFunctionError,
    col,
    count,
)
from dbsp.circuit.graph import Graph
from dbsp.circuit.operator_roles import depends_on_ticks
from dbsp.operators.recursion.fixpoint_step import FixpointStep
from dbsp.runtime import table_parts
from dbsp.runtime.savepoint import SavedRuns, Savepoint
from dbsp.state.state_table import StateTable
from dbsp.state.trace import Trace
from tests.harness import views
from tests.profiles import examples
from tests.random_circuits import Choices, build, choices
from tests.random_datalog import INPUTS, programs
from tests.reference import Z, add
from tests.strategies import Tick, rows, set_ticks, ticks

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]


def shop(**options: Any) -> Run:
    circuit = Circuit("shop")
    sale = circuit.input("sale", x=int)
    circuit.output("all", sale)
    circuit.output("n", sale.group_by().agg(n=count()))
    return circuit.start(**options)


def apply(run: Run, parts: list[Tick], label: Any = None) -> dict[str, Z]:
    """Apply the parts in a transaction; return the deltas of its tick."""
    with run.transaction(label) as tx:
        for part in parts:
            tx.step(part)
    return {name: delta.to_dict() for name, delta in tx.result.items()}


# --- the tick of a transaction --------------------------------------------------------------------


def test_the_steps_are_one_tick_with_the_sum_of_their_deltas() -> None:
    run = shop()
    run.step({"sale": [(1,)]})
    with run.transaction() as tx:
        tx.step({"sale": [(7,), (8,)]})
        tx.step({"sale": {(7,): -1}})
        tx.step()
    assert tx.result.number == run.tick == 2
    assert tx.result["all"].to_dict() == {(8,): 1}
    assert tx.result["n"].to_dict() == {(1,): -1, (2,): 1}
    assert tx.result.seconds > 0
    assert tx.parts == 3
    assert repr(tx) == "<transaction of 3 steps, committed>"
    assert run.step({"sale": [(9,)]}).number == 3


def test_a_transaction_without_steps_is_an_empty_tick() -> None:
    circuit = Circuit("constant")
    circuit.output("c", circuit.constant([(5,)], {"x": int}))
    run = circuit.start()
    assert repr(run.transaction()) == "<transaction, not started>"
    assert apply(run, []) == {"c": {(5,): 1}}
    assert apply(run, []) == {"c": {}}
    assert run.tick == 2


def test_views_show_the_steps_so_far() -> None:
    run = shop()
    with run.transaction() as tx:
        tx.step({"sale": [(1,), (2,)]})
        assert run.view("n").rows() == [(2,)]
        assert run.tick == 0
        tx.step({"sale": [(3,)]})
        assert run.view("n").rows() == [(3,)]


def test_callbacks_are_notified_once_with_the_summed_delta() -> None:
    circuit = Circuit("callbacks")
    source = circuit.input("a", x=int)
    seen: list[Any] = []
    source.inspect(lambda delta: seen.append(delta.to_dict()))
    circuit.output("all", source)
    run = circuit.start()
    apply(run, [{"a": {(1,): 1}}, {"a": {(2,): 1}}, {"a": {(1,): -1}}])
    assert seen == [{(2,): 1}]
    apply(run, [{"a": {(3,): 1}}, {"a": {(3,): -1}}])
    run.step({"a": [(4,)]})
    assert seen == [{(2,): 1}, {(4,): 1}]


def test_an_error_of_a_callback_leaves_the_transaction_committed() -> None:
    circuit = Circuit("callbacks")
    source = circuit.input("a", x=int)
    source.inspect(lambda delta: 1 // 0)
    circuit.output("all", source)
    run = circuit.start()
    with pytest.raises(UserFunctionError), run.transaction() as tx:
        tx.step({"a": [(1,)]})
    assert tx.result["all"].to_dict() == {(1,): 1}
    assert run.step({}).number == 2


@pytest.mark.parametrize("delayed", [False, True])
def test_the_last_change_of_a_row_or_key_wins(delayed: bool) -> None:
    circuit = Circuit("kinds")
    kept = circuit.input("kept", x=int, kind="set")
    priced = circuit.input("priced", id=int, x=int, key=["id"])
    circuit.output("kept", kept)
    circuit.output("priced", priced)
    if delayed:
        circuit.output("before", kept.delay())
    run = circuit.start()
    run.step({"kept": [(1,), (2,)], "priced": [(1, 1), (2, 2), (5, 5)]})
    with run.transaction() as tx:
        tx.step({"kept": {(1,): -1, (3,): 1, (4,): 1}, "priced": [(1, 10), (3, 30)]})
        tx.step({"kept": {(1,): 1, (3,): -1}, "priced": {(3, 30): -1, (2, 2): -1}})
        tx.step({"kept": {(2,): -1, (9,): -1}, "priced": {(1, 11): 1, (1, 10): -1}})
        run.input("priced").delete([(5,)])
        tx.step()
    assert tx.result["kept"].to_dict() == {(2,): -1, (4,): 1}
    assert tx.result["priced"].to_dict() == {(1, 1): -1, (1, 11): 1, (2, 2): -1, (5, 5): -1}
    assert run.view("kept").rows() == [(1,), (4,)]
    assert run.view("priced").rows() == [(1, 11)]
    if delayed:
        assert tx.result["before"].to_dict() == {(1,): 1, (2,): 1}


@pytest.mark.parametrize("delayed", [False, True])
def test_two_rows_of_a_key_without_an_order_are_refused(delayed: bool) -> None:
    circuit = Circuit("kinds")
    priced = circuit.input("priced", id=int, x=int, key=["id"])
    circuit.output("priced", priced.delay() if delayed else priced)
    run = circuit.start()
    with pytest.raises(CircuitError, match="one of its steps raised"), run.transaction() as tx:
        with pytest.raises(InputError, match="two rows of one key") as raised:
            tx.step({"priced": {(1, 1): 1, (1, 2): 1}})
        assert raised.value.code == "duplicate-key"
    assert run.tick == 0


def test_assertions_of_present_rows_are_counted_over_the_steps() -> None:
    circuit = Circuit("counted")
    circuit.output("out", circuit.input("a", x=int, kind="set"))
    run = circuit.start()
    run.step({"a": [(1,)]})
    with run.transaction() as tx:
        tx.step({"a": {(1,): 1, (2,): -1}})
        tx.step({"a": {(1,): 1, (3,): -1}})
    assert (tx.result.present, tx.result.absent) == ({"a": 2}, {"a": 2})


def test_a_circuit_that_depends_on_ticks_gets_the_net_change_in_one_tick() -> None:
    circuit = Circuit("delayed")
    a = circuit.input("a", x=int)
    circuit.output("now", a)
    circuit.output("before", a.delay())
    run, whole = circuit.start(), circuit.start()
    for each in (run, whole):
        each.step({"a": [(1,)]})
    with run.transaction() as tx:
        tx.step({"a": [(2,), (3,)]})
        assert run.view("now").rows() == [(1,)], "computed at the end"
        tx.step({"a": {(2,): -1}})
    expected = whole.step({"a": [(3,)]})
    assert {name: delta.to_dict() for name, delta in tx.result.items()} == {
        name: delta.to_dict() for name, delta in expected.items()
    }
    assert run.step({})["before"].to_dict() == whole.step({})["before"].to_dict() == {(3,): 1}


def test_sums_of_many_steps_are_merged() -> None:
    run = shop()
    with run.transaction() as tx:
        for start in range(0, 60_000, 2_000):
            tx.step({"sale": [(x,) for x in range(start, start + 2_000)]})
            tx.step({"sale": {(x,): -1 for x in range(start, start + 1_990)}})
            assert all(trace.rows < 6_000 for trace in run.scope.transient)
    assert len(tx.result["all"]) == 300
    assert run.scope.transient == []


def test_a_sum_outside_of_the_range_of_weights_is_refused() -> None:
    run = shop()
    run.step({"sale": {(1,): -(2**62)}})
    with pytest.raises(dbsp.WeightOverflowError, match="output 'all'"), run.transaction() as tx:
        tx.step({"sale": {(1,): 2**62}})
        tx.step({"sale": {(1,): 2**62}})
    assert run.view("all").to_dict() == {(1,): -(2**62)}


def test_tables_are_applied_by_chunks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(table_parts, "PART_ROWS", 5)
    sizes: list[int] = []
    genuine = Run.net

    def net(run: Run, changes: Any) -> Any:
        staged, taken = genuine(run, changes)
        sizes.append(sum(map(len, staged.values())))
        return staged, taken

    monkeypatch.setattr(Run, "net", net)
    for x in range(10):
        pq.write_table(pa.table({"sale": [2 * x, 2 * x + 1]}), tmp_path / f"{x}.parquet")
    tables = [pa.table({"sale": range(x, x + 3)}) for x in (20, 23, 26)]
    circuit = Circuit("two")
    for name in ("a", "b"):
        circuit.output(f"out {name}", circuit.input(name, sale=int, kind="set"))
    run = circuit.start()
    run.input("a").insert([(100,)])
    with run.transaction() as tx:
        tx.step({"a": dbsp.read_parquet(tmp_path), "b": [(1,)]})
        assert sizes == [2, 6, 6, 6, 2]
        sizes.clear()
        tx.step({"a": pa.concat_tables(tables)})
        tx.step({"b": iter(tables)})
        tx.step({"b": iter([(2,), (3,)])})
        assert sizes == [0, 9, 0, 6, 3, 2]
    assert len(tx.result["out a"]) == 30
    assert len(tx.result["out b"]) == 12
    assert tx.parts == 11


def test_a_table_that_cannot_be_read_rolls_the_transaction_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_parts, "PART_ROWS", 2)

    def tables() -> Iterator[Any]:
        yield pa.table({"x": [1, 2]})
        yield 7

    run = shop()
    refused = pytest.raises(InputError, match="relation 'sale': expected another table after the first")
    with pytest.raises(CircuitError, match="one of its steps raised"), run.transaction() as tx, refused:
        tx.step({"sale": tables()})
    assert run.view("all").rows() == []


# --- all or nothing -------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt, MemoryError, GeneratorExit])
def test_an_exception_in_the_block_rolls_everything_back(error: type[BaseException]) -> None:
    run = shop()
    run.step({"sale": [(1,)]})
    run.input("sale").insert([(5,)])
    with pytest.raises(error), run.transaction() as tx:
        tx.step({"sale": [(2,)]})
        run.input("sale").insert([(6,)])
        raise error
    assert (run.view("all").rows(), run.view("n").rows(), run.tick) == ([(1,)], [(1,)], 1)
    assert repr(tx) == "<transaction of 1 step, not committed>"
    assert run.step()["all"].to_dict() == {(5,): 1}, "staged before the block"


def test_a_step_that_raises_rolls_the_transaction_back() -> None:
    circuit = Circuit("quotients")
    circuit.output("q", circuit.input("a", x=int).map(q=10 // col("x")))
    run = circuit.start()
    with pytest.raises(dbsp.EvaluationError), run.transaction() as tx:
        tx.step({"a": [(5,)]})
        tx.step({"a": [(0,)]})
    assert run.view("q").rows() == []
    with pytest.raises(CircuitError, match="one of its steps raised") as raised, run.transaction() as tx:
        tx.step({"a": [(5,)]})
        with pytest.raises(InputError):
            tx.step({"a": [("text",)]})
        assert run.view("q").rows() == []
    assert raised.value.code == "transaction-ended"
    with pytest.raises(CircuitError, match="one of its steps raised"), run.transaction() as tx:
        with pytest.raises(InputError):
            tx.step({"a": [("text",)]})
        tx.step({"a": [(5,)]})
    assert run.step({"a": [(2,)]})["q"].to_dict() == {(5,): 1}


def test_a_failed_allocation_in_a_step() -> None:
    run = shop()
    with pytest.raises(MemoryLimitError, match="the transaction was rolled back"), run.transaction() as tx:
        tx.step({"sale": [(1,)]})
        with patch.object(Trace, "commit", side_effect=MemoryError):
            tx.step({"sale": [(2,)]})
    assert run.view("all").rows() == []

    def fail(savepoint: Savepoint) -> None:
        raise MemoryError

    with pytest.raises(MemoryLimitError, match="undoes the transaction at its next use"):  # noqa: SIM117
        with patch.object(Savepoint, "restore", fail), run.transaction() as tx:
            tx.step({"sale": [(1,)]})
            with patch.object(Trace, "commit", side_effect=MemoryError):
                tx.step({"sale": [(2,)]})
    assert run.view("all").rows() == []
    assert run.step({"sale": [(3,)]})["n"].to_dict() == {(1,): 1}


def test_a_step_whose_rollback_is_interrupted_is_undone_at_the_next_use() -> None:
    run = shop()
    staged = run.prepare({"sale": [(1,)]})
    with pytest.raises(CircuitError, match="one of its steps raised"), run.transaction() as tx:
        tx.step({"sale": [(2,)]})
        interrupted = patch.object(Run, "close_bulk", side_effect=KeyboardInterrupt)
        with (
            pytest.raises(KeyboardInterrupt),
            interrupted,
            patch.object(Trace, "commit", side_effect=OSError),
        ):
            tx.step_staged(staged)
        assert run.view("all").rows() == []
    assert run.tick == 0


@pytest.mark.parametrize("limit", [None, 20_000])
@pytest.mark.parametrize("circuit", CIRCUITS, ids=lambda circuit: circuit.name)
def test_every_kind_of_state_is_restored(circuit: FaultCircuit, limit: int | None) -> None:
    run, right = circuit.start(memory_limit=limit), circuit.start()
    for each in (run, right):
        each.step(circuit.first)
    before = views(run)
    for n in range(4):
        with pytest.raises(ZeroDivisionError), run.transaction() as tx:
            for k in range(n, n + 5):
                tx.step(circuit.tick(k))
            raise ZeroDivisionError
        assert views(run) == before
        assert apply(run, [circuit.tick(n)]) == {
            name: delta.to_dict() for name, delta in right.step(circuit.tick(n)).items()
        }
        assert views(run) == views(right)
        before = views(run)


def totals() -> Run:
    circuit = Circuit("totals")
    circuit.output("out", Totals()(circuit.input("a", x=int)))
    return circuit.start()


def test_tables_return_to_the_values_before_the_transaction() -> None:
    run = totals()
    run.step({"a": {(1,): 2, (2,): 1}})
    with pytest.raises(ZeroDivisionError), run.transaction() as tx:
        for part in ({(1,): 1, (3,): 1}, {(1,): -3, (3,): 4}, {(2,): 1}, {(2,): -2, (1,): 7}):
            tx.step({"a": part})
        raise ZeroDivisionError
    assert run.view("out").rows() == [(1, 2), (2, 1)]
    changed = apply(run, [{"a": {(1,): 1, (2,): -1}}, {"a": {(1,): 1, (3,): 1}}])
    assert changed == {"out": {(1, 2): -1, (1, 4): 1, (2, 1): -1, (3, 1): 1}}


@pytest.mark.parametrize(
    ("owner", "name"), [(StateTable, "rewind"), (Trace, "rewind"), (FixpointStep, "savepoint")]
)
def test_these_tests_notice_state_that_is_not_restored(owner: type, name: str) -> None:
    def nothing(*_: Any) -> Callable[[], None]:
        return lambda: None

    noticed = 0
    with patch.object(owner, name, nothing):
        for circuit in CIRCUITS:
            try:
                test_every_kind_of_state_is_restored(circuit, None)
            except (AssertionError, dbsp.DbspError, IndexError):
                noticed += 1
        try:
            test_tables_return_to_the_values_before_the_transaction()
        except AssertionError:
            noticed += 1
    assert noticed


# --- the memory limit -----------------------------------------------------------------------------


def moved(run: Run, first: int, last: int) -> None:
    """Apply 40 steps that replace the rows of the state, from `first` on."""
    with run.transaction() as tx:
        for start in range(first, last, 1_000):
            tx.step({"sale": {(x - 40_000,): -1 for x in range(start, start + 1_000)}})
            tx.step({"sale": [(x,) for x in range(start, start + 1_000)]})


def test_the_runs_of_a_savepoint_are_moved_to_files() -> None:
    """The old state counts, although merges have replaced it in the traces."""
    run, right = shop(memory_limit=400_000), shop()
    for each in (run, right):
        each.step({"sale": [(x,) for x in range(40_000)]})
    budget = run.scope.budget
    assert budget is not None
    before = views(right)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), run.transaction() as tx:
            for start in range(0, 40_000, 2_000):
                tx.step({"sale": {(x,): -1 for x in range(start, start + 2_000)}})
                tx.step({"sale": [(x + 100_000,) for x in range(start, start + 2_000)]})
                held = [each for each in list(budget._traces) if isinstance(each, SavedRuns)]
                assert held
                assert sum(each.nbytes for each in [*held, *run.scope.traces]) < 400_000
            raise ZeroDivisionError
        assert views(run) == before
    for each in (run, right):
        moved(each, 40_000, 80_000)
    assert views(run) == views(right)
    del held
    gc.collect()
    assert not [each for each in list(budget._traces) if isinstance(each, SavedRuns)]


def test_summed_deltas_are_moved_to_files() -> None:
    run = shop(memory_limit=400_000)
    with run.transaction() as tx:
        for start in range(0, 60_000, 2_000):
            tx.step({"sale": [(x,) for x in range(start, start + 2_000)]})
        assert any(kept.file is not None for trace in run.scope.transient for kept in trace.runs)
    assert len(tx.result["all"]) == 60_000
    assert tx.result["all"].to_dict() == {(x,): 1 for x in range(60_000)}


# --- what a transaction refuses -------------------------------------------------------------------


@pytest.mark.parametrize("name", ["step", "preview", "replan", "compact", "transaction"])
def test_other_work_is_refused_inside_a_transaction(name: str) -> None:
    run = shop()
    calls: dict[str, Callable[[], Any]] = {
        "step": lambda: run.step({"sale": [(2,)]}),
        "preview": lambda: run.preview({}),
        "replan": run.replan,
        "compact": run.compact,
        "transaction": lambda: run.transaction().__enter__(),
    }
    with run.transaction() as tx:
        tx.step({"sale": [(1,)]})
        with pytest.raises(CircuitError, match=f"^{name} was called inside a transaction") as raised:
            calls[name]()
        assert raised.value.code == "inside-transaction"
    assert tx.result["all"].to_dict() == {(1,): 1}


def test_steps_outside_of_the_block_are_refused() -> None:
    run = shop()
    tx = run.transaction()
    with pytest.raises(CircuitError, match="inside the block") as raised:
        tx.step({})
    assert raised.value.code == "transaction-ended"
    with tx:
        with pytest.raises(CircuitError, match="the transaction has no result") as raised:
            _ = tx.result
        assert raised.value.code == "inside-transaction"
    with pytest.raises(CircuitError, match="inside the block"):
        tx.step({})
    with pytest.raises(CircuitError, match="a transaction has one block"), tx:
        pass
    assert run.tick == 1


def test_a_function_of_the_circuit_cannot_continue_the_transaction() -> None:
    circuit = Circuit("again")
    steps: list[Any] = []

    def test(row: Any) -> bool:
        steps[0].step({})
        return True

    circuit.output("out", circuit.input("a", x=int).filter(test))
    run = circuit.start()
    with pytest.raises(UserFunctionError) as raised, run.transaction() as tx:
        steps.append(tx)
        tx.step({"a": [(1,)]})
    assert "called inside a tick" in str(raised.value.__cause__)
    assert run.tick == 0


# --- abandoned transactions -----------------------------------------------------------------------


def generated(run: Run) -> Iterator[None]:
    with run.transaction() as tx:
        tx.step({"sale": [(1,)]})
        yield
        tx.step({"sale": [(2,)]})
        yield


def test_a_generator_may_hold_a_transaction_open() -> None:
    run = shop()
    steps = generated(run)
    next(steps)
    next(steps)
    assert run.view("all").rows() == [(1,), (2,)]
    assert list(steps) == []
    assert run.tick == 1


def test_an_abandoned_generator_rolls_its_transaction_back() -> None:
    run = shop()
    steps = generated(run)
    next(steps)
    del steps
    gc.collect()
    assert run.view("all").rows() == []
    assert run.step({"sale": [(3,)]}).number == 1


def test_an_abandoned_transaction_is_rolled_back_at_the_next_use() -> None:
    run = shop()
    run.step({"sale": [(1,)]})
    for use in (lambda: run.step({}), lambda: run.view("all"), lambda: run.transaction().__enter__()):
        tx = run.transaction().__enter__()
        tx.step({"sale": [(2,)]})
        del tx
        gc.collect()
        use()
        assert run.view("all").rows() == [(1,)]


def test_another_object_may_hold_the_transaction() -> None:
    run = shop()
    with ExitStack() as stack:
        tx = stack.enter_context(run.transaction())
        tx.step({"sale": [(1,)]})
        assert run.view("all").rows() == [(1,)]
        tx.step({"sale": [(2,)]})
    assert tx.result["n"].to_dict() == {(2,): 1}


# --- equal to ticks -------------------------------------------------------------------------------


def stepped_at_once(run: Run, parts: list[Tick]) -> dict[str, Z]:
    """Apply the changes of all parts, in their order, as one tick."""
    for part in parts:
        for name, change in part.items():
            run.input(name).add(change)
    return {name: delta.to_dict() for name, delta in run.step().items()}


def dependent(graph: Graph) -> bool:
    return any(map(depends_on_ticks, graph.nodes))


def compare(start: Callable[[], Run], groups: list[list[Tick]]) -> None:
    """Each group in a transaction equals one tick with all changes, and one tick per change.

    Between them, a transaction that is rolled back changes nothing.
    """
    run, at_once, one_by_one = start(), start(), start()
    for number, group in enumerate(groups):
        with pytest.raises(KeyboardInterrupt), run.transaction() as tx:
            for part in groups[number - 1]:
                tx.step(part)
            raise KeyboardInterrupt
        assert views(run) == views(at_once)
        changed = apply(run, group)
        assert changed == stepped_at_once(at_once, group)
        assert views(run) == views(at_once)
        if dependent(run.graph):
            continue
        done = [one_by_one.step(part) for part in [*group, {}]]
        assert changed == {name: add(*(tick[name].to_dict() for tick in done)) for name in changed}
        assert views(run) == views(one_by_one)


row = rows(st.integers(0, 4), st.none() | st.integers(0, 4), st.sampled_from(["", "a", "b"]))
"""A row of `tests.random_circuits`."""


@settings(max_examples=examples(60), deadline=None, suppress_health_check=SLOW)
@given(choices(), st.lists(ticks({"a": row, "b": row}, max_ticks=4, max_size=4), min_size=1, max_size=3))
def test_random_circuits(chosen: Choices, groups: list[list[Tick]]) -> None:
    compare(build(chosen).start, groups)


number = st.integers(0, 3)
inputs = {name: rows(*[number] * arity) for name, arity in INPUTS.items()}


@settings(max_examples=examples(40), deadline=None, suppress_health_check=SLOW)
@given(
    programs(),
    st.sampled_from(["auto", "wcoj"]),
    st.sampled_from(["auto", "incremental", "insert-only"]),
    st.lists(set_ticks(inputs, max_ticks=4, max_size=5), min_size=1, max_size=3),
)
def test_random_programs(text: str, strategy: Any, mode: str, groups: list[list[Tick]]) -> None:
    compare(dbsp.compile(text, strategy=strategy, recursion=mode).start, groups)
