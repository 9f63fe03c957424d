"""Solutions of rule bodies by nested loops, and values of terms under their bindings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.kinds import FunctorSignature, Kind
from dbsp.data.terms import Branch
from tests.reference_datalog.matching import is_bound, match_row, match_value, without_ranges
from tests.reference_datalog.values import (
    Bindings,
    Condition,
    EmptyError,
    NoValueError,
    Ranges,
    Relations,
    Value,
    call,
    compare,
    converted,
    in_range,
    kind_is_int,
    range_values,
    test_text,
    wrapped,
)

ANY: Any = object()
"""Equals every value. (None does not: it is nil.)"""


def solutions(body: Sequence[syntax.Literal], given: Bindings, relations: Relations) -> Iterator[Bindings]:
    """The bindings that satisfy a body, one for each choice of a row for each positive atom."""
    body, ranges = without_ranges(body)
    atoms = [literal for literal in body if isinstance(literal, syntax.Atom)]
    others: list[Condition] = [literal for literal in body if not isinstance(literal, syntax.Atom)]
    for found, conditions in choices(atoms, given, relations):
        yield from settled(found, [*others, *conditions], ranges, relations)


def settled(
    found: Bindings, conditions: list[Condition], ranges: Ranges, relations: Relations
) -> Iterator[Bindings]:
    """The bindings that satisfy the conditions, one for each choice of a value of each range.

    A range is evaluated as soon as the variables that it needs are bound.
    """
    if not ranges:
        result = settle(found, conditions, relations)
        if result is not None:
            yield result
        return
    known = settle(found, conditions, relations, partly=True)
    if known is None:
        return
    ready = [name for name, term in ranges.items() if all(is_bound(one, known) for one in term.arguments)]
    assert ready, f"nothing binds the variables of {ranges}"
    term = ranges[ready[0]]
    rest = {name: other for name, other in ranges.items() if name != ready[0]}
    for value in range_values(*(value_of(one, known, relations) for one in term.arguments)):
        yield from settled({**found, ready[0]: value}, conditions, rest, relations)


def choices(
    atoms: Sequence[syntax.Atom], given: Bindings, relations: Relations
) -> Iterator[tuple[Bindings, list[Condition]]]:
    """Every choice of rows for the atoms: the bindings, and the conditions that remain."""
    if not atoms:
        yield given, []
        return
    for row in list(relations[atoms[0].relation]):
        matched = match_row(atoms[0], row, given)
        if matched is not None:
            found, conditions = matched
            for all_found, more in choices(atoms[1:], found, relations):
                yield all_found, conditions + more


def settle(
    found: Bindings, conditions: list[Condition], relations: Relations, partly: bool = False
) -> Bindings | None:
    """The bindings, with the variables that equations bind, or None when a condition does not hold.

    A condition that fails takes precedence over a condition without a value: only a row that
    satisfies all other conditions is an error. With `partly`, conditions with unbound variables may
    remain.
    """
    found = dict(found)
    while conditions:
        waiting, failure = [], None
        for condition in conditions:
            try:
                holds = test(condition, found, relations)
            except EmptyError:
                return None
            except NoValueError as error:
                failure, holds = error, None
            if holds is False:
                return None
            if holds is None:
                waiting.append(condition)
        if len(waiting) == len(conditions) and partly:
            return found
        if len(waiting) == len(conditions):
            raise failure or AssertionError(f"nothing binds the variables of {waiting}")
        conditions = waiting
    return found


def test(condition: Condition, found: Bindings, relations: Relations) -> bool | None:
    """Whether a condition holds; None with an unbound variable. An equation may bind one."""
    match condition:
        case syntax.Truth(value=value):
            return value
        case syntax.Negation(atom=atom):
            if not all(is_bound(argument, found) for argument in atom.arguments):
                return None
            expected = [
                ANY if isinstance(argument, syntax.Wildcard) else value_of(argument, found, relations)
                for argument in atom.arguments
            ]
            return not any(
                all(one is ANY or one == other for one, other in zip(expected, row, strict=True))
                for row in relations[atom.relation]
            )
        case syntax.Comparison(operator=operator) if operator in syntax.TEXT_TESTS:
            if not (is_bound(condition.left, found) and is_bound(condition.right, found)):
                return None
            part, text = (str(value_of(side, found, relations)) for side in (condition.left, condition.right))
            return test_text(operator, part, text)
        case syntax.Comparison(operator=operator, left=left, right=right):
            if is_bound(left, found) and is_bound(right, found):
                values = (value_of(left, found, relations), value_of(right, found, relations))
                return compare(operator, *values)
            for one, other in ((left, right), (right, left)):
                if operator == "=" and isinstance(one, syntax.Variable) and is_bound(other, found):
                    found[one.name] = value_of(other, found, relations)
                    return True
                if operator == "=" and isinstance(one, syntax.Construct) and is_bound(other, found):
                    return test_pattern(one, value_of(other, found, relations), found, relations)
            return None
        case (term, value):
            return value_of(term, found, relations) == value if is_bound(term, found) else None
        case _:
            raise AssertionError(condition)


def test_pattern(
    pattern: syntax.Construct, value: Value, found: Bindings, relations: Relations
) -> bool | None:
    """Whether a value matches a pattern; if it does, bind the variables of the pattern."""
    bound = dict(found)
    conditions = match_value(pattern, value, bound)
    if conditions is None:
        return False
    answers = [test(condition, bound, relations) for condition in conditions]
    if None in answers:
        return None
    found.update(bound)
    return all(answers)


def value_of(term: syntax.Term, found: Bindings, relations: Relations) -> Value:
    match term:
        case syntax.Variable(name=name):
            return found[name]
        case syntax.Constant(value=value):
            return value
        case syntax.Call(word=32, functor=None) if kind_is_int(term.kind) and type(term) is syntax.Call:
            return wrapped(in_32_bits(term, found, relations), term.kind)
        case syntax.Call(function=function, kind=kind) if function in BITS:
            bits = bits_of(term, found, relations)
            return in_range(bits - 2**64 if kind is Kind.NUMBER and bits >= 2**63 else bits, kind)
        case syntax.Construct(arguments=arguments):
            parts = tuple(value_of(argument, found, relations) for argument in arguments)
            return parts if term.function == "[]" else Branch(term.function, *parts)
        case syntax.Call(functor=FunctorSignature() as functor, arguments=arguments, kind=kind):
            given = [value_of(argument, found, relations) for argument in arguments]
            try:
                return in_range(functor.function(*given), kind, term.word)
            except Exception as error:
                raise NoValueError(f"{functor.name}{tuple(given)}") from error
        case syntax.Call(function=function, arguments=arguments, kind=kind):
            values = [value_of(argument, found, relations) for argument in arguments]
            return in_range(call(function, values, arguments[0].kind, kind), kind)
        case syntax.Aggregate():
            return in_range(aggregate(term, found, relations), term.kind)
        case _:
            raise AssertionError(term)


BITS = frozenset({"band", "bor", "bxor", "bnot", "bshl", "bshr", "bshru"})


def bits_of(term: syntax.Term, found: Bindings, relations: Relations) -> int:
    """The 64 bits of a term as a natural number; only the outermost function checks its range."""
    if not (isinstance(term, syntax.Call) and term.function in BITS):
        value = value_of(term, found, relations)
        assert type(value) is int
        return value % 2**64
    a, *rest = (bits_of(argument, found, relations) for argument in term.arguments)
    b = rest[0] if rest else 0
    match term.function:
        case "band":
            return a & b
        case "bor":
            return a | b
        case "bxor":
            return a ^ b
        case "bnot":
            return 2**64 - 1 - a
        case "bshl":
            return (a << b % 64) % 2**64
        case "bshr" if term.kind is Kind.NUMBER and a >= 2**63:
            return ((a - 2**64) >> b % 64) % 2**64
        case _:
            return a >> b % 64


def in_32_bits(term: syntax.Call, found: Bindings, relations: Relations) -> int:
    """The value of a call on integers of 32 bits, before wrapping."""
    values: list[Any] = [value_of(argument, found, relations) for argument in term.arguments]
    kind = term.arguments[0].kind if term.arguments else term.kind
    match term.function, values:
        case (("wrap" | "itou" | "utoi"), [value]):
            return int(value)
        case "bnot", [a]:
            return int(-1 - a)
        case "bshl", [a, n]:
            return int(a * 2 ** (n % 32))
        case "bshr", [a, n]:
            return int(a // 2 ** (n % 32))
        case "bshru", [a, n]:
            return int(a % 2**32 // 2 ** (n % 32))
        case (("band" | "bor" | "bxor"), [a, b]):
            return int(a & b if term.function == "band" else a | b if term.function == "bor" else a ^ b)
        case "^", [a, b]:
            try:
                return converted(math.pow(a, b), term.kind)
            except (OverflowError, ValueError):
                return converted(math.inf, term.kind)
        case (("to_number" | "to_unsigned" | "ftoi" | "ftou"), [a]) if kind is Kind.FLOAT:
            return converted(a, term.kind)
        case _:
            value = call(term.function, values, kind, term.kind)
            assert type(value) is int
            if term.function == "/" or kind is Kind.SYMBOL:
                in_range(value, term.kind, 32)
            return value


def aggregate(term: syntax.Aggregate, found: Bindings, relations: Relations) -> Value:
    """The aggregate over all solutions of its body; duplicate values count every time."""
    given = {name: found[name] for name in term.injected}
    inner = list(solutions(term.body, given, relations))
    if term.value is None:
        return len(inner)
    values: list[Any] = [value_of(term.value, one, relations) for one in inner]
    as_float = term.value.kind is Kind.FLOAT
    if term.function == "sum":
        return math.fsum(values) if as_float else sum(values)
    if not values:
        raise EmptyError
    match term.function:
        case "min":
            return min(values)
        case "max":
            return max(values)
        case "mean":
            # The sum is a value of its kind, so the mean of numbers may be out of range.
            return (math.fsum(values) if as_float else in_range(sum(values), term.value.kind)) / len(values)
        case _:
            raise AssertionError(term.function)
