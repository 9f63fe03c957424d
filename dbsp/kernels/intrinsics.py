"""The operations of `dbsp.kernels.jit` as instructions of the processor, for compiled kernels.

Compiled code may assume that `a + b` and `a * b` stay within int64 and remove tests of the wrapped
result. So checks use the overflow flag of the processor, and sums that may wrap are 128 bits wide.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_WORD = ir.IntType(64)
_WIDE = ir.IntType(128)
_ANSWER: Any = types.UniTuple(types.int64, 2)  # type: ignore[no-untyped-call]


def _with_flag(instruction: str) -> Any:
    def typed(typing_context: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
            both = getattr(builder, instruction)(*arguments)
            flag = builder.zext(builder.extract_value(both, 1), _WORD)
            return context.make_tuple(builder, _ANSWER, [builder.extract_value(both, 0), flag])

        return _ANSWER(types.int64, types.int64), generate

    return intrinsic(typed)


def _add_product(typing_context: Any, high: Any, low: Any, a: Any, b: Any) -> Any:
    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        high, _, a, b = (builder.sext(argument, _WIDE) for argument in arguments)
        word = ir.Constant(_WIDE, 64)
        total = builder.or_(builder.shl(high, word), builder.zext(arguments[1], _WIDE))
        total = builder.add(total, builder.mul(a, b))
        words = [builder.trunc(half, _WORD) for half in (builder.ashr(total, word), total)]
        return context.make_tuple(builder, _ANSWER, words)

    return _ANSWER(types.int64, types.int64, types.int64, types.int64), generate


def _at_address(typing_context: Any, address: Any) -> Any:
    pointer: Any = types.CPointer(types.int64)  # type: ignore[no-untyped-call]

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], _WORD.as_pointer())

    return pointer(types.int64), generate


add_flagged: Any = _with_flag("sadd_with_overflow")
multiply_flagged: Any = _with_flag("smul_with_overflow")
add_product: Any = intrinsic(_add_product)
at_address: Any = intrinsic(_at_address)
