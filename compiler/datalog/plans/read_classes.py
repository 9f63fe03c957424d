"""Let rules that read an equivalence read its classes: n rows instead of up to n^2.

    p(x) :- same(x, y), q(y).      is      p(x) :- same#classes(x, k), same#classes(y, k), q(y).

Every value has one class, so the number of ways to satisfy the body stays the same. The planner
may start with either atom. The pairs are computed only if an output or a negation needs them. Rules
with a `.plan` keep their atoms.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import count

from dbsp.compiler.datalog.plans.normalise import AggregateLiteral, NormalLiteral, NormalRule, Scan


def classes_name(relation: str) -> str:
    """Return the name of the classes of an equivalence; no name in a source has a `#`."""
    return f"{relation}#classes"


def read_classes(rule: NormalRule, equivalences: Collection[str]) -> NormalRule:
    """Replace the equivalences in a rule by their classes."""
    if not equivalences or rule.body is None or rule.rule.order is not None:
        return rule
    numbers = count(1)
    return replace(rule, body=tuple(_literals(rule.body, equivalences, numbers, bag=False)))


def _literals(
    body: Sequence[NormalLiteral], equivalences: Collection[str], numbers: Iterator[int], bag: bool
) -> Iterator[NormalLiteral]:
    for literal in body:
        match literal:
            case Scan(relation=name) if name in equivalences:
                yield from _scans(literal, numbers, bag)
            case AggregateLiteral(body=inner):
                yield replace(literal, body=tuple(_literals(inner, equivalences, numbers, bag=True)))
            case _:
                yield literal


def _scans(scan: Scan, numbers: Iterator[int], bag: bool) -> Iterator[Scan]:
    """Yield a scan of the classes for each used value, with a common class."""
    name = classes_name(scan.relation)
    constants = dict(scan.constants)
    if scan.equal:  # every value in the relation is equal to itself
        yield Scan(name, (scan.variables[0], None), (), (), scan.span)
        return
    # In a bag the number of equal values counts, so both sides are read.
    sides = [side for side in (0, 1) if bag or scan.variables[side] is not None or side in constants]
    shared = f"#k{next(numbers)}" if len(sides) == 2 else None
    for side in sides or [0]:
        own = ((0, constants[side]),) if side in constants else ()
        yield Scan(name, (scan.variables[side], shared), own, (), scan.span)
