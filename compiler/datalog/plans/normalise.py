"""Checked rules to the form the planner works on: scans, conditions and aggregates side by side.

In a normalised body

- an atom has variables, constants and `_` as arguments only; anything else has been replaced by a
  variable of its own and an equation;
- no term contains an aggregate or a generator: each has become a literal that binds a variable.

    r(x, x + 1, s(...))      is   r(x, v, ...), v = x + 1, ...
    y > count : { r(_) }     is   v := count : { r(_) }, y > v
    s(range(0, x))           is   v in range(0, x), s(v)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TypeAlias

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.signatures import GENERATORS
from dbsp.diagnostics import SourceSpan


@dataclass(frozen=True, slots=True)
class Scan:
    """The rows of a relation that fit a pattern.

    `variables` gives the name bound by each column, None where the column is compared with a
    constant (`constants`) or with an earlier column (`equal`), or not looked at.
    """

    relation: str
    variables: tuple[str | None, ...]
    constants: tuple[tuple[int, checked.Constant], ...]
    equal: tuple[tuple[int, int], ...]
    span: SourceSpan = field(compare=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The variables of the pattern."""
        return tuple(name for name in self.variables if name is not None)

    def has_key(self, names: Sequence[str]) -> bool:
        """Whether at most one row fits the pattern when these of its variables are bound."""
        return len(names) + len(self.constants) + len(self.equal) == len(self.variables)


@dataclass(frozen=True, slots=True)
class Absent:
    """No row of the relation fits the pattern; all variables of the pattern must be bound."""

    pattern: Scan


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison without aggregates; an equation may also serve to bind a variable.

    What takes a record or branch apart is several conditions, of the same `form`: the equation that makes
    the value of its parts, which is `whole`, and those that say what it is made by and what its parts are.
    The first implies the others and the other way round.
    """

    comparison: checked.Comparison
    form: int | None = field(default=None, compare=False)
    whole: bool = field(default=False, compare=False)

    @property
    def names(self) -> frozenset[str]:
        return variables_of(self.comparison.left) | variables_of(self.comparison.right)


@dataclass(frozen=True, slots=True)
class Generated:
    """Binds a variable to each of the values of a generator, or tests it where it is bound already."""

    variable: str
    call: checked.Call

    @property
    def arguments(self) -> frozenset[str]:
        """The variables that the values are computed from."""
        return variables_of(self.call)

    @property
    def membership(self) -> checked.Comparison:
        """The condition that the variable is one of the values."""
        variable = checked.Variable(self.variable, self.call.kind, self.call.span)
        return checked.Comparison("in", variable, self.call, self.call.span)


@dataclass(frozen=True, slots=True)
class Numbered:
    """Binds a variable to the number of the row of all other variables of the body."""

    variable: str
    first: int
    step: int


@dataclass(frozen=True, slots=True)
class AggregateResult:
    """One aggregate function and the variable it binds; `value` is None for `count`."""

    variable: str
    function: str
    value: checked.Term | None
    kind: checked.AnyKind


@dataclass(frozen=True, slots=True)
class AggregateLiteral:
    """Binds the variables of `results` to aggregates over `body`, for each binding of `injected`."""

    results: tuple[AggregateResult, ...]
    body: tuple[NormalLiteral, ...]
    injected: tuple[str, ...]
    span: SourceSpan = field(compare=False)

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(result.variable for result in self.results)


NormalLiteral: TypeAlias = Scan | Absent | Condition | Generated | Numbered | AggregateLiteral


@dataclass(frozen=True, slots=True)
class NormalRule:
    """`head` has one term without aggregates per column, of a subsumption for both of its rows.

    None as body means that it never holds.
    """

    rule: checked.Rule
    head: tuple[checked.Term, ...]
    body: tuple[NormalLiteral, ...] | None

    @property
    def relation(self) -> str:
        return self.rule.head.relation


def normalise(rule: checked.Rule) -> NormalRule:
    """The normalised form of one rule."""
    normal, _ = normalise_with_origins(rule)
    holds = checked.Truth(False, rule.span) not in rule.body
    return normal if holds else replace(normal, body=None)


def normalise_with_origins(rule: checked.Rule) -> tuple[NormalRule, tuple[int, ...]]:
    """The normalised form of a rule, as if no `false` stood in it.

    And for every literal of the normalised body the place of the literal in the rule's own body that it
    comes from; those of the head have the place behind the last.
    """
    normaliser = _Normaliser()
    body: list[NormalLiteral] = []
    origins: list[int] = []
    for place, literal in enumerate(rule.body):
        normaliser.literal(literal, body)
        origins += [place] * (len(body) - len(origins))
    arguments = rule.head.arguments + (rule.dominating.arguments if rule.dominating else ())
    head = tuple(normaliser.term(term, body) for term in arguments)
    origins += [len(rule.body)] * (len(body) - len(origins))
    return NormalRule(rule, head, tuple(body)), tuple(origins)


def variables_of(term: checked.Term) -> frozenset[str]:
    """The variables of a term without aggregates."""
    match term:
        case checked.Variable(name=name):
            return frozenset({name})
        case checked.Call(arguments=arguments):
            return frozenset().union(*map(variables_of, arguments))
        case _:
            return frozenset()


def calls_in(term: checked.Term) -> Iterator[str]:
    """The names of the functions called in a term without aggregates."""
    if isinstance(term, checked.Call):
        yield term.function
        for argument in term.arguments:
            yield from calls_in(argument)


def _has_wildcard(term: checked.Term) -> bool:
    return isinstance(term, checked.Wildcard) or (
        isinstance(term, checked.Construct) and any(map(_has_wildcard, term.arguments))
    )


class _Normaliser:
    """`#` never occurs in the names of a source, so the names made here are new."""

    def __init__(self) -> None:
        self.numbers = count(1)
        self.forms = count(1)

    def new_name(self) -> str:
        return f"#{next(self.numbers)}"

    def body(self, literals: tuple[checked.Literal, ...], out: list[NormalLiteral]) -> bool:
        """Appends the normalised literals; false when one of them is `false`."""
        for literal in literals:
            self.literal(literal, out)
        return not any(isinstance(literal, checked.Truth) and not literal.value for literal in literals)

    def literal(self, literal: checked.Literal, out: list[NormalLiteral]) -> None:
        """Appends what a literal becomes; nothing for `true` and `false`."""
        match literal:
            case checked.Atom():
                out.append(self.pattern(literal, out))
            case checked.Negation(atom=atom):
                out.append(Absent(self.pattern(atom, out, positive=False)))
            case checked.Comparison(
                operator="=", left=checked.Variable(name=name), right=checked.Call() as call
            ) | (
                checked.Comparison(
                    operator="=", left=checked.Call() as call, right=checked.Variable(name=name)
                )
            ) if call.function in GENERATORS:
                self.generated(name, call, out)
            case checked.Comparison(operator="=", left=left, right=right, span=span) if isinstance(
                left, checked.Construct
            ) or isinstance(right, checked.Construct):
                self.equation(left, right, span, out)
            case checked.Comparison(operator=operator, left=left, right=right, span=span):
                sides = (self.term(left, out), self.term(right, out))
                out.append(Condition(checked.Comparison(operator, *sides, span)))
            case checked.Truth():
                pass

    def pattern(self, atom: checked.Atom, out: list[NormalLiteral], positive: bool = True) -> Scan:
        names: list[str | None] = []
        constants: list[tuple[int, checked.Constant]] = []
        equal: list[tuple[int, int]] = []
        for column, argument in enumerate(atom.arguments):
            name: str | None = None
            match argument:
                case checked.Wildcard():
                    pass
                case checked.Constant():
                    constants.append((column, argument))
                case checked.Variable() if argument.name in names:
                    equal.append((names.index(argument.name), column))
                case checked.Variable():
                    name = argument.name
                case checked.Construct() if positive:
                    name = self.new_name()
                    self.take_apart(checked.Variable(name, argument.kind, argument.span), argument, out)
                case _:
                    name = self.equal_to(argument, out)
            names.append(name)
        return Scan(atom.relation, tuple(names), tuple(constants), tuple(equal), atom.span)

    def equation(
        self, left: checked.Term, right: checked.Term, span: SourceSpan, out: list[NormalLiteral]
    ) -> None:
        """`x = [a, b]`, also the other way round; of two patterns one is taken apart by the other's value."""
        if not isinstance(right, checked.Construct) or _has_wildcard(left):
            left, right = right, left
        assert isinstance(right, checked.Construct)
        if isinstance(left, checked.Construct) and left.function == right.function:
            for one, other in zip(left.arguments, right.arguments, strict=True):
                if not isinstance(one, checked.Wildcard) and not isinstance(other, checked.Wildcard):
                    self.body((checked.Comparison("=", one, other, span),), out)
            return
        if isinstance(left, checked.Construct):
            # Made differently, so never equal; a comparison that no row meets keeps this a matter of data.
            zero = checked.Constant(0, checked.Kind.NUMBER, span)
            out.append(Condition(checked.Comparison("!=", zero, zero, span)))
            return
        if isinstance(left, checked.Variable):
            self.take_apart(left, right, out)
            return
        variable = checked.Variable(self.equal_to(left, out), left.kind, span)
        self.take_apart(variable, right, out)

    def take_apart(
        self, value: checked.Variable, pattern: checked.Construct, out: list[NormalLiteral]
    ) -> None:
        """The conditions that a value equals a pattern; see `Condition`."""
        form = next(self.forms)
        span, constructor = pattern.span, pattern.constructor
        made = checked.Part("made", (value,), checked.Kind.NUMBER, span, constructor=constructor)
        true = checked.Constant(True, checked.Kind.NUMBER, span)
        parts: list[checked.Term] = []
        found: list[tuple[int, checked.Term]] = []
        nested: list[tuple[checked.Variable, checked.Construct]] = []
        for position, argument in enumerate(pattern.arguments):
            match argument:
                case checked.Wildcard():
                    continue
                case checked.Variable() | checked.Constant():
                    part: checked.Term = argument
                case checked.Construct():
                    part = checked.Variable(self.new_name(), argument.kind, argument.span)
                    nested.append((part, argument))
                case _:
                    part = checked.Variable(self.equal_to(argument, out), argument.kind, argument.span)
            parts.append(part)
            found.append((position, part))
        if len(parts) == len(pattern.arguments):
            whole = checked.Construct(pattern.function, tuple(parts), pattern.kind, span)
            out.append(Condition(checked.Comparison("=", value, whole, span), form, whole=True))
        out.append(Condition(checked.Comparison("=", made, true, span), form))
        for position, part in found:
            kind = part.kind
            place = checked.Part("part", (value,), kind, span, constructor=constructor, position=position)
            out.append(Condition(checked.Comparison("=", part, place, span), form))
        for inner, inner_pattern in nested:
            self.take_apart(inner, inner_pattern, out)

    def equal_to(self, term: checked.Term, out: list[NormalLiteral]) -> str:
        """A new variable and the equation that it equals the term."""
        name = self.new_name()
        variable = checked.Variable(name, term.kind, term.span)
        out.append(Condition(checked.Comparison("=", variable, self.term(term, out), term.span)))
        return name

    def term(self, term: checked.Term, out: list[NormalLiteral]) -> checked.Term:
        """The term with a variable in the place of every aggregate."""
        match term:
            case checked.Call(function=function, kind=kind, span=span) if function in GENERATORS:
                name = self.new_name()
                self.generated(name, term, out)
                return checked.Variable(name, kind, span)
            case checked.Call(function="autoinc", kind=kind, span=span):
                name = self.new_name()
                first, step = (one.value for one in term.arguments if isinstance(one, checked.Constant))
                assert isinstance(first, int)
                assert isinstance(step, int)
                out.append(Numbered(name, first, step))
                return checked.Variable(name, kind, span)
            case checked.Call(arguments=arguments):
                return replace(term, arguments=tuple(self.term(part, out) for part in arguments))
            case checked.Aggregate():
                return self.aggregate(term, out)
            case _:
                return term

    def generated(self, name: str, call: checked.Call, out: list[NormalLiteral]) -> None:
        arguments = tuple(self.term(part, out) for part in call.arguments)
        out.append(Generated(name, replace(call, arguments=arguments)))

    def aggregate(self, aggregate: checked.Aggregate, out: list[NormalLiteral]) -> checked.Variable:
        body: list[NormalLiteral] = []
        holds = self.body(aggregate.body, body)
        value = None if aggregate.value is None else self.term(aggregate.value, body)
        if not holds:
            # A condition without variables that no row meets keeps `false` a matter of data.
            zero = checked.Constant(0, checked.Kind.NUMBER, aggregate.span)
            body.append(Condition(checked.Comparison("!=", zero, zero, aggregate.span)))
        name = self.new_name()
        result = AggregateResult(name, aggregate.function, value, aggregate.kind)
        out.append(AggregateLiteral((result,), tuple(body), aggregate.injected, aggregate.span))
        return checked.Variable(name, aggregate.kind, aggregate.span)
