"""Check declared subtypes: the flow of values from column to column through variables.

The type of a variable is the greatest common subtype of its columns in positive atoms and of the
types of the variables it is compared with. That type must exist, and it must be a subtype of every
column of the head that the variable flows into, except in a legacy program: there, as in Soufflé,
a head accepts every value of the same kind. `infer` checks the kinds before.
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
    """Whether the clause does not mix types; reports the first error.

    `structured` has the kinds of the records and branches in the clause, by the `id` of the term:
    the check treats their fields like columns.
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
        # The columns of each variable in positive atoms: their types, and the uses of the variable.
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
        """Record the types of the variables of a literal or a term, aggregates included."""
        match node:
            case syntax.Negation(atom=atom):
                node = atom  # a negated atom gives its variables no type
            case syntax.Atom(relation=relation, arguments=arguments):
                columns = self.relations[relation].attributes
                self.record(arguments, (column.type_name for column in columns))
            case syntax.Comparison(left=left, right=right):
                self.compare(left, right)
            case syntax.Construct(arguments=arguments) if (
                node.function != "nil" and id(node) in self.structured
            ):
                fields = self.types.fields(self.structured[id(node)], node.constructor)
                self.record(arguments, (field.type_name for field in fields))
            case syntax.Aggregate(value=value, body=body):
                # The body first: of two conflicting types, the second is reported.
                for part in (*body, *(() if value is None else (value,))):
                    self.part(part)
                return
            case _:
                pass
        for part in children(node):
            self.part(part)

    def record(self, terms: Iterable[syntax.Term], types: Iterable[str]) -> None:
        """Record the variables among terms in columns of these types."""
        for term, type_name in zip(terms, types, strict=True):
            if isinstance(term, syntax.Variable):
                self.columns.setdefault(term.name, []).append((type_name, term))

    def compare(self, left: syntax.Term, right: syntax.Term) -> None:
        """Give two compared variables one type; `min x` and `max x` have the type of x."""
        names = []
        for side in (left, right):
            if isinstance(side, syntax.Aggregate) and side.function != "mean" and side.value is not None:
                side = side.value
            if isinstance(side, syntax.Variable):
                names.append(side.name)
        if len(names) == 2:
            self.parents[self.find(names[0])] = self.find(names[1])

    def find(self, name: str) -> str:
        """The representative of all variables of the same type as this one."""
        while (parent := self.parents.get(name, name)) != name:
            name = parent
        return name

    def meet(
        self, group: str, columns: list[tuple[str, syntax.Variable]], types: dict[str, frozenset[str]]
    ) -> bool:
        """Narrow the type of a group of variables by more columns; false when no type is left."""
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
                    code="type-mismatch",
                )
                return False
        return True

    def head(self, head: syntax.Atom, types: dict[str, frozenset[str]]) -> bool:
        if self.types.legacy:
            return True
        relation = self.relations[head.relation]
        for argument, column in zip(head.arguments, relation.attributes, strict=True):
            found: frozenset[str] = frozenset()
            value = argument
            if isinstance(argument, syntax.Variable):
                found = types.get(self.find(argument.name), found)
            elif isinstance(argument, syntax.Call) and argument.target is not None:
                found = frozenset({argument.target.text})
                (value,) = argument.arguments
            for type_name in sorted(found):
                if not self.types.is_subtype(type_name, column.type_name):
                    self.report.error(
                        argument.span,
                        f"'{show_term(argument)}' is of type '{type_name}', which is not a subtype of"
                        f" '{column.type_name}', the type of column '{column.name}' of '{relation.name}'",
                        f"write as({show_term(value)}, {column.type_name}), or run an old Soufflé"
                        " program with --legacy",
                        code="type-mismatch",
                    )
                    return False
        return True
