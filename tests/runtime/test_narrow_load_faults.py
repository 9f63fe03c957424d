"""Faults in loads of 32 bits: the run is unchanged, and the same load then has its exact result."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from types import ModuleType
from typing import Any

import pytest

from benchmarks.fault_circuits import Change, FaultCircuit, built, compiled
from benchmarks.faults import KINDS, inject
from dbsp import Circuit, MemoryLimitError, col, count
from dbsp.data import run_batch
from dbsp.parallel import narrow_sort, packed_sum
from tests.profiles import distance

from ..harness import deltas_of, views
from ..parallel.small_pieces import THREADS
from .test_narrow_loads import columns_of, narrow_loads

RULES = """
.decl e(x: number, y: number)
.decl f(y: number, z: number, w: number)
.input e, f
.decl joined(x: number, w: number)
.output joined
joined(x, w) :- e(x, y), f(y, _, w).
.decl inverse(x: number, w: number)
.output inverse
inverse(x, w) :- e(y, x), f(y, w, _).
.decl path(x: number, y: number)
.output path
path(x, y) :- e(x, y).
path(x, z) :- path(x, y), e(y, z).
.decl total(x: number, n: number, s: number)
.output total
total(x, n, s) :- e(x, _), n = count : { e(x, _) }, s = sum y : { e(x, y) }.
"""


def streams(circuit: Circuit) -> None:
    e = circuit.input("e", x=int, y=int)
    f = circuit.input("f", y=int, z=int, w=int, kind="set")
    both = e.join(f, on="y")
    circuit.output("joined", both.select("w", "x"))
    circuit.output("inverse", e.join(f, on=[("x", "y")]))
    circuit.output("missing", e.join(f, on="y", how="anti"))
    circuit.output("counts", both.group_by("w").agg(n=count(), low=col("x").min()))
    circuit.output("reversed", e.select("y", "x"))
    with circuit.fixpoint("closure") as scope:
        path = scope.variable("path", e.schema)
        step = path.join(e, on=[("y", "x")], select=["x", "y_right"]).rename(y="y_right")
        scope.define(path, (e + step).distinct())
    circuit.output("path", scope.leave(path))


def rows(seed: int) -> Change:
    """Insertions, some rows of them twice, and some that are present."""
    chance = random.Random(seed)
    e = [(chance.randrange(6), chance.randrange(6)) for _ in range(14)]
    f = [(y, chance.randrange(-3, 3), 2**31 - 1 - y) for y in range(6)]
    return {"e": {row: e.count(row) for row in e}, "f": dict.fromkeys(f, 1)}


COLUMNS = {"e": "xy", "f": "yzw"}
EMPTY: Change = {"e": {}, "f": {}}
FIRST: Change = {"e": {(1, 2): 1, (7, 1): 2}, "f": {(1, 1, 1): 1}}
LOADS = [
    FaultCircuit(f"{name} {state}", start, first, rows)
    for name, start in (("rules", compiled(RULES)), ("streams", built(streams)))
    for state, first in (("empty", EMPTY), ("with rows", FIRST))
]


@pytest.mark.parametrize("threads", THREADS[:2])
@pytest.mark.parametrize("circuit", LOADS, ids=lambda circuit: circuit.name)
def test_faults_at_sampled_steps_of_a_load(circuit: FaultCircuit, threads: int) -> None:
    with narrow_loads(threads):
        for seed, kind in enumerate(KINDS):
            done = inject(circuit, kind, "tables", stride=distance(199), seed=seed)
            assert not done.problems
            assert done.undone > 5


KERNELS = [
    (narrow_sort, "pack_narrow"),
    (narrow_sort, "divide_keys"),
    (narrow_sort, "sort_divided"),
    (narrow_sort, "unpack_narrow"),
    (run_batch, "count_different"),
    (run_batch, "sum_repeated"),
    (packed_sum, "scatter_keys"),
    (packed_sum, "sum_scattered"),
    (packed_sum, "unpack_part"),
]


@pytest.mark.parametrize("threads", THREADS[:2])
@pytest.mark.parametrize(("module", "name"), KERNELS, ids=lambda value: getattr(value, "__name__", value))
def test_a_kernel_that_fails_after_it_has_changed_its_arrays(
    module: ModuleType, name: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fails in the n-th call of a tick, for some n, also in another thread than the tick's."""
    kernel = getattr(module, name)
    calls = itertools.count()
    failing = -1

    def call(*arguments: Any) -> Any:
        found = kernel(*arguments)
        if next(calls) == failing:
            raise MemoryError
        return found

    monkeypatch.setattr(module, name, call)
    circuit = LOADS[-1]
    run, right = circuit.start(), circuit.start()
    at = 0
    with narrow_loads(threads):
        while True:
            change = rows(at)
            calls, failing, before = itertools.count(), at, views(run)
            failed = False
            try:
                run.step(tables_of(change))
            except MemoryLimitError:
                failed = True
            failing = -1
            if not failed:
                break
            assert views(run) == before
            assert deltas_of(run.step(tables_of(change))) == deltas_of(right.step(change))
            gone = {name: dict.fromkeys(list(part)[::2], -1) for name, part in change.items()}
            assert deltas_of(run.step(gone)) == deltas_of(right.step(gone))
            assert views(run) == views(right)
            at += 1 if at < 3 else 5
    assert at


def tables_of(change: Change) -> dict[str, Any]:
    return {name: columns_of(list(Counter(part).elements()), COLUMNS[name]) for name, part in change.items()}
