"""Group relations into strata; report relations that depend on their own absence.

The dependency graph has an edge from every relation in the body of a rule to the relation in its
head; it is negative when the relation is negated or aggregated over. Its strongly connected
components, in topological order, are the strata. A negative edge inside a component would make the
relation's rows depend on their own absence, and such a program has no agreed meaning. The exception
are negations between true and possible rows (see `well_founded`): a component with them consists of
two halves, which negate each other, and each half has strata of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from dbsp.compiler.datalog.meaning.checked import Relation, Rule, Stratum, TruthValue
from dbsp.compiler.datalog.meaning.dependencies import Dependency, dependencies, subsumption_dependencies
from dbsp.compiler.datalog.meaning.extremes import DeclaredOrders, is_monotone, orders_of
from dbsp.compiler.datalog.text.report import Report
from dbsp.compiler.datalog.tree.dependency_graph import DependencyGraph
from dbsp.errors import InvariantError


def stratify(
    relations: Mapping[str, Relation], rules: Sequence[Rule], subsumptions: Sequence[Rule], report: Report
) -> tuple[Stratum, ...]:
    """The strata of the relations that have rules, in an order in which they can be computed.

    Relations outside of `relations` that the rules use are complete.
    """
    order = {name: position for position, name in enumerate(relations)}
    of_rules = [(rule, use) for rule in rules for use in dependencies(rule) if use.used in relations]
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
    inside: dict[int, list[Dependency]] = {}
    for dependency in found:
        if component_of[dependency.used] == component_of[dependency.user]:
            inside.setdefault(component_of[dependency.used], []).append(dependency)
    halves = {number: half for number, uses in inside.items() if (half := _possible_half(uses, relations))}
    between = {name for half in halves.values() for name in half}
    found = [use for use in found if use.how != "negates" or not {use.used, use.user} & between]
    _check_cycles(graph, component_of, found, every, relations, orders, report)

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
        special = any(relations[name].equivalence or relations[name].choices for name in names)
        if own or removing or special:
            recursive = len(names) > 1 or graph.has_edge(names[0], names[0])
            accumulates = recursive and bool(removing or any(relations[name].choices for name in names))
            stratum = Stratum(tuple(names), tuple(own), recursive, tuple(removing), accumulates)
            if number in halves:
                stratum = replace(stratum, halves=_halves(relations, names, halves[number], own, report))
            strata.append(stratum)
    return tuple(strata)


def _possible_half(inside: Sequence[Dependency], relations: Mapping[str, Relation]) -> frozenset[str]:
    """The relations of possible rows in a component; none if it has no negations between halves.

    `inside` are the dependencies within the component.

    Rewritings may have added relations that are not versions. Such a relation belongs to the half
    of the relations that use it, and of those that it uses.
    """
    if not any(use.how == "negates" for use in inside):
        return frozenset()
    sides: dict[str, bool] = {}
    neighbours: dict[str, list[tuple[str, bool]]] = {}
    for use in inside:
        version = relations[use.user].version
        if version is not None:
            sides[use.user] = version.truth is TruthValue.POSSIBLE
        other = use.how == "negates"
        neighbours.setdefault(use.used, []).append((use.user, other))
        neighbours.setdefault(use.user, []).append((use.used, other))
    waiting = list(sides)
    for name in waiting:
        for neighbour, other in neighbours[name]:
            if neighbour not in sides:
                sides[neighbour] = sides[name] != other
                waiting.append(neighbour)
            elif sides[neighbour] != (sides[name] != other):
                raise InvariantError(f"'{name}' and '{neighbour}' connect the halves of a recursion")
    return frozenset(name for name, possible in sides.items() if possible)


def _halves(
    relations: Mapping[str, Relation],
    names: Sequence[str],
    possible: frozenset[str],
    rules: Sequence[Rule],
    report: Report,
) -> tuple[tuple[Stratum, ...], tuple[Stratum, ...]]:
    """The strata of the possible rows, and those of the true rows."""

    def strata(half: frozenset[str]) -> tuple[Stratum, ...]:
        own = {name: relation for name, relation in relations.items() if name in half}
        return stratify(own, [rule for rule in rules if rule.head.relation in half], (), report)

    return strata(possible), strata(frozenset(names) - possible)


def _check_cycles(
    graph: DependencyGraph[str],
    component_of: Mapping[str, int],
    found: Sequence[Dependency],
    every: Sequence[Dependency],
    relations: Mapping[str, Relation],
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
            f"the cycle is: {cycle}{_hint(steps, relations, orders)}",
            code="not-stratifiable",
        )


def _hint(cycle: Sequence[Dependency], relations: Mapping[str, Relation], orders: DeclaredOrders) -> str:
    """What else is possible: the first step of the cycle is a negation or an aggregate."""
    if cycle[0].how != "negates":
        return _AGGREGATES if orders else ""
    selected = (relations[step.user].subsumed or relations[step.user].choices for step in cycle)
    return "" if any(selected) or any(step.how == "aggregates over" for step in cycle) else _WELL_FOUNDED


_WELL_FOUNDED = "; the option negation=well-founded makes its rows true, false or undefined"
_AGGREGATES = (
    "; a 'min' is allowed in a recursion if a subsumption keeps the least value of the column that it"
    " aggregates and of the column of its result, a 'max' likewise with the greatest value"
)
