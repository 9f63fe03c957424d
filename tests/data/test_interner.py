"""The interner: dense ids, one for each distinct value, and hash-consed tuples."""

from __future__ import annotations

import itertools
import math
from collections import namedtuple
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp.data.finder import Finder
from dbsp.data.interner import Interner
from dbsp.errors import InputError

LETTERS = "abZé \U0001f600"

ATOMS = (
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.sampled_from([0.0, -0.0, 1.0, math.nan, math.inf])
    | st.text(LETTERS, max_size=1)
)
VALUES = st.recursive(ATOMS, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=8)


def text_of(value: Any) -> str:
    """Return a text that is equal exactly for equal values."""
    return repr(value).replace("-0.0", "0.0")


@given(st.lists(VALUES, max_size=12))
def test_equal_values_share_an_id_and_ids_are_dense(values: list[Any]) -> None:
    interner = Interner()
    codes = [interner.encode(value) for value in values]
    assert [interner.encode(value) for value in values] == codes
    assert len(set(codes)) == len(set(map(text_of, values)))
    # Inner tuples have separate ids.
    assert set(codes) <= set(range(len(interner)))
    assert [text_of(interner.decode(code)) for code in codes] == list(map(text_of, values))


@given(st.lists(VALUES, max_size=12), st.lists(VALUES, max_size=6))
def test_many_values_get_the_same_ids_as_single_values(values: list[Any], earlier: list[Any]) -> None:
    one_by_one, at_once = Interner(), Interner()
    for value in earlier:
        one_by_one.encode(value)
    at_once.encode_many(earlier)
    codes = at_once.encode_many(values)
    assert codes.dtype == np.int64
    assert codes.tolist() == [one_by_one.encode(value) for value in values]
    assert list(map(text_of, at_once.decode_many(codes))) == list(map(text_of, values))


@given(st.lists(st.text(LETTERS, max_size=2)), st.lists(st.text(LETTERS, max_size=2)))
def test_strings_in_bulk(first: list[str], second: list[str]) -> None:
    interner = Interner()
    for batch in (first, second, first + second):
        assert interner.decode_many(interner.encode_many(batch)) == batch
    assert len(interner) == len({*first, *second})
    assert interner.decode_many(range(len(interner))) == list(dict.fromkeys(first + second))


INT_TUPLES = st.lists(st.lists(st.integers(-2, 2), max_size=3).map(tuple), max_size=12)


@given(INT_TUPLES, INT_TUPLES, st.booleans())
def test_tuples_of_ints_in_bulk(first: list[Any], second: list[Any], shared: bool) -> None:
    bulk, single = Interner(), Interner()
    for given_tuples in (first, second):
        expected = [single.encode(value) for value in given_tuples]
        elements = np.array([part for value in given_tuples for part in value], np.int64)
        ends = np.cumsum([len(value) for value in given_tuples], dtype=np.int64)
        codes = bulk.encode_int_tuples(elements, ends)
        assert codes.tolist() == expected
        decoded = bulk.decode_many(codes)
        assert decoded == given_tuples
        assert [bulk.code_of_tuple(value) for value in decoded] == expected
        if shared:  # a tuple around known ones
            assert bulk.encode((*decoded, 1.0)) == single.encode((*given_tuples, 1.0))
    assert [bulk.encode(value) for value in first] == [single.encode(value) for value in first]


def test_a_failed_addition_of_tuples_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    interner = Interner()
    interner.encode((1, 2))
    with monkeypatch.context() as patch:
        patch.setattr(itertools, "islice", lambda *_: [][1])
        with pytest.raises(IndexError):
            interner.encode_int_tuples(np.array([1, 2, 3]), np.array([2, 3]))
    assert interner.find((3,)) is None
    assert interner.encode_int_tuples(np.array([4, 1, 2]), np.array([1, 3])).tolist() == [1, 0]
    assert len(interner) == 2


def test_one_true_and_one_point_zero_stay_distinct() -> None:
    interner = Interner()
    values = [1, True, 1.0, (1,), (True,), (1.0,), frozenset({1}), frozenset({True}), ((1,),), ((True,),)]
    codes = interner.encode_many(values)
    assert len(set(codes.tolist())) == len(values)
    assert list(map(repr, interner.decode_many(codes))) == list(map(repr, values))


def test_nan_equals_itself_and_minus_zero_is_zero() -> None:
    interner = Interner()
    assert interner.encode(math.nan) == interner.encode(float("nan"))
    assert interner.encode((math.nan,)) == interner.encode((float("nan"),))
    assert interner.encode((1, (-0.0,))) == interner.encode((1, (0.0,)))
    assert interner.encode(Decimal("NaN")) == interner.encode(Decimal("NaN"))
    assert repr(interner.decode(interner.encode((-0.0,)))) == "(0.0,)"


def test_strings_bytes_and_classes_do_not_mix() -> None:
    point = namedtuple("point", "x y")
    values = ["a", b"a", ("a",), (b"a",), point(1, 2), (1, 2), Decimal(2), Fraction(2), 2]
    interner = Interner()
    codes = interner.encode_many(values)
    assert len(set(codes.tolist())) == len(values)
    assert isinstance(interner.decode(int(codes[4])), point)


def test_numpy_scalars_are_the_plain_values() -> None:
    interner = Interner()
    assert interner.encode(np.str_("a")) == interner.encode("a")
    assert interner.encode(np.int16(3)) == interner.encode(3)
    assert interner.encode((np.float64(0.5), np.True_)) == interner.encode((0.5, True))
    assert type(interner.decode(interner.encode((np.int16(7),)))[0]) is int


def test_tuples_are_hash_consed_and_may_be_nested_thousands_deep() -> None:
    interner = Interner()
    chain: tuple[Any, ...] = ()
    for i in range(20_000):
        chain = (i, chain)
    code = interner.encode(chain)
    assert len(interner) == 20_001  # one entry per cell
    kept = interner.decode(code)
    longer = (-1, kept)
    assert interner.encode(longer) == len(interner) - 1 == 20_001
    assert interner.decode(interner.encode(longer))[1] is kept
    assert interner.find(chain) == code


def test_find_adds_nothing() -> None:
    interner = Interner()
    interner.encode_many(["a", (1, ("b",))])
    size = len(interner)
    assert interner.find("a") == 0 and "a" in interner
    for absent in ["z", b"a", 1, (1,), (1, ("c",)), frozenset({("q",)}), math.nan]:
        assert interner.find(absent) is None and absent not in interner
    assert len(interner) == size


def test_a_finder_looks_up_only() -> None:
    interner = Interner()
    interner.encode("a")
    finder = Finder(interner)
    assert finder.encode("a") == 0
    with pytest.raises(KeyError):
        finder.encode("b")
    assert len(interner) == 1


def test_errors() -> None:
    interner = Interner()
    with pytest.raises(
        InputError, match=r"\[1\] of type list cannot be a value: it is not hashable; use a tuple"
    ):
        interner.encode((1, [1]))
    with pytest.raises(IndexError, match="expected an id of the interner, got -1"):
        interner.decode(-1)
    with pytest.raises(IndexError, match="expected an id of the interner, got -5"):
        interner.decode_many(np.array([0, -5]))
