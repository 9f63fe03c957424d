"""The tree of a query: what the text says, before anything is looked up.

Nodes are frozen and compare without their places, so two texts that differ only in white space have
equal trees. Constants are EDN values in their Python form (see `dbsp.edn`).

A clause that names no source reads the source of the `not`, `or` or rule call around it, and `$`
at the top. The parser writes that source into each clause, so `source` is always a name. In the
body of a rule, `$` is the source of the call.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any, Literal, TypeAlias

from dbsp.diagnostics import ProgramSources, SourceSpan
from dbsp.lazy_dataclass import dataclass

# --- terms -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable: `?x`. The name includes the question mark."""

    name: str
    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Blank:
    """`_`: any value, which nothing else refers to."""

    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Constant:
    """A value written in the query.

    `quoted` is false for a string of the Python form that may be a keyword: `":red"`. The kind of
    the attribute decides.
    """

    value: Any
    span: SourceSpan = field(compare=False, repr=False)
    quoted: bool = field(default=True, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class SourceVariable:
    """A source as an argument of a function: `$`, `$2`."""

    name: str
    span: SourceSpan = field(compare=False, repr=False)


Term: TypeAlias = Variable | Blank | Constant
Argument: TypeAlias = Variable | Constant | SourceVariable

# --- bindings ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BindScalar:
    """`?x`: the whole value."""

    variable: Variable
    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class BindBlank:
    """`_`: a value that is not used."""

    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class BindTuple:
    """`[?a ?b]`: one tuple. A longer tuple is cut, a shorter one is an error."""

    parts: tuple[Binding, ...]
    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class BindCollection:
    """`[?x ...]`: each item of a collection."""

    part: Binding
    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class BindRelation:
    """`[[?a ?b]]`: each tuple of a collection."""

    parts: tuple[Binding, ...]
    span: SourceSpan = field(compare=False, repr=False)


Binding: TypeAlias = BindScalar | BindBlank | BindTuple | BindCollection | BindRelation

# --- clauses -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pattern:
    """`[?e :person/name ?n ?tx ?added]`: the datoms of a source; one to five terms."""

    source: str
    terms: tuple[Term, ...]
    span: SourceSpan = field(compare=False, repr=False)


def called_name(function: str | Variable) -> str:
    """Return the name of a function that a query calls; a variable of `:in` is one."""
    return function.name if isinstance(function, Variable) else function


@dataclass(frozen=True, slots=True)
class Predicate:
    """`[(< ?x 3)]`: rows for which the function returns neither nil nor false."""

    function: str | Variable
    arguments: tuple[Argument, ...]
    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Function:
    """`[(+ ?x 1) ?y]`: the result of the function, matched with a binding."""

    function: str | Variable
    arguments: tuple[Argument, ...]
    binding: Binding
    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Not:
    """`(not clause ...)`, or `(not-join [?x ...] clause ...)`, which has `variables`."""

    source: str
    variables: tuple[Variable, ...] | None
    clauses: tuple[Clause, ...]
    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Or:
    """`(or branch ...)`, or `(or-join [[?r ...] ?x ...] branch ...)`, which has `variables`.

    `variables` are those without the `required` ones. A branch `(and clause ...)` has several
    clauses.
    """

    source: str
    required: tuple[Variable, ...]
    variables: tuple[Variable, ...] | None
    branches: tuple[tuple[Clause, ...], ...]
    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class RuleCall:
    """`(ancestor ?a ?b)`: the rows of a rule."""

    source: str
    name: str
    arguments: tuple[Term, ...]
    span: SourceSpan = field(compare=False, repr=False)


Clause: TypeAlias = Pattern | Predicate | Function | Not | Or | RuleCall


@dataclass(frozen=True, slots=True)
class RuleDefinition:
    """`[(rule [?required] ?parameter) clause ...]`: one of the definitions of a rule.

    The arguments of a call are the required variables, then the other parameters.
    """

    name: str
    required: tuple[Variable, ...]
    parameters: tuple[Variable, ...]
    clauses: tuple[Clause, ...]
    span: SourceSpan = field(compare=False, repr=False)

    @property
    def head(self) -> tuple[Variable, ...]:
        """All variables of the head, in the order of a call's arguments."""
        return self.required + self.parameters


# --- find and in -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FindVariable:
    """`?x`."""

    variable: Variable
    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class FindAggregate:
    """`(max 3 ?x)`: a function of all values of a variable in a group.

    `arguments` come before the variable. A function that is a variable is an input.
    """

    function: str | Variable
    arguments: tuple[Variable | Constant, ...]
    variable: Variable
    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class FindPull:
    """`(pull $source ?e pattern)`; the pattern is an EDN value, or a `Variable` of `:in`.

    A pattern name of `:in` without a question mark is a `Variable` too. `form` is the pattern as a
    form of the parser, with the places of its parts.
    """

    source: str
    variable: Variable
    pattern: Any
    span: SourceSpan = field(compare=False, repr=False)
    form: Any = field(default=None, compare=False, repr=False)


FindElement: TypeAlias = FindVariable | FindAggregate | FindPull


@dataclass(frozen=True, slots=True)
class Find:
    """The result: a relation, a collection `[?x ...]`, a tuple `[?x ?y]` or a scalar `?x .`."""

    kind: Literal["relation", "collection", "tuple", "scalar"]
    elements: tuple[FindElement, ...]
    span: SourceSpan = field(compare=False, repr=False)

    @property
    def aggregates(self) -> bool:
        """Whether an element is an aggregate."""
        return any(isinstance(element, FindAggregate) for element in self.elements)


@dataclass(frozen=True, slots=True)
class SourceInput:
    """`$` or `$name` in `:in`: a database or a collection of tuples."""

    name: str
    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class RulesInput:
    """`%` in `:in`: rules."""

    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class BindingInput:
    """A binding in `:in`: a value, a tuple, a collection or a relation."""

    binding: Binding
    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class PatternInput:
    """A name without a question mark in `:in`: a pull pattern."""

    name: str
    span: SourceSpan = field(compare=False, repr=False)


Input: TypeAlias = SourceInput | RulesInput | BindingInput | PatternInput


@dataclass(frozen=True, slots=True)
class Ordering:
    """One item of `:order-by`: the position of an element of `:find`, and the direction."""

    position: int
    descending: bool
    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Labels:
    """`:keys a b`, `:strs a b` or `:syms a b`: each row is a map with these names."""

    kind: Literal["keys", "strs", "syms"]
    names: tuple[str, ...]
    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Query:
    """A whole query. `text` is its source, for messages; `file` names it there.

    `sources` has the texts that spans refer to: of Python data, one for each part of the query.
    """

    find: Find
    with_: tuple[Variable, ...]
    inputs: tuple[Input, ...]
    where: tuple[Clause, ...]
    labels: Labels | None
    text: str = field(compare=False, repr=False)
    file: str = field(compare=False)
    sources: ProgramSources = field(compare=False, repr=False)
    order_by: tuple[Ordering, ...] = ()
    limit: int | None = None
    offset: int = 0
    rules: Rules | None = None
    """The rules written in the query itself, under `:rules`."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules that a query gets as `%`, or has itself; `sources` has their texts."""

    definitions: tuple[RuleDefinition, ...]
    sources: ProgramSources = field(compare=False, repr=False)
