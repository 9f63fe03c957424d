"""Join: bilinear, asymmetric convention, shared traces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp import Circuit, SchemaError, Stream, WeightOverflowError, col
from tests import reference
from tests.harness import final_views, follow, start, view
from tests.reference import Z, add, scale
from tests.strategies import Tick, deltas, heavy_weights, nullable, resplit, rows, small, ticks, words

PAIR = rows(small, small)
TWO_INPUTS = ticks({"a": PAIR, "b": PAIR})


def natural(circuit: Circuit) -> Stream:
    a = circuit.input("a", x=int, y=int)
    b = circuit.input("b", y=int, z=int)
    return a.join(b, on=["y"])


def natural_model(inputs: dict[str, Z]) -> Z:
    return reference.join(inputs["a"], inputs["b"], [(1, 0)], [(0, 0), (0, 1), (1, 1)])


@given(TWO_INPUTS)
def test_equals_the_batch_join_tick_by_tick(sequence: list[Tick]) -> None:
    follow(natural, natural_model, sequence)


@given(ticks({"a": PAIR, "b": PAIR}, heavy_weights))
def test_heavy_weights(sequence: list[Tick]) -> None:
    def light(delta: Z) -> Z:  # 2**40 * 2**40 overflows int64, so one side has small weights
        return {row: max(-9, min(weight, 9)) for row, weight in delta.items()}

    follow(natural, natural_model, [{**tick, "b": light(tick.get("b", {}))} for tick in sequence])


@given(TWO_INPUTS, st.data())
def test_any_split_of_the_changes_gives_the_same_view(sequence: list[Tick], data: st.DataObject) -> None:
    other = data.draw(resplit(sequence))
    assert final_views(natural, sequence) == final_views(natural, other)


@given(deltas(PAIR), deltas(PAIR), deltas(PAIR))
def test_bilinear(a: Z, a2: Z, b: Z) -> None:
    def joined(left: Z, right: Z) -> Z:
        return final_views(natural, [{"a": left, "b": right}])["out"]

    assert joined(add(a, a2), b) == add(joined(a, b), joined(a2, b))
    assert joined(b, add(a, a2)) == add(joined(b, a), joined(b, a2))
    assert joined(scale(-3, a), b) == scale(-3, joined(a, b)) == joined(a, scale(-3, b))


@given(ticks({"e": PAIR}))
def test_self_join_over_one_trace(sequence: list[Tick]) -> None:
    follow(
        lambda c: (e := c.input("e", x=int, y=int)).join(e, on=["x"]),
        lambda inputs: reference.join(inputs["e"], inputs["e"], [(0, 0)], [(0, 0), (0, 1), (1, 1)]),
        sequence,
    )


@given(ticks({"e": PAIR}))
def test_paths_of_three_edges(sequence: list[Tick]) -> None:
    def build(c: Circuit) -> Stream:
        e = c.input("e", x=int, y=int)
        two = e.join(e, on=[("y", "x")], select=["x", "y_right"]).rename(y="y_right")
        return two.join(e, on=[("y", "x")], select=["x", "y_right"])

    def model(inputs: dict[str, Z]) -> Z:
        e = inputs["e"]
        two = reference.join(e, e, [(1, 0)], [(0, 0), (1, 1)])
        return reference.join(two, e, [(1, 0)], [(0, 0), (1, 1)])

    follow(build, model, sequence)


@given(ticks({"a": rows(small), "b": rows(small)}))
def test_cross_join(sequence: list[Tick]) -> None:
    follow(
        lambda c: c.input("a", x=int).join(c.input("b", y=int), on=[]),
        lambda inputs: reference.join(inputs["a"], inputs["b"], [], [(0, 0), (1, 0)]),
        sequence,
    )


@given(ticks({"a": rows(), "b": rows(small)}))
def test_cross_join_with_a_relation_without_columns(sequence: list[Tick]) -> None:
    follow(
        lambda c: c.input("a", schema={}).join(c.input("b", y=int), on=[]),
        lambda inputs: reference.join(inputs["a"], inputs["b"], [], [(1, 0)]),
        sequence,
    )


TRIPLE = rows(small, st.integers(0, 2), words)


@given(ticks({"a": TRIPLE, "b": TRIPLE}))
def test_two_swapped_key_columns_and_columns_in_any_order(sequence: list[Tick]) -> None:
    def build(c: Circuit) -> Stream:
        a = c.input("a", x=int, y=int, s=str)
        b = c.input("b", p=int, q=int, s=str)
        return a.join(b, on=[("y", "p"), "s"], select=["q", "s", "x", "p", "s_right"])

    follow(
        build,
        lambda inputs: reference.join(
            inputs["a"], inputs["b"], [(1, 0), (2, 2)], [(1, 1), (0, 2), (0, 0), (1, 0), (1, 2)]
        ),
        sequence,
    )


@given(ticks({"a": rows(small, st.integers(0, 2)), "b": rows(st.integers(0, 2), st.integers(0, 2))}))
def test_one_column_equal_to_two(sequence: list[Tick]) -> None:
    def build(c: Circuit) -> Stream:
        a = c.input("a", x=int, y=int)
        b = c.input("b", p=int, q=int)
        return a.join(b, on=[("y", "p"), ("y", "q")], select=["x", "y", "q"])

    follow(
        build,
        lambda inputs: reference.join(inputs["a"], inputs["b"], [(1, 0), (1, 1)], [(0, 0), (0, 1), (1, 1)]),
        sequence,
    )


@given(ticks({"a": rows(small, st.integers(0, 2)), "b": rows(st.integers(0, 2), st.integers(0, 2))}))
def test_two_columns_equal_to_one(sequence: list[Tick]) -> None:
    def build(c: Circuit) -> Stream:
        a = c.input("a", x=int, y=int)
        b = c.input("b", p=int, q=int)
        return b.join(a, on=[("p", "y"), ("q", "y")], select=["p", "q", "x"])

    follow(
        build,
        lambda inputs: reference.join(inputs["b"], inputs["a"], [(0, 1), (1, 1)], [(0, 0), (0, 1), (1, 0)]),
        sequence,
    )


@given(ticks({"a": rows(small, nullable), "b": rows(nullable, small)}))
def test_none_matches_none(sequence: list[Tick]) -> None:
    follow(
        lambda c: c.input("a", x=int, y=int | None).join(c.input("b", y=int | None, z=int), on=["y"]),
        natural_model,
        sequence,
    )


LOWEST = -(2**63)


def test_none_does_not_match_the_lowest_int() -> None:
    run = start(lambda c: c.input("a", x=int, y=int).join(c.input("b", y=int | None, z=int), on=["y"]))
    run.step({"a": {(1, LOWEST): 1, (2, 5): 1}, "b": {(None, 7): 1, (5, 8): 1}})
    assert view(run) == {(2, 5, 8): 1}
    run = start(lambda c: c.input("b", y=int | None, z=int).join(c.input("a", x=int, y=int), on=["y"]))
    run.step({"a": {(1, LOWEST): 1, (2, 5): 1}, "b": {(None, 7): 1, (5, 8): 1}})
    assert view(run) == {(5, 8, 2): 1}


@given(ticks({"e": PAIR, "f": PAIR}))
def test_several_outputs_share_traces(sequence: list[Tick]) -> None:
    def build(c: Circuit) -> dict[str, Stream]:
        e = c.input("e", x=int, y=int)
        f = c.input("f", x=int, y=int)
        return {
            "forward": e.join(f, on=["x"]),
            "backward": f.join(e, on=["x"]),
            "loops": e.join(f, on=["x", "y"]),
            "both": e.join(e, on=["x"]).union(e.join(f, on=["x"])),
        }

    def model(inputs: dict[str, Z]) -> dict[str, Z]:
        e, f = inputs["e"], inputs["f"]
        columns = [(0, 0), (0, 1), (1, 1)]
        return {
            "forward": reference.join(e, f, [(0, 0)], columns),
            "backward": reference.join(f, e, [(0, 0)], columns),
            "loops": reference.join(e, f, [(0, 0), (1, 1)], [(0, 0), (0, 1)]),
            "both": add(reference.join(e, e, [(0, 0)], columns), reference.join(e, f, [(0, 0)], columns)),
        }

    follow(build, model, sequence)


def test_equal_arrangements_are_shared() -> None:
    circuit = Circuit()
    e = circuit.input("e", x=int, y=int)
    f = circuit.input("f", x=int, y=int)
    circuit.output("p", e.join(f, on=["x"]))
    circuit.output("q", e.rename(a="x").join(f, on=[("a", "x")]).select("y", "y_right"))
    run = circuit.start()
    run.step({"e": {(1, 2): 1}, "f": {(1, 3): 1}})
    arrangements = [node for node in run.graph.walk() if node.label == "Arrange by 0, 1"]
    assert len([node for node in arrangements if node.inputs[0].node.label.startswith("Input")]) == 2


@pytest.mark.parametrize("weights", [(2**40, 2**40), (2**62, 2), (-(2**63), -1), (3, 2**62)])
def test_a_product_of_weights_that_overflows(weights: tuple[int, int]) -> None:
    run = start(natural)
    run.step({"a": {(1, 1): weights[0]}})
    with pytest.raises(
        WeightOverflowError,
        match=r"Join at test_join\.py:\d+: the product of weights is outside the 64-bit range",
    ):
        run.step({"b": {(1, 1): weights[1]}})
    assert view(run) == {} and run.tick == 1
    run.step({"b": {(1, 1): 1}})
    assert view(run) == {(1, 1, 1): weights[0]}


def test_a_sum_of_weights_that_overflows() -> None:
    run = start(lambda c: c.input("a", x=int, y=int).join(c.input("b", y=int), on=["y"]).select("x"))
    run.step({"b": {(1,): 2**62, (2,): 2**62}})
    with pytest.raises(
        WeightOverflowError, match=r"Join at test_join\.py:\d+: the sum of weights is outside"
    ):
        run.step({"a": {(0, 1): 1, (0, 2): 1}})
    run.step({"a": {(0, 1): 1, (0, 2): -1}})
    assert view(run) == {}


def test_many_rows_per_key_and_several_runs() -> None:
    run = start(natural)
    inputs: dict[str, Z] = {"a": {}, "b": {}}
    for number in range(30):
        tick = {
            "a": {(i, i * number % 7): 1 for i in range(number)},
            "b": {(i % 7, i): -1 if i % 3 else 1 for i in range(0, 900, number + 1)},
        }
        run.step(tick)
        inputs = {name: add(inputs[name], delta) for name, delta in tick.items()}
    assert view(run) == natural_model(inputs)


@given(ticks({"a": PAIR, "b": rows(small, nullable)}))
def test_with_a_condition_on_the_pair(sequence: list[Tick]) -> None:
    def build(c: Circuit) -> dict[str, Stream]:
        a, b = c.input("a", x=int, y=int), c.input("b", y=int, z=int | None)
        return {
            "whole": a.join(b, on=["y"], where=col("z") > col("x")),
            "some": a.join(b, on=["y"], select=["z"], where=(col("x") > 1) | (col("y_right") == 0)),
        }

    def model(inputs: dict[str, Z]) -> dict[str, Z]:
        pairs = natural_model(inputs)
        greater = reference.select(pairs, lambda row: row[2] is not None and row[2] > row[0])
        some = reference.select(pairs, lambda row: row[0] > 1 or row[1] == 0)
        return {"whole": greater, "some": reference.project(some, [2])}

    follow(build, model, sequence)


def test_a_condition_on_an_unknown_column() -> None:
    c = Circuit()
    a, b = c.input("a", x=int, y=int), c.input("b", y=int, z=int)
    with pytest.raises(SchemaError, match=r"Join at .*: the join has no column 'w'"):
        a.join(b, on=["y"], where=col("w") > 1)
    with pytest.raises(SchemaError, match=r"filter expects a boolean expression"):
        a.join(b, on=["y"], where=col("x") + col("z"))


@given(ticks({"e": rows(*[st.integers(0, 1)] * 3)}))
def test_self_join_with_rotated_columns(sequence: list[Tick]) -> None:
    """One arrangement serves both sides, in different orders of the key."""
    follow(
        lambda c: (e := c.input("e", x=int, y=int, z=int)).join(e, on=[("x", "y"), ("y", "z"), ("z", "x")]),
        lambda inputs: reference.join(
            inputs["e"], inputs["e"], [(0, 1), (1, 2), (2, 0)], [(0, 0), (0, 1), (0, 2)]
        ),
        sequence,
    )
