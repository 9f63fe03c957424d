"""The operations of `dbsp.kernels.jit` as instructions of the processor, for compiled kernels.

Compiled code may assume that `a + b` and `a * b` stay within int64 and remove tests of the wrapped
result. So checks use the overflow flag of the processor, and sums that may wrap are 128 bits wide.
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model

_WORD = ir.IntType(64)
_WIDE = ir.IntType(128)
_ANSWER: Any = types.UniTuple(types.int64, 2)  # type: ignore[no-untyped-call]


_HALF = ir.IntType(32)


class _RunCodes(types.Type):
    """The type of `dbsp.kernels.arrays.RunCodes`: a word of a run table."""

    def __init__(self) -> None:
        super().__init__(name="RunCodes")


RUN_CODES: Any = _RunCodes()


@register_model(_RunCodes)
class _RunCodesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, type_: Any) -> None:
        super().__init__(manager, type_, _WORD)  # type: ignore[no-untyped-call]


@infer_global(operator.getitem)  # type: ignore[no-untyped-call]
class _ReadCode(AbstractTemplate):
    def generic(self, arguments: Any, keywords: Any) -> Any:
        if isinstance(arguments[0], _RunCodes):
            return signature(types.int64, RUN_CODES, types.int64)  # type: ignore[no-untyped-call]
        return None


@infer_global(operator.setitem)  # type: ignore[no-untyped-call]
class _WriteCode(AbstractTemplate):
    def generic(self, arguments: Any, keywords: Any) -> Any:
        if isinstance(arguments[0], _RunCodes):
            return signature(types.none, RUN_CODES, types.int64, types.int64)  # type: ignore[no-untyped-call]
        return None


def _read_code(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
    # Without a branch: the 8 bytes that end with the code, shifted by 0 or 4 bytes.
    word, at = arguments
    narrow = builder.and_(word, ir.Constant(_WORD, 1))
    start = builder.sub(word, builder.mul(narrow, ir.Constant(_WORD, 5)))
    address = builder.add(start, builder.shl(at, builder.sub(ir.Constant(_WORD, 3), narrow)))
    both = builder.load(builder.inttoptr(address, _WORD.as_pointer()), align=1)
    return builder.ashr(both, builder.shl(narrow, ir.Constant(_WORD, 5)))


def _write_code(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
    word, at, code = arguments
    start = builder.and_(word, ir.Constant(_WORD, -2))
    with builder.if_else(builder.trunc(word, ir.IntType(1))) as (narrow, wide):
        with narrow:
            codes = builder.inttoptr(start, _HALF.as_pointer())
            builder.store(builder.trunc(code, _HALF), builder.gep(codes, [at]))
        with wide:
            codes = builder.inttoptr(start, _WORD.as_pointer())
            builder.store(code, builder.gep(codes, [at]))
    return context.get_dummy_value()


_lower: Any = lower_builtin
_lower(operator.getitem, _RunCodes, types.Integer)(_read_code)
_lower(operator.setitem, _RunCodes, types.Integer, types.Integer)(_write_code)


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


def _codes_at(typing_context: Any, word: Any) -> Any:
    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        return arguments[0]

    return RUN_CODES(types.int64), generate


def _choose(typing_context: Any, condition: Any, one: Any, other: Any) -> Any:
    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        condition, one, other = arguments
        chosen = builder.select(builder.trunc(condition, ir.IntType(1)), one, other)
        # Else the compiler makes a branch of it in some loops.
        chosen.set_metadata("unpredictable", builder.module.add_metadata([]))
        return chosen

    return types.int64(types.bool_, types.int64, types.int64), generate


def _lowest_bit(typing_context: Any, word: Any) -> Any:
    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), generate


add_flagged: Any = _with_flag("sadd_with_overflow")
multiply_flagged: Any = _with_flag("smul_with_overflow")
add_product: Any = intrinsic(_add_product)
at_address: Any = intrinsic(_at_address)
codes_at: Any = intrinsic(_codes_at)
choose: Any = intrinsic(_choose)
lowest_bit: Any = intrinsic(_lowest_bit)
