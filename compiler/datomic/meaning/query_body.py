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

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from dbsp.compiler.datomic.meaning.base_relations import COLUMNS, KnownAttribute
from dbsp.compiler.datomic.meaning.bindable import binding_variables, shared_variables, variables_of
from dbsp.compiler.datomic.meaning.binding_values import binding_rows
from dbsp.compiler.datomic.meaning.draft_rules import (
    DraftAtom,
    DraftCall,
    DraftLiteral,
    DraftSeries,
    Parameter,
    variables_of_literal,
)
from dbsp.compiler.datomic.meaning.query_functions import find_function
from dbsp.compiler.datomic.meaning.renaming import every_variable, renamed
from dbsp.compiler.datomic.tree import query_tree as tree
from dbsp.diagnostics import SourceSpan
from dbsp.edn.edn_values import Keyword
from dbsp.errors import expect_present

if TYPE_CHECKING:
    from dbsp.compiler.datomic.meaning.rule_writer import RuleWriter


@dataclass(frozen=True, slots=True)
class Scope:
    """Where clauses are written: the sources that they read, and the recursion they belong to."""

    sources: Mapping[str, str]
    """The source that a name in the clauses means; `$` in a rule is the source of the call."""
    recursive: frozenset[str] = frozenset()
    """The rules that the rule of the clauses depends on and that depend on it."""


class QueryBody:
    """The literals of a rule while its clauses are added."""

    def __init__(
        self, writer: RuleWriter, head: str, literals: list[DraftLiteral], bound: set[str], scope: Scope
    ) -> None:
        self.writer = writer
        self.head = head
        self.literals = literals
        self.bound = bound
        self.scope = scope

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

    # --- patterns ---------------------------------------------------------------------------------

    def _name(self, term: tree.Term | tree.Argument) -> str | None:
        """Return the variable of a term; None for `_`."""
        if isinstance(term, tree.Variable):
            return term.name
        return self.writer.constant(term.value) if isinstance(term, tree.Constant) else None

    def _pattern(self, clause: tree.Pattern) -> None:
        source = self.scope.sources[clause.source]
        if not self.writer.catalogs[source].is_database:
            self._tuple(source, clause)
            return
        terms = dict(zip(COLUMNS, clause.terms, strict=False))
        arguments: dict[str, str] = {}
        attribute = None
        named = terms.pop("a", None)
        if isinstance(named, tree.Constant):
            attribute = self.writer.attribute(source, named)
        elif isinstance(named, tree.Variable):
            arguments["a"] = named.name
            self.writer.mark_entity(named.name)
        added = terms.pop("added", None)
        if not self.writer.catalogs[source].is_history:
            self._current(added)
            added = None
        elif isinstance(added, tree.Constant):
            arguments["added"] = self.writer.constant(int(added.value is True))
        elif added is not None:
            arguments["added"] = self.writer.new("added")
        for column, term in terms.items():
            is_ref = attribute is not None and attribute.is_ref
            if column in ("e", "tx") or (column == "v" and is_ref):
                name = self._entity(source, term)
            else:
                name = self._value(term, attribute if column == "v" else None)
            if name is not None:
                arguments[column] = name
        if isinstance(named, tree.Constant):
            self._datoms(source, named, arguments, clause.span)
        else:
            self._atom(self.writer.base_atom(source, None, arguments, clause.span))
        if isinstance(added, tree.Variable):
            self._derive("added", bool, (arguments["added"],), added.name, added.span)

    def _current(self, added: tree.Term | None) -> None:
        """Match the last term of a pattern with true: all datoms of the source are assertions."""
        if isinstance(added, tree.Variable):
            self._bind(tree.BindScalar(added, added.span), self.writer.constant(True))
        elif isinstance(added, tree.Constant):
            value = self.writer.constant(added.value)
            call = DraftCall("true?", lambda given: given is True, (value,), None, added.span, native=False)
            self.literals.append(call)

    def _datoms(
        self, source: str, name: tree.Constant, arguments: Mapping[str, str], span: SourceSpan
    ) -> None:
        for atom in self.writer.datoms(source, name, arguments, span):
            self._atom(atom)

    def _tuple(self, source: str, clause: tree.Pattern) -> None:
        """Add an atom over a collection of tuples, by the number of their items that it reads."""
        names = tuple(self._name(term) or self.writer.new("_") for term in clause.terms)
        relation = f"{source} {len(names)}"
        self.writer.draft.inputs.setdefault(
            relation, [Parameter(f"{relation} {at}") for at in range(len(names))]
        )
        self._atom(DraftAtom(relation, names, clause.span))

    def _atom(self, atom: DraftAtom) -> None:
        self.literals.append(atom)
        self.bound.update(atom.arguments)

    def _value(self, term: tree.Term, attribute: KnownAttribute | None) -> str | None:
        keyword = attribute is not None and attribute.names_keyword
        if isinstance(term, tree.Constant) and not term.quoted and keyword:
            return self.writer.constant(as_keyword(term.value))
        return self._name(term)

    def _entity(self, source: str, term: tree.Term | tree.Argument) -> str | None:
        """Return the variable of an entity; an ident or a lookup ref is found by a pattern."""
        if isinstance(term, tree.Variable):
            self.writer.mark_entity(term.name)
        if not isinstance(term, tree.Constant):
            return self._name(term)
        value = term.value if term.quoted else as_keyword(term.value)
        if isinstance(value, Keyword):
            value = (Keyword("db/ident"), value)
        if not isinstance(value, tuple):
            return self.writer.constant(value)
        named, constant = (tree.Constant(part, term.span) for part in value)
        attribute = self.writer.attribute(source, named)
        if attribute is not None and attribute.is_ref:
            looked_up = self._entity(source, constant)
        else:
            looked_up = self._value(constant, attribute)
        entity = self.writer.new("entity")
        given = {"e": entity, "v": expect_present(looked_up, "the value of a lookup ref")}
        self._datoms(source, named, given, term.span)
        return entity

    # --- calls ------------------------------------------------------------------------------------

    def _call(self, clause: tree.Predicate | tree.Function, result: str | None) -> str:
        """Add the call of a function; return the variable of its result."""
        name = clause.function.name if isinstance(clause.function, tree.Variable) else clause.function
        arguments = tuple(
            expect_present(self._name(argument), "a value as the argument of a function")
            for argument in clause.arguments
        )
        user = self.writer.functions.get(name)
        if user is not None:
            self.literals.append(
                DraftCall(name, user, arguments, result, clause.span, native=False, may_be_nil=True)
            )
        else:
            known = expect_present(find_function(name), f"the function {name}")
            self.literals.append(
                DraftCall(
                    name,
                    known.evaluate,
                    arguments,
                    result,
                    clause.span,
                    known.native,
                    known.result,
                    may_be_nil=known.result == "value",
                )
            )
        if result is not None:
            self.bound.add(result)
        return result or ""

    def _bind(self, binding: tree.Binding, value: str) -> None:
        """Match the value of a variable with a binding."""
        span = binding.span
        match binding:
            case tree.BindScalar(variable=variable):
                self._derive("identity", lambda whole: whole, (value,), variable.name, span)
            case tree.BindTuple() | tree.BindCollection() | tree.BindRelation():
                rows = self._derive("rows", partial(_rows, binding), (value,), None, span)
                size = self._derive("count", len, (rows,), None, span, gives="integer")
                at = self.writer.new("at")
                self.literals.append(DraftSeries(at, size, span))
                for column, name in enumerate(binding_variables(binding)):
                    self._derive("item", partial(_item, column), (rows, at), name, span)

    def _derive(
        self,
        name: str,
        python: Callable[..., Any],
        arguments: tuple[str, ...],
        result: str | None,
        span: SourceSpan,
        gives: str = "value",
    ) -> str:
        result = result or self.writer.new(name)
        self.literals.append(
            DraftCall(name, python, arguments, result, span, native=name == "identity", gives=gives)
        )
        self.bound.add(result)
        return result

    def _ground(self, clause: tree.Function) -> None:
        """Bind constants: they are inputs like the arguments of `:in`."""
        (argument,) = clause.arguments
        if not isinstance(argument, tree.Constant):
            self._bind(clause.binding, expect_present(self._name(argument), "a value to bind"))
            return
        self._bind(clause.binding, self.writer.constant(argument.value))

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
        name = self.scope.sources[source.name if isinstance(source, tree.SourceVariable) else "$"]
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
        return replace(literal, relation=self.writer.possible(literal.relation, self.scope.recursive))

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
        self.writer.conjunction(relation, names, clauses, kept, bound, self.scope, span)


def _restricted(literal: DraftLiteral, shared: Collection[str], new: Callable[[str], str]) -> DraftLiteral:
    """Return an atom over rows so far with new names for variables that are not shared."""
    if not isinstance(literal, DraftAtom):
        return literal
    return replace(
        literal, arguments=tuple(name if name in shared else new("_") for name in literal.arguments)
    )


def as_keyword(value: Any) -> Keyword:
    """Return a keyword; in Python data it may be a string."""
    return value if isinstance(value, Keyword) else Keyword(str(value).removeprefix(":"))


def _rows(binding: tree.Binding, value: Any) -> tuple[tuple[Any, ...], ...]:
    """Return the values of the variables of a binding, for each way to match a value."""
    return tuple(binding_rows(binding, value))


def _item(column: int, rows: tuple[tuple[Any, ...], ...], at: int) -> Any:
    return rows[at][column]
