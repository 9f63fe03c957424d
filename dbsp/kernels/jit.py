"""The compiler of kernels, and the checked operations that kernels share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from dbsp.deferred_signals import call_undisturbed

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile `function` to machine code on its first call; the result is cached on disk.

    Arguments are flat int64 arrays only: row matrices `int64[n, k]` in C order and vectors. All
    callers use this layout, so each kernel is compiled exactly once. Kernels report overflow by an
    OverflowError whose text starts with 'weight' or 'value'; the scheduler converts it into a
    DbspError that names the operator.
    """
    compiled: Any = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    # After an exception at some places of its loader, Numba can load no kernel any more.
    compiled._compile_for_args = partial(call_undisturbed, compiled._compile_for_args)
    return cast(F, compiled)


# Compiled code may assume that `a + b` and `a * b` stay within int64 and remove tests of the
# wrapped result. So checks use the overflow flag of the processor, and sums that may wrap are 128
# bits wide.

_WIDE = ir.IntType(128)
_ANSWER: Any = types.UniTuple(types.int64, 2)  # type: ignore[no-untyped-call]


def _with_flag(instruction: str) -> Any:
    def typed(typing_context: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
            both = getattr(builder, instruction)(*arguments)
            flag = builder.zext(builder.extract_value(both, 1), ir.IntType(64))
            return context.make_tuple(builder, _ANSWER, [builder.extract_value(both, 0), flag])

        return _ANSWER(types.int64, types.int64), generate

    return intrinsic(typed)


def _add_product(typing_context: Any, high: Any, low: Any, a: Any, b: Any) -> Any:
    """Compute (high, low) + a * b on a 128-bit number in two words."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        high, _, a, b = (builder.sext(argument, _WIDE) for argument in arguments)
        word = ir.Constant(_WIDE, 64)
        total = builder.or_(builder.shl(high, word), builder.zext(arguments[1], _WIDE))
        total = builder.add(total, builder.mul(a, b))
        words = [builder.trunc(half, ir.IntType(64)) for half in (builder.ashr(total, word), total)]
        return context.make_tuple(builder, _ANSWER, words)

    return _ANSWER(types.int64, types.int64, types.int64, types.int64), generate


_add_flagged: Any = _with_flag("sadd_with_overflow")
_multiply_flagged: Any = _with_flag("smul_with_overflow")
add_product: Any = intrinsic(_add_product)


@kernel
def add_weights(a: int, b: int) -> int:
    """Return a + b. Raises OverflowError if the sum is outside int64."""
    total: int
    total, flag = _add_flagged(a, b)
    if flag:
        raise OverflowError("weight: the sum of weights is outside the 64-bit range")
    return total


@kernel
def multiply_weights(a: int, b: int) -> int:
    """Return a * b. Raises OverflowError if the product is outside int64."""
    product: int
    product, flag = _multiply_flagged(a, b)
    if flag:
        raise OverflowError("weight: the product of weights is outside the 64-bit range")
    return product
