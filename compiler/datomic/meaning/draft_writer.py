"""What all rules of a draft share: names, constants, relations of rules and of sources."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Any

from dbsp.compiler.datomic.meaning.base_relations import BaseRelation, Catalog, KnownAttribute
from dbsp.compiler.datomic.meaning.bindable import Bindings
from dbsp.compiler.datomic.meaning.called_rules import inlined_rules, rule_components
from dbsp.compiler.datomic.meaning.clause_variables import definitions_of
from dbsp.compiler.datomic.meaning.draft_rules import (
    QUERY,
    RESULT,
    DraftAtom,
    DraftLiteral,
    DraftQuery,
    DraftRule,
    Parameter,
    variables_of_literal,
)
from dbsp.compiler.datomic.meaning.entity_arguments import EntityArguments
from dbsp.compiler.datomic.meaning.possible_rows import possible_relation
from dbsp.compiler.datomic.text.query_report import QueryReport
from dbsp.compiler.datomic.tree import query_tree as tree
from dbsp.diagnostics import SourceSpan
from dbsp.edn.edn_values import Keyword
from dbsp.errors import SchemaError

_OWN_NAME = re.compile(rf"{RESULT}|{QUERY}|in\d+|.*#.*")
"""The names of the relations that a draft has beside those of rules."""


class DraftWriter:
    """Adds rules to the draft of one query, and gives names to what they read."""

    def __init__(
        self,
        rules: Sequence[tree.RuleDefinition],
        catalogs: Mapping[str, Catalog],
        functions: Mapping[str, Callable[..., Any]],
        report: QueryReport,
    ) -> None:
        self.report = report
        self.catalogs = catalogs
        self.functions = functions
        """The functions of the user: by name, and by variable of `:in`."""
        self.draft = DraftQuery()
        self.rules = definitions_of(rules)
        """The definitions of each rule."""
        self.components = rule_components(self.rules)
        """The rules of the recursion that a rule belongs to; empty if there is none."""
        self.inlined = inlined_rules(self.rules, self.components)
        """The rules whose clauses replace their calls."""
        self.bindings = Bindings(self.rules)
        self.entities = EntityArguments(self.rules, catalogs)
        self._numbers = count(1)
        self.single: dict[str, int] = {}
        """The variables that `query` binds, with their columns."""
        self._variables: dict[tuple[type, str], str] = {}
        self.constants: set[str] = set()
        """The variables of constants."""
        self.relations: dict[tuple[str, str], str] = {}
        """The relation of each rule that is called, by its name and source."""
        self.unwritten: list[tuple[str, str]] = []
        """The rules, each with a source, that are called and not written yet."""
        self.possible: dict[frozenset[str], set[str]] = {}
        """The relations whose possible rows are read, by the rules of their recursion."""

    def constant(self, value: Any) -> str:
        """Return the variable whose value is a constant."""
        key = (type(value), repr(value))
        if key not in self._variables:
            name = self._variables[key] = self.new("constant")
            self.constants.add(name)
            self.single[name] = len(self.draft.parameters)
            self.draft.parameters.append(Parameter(name, value, is_constant=True))
        return self._variables[key]

    def mark_entity(self, name: str) -> None:
        """Note that the values of a variable are entities: an argument may be an ident."""
        for columns in (self.draft.parameters, *self.draft.inputs.values()):
            for parameter in columns:
                if parameter.name == name and not parameter.is_constant:
                    parameter.entity = True

    # --- rules ------------------------------------------------------------------------------------

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
        if key not in self.relations:
            plain = source == "$" and not _OWN_NAME.fullmatch(name)
            relation = self.relations[key] = name if plain else f"{name} {source}"
            if not self.bindings.needed_of_rule(name):
                self.draft.on_demand.add(relation)
            self.unwritten.append(key)
        return self.relations[key]

    def possible_rows(self, relation: str, recursive: frozenset[str]) -> str:
        """Return the relation of the possible rows of a relation that depends on a recursion."""
        self.possible.setdefault(recursive, set()).add(relation)
        return possible_relation(relation)

    def needed_of_rule(self, name: str) -> list[int]:
        """Return the positions of the arguments that a call of a rule must bind."""
        return sorted(self.bindings.needed_of_rule(name))

    def asked(self, relation: str) -> str:
        """Return the relation of the arguments that the calls of a rule bind."""
        return f"{relation}#in"

    def relations_of(self, rules: Iterable[str]) -> set[str]:
        """Return the relations of these rules over all sources."""
        names = {*rules}
        return {relation for (name, _), relation in self.relations.items() if name in names}

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
            found = self.catalogs[source].attribute(name.value)
        except SchemaError as error:
            message, _, hint = error.message.partition("; ")
            self.report.error(message, name.span, code=error.code or "unknown-attribute", hint=hint or None)
            raise self.report.compile_error() from None
        if found is not None and not isinstance(name.value, int):
            self.draft.named[source, as_keyword(name.value)] = found.id
        return found


def as_keyword(value: Any) -> Keyword:
    """Return a keyword; in Python data it may be a string."""
    return value if isinstance(value, Keyword) else Keyword(str(value).removeprefix(":"))
