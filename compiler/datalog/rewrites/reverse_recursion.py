"""reverse_recursion: follow a right-linear recursion on demand from its demanded values.

    anc(a, p) :- anc#demand(p), adv(a, p).               anc(a, p) :- anc#demand(p), adv(a, p).
    anc(a, p) :- anc#demand(p), adv(x, p), anc(a, x).    anc(a, p0) :- anc(p, p0), adv(a, p).
    anc#demand(p) :- start(p).                           anc#demand(p) :- start(p).
    anc#demand(x) :- anc#demand(p), adv(x, p).

On the left, every ancestor of a start is demanded, and so are all ancestors of each of them: the
pairs among the ancestors. On the right, the ancestors of the starts are derived, and nothing else.

A rule of the recursion demands the rows `r(F, B')` for the row `r(F, B)`: from one value to the
next by a *step*, while the free arguments F are passed on unchanged. The other rules are the
*bases*. If every base is also a step, from B to F, the relation itself has the values that can be
reached, as above. Otherwise another relation has them:

    r(f, b) :- r#demand(b), base(f, b).              r#reach(b, b) :- r#demand(b).
    r(f, b) :- r#demand(b), step(b, c), r(f, c).     r#reach(s, c) :- r#reach(s, b), step(b, c).
                                                     r(f, s) :- r#reach(s, b), base(f, b).

It has a row for each start and each value that the start reaches, which can be more than the rows
of r: there is one root for each node of a tree, but many nodes between them. So this form is used
only if r derives as many rows, because each step is also a base, or if there are few starts: the
demand comes from constants and from inputs of one row (`CompileOptions.single`).

The relation must have no facts, and its rules no `.plan`. A rule of the recursion has one atom of
the relation; the free arguments are distinct variables that the rest of the rule does not use; the
rest cannot fail, because it is now evaluated for values without rows of r, too. No other relation
may depend on r and r on it. The demand of other relations may follow from that of r, but not from
its rows. It then follows from the reached values, unless that makes the program unstratifiable.

Sources: Naughton, Ramakrishnan, Sagiv, Ullman, "Efficient evaluation of right-, left-, and
multi-linear rules", SIGMOD 1989, and "Argument reduction by factoring", VLDB 1989.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.dependencies import dependencies, reads_any, uses
from dbsp.compiler.datalog.meaning.show import show_rule
from dbsp.compiler.datalog.rewrites.demand import demand_name
from dbsp.compiler.datalog.rewrites.new_names import new_names, new_variables
from dbsp.compiler.datalog.rewrites.plain import recursive_groups
from dbsp.compiler.datalog.rewrites.simple_terms import is_total
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.dependency_graph import DependencyGraph
from dbsp.compiler.datalog.tree.traversal import find, rename, variables
from dbsp.lazy_dataclass import dataclass

FEW_RULES = 8
"""The number of rules that demand a start each, up to which the starts are few."""

Terms: TypeAlias = tuple[syntax.Term, ...]
Pattern: TypeAlias = tuple[tuple[syntax.Node, ...], ...]


def reverse_recursion(
    program: checked.CheckedProgram, single: Collection[str], changes: list[str]
) -> checked.CheckedProgram:
    """Return the program with the recursions on demand reversed for which this is possible.

    `single` are the inputs of at most one row.
    """
    for name in _recursive_alone(program):
        recursion = _recursion(program, name)
        found = None if recursion is None else _reversed(program, recursion, single)
        if recursion is None or found is None:
            continue
        old, program = {rule.number: rule for rule in program.rules}, found
        columns = ", ".join(recursion.relation.attributes[column].name for column in recursion.pairs.starts)
        changes.append(f"{name}: the recursion starts from the needed values of {columns}")
        changes.extend(
            f"  {show_rule(rule)} (rule {rule.number} at {rule.span})"
            for rule in program.rules
            if rule != old.get(rule.number)
        )
    return program


# --- the shape of a recursion ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Way:
    """A rule `r(F, B) :- r#demand(B), rest`, or `r(F, B) :- r#demand(B), rest, r(F, B')`.

    The rest leads `from_` B `to` F, or to B'.
    """

    rule: checked.Rule
    from_: Terms
    to: Terms
    rest: tuple[syntax.Literal, ...]

    @property
    def pattern(self) -> Pattern:
        """The way with variables named by the order of their first use, to compare ways."""
        parts = (*self.from_, *self.to, *self.rest)
        names = dict.fromkeys(variable.name for part in parts for variable in find(part, syntax.Variable))
        numbered = {name: f"#{number}" for number, name in enumerate(names)}

        def renamed(nodes: Iterable[syntax.Node]) -> tuple[syntax.Node, ...]:
            return tuple(rename(node, numbered) for node in nodes)

        return renamed(self.from_), renamed(self.to), renamed(self.rest)


@dataclass(frozen=True, slots=True)
class Pairs:
    """A relation whose columns are divided in those of a start and of an end."""

    relation: checked.Relation
    starts: tuple[int, ...]
    ends: tuple[int, ...]

    def row(self, start: Terms, end: Terms, at: syntax.Atom) -> syntax.Atom:
        """Return the atom of this start and end."""
        terms = dict(zip((*self.starts, *self.ends), (*start, *end), strict=True))
        arguments = tuple(terms[column] for column in range(self.relation.arity))
        return replace(at, relation=self.relation.name, arguments=arguments)

    def start(self, rule: checked.Rule) -> Terms:
        """Return a variable for each column of the start that the rule does not use."""
        return new_variables([self.relation.attributes[column] for column in self.starts], rule)

    def any_start(self, at: syntax.Atom) -> Terms:
        return tuple(
            syntax.Wildcard(at.span, self.relation.attributes[column].kind) for column in self.starts
        )


@dataclass(frozen=True, slots=True)
class Recursion:
    """A right-linear recursion: the relation as pairs of B and F, and its rules."""

    pairs: Pairs
    bases: tuple[Way, ...]
    steps: tuple[Way, ...]

    @property
    def relation(self) -> checked.Relation:
        return self.pairs.relation


def _recursive_alone(program: checked.CheckedProgram) -> list[str]:
    """Return the relations on demand that depend on themselves, but not through other relations.

    A demand depends on the users of its relation, and is not counted here.
    """
    demands = {
        name: demand_name(name) for name in program.relations if demand_name(name) in program.relations
    }
    if not demands:
        return []
    hidden = set(demands.values())

    def is_hidden(literal: syntax.Literal) -> bool:
        return isinstance(literal, syntax.Atom) and literal.relation in hidden

    rules = tuple(
        replace(rule, body=tuple(literal for literal in rule.body if not is_hidden(literal)))
        for rule in program.rules
        if rule.head.relation not in hidden
    )
    groups = recursive_groups(replace(program, rules=rules))
    sizes = Counter(groups.values())
    return [name for name in demands if name in groups and sizes[groups[name]] == 1]


def _recursion(program: checked.CheckedProgram, name: str) -> Recursion | None:
    """Return the columns and rules of a relation; None if they have another form."""
    if name in program.filled:
        return None
    relation = program.relations[name]
    names = [attribute.name for attribute in relation.attributes]
    bound = tuple(names.index(column.name) for column in program.relations[demand_name(name)].attributes)
    free = tuple(column for column in range(relation.arity) if column not in bound)
    bases: list[Way] = []
    steps: list[Way] = []
    for rule in program.rules:
        if rule.head.relation == name:
            way = _way(rule, bound, free)
            if way is None:
                return None
            (steps if reads_any(rule, {name}) else bases).append(way)
    return Recursion(Pairs(relation, bound, free), tuple(bases), tuple(steps))


def _way(rule: checked.Rule, bound: Sequence[int], free: Sequence[int]) -> Way | None:
    """Return a rule as a way; None if it has another form."""
    name = rule.head.relation
    from_ = tuple(rule.head.arguments[column] for column in bound)
    to = tuple(rule.head.arguments[column] for column in free)
    guard, *rest = rule.body
    # A rule of which the atom has the demanded values of the head has no guard.
    if not _is_atom(guard, demand_name(name)) or rule.order is not None:
        return None
    used = [atom for atom in uses(rule) if atom.relation == name]
    if not used:
        return Way(rule, from_, to, tuple(rest))
    atoms = [literal for literal in rest if _is_atom(literal, name)]
    if len(used) > 1 or not atoms:
        return None
    (atom,) = used
    others = tuple(literal for literal in rest if literal is not atom)
    onwards = tuple(atom.arguments[column] for column in bound)
    passed = [term.name for term in to if isinstance(term, syntax.Variable)]
    elsewhere = frozenset().union(*map(variables, (*from_, *onwards, *others)))
    if (
        tuple(atom.arguments[column] for column in free) != to
        or len({*passed}) < len(to)
        or not elsewhere.isdisjoint(passed)
        or not all(map(is_total, others))
    ):
        return None
    return Way(rule, from_, onwards, others)


def _is_atom(literal: syntax.Literal, relation: str) -> bool:
    return isinstance(literal, syntax.Atom) and literal.relation == relation


# --- the reversed recursion -----------------------------------------------------------------------


def _reversed(
    program: checked.CheckedProgram, recursion: Recursion, single: Collection[str]
) -> checked.CheckedProgram | None:
    """Return the program with the reversed recursion; None if it may be wrong or cost more."""
    name, demand = recursion.relation.name, demand_name(recursion.relation.name)
    kept = [rule for rule in program.rules if rule.head.relation != demand or not reads_any(rule, {demand})]
    followers = [rule for rule in kept if rule.head.relation != name and reads_any(rule, {demand})]
    if any(reads_any(rule, {name}) for rule in followers):
        return None
    bases = {way.pattern for way in recursion.bases}
    steps = {way.pattern for way in recursion.steps}
    changed: list[checked.Rule] = []
    added: list[checked.Rule] = []
    if bases == steps:
        reach = recursion.pairs
        added += (_after(rule, demand, reach) for rule in followers)
    elif steps <= bases or _has_few_starts(kept, demand, single):
        reach = _reach(recursion)
        changed += (_from_reach(way, recursion.pairs, reach) for way in recursion.bases)
        changed += (_after(rule, demand, reach) for rule in followers)
        added.append(_first(recursion, reach))
    else:
        return None
    changed += (_next(way, reach) for way in recursion.steps)
    new = {rule.number: rule for rule in changed}
    last = max(rule.number for rule in program.clauses)
    rules = (
        *(new.get(rule.number, rule) for rule in kept),
        *(replace(rule, number=last + place) for place, rule in enumerate(added, 1)),
    )
    if not _is_stratified(rules, {name, demand, reach.relation.name}):
        return None
    relations = {**program.relations, reach.relation.name: reach.relation}
    return replace(program, rules=rules, relations=relations)


def _has_few_starts(rules: Iterable[checked.Rule], demand: str, single: Collection[str]) -> bool:
    """Whether all rules of a demand have one binding at most."""
    own = [rule for rule in rules if rule.head.relation == demand]
    return len(own) <= FEW_RULES and all(atom.relation in single for rule in own for atom in uses(rule))


def _is_stratified(rules: Iterable[checked.Rule], names: Collection[str]) -> bool:
    """Whether these relations depend on no relation that is negated or aggregated over in a
    cycle."""
    found = [use for rule in rules for use in dependencies(rule)]
    graph = DependencyGraph((use.used, use.user) for use in found)
    cycles = [group for group in graph.components() if not group.isdisjoint(names)]
    return not any(use.how and use.used in group and use.user in group for use in found for group in cycles)


def _reach(recursion: Recursion) -> Pairs:
    """Return a relation of the starts and of the values that they reach."""
    relation = recursion.relation
    ends = [relation.attributes[column] for column in recursion.pairs.starts]
    names = new_names(ends, {attribute.name for attribute in ends})
    starts = [replace(attribute, name=name) for name, attribute in zip(names, ends, strict=True)]
    found = checked.Relation(f"{relation.name}#reach", (*starts, *ends), relation.span)
    columns = tuple(range(found.arity))
    return Pairs(found, columns[: len(starts)], columns[len(starts) :])


def _first(recursion: Recursion, reach: Pairs) -> checked.Rule:
    """Return `r#reach(B, B) :- r#demand(B)`."""
    span = recursion.relation.span
    attributes = [recursion.relation.attributes[column] for column in recursion.pairs.starts]
    start = tuple(syntax.Variable(attribute.name, span, attribute.kind) for attribute in attributes)
    guard = syntax.Atom(demand_name(recursion.relation.name), start, span, span)
    return checked.Rule(0, reach.row(start, start, guard), (guard,), span)


def _next(step: Way, reach: Pairs) -> checked.Rule:
    """Return `r#reach(B0, B') :- r#reach(B0, B), step`."""
    rule, start = step.rule, reach.start(step.rule)
    body = (reach.row(start, step.from_, rule.head), *step.rest)
    return replace(rule, head=reach.row(start, step.to, rule.head), body=body)


def _from_reach(base: Way, pairs: Pairs, reach: Pairs) -> checked.Rule:
    """Return `r(F, B0) :- r#reach(B0, B), base`."""
    rule, start = base.rule, pairs.start(base.rule)
    body = (reach.row(start, base.from_, rule.head), *base.rest)
    return replace(rule, head=pairs.row(start, base.to, rule.head), body=body)


def _after(rule: checked.Rule, demand: str, reach: Pairs) -> checked.Rule:
    """Return a rule that follows from the demand of B, for `r#reach(_, B)`."""
    body = tuple(
        reach.row(reach.any_start(literal), literal.arguments, literal)
        if isinstance(literal, syntax.Atom) and literal.relation == demand
        else literal
        for literal in rule.body
    )
    return replace(rule, body=body)
