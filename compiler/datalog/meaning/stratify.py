"""Group relations into strata; report relations that depend on their own absence.

The dependency graph has an edge from every relation in the body of a rule to the relation in its
head; it is negative when the relation is negated or aggregated over. Its strongly connected
components, in topological order, are the strata. A negative edge inside a component would make the
relation's rows depend on their own absence, and such a program has no agreed meaning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from dbsp.compiler.datalog.meaning.checked import Relation, Rule, Stratum
from dbsp.compiler.datalog.meaning.dependencies import Dependency, dependencies, subsumption_dependencies
from dbsp.compiler.datalog.meaning.extremes import DeclaredOrders, is_monotone, orders_of
from dbsp.compiler.datalog.text.report import Report
from dbsp.compiler.datalog.tree.dependency_graph import DependencyGraph


def stratify(
    relations: Mapping[str, Relation], rules: Sequence[Rule], subsumptions: Sequence[Rule], report: Report
) -> tuple[Stratum, ...]:
    """The strata of the relations that have rules, in an order in which they can be computed."""
    order = {name: position for position, name in enumerate(relations)}
    of_rules = [(rule, dependency) for rule in rules for dependency in dependencies(rule)]
    found = [dependency for _, dependency in of_rules]
    found += [dependency for rule in subsumptions for dependency in subsumption_dependencies(rule)]
    graph = DependencyGraph(((dependency.used, dependency.user) for dependency in found), relations)
    component_of: dict[str, int] = {}
    components: list[list[str]] = []
    for component in graph.components():
        for name in component:
            component_of[name] = len(components)
        components.append(sorted(component, key=order.__getitem__))
    orders = orders_of(subsumptions)
    every = list(found)
    for rule, dependency in of_rules:
        recursive = (
            dependency.how == "aggregates over"
            and component_of[dependency.used] == component_of[dependency.user]
        )
        if recursive and is_monotone(rule, components[component_of[dependency.user]], orders):
            found.remove(dependency)
    _check_cycles(graph, component_of, found, every, orders, report)

    condensed = DependencyGraph(nodes=range(len(components)))
    for used, user in graph.edges:
        if component_of[used] != component_of[user]:
            condensed.add_edge(component_of[used], component_of[user])
    rules_of: dict[int, list[Rule]] = {}
    for rule in rules:
        rules_of.setdefault(component_of[rule.head.relation], []).append(rule)
    subsumed: dict[int, list[Rule]] = {}
    for rule in subsumptions:
        subsumed.setdefault(component_of[rule.head.relation], []).append(rule)
    sequence = condensed.in_order(lambda number: order[components[number][0]])
    strata: list[Stratum] = []
    for number in sequence:
        names = components[number]
        own, removing = rules_of.get(number, []), subsumed.get(number, [])
        special = any(
            relations[name].equivalence or relations[name].choices or relations[name].lattice_columns
            for name in names
        )
        if own or removing or special:
            recursive = len(names) > 1 or graph.has_edge(names[0], names[0])
            accumulates = recursive and bool(removing or any(relations[name].choices for name in names))
            strata.append(Stratum(tuple(names), tuple(own), recursive, tuple(removing), accumulates))
    return tuple(strata)


def _check_cycles(
    graph: DependencyGraph[str],
    component_of: Mapping[str, int],
    found: Sequence[Dependency],
    every: Sequence[Dependency],
    orders: DeclaredOrders,
    report: Report,
) -> None:
    """Report one cycle through a negative dependency for each component that has one.

    Unlike `found`, `every` includes the aggregates that are allowed in a recursion.
    """
    by_edge: dict[tuple[str, str], Dependency] = {}
    for dependency in sorted(every, key=lambda dependency: bool(dependency.how)):
        by_edge.setdefault((dependency.used, dependency.user), dependency)
    reported: set[int] = set()
    for dependency in found:
        component = component_of[dependency.used]
        if not dependency.how or component_of[dependency.user] != component or component in reported:
            continue
        reported.add(component)
        path = graph.path(dependency.user, dependency.used)
        steps = [
            dependency,
            *(by_edge[used, user] for used, user in reversed(list(pairwise(path)))),
        ]
        cycle = ", ".join(
            f"'{step.user}' {step.how or 'uses'} '{step.used}' (line {step.span.line})" for step in steps
        )
        report.error(
            dependency.span,
            f"the program cannot be stratified: '{dependency.user}' {dependency.how} '{dependency.used}',"
            f" which depends on '{dependency.user}'"
            if dependency.used != dependency.user
            else f"the program cannot be stratified: '{dependency.user}' {dependency.how} itself",
            f"the cycle is: {cycle}{_AGGREGATES if dependency.how != 'negates' and orders else ''}",
            code="not-stratifiable",
        )


_AGGREGATES = (
    "; a 'min' is allowed in a recursion if a subsumption keeps the least value of the column that it"
    " aggregates and of the column of its result, a 'max' likewise with the greatest value"
)
