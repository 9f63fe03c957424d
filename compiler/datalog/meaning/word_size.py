"""Word sizes: 64 bits, where an overflow is an error, or 32 bits, where it wraps as in Soufflé.

With 32 bits every call and every aggregate of a program has `syntax.Call.word` set, and uses the
functions of `wrapping`. All values in rules are then in the range of their kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dbsp.compiler.datalog.meaning import (
    wrapping,  # noqa: F401  (registers its functions)
)
from dbsp.compiler.datalog.meaning.word_ranges import NUMBER_32, UNSIGNED, UNSIGNED_32, WordRange
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.kinds import AnyKind, Kind
from dbsp.expressions import Expression, lit
from dbsp.expressions import call as call_function

WORD_SIZES = (32, 64)

_RANGES: Mapping[tuple[AnyKind, int], WordRange] = {
    (Kind.UNSIGNED, 64): UNSIGNED,
    (Kind.NUMBER, 32): NUMBER_32,
    (Kind.UNSIGNED, 32): UNSIGNED_32,
}


def range_of(kind: AnyKind, word: int) -> WordRange | None:
    """The range of a kind; None for all 64-bit ints and for kinds that are not ints."""
    return _RANGES.get((kind, word))


def limits(kind: Kind, word: int) -> tuple[int, int]:
    """The least and the greatest value of a kind of ints."""
    found = range_of(kind, word)
    return (-(2**63), 2**63 - 1) if found is None else (found.low, found.high)


def wraps(aggregate: syntax.Aggregate, word: int) -> bool:
    """Whether the result of an aggregate may overflow a word and must be wrapped."""
    return word == 32 and aggregate.function in ("sum", "count") and aggregate.kind is not Kind.FLOAT


def in_32_bits(call: syntax.Call, arguments: Sequence[Expression]) -> Expression | None:
    """The expression of a call that has an int of 32 bits as its result.

    None where the word size makes no difference: the result is not an int, or it is one of the
    arguments, a number of characters, an ordinal number, a truth value or a remainder.
    """
    range_ = range_of(call.kind, 32)
    if range_ is None:
        return None
    word = range_.name
    mask = lit(31)

    def wrap(value: Expression) -> Expression:
        return call_function(f"wrap_{word}", value)

    match call.function, arguments:
        case (("wrap" | "itou" | "utoi"), (a,)):
            return wrap(a)
        case "+", (a, b):
            return wrap(a + b)
        case "-", (a,):
            return wrap(-a)
        case "-", (a, b):
            return wrap(a - b)
        case "*", (a, b):
            return wrap(call_function("multiply_bits", a, b))
        case "/", (a, b):
            # Only -2^31 / -1 overflows, where the quotient is undefined in C, too.
            return call_function(f"fit_{word}", a.truncdiv(b))
        case "^", (a, b):
            return call_function(f"power_{word}", a, b)
        case "bnot", (a,):
            return wrap(a.bnot())
        case "bshl", (a, n):
            return wrap(call_function("shl", a, call_function("band", n, mask)))
        case "bshr", (a, n):
            return call_function("shr", a, call_function("band", n, mask))
        case "bshru", (a, n):
            shifted = call_function(
                "shr", call_function("wrap_unsigned32", a), call_function("band", n, mask)
            )
            return wrap(shifted)
        case (("band" | "bor" | "bxor"), (a, b)):
            return call_function(call.function, a, b)
        case (("to_number" | "to_unsigned" | "ftoi" | "ftou"), (a,)):
            return _converted(call.arguments[0].kind, word, a)
        case _:
            return None


def _converted(kind: AnyKind, word: str, a: Expression) -> Expression:
    match kind:
        case Kind.SYMBOL:
            return call_function(f"fit_{word}", a.cast(int))
        case Kind.FLOAT:
            return call_function(f"convert_{word}", a)
        case _:
            return call_function(f"wrap_{word}", a)
