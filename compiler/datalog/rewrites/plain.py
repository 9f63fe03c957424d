"""Properties of relations that decide which rewritings may change their rules."""

from __future__ import annotations

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.dependencies import uses
from dbsp.compiler.datalog.tree.dependency_graph import DependencyGraph


def is_plain(relation: checked.Relation) -> bool:
    """Whether a relation is a set of rows, declared without further properties."""
    bare = checked.Relation(relation.name, relation.attributes, relation.span)
    return relation == bare and not relation.lattice_columns


def derived_for_itself(program: checked.CheckedProgram) -> set[str]:
    """Return the derived plain relations that are neither inputs nor outputs.

    Relations that subsumptions read, or whose rows depend on the iteration, are not among them.
    """
    seen = {*program.inputs, *program.outputs, *program.sizes, *by_iterations(program)}
    seen.update(atom.relation for rule in program.subsumptions for atom in uses(rule))
    heads = {rule.head.relation for rule in program.rules}
    return {name for name in heads - seen if is_plain(program.relations[name])}


def by_iterations(program: checked.CheckedProgram) -> frozenset[str]:
    """Return the relations whose rows depend on the iteration in which they are derived.

    The rules of such a recursion must not change: other rules would derive rows in other
    iterations.
    """

    def counts(relation: checked.Relation) -> bool:
        chosen = relation.choices or relation.limit or relation.subsumed
        return bool(chosen or relation.lattice_columns)

    return frozenset(
        name
        for stratum in program.strata
        if stratum.recursive and any(counts(program.relations[relation]) for relation in stratum.relations)
        for name in stratum.relations
    )


def recursive_groups(program: checked.CheckedProgram) -> dict[str, int]:
    """Number the recursive relations; relations that depend on each other share a number."""
    graph = DependencyGraph(
        (atom.relation, rule.head.relation) for rule in program.rules for atom in uses(rule)
    )
    found: dict[str, int] = {}
    for number, names in enumerate(graph.components()):
        if len(names) > 1 or any(graph.has_edge(name, name) for name in names):
            found.update(dict.fromkeys(names, number))
    return found
