"""Rule bodies as input of the query planner: connected scans, and their conjunction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from dbsp.compiler.datalog.plans.literals import equations, is_partial, is_safe, uses
from dbsp.compiler.datalog.plans.normalise import Condition, NormalLiteral, Scan
from dbsp.compiler.datalog.tree.traversal import variables
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.planner.choose import ChosenPlan, choose
from dbsp.operators.planner.conjunction import Atom, Conjunction, Functions, determined
from dbsp.operators.planner.statistics import Statistics
from dbsp.operators.planner.strategy import Strategy
from dbsp.operators.planner.tree import BinaryNode, LeafNode, MultiwayNode, Tree, atoms_of


@dataclass(frozen=True)
class Policy:
    """The basis for choosing joins: row counts, a strategy, and an order of the scans or None.

    An index outside of the run keeps the rows of the `external` relations. Nothing that is derived
    from them alone may be stored, so the scans of a body are joined one after the other to other
    rows, or all in one multi-way join; also those that share no variable.
    """

    statistics: Statistics
    strategy: Strategy = Strategy.AUTO
    order: tuple[int, ...] | None = None
    external: frozenset[str] = frozenset()
    decide: Callable[[Conjunction], Strategy] | None = None
    """Chooses the strategy for each conjunction, instead of `strategy`."""
    recorded: Callable[[Conjunction], ChosenPlan] | None = None
    """Returns an earlier choice for each conjunction, instead of the planner."""

    def choose(self, conjunction: Conjunction) -> ChosenPlan:
        """Return the planner's choice."""
        if self.recorded is not None:
            return self.recorded(conjunction)
        if self.order is not None:
            return choose(conjunction, self.statistics, Strategy.BINARY, self.order)
        strategy = self.strategy if self.decide is None else self.decide(conjunction)
        return choose(conjunction, self.statistics, strategy)


def functions_of(body: Iterable[NormalLiteral], reserved: Iterable[str]) -> Functions:
    """Return (z, {x, y}) for every equation z = f(x, y) that may be used once x and y are bound.

    No equation binds a `reserved` variable: an aggregate or a numbering binds it.
    """
    return [
        (name, variables(term))
        for literal in body
        if isinstance(literal, Condition) and not is_partial(literal)
        for name, term in equations(literal)
        if name not in reserved and is_safe(term)
    ]


def connected_scans(scans: Sequence[Scan], start: Iterable[str], functions: Functions) -> tuple[Scan, ...]:
    """Return the scans connected to `start`, through shared variables and through functions."""
    reached = set(start)
    left = [*scans]
    linked = [{name, *arguments} for name, arguments in functions if arguments]
    grown = True
    while grown:
        near = [scan for scan in left if not reached.isdisjoint(scan.names)]
        left = [scan for scan in left if reached.isdisjoint(scan.names)]
        links = [names for names in linked if not reached.isdisjoint(names)]
        linked = [names for names in linked if reached.isdisjoint(names)]
        reached.update(*(scan.names for scan in near), *links)
        grown = bool(near or links)
    return tuple(scan for scan in scans if not any(scan is other for other in left))


def conjunction_of(
    scans: Sequence[Scan],
    found: Sequence[str] | None,
    body: Sequence[NormalLiteral],
    reserved: Iterable[str],
    needed: frozenset[str],
) -> Conjunction:
    """Return the conjunction to plan.

    Its atoms are the scans, followed by the rows found so far, with the variables `found` (None:
    no rows yet). It has the conditions and equations of the body whose variables these atoms bind.
    `needed` are the variables that are used after the body.
    """
    atoms = [
        Atom(
            scan.relation,
            scan.variables,
            tuple((column, constant.value) for column, constant in scan.constants),
            scan.equal,
        )
        for scan in scans
    ]
    if found is not None:
        atoms.append(Atom("rows so far", tuple(found)))
    functions = functions_of(body, reserved)
    bound = determined((name for atom in atoms for name in atom.names), functions)
    inside = [
        literal
        for literal in body
        if (isinstance(literal, Condition) and fits(literal, bound))
        or (isinstance(literal, Scan) and any(literal is scan for scan in scans))
    ]
    outside = [literal for literal in body if not any(literal is inner for inner in inside)]
    return Conjunction(
        tuple(atoms),
        bound & needed.union(*map(uses, outside)),
        tuple(literal.names for literal in inside if isinstance(literal, Condition)),
        tuple(function for function in functions if function[1] <= bound),
    )


def fits(literal: Condition, bound: Iterable[str]) -> bool:
    """Whether joins that bind these variables may check a condition."""
    return not is_partial(literal) and literal.names <= frozenset(bound)


def spine(tree: Tree, found: int | None) -> Iterator[Tree]:
    """Yield the tree as a sequence of joins: each tree is joined to the result of the earlier ones.

    The atom `found` represents the rows found so far, so it comes first. It is not an element of
    the sequence, but may be a part of the first tree if that is a multi-way join.
    """
    match tree:
        case LeafNode(atom) if atom == found:
            return
        case BinaryNode(left=left, right=right):
            if found in atoms_of(right) or (
                isinstance(left, LeafNode) and left.atom != found and not isinstance(right, LeafNode)
            ):
                left, right = right, left
            yield from spine(left, found)
            yield right
        case MultiwayNode(parts=parts, orders=orders, keep=keep) if found is not None:
            for number, part in enumerate(parts):
                if found in atoms_of(part) and not isinstance(part, LeafNode):
                    yield from spine(part, found)
                    parts = (*parts[:number], LeafNode(found), *parts[number + 1 :])
            yield MultiwayNode(parts, orders, keep)
        case _:
            yield tree
