"""select and unnest, against a model in Python, tick by tick."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp import Circuit, DbspError, Stream, col
from tests import reference
from tests.harness import follow
from tests.reference import Z
from tests.strategies import Tick, rows, small, ticks

COLUMNS = {"x": int, "y": int, "p": "{a: int, b: str?}?", "q": {"c": "list[int]", "x": int}}

places = st.none() | st.tuples(small, st.none() | st.sampled_from("ab"))
pairs = st.tuples(st.lists(small, max_size=2).map(tuple), small)


def chosen(c: Circuit) -> dict[str, Stream]:
    a = c.input("a", schema=COLUMNS)
    return {
        "some": a.select("y", "x"),
        "one": a.select("y"),
        "none": a.select(),
        "computed": a.select("y", sum=col("x") + col("y"), two=2),
        "bound": a.select(y=a["x"], x=a["y"]),
        "copied": a.select("x", same=col("x")),
        "flat": a.unnest("p"),
        "named": a.unnest("p", "q", separator="_"),
        "nothing": a.unnest(),
        "twice": a.select("x", q=col("p")).unnest("q").select("b", "x"),
    }


def model(inputs: dict[str, Z]) -> dict[str, Z]:
    a = inputs["a"]

    def fields(place: Any) -> Any:
        return (None, None) if place is None else tuple(place)

    return {
        "some": reference.project(a, [1, 0]),
        "one": reference.project(a, [1]),
        "none": reference.project(a, []),
        "computed": reference.map_rows(a, lambda r: (r[1], r[0] + r[1], 2)),
        "bound": reference.project(a, [0, 1]),
        "copied": reference.project(a, [0, 0]),
        "flat": reference.map_rows(a, lambda r: (r[0], r[1], *fields(r[2]), r[3])),
        "named": reference.map_rows(a, lambda r: (r[0], r[1], *fields(r[2]), *r[3])),
        "nothing": a,
        "twice": reference.map_rows(a, lambda r: (fields(r[2])[1], r[0])),
    }


@given(ticks({"a": rows(small, small, places, pairs)}))
def test_equals_the_model_tick_by_tick(sequence: list[Tick]) -> None:
    follow(chosen, model, sequence)


def test_columns_and_types() -> None:
    a = Circuit("a").input("a", schema=COLUMNS)
    assert a.select("y", z=a["x"] / 2).schema.describe() == "y: int, z: float"
    assert a.select("x", "p").unnest("p").schema.describe() == "x: int, a: int?, b: str?"
    named = a.unnest("q", separator=".").select("q.c", "q.x")
    assert named.schema.describe() == "q.c: list[int], q.x: int"


@pytest.mark.parametrize(
    ("build", "code", "message"),
    [
        (lambda a: a.select("z"), "unknown-column", "unknown column 'z'"),
        (
            lambda a: a.select(["x", "y"]),
            "invalid-argument",
            'select expects column names such as select("a"',
        ),
        (lambda a: a.select(a["x"]), "invalid-argument", 'got stream["x"] of type StreamColumn; name an'),
        (lambda a: a.select("x", "x"), "duplicate-column", "column 'x' occurs twice"),
        (lambda a: a.select("x", "x", y=1), "duplicate-column", "column 'x' occurs twice"),
        (lambda a: a.select("x", x=col("y")), "duplicate-column", "'x' is already a column of the result"),
        (lambda a: a.select(z=col("zz")), "unknown-column", "unknown column 'zz'"),
        (lambda a: a.unnest("x"), "wrong-type", "unnest expects a struct, got 'x: int'"),
        (lambda a: a.unnest("q").unnest("c"), "duplicate-column", "column 'x' would occur twice; add a sep"),
        (
            lambda a: a.unnest("q", separator="_").unnest("q_c"),
            "wrong-type",
            "unnest expects a struct, got 'q_c: list[int]'; use explode for a list",
        ),
        (lambda a: a.unnest(["q"]), "invalid-argument", 'unnest expects column names such as unnest("home")'),
        (lambda a: a.unnest("p", "p"), "duplicate-column", "column 'p' occurs twice"),
    ],
)
def test_wrong_arguments(build: Any, code: str, message: str) -> None:
    with pytest.raises(DbspError, match=re.escape(message)) as caught:
        build(Circuit("a").input("a", schema=COLUMNS))
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("project", 's.select("a", "b")'),
        ("assign", "s.with_columns(name=...)"),
        ("groupby", "s.group_by(...)"),
        ("intersect", 's.distinct().join(other, on=[...], how="semi")'),
        ("fillna", 's.with_columns(x=col("x").fill_null(value))'),
        ("y", 'the column is s["y"]'),
    ],
)
def test_names_of_other_libraries_say_what_to_write(name: str, message: str) -> None:
    a = Circuit("a").input("a", schema=COLUMNS)
    with pytest.raises(AttributeError, match=re.escape(message)):
        getattr(a, name)
    with pytest.raises(AttributeError, match=r"a stream has no 'fliter'; did you mean 'filter'\?"):
        a.fliter(col("x") > 1)  # type: ignore[attr-defined]
