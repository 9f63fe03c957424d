"""How a kernel is compiled, and the two checked operations every kernel shares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile `function` to machine code on its first call; the result is cached on disk.

    Kernels see flat int64 arrays only: row matrices `int64[n, k]` in C order and vectors. Every
    caller passes that one layout, so each kernel is compiled exactly once. They report overflow by
    raising OverflowError whose text starts with 'weight' or 'value'; the scheduler turns it into
    the engine's own error, which names the operator.
    """
    return cast(F, numba.njit(cache=True, nogil=True, error_model="numpy")(function))


@kernel
def add_weights(a: int, b: int) -> int:
    """a + b, or OverflowError when the sum leaves int64."""
    total = a + b
    if ((a ^ total) & (b ^ total)) < 0:
        raise OverflowError("weight: the sum of weights leaves int64")
    return total


@kernel
def multiply_weights(a: int, b: int) -> int:
    """a * b, or OverflowError when the product leaves int64."""
    if -2147483648 <= a < 2147483648 and -2147483648 <= b < 2147483648:
        return a * b
    product = a * b
    # -1 * int64.min is the one product whose quotient check itself would overflow.
    if a == -1 or b == -1:
        if product == -9223372036854775808:
            raise OverflowError("weight: the product of weights leaves int64")
        return product
    if a != 0 and product // a != b:
        raise OverflowError("weight: the product of weights leaves int64")
    return product
