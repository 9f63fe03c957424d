"""Aggregates that keep state per group, compared with recomputing the groups from scratch."""

from __future__ import annotations

import math
import random
import statistics
from collections import Counter
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.fault_circuits import FaultCircuit, built
from benchmarks.faults import inject
from dbsp import (
    Circuit,
    Stream,
    WeightOverflowError,
    col,
    count,
)
from dbsp.operators.groups import kept_extremes, kept_values
from dbsp.operators.groups.aggregate import ForgettingAggregate
from dbsp.operators.groups.kept_extremes import Descending, ValueHeaps
from dbsp.state.journal import Journalled
from tests import reference
from tests.everywhere import follow_everywhere
from tests.harness import final_views, follow, start, view
from tests.reference import Z
from tests.strategies import Tick, floats, nullable, resplit, rows, ticks, words

from .test_order_statistics import at, number_of_values

Group = Mapping[Any, int]

COLUMNS = {"k": int, "x": int | None, "s": str | None, "f": float}
ROW = rows(st.integers(0, 1), nullable, st.none() | words, floats)
HEAVY = st.sampled_from([1, -1, 2, -3, 2**31, 2**40, -(2**40)])


def exact(group: Group) -> Fraction:
    return sum((Fraction(value) * weight for value, weight in group.items()), Fraction(0))


def total(group: Group) -> float:
    return float(exact(group))


def mean(group: Group) -> float:
    return float(exact(group)) / sum(group.values())


def middle(group: Group) -> float | None:
    """The median, without a list of all copies of the values."""
    values = sorted((v, w) for v, w in group.items() if v is not None and w > 0)
    size = sum(w for _, w in values)
    found = []
    for position in ((size - 1) // 2, size // 2):
        passed = 0
        for value, weight in values:
            if passed <= position < passed + weight:
                found.append(value)
            passed += weight
    return sum(found) / 2 if found else None


def spread(population: bool, root: bool) -> Callable[[Group], float | None]:
    def spread(group: Group) -> float | None:
        values = {v: w for v, w in group.items() if v is not None and w > 0}
        n = sum(values.values())
        divisor = n if population else n - 1
        if divisor <= 0:
            return None
        squares = sum(Fraction(v) ** 2 * w for v, w in values.items())
        found = float(n * squares - exact(values) ** 2) / n / divisor
        return math.sqrt(found) if root else found

    return spread


def aggregated(a: Stream, *key: str) -> Stream:
    return a.group_by(*key).agg(
        kinds=col("x").count_distinct(),
        words=col("s").count_distinct(),
        middle=col("x").median(),
        low=col("x").quantile(0.25),
        high=col("f").quantile(0.75),
        total=col("f").sum(),
        mean=col("f").mean(),
        v=col("x").var(),
        p=col("f").var(population=True),
        d=col("f").std(),
        first=col("s").min(),
        last=col("s").max(),
        n=count(),
    )


FUNCTIONS: list[tuple[Any, int | None]] = [
    (number_of_values, 1),
    (number_of_values, 2),
    (middle, 1),
    (at(0.25), 1),
    (at(0.75), 3),
    (total, 3),
    (mean, 3),
    (spread(False, False), 1),
    (spread(True, False), 3),
    (spread(False, True), 3),
    (reference.least, 2),
    (reference.largest, 2),
    (reference.count, None),
]


def build(c: Circuit) -> dict[str, Stream]:
    a = c.input("a", **COLUMNS)
    return {"by_k": aggregated(a, "k"), "all": aggregated(a)}


def model(inputs: dict[str, Z]) -> dict[str, Z]:
    a = inputs["a"]
    return {
        "by_k": reference.aggregate(a, [0], FUNCTIONS),
        "all": reference.aggregate(a, [], FUNCTIONS),
    }


@given(ticks({"a": ROW}), st.sampled_from([0, 1, 64]), st.sampled_from([0, 2, 32]))
def test_equals_the_batch_definition_tick_by_tick(sequence: list[Tick], least: int, small: int) -> None:
    with patch.object(kept_extremes, "SMALL", least), patch.object(kept_values, "SMALL", small):
        follow(build, model, sequence)


@given(ticks({"a": ROW}, HEAVY))
def test_heavy_weights(sequence: list[Tick]) -> None:
    follow(build, model, sequence)


@given(ticks({"a": ROW}, max_ticks=4), st.data())
def test_any_split_of_the_changes_gives_the_same_view(sequence: list[Tick], data: st.DataObject) -> None:
    assert final_views(build, sequence) == final_views(build, data.draw(resplit(sequence)))


@given(ticks({"a": ROW}, max_ticks=4, max_size=4))
def test_equals_the_batch_definition_outside_and_inside_a_scope(sequence: list[Tick]) -> None:
    follow_everywhere(
        lambda a: aggregated(a, "k"),
        lambda a: reference.aggregate(a, [0], FUNCTIONS),
        COLUMNS,
        "k",
        sequence,
    )


def test_no_group_is_recomputed() -> None:
    circuit = Circuit("kept")
    for name, stream in build(circuit).items():
        circuit.output(name, stream)
    kinds = [type(node.operator).__name__ for node in circuit.circuit("physical").nodes]
    assert "RecomputeGroups" not in kinds
    assert kinds.count("AccumulatedAggregate") == 2


def test_a_sum_of_floats_stores_no_rows() -> None:
    circuit = Circuit("sum")
    a = circuit.input("a", k=int, f=float)
    circuit.output("out", a.group_by("k").agg(total=col("f").sum(), mean=col("f").mean()))
    kinds = [node.operator.name for node in circuit.circuit("physical").nodes]
    assert kinds.count("Arrange") == 1, "only the output's view is kept, not the input"
    run = circuit.start()
    run.step({"a": [(0, x / 10) for x in range(1000)]})
    assert run.state_rows < 10


# --- infinities, NaN and signs of zero ------------------------------------------------------------

SPECIAL = st.sampled_from([0.0, -0.0, 1.5, -2.0, math.inf, -math.inf, math.nan])


def float_sum(values: list[float]) -> float:
    try:
        return math.fsum(values)
    except ValueError:  # inf - inf
        return math.nan


def text(row: tuple[Any, ...]) -> tuple[str, ...]:
    """A row as text, since NaN does not equal itself."""
    return tuple(map(str, row))


@given(st.lists(st.lists(st.tuples(SPECIAL, st.booleans()), max_size=4), max_size=5))
def test_values_that_are_not_finite(sequence: list[list[tuple[float, bool]]]) -> None:
    run = start(
        lambda c: (
            c.input("a", f=float)
            .group_by()
            .agg(
                t=col("f").sum(),
                m=col("f").mean(),
                n=col("f").count_distinct(),
                d=col("f").std(),
                q=col("f").quantile(0.5),
                h=col("f").median(),
            )
        )
    )
    held: list[float] = []
    for tick in sequence:
        change: Counter[Any] = Counter()
        for value, retracted in tick:
            same = [number for number, other in enumerate(held) if str(other + 0.0) == str(value + 0.0)]
            if retracted and same:
                del held[same[0]]
            else:
                held.append(value)
            change[str(value + 0.0)] += -1 if retracted and same else 1
        run.step({"a": {(float(value),): weight for value, weight in change.items() if weight}})
        found = [text(row) for row in view(run)]
        if not held:
            assert found == []
            continue
        finite = all(map(math.isfinite, held))
        ordered = sorted((value + 0.0 for value in held), key=lambda value: (value != value, value))
        n = len(ordered)
        deviation: float | None = None
        if n > 1:
            deviation = spread(False, True)(Counter(held)) if finite else math.nan
        low, high = ordered[(n - 1) // 2], ordered[n // 2]
        half = low if low == high else low * 0.5 + high * 0.5
        expected = (
            float_sum(held) + 0.0,
            (float_sum(held) + 0.0) / n,
            len({str(value) for value in ordered}),
            deviation,
            ordered[max(1, math.ceil(n / 2)) - 1],
            half,
        )
        assert found == [text(expected)]


def test_a_sum_beyond_the_largest_float_and_back() -> None:
    run = start(
        lambda c: (
            c.input("a", n=int, f=float).group_by().agg(t=col("f").sum(), m=col("f").mean(), v=col("f").var())
        )
    )
    largest = 1.7976931348623157e308
    run.step({"a": [(1, largest), (2, largest), (3, 1e-300)]})
    assert view(run) == {(math.inf, math.inf, math.inf): 1}
    run.step({"a": {(1, largest): -1, (2, largest): -1}})
    assert view(run) == {(1e-300, 1e-300, None): 1}


def test_rounding_errors_do_not_accumulate() -> None:
    """Retractions leave nothing behind, whatever the sums were in between."""
    run = start(lambda c: c.input("a", n=int, f=float).group_by().agg(t=col("f").sum(), d=col("f").std()))
    run.step({"a": [(0, 0.1), (1, 0.2), (2, 0.3)]})
    expected = view(run)
    assert expected == {(math.fsum([0.1, 0.2, 0.3]), statistics.stdev([0.1, 0.2, 0.3])): 1}
    draw = random.Random(5)
    for n in range(3, 60):
        row = (n, draw.uniform(-1, 1) * 10.0 ** draw.randrange(-30, 30))
        run.step({"a": {row: 1}})
        run.step({"a": {row: -1}})
    assert view(run) == expected


# --- large groups ---------------------------------------------------------------------------------


def test_a_large_group_changes_row_by_row() -> None:
    """Runs of thousands of rows with weights, extremes that are retracted, a value that ties."""
    draw = random.Random(3)
    run = start(
        lambda c: (
            c.input("a", n=int, x=int, s=str)
            .group_by()
            .agg(
                kinds=col("x").count_distinct(),
                middle=col("x").median(),
                low=col("x").quantile(0.1),
                top=col("x").quantile(1),
                v=col("x").var(),
                first=col("s").min(),
                last=col("s").max(),
            )
        )
    )
    new = iter(range(10**6))

    def row() -> tuple[int, int, str]:
        x = draw.choice([7, draw.randrange(400)])
        return next(new), x, f"{draw.randrange(3000):04}"

    held = [row() for _ in range(6000)]
    run.step({"a": held})
    for _ in range(40):
        names = sorted({s for _, _, s in held})
        gone = {each for each in held if each[2] in (names[0], names[-1])} | {draw.choice(held)}
        come = [row() for _ in range(draw.randrange(3))]
        run.step({"a": Counter(come) | dict.fromkeys(gone, -1)})
        held = [each for each in held if each not in gone] + come
        xs = sorted(x for _, x, _ in held)
        names = sorted({s for _, _, s in held})
        assert view(run) == {
            (
                len(set(xs)),
                float(statistics.median(xs)),
                xs[math.ceil(0.1 * len(xs)) - 1],
                xs[-1],
                spread(False, False)(Counter(xs)),
                names[0],
                names[-1],
            ): 1
        }


# --- all or nothing -------------------------------------------------------------------------------


def strings(circuit: Circuit) -> None:
    a, b = circuit.input("a", s=str, x=int), circuit.input("b", s=str, t=str)
    circuit.output(
        "ends", b.group_by().agg(first=col("t").min(), last=col("t").max(), n=col("s").count_distinct())
    )
    tenths = a.map(f=col("x").cast(float) / 10.0)
    circuit.output("middle", tenths.group_by().agg(d=col("f").std(), t=col("f").sum(), m=col("f").median()))


def ends(n: int) -> dict[str, dict[tuple[Any, ...], int]]:
    """Insert a new least and a new largest string; the next tick retracts them."""
    return {"a": {("Ada", n): 2, ("Ben", 1): -1}, "b": {("Ada", f"A{n}"): 1, ("Ben", f"z{n}"): 1}}


FIRST = {
    "a": {("Ada", 1): 3, ("Cid", 4): 1},
    "b": {(name, f"{name.lower()}{n}"): 1 for n, name in enumerate(("Ada", "Ben", "Cid", "Dan"))},
}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("how", "stride"), [("step", 301), ("reopened", 501), ("spilled", 901), ("transaction", 701)]
)
def test_a_fault_changes_nothing(how: str, stride: int) -> None:
    circuit = FaultCircuit("strings", built(strings), FIRST, ends)
    with patch.object(kept_extremes, "SMALL", 0), patch.object(kept_values, "SMALL", 3):
        done = inject(circuit, KeyboardInterrupt, how, stride=stride, seed=2)
    assert not done.problems
    assert done.undone + done.committed > 0


def test_a_transaction_that_fails_restores_the_extremes() -> None:
    with patch.object(kept_extremes, "SMALL", 0):
        run = start(lambda c: c.input("a", s=str).group_by().agg(first=col("s").min(), last=col("s").max()))
        run.step({"a": [("b",), ("c",), ("d",), ("e",)]})
        run.step({"a": {("b",): -1, ("e",): -1}})  # now there are heaps
        with pytest.raises(ZeroDivisionError), run.transaction() as transaction:
            transaction.step({"a": {("c",): -1}})
            transaction.step({"a": {("d",): -1, ("x",): 1}})
            raise ZeroDivisionError
        assert view(run) == {("c", "d"): 1}
        run.step({"a": {("b",): 1}})
        run.step({"a": {("b",): -1}})  # a heap without "c" would have no value left
        assert view(run) == {("c", "d"): 1}
        run.step({"a": {("c",): -1}})
        assert view(run) == {("d", "d"): 1}
        run.step({"a": {("c",): 1, ("d",): -1}})
        assert view(run) == {("c", "c"): 1}


def test_a_group_of_too_many_rows_names_the_aggregate() -> None:
    run = start(lambda c: c.input("a", x=int, f=float).group_by("x").agg(m=col("f").median()))
    run.step({"a": {(1, 1.0): 2**62}})
    with pytest.raises(WeightOverflowError, match="Aggregate"):
        run.step({"a": {(1, 2.0): 2**62}})
    assert view(run) == {(1, 1.0): 1}


def test_values_are_freed_while_heaps_hold_them() -> None:
    with patch.object(kept_extremes, "SMALL", 0):
        run = start(
            lambda c: c.input("a", k=int, s=str).group_by("k").agg(first=col("s").min(), last=col("s").max())
        )
        run.step({"a": [(1, f"{n:03}") for n in range(200)]})
        for n in range(99):
            run.step({"a": {(1, f"{n:03}"): -1, (1, f"{199 - n:03}"): -1}})
            if n % 30 == 0:
                run.compact()
            assert view(run) == {(1, f"{n + 1:03}", f"{198 - n:03}"): 1}
        run.step({"a": {(1, "000"): 1}})
        assert view(run) == {(1, "000", "100"): 1}


# --- windows whose groups are forgotten -----------------------------------------------------------


def test_the_state_of_closed_windows_is_forgotten() -> None:
    circuit = Circuit("windows")
    marked = circuit.input("seen", t=int, x=int, s=str).watermark("t", 0)
    windows = marked.on_time.window("t", 100).group_by("window_start")
    aggregates = windows.agg(
        m=col("x").median(), d=col("x").std(), n=col("x").count_distinct(), last=col("s").max(), n_=count()
    )
    circuit.output("now", aggregates.filter(col("n") < 0))
    run = circuit.start()
    state = run.scope.state
    limited = {id(limit.trace) for limit in state.limits}
    (node,) = (node for node in state.by_node if isinstance(node.operator, ForgettingAggregate))
    assert len(state.by_node[node]) == 5
    assert {id(trace) for trace in state.by_node[node]} <= limited
    sizes = []
    with patch.object(kept_extremes, "SMALL", 0):
        for n in range(60):
            some = np.arange(400)
            rows = [(100 * n + i % 90, int(i) // 3, f"{n}-{i}") for i in some.tolist()]
            run.step({"seen": rows})
            run.step({"seen": {rows[-1]: -1}})
            sizes.append(run.state_rows)
    assert max(sizes[30:]) < 3 * max(sizes[:10]), sizes


# --- heaps ----------------------------------------------------------------------------------------


def heap_of(*values: Any, journal: list[Journalled] | None = None) -> ValueHeaps:
    heaps = ValueHeaps([] if journal is None else journal)
    heaps.build((1,), values)
    heaps.commit()
    return heaps


def test_a_heap_of_mostly_retracted_values_is_dropped() -> None:
    heaps = heap_of(*map(str, range(200)))
    gone = 0
    while (1,) in heaps:
        heaps.count_gone((1,))
        gone += 1
    assert gone == 133, "200 values are more than 2 * 67 + 64"
    heaps.push((1,), "a")
    heaps.count_gone((1,))
    assert len(heaps) == 0


def test_a_rollback_drops_the_changed_heaps_only() -> None:
    journal: list[Journalled] = []
    heaps = heap_of("b", "a", journal=journal)
    heaps.build((2,), ["c"])
    heaps.commit()
    journal.clear()
    heaps.push((2,), "d")
    heaps.pop((2,))
    assert journal == [heaps]
    heaps.rollback()
    assert (1,) in heaps
    assert (2,) not in heaps
    assert heaps.top((1,)) == "a"


def test_heaps_of_forgotten_groups_are_dropped() -> None:
    heaps = heap_of(*range(100))
    heaps.limit(36)
    assert len(heaps) == 1
    heaps.limit(35)
    assert len(heaps) == 0


def test_values_in_descending_order() -> None:
    assert [each.value for each in sorted(map(Descending, "acb"))] == ["c", "b", "a"]
