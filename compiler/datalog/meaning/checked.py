"""The checked program: every name resolved, every term typed, every rule safe and in a stratum.

The planner and every other evaluator start from this form of a program:

- A rule has one head and a conjunction as its body. Several heads and `;` have been expanded; every
  rule keeps the position of the clause it came from.
- The order of the literals of a body has no meaning. Every variable of a rule can be bound: by a
  positive atom (an argument that is a plain variable), or by an equality `variable = term` whose
  other side is bound. Arguments of atoms may be any term; an argument that is not a variable is a
  condition on the column.
- Each `Wildcard` in a positive atom is a separate variable. In a negated atom it means "any value":
  `!r(x, _)` holds when no row of r starts with x.
- An `Aggregate` is a term. It is evaluated once per binding of its `injected` variables, which the
  rest of the rule binds; its other variables are local (renamed, so that a name has one meaning in
  a rule). It ranges over all bindings of all variables of its body, wildcards included, so
  `count : { r(_, _) }` is the number of rows of r and `sum x : { r(x, _) }` counts equal x of
  different rows. Over no binding at all, `count` is 0 and `sum` is 0; `min`, `max` and `mean` have
  no value, and the rule derives nothing for that binding.
- A call of one of `signatures.GENERATORS` has several values. Each written call is independent: the
  rule holds for every choice of a value for each of them.
- A function without a value (division by zero, text that is not a number) is an error of the tick.
  The order of the literals and such a function is unspecified, with one guarantee: the function is
  not computed for a row that another literal rejects, if that literal does not need the result and
  can be checked without a cross product.
- Facts whose arguments are literals are in `facts`; they are rows inserted in the first tick.
- `strata` has the relations that have rules, or that are more than sets of rows: equivalences,
  relations with a choice-domain, with subsumptions or with lattice columns. The others are inputs
  and have only the inserted rows.
- A `Comparison` has two sides of the same kind. Symbols compare as text. `match(p, s)`: the whole
  of s matches the regular expression p, see `regex`; if p is not a regular expression, neither
  `match` nor `!match` holds. `contains(p, s)`: p occurs in s.
- A `Construct` makes a record or a branch from its arguments. As an argument of a positive atom, or
  as a side of an equation whose other side is bound, it is also a pattern: it matches values made
  by the same constructor, and binds its arguments that are variables, wildcards or patterns to the
  parts of the value. No pattern matches nil.

Values are Python's: `number` and `unsigned` are int, `float` is float, `symbol` is str; records are
tuples, nil is None, branches are `Branch`. `signatures` describes the functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import TYPE_CHECKING

from dbsp.compiler.datalog.tree.kinds import AnyKind, FunctorSignature, Lattice, Value
from dbsp.compiler.datalog.tree.syntax import Atom, Literal, Node
from dbsp.diagnostics import Diagnostic, ProgramSources, SourceSpan
from dbsp.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from dbsp.compiler.datalog.meaning.declared_types import TypeEnvironment


@dataclass(frozen=True, slots=True)
class Attribute:
    """A column: its name, its declared type, the kind of that type, and its lattice."""

    name: str
    type_name: str
    kind: AnyKind
    lattice: Lattice | None = None


class TruthValue(StrEnum):
    """The truth values of the rows of a version (see `well_founded`)."""

    TRUE = "true"
    POSSIBLE = "possible"
    """True or undefined."""
    UNDEFINED = "undefined"


@dataclass(frozen=True, slots=True)
class Version:
    """One of the relations that hold the rows of a declared relation with these truth values."""

    relation: str
    truth: TruthValue


@dataclass(frozen=True, slots=True)
class Relation:
    """A declared relation.

    `inputs`, `outputs` and `sizes` hold the parameters of each `.input`, `.output` and `.printsize`
    directive (usually one or none of each). `magic`: whether the declaration requests or forbids to
    derive the relation on demand, None for neither; it does not change the meaning.

    - `equivalence`: the relation is the least equivalence, on the values that occur in it, that
      contains every inserted or derived row.
    - `choices`: the columns of each choice-domain; no two rows agree in all columns of one. Without
      recursion, the rows are visited in order (columns from left to right, symbols as text), and a
      row is kept if it agrees with no row kept before. In a recursion, the rows of an iteration are
      visited in that order after the rows of earlier iterations, which stay.
    - `limit`: the recursion ends with the first iteration in which the relation has this many rows.
    - `subsumed`: the relation has subsumptions, which remove rows.
    - `version`: set if rows of the declared relation may be undefined.
    - `rows_of`: an input of which the inserted rows belong to this relation, too.
    - `lattice_columns`: the inserted and derived rows that agree in all other columns are joined to
      one row, with the least upper bound of their values in each of these columns. A recursion
      starts with no row, and in each iteration applies its rules to the rows of the one before.
    """

    name: str
    attributes: tuple[Attribute, ...]
    span: SourceSpan = field(compare=False, repr=False)
    inputs: tuple[Mapping[str, str], ...] = ()
    outputs: tuple[Mapping[str, str], ...] = ()
    sizes: tuple[Mapping[str, str], ...] = ()
    equivalence: bool = False
    choices: tuple[tuple[int, ...], ...] = ()
    limit: int | None = None
    subsumed: bool = False
    magic: bool | None = field(default=None, compare=False)
    version: Version | None = None
    rows_of: str | None = None

    @property
    def arity(self) -> int:
        return len(self.attributes)

    @property
    def is_plain(self) -> bool:
        """Whether the relation has exactly the inserted and derived rows."""
        special = self.equivalence or self.choices or self.limit or self.subsumed
        return not (special or self.lattice_columns)

    @property
    def lattice_columns(self) -> tuple[int, ...]:
        """The columns with a lattice."""
        return tuple(at for at, column in enumerate(self.attributes) if column.lattice is not None)

    @property
    def declared(self) -> str:
        """The name of the declared relation of which this one is a version; else its own name."""
        return self.name if self.version is None else self.version.relation

    @property
    def given(self) -> str | None:
        """The input whose inserted rows belong to this relation, if that input exists."""
        undefined = self.version is not None and self.version.truth is TruthValue.UNDEFINED
        return self.rows_of or (None if undefined else self.declared)


@dataclass(frozen=True, slots=True)
class Rule(Node):
    """`head :- body.` `number` counts the rules of the program in source order, from 1.

    A call of `autoinc` in it, with a first number and a step as its arguments, numbers the bindings
    that satisfy the body, wildcards included: a binding gets the next of first, first + step, ...
    in the tick in which it appears and keeps it until it is retracted. Bindings that appear in one
    tick are numbered in the order of the values of their variables, as these are written in the
    rule.

    `order` has the positions of the positive atoms of the body, counted from 0, in the order in
    which a `.plan` joins them; None without a `.plan`.

    With a `dominating` row this is a subsumption: it derives no row, but removes the row of the
    head from the relation if the body holds. The first two literals of the body are the dominated
    and the dominating row. Of rows that dominate each other, the least is kept.
    """

    number: int
    head: Atom
    body: tuple[Literal, ...]
    span: SourceSpan = field(compare=False, repr=False)
    order: tuple[int, ...] | None = None
    dominating: Atom | None = None


@dataclass(frozen=True, slots=True)
class Fact:
    relation: str
    row: tuple[Value, ...]
    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Stratum:
    """Relations that are computed together.

    `recursive` is true when they depend on one another or a relation depends on itself; then
    `rules` are applied until nothing changes. Every relation that `rules` negate or aggregate over
    is in an earlier stratum, except for the monotone aggregates of `extremes`.

    `subsumptions` are those of its relations. With subsumptions, or with a choice-domain, a
    recursive stratum `accumulates`: each iteration adds, to all rows derived before, the rows that
    the rules derive from the rows kept in the last iteration. Removed rows stay known, because they
    still dominate others: subsumptions read the known rows of the relations of their stratum.

    A stratum with `halves` is recursive through negation. Its relations are versions: those of true
    rows negate those of possible rows, and the other way round. `halves` has the strata of the
    possible rows, which are complete if the true rows are, and those of the true rows.
    """

    relations: tuple[str, ...]
    rules: tuple[Rule, ...]
    recursive: bool
    subsumptions: tuple[Rule, ...] = ()
    accumulates: bool = False
    halves: tuple[tuple[Stratum, ...], tuple[Stratum, ...]] | None = None


@dataclass(frozen=True, slots=True)
class CheckedProgram:
    """A valid program. `strata` are in an order in which they can be computed.

    `inputs` names the relations that take changes from outside: those with `.input`, with facts, or
    with neither facts nor rules. An input may also have rules; it then holds both. `types` are the
    declared types and `functors` the functors of the user; the check of a question needs them.
    """

    relations: Mapping[str, Relation]
    facts: tuple[Fact, ...]
    rules: tuple[Rule, ...]
    strata: tuple[Stratum, ...]
    types: TypeEnvironment
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    sizes: tuple[str, ...]
    warnings: tuple[Diagnostic, ...] = ()
    functors: Mapping[str, FunctorSignature] = field(default_factory=dict)
    subsumptions: tuple[Rule, ...] = ()
    """Their numbers follow those of the rules."""
    sources: ProgramSources = field(default=ProgramSources({}), compare=False, repr=False)
    """The texts of the program, for messages of its runs."""

    @property
    def clauses(self) -> tuple[Rule, ...]:
        """The rules and the subsumptions: everything with a body to plan."""
        return self.rules + self.subsumptions

    @property
    def filled(self) -> frozenset[str]:
        """The relations that have the rows of an input: the inputs, and the versions of inputs."""
        return frozenset(n for n, relation in self.relations.items() if relation.given in self.inputs)

    @property
    def alternating(self) -> frozenset[str]:
        """The relations of the strata that are recursive through negation."""
        strata = (stratum for stratum in self.strata if stratum.halves is not None)
        return frozenset(name for stratum in strata for name in stratum.relations)
