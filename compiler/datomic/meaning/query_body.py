"""The clauses of a conjunction, one after the other, to the literals of a draft rule.

    pattern                    an atom over a base relation
    (rule ?x ?y)               an atom over the relation of the rule
    (or a b)                   an atom over a relation with one rule for each branch
    (not a b)                  a negated atom over a relation that starts from the rows so far
    [(f ?x) ?y]                a call; a binding takes its result apart
    [(get-else $ ?e :a d) ?x]  an atom over a relation with two rules, one of them negated

The rows so far are a relation that the parts of the query that depend on them read. So the size of
every derived relation follows the query, not the database: nothing is derived without the row of
`query`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from dbsp.compiler.datomic.meaning.bindable import shared_variables, variables_of
from dbsp.compiler.datomic.meaning.clause_literals import ClauseLiterals, Scope
from dbsp.compiler.datomic.meaning.draft_rules import DraftAtom, DraftLiteral, variables_of_literal
from dbsp.compiler.datomic.meaning.draft_writer import DraftWriter
from dbsp.compiler.datomic.meaning.renaming import every_variable, renamed
from dbsp.compiler.datomic.tree import query_tree as tree
from dbsp.diagnostics import SourceSpan
from dbsp.errors import expect_present


class QueryBody(ClauseLiterals):
    """The literals of a rule while its clauses are added."""

    def is_ready(self, clause: tree.Clause) -> bool:
        """Whether all variables that a clause needs are bound."""
        return self.bound.issuperset(self.writer.bindings.required(clause))

    def add(self, clause: tree.Clause, later: Collection[str]) -> None:
        """Add a clause; `later` are the variables that are used after it."""
        match clause:
            case tree.Pattern():
                self._pattern(clause)
            case tree.Function(function="get-else"):
                self._get_else(clause, later)
            case tree.Function(function="get-some"):
                self._get_some(clause, later)
            case tree.Predicate(function="missing?"):
                self._missing(clause, later)
            case tree.Function(function="ground"):
                self._ground(clause)
            case tree.Function():
                self._bind(clause.binding, self._call(clause, self.writer.new("value")))
            case tree.Predicate():
                self._call(clause, None)
            case tree.RuleCall():
                self._rule(clause, later)
            case tree.Or():
                self._or(clause, later)
            case tree.Not():
                self._not(clause, later)

    # --- functions of a source --------------------------------------------------------------------

    def _get_else(self, clause: tree.Function, later: Collection[str]) -> None:
        source, (entity, attribute, default) = self._source(clause.arguments)
        start, without = self._starts(entity, clause, later)
        value = self.writer.new("value")
        relation = self.writer.new("get-else")
        found = self.writer.datoms(source, attribute, {"e": entity, "v": value}, clause.span)
        self.writer.rule(relation, (entity, value), [start, *found], clause.span)
        absent = self._absent(source, attribute, entity, without, clause.span)
        known = self.writer.attribute(source, attribute)
        other = expect_present(self._value(default, known), "the default of get-else")
        self.writer.rule(relation, (entity, other), [start, absent], clause.span)
        self._atom(DraftAtom(relation, (entity, value), clause.span))
        self._bind(clause.binding, value)

    def _get_some(self, clause: tree.Function, later: Collection[str]) -> None:
        """Bind the first attribute that the entity has, and its value, as a vector."""
        source, (entity, *attributes) = self._source(clause.arguments)
        start, without = self._starts(entity, clause, later)
        relation = self.writer.new("get-some")
        missing: list[DraftLiteral] = []
        name, value = self.writer.new("attribute"), self.writer.new("value")
        for attribute in attributes:
            known = self.writer.attribute(source, attribute)
            chosen = self.writer.new("attribute") if known is None else self.writer.constant(known.id)
            found = self.writer.datoms(source, attribute, {"e": entity, "a": chosen, "v": value}, clause.span)
            self.writer.rule(relation, (entity, chosen, value), [start, *found, *missing], clause.span)
            if attribute is not attributes[-1]:
                missing.append(self._absent(source, attribute, entity, without, clause.span))
        self._atom(DraftAtom(relation, (entity, name, value), clause.span))
        self._bind(
            clause.binding, self._derive("vector", lambda *parts: parts, (name, value), None, clause.span)
        )

    def _starts(
        self, entity: str, clause: tree.Function, later: Collection[str]
    ) -> tuple[DraftAtom, list[DraftLiteral]]:
        """Return what the parts that read an attribute start from: the rows so far, and what a
        negated part starts from."""
        used = {*later, entity, *variables_of(clause)}
        without = self._start([entity], used, clause.span)
        return self._stage(used, clause.span), without

    def _missing(self, clause: tree.Predicate, later: Collection[str]) -> None:
        source, (entity, attribute) = self._source(clause.arguments)
        start = self._start([entity], {*later, entity, *variables_of(clause)}, clause.span)
        self.literals.append(self._absent(source, attribute, entity, start, clause.span))

    def _source(self, arguments: Sequence[tree.Argument]) -> tuple[str, list[Any]]:
        """Return the source and the other arguments; the entity as a variable."""
        source, entity, *others = arguments
        written = source.name if isinstance(source, tree.SourceVariable) else "$"
        name = self.scope.sources[written]
        if not self.writer.catalogs[name].is_database:
            raise self._refused(
                f"expected a database as the source {written}, got the collection of tuples {name}"
                if written != name
                else f"expected a database as the source {written}, got a collection of tuples",
                source.span,
                "wrong-function-argument",
                "a pattern reads a collection of tuples: [$tuples ?x ?y]",
            )
        return name, [expect_present(self._entity(name, entity), "an entity"), *others]

    def _absent(
        self,
        source: str,
        attribute: tree.Constant,
        entity: str,
        start: Sequence[DraftLiteral],
        span: SourceSpan,
    ) -> DraftAtom:
        """Return the literal that an entity has no value of an attribute."""
        relation = self.writer.new("has")
        found = self.writer.datoms(source, attribute, {"e": entity}, span)
        self.writer.rule(relation, (entity,), [*start, *found], span)
        return DraftAtom(relation, (entity,), span, negated=True)

    # --- rows so far ------------------------------------------------------------------------------

    def _stage(self, used: Collection[str], span: SourceSpan) -> DraftAtom:
        """Make the rows so far a relation, and return the atom that the body continues with."""
        names = tuple(sorted(name for name in self.bound if name in used and name not in self.writer.single))
        if len(self.literals) == 1:
            (first,) = self.literals
            if isinstance(first, DraftAtom) and first.base is None and {*first.arguments} == {*names}:
                return first
        atom = self._derived(names, self.literals, span)
        self.literals = [atom]
        return atom

    def _derived(
        self, names: tuple[str, ...], literals: Sequence[DraftLiteral], span: SourceSpan
    ) -> DraftAtom:
        relation = self.writer.new(self.head.partition("#")[0])
        self.writer.rule(relation, names, literals, span)
        return DraftAtom(relation, names, span)

    def _start(
        self, names: Iterable[str], used: Collection[str], span: SourceSpan, needed: Collection[str] = ()
    ) -> list[DraftLiteral]:
        """Return what a negated part starts from: the values of variables in the rows so far.

        In a recursion the rows so far cannot be read if they depend on the recursion, since the
        negation would depend on itself. The other literals then provide the values that they bind.
        Possible rows of the recursion provide the others, if one of them is `needed`.
        """
        if not any(map(self._is_recursive, self.literals)):
            return [self._stage({*used, *names}, span)]
        positive = [
            literal for literal in self.literals if not isinstance(literal, DraftAtom) or not literal.negated
        ]
        atoms = [
            literal
            for literal in positive
            if isinstance(literal, DraftAtom) and not self._is_recursive(literal)
        ]
        wanted = {name for name in names if name not in self.writer.single}
        bound = {name for atom in atoms for name in atom.arguments}
        if not wanted.intersection(needed) <= bound:
            return [self._derived(tuple(sorted(wanted)), [*map(self._possible, positive)], span)]
        given = tuple(sorted(wanted & bound))
        return [self._derived(given, atoms, span)] if given else []

    def _possible(self, literal: DraftLiteral) -> DraftLiteral:
        if not isinstance(literal, DraftAtom) or not self._is_recursive(literal):
            return literal
        return replace(literal, relation=self.writer.possible_rows(literal.relation, self.scope.recursive))

    def _is_recursive(self, literal: DraftLiteral) -> bool:
        """Whether a literal depends on the recursion that contains the rule."""
        if not self.scope.recursive or not isinstance(literal, DraftAtom) or literal.base is not None:
            return False
        relations = self.writer.relations_of(self.scope.recursive)
        seen = {literal.relation}
        waiting = [literal.relation]
        while waiting:
            name = waiting.pop()
            if name in relations:
                return True
            for rule in self.writer.draft.rules:
                if rule.head == name:
                    read = {part.relation for part in rule.body if isinstance(part, DraftAtom)} - seen
                    seen |= read
                    waiting += read
        return False

    # --- composite clauses ------------------------------------------------------------------------

    def inlined(self, clause: tree.Clause) -> list[tree.Clause]:
        """Return the clauses of a rule in place of its call, if it is one of the inlined rules.

        Its base relations are then parts of the same join.
        """
        found: list[tree.Clause] = []
        waiting = [clause]
        while waiting:
            clause = waiting.pop()
            if not isinstance(clause, tree.RuleCall) or clause.name not in self.writer.inlined:
                found.append(clause)
                continue
            source = self.scope.sources[clause.source]
            if source != self.scope.sources.get("$"):
                found.append(clause)  # `$` in the rule is another source
                continue
            (definition,) = self.writer.rules[clause.name]
            entities = self.writer.entities.of_rule(clause.name, source)
            names = {name: self.writer.new(name) for name in sorted(every_variable(definition))}
            for at, (variable, argument) in enumerate(zip(definition.head, clause.arguments, strict=True)):
                name = self._entity(source, argument) if at in entities else self._name(argument)
                names[variable.name] = name or names[variable.name]
            waiting += [renamed(part, names) for part in reversed(definition.clauses)]
        return found

    def _rule(self, clause: tree.RuleCall, later: Collection[str]) -> None:
        source = self.scope.sources[clause.source]
        entities = self.writer.entities.of_rule(clause.name, source)
        names = tuple(
            (self._entity(source, argument) if at in entities else self._name(argument))
            or self.writer.new("_")
            for at, argument in enumerate(clause.arguments)
        )
        relation = self.writer.relation_of_rule(clause.name, source)
        needed = self.writer.needed_of_rule(clause.name)
        if needed:
            self._stage({*later, *names}, clause.span)
            self.writer.rule(
                self.writer.asked(relation), [names[at] for at in needed], self.literals, clause.span
            )
        self._atom(DraftAtom(relation, names, clause.span))

    def _or(self, clause: tree.Or, later: Collection[str]) -> None:
        names = tuple(dict.fromkeys(shared_variables(clause)))
        needed = self.writer.bindings.required(clause)
        relation = self.writer.new("or")
        start: list[DraftLiteral] = []
        if needed:
            start = [self._stage({*later, *names}, clause.span)]
        else:
            self.writer.draft.on_demand.add(relation)
        for branch in clause.branches:
            self._inner(relation, names, branch, start, clause.span)
        self._atom(DraftAtom(relation, names, clause.span))

    def _not(self, clause: tree.Not, later: Collection[str]) -> None:
        inner = {name for part in clause.clauses for name in variables_of(part)}
        shared = inner if clause.variables is None else {variable.name for variable in clause.variables}
        shared &= self.bound
        names = tuple(sorted(name for name in shared if name not in self.writer.single))
        needed = self.writer.bindings.missing(clause.clauses, shared)
        start = self._start(names, later, clause.span, needed)
        relation = self.writer.new("not")
        self._inner(relation, names, clause.clauses, start, clause.span, shared)
        self.literals.append(DraftAtom(relation, names, clause.span, negated=True))

    def _inner(
        self,
        relation: str,
        names: tuple[str, ...],
        clauses: tuple[tree.Clause, ...],
        start: Sequence[DraftLiteral],
        span: SourceSpan,
        shared: Collection[str] | None = None,
    ) -> None:
        """Write the rule of a composite clause; variables that it does not share are its own."""
        shared = {*names} if shared is None else {*shared}
        own = every_variable(clauses) - shared
        clauses = renamed(clauses, {name: self.writer.new(name) for name in sorted(own)})
        given = {name for literal in start for name in variables_of_literal(literal)} & shared
        kept = [_restricted(literal, shared, self.writer.new) for literal in start]
        bound = given | {name for name in shared if name in self.writer.single}
        write_conjunction(self.writer, relation, names, clauses, kept, bound, self.scope, span)


def _restricted(literal: DraftLiteral, shared: Collection[str], new: Callable[[str], str]) -> DraftLiteral:
    """Return an atom over rows so far with new names for variables that are not shared."""
    if not isinstance(literal, DraftAtom):
        return literal
    return replace(
        literal, arguments=tuple(name if name in shared else new("_") for name in literal.arguments)
    )


def write_conjunction(
    writer: DraftWriter,
    head: str,
    output: Sequence[str],
    clauses: Iterable[tree.Clause],
    start: Sequence[DraftLiteral],
    bound: Iterable[str],
    scope: Scope,
    span: SourceSpan,
) -> None:
    """Write the rule `head(output) :- start, clauses`; the variables `bound` have values."""
    body = QueryBody(writer, head, list(start), {*bound}, scope)
    waiting = [part for clause in clauses for part in body.inlined(clause)]
    used = {name for clause in waiting for name in variables_of(clause)}
    body.bound |= used & writer.constants
    while waiting:
        ready = [clause for clause in waiting if body.is_ready(clause)]
        if not ready:
            writer.report.error(
                "no other clause binds the variables that this one needs",
                waiting[0].span,
                code="unbound-variable",
            )
            writer.report.raise_errors()
        clause = min(ready, key=_urgency)
        waiting.remove(clause)
        later = {name for part in waiting for name in variables_of(part)}
        body.add(clause, later.union(output))
    writer.rule(head, output, body.literals, span)


def _urgency(clause: tree.Clause) -> int:
    """Order clauses: those that bind variables first, those that read the rows so far last."""
    match clause:
        case tree.Pattern() | tree.RuleCall():
            return 0
        case tree.Function(function="get-else" | "get-some") | tree.Predicate(function="missing?"):
            return 3
        case tree.Function() | tree.Predicate():
            return 1
        case tree.Or():
            return 2
    return 4
