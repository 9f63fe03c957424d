"""The arguments of rules that are entities: as constants they may be idents or lookup refs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from dbsp.compiler.datomic.meaning.rule_writer import rule_components
from dbsp.compiler.datomic.tree import query_tree as tree


def entity_arguments(
    rules: Mapping[str, Sequence[tree.RuleDefinition]], is_ref: Callable[[Any], bool]
) -> dict[str, set[int]]:
    """Return the positions of the arguments that are entities, for rules with one definition.

    In a call of such a rule a constant is like one in the clauses of the rule; in a recursion it is
    a value as any other. `is_ref` says whether the values of an attribute are entities.
    """
    recursive = rule_components(rules)
    found: dict[str, set[int]] = {}
    grown = True
    while grown:
        grown = False
        for name, definitions in rules.items():
            if len(definitions) > 1 or recursive[name]:
                continue
            names = set(_entities(definitions[0].clauses, found, is_ref))
            places = {at for at, variable in enumerate(definitions[0].head) if variable.name in names}
            if places != found.get(name, set()):
                found[name] = places
                grown = True
    return found


def _entities(
    clauses: Iterable[tree.Clause], found: Mapping[str, set[int]], is_ref: Callable[[Any], bool]
) -> Iterator[str]:
    """Yield the variables in the places of entities."""
    for clause in clauses:
        match clause:
            case tree.Pattern(terms=terms):
                for at, term in enumerate(terms):
                    if isinstance(term, tree.Variable) and (
                        at in (0, 1, 3) or (at == 2 and _refers(terms, is_ref))
                    ):
                        yield term.name
            case tree.Function(function="get-else" | "get-some", arguments=(_, tree.Variable(name=name), *_)):
                yield name
            case tree.Predicate(function="missing?", arguments=(_, tree.Variable(name=name), *_)):
                yield name
            case tree.RuleCall(name=name, arguments=arguments):
                places = found.get(name, set())
                yield from (
                    term.name
                    for at, term in enumerate(arguments)
                    if at in places and isinstance(term, tree.Variable)
                )
            case tree.Not(clauses=inner):
                yield from _entities(inner, found, is_ref)
            case tree.Or(branches=branches):
                for branch in branches:
                    yield from _entities(branch, found, is_ref)


def _refers(terms: Sequence[tree.Term], is_ref: Callable[[Any], bool]) -> bool:
    return isinstance(terms[1], tree.Constant) and is_ref(terms[1].value)
