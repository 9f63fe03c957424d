"""Sample and scale: linear operators on weights."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp import Circuit, SchemaError, Stream, WeightOverflowError
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.operators.linear.sample import RowHashes, value_hash
from tests import reference
from tests.everywhere import follow_everywhere
from tests.harness import final_views, start, view
from tests.reference import Row, Z, add, consolidate, select
from tests.strategies import Tick, deltas, floats, nullable, rows, small, ticks, words

COLUMNS = {"x": int, "y": int | None, "s": str, "f": float}
ROW = rows(small, nullable, words, floats)

ALL: Z = {
    (x, y, s, f): 1
    for x in range(5)
    for y in (None, 0, 1, 2, 3, 4)
    for s in ["", "a", "b", "ab", "z", "é", "Z"]
    for f in [0.0, 0.1, 0.2, 0.3, -0.1, 1e16, -1e16, 1.0, 3.5, 1e-9]
}


def sampled(fraction: float, seed: int, zset: Z = ALL, **options: Any) -> Z:
    def build(c: Circuit) -> Stream:
        return c.input("a", schema=COLUMNS).sample(fraction, seed, **options)

    return final_views(build, [{"a": zset}])["out"]


KEPT = sampled(0.4, 7)


@given(ticks({"a": ROW}))
def test_keeps_the_same_rows_everywhere(sequence: list[Tick]) -> None:
    def model(a: Z) -> Z:
        return select(a, lambda row: row in KEPT)

    follow_everywhere(lambda s: s.sample(0.4, 7), model, COLUMNS, "x", sequence)


@given(ticks({"a": ROW}), st.integers(-3, 3))
def test_scale_multiplies_weights(sequence: list[Tick], factor: int) -> None:
    def model(a: Z) -> Z:
        return reference.scale(factor, a)

    follow_everywhere(lambda s: s.scale(factor), model, COLUMNS, "x", sequence)


@given(deltas(ROW), deltas(ROW))
def test_linear(a: Z, b: Z) -> None:
    assert sampled(0.4, 7, add(a, b)) == add(sampled(0.4, 7, a), sampled(0.4, 7, b))


def test_the_fraction_is_about_right_and_smaller_samples_are_part_of_larger_ones() -> None:
    previous: Z = {}
    for fraction in (0.0, 0.1, 0.5, 0.9, 1.0):
        kept = sampled(fraction, 3)
        assert abs(len(kept) - fraction * len(ALL)) < 0.03 * len(ALL)
        assert previous.keys() <= kept.keys()
        previous = kept
    assert previous == ALL
    assert len(sampled(0.5, 3).keys() & sampled(0.5, 4).keys()) < 0.3 * len(ALL)


def test_rows_that_agree_in_the_columns_are_sampled_together() -> None:
    kept = sampled(0.5, 1, on=["s", "y"])
    chosen = {(row[2], row[1]) for row in kept}
    assert kept == select(ALL, lambda row: (row[2], row[1]) in chosen)
    assert 0 < len(kept) < len(ALL)


def test_does_not_depend_on_the_order_of_arrival_of_strings() -> None:
    words = [f"word {n}" for n in range(200)]
    samples: list[Z] = []
    for ordered in (words, words[::-1]):
        run = start(lambda c: c.input("a", s=str).sample(0.3))
        for word in ordered:
            run.step({"a": [(word,)]})
        samples.append(view(run))
    assert samples[0] == samples[1] and 30 < len(samples[0]) < 90


def test_the_hash_never_changes() -> None:
    """If these numbers change, a seed selects other rows than in earlier versions."""
    schema = Schema.of(n=int, f=float, b=bool, s=str, d=date, o=tuple, m=int | None)
    row: Row = (-5, 2.5, True, "é", date(2024, 2, 29), (1, ("a", None), 1.0), None)
    interner = Interner()
    codes = schema.encode_rows([row], interner)
    assert RowHashes(schema, tuple(range(7)), 42, interner).of(codes).tolist() == [FIXED_ROW]
    assert [value_hash(v) for v in ("", "a", b"a", (1, "a"), frozenset({1, 2}), True, 1, 1.0)] == FIXED_VALUES


FIXED_ROW = 3525427286405560218
FIXED_VALUES = [
    16027976456189790694,
    1410542633125930404,
    8821455015625048046,
    12613870655800770086,
    1841077307943671737,
    14648242304244347640,
    17901935799113213640,
    1102971503413552380,
]


def test_similar_objects_have_different_hashes() -> None:
    alike = [
        "1",
        b"1",
        1,
        1.0,
        True,
        (1,),
        (1, 1),
        ((1,), 1),
        (1, (1,)),
        frozenset({1}),
        ("1", ""),
        ("", "1"),
        (),
    ]
    assert len({value_hash(value) for value in alike}) == len(alike)
    assert value_hash(frozenset("abc")) == value_hash(frozenset("cba"))


def test_refused() -> None:
    a = Circuit().input("a", x=int)
    for fraction in (-0.1, 1.5, float("nan")):
        with pytest.raises(SchemaError, match=r"Sample at .*expects a fraction between 0 and 1, got"):
            a.sample(fraction)
    with pytest.raises(SchemaError, match="unknown column 'y'"):
        a.sample(0.5, on=["y"])
    with pytest.raises(
        SchemaError, match=r"Scale at .*scale expects an int, because weights are ints; got 0.5"
    ):
        a.scale(0.5)  # type: ignore[arg-type]


@pytest.mark.parametrize(("weight", "factor"), [(2**62, 2), (-(2**63), -1), (3, 2**63), (-(2**62), 3)])
def test_a_product_that_leaves_int64(weight: int, factor: int) -> None:
    run = start(lambda c: c.input("a", x=int).scale(factor))
    with pytest.raises(
        WeightOverflowError, match=r"Scale at .*the product of weights is outside the 64-bit range"
    ):
        run.step({"a": {(1,): weight, (2,): 1}})
    assert view(run) == {}


def test_a_product_that_just_fits() -> None:
    run = start(lambda c: c.input("a", x=int).scale(-2))
    run.step({"a": {(1,): 2**62, (2,): 5}})
    assert view(run) == {(1,): -(2**63), (2,): -10}
    assert consolidate(view(run).items()) == view(run)
