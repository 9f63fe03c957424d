"""Translate terms and comparisons to expressions over columns named by variables.

`signatures` defines the meaning of each function; this module maps it to the engine's functions.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from dbsp.compiler.datalog.meaning.signatures import BIT_FUNCTIONS
from dbsp.compiler.datalog.meaning.term_origins import TermOrigin
from dbsp.compiler.datalog.meaning.word_ranges import NUMBER_32, UNSIGNED, UNSIGNED_32
from dbsp.compiler.datalog.meaning.word_size import in_32_bits, range_of
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.kinds import AnyKind, FunctorSignature, Kind, Structured, type_of
from dbsp.data.terms import Branch, parts_of
from dbsp.data.types import FLOAT, INT, STR, Type
from dbsp.diagnostics import ProgramSources, SourceSpan
from dbsp.errors import expect_type
from dbsp.expressions import Call, Expression, Functor, FunctorCall, col, lit, max_of, min_of, when
from dbsp.expressions import call as call_function
from dbsp.expressions.constructors import code_of, construct, field_of, made_by, nil
from dbsp.expressions.functions import Overload, define, overloads
from dbsp.expressions.nodes import GiveUp, Operation


def expression(term: syntax.Term, sources: ProgramSources | None = None) -> Expression:
    """The expression that computes a term without aggregates.

    With the `sources` of the program, an error of the expression shows the term as it was written.
    """
    return _placed(_expression(term, sources), term, sources)


def _placed(computed: Expression, node: syntax.Node, sources: ProgramSources | None) -> Expression:
    """The expression with the place of the term or comparison that it computes."""
    if sources is None or not isinstance(node, syntax.Call | syntax.Comparison):
        return computed
    if not isinstance(computed, Call) or computed.origin is not None:
        return computed
    return replace(computed, origin=TermOrigin(node, sources, expression))


def _expression(term: syntax.Term, sources: ProgramSources | None) -> Expression:
    inner = partial(expression, sources=sources)
    match term:
        case syntax.Variable(name=name):
            return col(name)
        case syntax.Constant():
            return constant(term)
        case syntax.Construct(arguments=arguments):
            return construct(type_of(term.kind), term.constructor, *map(inner, arguments))
        case syntax.Part(arguments=(value,), constructor=constructor, position=position):
            operand = inner(value)
            return (
                made_by(operand, constructor)
                if position is None
                else field_of(operand, constructor, position)
            )
        case syntax.Call(functor=FunctorSignature() as functor):
            given = tuple(map(inner, term.arguments))
            called = FunctorCall(term.function, given, _functor(functor))
            range_ = range_of(term.kind, term.word)
            return called if range_ is None else call_function(_FITTING[range_], called)
        case syntax.Call(word=32) if (wrapped := in_32_bits(term, [*map(inner, term.arguments)])) is not None:
            return wrapped
        case syntax.Call(function=function) if function in BIT_FUNCTIONS:
            bits = _bits(term, inner)
            # The highest bit of an unsigned is outside of its range; only bnot and bshl can set it.
            return call_function(_UNSIGNED, bits) if term.kind is Kind.UNSIGNED else bits
        case syntax.Call(function=function, arguments=arguments):
            return _CALLS[function](term, *map(inner, arguments))
        case _:
            raise AssertionError(f"{term!r} is computed by an operator, not by an expression")


def constant(term: syntax.Constant) -> Expression:
    """The expression of a constant; a record or branch is constructed from its parts."""
    if not isinstance(term.kind, Structured):
        return lit(term.value)
    type_ = type_of(term.kind)
    if term.value is None:
        return nil(type_)
    name = term.value.name if isinstance(term.value, Branch) else ""
    fields = term.kind.structure.by_name[name].fields
    inner = (_part(field.type, part) for field, part in zip(fields, parts_of(term.value), strict=True))
    return construct(type_, name, *inner)


def _part(type_: Type, value: Any) -> Expression:
    if type_.structure is None:
        return lit(value)
    kind = Structured(type_.structure.name, type_.structure)
    return constant(syntax.Constant(value, SourceSpan("", 0), kind))


def predicate(comparison: syntax.Comparison, sources: ProgramSources | None = None) -> Expression:
    """The condition a comparison stands for; `sources` as for `expression`."""
    return _placed(_predicate(comparison, sources), comparison, sources)


def _predicate(comparison: syntax.Comparison, sources: ProgramSources | None) -> Expression:
    inner = partial(expression, sources=sources)
    left = inner(comparison.left)
    if comparison.operator == "in":
        series = expect_type(comparison.right, syntax.Call, "a generator")
        return call_function("in_series", left, *map(inner, series.arguments))
    right = inner(comparison.right)
    match comparison.operator:
        case "match":
            return call_function("ecmascript_match", right, left)
        case "!match":
            return call_function("ecmascript_mismatch", right, left)
        case "contains":
            return right.str.contains(left)
        case "!contains":
            return ~right.str.contains(left)
    compared: Expression = COMPARISONS[comparison.operator](left, right)
    return compared


COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
"""The comparisons of a rule, of expressions over columns and of constants alike."""


def _kind(call: syntax.Call) -> AnyKind:
    """The kind of the first argument, which selects the meaning of an overloaded name."""
    return call.arguments[0].kind


@functools.lru_cache(maxsize=1024)
def _functor(functor: FunctorSignature) -> Functor:
    """The functor of the engine; one for all calls, so that they share the cache of results."""
    parameters = tuple(type_of(kind) for kind in functor.parameters)
    return Functor(functor.name, parameters, type_of(functor.result), functor.function)


def _bits(term: syntax.Term, inner: Callable[[syntax.Term], Expression]) -> Expression:
    """The 64 bits of a term as an int, which for an unsigned may be negative in between.

    `inner` computes the terms in it that are not functions of bits.
    """
    if not (isinstance(term, syntax.Call) and term.function in BIT_FUNCTIONS):
        return inner(term)
    first, *others = (_bits(argument, inner) for argument in term.arguments)
    match term.function:
        case "bnot":
            return first.bnot()
        case "bshr" if term.kind is Kind.UNSIGNED:
            return first.shr_unsigned(*others)
        case function:
            return call_function(_BIT_CALLS[function], first, *others)


_BIT_CALLS: Mapping[str, str] = {
    "band": "band",
    "bor": "bor",
    "bxor": "bxor",
    "bshl": "shl",
    "bshr": "shr",
    "bshru": "shr_unsigned",
}


def _flag(condition: Expression) -> Expression:
    return condition.cast(int)


def _add(call: syntax.Call, a: Expression, b: Expression) -> Expression:
    return a.str.concat(b) if call.kind is Kind.SYMBOL else a + b


def _subtract(call: syntax.Call, a: Expression, b: Expression | None = None) -> Expression:
    if b is None:
        return -a
    if call.kind is Kind.UNSIGNED:
        return call_function(_UNSIGNED, a - b)
    return a - b


def _divide(call: syntax.Call, a: Expression, b: Expression) -> Expression:
    return a / b if call.kind is Kind.FLOAT else a.truncdiv(b)


def _power(call: syntax.Call, a: Expression, b: Expression) -> Expression:
    if call.kind is Kind.FLOAT:
        return a**b
    exponent = call.arguments[1]
    if isinstance(exponent, syntax.Constant) and isinstance(exponent.value, int) and exponent.value >= 0:
        return a**b
    # 1 / a^-b, rounded toward zero: 0 for all bases but 1, -1 and 0, which b changes by its parity.
    small = lit(1).truncdiv(a ** (lit(2) - b.truncmod(2)))
    return when(b >= 0).then(a**b).when((a > 1) | (a < -1)).then(0).otherwise(small)


def _substr(call: syntax.Call, text: Expression, start: Expression, count: Expression) -> Expression:
    number = call.arguments[2]
    if isinstance(number, syntax.Constant) and isinstance(number.value, int) and number.value >= 0:
        return text.str.substr(start, count)
    return text.str.substr(start, when(count >= 0).then(count).otherwise(text.length()))


def _ord(call: syntax.Call, a: Expression) -> Expression:
    match _kind(call):
        case Kind.SYMBOL:
            return a.str.ord()
        case Kind.FLOAT:
            return a.cast(str).str.ord()
        case Structured():
            return code_of(a)
        case _:
            return a


def _to_string(call: syntax.Call, a: Expression) -> Expression:
    match _kind(call):
        case Kind.SYMBOL:
            return a
        case Kind.FLOAT:
            return call_function(_FLOAT_TEXT, a)
        case _:
            return a.cast(str)


def _to_number(call: syntax.Call, a: Expression) -> Expression:
    match _kind(call):
        case Kind.SYMBOL:
            return a.cast(int)
        case Kind.FLOAT:
            return a.cast(int)
        case _:
            return a


def _to_unsigned(call: syntax.Call, a: Expression) -> Expression:
    if _kind(call) is Kind.UNSIGNED:
        return a
    return call_function(_UNSIGNED, _to_number(call, a))


def _to_float(call: syntax.Call, a: Expression) -> Expression:
    return a if _kind(call) is Kind.FLOAT else a.cast(float)


# The engine stores an unsigned as an int; the function `unsigned` checks that it is not negative.
# (The upper limit is that of the int, 2^63 - 1.)
_UNSIGNED = "unsigned"
_FITTING = {UNSIGNED: _UNSIGNED, NUMBER_32: "fit_int32", UNSIGNED_32: "fit_unsigned32"}
"""The function that raises an error for a value outside of a range."""


def _unsigned(value: int) -> int:
    if value < 0:
        raise UNSIGNED.refusal(value)
    return value


def _unsigned_vector(values: Any) -> Any:
    if np.less(values, 0).any():
        raise GiveUp
    return values


define(
    _UNSIGNED,
    "unsigned expects an int",
    overloads(Overload((INT,), INT, Operation(_unsigned, _unsigned_vector, fallible=True))),
)


# As C prints it, and therefore Soufflé: six decimals.
_FLOAT_TEXT = "float_text"

define(
    _FLOAT_TEXT,
    "float_text expects a float",
    overloads(Overload((FLOAT,), STR, Operation(lambda value: f"{value + 0.0:f}"))),
)


_CALLS: Mapping[str, Callable[..., Expression]] = {
    "+": _add,
    "-": _subtract,
    "*": lambda call, a, b: a * b,
    "/": _divide,
    "%": lambda call, a, b: a.truncmod(b),
    "^": _power,
    "cat": lambda call, first, *others: first.str.concat(*others) if others else first,
    "strlen": lambda call, a: a.length(),
    "substr": _substr,
    "ord": _ord,
    "min": lambda call, first, *others: min_of(first, *others),
    "max": lambda call, first, *others: max_of(first, *others),
    "to_string": _to_string,
    "to_number": _to_number,
    "to_unsigned": _to_unsigned,
    "to_float": _to_float,
    "itof": _to_float,
    "utof": _to_float,
    "itou": _to_unsigned,
    "ftou": _to_unsigned,
    "ftoi": _to_number,
    "utoi": _to_number,
    "land": lambda call, a, b: _flag((a != 0) & (b != 0)),
    "lor": lambda call, a, b: _flag((a != 0) | (b != 0)),
    "lxor": lambda call, a, b: _flag((a != 0) != (b != 0)),
    "lnot": lambda call, a: _flag(a == 0),
}
