"""A slow evaluator of checked Datalog programs, to compare the engine with.

It is meant to be right at a glance, not fast: relations are Python sets, a rule is nested loops over
its atoms, a stratum is computed by applying its rules to everything until nothing is new. It shares
with the compiler only the checked program; planner, lowering and engine, aggregates and arithmetic
included, are on the other side of the comparison. Even the strata are found anew.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.kinds import AnyKind, FunctorSignature, Kind
from dbsp.data.terms import Branch

Value: TypeAlias = int | float | str | tuple[Any, ...] | Branch | None
Row: TypeAlias = tuple[Value, ...]
Relations: TypeAlias = Mapping[str, set[Row]]
Bindings: TypeAlias = dict[str, Value]
Ranges: TypeAlias = Mapping[str, syntax.Call]
Condition: TypeAlias = syntax.Literal | tuple[syntax.Term, Value]  # the pair: the term has the value


ANY: Any = object()
"""What equals every value; None does not, for it is nil."""


class NoValueError(Exception):
    """A term has no value: a zero divisor, text that is no number, a result out of range."""


class EmptyError(Exception):
    """An aggregate without a value over no bindings; its rule gives nothing then."""


class TooLargeError(Exception):
    """More rows than wanted; the recursion may be without bound."""


def evaluate(
    program: checked.CheckedProgram, inputs: Mapping[str, set[Row]], limit: int = 10_000
) -> dict[str, frozenset[Row]]:
    """The rows of every relation when the inputs hold `inputs` (the program's facts are not added).

    Raises NoValueError when a rule has to compute something that has no value, and TooLargeError
    when a relation gets more rows than `limit`.
    """
    relations: dict[str, set[Row]] = {name: set(inputs.get(name, ())) for name in program.relations}
    for names in components(program):
        if any(is_special(name, program) for name in names):
            evaluate_by_iterations(names, program, relations, limit)
        else:
            saturate(names, program, relations, limit)
    return {name: frozenset(rows) for name, rows in relations.items()}


def saturate(
    names: Sequence[str], program: checked.CheckedProgram, relations: dict[str, set[Row]], limit: int
) -> None:
    """Applies the rules of plain relations until nothing is new."""
    rules = [rule for rule in program.rules if rule.head.relation in names]
    changed = True
    while changed:
        changed = False
        for rule in rules:
            new = derive(rule, relations) - relations[rule.head.relation]
            relations[rule.head.relation] |= new
            changed |= bool(new)
            if len(relations[rule.head.relation]) > limit:
                raise TooLargeError(rule.head.relation)


def components(program: checked.CheckedProgram) -> list[list[str]]:
    """The relations that depend on one another, those that others use before these."""
    needs: dict[str, set[str]] = {name: {name} for name in program.relations}
    strict: set[tuple[str, str]] = set()
    for rule in (*program.rules, *program.subsumptions):
        head = rule.head.relation
        for used, strictly in uses(rule):
            needs[head].add(used)
            if strictly:
                strict.add((head, used))
    for _ in needs:
        for name in needs:
            needs[name] = set().union(*(needs[other] for other in needs[name]))
    for head, used in strict:
        better = program.relations[head].subsumed and program.relations[used].subsumed
        assert head not in needs[used] or better, "the program cannot be stratified"
    found = {tuple(sorted(other for other in needs[name] if name in needs[other])) for name in needs}
    return [list(names) for names in sorted(found, key=lambda names: len(needs[names[0]]))]


# --- relations that are more than sets of rows -----------------------------------------------------


def is_special(name: str, program: checked.CheckedProgram) -> bool:
    relation = program.relations[name]
    subsumed = any(rule.head.relation == name for rule in program.subsumptions)
    return bool(relation.equivalence or relation.choices or relation.limit or subsumed)


def evaluate_by_iterations(
    names: Sequence[str], program: checked.CheckedProgram, relations: dict[str, set[Row]], limit: int
) -> None:
    """All rules at once, again and again, as `checked.Stratum` and `checked.Relation` say it."""
    rules = [rule for rule in program.rules if rule.head.relation in names]
    given = {name: relations[name] for name in names}
    known: dict[str, set[Row]] = {name: set() for name in names}
    recursive = any(used in names for rule in rules for used, _ in uses(rule))
    while True:
        relations.update(left_by_subsumption(names, program, {**relations, **known}))
        limits = [(name, program.relations[name].limit) for name in names]
        if recursive and any(most and len(relations[name]) >= most for name, most in limits):
            return
        following: dict[str, set[Row]] = {}
        for name in names:
            relation = program.relations[name]
            derived = set(given[name]).union(
                *(derive(rule, relations) for rule in rules if rule.head.relation == name)
            )
            if relation.equivalence:
                following[name] = equivalence(known[name] | derived)
            elif relation.choices:
                following[name] = choose(known[name], derived, relation)
            else:
                following[name] = known[name] | derived
            if len(following[name]) > limit:
                raise TooLargeError(name)
        if following == known:
            return
        known = following


def left_by_subsumption(
    names: Sequence[str], program: checked.CheckedProgram, relations: Relations
) -> dict[str, set[Row]]:
    left = {}
    for name in names:
        pairs: set[tuple[Row, Row]] = set()
        for rule in program.subsumptions:
            if rule.head.relation == name:
                assert rule.dominating is not None
                for found in solutions(rule.body, {}, relations):
                    lower, upper = (
                        tuple(value_of(term, found, relations) for term in atom.arguments)
                        for atom in (rule.head, rule.dominating)
                    )
                    pairs.add((lower, upper))
        relation = program.relations[name]
        out = {
            a
            for a, b in pairs
            if a != b and ((b, a) not in pairs or order_key(b, relation) < order_key(a, relation))
        }
        left[name] = relations[name] - out
    return left


def equivalence(pairs: set[Row]) -> set[Row]:
    classes: list[set[Value]] = []
    for pair in pairs:
        touched = [one for one in classes if not one.isdisjoint(pair)]
        classes = [one for one in classes if one not in touched]
        classes.append(set(pair).union(*touched))
    return {(a, b) for one in classes for a in one for b in one}


def order_key(row: Row, relation: checked.Relation) -> Any:
    """A key to sort rows by: nil before all, then values by how deep they are nested, branches as they are
    declared, and by their fields."""

    def depth(value: Any) -> int:
        parts = value.arguments if isinstance(value, Branch) else value
        return 1 + max(map(depth, parts), default=0) if isinstance(parts, tuple) else 0

    def key(value: Any, structure: Any) -> Any:
        if structure is None:
            return value
        if value is None:
            return (0,)
        name, parts = (value.name, value.arguments) if isinstance(value, Branch) else ("", value)
        names = [constructor.name for constructor in structure.constructors]
        fields = structure.constructors[names.index(name)].fields
        inner = [key(part, field.type.structure) for part, field in zip(parts, fields, strict=True)]
        return (1, depth(value), names.index(name), *inner)

    structures = [getattr(attribute.kind, "structure", None) for attribute in relation.attributes]
    return tuple(map(key, row, structures))


def choose(kept: set[Row], candidates: set[Row], relation: checked.Relation) -> set[Row]:
    chosen = set(kept)
    for row in sorted(candidates, key=lambda row: order_key(row, relation)):
        if not any(
            all(row[c] == other[c] for c in domain) for other in chosen for domain in relation.choices
        ):
            chosen.add(row)
    return chosen


def uses(rule: checked.Rule) -> Iterator[tuple[str, bool]]:
    """The relations in the body of a rule, and whether they must be complete before it is applied."""

    def in_body(body: Sequence[syntax.Literal], inside: bool) -> Iterator[tuple[str, bool]]:
        for literal in body:
            match literal:
                case syntax.Atom():
                    yield literal.relation, inside
                    yield from in_terms(literal.arguments)
                case syntax.Negation(atom=atom):
                    yield atom.relation, True
                    yield from in_terms(atom.arguments)
                case syntax.Comparison():
                    yield from in_terms((literal.left, literal.right))

    def in_terms(terms: Sequence[syntax.Term | None]) -> Iterator[tuple[str, bool]]:
        for term in terms:
            if isinstance(term, syntax.Call):
                yield from in_terms(term.arguments)
            elif isinstance(term, syntax.Aggregate):
                yield from in_terms([term.value])
                yield from in_body(term.body, True)

    yield from in_body(rule.body, False)
    yield from in_terms(rule.head.arguments)


def derive(rule: checked.Rule, relations: Relations) -> set[Row]:
    """The rows one application of a rule gives."""
    head, body = with_head(rule)
    return {tuple(found[name] for name in head) for found in solutions(body, {}, relations)}


def with_head(rule: checked.Rule) -> tuple[list[str], list[syntax.Literal]]:
    """Variables for the columns of the head, and the body with the equations that bind them."""
    names = [f"head {column}" for column in range(len(rule.head.arguments))]
    equations = [
        syntax.Comparison("=", syntax.Variable(name, term.span, term.kind), term, term.span)
        for name, term in zip(names, rule.head.arguments, strict=True)
    ]
    return names, [*rule.body, *equations]


# --- bodies ----------------------------------------------------------------------------------------


def solutions(body: Sequence[syntax.Literal], given: Bindings, relations: Relations) -> Iterator[Bindings]:
    """Every way to make a body true, one for each choice of a row for each of its positive atoms."""
    body, ranges = without_ranges(body)
    atoms = [literal for literal in body if isinstance(literal, syntax.Atom)]
    others: list[Condition] = [literal for literal in body if not isinstance(literal, syntax.Atom)]
    for found, conditions in choices(atoms, given, relations):
        yield from settled(found, [*others, *conditions], ranges, relations)


def settled(
    found: Bindings, conditions: list[Condition], ranges: Ranges, relations: Relations
) -> Iterator[Bindings]:
    """The ways to make the conditions true, one for each choice of a value of each range.

    A range is looked at as soon as the variables that it needs are bound.
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
    assert ready, f"nothing binds what {ranges} need"
    term = ranges[ready[0]]
    rest = {name: other for name, other in ranges.items() if name != ready[0]}
    for value in range_values(*(value_of(one, known, relations) for one in term.arguments)):
        yield from settled({**found, ready[0]: value}, conditions, rest, relations)


def without_ranges(body: Sequence[syntax.Literal]) -> tuple[list[syntax.Literal], Ranges]:
    """The body with a variable in place of every range that is not in an aggregate, and the ranges."""
    ranges: dict[str, syntax.Call] = {}

    def in_term(term: syntax.Term) -> syntax.Term:
        if not isinstance(term, syntax.Call):
            return term
        term = replace(term, arguments=tuple(map(in_term, term.arguments)))
        if term.function != "range":
            return term
        name = f"range {len(ranges)}"
        ranges[name] = term
        return syntax.Variable(name, term.span, term.kind)

    def in_literal(literal: syntax.Literal) -> syntax.Literal:
        match literal:
            case syntax.Atom(arguments=arguments):
                return replace(literal, arguments=tuple(map(in_term, arguments)))
            case syntax.Negation(atom=atom):
                return replace(literal, atom=replace(atom, arguments=tuple(map(in_term, atom.arguments))))
            case syntax.Comparison(left=left, right=right):
                return replace(literal, left=in_term(left), right=in_term(right))
            case _:
                return literal

    return [in_literal(literal) for literal in body], ranges


def range_values(start: Any, end: Any, step: Any = None) -> list[Any]:
    """From the start by equal steps, as long as the end is ahead."""
    step = (1 if start <= end else -1) if step is None else step
    if step == 0:
        return [start] if start != end else []
    values = []
    while start < end if step > 0 else start > end:
        values.append(start)
        start += step
        if len(values) > 1_000:
            raise TooLargeError("range")
    return values


def choices(
    atoms: Sequence[syntax.Atom], given: Bindings, relations: Relations
) -> Iterator[tuple[Bindings, list[Condition]]]:
    """Every choice of rows for the atoms: what it binds, and what else must then hold."""
    if not atoms:
        yield given, []
        return
    for row in list(relations[atoms[0].relation]):
        matched = match_row(atoms[0], row, given)
        if matched is not None:
            found, conditions = matched
            for all_found, more in choices(atoms[1:], found, relations):
                yield all_found, conditions + more


def match_row(atom: syntax.Atom, row: Row, given: Bindings) -> tuple[Bindings, list[Condition]] | None:
    """The bindings with those of the atom's variables; arguments that are terms become conditions."""
    found, conditions = dict(given), []
    for argument, value in zip(atom.arguments, row, strict=True):
        more = match_value(argument, value, found)
        if more is None:
            return None
        conditions += more
    return found, conditions


def match_value(term: syntax.Term, value: Value, found: Bindings) -> list[Condition] | None:
    """What must hold besides for the term to have the value; variables in it, also in records, are bound."""
    match term:
        case syntax.Wildcard():
            return []
        case syntax.Constant():
            return [] if term.value == value else None
        case syntax.Variable():
            return [] if found.setdefault(term.name, value) == value else None
        case syntax.Construct(arguments=arguments):
            if isinstance(value, Branch):
                if term.function != f"${value.name}":
                    return None
                value = value.arguments
            if value is None:  # nil
                return None
            assert isinstance(value, tuple)
            conditions: list[Condition] = []
            for argument, part in zip(arguments, value, strict=True):
                more = match_value(argument, part, found)
                if more is None:
                    return None
                conditions += more
            return conditions
        case _:
            return [(term, value)]


def settle(
    found: Bindings, conditions: list[Condition], relations: Relations, partly: bool = False
) -> Bindings | None:
    """The bindings, with the variables that equations bind, or None when a condition does not hold.

    A condition that fails beats a condition without a value: only rows that everything else lets
    through are errors. With `partly`, conditions may be left whose variables nothing binds yet.
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
    """Whether a condition holds; None when a variable is not bound yet. An equation may bind one."""
    match condition:
        case syntax.Truth(value=value):
            return value
        case syntax.Negation(atom=atom):
            if not all(is_bound(argument, found) for argument in atom.arguments):
                return None
            wanted = [
                ANY if isinstance(argument, syntax.Wildcard) else value_of(argument, found, relations)
                for argument in atom.arguments
            ]
            return not any(
                all(one is ANY or one == other for one, other in zip(wanted, row, strict=True))
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
    """Whether a value is made as the pattern says, and then the pattern's variables are bound."""
    bound = dict(found)
    conditions = match_value(pattern, value, bound)
    if conditions is None:
        return False
    answers = [test(condition, bound, relations) for condition in conditions]
    if None in answers:
        return None
    found.update(bound)
    return all(answers)


def compare(operator: str, a: Any, b: Any) -> bool:
    if operator in ("=", "!="):
        return bool((a == b) == (operator == "="))
    return {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[operator]


def test_text(operator: str, part: str, text: str) -> bool:
    """`match` for patterns that mean the same in Python and in ECMAScript, and `contains`."""
    if operator.endswith("contains"):
        return (part in text) == (operator == "contains")
    try:
        return (re.fullmatch(part, text) is not None) == (operator == "match")
    except re.error:
        return False


# --- terms -----------------------------------------------------------------------------------------


def is_bound(term: syntax.Term, found: Bindings) -> bool:
    match term:
        case syntax.Variable(name=name):
            return name in found
        case syntax.Construct(arguments=arguments) if any(
            isinstance(argument, syntax.Wildcard) for argument in arguments
        ):
            return False
        case syntax.Call(arguments=arguments):
            return all(is_bound(argument, found) for argument in arguments)
        case syntax.Aggregate(injected=injected):
            return all(name in found for name in injected)
        case _:
            return True


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
    """The 64 bits of a term as a natural number; of terms of bits only the last has a range to keep."""
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


def in_range(value: Value, kind: AnyKind, word: int = 64) -> Value:
    if kind_is_int(kind):
        assert type(value) is int
        # Of 64 bits only the unsigned without the highest are kept.
        half = 2 ** (word - 1)
        least, most = (-half, half) if kind is Kind.NUMBER else (0, half if word == 64 else 2 * half)
        if not least <= value < most:
            raise NoValueError(f"{value} is no {kind.value}")
    return value


def kind_is_int(kind: AnyKind) -> bool:
    return kind in (Kind.NUMBER, Kind.UNSIGNED)


def wrapped(value: int, kind: AnyKind) -> int:
    value %= 2**32
    return value - 2**32 if kind is Kind.NUMBER and value >= 2**31 else value


def in_32_bits(term: syntax.Call, found: Bindings, relations: Relations) -> int:
    """The value of a call of integers of 32 bits, before it is wrapped."""
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


def converted(value: float, kind: AnyKind) -> int:
    """What x86-64 makes of a float: by an instruction of 32 bits for a number, of 64 for an unsigned."""
    bits = 32 if kind is Kind.NUMBER else 64
    least = -(2 ** (bits - 1))
    return int(value) if math.isfinite(value) and least <= int(value) < -least else least


def aggregate(term: syntax.Aggregate, found: Bindings, relations: Relations) -> Value:
    """The aggregate over all solutions of its body, equal values counted as often as they occur."""
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
            # The sum is made as a value of its kind, so the mean of numbers may be out of range.
            return (math.fsum(values) if as_float else in_range(sum(values), term.value.kind)) / len(values)
        case _:
            raise AssertionError(term.function)


def call(function: str, values: list[Any], kind: AnyKind, result: AnyKind) -> Value:
    """A function of the language applied to values of the given kind; ranges are checked elsewhere."""
    match function, values:
        case "cat", _:
            return "".join(values)
        case "+", [a, b]:
            return a + b
        case "-", [a]:
            return -a
        case "-", [a, b]:
            return a - b
        case "*", [a, b]:
            return a * b
        case (("/" | "%" | "^"), [a, b]):
            return divide(function, a, b, result) if function != "^" else power(a, b, result)
        case "strlen", [text]:
            return len(text)
        case "substr", [text, start, count]:
            if start < 0 or start > len(text):
                return ""
            return text[start:] if count < 0 else text[start : start + count]
        case "min", _:
            return min(values)
        case "max", _:
            return max(values)
        case "to_string", [a]:
            return f"{a:f}" if kind is Kind.FLOAT else str(a)
        case "land", [a, b]:
            return int(a != 0 and b != 0)
        case "lor", [a, b]:
            return int(a != 0 or b != 0)
        case "lxor", [a, b]:
            return int((a != 0) != (b != 0))
        case "lnot", [a]:
            return int(a == 0)
        case (("to_number" | "to_unsigned" | "itou" | "ftoi" | "ftou" | "utoi"), [a]):
            try:
                return int(a)
            except (ValueError, OverflowError):
                raise NoValueError(f"{a!r} is no integer") from None
        case (("to_float" | "itof" | "utof"), [a]):
            try:
                return float(a)
            except ValueError:
                raise NoValueError(f"{a!r} is no number") from None
        case "ord", [a] if kind in (Kind.NUMBER, Kind.UNSIGNED):
            return a
        case "ord", [None]:
            return 0
        case "ord", [a]:
            # Any number will do that is the same for equal values only; programs may not depend on it.
            return int.from_bytes(str(a).encode(), "big") % (2**61 - 1)
        case _:
            raise AssertionError(function)


def divide(function: str, a: Any, b: Any, kind: AnyKind) -> Value:
    """The quotient rounded toward zero, as in C, and the remainder that belongs to it."""
    if b == 0:
        raise NoValueError(f"{a} {function} 0")
    if kind is Kind.FLOAT:
        return a / b
    quotient = abs(a) // abs(b) if (a < 0) == (b < 0) else -(abs(a) // abs(b))
    # The C standard leaves no remainder to a quotient out of range; ours is 0 there.
    return quotient if function == "/" else a - quotient * b


def power(a: Any, b: Any, kind: AnyKind) -> Value:
    if kind is Kind.FLOAT:
        return math.pow(a, b)
    if b < 0:
        return divide("/", 1, power(a, -b, kind), kind)
    if b > 64 and abs(a) > 1:
        raise NoValueError(f"{a} ^ {b}")
    return a**b
