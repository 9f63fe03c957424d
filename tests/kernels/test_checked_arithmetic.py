"""Sums and products of 64-bit integers are exact or raise an error."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp.kernels.arrays import Rows
from dbsp.kernels.jit import add_product, add_weights, kernel, multiply_weights
from dbsp.kernels.limits import INT64_MAX, INT64_MIN
from dbsp.kernels.tiers import entry

int64 = st.integers(INT64_MIN, INT64_MAX) | st.sampled_from(
    [0, 1, -1, 2, 2**31, 2**32, 2**62, -(2**62), 2**40, INT64_MIN, INT64_MAX]
)


# Kernels of their own, so that `dbsp warmup` in another test finds no more kernels than usual.
@entry
@kernel
def _sum(a: int, b: int) -> int:
    return add_weights(a, b)


@entry
@kernel
def _product(a: int, b: int) -> int:
    return multiply_weights(a, b)


@given(int64, int64)
def test_sums_and_products_are_exact_or_refused(a: int, b: int) -> None:
    for function, exact, word in ((_sum, a + b, "sum"), (_product, a * b, "product")):
        if INT64_MIN <= exact <= INT64_MAX:
            assert function(a, b) == exact
        else:
            with pytest.raises(
                OverflowError, match=f"^weight: the {word} of weights is outside the 64-bit range$"
            ):
                function(a, b)


@entry
@kernel
def _add_up(terms: Rows) -> tuple[int, int]:
    high = low = 0
    for i in range(terms.shape[0]):
        high, low = add_product(high, low, terms[i, 0], terms[i, 1])
    return high, low


@given(st.lists(st.tuples(int64, int64), max_size=6))
def test_wide_sums_are_exact(terms: list[tuple[int, int]]) -> None:
    array = np.array(terms, np.int64).reshape(len(terms), 2)
    high, low = _add_up(array)
    exact = sum(a * b for a, b in terms)
    if abs(exact) < 2**127:
        assert (high << 64) + (low % 2**64) == exact
