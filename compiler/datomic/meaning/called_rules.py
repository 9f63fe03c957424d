"""Which rules call which: those of a recursion, and those whose clauses can replace a call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dbsp.compiler.datalog.tree.dependency_graph import DependencyGraph
from dbsp.compiler.datomic.meaning.clause_variables import inner_clauses
from dbsp.compiler.datomic.tree import query_tree as tree

MAX_INLINED = 50
"""A call is replaced by at most this many clauses."""


def rule_components(rules: Mapping[str, Sequence[tree.RuleDefinition]]) -> dict[str, frozenset[str]]:
    """Return, for each rule, the rules that it depends on and that depend on it."""
    graph: DependencyGraph[str] = DependencyGraph(nodes=rules)
    for name, definitions in rules.items():
        for definition in definitions:
            for called in calls_of(definition):
                graph.add_edge(name, called.name)
    found: dict[str, frozenset[str]] = {}
    for names in graph.components():
        recursive = len(names) > 1 or all(graph.has_edge(name, name) for name in names)
        found.update(dict.fromkeys(names, frozenset(names) if recursive else frozenset()))
    return found


def inlined_rules(
    rules: Mapping[str, Sequence[tree.RuleDefinition]], components: Mapping[str, frozenset[str]]
) -> frozenset[str]:
    """Return the rules whose clauses replace their calls.

    These have one definition, few clauses, and no recursion.

    `components` are those of `rule_components`, in their order: a rule follows those that it calls.
    """
    sizes: dict[str, int] = {}
    for name, recursive in components.items():
        definitions = rules.get(name, ())
        if len(definitions) == 1 and not recursive:
            # A call in an inner clause is replaced too.
            size = sum(
                sizes.get(clause.name, 1) if isinstance(clause, tree.RuleCall) else 1
                for clause in inner_clauses(definitions[0].clauses)
            )
            if size <= MAX_INLINED:
                sizes[name] = size
    return frozenset(sizes)


def calls_of(definition: tree.RuleDefinition) -> Iterator[tree.RuleCall]:
    """Yield the calls in a definition, those in inner clauses included."""
    return (clause for clause in inner_clauses(definition.clauses) if isinstance(clause, tree.RuleCall))
