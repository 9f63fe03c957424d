"""`.plan` directives: the order in which to join the atoms of a rule.

    path(x, z) :- path(x, y), edge(y, z), good(y).
    .plan 0: (3, 2, 1)

As in Soufflé the atoms are counted from 1 as they are written, without negated ones, and a version
is the order for the changes of one recursive atom. A circuit joins in one order for all changes, so
it uses the order of the lowest version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dbsp.compiler.datalog.text import parsed
from dbsp.compiler.datalog.text.report import Report
from dbsp.compiler.datalog.tree import syntax


def plans_of_clauses(items: Sequence[parsed.Item], report: Report) -> Mapping[int, parsed.PlanDirective]:
    """Map the position of a rule among the items to the `.plan` directive after the rule."""
    found: dict[int, parsed.PlanDirective] = {}
    last: int | None = None
    for place, item in enumerate(items):
        if not isinstance(item, parsed.PlanDirective):
            last = place if isinstance(item, parsed.Clause) and item.body is not None else None
        elif last is None:
            message = ".plan without a rule before it"
            report.error(item.span, message, "write it directly after its rule", code="invalid-plan")
        elif last in found:
            message = "the rule has two .plan directives"
            hint = "write all versions in one: 0:(...), 1:(...)"
            report.error(item.span, message, hint, code="invalid-plan")
        else:
            found[last] = item
    return found


def order_of(
    plan: parsed.PlanDirective, body: Sequence[syntax.Literal], report: Report
) -> tuple[int, ...] | None:
    """The order of the positive atoms of a body, counted from 0; None after an error."""
    number = sum(isinstance(literal, syntax.Atom) for literal in body)
    errors = report.error_count
    orders: dict[int, parsed.PlanOrder] = {}
    for order in plan.orders:
        if order.version.value in orders:
            message = f"version {order.version.value} is written twice"
            report.error(order.version.span, message, code="invalid-plan")
        elif order.version.value >= max(number, 1):
            message = f"there is no version {order.version.value}: the body has {_atoms(number)}"
            hint = "versions are counted from 0, one for each recursive atom"
            report.error(order.version.span, message, hint, code="invalid-plan")
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
                f"the circuit joins in the order of version {first.version.value} for all changes",
                code="no-effect",
            )
    return tuple(position.value - 1 for position in first.positions)


def _check(order: parsed.PlanOrder, number: int, report: Report) -> None:
    """Report positions from 1 to `number` that are missing or repeated, and other positions."""
    atoms = _atoms(number)
    seen: set[int] = set()
    for position in order.positions:
        if not 1 <= position.value <= number:
            hint = "atoms are counted from 1, without negated ones" if number else None
            message = f"there is no atom {position.value}: the body has {atoms}"
            report.error(position.span, message, hint, code="invalid-plan")
        elif position.value in seen:
            message = f"atom {position.value} is in the plan twice"
            report.error(position.span, message, code="invalid-plan")
        seen.add(position.value)
    missing = [str(position) for position in range(1, number + 1) if position not in seen]
    if missing and len(seen) == len(order.positions) < number:
        noun = "atom" if len(missing) == 1 else "atoms"
        message = f"the plan lacks {noun} {', '.join(missing)}: the body has {atoms}"
        report.error(order.span, message, code="invalid-plan")


def _atoms(number: int) -> str:
    return f"{number} atom{'' if number == 1 else 's'}"
