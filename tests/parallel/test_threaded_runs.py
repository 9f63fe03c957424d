"""Runs in pieces of a few rows: every tick equals recomputation, with any number of threads."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dbsp
from benchmarks.fault_circuits import CIRCUITS
from benchmarks.faults import inject
from dbsp import Circuit, DbspError, Run, WeightOverflowError, count
from dbsp.kernels import thread_pool
from dbsp.kernels.thread_count import set_threads
from dbsp.operators.joins.match_budget import MatchBudget
from dbsp.parallel import probe_pieces
from tests.compiler.support import AS_WRITTEN
from tests.harness import apply_set
from tests.live_program import Change, Subject
from tests.operators.recursion.closures import reachable
from tests.profiles import examples
from tests.random_datalog import programs
from tests.reference import Z
from tests.test_programs import VALUES, program_changes

from .small_pieces import THREADS, small_pieces

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]


def check(subject: Subject, ticks: list[list[Change]]) -> None:
    """Apply the ticks with each number of threads; `LiveProgram` compares with the reference."""
    initial, *others = ticks
    for threads in THREADS:
        with small_pieces(threads):
            live = subject.start(initial)
            for tick in others:
                live.tick(tick)


@settings(max_examples=examples(40), deadline=None, suppress_health_check=SLOW)
@given(programs(), st.data())
def test_random_programs(text: str, data: st.DataObject) -> None:
    subject = Subject(text)
    check(subject, data.draw(program_changes(subject, VALUES)))


@settings(max_examples=examples(24), deadline=None, suppress_health_check=SLOW)
@given(programs(cyclic=True), st.data())
def test_random_programs_with_multiway_joins(text: str, data: st.DataObject) -> None:
    subject = Subject(text, strategy="wcoj")
    check(subject, data.draw(program_changes(subject, VALUES)))


@settings(max_examples=examples(24), deadline=None, suppress_health_check=SLOW)
@given(programs(), st.data())
def test_random_programs_with_incremental_recursion(text: str, data: st.DataObject) -> None:
    subject = Subject(text, recursion="incremental")
    check(subject, data.draw(program_changes(subject, VALUES)))


# --- equal in every bit -------------------------------------------------------------------------


CLOSURE = """
.decl e(x: number, y: number)
.input e
.decl path(x: number, y: number)
.output path
path(x, y) :- e(x, y).
path(x, z) :- path(x, y), path(y, z).
.decl triangle(x: number, y: number, z: number)
.output triangle
triangle(x, y, z) :- e(x, y), e(y, z), e(x, z).
.decl degree(x: number, n: number)
.output degree
degree(x, n) :- e(x, _), n = count : { e(x, _) }.
"""


def graph(nodes: int, edges: int) -> list[tuple[int, int]]:
    chance = np.random.default_rng(nodes)
    return [(int(x), int(y)) for x, y in chance.integers(0, nodes, (edges, 2))]


def traced(run: Run, ticks: list[Any]) -> list[Any]:
    """Return every delta and the rows of every view, in order, and the counted prefixes."""
    found: list[Any] = []
    for tick in ticks:
        result = run.step(tick)
        found.append({name: list(result[name].to_dict().items()) for name in result})
    found.append({name: list(run.view(name).to_dict().items()) for name in run.outputs})
    return [*found, run.state_rows, list(run.join_terms().values())]


@pytest.mark.parametrize("threads", [1, 2])
def test_matches_of_later_iterations_in_pieces(threads: int) -> None:
    """Changes of both signs meet rows of all iterations, whose matches wait for later ones."""
    program = dbsp.compile(CLOSURE, strategy="binary", recursion="incremental", rewrites=AS_WRITTEN)
    chance = random.Random(threads)
    present: Z = {}
    with small_pieces(threads):
        run = program.start()
        for number in range(60):
            size = 12 if number < 3 else chance.randrange(1, 9)
            changed = {(chance.randrange(9), chance.randrange(9)) for _ in range(size)}
            tick = {edge: -1 if edge in present else 1 for edge in changed}
            run.step({"e": tick})
            present = apply_set(present, tick)
            assert run.view("path").to_dict() == reachable(present)


@pytest.mark.parametrize("strategy", ["wcoj", "binary"])
def test_any_number_of_threads_gives_the_same_rows_and_state(
    strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the same work: a fixpoint restarts after a number of matches."""
    spent = [0]
    genuine = MatchBudget.spend

    def spend(budget: MatchBudget, matches: int) -> None:
        spent[-1] += matches
        genuine(budget, matches)

    monkeypatch.setattr(MatchBudget, "spend", spend)
    edges = graph(24, 60)
    ticks: list[Any] = [{"e": edges}, {"e": dict.fromkeys(edges[:20], -1)}, {"e": edges[10:15]}]
    program = dbsp.compile(CLOSURE, strategy=strategy, rewrites=AS_WRITTEN)
    expected = traced(program.start(), ticks)
    for threads in THREADS:
        spent.append(0)
        with small_pieces(threads):
            assert traced(program.start(), ticks) == expected
    assert len(set(spent)) == 1
    assert spent[0] > 1000 or strategy == "wcoj"  # counts matches in scopes with times only


def test_large_ticks_are_computed_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limits of a large batch are low enough for a load, and several threads do take part."""
    counts: list[int] = []
    genuine = thread_pool._complete

    def complete(work: Any, helpers: int) -> Any:
        counts.append(helpers)
        return genuine(work, helpers)

    monkeypatch.setattr(thread_pool, "_complete", complete)
    chance = np.random.default_rng(5)
    edges = np.unique(chance.integers(0, 150_000, (300_000, 2)), axis=0)
    circuit = Circuit("load")
    source = circuit.input("e", x=int, y=int)
    longer = source.join(source, on=[("y", "x")], select=["x", "y_right"])
    circuit.output("paths", longer.group_by("x").agg(n=count()))
    results = []
    for threads in (1, 2):
        set_threads(threads)
        try:
            run = circuit.start()
            run.step({"e": dbsp.ZSet.from_numpy(chance.permutation(edges))})
            results.append(run.view("paths").to_dict())
        finally:
            set_threads(None)
        assert bool(counts) == (threads == 2)
    assert results[0] == results[1]
    assert len(counts) > 5


# --- errors -------------------------------------------------------------------------------------


def products() -> Run:
    circuit = Circuit("products")
    left, right = (circuit.input(name, kind="zset", x=int, y=int) for name in ("a", "b"))
    circuit.output("out", left.join(right, on=["x"]))
    return circuit.start()


def heavy(weight: int, rows: int = 20) -> dict[tuple[int, int], int]:
    return {(x, 0): weight if x == 11 else 1 for x in range(rows)}


def test_an_overflow_in_one_piece_undoes_the_tick() -> None:
    texts = set()
    for threads in (1, 4):
        with small_pieces(threads):
            run = products()
            run.step({"a": heavy(2**40), "b": {(0, 0): 1}})
            before = run.view("out").to_dict(), run.state_rows
            with pytest.raises(WeightOverflowError) as error:
                run.step({"b": heavy(2**40)})
            texts.add(str(error.value))
            assert (run.view("out").to_dict(), run.state_rows, run.tick) == (*before, 1)
            run.step({"b": heavy(2**20)})
            assert run.view("out").to_dict()[(11, 0, 0)] == 2**60
    with small_pieces(1):
        run = products()
        run.step({"a": heavy(2**40), "b": {(0, 0): 1}})
        with pytest.raises(WeightOverflowError) as error:
            run.step({"b": heavy(2**40)})
    assert texts == {str(error.value)}


def test_a_piece_without_memory_undoes_the_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    with small_pieces(4):
        run = products()
        run.step({"a": heavy(1), "b": {(0, 0): 1}})
        genuine = probe_pieces.in_pieces

        def fail(count: int, function: Any) -> Any:
            def short(piece: int) -> Any:
                if piece == count // 2:
                    raise MemoryError
                return function(piece)

            return genuine(count, short)

        with monkeypatch.context() as patch:
            patch.setattr(probe_pieces, "in_pieces", fail)
            with pytest.raises(DbspError, match="memory"):
                run.step({"b": heavy(1)})
        assert run.tick == 1
        run.step({"b": heavy(1)})
        assert len(run.view("out")) == 20


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("kind", [KeyboardInterrupt, MemoryError])
def test_faults_in_pieces(kind: type[BaseException]) -> None:
    with small_pieces(2):
        for circuit in CIRCUITS[:4]:
            done = inject(circuit, kind, stride=211)
            assert not done.problems
            assert done.undone + done.committed > 0
