"""From the clauses of a query to draft rules; `query_body` has the meaning of each clause.

constants, values of :in    variables that the relation `query` binds
collections of :in          relations of their own
rules                       relations; `rule#in` has the arguments that a rule needs bound
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from dbsp.compiler.datalog.tree.dependency_graph import DependencyGraph
from dbsp.compiler.datomic.meaning.base_relations import BaseRelation, Catalog, KnownAttribute
from dbsp.compiler.datomic.meaning.bindable import Bindings, binding_variables, variables_of
from dbsp.compiler.datomic.meaning.draft_rules import (
    DraftAtom,
    DraftLiteral,
    DraftQuery,
    DraftRule,
    Parameter,
    variables_of_literal,
)
from dbsp.compiler.datomic.meaning.entity_arguments import EntityArguments
from dbsp.compiler.datomic.meaning.possible_rows import add_possible_rules, possible_relation
from dbsp.compiler.datomic.meaning.query_body import QueryBody, Scope, as_keyword
from dbsp.compiler.datomic.meaning.renaming import every_variable, renamed
from dbsp.compiler.datomic.text.query_report import QueryReport
from dbsp.compiler.datomic.tree import query_tree as tree
from dbsp.diagnostics import SourceSpan
from dbsp.edn.edn_values import Keyword
from dbsp.errors import SchemaError

RESULT = "result"
"""The relation of the rows of a query, before aggregates: the variables of :find and :with."""


class RuleWriter:
    """Writes the draft rules of one query."""

    def __init__(
        self,
        query: tree.Query,
        rules: Sequence[tree.RuleDefinition],
        catalogs: Mapping[str, Catalog],
        functions: Mapping[str, Callable[..., Any]],
        report: QueryReport,
    ) -> None:
        self.query = query
        self.report = report
        self.catalogs = catalogs
        self.functions = functions
        """The functions of the user: by name, and by variable of `:in`."""
        self.draft = DraftQuery()
        self._rules: dict[str, list[tree.RuleDefinition]] = {}
        for definition in rules:
            self._rules.setdefault(definition.name, []).append(definition)
        self.bindings = Bindings(self._rules)
        self._components = rule_components(self._rules)
        self.entities = EntityArguments(self._rules, catalogs)
        self._numbers = count(1)
        self.single: dict[str, int] = {}
        """The variables that `query` binds, with their columns."""
        self._constants: dict[tuple[type, str], str] = {}
        self._constants_names: set[str] = set()
        self._relations: dict[tuple[str, str], str] = {}
        self._unwritten: list[tuple[str, str]] = []
        """The rules, each with a source, that are called and not written yet."""
        self._possible: dict[frozenset[str], set[str]] = {}
        """The relations whose possible rows are read, by the rules of their recursion."""

    def write(self, output: Sequence[str]) -> DraftQuery:
        """Write the rules of `result`, which has these variables as columns."""
        start: list[DraftLiteral] = []
        bound: set[str] = set()
        for number, given in enumerate(self.query.inputs):
            if isinstance(given, tree.BindingInput):
                start += self.values(given.binding, f"in{number}")
                bound.update(binding_variables(given.binding))
        scope = Scope({name: name for name in self.catalogs})
        self.conjunction(RESULT, output, self.query.where, start, bound, scope, self.query.find.span)
        while self._unwritten:
            self._write_rule(*self._unwritten.pop())
        for recursive, relations in self._possible.items():
            add_possible_rules(self.draft, sorted(relations), self.relations_of(recursive))
        return self.draft

    # --- inputs -----------------------------------------------------------------------------------

    def values(self, binding: tree.Binding, name: str) -> list[DraftLiteral]:
        """Declare the values of a binding as an input; return the atom that reads them, if any."""
        variables = [each for each in binding_variables(binding) if each not in self.functions]
        if is_single(binding):
            for variable in variables:
                self.single[variable] = len(self.draft.parameters)
                self.draft.parameters.append(Parameter(variable, source=name))
            return []
        self.draft.inputs[name] = [Parameter(variable) for variable in variables]
        return [DraftAtom(name, tuple(variables), binding.span)]

    def constant(self, value: Any) -> str:
        """Return the variable whose value is a constant."""
        key = (type(value), repr(value))
        if key not in self._constants:
            name = self._constants[key] = self.new("constant")
            self._constants_names.add(name)
            self.single[name] = len(self.draft.parameters)
            self.draft.parameters.append(Parameter(name, value, is_constant=True))
        return self._constants[key]

    def mark_entity(self, name: str) -> None:
        """Note that the values of a variable are entities: an argument may be an ident."""
        for columns in (self.draft.parameters, *self.draft.inputs.values()):
            for parameter in columns:
                if parameter.name == name:
                    parameter.entity = True

    # --- rules ------------------------------------------------------------------------------------

    def conjunction(
        self,
        head: str,
        output: Sequence[str],
        clauses: Iterable[tree.Clause],
        start: Sequence[DraftLiteral],
        bound: Iterable[str],
        scope: Scope,
        span: SourceSpan,
    ) -> None:
        """Write the rule `head(output) :- start, clauses`; the variables `bound` have values."""
        waiting = [part for clause in clauses for part in self._inlined(clause, scope)]
        used = {name for clause in waiting for name in variables_of(clause)}
        body = QueryBody(self, head, list(start), {*bound, *(used & self._constants_names)}, scope)
        while waiting:
            ready = [clause for clause in waiting if body.is_ready(clause)]
            if not ready:
                self.report.error(
                    "no other clause binds the variables that this one needs",
                    waiting[0].span,
                    code="unbound-variable",
                )
                self.report.raise_errors()
            clause = min(ready, key=_urgency)
            waiting.remove(clause)
            later = {name for part in waiting for name in variables_of(part)}
            body.add(clause, later.union(output))
        self.rule(head, output, body.literals, span)

    def rule(
        self, head: str, output: Sequence[str], literals: Sequence[DraftLiteral], span: SourceSpan
    ) -> None:
        """Add a rule; the variables that `query` binds are read from it."""
        used = {name for literal in literals for name in variables_of_literal(literal)}.union(output)
        parameters = {name: self.single[name] for name in sorted(used) if name in self.single}
        self.draft.rules.append(DraftRule(head, tuple(output), list(literals), span, parameters))
        self.draft.arity[head] = len(output)

    def new(self, hint: str) -> str:
        """Return a new name."""
        return f"{hint}#{next(self._numbers)}"

    def relation_of_rule(self, name: str, source: str) -> str:
        """Return the relation of a rule over a source."""
        key = (name, source)
        if key not in self._relations:
            relation = self._relations[key] = name if source == "$" else f"{name} {source}"
            if not self.bindings.needed_of_rule(name):
                self.draft.on_demand.add(relation)
            self._unwritten.append(key)
        return self._relations[key]

    def _write_rule(self, name: str, source: str) -> None:
        """Write the rules of the relation of a rule over a source."""
        relation = self._relations[name, source]
        needed = self.needed_of_rule(name)
        scope = Scope({**{each: each for each in self.catalogs}, "$": source}, self._components[name])
        for definition in self._rules[name]:
            # Variables of :in are not visible in a rule.
            definition = renamed(definition, {each: f"{each} {name}" for each in every_variable(definition)})
            head = [variable.name for variable in definition.head]
            given = tuple(head[at] for at in needed)
            start = [DraftAtom(self.asked(relation), given, definition.span)] if given else []
            self.conjunction(relation, head, definition.clauses, start, given, scope, definition.span)

    def possible(self, relation: str, recursive: frozenset[str]) -> str:
        """Return the relation of the possible rows of a relation that depends on a recursion."""
        self._possible.setdefault(recursive, set()).add(relation)
        return possible_relation(relation)

    def _inlined(self, clause: tree.Clause, scope: Scope) -> Iterator[tree.Clause]:
        """Yield the clauses of a rule with one definition and no recursion in place of its call.

        Its base relations are then parts of the same join.
        """
        if not isinstance(clause, tree.RuleCall):
            yield clause
            return
        definitions = self._rules[clause.name]
        here = scope.sources[clause.source] == scope.sources.get("$")
        if len(definitions) > 1 or self._components[clause.name] or not here:
            yield clause
            return
        (definition,) = definitions
        names = {name: self.new(name) for name in sorted(every_variable(definition))}
        for variable, argument in zip(definition.head, clause.arguments, strict=True):
            if isinstance(argument, tree.Variable):
                names[variable.name] = argument.name
            elif isinstance(argument, tree.Constant):
                names[variable.name] = self.constant(argument.value)
        for part in definition.clauses:
            yield from self._inlined(renamed(part, names), scope)

    def needed_of_rule(self, name: str) -> list[int]:
        """Return the positions of the arguments that a call of a rule must bind."""
        return sorted(self.bindings.needed_of_rule(name))

    def asked(self, relation: str) -> str:
        """Return the relation of the arguments that the calls of a rule bind."""
        return f"{relation}#in"

    def relations_of(self, rules: Iterable[str]) -> set[str]:
        """Return the relations of these rules over all sources."""
        names = {*rules}
        return {relation for (name, _), relation in self._relations.items() if name in names}

    # --- base relations ---------------------------------------------------------------------------

    def base_atom(
        self, source: str, attribute: KnownAttribute | None, arguments: Mapping[str, str], span: SourceSpan
    ) -> DraftAtom:
        """Return the atom over the datoms of a source; `arguments` are variables by column."""
        columns = ("e", "v") if attribute is not None else ("e", "a", "v")
        if self.catalogs[source].is_history or "added" in arguments:
            columns = (*columns, "tx", "added")
        elif "tx" in arguments:
            columns = (*columns, "tx")
        if attribute is None:
            base = BaseRelation(source, None, columns)
        else:
            base = BaseRelation(source, attribute.id, columns, kind=attribute.kind, label=attribute.name)
        names = tuple(arguments.get(column) or self.new("_") for column in columns)
        return DraftAtom(base.name, names, span, base)

    def datoms(
        self, source: str, name: tree.Constant, arguments: Mapping[str, str], span: SourceSpan
    ) -> list[DraftAtom]:
        """Return the atoms over the datoms of an attribute, given by its name.

        An attribute that the database does not have yet is looked up by its ident.
        """
        known = self.attribute(source, name)
        if known is not None:
            return [self.base_atom(source, known, arguments, span)]
        entity = arguments.get("a") or self.new("attribute")
        ident = self.attribute(source, tree.Constant(Keyword("db/ident"), span))
        named = self.base_atom(source, ident, {"e": entity, "v": self.constant(as_keyword(name.value))}, span)
        return [named, self.base_atom(source, None, {**arguments, "a": entity}, span)]

    def attribute(self, source: str, name: tree.Constant) -> KnownAttribute | None:
        """Return an attribute of a database; None if it may be defined later.

        Raises CompileError if it is unknown.
        """
        try:
            return self.catalogs[source].attribute(name.value)
        except SchemaError as error:
            message, _, hint = error.message.partition("; ")
            self.report.error(message, name.span, code=error.code or "unknown-attribute", hint=hint or None)
            self.report.raise_errors()
            raise


def is_single(binding: tree.Binding) -> bool:
    """Whether a binding has exactly one value for each of its variables."""
    match binding:
        case tree.BindTuple(parts=parts):
            return all(map(is_single, parts))
        case tree.BindCollection() | tree.BindRelation():
            return False
    return True


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


def rule_components(rules: Mapping[str, Sequence[tree.RuleDefinition]]) -> dict[str, frozenset[str]]:
    """Return, for each rule, the rules that it depends on and that depend on it."""
    graph: DependencyGraph[str] = DependencyGraph(nodes=rules)
    for name, definitions in rules.items():
        for definition in definitions:
            for called in _calls(definition.clauses):
                graph.add_edge(name, called)
    found: dict[str, frozenset[str]] = {}
    for names in graph.components():
        recursive = len(names) > 1 or all(graph.has_edge(name, name) for name in names)
        found.update(dict.fromkeys(names, frozenset(names) if recursive else frozenset()))
    return found


def _calls(clauses: Iterable[tree.Clause]) -> Iterable[str]:
    for clause in clauses:
        match clause:
            case tree.RuleCall(name=name):
                yield name
            case tree.Not(clauses=inner):
                yield from _calls(inner)
            case tree.Or(branches=branches):
                for branch in branches:
                    yield from _calls(branch)
