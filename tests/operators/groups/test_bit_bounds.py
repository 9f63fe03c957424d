"""bit_or and bit_and: as aggregates of groups, and in a recursion."""

from __future__ import annotations

from functools import reduce
from operator import and_, or_
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbsp import Circuit, SchemaError, Stream, ValueOutOfRangeError, col
from tests.harness import follow, start
from tests.operators.recursion import nested_scopes
from tests.profiles import examples
from tests.reference import Row, Z
from tests.strategies import Tick, rows, set_ticks, ticks

MASKS = st.sampled_from([0, 1, 2, 3, 6, -1, -4])


@given(ticks({"a": rows(st.integers(0, 1), st.none() | MASKS)}))
def test_bits_of_groups(sequence: list[Tick]) -> None:
    def build(c: Circuit) -> Stream:
        bits = {"some": col("m").bit_or(), "all": col("m").bit_and(), "turned": (3 - col("m")).bit_or()}
        return c.input("a", k=int, m=int | None).group_by("k").agg(**bits)

    def model(inputs: dict[str, Z]) -> Z:
        found: Z = {}
        for key in (0, 1):
            group = {m: w for (k, m), w in inputs["a"].items() if k == key}
            values = [m for m, w in group.items() if w > 0 and m is not None]
            if sum(group.values()) > 0:
                bits = [reduce(or_, values), reduce(and_, values)] if values else [None, None]
                found[(key, *bits, reduce(or_, [3 - m for m in values]) if values else None)] = 1
        return found

    follow(build, model, sequence)


def reached(circuit: Circuit) -> Stream:
    """For every node the sets of bits of some way from node 0, and of all ways."""
    edge = circuit.input("edge", schema={"x": int, "y": int, "m": int}, kind="set")
    with circuit.fixpoint("bits") as scope:
        some = scope.variable("some", {"node": int, "m": int})
        both = scope.variable("both", {"node": int, "m": int})
        root = circuit.constant([(0, 0)], {"node": int, "m": int})
        full = circuit.constant([(0, 7)], {"node": int, "m": int})
        scope.define(some, along(some, edge, root, col("m").bor(col("m_right"))).agg(m=col("m").bit_or()))
        scope.define(both, along(both, edge, full, col("m").band(col("m_right"))).agg(m=col("m").bit_and()))
    return scope.leave(some).join(scope.leave(both), on=["node"])


def along(known: Stream, edge: Stream, root: Stream, bits: Any) -> Any:
    ways = known.join(edge, on=[("node", "x")], select=["y", "m", "m_right"])
    return (root + ways.map(node=col("y"), m=bits)).group_by("node")


def model_of_reached(edge: set[Row]) -> set[Row]:
    some, both = {0: 0}, {0: 7}
    while True:
        before = (dict(some), dict(both))
        for x, y, m in edge:
            if x in some:
                some[y] = some.get(y, 0) | some[x] | m
                both[y] = both.get(y, 7) & both[x] & m
        if (some, both) == before:
            return {(node, some[node], both[node]) for node in some}


@settings(max_examples=examples(60))
@given(set_ticks({"edge": rows(st.integers(0, 4), st.integers(0, 4), st.integers(1, 7))}, max_size=9))
def test_bits_in_a_recursion(sequence: list[Tick]) -> None:
    nested_scopes.follow(reached, model_of_reached, sequence)


def test_only_ints_have_bits() -> None:
    with pytest.raises(SchemaError, match=r"bit_or 'm' expects an int, got str \[invalid-aggregate\]"):
        start(lambda c: c.input("a", s=str).group_by().agg(m=col("s").bit_or()))


def test_the_code_of_none_is_no_result() -> None:
    run = start(lambda c: c.input("a", m=int | None).group_by().agg(m=col("m").bit_and()))
    with pytest.raises(ValueOutOfRangeError, match=r"the bit_and -2\*\*63 represents None"):
        run.step({"a": [(-(2**63) + 1,), (-(2**63) + 2,)]})
    run.step({"a": [(6,), (3,)]})
    assert run.view("out").rows() == [(2,)]
