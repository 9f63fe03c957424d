"""The functions of terms: their names, their signatures and their meaning.

An overloaded name has several signatures; type inference chooses one of them.

======================  ============================================================================
function                meaning
======================  ============================================================================
`a + b`, `a - b`,       number and unsigned: exact; a result outside of the type is an error (number
`a * b`                 is -2^63 .. 2^63-1, unsigned is 0 .. 2^63-1). float: IEEE double.
                        `+` of symbols is `cat`.
`-a`                    number, float
`a / b`                 number and unsigned: rounded toward zero, as in C; float: IEEE quotient.
                        A zero divisor is an error, for float too.
`a % b`                 number and unsigned: the remainder of `/` (sign of a). Zero: error.
`a ^ b`                 number and unsigned: exact power, out of range is an error; a negative
                        exponent is the quotient 1 / a^-b rounded toward zero (so 0, 1 or -1; an
                        error for a = 0). float: IEEE power.
`cat(s, ...)`           the concatenation of the symbols
`strlen(s)`             number of characters
`substr(s, i, n)`       n characters from position i (0 is the first), fewer at the end of s; the
                        empty symbol when i < 0 or i > strlen(s); all characters from i when n < 0
`ord(x)`                a number that is the same for equal values of one type: the integer itself
                        for number and unsigned, 0 for nil, an arbitrary but fixed number otherwise
`min(a, ...)`,          the least, the greatest; symbols in the order of their text
`max(a, ...)`
`to_string(x)`          decimal text of a number; a float has six decimals, as in C
`to_number(x)`          the integer that a symbol spells (else an error); a float truncated
`to_unsigned(x)`        the same, and a negative number is an error
`to_float(x)`           the number that a symbol spells (else an error); a number as a float
`as(x, T)`              x as a value of type T: the same value for a type of the same kind; number
                        and unsigned as by `itou`, `utoi`; other kinds as a number by `ord`
`range(a, b)`,          each of the numbers a, a + s, a + 2 s ... before b (without b); without a
`range(a, b, s)`        third argument s is 1, or -1 where a > b. For s = 0 only a, if a != b.
`autoinc()`, `$`        the number of this binding of the body of the rule: see `checked.Rule`
`itou`, `itof`,         conversions between number (i), unsigned (u) and float (f), as by the `to_`
`utoi`, `utof`,         functions
`ftoi`, `ftou`
`a band b`, `a bor b`,  bitwise, over 64 bits in two's complement. A highest bit set in the unsigned
`a bxor b`, `bnot a`    result of a whole term of such functions is an error; in a part it is not.
`a bshl n`, `a bshr n`, the bits shifted by n modulo 64; `bshr` keeps the sign of a number, `bshru`
`a bshru n`             fills with zeros. Bits shifted beyond the word are lost.
`a land b`, `a lor b`,  1 or 0; every value but 0 counts as true
`a lxor b`, `lnot a`
======================  ============================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dbsp.compiler.datalog.tree.kinds import AnyKind, Kind
from dbsp.lazy_dataclass import dataclass

_NUMBER, _UNSIGNED, _FLOAT, _SYMBOL = Kind.NUMBER, Kind.UNSIGNED, Kind.FLOAT, Kind.SYMBOL


@dataclass(frozen=True, slots=True)
class Signature:
    """Kinds of the arguments and of the result; a variadic one takes one or more arguments."""

    parameters: tuple[AnyKind, ...]
    result: AnyKind
    variadic: bool = False

    def accepts_count(self, count: int) -> bool:
        return count >= 1 if self.variadic else count == len(self.parameters)

    def parameter(self, position: int) -> AnyKind:
        return self.parameters[0 if self.variadic else position]


def _same(*kinds: Kind, arity: int = 2) -> tuple[Signature, ...]:
    return tuple(Signature((kind,) * arity, kind) for kind in kinds)


def _conversions(result: Kind) -> tuple[Signature, ...]:
    return tuple(Signature((kind,), result) for kind in Kind)


BIT_FUNCTIONS = frozenset({"band", "bor", "bxor", "bnot", "bshl", "bshr", "bshru"})
"""They work on all 64 bits; the highest bit of an unsigned may be set in a part of a term."""

_NUMERIC = (_NUMBER, _UNSIGNED, _FLOAT)

GENERATORS = frozenset({"range"})
"""Functions with several values: a rule holds for each of them."""

CASTS: Mapping[tuple[AnyKind, AnyKind], str] = {
    (_UNSIGNED, _NUMBER): "utoi",
    (_NUMBER, _UNSIGNED): "itou",
    (_SYMBOL, _NUMBER): "ord",
}
"""The function of `as` between different kinds; within one kind it only changes the type."""

FUNCTIONS: Mapping[str, tuple[Signature, ...]] = {
    "+": _same(_NUMBER, _UNSIGNED, _FLOAT, _SYMBOL),
    # `-` is the only name with signatures of two lengths: difference and negation.
    "-": _same(_NUMBER, _UNSIGNED, _FLOAT) + _same(_NUMBER, _FLOAT, arity=1),
    "*": _same(_NUMBER, _UNSIGNED, _FLOAT),
    "/": _same(_NUMBER, _UNSIGNED, _FLOAT),
    "%": _same(_NUMBER, _UNSIGNED),
    "^": _same(_NUMBER, _UNSIGNED, _FLOAT),
    "cat": (Signature((_SYMBOL,), _SYMBOL, variadic=True),),
    "strlen": (Signature((_SYMBOL,), _NUMBER),),
    "substr": (Signature((_SYMBOL, _NUMBER, _NUMBER), _SYMBOL),),
    "ord": _conversions(_NUMBER),
    "min": tuple(Signature((kind,), kind, variadic=True) for kind in Kind),
    "max": tuple(Signature((kind,), kind, variadic=True) for kind in Kind),
    "to_string": _conversions(_SYMBOL),
    "to_number": _conversions(_NUMBER),
    "to_unsigned": _conversions(_UNSIGNED),
    "to_float": _conversions(_FLOAT),
    "autoinc": (Signature((), _NUMBER),),
    "range": _same(*_NUMERIC) + _same(*_NUMERIC, arity=3),
    # The kind of the result is that of the type after the comma.
    "as": (*_same(*Kind, arity=1), *(Signature((source,), target) for source, target in CASTS)),
    "itof": (Signature((_NUMBER,), _FLOAT),),
    "itou": (Signature((_NUMBER,), _UNSIGNED),),
    "ftoi": (Signature((_FLOAT,), _NUMBER),),
    "ftou": (Signature((_FLOAT,), _UNSIGNED),),
    "utoi": (Signature((_UNSIGNED,), _NUMBER),),
    "utof": (Signature((_UNSIGNED,), _FLOAT),),
    **dict.fromkeys(sorted(BIT_FUNCTIONS - {"bnot"}), _same(_NUMBER, _UNSIGNED)),
    "bnot": _same(_NUMBER, _UNSIGNED, arity=1),
    **dict.fromkeys(("land", "lor", "lxor"), _same(_NUMBER, _UNSIGNED)),
    "lnot": _same(_NUMBER, _UNSIGNED, arity=1),
}


def signatures_of(name: str, structured: Iterable[AnyKind]) -> tuple[Signature, ...]:
    """The signatures of a function in a program with these types of records and branches."""
    found = FUNCTIONS[name]
    if name == "ord":
        found += tuple(Signature((kind,), _NUMBER) for kind in structured)
    elif name == "as":
        found += tuple(Signature((kind,), result) for kind in structured for result in (kind, _NUMBER))
    return found


# Functions that have no value for some arguments. The planner evaluates them after all literals
# that may discard the row, so that `r(x, y), x != 0, z = y / x` is never an error.
PARTIAL = frozenset({"/", "%", "^", "to_number", "to_unsigned", "to_float", "itou", "ftoi", "ftou"})


def is_partial(function: str) -> bool:
    """Whether a function may have no value for some arguments, as any user-defined functor may."""
    return function in PARTIAL or function.startswith("@")
