"""The report about a chosen plan, as lines of text for `explain`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from dbsp.operators.planner.choose import ChosenPlan
from dbsp.operators.planner.combine import NodeEstimate
from dbsp.operators.planner.conjunction import Atom
from dbsp.operators.planner.tree import BinaryNode, LeafNode, MultiwayNode, Tree, nodes


def report(choice: ChosenPlan) -> Iterator[str]:
    """Yield the shape, the join tree, bounds, reasons, compared costs, and estimates per node."""
    atoms = [show_atom(atom) for atom in choice.conjunction.atoms]
    shape, *reasons = choice.reasons
    yield shape
    if choice.reduction.core:
        yield f"core: {', '.join(atoms[atom] for atom in choice.reduction.core)}"
    if choice.join_tree and len(atoms) > 1:
        name = "join tree" if choice.acyclic else "attached to the core"
        links = (
            f"{atoms[ear]} is a root" if up is None else f"{atoms[ear]} below {atoms[up]}"
            for ear, up in choice.join_tree
        )
        yield f"{name}: {'; '.join(links)}"
    yield _bounds(choice, atoms)
    yield from reasons
    for name, cost in choice.costs:
        yield (
            f"{name}: {_seconds(cost.load)} to load, {_seconds(cost.change)} per changed row, "
            f"{show_number(cost.kept)} rows kept"
        )
    estimates = {id(estimate.tree): estimate for estimate in choice.estimates}
    for node in nodes(choice.tree):
        if not isinstance(node, LeafNode):
            yield from _node(node, estimates.get(id(node)), atoms)


def show_atom(atom: Atom) -> str:
    """Return the text of an atom: e(a, 7, _)."""
    shown = ["_" if name is None else name for name in atom.variables]
    for column, value in atom.fixed:
        shown[column] = repr(value)
    for first, second in atom.equal:
        shown[second] = shown[first]
    return f"{atom.relation}({', '.join(shown)})"


def show_tree(tree: Tree, atoms: Sequence[str]) -> str:
    """Return two-way joins as (left ⋈ right), multi-way joins as [part, part, ...]."""
    match tree:
        case LeafNode(atom=atom):
            return atoms[atom]
        case BinaryNode(left=left, right=right):
            return f"({show_tree(left, atoms)} ⋈ {show_tree(right, atoms)})"
        case MultiwayNode(parts=parts):
            return f"[{', '.join(show_tree(part, atoms) for part in parts)}]"


def show_number(number: float) -> str:
    """Return a number with about three digits.

    >>> [show_number(number) for number in (0.4123, 12.61, 1234.0, 4.5611e9)]
    ['0.412', '12.6', '1,234', '4.56e+09']
    """
    return f"{number:,.0f}" if 100 <= number < 1e7 else f"{number:.3g}"


def _bounds(choice: ChosenPlan, atoms: Sequence[str]) -> str:
    weights = [Fraction(weight).limit_denominator(60) for weight in choice.cover]
    cover = " + ".join(f"{weight} {atom}" for weight, atom in zip(weights, atoms, strict=True) if weight)
    found = f"at most n^{choice.exponent:.3g} rows for n rows each"
    if choice.agm_bound is not None:
        found += f", {show_number(choice.agm_bound)} for the row counts"
    return f"{found} (cover: {cover or 'nothing'}); width {choice.width:.3g}"


def _node(node: Tree, estimate: NodeEstimate | None, atoms: Sequence[str]) -> Iterator[str]:
    yield show_tree(node, atoms)
    if estimate is not None:
        kept = "" if estimate.rows == estimate.joined else f", {show_number(estimate.rows)} after projection"
        yield f"  {show_number(estimate.joined)} rows expected{kept}"
    if not isinstance(node, MultiwayNode):
        return
    terms = estimate.terms if estimate is not None else ()
    for number, (part, order) in enumerate(zip(node.parts, node.orders, strict=True)):
        changed = f"  change of {show_tree(part, atoms)}: "
        if not terms:
            yield f"{changed}{', '.join(order) or 'nothing to bind'} (by the shape of the query)"
            continue
        levels = [
            f"{level.variable} ({show_number(level.proposals)} proposed by {atoms[level.proposer]}, "
            f"{show_number(level.prefixes)} left)"
            for level in terms[number].levels
        ]
        yield changed + (", ".join(levels) or "nothing to bind")


def _seconds(nanoseconds: float) -> str:
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.3g} {unit}"
    return f"{nanoseconds:.3g} ns"
