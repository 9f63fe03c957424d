"""The items of a parsed program: clauses, declarations and directives as written, with positions.

Names are as written; no name has been looked up and no type is known. The checked form, in which
every name is resolved and every term has its kind, is `meaning.checked`; the terms and formulas of
both are those of `tree.syntax`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal, TypeAlias

from dbsp.compiler.datalog.tree.syntax import Atom, Formula, Name, Node, NumberLiteral
from dbsp.diagnostics import SourceSpan
from dbsp.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Clause(Node):
    """A fact (`body` is None), a rule with one or several heads, or a subsumption.

    A subsumption `dominated <= dominating :- body.` has the dominated atom as its head. Its body
    starts with both atoms, in which a named variable replaces every `_`.
    """

    heads: tuple[Atom, ...]
    body: Formula | None
    span: SourceSpan = field(compare=False, repr=False)
    subsumes: bool = False


@dataclass(frozen=True, slots=True)
class AttributeDeclaration:
    """`name: type` of a relation or a branch."""

    name: str
    type_name: str
    span: SourceSpan = field(compare=False, repr=False)
    type_span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class RelationDeclaration:
    """`.decl r, s(x: number) qualifiers choice-domain x, (y, z)`"""

    names: tuple[Name, ...]
    attributes: tuple[AttributeDeclaration, ...]
    qualifiers: tuple[Name, ...]
    span: SourceSpan = field(compare=False, repr=False)
    choices: tuple[tuple[Name, ...], ...] = ()


TypeForm = Literal["subtype", "alias", "union", "record", "adt"]


@dataclass(frozen=True, slots=True)
class BranchDeclaration:
    """`Branch { x: number }` of an algebraic data type; a record is a branch with an empty name."""

    name: Name
    fields: tuple[AttributeDeclaration, ...]


@dataclass(frozen=True, slots=True)
class TypeDeclaration:
    """`.type A <: B` (subtype), `.type A = B` (alias), `.type A = B | C` (union).

    `.type A = [x: B]` (record) and `.type A = P { x: B } | Q {}` (adt) have branches and no
    parents. `deprecated` marks the old forms of a subtype: `.type A`, `.symbol_type A`,
    `.number_type A`.
    """

    name: Name
    form: TypeForm
    parents: tuple[Name, ...]
    span: SourceSpan = field(compare=False, repr=False)
    deprecated: bool = False
    branches: tuple[BranchDeclaration, ...] = ()


DirectiveKind = Literal["input", "output", "printsize", "limitsize"]


@dataclass(frozen=True, slots=True)
class Directive:
    """`.input r, s(key=value, ...)`, and the same with the other kinds of directives."""

    kind: DirectiveKind
    relations: tuple[Name, ...]
    parameters: tuple[tuple[str, str], ...]
    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Pragma:
    """`.pragma "key" "value"`; the value is empty if none is written."""

    key: str
    value: str
    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class FunctorDeclaration:
    """`.functor f(x: number, symbol): symbol stateful`: a function that the user supplies."""

    name: Name
    parameters: tuple[Name, ...]
    result: Name
    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class PlanOrder:
    """`version: (positions)`: an order of the atoms of a body, by their positions from 1."""

    version: NumberLiteral
    positions: tuple[NumberLiteral, ...]
    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class PlanDirective:
    """`.plan 0: (2, 1), 1: (1, 2)` after a rule: the order in which to join its atoms."""

    orders: tuple[PlanOrder, ...]
    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ComponentType:
    """`Name<T, U>`: a component with its type parameters, formal or actual."""

    name: Name
    parameters: tuple[Name, ...]
    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Instance:
    """`.init name = Component<types>`"""

    name: Name
    component: ComponentType
    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Override:
    """`.override r`: drop the rules that the base components have for r."""

    names: tuple[Name, ...]
    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Component:
    """`.comp Name<T> : Base<T> { items }`; the pass `instantiate` replaces all of them."""

    head: ComponentType
    bases: tuple[ComponentType, ...]
    items: tuple[Item, ...]
    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ComponentEnd:
    """The `}` of a component; only the parser uses it."""

    span: SourceSpan = field(compare=False, repr=False)


Item: TypeAlias = (
    Clause
    | RelationDeclaration
    | TypeDeclaration
    | Directive
    | Pragma
    | FunctorDeclaration
    | PlanDirective
    | Component
    | ComponentEnd
    | Instance
    | Override
)


@dataclass(frozen=True, slots=True)
class ParsedProgram:
    """The items of one source, in the order written.

    `notes` names the instance of each item that comes from a component, by the item's position.
    """

    items: tuple[Item, ...]
    notes: Mapping[int, str] = field(default_factory=dict, compare=False, repr=False)
