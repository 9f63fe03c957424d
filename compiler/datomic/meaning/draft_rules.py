"""Draft rules: the rules of a query before the kinds of its variables are known.

Every argument is the name of a variable. A constant is a variable that the relation `query` binds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field
from typing import Any, TypeAlias

from dbsp.compiler.datomic.meaning.base_relations import BaseRelation
from dbsp.diagnostics import SourceSpan
from dbsp.edn.edn_values import Keyword
from dbsp.lazy_dataclass import dataclass

QUERY = "query"
"""The input with one row: the constants and the single values of `:in`."""

RESULT = "result"
"""The relation of the rows of a query, before aggregates: the variables of :find and :with."""


@dataclass(frozen=True, slots=True)
class DraftAtom:
    """`relation(arguments)`; `base` if the relation belongs to a source."""

    relation: str
    arguments: tuple[str, ...]
    span: SourceSpan
    base: BaseRelation | None = None
    negated: bool = False


@dataclass(frozen=True, slots=True)
class DraftCall:
    """`result = function(arguments)`, or the condition that the function holds (no result)."""

    function: str
    python: Callable[..., Any]
    arguments: tuple[str, ...]
    result: str | None
    span: SourceSpan
    native: bool = True
    """Whether the engine may evaluate the function of this name."""
    gives: str = "value"
    """The kind of the result: "number", "float", "symbol" or "value"."""
    may_be_nil: bool = False


@dataclass(frozen=True, slots=True)
class DraftSeries:
    """`variable` is each of 0, 1, ..., `size` - 1."""

    variable: str
    size: str
    span: SourceSpan


DraftLiteral: TypeAlias = DraftAtom | DraftCall | DraftSeries


@dataclass(slots=True)
class DraftRule:
    """`head(arguments) :- body`; `parameters` are the columns of `query` that the body reads."""

    head: str
    arguments: tuple[str, ...]
    body: list[DraftLiteral]
    span: SourceSpan
    parameters: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Parameter:
    """A column of an input: a constant of the query, or a value out of an argument of `:in`.

    `entity` means that idents and lookup refs stand for an entity id here.
    """

    name: str
    constant: Any = None
    is_constant: bool = False
    entity: bool = False


@dataclass(slots=True)
class DraftQuery:
    """The draft rules of a query, and the inputs that its arguments fill."""

    rules: list[DraftRule] = field(default_factory=list)
    parameters: list[Parameter] = field(default_factory=list)
    """The columns of the relation `query`."""
    inputs: dict[str, list[Parameter]] = field(default_factory=dict)
    """The columns of the other inputs, by name."""
    arity: dict[str, int] = field(default_factory=dict)
    """The number of columns of every derived relation."""
    named: dict[tuple[str, Keyword], int] = field(default_factory=dict)
    """The attributes that clauses name, by source and name."""
    on_demand: set[str] = field(default_factory=set)
    """The derived relations of which only rows that a rule needs are derived."""

    def atoms(self) -> Iterator[DraftAtom]:
        """The atoms of all rules."""
        for rule in self.rules:
            for literal in rule.body:
                if isinstance(literal, DraftAtom):
                    yield literal


def variables_of_literal(literal: DraftLiteral) -> tuple[str, ...]:
    """Return the variables of a literal."""
    match literal:
        case DraftAtom(arguments=arguments):
            return arguments
        case DraftCall(arguments=arguments, result=result):
            return arguments if result is None else (*arguments, result)
        case DraftSeries(variable=variable, size=size):
            return (variable, size)
