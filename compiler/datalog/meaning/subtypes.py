"""Checks declared subtypes: what flows from column to column through a variable.

A variable has the greatest type below all columns of positive atoms it stands in, and below those of
the variables it is compared with. That type must exist, and it must be a subtype of every column of
the head that the variable flows into. Kinds have been settled before (see `infer`).
"""

from __future__ import annotations

from collections.abc import Mapping

from dbsp.compiler.datalog.meaning.checked import Structured
from dbsp.compiler.datalog.meaning.declare import Declarations
from dbsp.compiler.datalog.meaning.flatten import FlatClause
from dbsp.compiler.datalog.meaning.show import show_term, source_name
from dbsp.compiler.datalog.meaning.walk import literals, parts_of, terms_of
from dbsp.compiler.datalog.text import syntax
from dbsp.compiler.datalog.text.report import Report


def check_subtypes(
    clause: FlatClause, declarations: Declarations, structured: Mapping[int, Structured], report: Report
) -> bool:
    """Whether the clause mixes no types; the first mistake is reported.

    `structured` has the kinds of the records and branches in the clause, by the `id` of the term: their
    fields are columns like others.
    """
    return _Checker(declarations, structured, report).clause(clause)


class _Checker:
    def __init__(
        self, declarations: Declarations, structured: Mapping[int, Structured], report: Report
    ) -> None:
        self.structured = structured
        self.relations = declarations.relations
        self.types = declarations.types
        self.report = report
        self.parents: dict[str, str] = {}
        # For each variable the columns of positive atoms it stands in: their types, and where.
        self.columns: dict[str, list[tuple[str, syntax.Variable]]] = {}

    def clause(self, clause: FlatClause) -> bool:
        for literal in clause.body:
            self.literal(literal)
        for term in clause.head.arguments:
            self.term(term)
        types: dict[str, frozenset[str]] = {}
        for name, columns in self.columns.items():
            if not self.meet(self.find(name), columns, types):
                return False
        return self.head(clause.head, types)

    def literal(self, literal: syntax.BodyLiteral) -> None:
        if isinstance(literal, syntax.Atom):
            columns = self.relations[literal.relation].attributes
            for argument, column in zip(literal.arguments, columns, strict=True):
                if isinstance(argument, syntax.Variable):
                    self.columns.setdefault(argument.name, []).append((column.type_name, argument))
        elif isinstance(literal, syntax.Comparison):
            self.compare(literal.left, literal.right)
        for term in terms_of(literal):
            self.term(term)

    def term(self, term: syntax.Term) -> None:
        """Looks for aggregates, whose bodies have atoms and comparisons of their own."""
        if isinstance(term, syntax.Aggregate):
            for literal in literals(term.body):
                self.literal(literal)
            if term.value is not None:
                self.term(term.value)
            return
        if isinstance(term, syntax.Construct) and term.function != "nil" and id(term) in self.structured:
            kind = self.structured[id(term)]
            constructor = term.function[1:] if term.function.startswith("$") else ""
            for part, field in zip(term.arguments, self.types.fields(kind, constructor), strict=True):
                if isinstance(part, syntax.Variable):
                    self.columns.setdefault(part.name, []).append((field.type_name, part))
        for part in parts_of(term):
            self.term(part)

    def compare(self, left: syntax.Term, right: syntax.Term) -> None:
        """Two variables that are compared have one type; the least of x is of the type of x."""
        names = []
        for side in (left, right):
            if isinstance(side, syntax.Aggregate) and side.function != "mean" and side.value is not None:
                side = side.value
            if isinstance(side, syntax.Variable):
                names.append(side.name)
        if len(names) == 2:
            self.parents[self.find(names[0])] = self.find(names[1])

    def find(self, name: str) -> str:
        """The variable that stands for all that have one type with this one."""
        while (parent := self.parents.get(name, name)) != name:
            name = parent
        return name

    def meet(
        self, group: str, columns: list[tuple[str, syntax.Variable]], types: dict[str, frozenset[str]]
    ) -> bool:
        """Narrows the type of a group of variables by more columns; false when nothing is left."""
        for type_name, variable in columns:
            known = types.get(group)
            if known is None:
                types[group] = frozenset({self.types.resolve(type_name)})
                continue
            types[group] = frozenset().union(*(self.types.common(one, type_name) for one in known))
            if not types[group]:
                listed = " or ".join(f"'{name}'" for name in sorted(known))
                self.report.error(
                    variable.span,
                    f"'{source_name(variable.name)}' cannot be both of type {listed}"
                    f" and of type '{type_name}'",
                    "no value belongs to both types",
                )
                return False
        return True

    def head(self, head: syntax.Atom, types: dict[str, frozenset[str]]) -> bool:
        relation = self.relations[head.relation]
        for argument, column in zip(head.arguments, relation.attributes, strict=True):
            found: frozenset[str] = frozenset()
            if isinstance(argument, syntax.Variable):
                found = types.get(self.find(argument.name), found)
            elif isinstance(argument, syntax.Call) and argument.target is not None:
                found = frozenset({argument.target.text})
            for type_name in sorted(found):
                if not self.types.is_subtype(type_name, column.type_name):
                    self.report.error(
                        argument.span,
                        f"'{show_term(argument)}' is of type '{type_name}', which is not a subtype of"
                        f" '{column.type_name}', the type of column '{column.name}' of '{relation.name}'",
                    )
                    return False
        return True
