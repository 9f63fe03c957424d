"""Expressions over aggregates in agg, rolling and final, against a model, tick by tick."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given

import dbsp
from dbsp import ArgumentError, Circuit, EvaluationError, SchemaError, Stream, col, count, linear, lit, when
from dbsp.runtime.agreement import check_agreement
from tests.harness import follow
from tests.reference import Z
from tests.strategies import Tick, nullable, rows, small, ticks

X, Y, K = col("x"), col("y"), col("k")


def ratio(total: int, n: int) -> float:
    return total / n


def expressions(c: Circuit) -> dict[str, Stream]:
    a = c.input("a", k=int, x=int, y=int | None)
    groups = a.group_by("k")
    return {
        "range": groups.agg(n=count(), range=X.max() - X.min(), top=X.max()),
        "filled": groups.agg(sum=Y.sum().fill_null(0), values=Y.count(), missing=count() - Y.count()),
        "of keys": groups.agg(shifted=K * 10 + X.sum(), more=when(X.sum() > K).then(1).otherwise(0)),
        "weighted": groups.agg(total=(X * K).sum() + 1, same=(X * K).sum()),
        "linear": groups.agg(r=linear(ratio, X * 2, count(), type=float), s=X.sum() * 2 + count()),
        "first": groups.agg(least=X.first(by="y"), last=X.last(by=Y + 1)),
        "booleans": groups.agg(ones=(X > 1).sum(), share=(Y > 1).mean(), sum=X.sum()),
        "all": a.group_by().agg(spread=X.max() - X.min()),
    }


def model(inputs: dict[str, Z]) -> dict[str, Z]:
    def result(key: Any, row: Any) -> Z:
        groups: dict[Any, Z] = {}
        for values, weight in inputs["a"].items():
            groups.setdefault(key(values), {})[values] = weight
        return {row(k, group): 1 for k, group in groups.items() if sum(group.values()) > 0}

    def of(group: Z, place: int) -> dict[Any, int]:
        weights: dict[Any, int] = {}
        for values, weight in group.items():
            if values[place] is not None:
                weights[values[place]] = weights.get(values[place], 0) + weight
        return {value: weight for value, weight in weights.items() if weight}

    def total(group: Z, place: int) -> int | None:
        values = {v: w for v, w in group.items() if v[place] is not None}
        # A sum is None where the weights of the values add up to 0.
        return sum(v[place] * w for v, w in values.items()) if values_left(values) else None

    def values_left(values: Z) -> int:
        return sum(values.values())

    def rows_of(group: Z) -> int:
        return sum(group.values())

    def extremes(group: Z) -> tuple[int | None, int | None]:
        present = [value for value, weight in of(group, 1).items() if weight > 0]
        return (max(present), min(present)) if present else (None, None)

    def less(a: int | None, b: int | None) -> int | None:
        return None if a is None or b is None else a - b

    def by_y(group: Z, largest: bool) -> int | None:
        pairs: dict[tuple[int, int], int] = {}
        for _, x, y, weight in ((*values, w) for values, w in group.items()):
            if y is not None:
                pairs[y, x] = pairs.get((y, x), 0) + weight
        present = [pair for pair, weight in pairs.items() if weight > 0]
        if not present:
            return None
        best = (max if largest else min)(y for y, _ in present)
        return min(x for y, x in present if y == best)

    def ranged(k: int, group: Z) -> tuple[Any, ...]:
        top, low = extremes(group)
        return (k, rows_of(group), less(top, low), top)

    def filled(k: int, group: Z) -> tuple[Any, ...]:
        n = sum(w for v, w in group.items() if v[2] is not None)
        return (k, total(group, 2) or 0, n, rows_of(group) - n)

    def of_keys(k: int, group: Z) -> tuple[Any, ...]:
        x = sum(v[1] * w for v, w in group.items())
        return (k, k * 10 + x, int(x > k))

    def weighted(k: int, group: Z) -> tuple[Any, ...]:
        t = sum(v[1] * k * w for v, w in group.items())
        return (k, t + 1, t)

    def with_linear(k: int, group: Z) -> tuple[Any, ...]:
        x = sum(v[1] * w for v, w in group.items())
        return (k, 2 * x / rows_of(group), 2 * x + rows_of(group))

    def booleans(k: int, group: Z) -> tuple[Any, ...]:
        large = sum(w for v, w in group.items() if v[2] is not None and v[2] > 1)
        known = sum(w for v, w in group.items() if v[2] is not None)
        x = sum(v[1] * w for v, w in group.items())
        return (k, sum(w for v, w in group.items() if v[1] > 1), large / known if known else None, x)

    return {
        "range": result(lambda v: v[0], ranged),
        "filled": result(lambda v: v[0], filled),
        "of keys": result(lambda v: v[0], of_keys),
        "weighted": result(lambda v: v[0], weighted),
        "linear": result(lambda v: v[0], with_linear),
        "first": result(lambda v: v[0], lambda k, g: (k, by_y(g, False), by_y(g, True))),
        "booleans": result(lambda v: v[0], booleans),
        "all": result(lambda v: (), lambda k, g: (less(*extremes(g)),)),
    }


@given(ticks({"a": rows(small, small, nullable)}))
def test_equals_the_model_tick_by_tick(sequence: list[Tick]) -> None:
    follow(expressions, model, sequence)


def test_stages_agree() -> None:
    circuit = Circuit("stages")
    for name, stream in expressions(circuit).items():
        circuit.output(name, stream)
    assert check_agreement(circuit.start, 12, values=3) > 0


def test_rolling_and_final_take_expressions() -> None:
    circuit = Circuit("windows")
    seen = circuit.input("seen", time=int, x=int)
    circuit.output("range", seen.rolling("time", 10, range=X.max() - X.min(), n=count()))
    marked = seen.watermark("time", 0)
    windows = marked.on_time.window("time", 10).group_by("window_start", "window_end")
    circuit.output("mean", windows.final(marked.watermark, "window_end", mean=X.sum() / count()))
    run = circuit.start()
    assert run.step({"seen": [(1, 5), (3, 8)]})["range"].rows() == [(1, 5, 0, 1), (3, 8, 3, 2)]
    assert run.step({"seen": [(12, 0)]})["mean"].rows() == [(0, 10, 6.5)]


def test_columns_and_types() -> None:
    a = Circuit("a").input("a", k=int, x=int, y=int | None)
    found = a.group_by("k").agg(half=X.sum() / 2, n=count(), yes=Y.max() > 3)
    assert found.schema.describe() == "k: int, half: float, n: int, yes: bool?"
    assert a.group_by("k").agg(n=Y.count()).schema.describe() == "k: int, n: int"


def test_an_error_of_an_expression_rolls_the_tick_back() -> None:
    circuit = Circuit("a")
    a = circuit.input("a", k=int, x=int)
    circuit.output("share", a.group_by("k").agg(share=100 // X.sum()))
    run = circuit.start()
    run.step({"a": [(1, 50)]})
    with pytest.raises(
        EvaluationError, match=r'division by zero: 100 // col\("x\.sum\(\)"\) with x\.sum\(\) = 0'
    ):
        run.step({"a": {(1, 50): -1, (1, 0): 1}})
    assert run.view("share").rows() == [(1, 2)]
    assert run.step({"a": [(1, 50)]})["share"].to_dict() == {(1, 2): -1, (1, 1): 1}


def test_notation() -> None:
    assert repr((X + 1).sum() * 2) == '(col("x") + 1).sum() * 2'
    assert repr(X.quantile(0.5)) == 'col("x").quantile(q=0.5)'
    assert repr(X.std(population=True)) == 'col("x").std(population=True)'
    assert repr(X.var()) == 'col("x").var()'
    assert repr(X.first(by="y")) == 'col("x").first(by=col("y"))'
    assert repr(count() + lit(1).max()) == "count() + lit(1).max()"
    assert not X.sum().same_as(X.mean()) and not X.quantile(0.1).same_as(X.quantile(0.2))
    assert X.sum().same_as(col("x").sum())


@pytest.mark.parametrize(
    ("build", "kind", "message"),
    [
        (
            lambda g: g.agg(v=X.sum() + Y),
            SchemaError,
            'v=col("x").sum() + col("y") has a value for each row and not for each group; write an aggregate '
            'of the column, such as col("y").max(), or group by it',
        ),
        (lambda g: g.agg(v=X), SchemaError, 'v=col("x") has a value for each row and not for each group'),
        (lambda g: g.agg(v=K + 1), SchemaError, 'v=col("k") + 1 has no aggregate, such as count()'),
        (
            lambda g: g.agg(v=X.max().sum()),
            SchemaError,
            'col("x").max().sum() is an aggregate of an aggregate; compute the inner one by an agg() of its',
        ),
        (lambda g: g.agg(v=(X.max() + 1).sum() + 1), SchemaError, "is an aggregate of an aggregate"),
        (lambda g: g.agg(v=col("s").sum()), SchemaError, "sum 'v' expects an int, a float, a decimal or a"),
        (
            lambda g: g.agg(n=col("s").count_distinct(), v=col("s").sum()),
            SchemaError,
            "sum 'v' expects an int",
        ),
        (
            lambda g: g.agg(a=X.max(), b=X.first(by="s"), v=col("s").std() - X.sum()),
            SchemaError,
            "std 'v' expects",
        ),
        (
            lambda g: g.agg(n=col("d").sum(), v=col("d").std()),
            SchemaError,
            "std 'v' expects an int or a float, got decimal(18, 2); convert it with cast(float)",
        ),
        (lambda g: g.agg(v=count), ArgumentError, "add the parentheses of the call"),
        (lambda g: g.agg(v=X.sum), ArgumentError, "add the parentheses of the call"),
    ],
)
def test_wrong_arguments(build: Any, kind: type[dbsp.DbspError], message: str) -> None:
    source = Circuit("a").input("a", k=int, x=int, y=int, s=str, d="decimal(18, 2)")
    groups = source.group_by("k")
    with pytest.raises(kind, match=re.escape(message)) as caught:
        build(groups)
    assert caught.value.code == ("invalid-aggregate" if kind is SchemaError else "invalid-argument")


def test_an_aggregate_has_no_value_for_a_row() -> None:
    a = Circuit("a").input("a", x=int)
    for build in (lambda: a.filter(X.sum() > 1), lambda: a.map(v=X.max()), lambda: a.group_by(k=X.min())):
        with pytest.raises(SchemaError, match=r"is an aggregate and has no value for one row") as caught:
            build()
        assert caught.value.code == "invalid-expression"


@pytest.mark.parametrize("name", ["sum_", "avg", "min_", "arg_max", "variance", "stddev"])
def test_names_of_earlier_versions_say_what_to_write(name: str) -> None:
    with pytest.raises(ImportError, match=rf"dbsp has no '{name}'; write col\(\.\.\.\)\.\w+\("):
        exec(f"from dbsp import {name}")
    assert not hasattr(dbsp, "sums") and name not in dir(dbsp)


def test_equal_aggregates_are_computed_once() -> None:
    a = Circuit("a").input("a", k=int, x=int)
    found = a.group_by("k").agg(share=X.sum() / (X.sum() + count()), more=X.sum() + 1)
    (aggregates,) = found.node.inputs
    assert aggregates.schema.names == ("k", "x.sum()", "count()")


def test_a_hidden_column_has_a_name_of_its_own() -> None:
    circuit = Circuit("a")
    a = circuit.input("a", **{"x.max()": int, "x": int})
    groups = a.group_by("x.max()")
    circuit.output("out", groups.agg(**{"more": X.max() + X.sum(), "x.sum()": X.min()}))
    run = circuit.start()
    assert run.step({"a": [(7, 1), (7, 2)]})["out"].rows() == [(7, 5, 1)]
    assert run.outputs["out"].names == ("x.max()", "more", "x.sum()")
