"""Checked rules to the planner's input: a list of scans, conditions and aggregates.

In a normalised body

- an atom has only variables, constants and `_` as arguments; every other argument is replaced by a
  new variable and an equation;
- no term contains an aggregate or a generator: each is a literal that binds a variable.

    r(x, x + 1, s(...))      is   r(x, v, ...), v = x + 1, ...
    y > count : { r(_) }     is   v := count : { r(_) }, y > v
    s(range(0, x))           is   v in range(0, x), s(v)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from itertools import count
from typing import TypeAlias

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.signatures import GENERATORS
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.kinds import AnyKind, Kind
from dbsp.compiler.datalog.tree.traversal import has_wildcard, map_children, variables
from dbsp.diagnostics import SourceSpan
from dbsp.errors import expect_type
from dbsp.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Scan:
    """The rows of a relation that fit a pattern.

    `variables` has the name bound by each column, None where the column is compared with a
    constant (`constants`) or with an earlier column (`equal`), or not used.
    """

    relation: str
    variables: tuple[str | None, ...]
    constants: tuple[tuple[int, syntax.Constant], ...]
    equal: tuple[tuple[int, int], ...]
    span: SourceSpan = field(compare=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The variables of the pattern."""
        return tuple([name for name in self.variables if name is not None])

    def has_key(self, names: Sequence[str]) -> bool:
        """Whether at most one row fits the pattern when these variables are bound."""
        return len(names) + len(self.constants) + len(self.equal) == len(self.variables)


@dataclass(frozen=True, slots=True)
class Absent:
    """No row of the relation fits the pattern; all variables of the pattern must be bound."""

    pattern: Scan


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison without aggregates; an equation may also bind a variable.

    Several conditions of the same `form` destructure a record or branch: the equation that
    `constructs` the value from its parts, and the conditions on its constructor and on each part.
    The equation implies the other conditions, and together they imply the equation.
    """

    comparison: syntax.Comparison
    form: int | None = field(default=None, compare=False)
    constructs: bool = field(default=False, compare=False)

    @property
    def names(self) -> frozenset[str]:
        return variables(self.comparison)


@dataclass(frozen=True, slots=True)
class Generated:
    """Binds a variable to each value of a generator, or tests the variable if it is bound."""

    variable: str
    call: syntax.Call

    @property
    def arguments(self) -> frozenset[str]:
        """The variables that determine the values."""
        return variables(self.call)

    @property
    def membership(self) -> syntax.Comparison:
        """The condition that the variable is one of the values."""
        variable = syntax.Variable(self.variable, self.call.span, self.call.kind)
        return syntax.Comparison("in", variable, self.call, self.call.span)


@dataclass(frozen=True, slots=True)
class Numbered:
    """Binds a variable to the number of each binding of the other variables."""

    variable: str
    first: int
    step: int


@dataclass(frozen=True, slots=True)
class AggregateResult:
    """An aggregate function and the variable that it binds; `value` is None for `count`."""

    variable: str
    function: str
    value: syntax.Term | None
    kind: AnyKind


@dataclass(frozen=True, slots=True)
class AggregateLiteral:
    """Binds the variables of `results` to aggregates over `body`, per binding of `injected`.

    With `grouped`, the literal holds for groups with a row only, and may bind `injected` itself.
    """

    results: tuple[AggregateResult, ...]
    body: tuple[NormalLiteral, ...]
    injected: tuple[str, ...]
    span: SourceSpan = field(compare=False)
    grouped: bool = False

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(result.variable for result in self.results)


NormalLiteral: TypeAlias = Scan | Absent | Condition | Generated | Numbered | AggregateLiteral


@dataclass(frozen=True, slots=True)
class NormalRule:
    """A rule in normal form; a body of None means that the rule never holds.

    `head` has one term without aggregates per column; for a subsumption, of both rows.
    """

    rule: checked.Rule
    head: tuple[syntax.Term, ...]
    body: tuple[NormalLiteral, ...] | None

    @property
    def relation(self) -> str:
        return self.rule.head.relation


def normalise(rule: checked.Rule) -> NormalRule:
    """Return the normal form of one rule."""
    normal, _ = normalise_with_origins(rule)
    holds = syntax.Truth(False, rule.span) not in rule.body
    return normal if holds else replace(normal, body=None)


def normalise_with_origins(rule: checked.Rule) -> tuple[NormalRule, tuple[int, ...]]:
    """Return the normal form of a rule without its `false`, and the origins of its literals.

    The origin of a literal is the position of its source in the body of the rule. Literals of the
    head have the position after the last one.
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


class _Normaliser:
    """Makes new names with `#`, which no name in a source contains."""

    def __init__(self) -> None:
        self.numbers = count(1)
        self.forms = count(1)

    def new_name(self) -> str:
        return f"#{next(self.numbers)}"

    def body(self, literals: tuple[syntax.Literal, ...], out: list[NormalLiteral]) -> bool:
        """Append the normalised literals; return False when one of them is `false`."""
        for literal in literals:
            self.literal(literal, out)
        return not any(isinstance(literal, syntax.Truth) and not literal.value for literal in literals)

    def literal(self, literal: syntax.Literal, out: list[NormalLiteral]) -> None:
        """Append the normal form of a literal; nothing for `true` and `false`."""
        match literal:
            case syntax.Atom():
                out.append(self.pattern(literal, out))
            case syntax.Negation(atom=atom):
                out.append(Absent(self.pattern(atom, out, positive=False)))
            case syntax.Comparison(
                operator="=", left=syntax.Variable(name=name), right=syntax.Call() as call
            ) | (
                syntax.Comparison(operator="=", left=syntax.Call() as call, right=syntax.Variable(name=name))
            ) if call.function in GENERATORS:
                self.generated(name, call, out)
            case syntax.Comparison(operator="=", left=left, right=right, span=span) if isinstance(
                left, syntax.Construct
            ) or isinstance(right, syntax.Construct):
                self.equation(left, right, span, out)
            case syntax.Comparison(operator=operator, left=left, right=right, span=span):
                sides = (self.term(left, out), self.term(right, out))
                out.append(Condition(syntax.Comparison(operator, *sides, span)))
            case syntax.Truth():
                pass

    def pattern(self, atom: syntax.Atom, out: list[NormalLiteral], positive: bool = True) -> Scan:
        names: list[str | None] = []
        constants: list[tuple[int, syntax.Constant]] = []
        equal: list[tuple[int, int]] = []
        for column, argument in enumerate(atom.arguments):
            name: str | None = None
            match argument:
                case syntax.Wildcard():
                    pass
                case syntax.Constant():
                    constants.append((column, argument))
                case syntax.Variable() if argument.name in names:
                    equal.append((names.index(argument.name), column))
                case syntax.Variable():
                    name = argument.name
                case syntax.Construct() if positive:
                    name = self.new_name()
                    self.destructure(syntax.Variable(name, argument.span, argument.kind), argument, out)
                case _:
                    name = self.equal_to(argument, out)
            names.append(name)
        return Scan(atom.relation, tuple(names), tuple(constants), tuple(equal), atom.span)

    def equation(
        self, left: syntax.Term, right: syntax.Term, span: SourceSpan, out: list[NormalLiteral]
    ) -> None:
        """Append `x = [a, b]` or `[a, b] = x`; two patterns are compared part by part."""
        if not isinstance(right, syntax.Construct) or has_wildcard(left):
            left, right = right, left
        pattern = expect_type(right, syntax.Construct, "a pattern on a side of an equation")
        if isinstance(left, syntax.Construct) and left.function == pattern.function:
            for left_part, right_part in zip(left.arguments, pattern.arguments, strict=True):
                if not isinstance(left_part, syntax.Wildcard) and not isinstance(right_part, syntax.Wildcard):
                    self.body((syntax.Comparison("=", left_part, right_part, span),), out)
            return
        if isinstance(left, syntax.Construct):
            # Different constructors are never equal; a false condition keeps the rule.
            zero = syntax.Constant(0, span, Kind.NUMBER)
            out.append(Condition(syntax.Comparison("!=", zero, zero, span)))
            return
        if isinstance(left, syntax.Variable):
            self.destructure(left, pattern, out)
            return
        variable = syntax.Variable(self.equal_to(left, out), span, left.kind)
        self.destructure(variable, pattern, out)

    def destructure(
        self, value: syntax.Variable, pattern: syntax.Construct, out: list[NormalLiteral]
    ) -> None:
        """Append the conditions that a value equals a pattern; see `Condition`."""
        form = next(self.forms)
        span, constructor = pattern.span, pattern.constructor
        has_constructor = syntax.Part("made", (value,), span, Kind.NUMBER, constructor=constructor)
        true = syntax.Constant(True, span, Kind.NUMBER)
        parts: list[syntax.Term] = []
        found: list[tuple[int, syntax.Term]] = []
        nested: list[tuple[syntax.Variable, syntax.Construct]] = []
        for position, argument in enumerate(pattern.arguments):
            match argument:
                case syntax.Wildcard():
                    continue
                case syntax.Variable() | syntax.Constant():
                    part: syntax.Term = argument
                case syntax.Construct():
                    part = syntax.Variable(self.new_name(), argument.span, argument.kind)
                    nested.append((part, argument))
                case _:
                    part = syntax.Variable(self.equal_to(argument, out), argument.span, argument.kind)
            parts.append(part)
            found.append((position, part))
        if len(parts) == len(pattern.arguments):
            construction = syntax.Construct(pattern.function, tuple(parts), span, pattern.kind)
            out.append(Condition(syntax.Comparison("=", value, construction, span), form, constructs=True))
        out.append(Condition(syntax.Comparison("=", has_constructor, true, span), form))
        for position, part in found:
            kind = part.kind
            place = syntax.Part("part", (value,), span, kind, constructor=constructor, position=position)
            out.append(Condition(syntax.Comparison("=", part, place, span), form))
        for inner, inner_pattern in nested:
            self.destructure(inner, inner_pattern, out)

    def equal_to(self, term: syntax.Term, out: list[NormalLiteral]) -> str:
        """Append an equation between a new variable and the term; return the variable."""
        name = self.new_name()
        variable = syntax.Variable(name, term.span, term.kind)
        out.append(Condition(syntax.Comparison("=", variable, self.term(term, out), term.span)))
        return name

    def term(self, term: syntax.Term, out: list[NormalLiteral]) -> syntax.Term:
        """Replace every aggregate, generator and counter in the term by a variable."""
        match term:
            case syntax.Call(function=function, kind=kind, span=span) if function in GENERATORS:
                name = self.new_name()
                self.generated(name, term, out)
                return syntax.Variable(name, span, kind)
            case syntax.Call(function="autoinc", kind=kind, span=span):
                name = self.new_name()
                first, step = (
                    argument.value for argument in term.arguments if isinstance(argument, syntax.Constant)
                )
                out.append(
                    Numbered(name, expect_type(first, int, "a number"), expect_type(step, int, "a step"))
                )
                return syntax.Variable(name, span, kind)
            case syntax.Aggregate():
                return self.aggregate(term, out)
            case _:
                return map_children(term, lambda part: self.term(part, out))

    def generated(self, name: str, call: syntax.Call, out: list[NormalLiteral]) -> None:
        out.append(Generated(name, map_children(call, lambda part: self.term(part, out))))

    def aggregate(self, aggregate: syntax.Aggregate, out: list[NormalLiteral]) -> syntax.Variable:
        body: list[NormalLiteral] = []
        holds = self.body(aggregate.literals, body)
        value = None if aggregate.value is None else self.term(aggregate.value, body)
        if not holds:
            # A false condition without variables keeps the aggregate.
            zero = syntax.Constant(0, aggregate.span, Kind.NUMBER)
            body.append(Condition(syntax.Comparison("!=", zero, zero, aggregate.span)))
        name = self.new_name()
        result = AggregateResult(name, aggregate.function, value, aggregate.kind)
        out.append(AggregateLiteral((result,), tuple(body), aggregate.injected, aggregate.span))
        return syntax.Variable(name, aggregate.span, aggregate.kind)
