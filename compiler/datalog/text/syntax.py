"""The syntax tree of a Datalog program: what was written, with positions, nothing resolved.

Nodes are frozen and compare without their positions, so two trees are equal when the same program
was written with other white space. Names are as written; no name has been looked up and no type is
known. The checked form, in which every name is resolved and every term typed, is `checked`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from dbsp.diagnostics import SourceSpan

# --- terms -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Variable:
    """A named variable: `x`, `_ignored`."""

    name: str
    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Wildcard:
    """The anonymous variable `_`; every one stands for itself."""

    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class NumberLiteral:
    """An integer literal. Without a suffix it may become a number, an unsigned or a float."""

    value: int
    unsigned: bool
    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class FloatLiteral:
    value: float
    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class StringLiteral:
    value: str
    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Call:
    """A functor applied to arguments; operators are functors named by their sign (`-` may be unary).

    `as(x, T)` has one argument, and T as its `target`. The name of a user's functor begins with `@`.
    """

    function: str
    arguments: tuple[Term, ...]
    span: SourceSpan = field(compare=False, repr=False)
    target: Name | None = None


@dataclass(frozen=True, slots=True)
class Construct(Call):
    """`[a, b]`, `nil` or `$Branch(a, b)`; the function is `[]`, `nil` or `$Branch`.

    In an atom of a body, or on a side of `=`, it also takes a value apart and binds its variables.
    """


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`sum e : { body }`; `value` is the target expression, None for `count`.

    `injected` names the variables that the rest of the rule binds; the pass `scope` fills it in and
    renames all others apart.
    """

    function: str
    value: Term | None
    body: Formula
    span: SourceSpan = field(compare=False, repr=False)
    injected: tuple[str, ...] = ()


Term: TypeAlias = Variable | Wildcard | NumberLiteral | FloatLiteral | StringLiteral | Call | Aggregate

# --- literals ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Atom:
    """`relation(arguments)`, in a head or in a body."""

    relation: str
    arguments: tuple[Term, ...]
    span: SourceSpan = field(compare=False, repr=False)
    name_span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Negation:
    """`!atom`"""

    atom: Atom
    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Comparison:
    """`left operator right` by one of `= != < <= > >=`; or `match(left, right)`, `contains(left, right)`."""

    operator: str
    left: Term
    right: Term
    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Truth:
    """`true` or `false` as a constraint."""

    value: bool
    span: SourceSpan = field(compare=False, repr=False)


BodyLiteral: TypeAlias = Atom | Negation | Comparison | Truth


@dataclass(frozen=True, slots=True)
class Conjunction:
    parts: tuple[Formula, ...]
    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Disjunction:
    parts: tuple[Formula, ...]
    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Not:
    """`!( ... )` as written; the pass `expand` drives it down to atoms and comparisons."""

    part: Formula
    span: SourceSpan = field(compare=False, repr=False)


Formula: TypeAlias = BodyLiteral | Conjunction | Disjunction | Not
Node: TypeAlias = Term | Formula

# --- items of a program ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Clause:
    """A fact (`body` is None), a rule with one or several heads, or a subsumption.

    `dominated <= dominating :- body.` has the dominated atom as its head; its body begins with both
    atoms, and their `_` have names.
    """

    heads: tuple[Atom, ...]
    body: Formula | None
    span: SourceSpan = field(compare=False, repr=False)
    subsumes: bool = False


@dataclass(frozen=True, slots=True)
class Attribute:
    name: str
    type_name: str
    span: SourceSpan = field(compare=False, repr=False)
    type_span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Name:
    text: str
    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class RelationDeclaration:
    """`.decl r, s(x: number) qualifiers choice-domain x, (y, z)`"""

    names: tuple[Name, ...]
    attributes: tuple[Attribute, ...]
    qualifiers: tuple[Name, ...]
    span: SourceSpan = field(compare=False, repr=False)
    choices: tuple[tuple[Name, ...], ...] = ()


TypeForm = Literal["subtype", "alias", "union", "record", "adt"]


@dataclass(frozen=True, slots=True)
class BranchDeclaration:
    """`Branch { x: number }` of an algebraic data type; for a record, its fields, and the name is empty."""

    name: Name
    fields: tuple[Attribute, ...]


@dataclass(frozen=True, slots=True)
class TypeDeclaration:
    """`.type A <: B` (subtype), `.type A = B` (alias), `.type A = B | C` (union).

    `.type A = [x: B]` (record) and `.type A = P { x: B } | Q {}` (adt) have branches and no parents.
    `deprecated` are the old forms of a subtype: `.type A`, `.symbol_type A`, `.number_type A`.
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
    """`.input r, s(key=value, ...)` and the like."""

    kind: DirectiveKind
    relations: tuple[Name, ...]
    parameters: tuple[tuple[str, str], ...]
    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Pragma:
    """`.pragma "key" "value"`; without a value it is empty."""

    key: str
    value: str
    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class FunctorDeclaration:
    """`.functor f(x: number, symbol): symbol stateful`: a function that comes with the program."""

    name: Name
    parameters: tuple[Name, ...]
    result: Name
    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class PlanOrder:
    """`version: (positions)`: an order of the atoms of a body, which are counted from 1."""

    version: NumberLiteral
    positions: tuple[NumberLiteral, ...]
    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class PlanDirective:
    """`.plan 0: (2, 1), 1: (1, 2)` after a rule: in which order its atoms are to be joined."""

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
    """`.override r`: the rules that the base components have for r are left out."""

    names: tuple[Name, ...]
    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Component:
    """`.comp Name<T> : Base<T> { items }`; the pass `components` leaves none."""

    head: ComponentType
    bases: tuple[ComponentType, ...]
    items: tuple[Item, ...]
    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ComponentEnd:
    """The `}` of a component; `parse` leaves none."""

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

    `notes` say of items that come from a component, by their place, which instance they belong to.
    """

    items: tuple[Item, ...]
    notes: Mapping[int, str] = field(default_factory=dict, compare=False, repr=False)
