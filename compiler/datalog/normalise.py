"""Checked rules to the form the planner works on: scans, conditions and aggregates side by side.

In a normalised body

- an atom has variables, constants and `_` as arguments only; anything else has been replaced by a
  variable of its own and an equation;
- no term contains an aggregate: each has become a literal that binds a variable.

    r(x, x + 1, s(...))      is   r(x, v, ...), v = x + 1, ...
    y > count : { r(_) }     is   v := count : { r(_) }, y > v
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TypeAlias

from dbsp.compiler.datalog import checked
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
    """A comparison without aggregates; an equation may also serve to bind a variable."""

    comparison: checked.Comparison

    @property
    def names(self) -> frozenset[str]:
        return variables_of(self.comparison.left) | variables_of(self.comparison.right)


@dataclass(frozen=True, slots=True)
class AggregateResult:
    """One aggregate function and the variable it binds; `value` is None for `count`."""

    variable: str
    function: str
    value: checked.Term | None
    kind: checked.Kind


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


NormalLiteral: TypeAlias = Scan | Absent | Condition | AggregateLiteral


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
    normaliser = _Normaliser()
    body: list[NormalLiteral] = []
    holds = normaliser.body(rule.body, body)
    arguments = rule.head.arguments + (rule.dominating.arguments if rule.dominating else ())
    head = tuple(normaliser.term(term, body) for term in arguments)
    return NormalRule(rule, head, tuple(body) if holds else None)


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


class _Normaliser:
    """`#` never occurs in the names of a source, so the names made here are new."""

    def __init__(self) -> None:
        self.numbers = count(1)

    def new_name(self) -> str:
        return f"#{next(self.numbers)}"

    def body(self, literals: tuple[checked.Literal, ...], out: list[NormalLiteral]) -> bool:
        """Appends the normalised literals; false when one of them is `false`."""
        holds = True
        for literal in literals:
            match literal:
                case checked.Atom():
                    out.append(self.pattern(literal, out))
                case checked.Negation(atom=atom):
                    out.append(Absent(self.pattern(atom, out)))
                case checked.Comparison(operator=operator, left=left, right=right, span=span):
                    sides = (self.term(left, out), self.term(right, out))
                    out.append(Condition(checked.Comparison(operator, *sides, span)))
                case checked.Truth(value=value):
                    holds = holds and value
        return holds

    def pattern(self, atom: checked.Atom, out: list[NormalLiteral]) -> Scan:
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
                case _:
                    name = self.equal_to(argument, out)
            names.append(name)
        return Scan(atom.relation, tuple(names), tuple(constants), tuple(equal), atom.span)

    def equal_to(self, term: checked.Term, out: list[NormalLiteral]) -> str:
        """A new variable and the equation that it equals the term."""
        name = self.new_name()
        variable = checked.Variable(name, term.kind, term.span)
        out.append(Condition(checked.Comparison("=", variable, self.term(term, out), term.span)))
        return name

    def term(self, term: checked.Term, out: list[NormalLiteral]) -> checked.Term:
        """The term with a variable in the place of every aggregate."""
        match term:
            case checked.Call(function=function, arguments=arguments, kind=kind, span=span):
                return checked.Call(function, tuple(self.term(part, out) for part in arguments), kind, span)
            case checked.Aggregate():
                return self.aggregate(term, out)
            case _:
                return term

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
