"""Which arguments of rules are entities: a call may give an ident or a lookup ref for them.

A parameter is an entity if a pattern has it as the entity, the attribute, the transaction or the
value of a ref, or if another rule has it as such an argument.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from dbsp.compiler.datomic.meaning.base_relations import Catalog
from dbsp.compiler.datomic.meaning.bindable import shared_variables
from dbsp.compiler.datomic.tree import query_tree as tree
from dbsp.errors import SchemaError

_READERS = ("get-else", "get-some", "missing?")


class EntityArguments:
    """The positions of the arguments of rules that are entities, for each source of a call."""

    def __init__(
        self, rules: Mapping[str, Sequence[tree.RuleDefinition]], catalogs: Mapping[str, Catalog]
    ) -> None:
        self._rules = rules
        self._catalogs = catalogs
        self._found: dict[str, dict[str, set[int]]] = {}

    def of_rule(self, name: str, source: str) -> set[int]:
        """Return the positions of the arguments of a rule over a source that are entities."""
        if source not in self._found:
            found = self._found[source] = {rule: set[int]() for rule in self._rules}
            grown = True
            while grown:
                before = sum(map(len, found.values()))
                for rule, definitions in self._rules.items():
                    for definition in definitions:
                        names = set(self._entities(definition.clauses, source))
                        head = enumerate(definition.head)
                        found[rule].update(at for at, variable in head if variable.name in names)
                grown = sum(map(len, found.values())) > before
        return self._found[source][name]

    def _entities(self, clauses: Iterable[tree.Clause], source: str) -> Iterator[str]:
        """Yield the variables of clauses that stand for entities; `$` is the source."""
        for clause in clauses:
            match clause:
                case tree.Pattern():
                    yield from self._of_pattern(clause, self._read(clause.source, source))
                case (
                    tree.Function(function=name, arguments=(_, entity, *_))
                    | tree.Predicate(function=name, arguments=(_, entity, *_))
                ) if name in _READERS:
                    yield from _names([entity])
                case tree.RuleCall(name=name, arguments=arguments):
                    positions = self.of_rule(name, self._read(clause.source, source))
                    yield from _names(arguments[at] for at in positions)
                case tree.Not(variables=variables, clauses=inner):
                    listed = None if variables is None else set(_names(variables))
                    yield from (n for n in self._entities(inner, source) if listed is None or n in listed)
                case tree.Or(branches=branches):
                    shared = set(shared_variables(clause))
                    for branch in branches:
                        yield from shared.intersection(self._entities(branch, source))

    def _of_pattern(self, clause: tree.Pattern, source: str) -> Iterator[str]:
        catalog = self._catalogs[source]
        if not catalog.is_database:
            return
        for at, term in enumerate(clause.terms):
            if at in (0, 1, 3) or (at == 2 and _is_ref(catalog, clause.terms[1])):
                yield from _names([term])

    @staticmethod
    def _read(named: str, source: str) -> str:
        return source if named == "$" else named


def _is_ref(catalog: Catalog, attribute: tree.Term) -> bool:
    if not isinstance(attribute, tree.Constant):
        return False
    try:
        known = catalog.attribute(attribute.value)
    except SchemaError:  # reported where the pattern is written
        return False
    return known is not None and known.is_ref


def _names(terms: Iterable[tree.Term | tree.Argument]) -> Iterator[str]:
    return (term.name for term in terms if isinstance(term, tree.Variable))
