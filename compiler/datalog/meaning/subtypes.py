"""Checks declared subtypes: what flows from column to column through a variable.

A variable has the greatest type below all columns of positive atoms it stands in, and below those of
the variables it is compared with. That type must exist, and it must be a subtype of every column of
the head that the variable flows into. Kinds have been settled before (see `infer`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dbsp.compiler.datalog.meaning.declare import Declarations
from dbsp.compiler.datalog.meaning.flatten import FlatClause
from dbsp.compiler.datalog.meaning.show import show_term, source_name
from dbsp.compiler.datalog.text.report import Report
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.kinds import Structured
from dbsp.compiler.datalog.tree.traversal import children


def check_subtypes(
    clause: FlatClause, declarations: Declarations, structured: Mapping[int, Structured], report: Report
) -> bool:
    """Whether the clause mixes no types; the first mistake is reported.

    `structured` has the kinds of the records and branches in the clause, by the `id` of the term: their
    fields are columns like others.
    """
    return _SubtypeCheck(declarations, structured, report).clause(clause)


class _SubtypeCheck:
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
        for part in (*clause.body, *clause.head.arguments):
            self.part(part)
        types: dict[str, frozenset[str]] = {}
        for name, columns in self.columns.items():
            if not self.meet(self.find(name), columns, types):
                return False
        return self.head(clause.head, types)

    def part(self, node: syntax.Node) -> None:
        """Notes what a literal or a term says of its variables, those in aggregates included."""
        match node:
            case syntax.Negation(atom=atom):
                node = atom  # whose columns bind nothing
            case syntax.Atom(relation=relation, arguments=arguments):
                columns = self.relations[relation].attributes
                self.stand_in(arguments, (column.type_name for column in columns))
            case syntax.Comparison(left=left, right=right):
                self.compare(left, right)
            case syntax.Construct(arguments=arguments) if (
                node.function != "nil" and id(node) in self.structured
            ):
                fields = self.types.fields(self.structured[id(node)], node.constructor)
                self.stand_in(arguments, (field.type_name for field in fields))
            case syntax.Aggregate(value=value, body=body):
                # The body first: of two types that do not fit, the second is reported.
                for part in (*body, *(() if value is None else (value,))):
                    self.part(part)
                return
            case _:
                pass
        for part in children(node):
            self.part(part)

    def stand_in(self, terms: Iterable[syntax.Term], types: Iterable[str]) -> None:
        """Notes the variables among terms that stand in columns of these types."""
        for term, type_name in zip(terms, types, strict=True):
            if isinstance(term, syntax.Variable):
                self.columns.setdefault(term.name, []).append((type_name, term))

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
            types[group] = frozenset().union(
                *(self.types.common(candidate, type_name) for candidate in known)
            )
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
