"""The literals of patterns and of calls of functions.

pattern              an atom over a base relation
[(f ?x) ?y]          a call; a binding takes its result apart
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from dbsp.compiler.datomic.meaning.base_relations import COLUMNS, KnownAttribute
from dbsp.compiler.datomic.meaning.bindable import binding_variables
from dbsp.compiler.datomic.meaning.binding_values import binding_rows
from dbsp.compiler.datomic.meaning.draft_rules import (
    DraftAtom,
    DraftCall,
    DraftLiteral,
    DraftSeries,
    Parameter,
)
from dbsp.compiler.datomic.meaning.draft_writer import DraftWriter, as_keyword
from dbsp.compiler.datomic.meaning.query_functions import find_function
from dbsp.compiler.datomic.tree import query_tree as tree
from dbsp.diagnostics import SourceSpan
from dbsp.edn.edn_values import Keyword
from dbsp.edn.edn_writer import display_text
from dbsp.errors import CompileError, DbspError, expect_present
from dbsp.lazy_dataclass import dataclass

_IDENTITIES = frozenset({"identity", "clojure.core/identity", "untuple"})
"""Functions that return their argument; so does `ground`."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Where clauses are written: the sources that they read, and the recursion they belong to."""

    sources: Mapping[str, str]
    """The source that a name in the clauses means; `$` in a rule is the source of the call."""
    recursive: frozenset[str] = frozenset()
    """The rules that the rule of the clauses depends on and that depend on it."""


class ClauseLiterals:
    """The literals of a rule while clauses are added that need no other rule."""

    def __init__(
        self, writer: DraftWriter, head: str, literals: list[DraftLiteral], bound: set[str], scope: Scope
    ) -> None:
        self.writer = writer
        self.head = head
        self.literals = literals
        self.bound = bound
        self.scope = scope

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
        if len(value) != 2:
            raise self._refused(
                f"expected a lookup ref [:unique-attribute value], got {display_text(value)}",
                term.span,
                "unknown-entity",
            )
        named, constant = (tree.Constant(part, term.span) for part in value)
        attribute = self.writer.attribute(source, named)
        if attribute is not None and not attribute.unique:
            raise self._refused(
                f"lookup ref {display_text(value)}: the values of {attribute.name} are not unique",
                term.span,
                "unknown-entity",
                "use an attribute with :db/unique, or bind the entity by a clause",
            )
        if attribute is not None and attribute.is_ref:
            looked_up = self._entity(source, constant)
        elif attribute is not None:
            looked_up = self.writer.constant(self._stored(attribute, constant))
        else:
            looked_up = self._name(constant)
        entity = self.writer.new("entity")
        given = {"e": entity, "v": expect_present(looked_up, "the value of a lookup ref")}
        self._datoms(source, named, given, term.span)
        return entity

    def _stored(self, attribute: KnownAttribute, constant: tree.Constant) -> Any:
        """Return the value of a lookup ref as the database stores it."""
        try:
            return attribute.stored(constant.value)
        except DbspError as error:
            raise self._refused(error.message, constant.span, error.code or "wrong-type") from None

    def _refused(self, message: str, span: SourceSpan, code: str, hint: str | None = None) -> CompileError:
        """Return the error for a part of a clause, with all errors before it."""
        self.writer.report.error(message, span, code=code, hint=hint)
        return self.writer.report.compile_error()

    # --- calls ------------------------------------------------------------------------------------

    def _call(self, clause: tree.Predicate | tree.Function, result: str | None) -> str:
        """Add the call of a function; return the variable of its result."""
        name = tree.called_name(clause.function)
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
            if result is not None and name in _IDENTITIES:
                self._refuse_nil(clause)
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
        self._refuse_nil(clause)
        self._bind(clause.binding, self.writer.constant(argument.value))

    def _refuse_nil(self, clause: tree.Predicate | tree.Function) -> None:
        """Let a function that returns its argument bind nothing if that is nil."""
        if any(isinstance(each, tree.Constant) and each.value is None for each in clause.arguments):
            nil = self.writer.constant(None)
            holds = DraftCall(
                "some?", lambda given: given is not None, (nil,), None, clause.span, native=False
            )
            self.literals.append(holds)


def _rows(binding: tree.Binding, value: Any) -> tuple[tuple[Any, ...], ...]:
    """Return the values of the variables of a binding, for each way to match a value."""
    return tuple(binding_rows(binding, value))


def _item(column: int, rows: tuple[tuple[Any, ...], ...], at: int) -> Any:
    return rows[at][column]
