"""`.plan` directives: in which order the programmer wants the atoms of a rule to be joined.

    path(x, z) :- path(x, y), edge(y, z), good(y).
    .plan 0: (3, 2, 1)

As in Souffle the atoms are counted from 1 as they are written, without negated ones, and a version
is the order for the changes of one recursive atom. A circuit joins in one order, whatever changes, so the
order of the lowest version is taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dbsp.compiler.datalog.text import parsed
from dbsp.compiler.datalog.text.report import Report
from dbsp.compiler.datalog.tree import syntax


def plans_of_clauses(items: Sequence[parsed.Item], report: Report) -> Mapping[int, parsed.PlanDirective]:
    """By the place of a rule among the items, the directive that follows it."""
    found: dict[int, parsed.PlanDirective] = {}
    last: int | None = None
    for place, item in enumerate(items):
        if not isinstance(item, parsed.PlanDirective):
            last = place if isinstance(item, parsed.Clause) and item.body is not None else None
        elif last is None:
            report.error(item.span, "there is no rule before this .plan", "it stands right after its rule")
        elif last in found:
            report.error(
                item.span, "the rule has a .plan already", "give all versions in one: 0:(...), 1:(...)"
            )
        else:
            found[last] = item
    return found


def order_of(
    plan: parsed.PlanDirective, body: Sequence[syntax.Literal], report: Report
) -> tuple[int, ...] | None:
    """The order of the positive atoms of a body, counted from 0; None, with errors, if it is none."""
    number = sum(isinstance(literal, syntax.Atom) for literal in body)
    errors = report.error_count
    orders: dict[int, parsed.PlanOrder] = {}
    for order in plan.orders:
        if order.version.value in orders:
            report.error(order.version.span, f"version {order.version.value} is given twice")
        elif order.version.value >= max(number, 1):
            report.error(
                order.version.span,
                f"there is no version {order.version.value}: the body has {_atoms(number)}",
                "they are counted from 0, one for each recursive atom",
            )
        orders[order.version.value] = order
        _check(order, number, report)
    if report.error_count > errors:
        return None
    first = orders.pop(min(orders))
    for order in orders.values():
        if order.positions != first.positions:
            report.warning(
                order.span,
                f"version {order.version.value} of the plan is not used",
                f"the circuit joins in one order for all changes, that of version {first.version.value}",
            )
    return tuple(position.value - 1 for position in first.positions)


def _check(order: parsed.PlanOrder, number: int, report: Report) -> None:
    """Each position from 1 to `number` is there, once."""
    atoms = _atoms(number)
    seen: set[int] = set()
    for position in order.positions:
        if not 1 <= position.value <= number:
            hint = "they are counted from 1, without negated ones" if number else None
            report.error(position.span, f"there is no atom {position.value}: the body has {atoms}", hint)
        elif position.value in seen:
            report.error(position.span, f"atom {position.value} is in the plan already")
        seen.add(position.value)
    missing = [str(position) for position in range(1, number + 1) if position not in seen]
    if missing and len(seen) == len(order.positions) < number:
        report.error(order.span, f"the plan leaves out {', '.join(missing)} of the {atoms} of the body")


def _atoms(number: int) -> str:
    return f"{number} atom{'' if number == 1 else 's'}"
