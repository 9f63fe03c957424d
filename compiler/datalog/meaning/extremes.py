"""Which aggregates may stand in a recursion: those that better rows only make better.

    cost(y, d) :- edge(_, y, _), d = min c + w : { cost(x, c), edge(x, y, w) }.
    cost(x, c) <= cost(x, d) :- d < c.

The subsumption says which rows are better: those with a smaller c. A `min` of what grows with c gets smaller
when rows get better and when there are more of them, so what it has given before is dominated by what it
gives later. With `max` it is the other way round. Other aggregates would depend on their own absence.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.dominance import extreme

Orders = Mapping[str, tuple[int, bool]]
"""By relation, the column of which its subsumption leaves the least or (True) the greatest value."""


def orders_of(subsumptions: Sequence[checked.Rule]) -> Orders:
    """The orders of the relations that have one subsumption, by one column."""
    by_name: dict[str, list[checked.Rule]] = {}
    for rule in subsumptions:
        by_name.setdefault(rule.head.relation, []).append(rule)
    found = {name: extreme(rules[0]) for name, rules in by_name.items() if len(rules) == 1}
    return {name: order for name, order in found.items() if order is not None}


def gets_better(rule: checked.Rule, own: Collection[str], orders: Orders) -> bool:
    """Whether better rows of the relations `own`, a recursion, give better rows of the head."""
    order = orders.get(rule.head.relation)
    if order is None:
        return False
    column, greatest = order
    results: set[str] = set()
    aggregates: list[checked.Aggregate] = []
    for literal in rule.body:
        if not _looks_at(literal, own):
            continue
        match literal:
            case checked.Comparison(
                "=", checked.Variable(name=name), checked.Aggregate() as aggregate
            ) | checked.Comparison("=", checked.Aggregate() as aggregate, checked.Variable(name=name)):
                results.add(name)
                aggregates.append(aggregate)
            case _:
                return False
    kept = [literal for literal in rule.body if not _looks_at(literal, own)]
    others = [term for at, term in enumerate(rule.head.arguments) if at != column]
    if any(_names(part) & results or _looks_at(part, own) for part in (*kept, *others)):
        return False
    best = rule.head.arguments[column]
    if isinstance(best, checked.Aggregate) and _looks_at(best, own):
        aggregates.append(best)
    elif not _rises(best, results) or _looks_at(best, own):
        return False
    return all(_gets_better(aggregate, own, orders, greatest) for aggregate in aggregates)


def _gets_better(aggregate: checked.Aggregate, own: Collection[str], orders: Orders, greatest: bool) -> bool:
    if aggregate.function != ("max" if greatest else "min") or aggregate.value is None:
        return False
    rising: set[str] = set()
    rest: list[checked.Literal | checked.Term] = []
    for literal in aggregate.body:
        if isinstance(literal, checked.Atom) and literal.relation in own:
            column, direction = orders.get(literal.relation, (-1, not greatest))
            if direction != greatest:
                return False
            best = literal.arguments[column]
            if isinstance(best, checked.Variable) and best.name not in rising:
                rising.add(best.name)
            elif not isinstance(best, checked.Wildcard):
                return False
            rest += [term for at, term in enumerate(literal.arguments) if at != column]
        elif _looks_at(literal, own):
            return False
        else:
            rest.append(literal)
    grown = True
    while grown:
        grown = False
        for one in rest:
            match one:
                case checked.Comparison("=", checked.Variable(name=name), term) if _risen(term, rising):
                    pass
                case checked.Comparison("=", term, checked.Variable(name=name)) if _risen(term, rising):
                    pass
                case _:
                    continue
            rising.add(name)
            rest.remove(one)
            grown = True
            break
    fixed = set(aggregate.injected).union(*map(_names, rest))
    return not fixed & rising and _rises(aggregate.value, rising)


def _risen(term: checked.Term, rising: set[str]) -> bool:
    return bool(_names(term) & rising) and _rises(term, rising)


def _rises(term: checked.Term, rising: set[str]) -> bool:
    """Whether a term gets no smaller when these variables get larger."""
    match term:
        case checked.Variable():
            return True
        case checked.Call(function="+" | "min" | "max", arguments=arguments) if term.kind.numeric:
            return all(_rises(part, rising) for part in arguments)
        case checked.Call(function="-", arguments=(left, right)):
            return _rises(left, rising) and not _names(right) & rising
        case _:
            return not _names(term) & rising


def _names(part: checked.Literal | checked.Term) -> set[str]:
    """All variables in a literal or a term."""
    match part:
        case checked.Variable(name=name):
            return {name}
        case checked.Atom(arguments=terms) | checked.Call(arguments=terms):
            return set().union(*map(_names, terms))
        case checked.Negation(atom=atom):
            return _names(atom)
        case checked.Comparison(left=left, right=right):
            return _names(left) | _names(right)
        case checked.Aggregate(value=value, body=body):
            return set().union(*map(_names, body), _names(value) if value is not None else ())
        case _:
            return set()


def _looks_at(part: checked.Literal | checked.Term, relations: Collection[str]) -> bool:
    """Whether one of the relations stands in a literal or a term."""
    match part:
        case checked.Atom(relation=relation, arguments=terms):
            return relation in relations or any(_looks_at(term, relations) for term in terms)
        case checked.Negation(atom=atom):
            return _looks_at(atom, relations)
        case checked.Comparison(left=left, right=right):
            return _looks_at(left, relations) or _looks_at(right, relations)
        case checked.Call(arguments=terms):
            return any(_looks_at(term, relations) for term in terms)
        case checked.Aggregate(value=value, body=body):
            inner = (*body, *(() if value is None else (value,)))
            return any(_looks_at(one, relations) for one in inner)
        case _:
            return False
