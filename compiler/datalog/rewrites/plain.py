"""Which relations are there for the rules of the program alone."""

from __future__ import annotations

import networkx as nx

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.dependencies import uses


def is_plain(relation: checked.Relation) -> bool:
    """Whether a relation is just a set of rows, declared without anything that means more."""
    return relation == checked.Relation(relation.name, relation.attributes, relation.span)


def derived_for_itself(program: checked.CheckedProgram) -> set[str]:
    """The derived relations that are no input, no output and nothing but sets: what others read is theirs.

    Nor are they read by subsumptions, or derived in iterations that count.
    """
    seen = {*program.inputs, *program.outputs, *program.sizes, *by_iterations(program)}
    seen.update(atom.relation for rule in program.subsumptions for atom in uses(rule))
    heads = {rule.head.relation for rule in program.rules}
    return {name for name in heads - seen if is_plain(program.relations[name])}


def by_iterations(program: checked.CheckedProgram) -> frozenset[str]:
    """The relations whose rows depend on the iteration in which they are derived.

    The rules of such a recursion stay as they are: with others it would take other iterations.
    """

    def counts(relation: checked.Relation) -> bool:
        return bool(relation.choices or relation.limit or relation.subsumed)

    return frozenset(
        name
        for stratum in program.strata
        if stratum.recursive and any(counts(program.relations[relation]) for relation in stratum.relations)
        for name in stratum.relations
    )


def recursive_groups(program: checked.CheckedProgram) -> dict[str, int]:
    """A number for every relation that depends on itself; those that depend on one another share it."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_edges_from((atom.relation, rule.head.relation) for rule in program.rules for atom in uses(rule))
    found: dict[str, int] = {}
    for number, names in enumerate(nx.strongly_connected_components(graph)):
        if len(names) > 1 or any(graph.has_edge(name, name) for name in names):
            found.update(dict.fromkeys(names, number))
    return found
