"""with_columns, drop, and groups of expressions, against a model in Python, tick by tick."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from dbsp import Circuit, Stream, col, count
from dbsp.errors import ArgumentError, EvaluationError, SchemaError
from tests import reference
from tests.harness import follow
from tests.reference import Z
from tests.strategies import Tick, rows, small, ticks, words

COLUMNS = {"x": int, "y": int, "s": str}


def verbs(c: Circuit) -> dict[str, Stream]:
    a = c.input("a", schema=COLUMNS)
    return {
        "added": a.with_columns(sum=col("x") + col("y"), one=1),
        "replaced": a.with_columns(x=col("y"), y=col("x") + col("y")),
        "dropped": a.drop("x", "s"),
        "nothing": a.drop("x", "y", "s"),
        "same": a.drop(),
        "groups": a.group_by("s", half=col("x") // 2).agg(n=count(), y=col("y").sum()),
        "shadowed": a.group_by(x=col("x") % 2).agg(x2=col("x").sum(), best=(col("x") + col("y")).max()),
    }


def model(inputs: dict[str, Z]) -> dict[str, Z]:
    a = inputs["a"]

    def grouped(key: Any) -> dict[Any, list[tuple[Any, int]]]:
        groups: dict[Any, list[tuple[Any, int]]] = {}
        for row, weight in a.items():
            groups.setdefault(key(row), []).append((row, weight))
        return {k: pairs for k, pairs in groups.items() if sum(weight for _, weight in pairs) > 0}

    return {
        "added": reference.map_rows(a, lambda r: (*r, r[0] + r[1], 1)),
        "replaced": reference.map_rows(a, lambda r: (r[1], r[0] + r[1], r[2])),
        "dropped": reference.map_rows(a, lambda r: (r[1],)),
        "nothing": reference.map_rows(a, lambda r: ()),
        "same": a,
        "groups": {
            (*key, sum(w for _, w in pairs), sum(r[1] * w for r, w in pairs)): 1
            for key, pairs in grouped(lambda r: (r[2], r[0] // 2)).items()
        },
        "shadowed": {
            (
                key,
                sum(r[0] * w for r, w in pairs),
                max((r[0] + r[1] for r, w in summed(pairs).items() if w > 0), default=None),
            ): 1
            for key, pairs in grouped(lambda r: r[0] % 2).items()
        },
    }


def summed(pairs: list[tuple[Any, int]]) -> dict[Any, int]:
    """The weights of the values of x + y, each value as the row (x + y, 0)."""
    weights: dict[Any, int] = {}
    for (x, y, _), weight in pairs:
        weights[x + y, 0] = weights.get((x + y, 0), 0) + weight
    return weights


@given(ticks({"a": rows(small, small, words)}))
def test_equals_the_model_tick_by_tick(sequence: list[Tick]) -> None:
    follow(verbs, model, sequence)


def test_the_columns_keep_their_order() -> None:
    a = Circuit("a").input("a", schema=COLUMNS)
    assert a.with_columns(z=col("x"), y=col("s")).schema.describe() == "x: int, y: str, s: str, z: int"
    assert a.drop("y").schema.names == ("x", "s")
    grouped = a.group_by("s", half=col("x") // 2)
    assert repr(grouped).endswith("by (s, half)>")
    assert grouped.agg(n=count()).schema.describe() == "s: str, half: int, n: int"


def test_final_closes_groups_of_an_expression() -> None:
    circuit = Circuit("windows")
    marked = circuit.input("seen", time=int).watermark("time", 0)
    ends = marked.on_time.group_by(end=col("time") // 10 * 10 + 10)
    circuit.output("count", ends.final(marked.watermark, "end", n=count()))
    run = circuit.start()
    assert run.step({"seen": [(3,), (5,)]})["count"].rows() == []
    assert run.step({"seen": [(12,)]})["count"].rows() == [(10, 2)]


def test_an_error_of_a_grouping_expression_rolls_the_tick_back() -> None:
    circuit = Circuit("a")
    circuit.output("n", circuit.input("a", x=int).group_by(q=1 // col("x")).agg(n=count()))
    run = circuit.start()
    run.step({"a": [(1,)]})
    with pytest.raises(EvaluationError, match=r"division by zero: 1 // col\(\"x\"\) with x = 0"):
        run.step({"a": [(0,)]})
    assert run.view("n").rows() == [(1, 1)]


@pytest.mark.parametrize(
    ("build", "kind", "message"),
    [
        (lambda a: a.with_columns(), SchemaError, r"with_columns needs at least one column, such as with_"),
        (lambda a: a.with_columns(z=col("yy")), SchemaError, "unknown column 'yy'"),
        (lambda a: a.drop("yy"), SchemaError, "unknown column 'yy'"),
        (lambda a: a.drop("y", "y"), SchemaError, r"column 'y' occurs twice in \(y, y\)"),
        (lambda a: a.drop(["x"]), ArgumentError, r"drop expects column names such as drop\(\"a\", \"b\"\)"),
        (
            lambda a: a.group_by(col("x") // 2),
            ArgumentError,
            r'group_by expects a name for the expression col\("x"\) // 2, such as group_by\(name=col\("x"\)',
        ),
        (
            lambda a: a.group_by(half="x"),
            ArgumentError,
            r"group_by expects an expression such as half=col\('x'\) // 10, got half='x' of type str",
        ),
        (
            lambda a: a.group_by("x", x=col("y")),
            SchemaError,
            "'x' is already a grouping column; give the expression another name",
        ),
        (lambda a: a.group_by(q=col("zz")), SchemaError, "unknown column 'zz'"),
        (
            lambda a: a.group_by(q=col("x")).agg(q=count()),
            SchemaError,
            "'q' is already a grouping column; give the aggregate another name",
        ),
    ],
)
def test_wrong_arguments(build: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        build(Circuit("a").input("a", schema=COLUMNS))
