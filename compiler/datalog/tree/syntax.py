"""The terms and formulas of a program, as parsed and as checked.

Nodes are frozen and compare without their positions, so the trees of two texts that differ only in
white space are equal.

In a parsed program names are as written and not resolved, and terms have no kind (`UNTYPED`) unless
their form, or the column of an inlined relation, determines it. In a checked program every term has
its kind, and there are no `NumberLiteral`, `Conjunction`, `Disjunction` and `Not`;
`meaning.checked` defines the meaning.
"""

from __future__ import annotations

from dataclasses import field
from typing import TypeAlias, cast

from dbsp.compiler.datalog.tree.kinds import UNTYPED, AnyKind, FunctorSignature, Value
from dbsp.diagnostics import SourceSpan
from dbsp.lazy_dataclass import dataclass


class Node:
    """A term, a formula, or a structure of them such as a clause: see `traversal`.

    A node never changes, so it stores the results of `traversal.walk`, `traversal.variables` and
    `dependencies.uses`: most passes leave most nodes as they are.
    """

    __slots__ = ("_descendants", "_uses", "_variables")
    _descendants: tuple[Node, ...]
    _uses: tuple[Atom, ...]
    _variables: frozenset[str]


# --- terms -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Variable(Node):
    """A named variable: `x`, `_ignored`."""

    name: str
    span: SourceSpan = field(compare=False, repr=False)
    kind: AnyKind = UNTYPED


@dataclass(frozen=True, slots=True)
class Wildcard(Node):
    """The anonymous variable `_`; each one is a separate variable."""

    span: SourceSpan = field(compare=False, repr=False)
    kind: AnyKind = UNTYPED


@dataclass(frozen=True, slots=True)
class NumberLiteral(Node):
    """An integer literal. Without a suffix it may be a number, an unsigned or a float."""

    value: int
    unsigned: bool
    span: SourceSpan = field(compare=False, repr=False)
    kind: AnyKind = UNTYPED


@dataclass(frozen=True, slots=True)
class Constant(Node):
    """A value of a known kind: a float or string literal; after inference any literal."""

    value: Value
    span: SourceSpan = field(compare=False, repr=False)
    kind: AnyKind


@dataclass(frozen=True, slots=True)
class Name:
    """A name with its position, such as the name of a type."""

    text: str
    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Call(Node):
    """A functor applied to arguments; an operator is a functor named by its sign.

    `-` may be unary. The functions are those of `meaning.signatures`. The name of a user-defined
    functor starts with `@`, and inference sets its `functor`. `as(x, T)` has one argument, and T as
    its `target`; inference replaces it by another function.

    With a `word` of 32 bits ints wrap, see `word_size`; the compiler then applies its internal
    function `wrap` to the value of an aggregate.
    """

    function: str
    arguments: tuple[Term, ...]
    span: SourceSpan = field(compare=False, repr=False)
    kind: AnyKind = UNTYPED
    target: Name | None = None
    functor: FunctorSignature | None = None
    word: int = 64
    written: SourceSpan | None = field(default=None, compare=False, repr=False)
    """The place of the call, if it replaced a variable; `span` is then the variable's place."""


@dataclass(frozen=True, slots=True)
class Construct(Call):
    """`[a, b]`, `nil` or `$Branch(a, b)`; the function is `[]`, `nil` or `$Branch`.

    In an atom of a body, or on a side of `=`, it is also a pattern that binds its variables.
    """

    @property
    def constructor(self) -> str:
        """The name of the constructor in the structure: empty for a record."""
        return self.function[1:] if self.function.startswith("$") else ""


@dataclass(frozen=True, slots=True)
class Part(Call):
    """A part of the only argument, a value made by this constructor. Only plans contain it.

    The function is `part`, with the `position` of the part; or `made`, without a position, which is
    true if the argument was made by this constructor.
    """

    constructor: str = ""
    position: int | None = None


@dataclass(frozen=True, slots=True)
class Aggregate(Node):
    """`sum e : { body }`: count, sum, min, max or mean.

    `value` is the expression, None for `count`. The formulas of the body must all hold. `injected`
    names the variables that the rest of the rule binds; the pass `localise` sets it and renames all
    other variables.
    """

    function: str
    value: Term | None
    body: tuple[Formula, ...]
    span: SourceSpan = field(compare=False, repr=False)
    injected: tuple[str, ...] = ()
    kind: AnyKind = UNTYPED

    @property
    def literals(self) -> tuple[Literal, ...]:
        """The body, which consists of literals after the pass `flatten`."""
        return cast("tuple[Literal, ...]", self.body)


Term: TypeAlias = Variable | Wildcard | NumberLiteral | Constant | Call | Aggregate

# --- formulas ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Atom(Node):
    """`relation(arguments)`, in a head or in a body."""

    relation: str
    arguments: tuple[Term, ...]
    span: SourceSpan = field(compare=False, repr=False)
    name_span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Negation(Node):
    """`!atom`"""

    atom: Atom
    span: SourceSpan = field(compare=False, repr=False)


TEXT_TESTS = frozenset({"match", "!match", "contains", "!contains"})


@dataclass(frozen=True, slots=True)
class Comparison(Node):
    """`left operator right`, `match(left, right)` or `contains(left, right)`.

    The operators are `= != < <= > >=`. In normalised literals the operator may also be `in`: the
    left side is one of the values of the right side.
    """

    operator: str
    left: Term
    right: Term
    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Truth(Node):
    """`true` or `false` as a constraint."""

    value: bool
    span: SourceSpan = field(compare=False, repr=False)


Literal: TypeAlias = Atom | Negation | Comparison | Truth


@dataclass(frozen=True, slots=True)
class Conjunction(Node):
    parts: tuple[Formula, ...]
    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Disjunction(Node):
    parts: tuple[Formula, ...]
    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Not(Node):
    """`!( ... )` as written; the pass `flatten` moves it inwards to atoms and comparisons."""

    part: Formula
    span: SourceSpan = field(compare=False, repr=False)


Formula: TypeAlias = Literal | Conjunction | Disjunction | Not
