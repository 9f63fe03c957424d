"""Order statistics, distinct counts, user-defined aggregates, compared with plain Python."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp import (
    Circuit,
    SchemaError,
    Stream,
    UserFunctionError,
    col,
    count,
    fold,
    linear,
)
from tests import reference
from tests.everywhere import follow_everywhere
from tests.harness import follow, start, view
from tests.reference import Z
from tests.strategies import Tick, nullable, rows, small, ticks, words

ROW = rows(st.integers(0, 1), nullable, words)
COLUMNS = {"k": int, "x": int | None, "s": str}
Group = Mapping[Any, int]


def present(group: Group) -> Z:
    return {value: weight for value, weight in group.items() if value is not None and weight > 0}


def number_of_values(group: Group) -> int:
    return len(present(group))


def at(q: float) -> Callable[[Group], Any]:
    def quantile(group: Group) -> Any:
        size = sum(present(group).values())
        passed = 0
        for value, weight in sorted(present(group).items()):
            passed += weight
            if passed >= max(1, math.ceil(q * size)):
                return value
        return None

    return quantile


def middle(group: Group) -> float | None:
    values = [value for value, weight in present(group).items() for _ in range(weight)]
    return float(statistics.median(values)) if values else None


def smallest_by(largest: bool) -> Callable[[Group], Any]:
    """The value of s by x, for a group of (k, x, s) rows."""

    def arg(group: Group) -> Any:
        pairs = reference.consolidate(((x, s), w) for (_, x, s), w in group.items() if x is not None)
        rows = [(-x if largest else x, s) for (x, s), weight in pairs.items() if weight > 0]
        return min(rows)[1] if rows else None

    return arg


def text(pairs: list[tuple[Any, int]]) -> str:
    return ",".join(f"{value}*{weight}" for value, weight in pairs)


def listed(group: Group) -> str | None:
    pairs = sorted((value, weight) for value, weight in group.items() if value is not None)
    return text(pairs) if pairs else None


def listed_in_pairs(group: Group) -> str | None:
    pairs = reference.consolidate(((s, x), w) for (_, x, s), w in group.items() if x is not None)
    return text(sorted(pairs.items())) if pairs else None


def per_row(total: int, rows: int) -> float:
    return total / rows


def total_per_row(group: Group) -> float | None:
    total = reference.total(reference.consolidate((x, w) for (_, x, _), w in group.items()))
    return None if total is None else total / sum(group.values())


def everything(a: Stream) -> Stream:
    return a.group_by("k").agg(
        kinds=col("x").count_distinct(),
        words=col("s").count_distinct(),
        middle=col("x").median(),
        low=col("x").quantile(0.25),
        word=col("s").quantile(0.5),
        last_word=col("s").quantile(1),
        least=col("s").first(by="x"),
        most=col("s").last(by=col("x")),
        first=col("s").first(by="x"),
        last=col("s").last(by="x"),
        listed=fold(text, "x", type=str),
        pairs=fold(text, "s", col("x"), type=str),
        mean=linear(per_row, "x", count(), type=float),
        n=count(),
    )


FUNCTIONS: list[tuple[Any, int | None]] = [
    (number_of_values, 1),
    (number_of_values, 2),
    (middle, 1),
    (at(0.25), 1),
    (at(0.5), 2),
    (at(1), 2),
    (smallest_by(False), None),
    (smallest_by(True), None),
    (smallest_by(False), None),
    (smallest_by(True), None),
    (listed, 1),
    (listed_in_pairs, None),
    (total_per_row, None),
    (reference.count, None),
]


@given(ticks({"a": ROW}, max_ticks=5))
def test_equals_the_batch_definition_outside_and_inside_a_scope(sequence: list[Tick]) -> None:
    follow_everywhere(everything, lambda a: reference.aggregate(a, [0], FUNCTIONS), COLUMNS, "x", sequence)


@given(ticks({"a": ROW}, st.sampled_from([1, -1, 2**40, -(2**40), 2**61]), max_size=3))
def test_heavy_weights_are_not_expanded(sequence: list[Tick]) -> None:
    follow(
        lambda c: c.input("a", **COLUMNS).group_by().agg(q=col("s").quantile(0.5), m=col("s").last(by="x")),
        lambda inputs: reference.aggregate(inputs["a"], [], [(at(0.5), 2), (smallest_by(True), None)]),
        [tick for tick in sequence if sum(map(abs, tick.get("a", {}).values())) < 2**60],
    )


@given(ticks({"a": rows(st.integers(0, 1), st.sampled_from([0.0, 0.5, 2.25, -1e3, 1e-3]))}))
def test_variance_and_deviation(sequence: list[Tick]) -> None:
    def spread(function: Callable[..., float], least: int) -> Callable[[Group], float | None]:
        def spread(group: Group) -> float | None:
            values = [v for v, w in present(group).items() for _ in range(w)]
            return None if len(values) < least else function(values)

        return spread

    run = start(
        lambda c: (
            c.input("a", k=int, x=float)
            .group_by("k")
            .agg(
                v=col("x").var(),
                p=col("x").var(population=True),
                s=col("x").std(),
                d=col("x").std(population=True),
            )
        )
    )
    total: dict[str, Z] = {"a": {}}
    for tick in sequence:
        run.step(tick)
        total = {"a": reference.add(total["a"], tick.get("a", {}))}
        expected = reference.aggregate(
            total["a"],
            [0],
            [
                (spread(statistics.variance, 2), 1),
                (spread(statistics.pvariance, 1), 1),
                (spread(statistics.stdev, 2), 1),
                (spread(statistics.pstdev, 1), 1),
            ],
        )
        got = view(run)
        assert set(got.values()) <= {1}
        numbers = {k: [math.nan if v is None else v for v in values] for k, *values in got}
        assert numbers == {
            k: pytest.approx([math.nan if v is None else v for v in values], rel=1e-9, abs=1e-9, nan_ok=True)
            for k, *values in expected
        }


@given(ticks({"a": rows(st.integers(0, 1), small, nullable, words)}))
def test_first_and_last_are_read_from_the_end_of_a_group(sequence: list[Tick]) -> None:
    """As the only aggregates they do not recompute the group; the result is the same."""

    def build(c: Circuit) -> dict[str, Stream]:
        a = c.input("a", k=int, t=int, x=int | None, s=str)
        return {
            "first": a.group_by("k").agg(first=col("s").first(by="t"), n=count()),
            "last": a.group_by("k").agg(last=col("s").last(by="t"), least=col("t").min()),
            "most": a.group_by("k").agg(most=col("s").last(by="x")),
            "same": a.group_by("k").agg(same=col("x").last(by="x"), total=col("x").sum()),
        }

    def by(column: int, largest: bool, value: int = 3) -> Callable[[Group], Any]:
        def arg(group: Group) -> Any:
            pairs = reference.consolidate(((r[column], r[value]), w) for r, w in group.items())
            found = [(b, v) for (b, v), w in pairs.items() if b is not None and w > 0]
            best = (max if largest else min)((b for b, _ in found), default=None)
            return min((v for b, v in found if b == best), default=None)

        return arg

    follow(
        build,
        lambda inputs: {
            "first": reference.aggregate(inputs["a"], [0], [(by(1, False), None), (reference.count, None)]),
            "last": reference.aggregate(inputs["a"], [0], [(by(1, True), None), (reference.least, 1)]),
            "most": reference.aggregate(inputs["a"], [0], [(by(2, True), None)]),
            "same": reference.aggregate(inputs["a"], [0], [(by(2, True, 2), None), (reference.total, 2)]),
        },
        sequence,
    )
    circuit = Circuit("fast")
    for name, stream in build(circuit).items():
        circuit.output(name, stream)
    kinds = {type(node.operator).__name__ for node in circuit.circuit("physical").nodes}
    assert "AccumulatedAggregate" in kinds
    assert "RecomputeGroups" not in kinds


def test_a_median_between_floats_and_of_one_value() -> None:
    run = start(lambda c: c.input("a", k=int, x=float).group_by("k").agg(m=col("x").median()))
    run.step({"a": {(1, 0.5): 1, (1, 1.0): 1, (2, 7.0): 3, (3, math.inf): 2, (3, -math.inf): 1}})
    assert view(run) == {(1, 0.75): 1, (2, 7.0): 1, (3, math.inf): 1}


def test_a_median_of_ints_beyond_the_precision_of_floats() -> None:
    run = start(lambda c: c.input("a", k=int, x=int).group_by("k").agg(m=col("x").median()))
    run.step({"a": {(1, -(2**53)): 1, (1, 2**53 + 1): 1, (2, -(2**63)): 1, (2, 2**63 - 1): 1}})
    assert view(run) == {(1, 0.5): 1, (2, -0.5): 1}


def test_a_linear_function_stores_only_accumulators() -> None:
    circuit = Circuit("mean")
    a = circuit.input("a", k=int, x=int)
    circuit.output(
        "out", a.group_by("k").agg(m=linear(per_row, "x", count(), type=float), top=col("x").mean())
    )
    kinds = [node.operator.name for node in circuit.circuit("physical").nodes]
    assert kinds.count("Arrange") == 1, "only the output's view is kept, not the input"
    run = circuit.start()
    run.step({"a": [(1, x) for x in range(10)]})
    assert run.step({"a": {(1, 9): -1}})["out"].to_dict() == {(1, 4.5, 4.5): -1, (1, 4.0, 4.0): 1}


def test_a_function_sees_present_groups_only() -> None:
    def share(pairs: list[tuple[int, int]]) -> int:
        return 1 // sum(weight for _, weight in pairs)

    run = start(lambda c: c.input("a", k=int, x=int).group_by("k").agg(f=fold(share, "x", type=int)))
    run.step({"a": {(1, 1): 1}})
    run.step({"a": {(1, 2): -1}})  # the weights of the group cancel, so a division would fail
    assert view(run) == {}


def test_what_is_refused() -> None:
    a = Circuit("c").input("a", k=int, s=str)
    with pytest.raises(
        SchemaError, match=r"median 'm' expects an int, a float, a decimal or a duration, got str"
    ):
        a.group_by("k").agg(m=col("s").median())
    with pytest.raises(SchemaError, match="var 'v' expects an int or a float"):
        a.group_by("k").agg(v=col("s").var())
    with pytest.raises(SchemaError, match=r"quantile expects q between 0 and 1, got 1\.5"):
        col("s").quantile(1.5)
    with pytest.raises(SchemaError, match="fold needs at least one expression"):
        fold(text, type=str)
    with pytest.raises(SchemaError, match="linear needs at least one"):
        linear(text, type=str)


def test_a_function_that_raises_is_named_and_changes_nothing() -> None:
    def inverse(pairs: list[tuple[Any, int]]) -> float:
        return 1 / pairs[0][0]

    run = start(lambda c: c.input("a", k=int, x=int).group_by("k").agg(f=fold(inverse, "x", type=float)))
    run.step({"a": {(1, 2): 1}})
    with pytest.raises(UserFunctionError, match=r"Aggregate at .*: function .*inverse raised ZeroDivision"):
        run.step({"a": {(1, 0): 1}})
    assert view(run) == {(1, 0.5): 1}


def test_equal_arguments_share_a_column() -> None:
    a = Circuit("c").input("a", k=int, x=int)
    result = a.group_by("k").agg(low=col("x").quantile(0), high=col("x").quantile(1), t=(col("x") + 1).sum())
    (values,) = result.node.inputs
    assert values.schema.arity == 3
    assert result.schema.names == ("k", "low", "high", "t")


@given(ticks({"a": rows(small, small)}))
def test_a_whole_relation_is_one_group(sequence: list[Tick]) -> None:
    follow(
        lambda c: c.input("a", k=int, x=int).group_by().agg(m=col("x").median(), n=col("k").count_distinct()),
        lambda inputs: reference.aggregate(inputs["a"], [], [(middle, 1), (number_of_values, 0)]),
        sequence,
    )
