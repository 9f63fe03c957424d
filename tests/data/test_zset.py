"""Z-sets: the group laws, construction, access, and the trie view."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp import Circuit
from dbsp.data.batch import Batch
from dbsp.data.indexed_zset import IndexedZSet
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.data.zset import ZSet
from dbsp.errors import (
    ArgumentError,
    InputError,
    SchemaError,
    UserFunctionError,
    ValueOutOfRangeError,
    WeightOverflowError,
)
from dbsp.kernels.limits import INT64_MAX, INT64_MIN, NULL

SCHEMA = Schema.of(n=int | None, s=str)
ROWS = st.tuples(st.none() | st.integers(-2, 2), st.sampled_from(["", "a", "b", "é"]))
WEIGHTS = st.integers(-3, 3)
PAIRS = st.lists(st.tuples(ROWS, WEIGHTS), max_size=8)
ZSETS = PAIRS.map(lambda pairs: ZSet.from_rows([row for row, _ in pairs], [w for _, w in pairs], SCHEMA))


def model(zset: ZSet) -> dict[tuple[Any, ...], int]:
    return dict(zset.items())


def plus(a: dict[Any, int], b: dict[Any, int], sign: int = 1) -> dict[Any, int]:
    total = Counter(a)
    for row, weight in b.items():
        total[row] += sign * weight
    return {row: weight for row, weight in total.items() if weight}


# --- the group ------------------------------------------------------------------------------------


@given(ZSETS, ZSETS, ZSETS)
def test_group_laws(a: ZSet, b: ZSet, c: ZSet) -> None:
    zero = ZSet.empty(SCHEMA)
    assert (a + b) + c == a + (b + c)
    assert a + b == b + a
    assert a + zero == a == zero + a
    assert a - a == zero == a + -a
    assert -(a + b) == -a - b
    assert a - b == a + -b


@given(ZSETS, ZSETS, st.integers(-3, 3), st.integers(-3, 3))
def test_scalar_product_laws(a: ZSet, b: ZSet, m: int, n: int) -> None:
    assert m * (a + b) == m * a + m * b
    assert (m + n) * a == m * a + n * a
    assert (m * n) * a == m * (n * a)
    assert 1 * a == a == a * 1
    assert not 0 * a


@given(PAIRS, PAIRS)
def test_sum_and_difference_agree_with_dicts(left: list[Any], right: list[Any]) -> None:
    a, b = (ZSet.from_rows([r for r, _ in pairs], [w for _, w in pairs], SCHEMA) for pairs in (left, right))
    model_a: dict[Any, int] = {}
    model_b: dict[Any, int] = {}
    for row, weight in left:
        model_a = plus(model_a, {row: weight})
    for row, weight in right:
        model_b = plus(model_b, {row: weight})
    assert model(a) == model_a and model(b) == model_b
    assert model(a + b) == plus(model_a, model_b)
    assert model(a - b) == plus(model_a, model_b, -1)
    assert (a == b) == (model_a == model_b)
    assert a == model_a and (a == model_b) == (model_a == model_b)


@given(ZSETS)
def test_reading(zset: ZSet) -> None:
    pairs = list(zset)
    assert pairs == zset.items()
    assert (
        [row for row, _ in pairs]
        == zset.rows()
        == sorted(zset.rows(), key=lambda r: (r[0] is not None, r[0] or 0, r[1]))
    )
    assert len(zset) == len(pairs) and bool(zset) == bool(pairs)
    for row, weight in pairs:
        assert zset[row] == weight != 0 and row in zset
    assert zset[99, "a"] == 0 and zset[1, "never seen"] == 0 and (99, "a") not in zset
    assert "never seen" not in zset.interner
    assert zset.to_dict() == dict(pairs)
    assert model(zset.positive()) == {row: weight for row, weight in pairs if weight > 0}
    assert model(zset.distinct()) == {row: 1 for row, weight in pairs if weight > 0}
    assert zset.distinct().is_set() and zset.is_set() == all(weight == 1 for _, weight in pairs)


NIGHT = dt.datetime(2024, 10, 27, tzinfo=dt.UTC)
TWICE = [NIGHT + dt.timedelta(minutes=30), NIGHT + dt.timedelta(minutes=90)]
"""Two instants of the local time 2:30 in Rome."""

EQUAL_IN_PYTHON: list[tuple[Any, list[Any], str]] = [
    ("timestamptz(Europe/Rome)", TWICE, r"datetime\(2024, 10, 27, 2, 30, tz.* and .*, 2, 30, fold=1, tz.*"),
    ("list[timestamptz(Europe/Rome)]", [[at] for at in TWICE], r".* and .*fold=1.*"),
    ("{at: timestamptz(Europe/Rome)?}", [{"at": at} for at in TWICE], r".* and .*fold=1.*"),
    (object, [1, True], "(1 and True|True and 1)"),
]


@pytest.mark.parametrize(("type_", "values", "shown"), EQUAL_IN_PYTHON)
def test_a_dictionary_does_not_lose_rows_that_are_equal_in_python(
    type_: Any, values: list[Any], shown: str
) -> None:
    zset = ZSet([(7, value) for value in values], {"n": int, "x": type_})
    assert len(zset) == len(zset.items()) == len(zset.rows()) == 2
    assert [zset[row] for row in zset.rows()] == [1, 1]
    message = (
        rf"^column 'x': .*{shown} are different values .* use items\(\) or rows\(\) \[unsupported-value\]$"
    )
    with pytest.raises(SchemaError, match=message):
        zset.to_dict()
    assert len(ZSet([(8, values[0]), (9, values[1])], zset.schema).to_dict()) == 2


@given(ZSETS)
def test_the_batch_is_canonical(zset: ZSet) -> None:
    rows = zset.batch.rows
    assert rows.flags.c_contiguous and rows.dtype == np.int64
    listed = rows.tolist()
    assert listed == sorted(listed) and len(set(map(tuple, listed))) == len(listed)
    assert (zset.batch.weights != 0).all()


def test_sum_of_a_list() -> None:
    assert sum([ZSet({(1,): 1}), ZSet({(1,): 2}), ZSet({(2,): 1})]) == {(1,): 3, (2,): 1}
    with pytest.raises(TypeError):
        5 + ZSet({(1,): 1})
    with pytest.raises(TypeError):
        ZSet({(1,): 1}) * 1.5  # type: ignore[operator]


def test_an_empty_zset_without_schema_is_the_zero_of_every_schema() -> None:
    zset = ZSet({(1, "a"): 2})
    assert ZSet() + zset == zset == zset + ZSet({})
    assert ZSet() - zset == -zset
    assert (ZSet() + zset).schema == zset.schema


def test_weights_beyond_64_bits_are_refused() -> None:
    big = ZSet({(1,): INT64_MAX})
    with pytest.raises(WeightOverflowError, match="the sum of weights is outside the 64-bit range"):
        big + ZSet({(1,): 1})
    with pytest.raises(
        WeightOverflowError, match="2 times a weight of this Z-set is outside the 64-bit range"
    ):
        2 * big
    with pytest.raises(WeightOverflowError):
        np.int64(2) * big
    with pytest.raises(WeightOverflowError):
        -ZSet({(1,): INT64_MIN})
    with pytest.raises(WeightOverflowError, match=r"expected a weight from .*, got 9223372036854775808"):
        ZSet({(1,): 2**63})
    with pytest.raises(WeightOverflowError):
        ZSet.from_rows([(1,), (1,)], [INT64_MAX, 1])
    assert -1 * big == ZSet({(1,): -INT64_MAX})
    least = ZSet({(1,): INT64_MIN}, {"x": int}).index_by("x")
    grown = least.extend_leaves(ZSet({(1, 5): 1}, {"x": int, "z": int}).index_by("x"))
    assert grown.to_zset() == {(1, 5): INT64_MIN}


def test_numbers_of_numpy_are_factors() -> None:
    for zset in (ZSet({}, {"x": int}), ZSet({(1,): 3}, {"x": int})):
        assert zset * np.int64(2) == np.int64(2) * zset == zset + zset
        assert zset != np.int64(0)
        with pytest.raises(TypeError):
            zset + np.int64(0)
        with pytest.raises(TypeError):
            zset * True


def test_weights_that_are_not_ints_are_refused() -> None:
    with pytest.raises(InputError, match=r"expected an int as weight, got 1\.5 of type float"):
        ZSet({(1,): 1.5})
    with pytest.raises(InputError, match="got True of type bool"):
        ZSet({(1,): True})
    with pytest.raises(InputError, match="expected 2 weights, one per row, got 1"):
        ZSet.from_rows([(1,), (2,)], [1])
    assert ZSet.from_rows([(1,)], np.array([3])) == {(1,): 3}


# --- construction ---------------------------------------------------------------------------------


def test_forms_of_construction() -> None:
    expected = {(1, "a"): 2, (2, "b"): 1}
    assert ZSet({(1, "a"): 2, (2, "b"): 1}) == expected
    assert ZSet([(1, "a"), (2, "b"), (1, "a")]) == expected
    assert ZSet(((1, "a"), (1, "a"), (2, "b")), {"x": int, "y": str}).schema == Schema.of(x=int, y=str)
    assert ZSet([{"x": 1, "y": "a"}, {"x": 1, "y": "a"}, {"y": "b", "x": 2}]) == expected
    assert ZSet({(1, "a"): 2, (2, "b"): 1, (3, "c"): 0}) == expected
    zset = ZSet(expected)
    assert ZSet(zset) == zset and ZSet(zset, {"p": int | None, "q": str}).schema.names == ("p", "q")


def test_zsets_of_arity_zero() -> None:
    nothing = Schema((), ())
    zset = ZSet.from_rows([(), ()], schema=nothing)
    assert zset.items() == [((), 2)] and zset[()] == 2 and () in zset
    assert zset - zset == ZSet.empty(nothing)


def test_from_numpy() -> None:
    assert ZSet.from_numpy(np.array([[1, 2], [1, 2], [3, 4]], np.int32)) == {(1, 2): 2, (3, 4): 1}
    assert ZSet.from_numpy(np.array([[1, 2], [3, 4]]).T, [5, -5]) == {(1, 3): 5, (2, 4): -5}
    assert ZSet.from_numpy(np.array([[1], [2]]), schema={"x": float}) == {(1.0,): 1, (2.0,): 1}
    assert ZSet.from_numpy(np.array([[0.5, math.nan]])).rows()[0][0] == 0.5
    assert ZSet.from_numpy(np.array([[True], [False]])) == {(True,): 1, (False,): 1}
    for array, message in [
        (np.array([1, 2]), "expected an array of shape"),
        (np.array([["a"]]), "use ZSet.from_rows"),
        (np.array([[2**63]], np.uint64), "expected an int from .*, got 9223372036854775808"),
    ]:
        with pytest.raises((InputError, ValueOutOfRangeError), match=message):
            ZSet.from_numpy(array)


def test_wrap_copies_nothing() -> None:
    batch = Batch(np.array([[1, 2]]), np.array([3]))
    zset = ZSet.wrap(Schema.of(x=int, y=int), Interner(), batch)
    assert zset.stored is batch and zset == {(1, 2): 3}
    assert np.shares_memory(zset.batch.rows, batch.rows)
    assert zset.recoded(Schema.of(a=int, b=int), Interner()) is batch


# --- Z-sets of different schemas and interners ----------------------------------------------------


def test_operands_with_other_interners_are_recoded() -> None:
    a = ZSet({("x", 1): 1, ("y", 2): 1})
    b = ZSet({("y", 2): 1, ("x", 1): 1, ("z", None): 4})
    assert a.interner.find("y") != b.interner.find("y")
    total = a + b
    assert total == {("x", 1): 2, ("y", 2): 2, ("z", None): 4}
    assert total.interner is a.interner and total.schema.describe() == "c0: str, c1: int?"
    assert b - b == ZSet.empty(b.schema)


def test_equality_grows_no_interner() -> None:
    a, b = ZSet({("x",): 1}), ZSet({("y",): 1})
    assert a != b and a != {("q",): 1} and a == {("x",): 1} and a != {("x",): 2}
    assert len(a.interner) == len(b.interner) == 1


def test_equality_is_by_value_not_by_name_or_optionality() -> None:
    assert ZSet({(1, 2): 1}, {"x": int, "y": int}) == ZSet({(1, 2): 1}, {"a": int | None, "b": int})
    assert ZSet({(1,): 1}) != ZSet({(1.0,): 1}) and ZSet({(1,): 1}) != ZSet({(True,): 1})
    assert ZSet({((1,),): 1}) != ZSet({((True,),): 1})
    assert ZSet({(1,): 1}) == ZSet({(1,): 1}, {"x": object})
    assert ZSet({(math.nan,): 1}) == ZSet({(float("nan"),): 1})
    assert ZSet({(1,): 1}) != ZSet({(1, 2): 1}) and ZSet({(1,): 1}) != 5
    assert ZSet() == ZSet.empty({"x": str}) == {} and ZSet() != {(1,): 1} and ZSet({(1,): 1}) != {}
    lowest = ZSet.from_rows([(INT64_MIN,)], schema={"x": int})
    none = ZSet({(None,): 1}, {"x": int | None})
    assert lowest != none and lowest.batch.rows[0, 0] == none.batch.rows[0, 0] == NULL
    assert lowest == {(INT64_MIN,): 1}


def test_operands_that_do_not_fit_are_refused() -> None:
    with pytest.raises(SchemaError, match=r"expected 1 column \(c0: int\), got 2 \(c0: int, c1: int\)"):
        ZSet({(1,): 1}) + ZSet({(1, 2): 1})
    with pytest.raises(InputError, match=r"column 'c0': .*expected int, got 'a'"):
        ZSet({(1,): 1}) + ZSet({("a",): 1})
    with pytest.raises(InputError, match="column 'c0': expected a column of type int, got one of type float"):
        ZSet({(1,): 1}) + ZSet({(0.5,): 1})
    with pytest.raises(ValueOutOfRangeError, match="in an optional column, got"):
        ZSet.from_rows([(INT64_MIN,)], schema={"x": int}) + ZSet({(None,): 1}, {"x": int | None})
    with pytest.raises(InputError, match="column 'x': expected int, got None"):
        ZSet({(None,): 1}, {"x": int | None}).recoded(Schema.of(x=int), Interner())
    assert ZSet({(0.5,): 1}) + ZSet({(1,): 1}) == {(0.5,): 1, (1.0,): 1}
    assert ZSet({(1,): 1}, {"x": object}) + ZSet({("a",): 1}) == ZSet([(1,), ("a",)])


# --- text -----------------------------------------------------------------------------------------


def test_repr() -> None:
    assert repr(ZSet({(2, "b"): -1, (1, "z"): 1, (1, "a"): 1})) == (
        "ZSet({(1, 'a'): 1, (1, 'z'): 1, (2, 'b'): -1}, c0: int, c1: str)"
    )
    assert repr(ZSet()) == "ZSet({})"
    many = repr(ZSet([(i,) for i in range(1010)], {"x": int}))
    assert many.startswith("ZSet({(0,): 1, (1,): 1,") and many.endswith("(9,): 1, ... 1,000 more}, x: int)")


def test_misuse_of_look_ups() -> None:
    zset = ZSet({(1, "a"): 1})
    with pytest.raises(InputError, match=r"expected 2 values \(c0: int, c1: str\), got 1"):
        zset[(1,)]
    with pytest.raises(InputError, match="column 'c0': expected int"):
        ("a", "a") in zset  # noqa: B015
    assert ZSet({(5,): 2})[5] == 2


# --- the trie -------------------------------------------------------------------------------------

EDGES = st.dictionaries(
    st.tuples(*[st.integers(0, 2)] * 3), st.integers(-2, 2).filter(bool), max_size=12
).map(lambda rows: ZSet(rows, {"x": int, "y": int, "z": int}))


@given(EDGES, st.permutations(["x", "y", "z"]), st.integers(0, 3))
def test_prefixes_select_ranges(zset: ZSet, order: list[str], depth: int) -> None:
    index = zset.index_by(*order[:depth])
    columns = [*order[:depth], *(name for name in "xyz" if name not in order[:depth])]
    assert index.schema.names == tuple(columns)
    at = zset.schema.indices(columns)
    rows = {tuple(row[i] for i in at): weight for row, weight in zset}
    assert index.to_zset() == rows
    for length in range(4):
        for prefix in {row[:length] for row in rows} | {(9,) * length}:
            below = {row[length:]: weight for row, weight in rows.items() if row[:length] == prefix}
            node = index.get_by_prefix(*prefix)
            assert node.to_zset() == below
            assert node.to_zset().schema.names == tuple(columns[length:])
            assert (prefix in index) == bool(below)
            # Descend the trie one value at a time.
            stepped = index
            for value in prefix:
                stepped = stepped.get_by_prefix(value)
            assert stepped.to_zset() == below


@given(EDGES)
def test_iteration_over_groups(zset: ZSet) -> None:
    index = zset.index_by("y")
    groups: dict[tuple[int, ...], dict[tuple[int, ...], int]] = {}
    for (x, y, z), weight in zset:
        groups.setdefault((y,), {})[x, z] = weight
    assert index.keys() == sorted(groups) and len(index) == len(groups)
    assert {key: group.to_dict() for key, group in index} == groups
    for key, group in groups.items():
        assert index.group(*key) == group
    assert not index.group(77)


@given(EDGES, EDGES)
def test_extending_the_leaves_by_an_index_is_a_join(a: ZSet, b: ZSet) -> None:
    right = ZSet(b, {"z": int, "u": int, "v": int})
    joined = a.index_by("x").extend_leaves(right.index_by("z"))
    expected: Counter[Any] = Counter()
    for (x, y, z), weight in a:
        for (z2, u, v), other in right:
            if z == z2:
                expected[x, y, z, u, v] += weight * other
    assert joined.to_zset() == {row: weight for row, weight in expected.items() if weight}
    assert joined.schema.names == ("x", "y", "z", "u", "v") and joined.depth == 1


def test_extending_the_leaves_below_a_prefix_and_across_interners() -> None:
    a = ZSet({(1, "p"): 2, (2, "q"): 1}, {"x": int, "s": str}).index_by("x")
    b = ZSet({("q", 7): 1, ("p", 5): 3, ("p", 6): 1}, {"t": str, "n": int}).index_by("t")
    grown = a.get_by_prefix(1).extend_leaves(b, ["s"])
    assert grown.to_zset() == {("p", 5): 6, ("p", 6): 2}
    everything = a.extend_leaves(b.get_by_prefix("p"), [])
    assert everything.to_zset() == {(1, "p", 5): 6, (1, "p", 6): 2, (2, "q", 5): 3, (2, "q", 6): 1}


def test_extending_the_leaves_by_a_function() -> None:
    index = ZSet({(1,): 2, (3,): -1}, {"x": int}).index_by("x")
    grown = index.extend_leaves(lambda row: [(row.x + i,) for i in range(row.x)], Schema.of(y=int))
    assert grown.to_zset() == {(1, 1): 2, (3, 3): -1, (3, 4): -1, (3, 5): -1}


def test_the_function_of_a_leaf_gives_weights() -> None:
    index = ZSet({(1,): 2, (3,): -1}, {"x": int}).index_by("x")
    columns = Schema.of(y=int)
    by_dict = index.extend_leaves(lambda row: {(row.x,): 5, (9,): -1}, columns)
    assert by_dict.to_zset() == {(1, 1): 10, (1, 9): -2, (3, 3): -5, (3, 9): 1}
    by_zset = index.extend_leaves(lambda row: ZSet({(row.x,): 5, (9,): -1}, {"y": int}), columns)
    assert by_zset == by_dict
    assert index.extend_leaves(lambda row: {(0,): 0}, columns).is_empty
    assert index.extend_leaves(lambda row: [(0,), (0,)], columns).to_zset() == {(1, 0): 4, (3, 0): -2}
    with pytest.raises(InputError, match=r"expected an int as weight, got 1\.5 of type float"):
        index.extend_leaves(lambda row: {(0,): 1.5}, columns)
    with pytest.raises(WeightOverflowError, match="product of the weights 2 and"):
        index.extend_leaves(lambda row: {(0,): 2**62}, columns)
    with pytest.raises(UserFunctionError, match=r"the extension failed for the row \(1,\): TypeError"):
        index.extend_leaves(lambda row: 7, columns)


@given(EDGES, EDGES, st.integers(-3, 3))
def test_indexed_z_sets_are_a_group(a: ZSet, b: ZSet, factor: int) -> None:
    left, right = a.index_by("y", "x"), b.index_by("y", "x")
    assert left + right == (a + b).index_by("y", "x") == right + left
    assert left - right == (a - b).index_by("y", "x") == left + -right
    assert left * factor == factor * left == (a * factor).index_by("y", "x")
    assert sum([left, right]) == left + right and (left - left).is_empty
    below, others = left.get_by_prefix(1), right.get_by_prefix(1)
    assert (below + others).to_zset() == below.to_zset() + others.to_zset()
    assert (left == right) == (a == b) and (left + right).depth == 2


def test_equal_indices_have_equal_rows_and_keys() -> None:
    rows = {(1, "p"): 2, (2, "q"): 1}
    index = ZSet(rows, {"x": int, "s": str}).index_by("x")
    assert index == ZSet(rows, {"a": int, "b": str}).index_by("a")
    assert index != ZSet(rows, {"x": int, "s": str}).index_by("x", "s")
    assert index != ZSet({(1, "p"): 2}, {"x": int, "s": str}).index_by("x")
    assert index != rows and index.get_by_prefix(7) == index.get_by_prefix(8)
    with pytest.raises(TypeError, match="unhashable"):
        hash(index)


def test_indices_of_other_columns_are_not_added() -> None:
    rows = ZSet({(1, 2): 1}, {"x": int, "y": int})
    message = (
        r"expected an index of \(x: int, y: int\) by \(x: int\), got one of \(y: int, x: int\) by "
        r"\(y: int\); index both Z-sets by the same columns"
    )
    with pytest.raises(SchemaError, match=message):
        rows.index_by("x") + rows.index_by("y")
    with pytest.raises(SchemaError, match=r"got one of \(x: int, y: int\) by \(x: int, y: int\)"):
        rows.index_by("x") - rows.index_by("x", "y")
    with pytest.raises(TypeError, match="unsupported operand"):
        rows.index_by("x") + rows  # type: ignore[operator]
    with pytest.raises(TypeError, match="unsupported operand"):
        rows.index_by("x") * 1.5  # type: ignore[operator]


@given(EDGES)
def test_the_view_of_a_level_has_its_keys_once(a: ZSet) -> None:
    index = a.index_by("x", "y")
    assert index.as_zset_view() == {(x,): 1 for (x, _, _), _ in a}
    for (x, y), _ in index:
        assert index.get_by_prefix(x).as_zset_view() == {(v,): 1 for (u, v, _), _ in a if u == x}
        assert index.get_by_prefix(x, y).as_zset_view() == {(z,): 1 for (u, v, z), _ in a if (u, v) == (x, y)}
    assert not index.get_by_prefix(77).as_zset_view()
    with pytest.raises(SchemaError, match=r"expected a node with columns below it, got a whole row"):
        index.get_by_prefix(1, 2, 3).as_zset_view()


def test_misuse_of_an_index() -> None:
    index = ZSet({(1, 2): 1}, {"x": int, "y": int}).index_by("x")
    assert isinstance(index, IndexedZSet)
    with pytest.raises(SchemaError, match="unknown column 'q'"):
        ZSet({(1, 2): 1}, {"x": int, "y": int}).index_by("q")
    with pytest.raises(SchemaError, match="occurs twice"):
        ZSet({(1, 2): 1}, {"x": int, "y": int}).index_by("x", "x")
    with pytest.raises(SchemaError, match="expected a prefix of at most 2 values"):
        index.get_by_prefix(1, 2, 3)
    with pytest.raises(SchemaError, match=r"expected 1 value of the key \(x: int\), got 2"):
        index.group(1, 2)
    with pytest.raises(InputError, match="expected int, got 'a'"):
        index.get_by_prefix("a")
    with pytest.raises(ArgumentError, match="columns: expected the Schema of the columns to add, got None"):
        index.extend_leaves(lambda row: [])
    with pytest.raises(ArgumentError, match=r"columns: expected column names, got .* of type Schema"):
        index.extend_leaves(index, Schema.of(z=int))
    with pytest.raises(WeightOverflowError, match="product of the weights"):
        big = ZSet({(1,): 2**40}, {"x": int}).index_by("x")
        big.extend_leaves(ZSet({(1, 2): 2**40}, {"x": int, "y": int}).index_by("x"))
    assert repr(index) == "<IndexedZSet (x: int, y: int) by (x: int), 1 rows>"


def test_the_arrays_of_a_z_set_are_read_only() -> None:
    zset = ZSet({(1, 2): 3})
    for array in (zset.batch.rows, zset.batch.weights):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 77
        with pytest.raises(AttributeError):
            zset.batch = zset.batch  # type: ignore[misc]
    assert zset == {(1, 2): 3}


def test_a_caller_cannot_change_the_state_of_a_run() -> None:
    circuit = Circuit("c")
    circuit.output("out", circuit.input("a", x=int))
    run = circuit.start()
    delta = run.step({"a": [(1,), (2,)]})["out"]
    for zset in (run.view("out"), delta):
        with pytest.raises(ValueError, match="read-only"):
            zset.batch.rows[0, 0] = 77
    assert run.view("out").rows() == [(1,), (2,)]


def test_kernels_get_the_writable_arrays() -> None:
    circuit = Circuit("c")
    circuit.output("out", circuit.input("a", x=int, y=str).distinct())
    run = circuit.start()
    run.step({"a": [(2, "b"), (1, "a")]})
    view = run.view("out")
    assert view.to_arrow().num_rows == len(view.rows()) == len(view.index_by("x").keys()) == 2
    assert (view + view).distinct() == view.positive() == view
    run.step({"a": view})
    run.step({"a": view.ordered([1, 0])})
    assert run.view("out") == view
