"""As-of join: the latest right row up to the time of each left row."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbsp import Circuit, SchemaError, Stream, ValueOutOfRangeError, ZSet
from dbsp.runtime.agreement import check_agreement
from tests.harness import final_views, follow, start, view
from tests.profiles import examples
from tests.reference import Row, Z, add, consolidate, scale
from tests.scopes import LEVELLED, scoped, scoped_model
from tests.strategies import Tick, deltas, floats, nullable, resplit, rows, small, ticks, words

KEY = st.integers(0, 1)
TIME = nullable | st.integers(0, 9)
LEFT = rows(small, KEY, TIME)
RIGHT = rows(KEY, TIME, nullable, words)
INPUTS = ticks({"a": LEFT, "b": RIGHT}, max_ticks=8)


def asof(outer: bool) -> Callable[[Circuit], Stream]:
    def build(c: Circuit) -> Stream:
        a = c.input("a", n=int, k=int, t=int | None)
        b = c.input("b", k=int, u=int | None, v=int | None, s=str)
        return a.asof_join(b, on=["k"], left="t", right="u", outer=outer)

    return build


def latest(candidates: list[Row], key: Any, time: Any, of_key: int, of_time: int) -> Row | None:
    """Return the partner of a left row among the rows of positive weight, or None."""
    if time is None or time != time:
        return None
    before = [
        row for row in candidates if row[of_key] == key and row[of_time] is not None and row[of_time] <= time
    ]
    others = [c for c in range(len(candidates[0])) if c not in (of_key, of_time)] if candidates else []
    return max(before, key=lambda row: (row[of_time], [ordered(row[c]) for c in others]), default=None)


def ordered(value: Any) -> tuple[bool, Any]:
    return (value is not None, value)


def asof_model(outer: bool) -> Callable[[dict[str, Z]], Z]:
    def model(inputs: dict[str, Z]) -> Z:
        candidates = [row for row, weight in inputs["b"].items() if weight > 0]
        pairs = []
        for (n, k, t), weight in inputs["a"].items():
            partner = latest(candidates, k, t, 0, 1)
            if partner is not None:
                pairs.append(((n, k, t, *partner[1:]), weight))
            elif outer:
                pairs.append(((n, k, t, None, None, None), weight))
        return consolidate(pairs)

    return model


@pytest.mark.parametrize("outer", [False, True])
@settings(max_examples=examples(150))
@given(INPUTS)
def test_equals_the_batch_join_tick_by_tick(outer: bool, sequence: list[Tick]) -> None:
    follow(asof(outer), asof_model(outer), sequence)


@given(INPUTS, st.data())
def test_any_split_of_the_changes_gives_the_same_view(sequence: list[Tick], data: st.DataObject) -> None:
    other = data.draw(resplit(sequence))
    assert final_views(asof(True), sequence) == final_views(asof(True), other)


@given(deltas(LEFT), deltas(LEFT), deltas(RIGHT))
def test_linear_in_the_left(a: Z, a2: Z, b: Z) -> None:
    def joined(left: Z) -> Z:
        return final_views(asof(True), [{"a": left, "b": b}])["out"]

    assert joined(add(a, a2)) == add(joined(a), joined(a2))
    assert joined(scale(-3, a)) == scale(-3, joined(a))


def of_levels(a: Stream, b: Stream) -> Stream:
    return a.asof_join(
        b, on=["l"], left="x", right="x", outer=True, select=["l", "x", "y", "y_right", "x_right"]
    )


def of_levels_model(a: Z, b: Z) -> Z:
    candidates = [row for row, weight in b.items() if weight > 0]
    pairs = []
    for (level, x, y), weight in a.items():
        _, u, z = latest(candidates, level, x, 0, 1) or (None, None, None)
        pairs.append(((level, x, y, z, u), weight))
    return consolidate(pairs)


def again(row: Row) -> Row:
    level, x, y, z, u = row
    return (level + 1, 0 if z is None else z, x if y is None else u)


@pytest.mark.parametrize("depth", [1, 2])
@settings(max_examples=examples(20))
@given(LEVELLED)
def test_inside_scopes(depth: int, sequence: list[Tick]) -> None:
    follow(scoped(of_levels, again, depth), scoped_model(of_levels_model, again, depth), sequence)


def test_stages_agree() -> None:
    for build in (asof(False), asof(True), scoped(of_levels, again)):
        circuit = Circuit("stages")
        circuit.output("out", build(circuit))
        assert check_agreement(circuit.start, 15, values=3) > 0


@given(ticks({"e": rows(small, small)}))
def test_self_join_over_one_trace(sequence: list[Tick]) -> None:
    def build(c: Circuit) -> Stream:
        e = c.input("e", x=int, y=int)
        return e.asof_join(e, left="x", right="x")

    def model(inputs: dict[str, Z]) -> Z:
        candidates = [row for row, weight in inputs["e"].items() if weight > 0]
        pairs = []
        for row, weight in inputs["e"].items():
            before = [other for other in candidates if other[0] <= row[0]]
            if before:
                pairs.append(((*row, *max(before)), weight))
        return consolidate(pairs)

    follow(build, model, sequence)


@given(ticks({"a": rows(floats | st.sampled_from([math.nan, math.inf, -math.inf])), "b": rows(floats)}))
def test_times_that_are_floats(sequence: list[Tick]) -> None:
    def build(c: Circuit) -> Stream:
        return c.input("a", t=float).asof_join(c.input("b", u=float), left="t", right="u", outer=True)

    run = start(build)
    a: dict[Any, int] = {}
    b: Z = {}
    for tick in sequence:
        run.step(tick)
        for (t,), weight in tick.get("a", {}).items():
            name = "nan" if t != t else t
            a[name] = a.get(name, 0) + weight
        b = add(b, tick.get("b", {}))
        expected = []
        for t, weight in a.items():
            time = math.nan if t == "nan" else t
            partner = latest([(0, u) for (u,), w in b.items() if w > 0], 0, time, 0, 1)
            expected.append(((t, None if partner is None else partner[1]), weight))
        seen = {("nan" if t != t else t, u): weight for (t, u), weight in view(run).items()}
        assert seen == consolidate(expected)


def test_none_does_not_match_the_lowest_int() -> None:
    def build(c: Circuit) -> Stream:
        a, b = c.input("a", k=int, t=int), c.input("b", k=int | None, u=int)
        return a.asof_join(b, on=["k"], left="t", right="u", outer=True)

    run = start(build)
    run.step({"a": [(-(2**63), 1), (2, 1)], "b": [(None, 0), (2, 0)]})
    assert view(run) == {(-(2**63), 1, None): 1, (2, 1, 0): 1}


def test_the_edges_of_int64() -> None:
    lowest, highest = -(2**63), 2**63 - 1
    run = start(lambda c: c.input("a", t=int).asof_join(c.input("b", u=int, v=int), left="t", right="u"))
    run.step({"a": [(lowest,), (0,), (highest,)]})
    assert run.step({"b": [(lowest, 1)]})["out"].to_dict() == {
        (t, lowest, 1): 1 for t in (lowest, 0, highest)
    }
    assert run.step({"b": [(highest, 2)]})["out"].to_dict() == {
        (highest, lowest, 1): -1,
        (highest, highest, 2): 1,
    }
    run.step({"b": {(lowest, 1): -1}})
    assert view(run) == {(highest, highest, 2): 1}
    outer = start(
        lambda c: c.input("a", t=int).asof_join(c.input("b", u=int), left="t", right="u", outer=True)
    )
    with pytest.raises(ValueOutOfRangeError, match="AsofJoin at"):
        outer.step({"a": [(1,)], "b": [(lowest,)]})


def test_trades_and_quotes() -> None:
    def build(c: Circuit) -> Stream:
        trade = c.input("trade", item=str, at=datetime, n=int)
        quote = c.input("quote", item=str, at=datetime, price=float)
        return trade.asof_join(quote, on=["item"], left="at", right="at", select=["item", "n", "price"])

    run = start(build)
    noon = datetime(2024, 5, 1, 12)
    second = timedelta(seconds=1)
    run.step({"quote": [("tea", noon, 1.0), ("tea", noon + 5 * second, 2.0)]})
    assert run.step({"trade": [("tea", noon + 3 * second, 7)]})["out"].to_dict() == {("tea", 7, 1.0): 1}
    late = run.step({"quote": [("tea", noon + 2 * second, 1.5)]})
    assert late["out"].to_dict() == {("tea", 7, 1.0): -1, ("tea", 7, 1.5): 1}


def test_a_tick_visits_only_the_affected_rows() -> None:
    """Count the gathered rows: those up to the next time, not the complete group."""
    from dbsp.operators.joins import asof_join

    run = start(lambda c: c.input("a", t=int).asof_join(c.input("b", u=int), left="t", right="u"))
    run.step({"a": ZSet.from_numpy(np.arange(10_000).reshape(-1, 1))})
    run.step({"b": ZSet.from_numpy(np.arange(0, 10_000, 10).reshape(-1, 1))})
    gathered = []
    original = asof_join.Matching.of

    def counted(self: Any, rows: Any, table: Any, runs: int) -> Any:
        gathered.append(len(rows))
        return original(self, rows, table, runs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asof_join.Matching, "of", counted)
        out = run.step({"b": {(5003,): 1, (7000,): -1}})["out"]
    assert len(out) == 2 * (7 + 10)
    assert gathered == [17, 17]


def test_refused() -> None:
    c = Circuit()
    a, b = c.input("a", k=int, t=int, s=str), c.input("b", k=int, u=float, s=str)
    with pytest.raises(
        SchemaError, match=r"AsofJoin at .*_join\.py:\d+: expected two columns of the same ordered type"
    ):
        a.asof_join(b, left="t", right="u")
    with pytest.raises(SchemaError, match=r"expected two columns of the same ordered type.*, got 's: str'"):
        a.asof_join(b, left="s", right="s")
    with pytest.raises(SchemaError, match="a column occurs twice in on=, left= and right="):
        a.asof_join(b, on=["k"], left="k", right="k")


def test_the_least_int_does_not_fit_an_optional_column() -> None:
    circuit = Circuit()
    a, b = circuit.input("a", t=int), circuit.input("b", u=int, n=int)
    circuit.output("out", a.asof_join(b, left="t", right="u", outer=True))
    run = circuit.start()
    with pytest.raises(ValueOutOfRangeError, match="cannot be stored in an optional int column"):
        run.step({"a": [(1,)], "b": [(1, -(2**63))]})
