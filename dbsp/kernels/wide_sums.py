"""Sums of weights in 128 bits: partial sums may exceed int64, the result may not.

A sum is a pair (high, low) of words. Its order of terms does not matter, so weights of 2^62, 2^62
and -2^62 have the sum 2^62 in every order.
"""

from __future__ import annotations

from dbsp.kernels.jit import add_product, kernel


@kernel
def add_wide(high: int, low: int, weight: int) -> tuple[int, int]:
    """Return (high, low) + weight."""
    total: tuple[int, int] = add_product(high, low, weight, 1)
    return total


@kernel
def fit_weight(high: int, low: int) -> int:
    """Return the sum as one word. Raises OverflowError if it is outside int64."""
    if high != low >> 63:
        raise OverflowError("weight: the sum of weights is outside the 64-bit range")
    return low
