"""`join` with every `how`, with and without a condition, against a model, tick by tick."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings

from dbsp import Circuit, DbspError, EvaluationError, Stream, col, from_json, multiway_join
from dbsp.operators.streams.join_methods import HOWS, How
from dbsp.runtime.agreement import check_agreement
from tests.harness import follow
from tests.profiles import examples
from tests.reference import Z, map_rows
from tests.scopes import LEVELLED, scoped, scoped_model
from tests.strategies import Tick, nullable, rows, small, ticks

Condition = Callable[[Any, Any], bool | None]


def less(x: int | None, z: int | None) -> bool | None:
    return None if x is None or z is None else x < z


CONDITIONS: dict[str, tuple[Callable[[Stream, Stream], Any], Condition]] = {
    "both sides": (lambda a, b: a["x"] < b["x"], less),
    "names": (lambda a, b: col("x") < col("x_right"), less),
    "left": (lambda a, b: a["x"] > 1, lambda x, z: None if x is None else x > 1),
    "right": (lambda a, b: b["x"] > 1, lambda x, z: None if z is None else z > 1),
    "parts": (
        lambda a, b: (a["x"] > 0) & (b["x"] > 0) & (a["x"] != b["x"]),
        lambda x, z: x is not None and z is not None and x > 0 and z > 0 and x != z,
    ),
    "keys": (lambda a, b: (a["k"] > 1) | (b["j"] + a["x"] == 2), lambda x, z: None),
}


def joined_rows(a: Z, b: Z, how: str, where: Callable[[Any, Any], bool | None] | None) -> Z:
    """The definition of the result, pair by pair; rows are (k, x) and (j, x)."""
    result: Z = {}

    def emit(row: Any, weight: int) -> None:
        result[row] = result.get(row, 0) + weight

    def paired(left: Any, right: Any) -> bool:
        return bool(left[0] == right[0] and (where is None or where(left, right)))

    def partners(row: Any, weight: int, others: Z, left: bool) -> int:
        found = sum(w for y, w in others.items() if (paired(row, y) if left else paired(y, row)))
        return found if where is None else found * weight

    for x, v in a.items():
        for y, w in b.items():
            if how not in ("semi", "anti") and paired(x, y):
                emit((*x, y[1]), v * w)
        alone = partners(x, v, b, left=True) <= 0
        if (how in ("left", "full") and alone) or how in ("semi", "anti"):
            if how in ("left", "full"):
                emit((*x, None), v)
            elif alone == (how == "anti"):
                emit(x, v)
    if how in ("right", "full"):
        for y, w in b.items():
            if partners(y, w, a, left=False) <= 0:
                emit((y[0], None, y[1]), w)
    return {row: weight for row, weight in result.items() if weight}


def streams(c: Circuit, nulls: bool) -> tuple[Stream, Stream]:
    type_: Any = int | None if nulls else int
    return c.input("a", k=type_, x=type_), c.input("b", j=type_, x=type_)


def every_join(how: How) -> Callable[[Circuit], dict[str, Stream]]:
    def build(c: Circuit) -> dict[str, Stream]:
        a, b = streams(c, nulls=True)
        found = {
            name: a.join(b, left_on="k", right_on="j", how=how, where=where(a, b))
            for name, (where, _) in CONDITIONS.items()
        }
        found["none"] = a.join(b, on=[("k", "j")], how=how)
        return found

    return build


def every_model(how: How) -> Callable[[dict[str, Z]], dict[str, Z]]:
    def on_values(condition: Condition) -> Callable[[Any, Any], bool | None]:
        return lambda left, right: condition(left[1], right[1])

    def of_keys(left: Any, right: Any) -> bool:
        either = [False if left[0] is None else left[0] > 1]
        either.append(right[0] is not None and left[1] is not None and right[0] + left[1] == 2)
        return any(either)

    def model(inputs: dict[str, Z]) -> dict[str, Z]:
        a, b = inputs["a"], inputs["b"]
        found = {
            name: joined_rows(a, b, how, of_keys if name == "keys" else on_values(condition))
            for name, (_, condition) in CONDITIONS.items()
        }
        found["none"] = joined_rows(a, b, how, None)
        return found

    return model


@pytest.mark.parametrize("how", HOWS)
@given(ticks({"a": rows(nullable, nullable), "b": rows(nullable, nullable)}))
def test_equals_the_model_tick_by_tick(how: How, sequence: list[Tick]) -> None:
    follow(every_join(how), every_model(how), sequence)


@pytest.mark.parametrize("how", HOWS)
def test_stages_agree(how: How) -> None:
    circuit = Circuit("stages")
    for name, stream in every_join(how)(circuit).items():
        circuit.output(name, stream)
    assert check_agreement(circuit.start, 12, values=3) > 0


@pytest.mark.parametrize("how", HOWS)
@settings(max_examples=examples(25))
@given(LEVELLED)
def test_inside_a_fixpoint(how: How, sequence: list[Tick]) -> None:
    def build(a: Stream, b: Stream) -> Stream:
        select = None if how in ("semi", "anti") else ["l", "x", "x_right"]
        return a.join(b, on="l", how=how, where=a["x"] < b["x"], select=select)

    def model(a: Z, b: Z) -> Z:
        def nested(rows: Z) -> Z:
            return {(row[0], row[1:]): weight for row, weight in rows.items()}

        def flat(row: Any) -> Any:
            if how in ("semi", "anti"):
                return (row[0], *row[1])
            return (row[0], *(None if side is None else side[0] for side in row[1:]))

        pairs = joined_rows(nested(a), nested(b), how, lambda left, right: left[1][0] < right[1][0])
        return map_rows(pairs, flat)

    def again(row: Any) -> Any:
        level, x, y = row
        return (level + 1, 0 if x is None else x, y)

    follow(scoped(build, again), scoped_model(model, again), sequence)


def test_rows_with_and_without_a_partner_that_passes() -> None:
    circuit = Circuit("partners")
    a, b = streams(circuit, nulls=False)
    circuit.output("out", a.join(b, left_on="k", right_on="j", how="full", where=a["x"] < b["x"]))
    run = circuit.start()
    assert run.step({"a": {(1, 5): 2}})["out"].to_dict() == {(1, 5, None): 2}
    # A row of the same key that fails the condition does not count as a partner.
    assert run.step({"b": [(1, 4)]})["out"].to_dict() == {(1, None, 4): 1}
    assert run.step({"b": [(1, 6)]})["out"].to_dict() == {(1, 5, None): -2, (1, 5, 6): 2}
    assert run.step({"b": [(1, 7)]})["out"].to_dict() == {(1, 5, 7): 2}
    assert run.step({"b": {(1, 6): -1, (1, 7): -1}})["out"].to_dict() == {
        (1, 5, None): 2,
        (1, 5, 6): -2,
        (1, 5, 7): -2,
    }


@pytest.mark.parametrize("how", HOWS)
def test_an_error_of_the_condition_rolls_the_tick_back(how: How) -> None:
    circuit = Circuit("a")
    a, b = streams(circuit, nulls=False)
    circuit.output("out", a.join(b, on=[("k", "j")], how=how, where=10 // b["x"] > a["x"]))
    run = circuit.start()
    run.step({"a": [(1, 2)], "b": [(1, 3)]})
    before = run.view("out").to_dict()
    with pytest.raises(EvaluationError, match="division by zero"):
        run.step({"a": [(2, 2)], "b": [(1, 0)]})
    assert run.view("out").to_dict() == before
    run.step({"b": {(1, 3): -1}})
    assert run.view("out").to_dict() == joined_rows({(1, 2): 1}, {}, how, None)


def test_columns_and_types() -> None:
    a, b = streams(Circuit("c"), nulls=False)
    on: Any = [("k", "j")]
    assert a.join(b, on=on, how="inner").schema.describe() == "k: int, x: int, x_right: int"
    assert a.join(b, on=on, how="left").schema.describe() == "k: int, x: int, x_right: int?"
    assert a.join(b, on=on, how="right").schema.describe() == "k: int, x: int?, x_right: int"
    assert a.join(b, on=on, how="full").schema.describe() == "k: int, x: int?, x_right: int?"
    assert a.join(b, on=on, how="semi").schema.describe() == "k: int, x: int"
    some = a.join(b, on=on, how="anti", select=["x"], where=a["k"] < b["x"])
    assert some.schema.describe() == "x: int"
    keys = a.join(b, on=on, how="full", select=["j", "x_right", "k"], where=a["x"] < b["x"])
    assert keys.schema.describe() == "j: int?, x_right: int?, k: int"


def test_json_keeps_the_condition() -> None:
    circuit = Circuit("c")
    a, b = streams(circuit, nulls=False)
    for how in HOWS:
        circuit.output(how, a.join(b, on=[("k", "j")], how=how, where=a["x"] < b["x"]))
    read = from_json(circuit.to_json())
    assert read.same_as(circuit)
    changes: Any = {"a": [(1, 2), (2, 2), (3, 3)], "b": [(1, 1), (1, 3), (2, 0), (4, 4)]}
    first, second = circuit.start().step(changes), read.start().step(changes)
    for how in HOWS:
        assert first[how].to_dict() == second[how].to_dict() != {}
    other = Circuit("c")
    a, b = streams(other, nulls=False)
    for how in HOWS:
        other.output(how, a.join(b, on=[("k", "j")], how=how, where=a["x"] <= b["x"]))
    assert not other.same_as(circuit)


def test_a_condition_of_one_side_is_below_the_join() -> None:
    circuit = Circuit("c")
    a, b = streams(circuit, nulls=False)
    where = (b["x"] > 3) & (a["x"] < b["x"])
    circuit.output("out", a.join(b, on=[("k", "j")], how="left", where=where))
    filtered = [
        node
        for node in circuit.circuit("physical").walk()
        if node.operator.name == "Filter" and node.inputs[0].node.operator.name == "Input"
    ]
    assert [node.operator.label for node in filtered] == ['Filter col("x") > 3']


@pytest.mark.parametrize(
    ("build", "code", "message"),
    [
        (
            lambda a, b: a.join(b, on="x", how="outer"),
            "invalid-argument",
            "how= expects one of 'inner', 'left', 'right', 'full', 'semi', 'anti', got 'outer'; write 'full'",
        ),
        (lambda a, b: a.join(b, on="x", how="lefr"), "invalid-argument", "did you mean 'left'?"),
        (lambda a, b: a.join(b, on="x", how="leftanti"), "invalid-argument", "write 'anti'"),
        (lambda a, b: a.join(b, on="x", how="cross"), "invalid-argument", "write 'inner' with on=[]"),
        (lambda a, b: a.join(b), "invalid-join-key", 'a join needs a key: on="id", or left_on="a" and'),
        (lambda a, b: a.join(b, left_on="k"), "invalid-join-key", "a join needs a key"),
        (
            lambda a, b: a.join(b, "x", left_on="k"),
            "invalid-join-key",
            "either on= or left_on= and right_on=",
        ),
        (
            lambda a, b: a.join(b, left_on=["k", "x"], right_on="j"),
            "invalid-join-key",
            "left_on= and right_on= name the same number of columns, got 2 and 1",
        ),
        (lambda a, b: a.join(b, left_on="k", right_on="i"), "unknown-column", "unknown column 'i'"),
        (
            lambda a, b: a.join(b, left_on=5, right_on="j"),
            "invalid-argument",
            "left_on= expects a column name",
        ),
        (
            lambda a, b: a.join(b, on=a["k"] == b["j"]),
            "invalid-argument",
            'got the condition stream["k"] == stream["j"]; write the equalities as left_on= and right_on=',
        ),
        (
            lambda a, b: a.join(b, on="x", where=lambda x, y: x < y),
            "invalid-argument",
            'where= expects a condition such as left["x"] < right["y"], got <function',
        ),
        (lambda a, b: a.join(b, on="x", how="semi", select=["j"]), "unknown-column", "unknown column 'j'"),
        (
            lambda a, b: a.join(a, on="k", where=a["x"] < 3),
            "invalid-expression",
            'stream["x"] is a column of both sides, because the stream is joined with itself; write col("x") '
            'for the left side and col("x_right") for the right side',
        ),
        (
            lambda a, b: a.filter(col("k") > 1).join(b, on="x", where=a["k"] < b["j"]),
            "invalid-expression",
            "which is not a side of the join; use the streams that are joined, or the names of the result",
        ),
        (
            lambda a, b: a.filter(b["x"] > 1),
            "invalid-expression",
            'stream["x"] is a column of another stream',
        ),
        (lambda a, b: a["xx"], "unknown-column", "unknown column 'xx'; did you mean 'x'?"),
        (lambda a, b: a[["k", "x"]], "invalid-argument", 'use select("k", "x") for several columns'),
        (lambda a, b: a[a["k"] > 1], "invalid-argument", "use filter(...) for the rows that satisfy a cond"),
        (lambda a, b: list(a), "invalid-argument", "got 0 of type int; a stream has no rows before"),
    ],
)
def test_wrong_arguments(build: Any, code: str, message: str) -> None:
    with pytest.raises(DbspError, match=re.escape(message)) as caught:
        build(*streams(Circuit("c"), nulls=False))
    assert caught.value.code == code


@pytest.mark.parametrize("name", ["left_join", "right_join", "full_join", "semijoin", "antijoin", "merge"])
def test_names_of_earlier_versions_say_what_to_write(name: str) -> None:
    a, _ = streams(Circuit("c"), nulls=False)
    with pytest.raises(AttributeError, match=rf"a stream has no '{name}'; write s\.join\(other, on="):
        getattr(a, name)


@given(ticks({"a": rows(small, small)}))
def test_columns_of_the_stream_in_its_methods(sequence: list[Tick]) -> None:
    def build(c: Circuit) -> dict[str, Stream]:
        a = c.input("a", x=int, y=int)
        return {
            "filter": a.filter(a["x"] < a["y"]),
            "map": a.map(s=a["x"] + a["y"]),
            "with": a.with_columns(x=a["y"], z=a["x"] * 2),
            "good": a.try_map(q=a["x"] // a["y"]).good,
            "groups": a.group_by(k=a["x"] % 2).agg(t=a["y"].sum() + a["x"].sum()),
            "series": a.generate_series(a["x"], a["y"]),
        }

    def by_name(c: Circuit) -> dict[str, Stream]:
        a = c.input("a", x=int, y=int)
        x, y = col("x"), col("y")
        return {
            "filter": a.filter(x < y),
            "map": a.map(s=x + y),
            "with": a.with_columns(x=y, z=x * 2),
            "good": a.try_map(q=x // y).good,
            "groups": a.group_by(k=x % 2).agg(t=y.sum() + x.sum()),
            "series": a.generate_series(x, y),
        }

    first, second = Circuit("a"), Circuit("a")
    for circuit, made in ((first, build), (second, by_name)):
        for name, stream in made(circuit).items():
            circuit.output(name, stream)
    assert first.same_as(second)
    runs = first.start(), second.start()
    for tick in sequence:
        one, two = (run.step(tick) for run in runs)
        assert {n: one[n].to_dict() for n in one} == {n: two[n].to_dict() for n in two}


def test_columns_of_streams_in_joins_along_an_order() -> None:
    def built(bound: bool) -> Circuit:
        c = Circuit("ordered")
        a, b = streams(c, nulls=False)
        where = a["k"] < b["x"] if bound else col("k") < col("x_right")
        c.output("range", a.range_join(b, left="x", right="j", low=0, high=2, where=where))
        c.output("interval", a.interval_join(b, left="x", first="j", last="x", where=where))
        return c

    assert built(True).same_as(built(False))
    run = built(True).start()
    deltas = run.step({"a": [(1, 2), (5, 2)], "b": [(2, 3), (1, 4)]})
    assert deltas["range"].rows() == [(1, 2, 2, 3)]
    assert deltas["interval"].rows() == [(1, 2, 1, 4), (1, 2, 2, 3)]


def test_a_column_of_a_stream_has_no_meaning_without_its_stream() -> None:
    a, b = streams(Circuit("c"), nulls=False)
    condition = [a["k"] < b["x"]]
    with pytest.raises(DbspError, match=r"is a column of one stream, which only the methods of that stream"):
        multiway_join([a("k", "x"), b("x", "y")], where=condition)
    assert not a["x"].same_as(b["x"]) and a["x"].same_as(a["x"]) and repr(a["x"] + 1) == 'stream["x"] + 1'
