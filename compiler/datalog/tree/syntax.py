"""The terms and formulas of a program, as parsed and as checked.

Nodes are frozen and compare without their positions, so two trees are equal when the same program
was written with other white space.

In a parsed program names are as written, nothing is looked up and terms have no kind (`UNTYPED`)
unless their form says it. In a checked program every term has its kind, and there are no
`NumberLiteral`, `Conjunction`, `Disjunction` and `Not`; `meaning.checked` says what the nodes mean.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias, cast

from dbsp.compiler.datalog.tree.kinds import UNTYPED, AnyKind, FunctorSignature, Value
from dbsp.diagnostics import SourceSpan


class Node:
    """A term, a formula, or what consists of them: see `traversal`."""

    __slots__ = ()


# --- terms -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Variable(Node):
    """A named variable: `x`, `_ignored`."""

    name: str
    span: SourceSpan = field(compare=False, repr=False)
    kind: AnyKind = UNTYPED


@dataclass(frozen=True, slots=True)
class Wildcard(Node):
    """The anonymous variable `_`; every one stands for itself."""

    span: SourceSpan = field(compare=False, repr=False)
    kind: AnyKind = UNTYPED


@dataclass(frozen=True, slots=True)
class NumberLiteral(Node):
    """An integer literal. Without a suffix it may become a number, an unsigned or a float."""

    value: int
    unsigned: bool
    span: SourceSpan = field(compare=False, repr=False)
    kind: AnyKind = UNTYPED


@dataclass(frozen=True, slots=True)
class Constant(Node):
    """A value of a known kind: a literal of a float or a string, after inference any other."""

    value: Value
    span: SourceSpan = field(compare=False, repr=False)
    kind: AnyKind


@dataclass(frozen=True, slots=True)
class Name:
    """A name that is written by itself, such as that of a type."""

    text: str
    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Call(Node):
    """A functor applied to arguments; operators are functors named by their sign (`-` may be unary).

    The functions are those of `meaning.signatures`. The name of a user's functor begins with `@`,
    and inference fills in its `functor`. `as(x, T)` has one argument, and T as its `target`; inference
    replaces it by another function.

    With a `word` of 32 bits ints wrap in it, see `word_size`; the function `wrap`, which no program
    has, then makes a word of the value of an aggregate.
    """

    function: str
    arguments: tuple[Term, ...]
    span: SourceSpan = field(compare=False, repr=False)
    kind: AnyKind = UNTYPED
    target: Name | None = None
    functor: FunctorSignature | None = None
    word: int = 64
    written: SourceSpan | None = field(default=None, compare=False, repr=False)
    """Where the call was written, if it replaced a variable; `span` is then the place of the variable."""


@dataclass(frozen=True, slots=True)
class Construct(Call):
    """`[a, b]`, `nil` or `$Branch(a, b)`; the function is `[]`, `nil` or `$Branch`.

    In an atom of a body, or on a side of `=`, it also takes a value apart and binds its variables.
    """

    @property
    def constructor(self) -> str:
        """The constructor as the structure names it: a record's has no name."""
        return self.function[1:] if self.function.startswith("$") else ""


@dataclass(frozen=True, slots=True)
class Part(Call):
    """A part of the only argument, if that is made by this constructor. For plans, no program has it.

    The function is `part`, and `position` the place of the part; or `made`, without a position, and
    the value says whether it is made so.
    """

    constructor: str = ""
    position: int | None = None


@dataclass(frozen=True, slots=True)
class Aggregate(Node):
    """`sum e : { body }`: count, sum, min, max or mean; `value` is the expression, None for `count`.

    The formulas of the body must all hold. `injected` names the variables that the rest of the rule
    binds; the pass `localise` fills it in and renames all others apart.
    """

    function: str
    value: Term | None
    body: tuple[Formula, ...]
    span: SourceSpan = field(compare=False, repr=False)
    injected: tuple[str, ...] = ()
    kind: AnyKind = UNTYPED

    @property
    def literals(self) -> tuple[Literal, ...]:
        """The body, when the pass `expand` has left nothing but literals in it."""
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
    """`left operator right` by one of `= != < <= > >=`; or `match(left, right)`, `contains(left, right)`.

    Among normalised literals the operator may also be `in`: the left side is one of the values of
    the right.
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
    """`!( ... )` as written; the pass `expand` drives it down to atoms and comparisons."""

    part: Formula
    span: SourceSpan = field(compare=False, repr=False)


Formula: TypeAlias = Literal | Conjunction | Disjunction | Not
