"""The checked program: every name resolved, every term typed, every rule safe and in a stratum.

This is the meaning of a program, and what both the planner and any other evaluator start from:

- A rule has one head and a conjunction as its body. Several heads and `;` have been expanded; every
  rule keeps the position of the clause it came from.
- The order of the literals of a body means nothing. Every variable of a rule can be bound: by a
  positive atom (an argument that is a plain variable), or by an equality `variable = term` whose
  other side is bound. Arguments of atoms may be any term; an argument that is not a variable is a
  condition on the column.
- A `Wildcard` in a positive atom is a variable of its own. In a negated atom it means "any value":
  `!r(x, _)` holds when no row of r starts with x.
- An `Aggregate` is a term. It is evaluated once per binding of its `injected` variables, which the
  rest of the rule binds; its other variables are local (renamed apart, so no name means two things
  in one rule). It ranges over all bindings of all variables of its body, wildcards included, so
  `count : { r(_, _) }` is the number of rows of r and `sum x : { r(x, _) }` counts equal x of
  different rows. Over no binding at all, `count` is 0 and `sum` is 0; `min`, `max` and `mean` have
  no value, and the rule gives nothing for that binding.
- A call of one of `signatures.GENERATORS` stands for any of several values. Each place where one is
  written counts by itself: the rule holds for every choice of a value for each of them.
- A function without a value (division by zero, text that is no number) is an error of the tick. How
  much of a body is asked before such a function is left open, except that no row is ever tried that
  a literal not needing its result rules out and that can be asked without a cross product.
- Facts whose arguments are literals are in `facts`; they are rows inserted in the first tick.
- `strata` has the relations that have rules, or that are more than sets of rows: equivalences, choices and
  those with subsumptions. The others are inputs and hold what is put in.
- A `Comparison` has two sides of the same kind. Symbols compare as text. `match(p, s)`: the whole of s
  matches the regular expression p, see `regex`; where p is none, neither `match` nor `!match` holds.
  `contains(p, s)`: p occurs in s.
- A `Construct` makes a record or a branch of its arguments. As an argument of a positive atom, or as a
  side of an equation whose other side is bound, it is also a pattern: its arguments that are variables,
  wildcards or patterns again are bound to the parts of the value, if that is made likewise; nil is made by
  nothing.

Values are Python's: `number` and `unsigned` are int, `float` is float, `symbol` is str; records are tuples,
nil is None, branches are `Branch`. What the functions do with them is written in `signatures`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dbsp.compiler.datalog.tree.kinds import AnyKind, FunctorSignature, Value
from dbsp.compiler.datalog.tree.syntax import Atom, Literal, Node
from dbsp.diagnostics import Diagnostic, ProgramSources, SourceSpan

if TYPE_CHECKING:
    from dbsp.compiler.datalog.meaning.declared_types import TypeEnvironment


@dataclass(frozen=True, slots=True)
class Attribute:
    """A column: its name, the type it was declared with, and the kind underneath."""

    name: str
    type_name: str
    kind: AnyKind


@dataclass(frozen=True, slots=True)
class Relation:
    """A declared relation.

    `inputs`, `outputs` and `sizes` hold the parameters of each `.input`, `.output` and `.printsize`
    directive (usually one or none of each). `magic` is what the declaration says of deriving the relation on
    demand, None if nothing: it changes no meaning.

    - `equivalence`: the relation is the least equivalence, on the values that occur in it, that has
      every row put in or derived.
    - `choices`: the columns of each choice-domain; no two rows agree in all columns of one. Without
      recursion rows are taken in their order (columns from left to right, symbols as text), each that
      agrees with none taken before. In a recursion, the rows of an iteration are taken in that order
      after those of the iterations before, which stay.
    - `limit`: the iterations of the recursion end with the first in which the relation has as many rows.
    - `subsumed`: there are subsumptions, which leave rows out.
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

    @property
    def arity(self) -> int:
        return len(self.attributes)

    @property
    def is_plain(self) -> bool:
        """Whether it just has the rows that are put in or derived."""
        return not (self.equivalence or self.choices or self.limit or self.subsumed)


@dataclass(frozen=True, slots=True)
class Rule(Node):
    """`head :- body.` `number` counts the rules of the program in source order, from 1.

    A call of `autoinc` in it, with a first number and a step as its arguments, numbers the ways to satisfy
    the body, wildcards included: a way gets the next of first, first + step, ... in the tick in which it
    comes and keeps it until it goes. Ways that come in one tick are numbered by the values of the variables
    in the order in which these stand in the rule.

    `order` has the places of the positive atoms of the body, counted from 0, in the order in which
    they are to be joined, if the program asks for one.

    With a `dominating` row this is a subsumption: no row is derived, but the row of the head is left out
    of the relation if the body holds. The first two literals of the body are the dominated and the
    dominating row. Of rows that dominate each other the least is kept.
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
    `rules` are to be applied until nothing changes. Everything negated or aggregated over in
    `rules` lies in an earlier stratum, but for what gets better in a recursion (see `extremes`).

    `subsumptions` are those of its relations. With any, or with a choice-domain, a recursive stratum
    `accumulates`: each iteration adds, to all rows derived before, what rules derive from the rows that are
    left in the last one; rows that are left out stay known, for they still dominate others, and it is
    known rows that subsumptions read of the relations of their stratum.
    """

    relations: tuple[str, ...]
    rules: tuple[Rule, ...]
    recursive: bool
    subsumptions: tuple[Rule, ...] = ()
    accumulates: bool = False


@dataclass(frozen=True, slots=True)
class CheckedProgram:
    """A program that means something. `strata` are in an order in which they can be computed.

    `inputs` names the relations that take changes from outside: those with `.input`, with facts, or
    with neither facts nor rules. An input may also have rules; it then holds both. `types` are those
    declared, and `functors` those of the user's, for whoever checks a question about the program.
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
    """They are numbered after the rules."""
    sources: ProgramSources = field(default=ProgramSources({}), compare=False, repr=False)
    """The texts of the program, for messages of its runs."""

    @property
    def clauses(self) -> tuple[Rule, ...]:
        """The rules and the subsumptions: all that has a body to be planned."""
        return self.rules + self.subsumptions
