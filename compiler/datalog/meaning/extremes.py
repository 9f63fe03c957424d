"""The aggregates that are allowed in a recursion: those that are monotone in dominating rows.

    cost(y, d) :- edge(_, y, _), d = min c + w : { cost(x, c), edge(x, y, w) }.
    cost(x, c) <= cost(x, d) :- d < c.

The subsumption keeps the rows with the smallest c. A `min` of an expression that increases with c
gets smaller when rows have a smaller c and when there are more rows, so its later results dominate
its earlier ones. With `max` it is the other way round. Other aggregates would depend on their own
absence.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.dominance import extreme
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.traversal import find, variables

DeclaredOrders = Mapping[str, tuple[int, bool]]
"""By relation, the column of which its subsumption keeps the least or (True) the greatest value."""


def orders_of(subsumptions: Sequence[checked.Rule]) -> DeclaredOrders:
    """The orders of the relations that have one subsumption, by one column."""
    by_name: dict[str, list[checked.Rule]] = {}
    for rule in subsumptions:
        by_name.setdefault(rule.head.relation, []).append(rule)
    found = {name: extreme(rules[0]) for name, rules in by_name.items() if len(rules) == 1}
    return {name: order for name, order in found.items() if order is not None}


def is_monotone(rule: checked.Rule, own: Collection[str], orders: DeclaredOrders) -> bool:
    """Whether dominating rows of `own`, the relations of a recursion, give dominating head rows."""
    order = orders.get(rule.head.relation)
    if order is None:
        return False
    column, greatest = order
    results: set[str] = set()
    aggregates: list[syntax.Aggregate] = []
    for literal in rule.body:
        if not _mentions(literal, own):
            continue
        match literal:
            case syntax.Comparison(
                "=", syntax.Variable(name=name), syntax.Aggregate() as aggregate
            ) | syntax.Comparison("=", syntax.Aggregate() as aggregate, syntax.Variable(name=name)):
                results.add(name)
                aggregates.append(aggregate)
            case _:
                return False
    kept = [literal for literal in rule.body if not _mentions(literal, own)]
    others = [term for at, term in enumerate(rule.head.arguments) if at != column]
    if any(variables(part) & results or _mentions(part, own) for part in (*kept, *others)):
        return False
    best = rule.head.arguments[column]
    if isinstance(best, syntax.Aggregate) and _mentions(best, own):
        aggregates.append(best)
    elif not _rises(best, results) or _mentions(best, own):
        return False
    return all(_is_monotone(aggregate, own, orders, greatest) for aggregate in aggregates)


def _is_monotone(
    aggregate: syntax.Aggregate, own: Collection[str], orders: DeclaredOrders, greatest: bool
) -> bool:
    if aggregate.function != ("max" if greatest else "min") or aggregate.value is None:
        return False
    rising: set[str] = set()
    rest: list[syntax.Literal | syntax.Term] = []
    for literal in aggregate.literals:
        if isinstance(literal, syntax.Atom) and literal.relation in own:
            column, direction = orders.get(literal.relation, (-1, not greatest))
            if direction != greatest:
                return False
            best = literal.arguments[column]
            if isinstance(best, syntax.Variable) and best.name not in rising:
                rising.add(best.name)
            elif not isinstance(best, syntax.Wildcard):
                return False
            rest += [term for at, term in enumerate(literal.arguments) if at != column]
        elif _mentions(literal, own):
            return False
        else:
            rest.append(literal)
    grown = True
    while grown:
        grown = False
        for remaining in rest:
            match remaining:
                case syntax.Comparison("=", syntax.Variable(name=name), term) if _depends(term, rising):
                    pass
                case syntax.Comparison("=", term, syntax.Variable(name=name)) if _depends(term, rising):
                    pass
                case _:
                    continue
            rising.add(name)
            rest.remove(remaining)
            grown = True
            break
    fixed = set(aggregate.injected).union(*map(variables, rest))
    return not fixed & rising and _rises(aggregate.value, rising)


def _depends(term: syntax.Term, rising: set[str]) -> bool:
    """Whether a term has some of these variables and does not decrease when they increase."""
    return bool(variables(term) & rising) and _rises(term, rising)


def _rises(term: syntax.Term, rising: set[str]) -> bool:
    """Whether a term does not decrease when these variables increase."""
    match term:
        case syntax.Variable():
            return True
        case syntax.Call(function="+" | "min" | "max", arguments=arguments) if term.kind.numeric:
            return all(_rises(part, rising) for part in arguments)
        case syntax.Call(function="-", arguments=(left, right)):
            return _rises(left, rising) and not variables(right) & rising
        case _:
            return not variables(term) & rising


def _mentions(node: syntax.Node, relations: Collection[str]) -> bool:
    """Whether a literal or a term contains one of the relations."""
    return any(atom.relation in relations for atom in find(node, syntax.Atom))
