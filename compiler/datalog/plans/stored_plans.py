"""The plans of a run as JSON, which a checkpoint keeps beside the circuit.

Only the choices of the planner are written, and only for rules whose steps differ from those that
the text alone gives. A plan follows from the normal form of its rule and these choices, so reading
repeats the planning with them. Of a join tree, the nodes are written, children first; the variables
of a node follow from the atoms below it (see `operators.planner.tree`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from dbsp.circuit.value_json import DecodeContext, decode, encode
from dbsp.compiler.datalog.meaning.checked import CheckedProgram, Rule
from dbsp.compiler.datalog.meaning.show import show_rule
from dbsp.compiler.datalog.plans.join_bodies import Policy
from dbsp.compiler.datalog.plans.plan_rules import plan_rules
from dbsp.compiler.datalog.plans.plan_steps import RulePlan
from dbsp.errors import CheckpointError, CircuitError
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.planner.acyclic import reduce_ears
from dbsp.operators.planner.choose import ChosenPlan
from dbsp.operators.planner.combine import NodeEstimate
from dbsp.operators.planner.conjunction import Conjunction
from dbsp.operators.planner.costs import Cost
from dbsp.operators.planner.estimate import Level, TermEstimate
from dbsp.operators.planner.shape import binary, multiway
from dbsp.operators.planner.statistics import Statistics
from dbsp.operators.planner.strategy import Strategy
from dbsp.operators.planner.tree import LeafNode, MultiwayNode, Tree, nodes


@dataclass(frozen=True, slots=True)
class StoredNode:
    """A node of a join tree, and its estimates if rows were counted.

    It is one atom, or a multi-way join of as many of the trees before it as it has orders. With
    neither, it is a two-way join of the two trees before it.
    """

    atom: int | None = None
    orders: tuple[tuple[str, ...], ...] = ()
    joined: float | None = None
    rows: float | None = None
    terms: tuple[TermEstimate, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredChoice:
    """The planner's choice for one group of atoms; `nodes` has the tree, children first."""

    nodes: tuple[StoredNode, ...]
    strategy: str
    sizes: tuple[float, ...] | None
    costs: tuple[tuple[str, Cost], ...]
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StoredRule:
    """The choices for a rule, which is named by its number and its text after the rewritings."""

    number: int
    text: str
    choices: tuple[StoredChoice, ...]


@dataclass(frozen=True, slots=True)
class StoredPlans:
    """What row counts chose for a program: relations to derive on demand with the reasons, and
    plans."""

    demanded: tuple[tuple[str, str], ...]
    rules: tuple[StoredRule, ...]


_CLASSES: Mapping[str, type] = {
    cls.__qualname__: cls
    for cls in (StoredPlans, StoredRule, StoredChoice, StoredNode, TermEstimate, Level, Cost)
}


class _OtherProgramError(ValueError):
    """The choices are not those of this program."""


# --- writing --------------------------------------------------------------------------------------


def written_plans(
    program: CheckedProgram,
    own: Mapping[int, RulePlan],
    plans: Mapping[int, RulePlan],
    demanded: Mapping[str, str],
) -> str | None:
    """Return the plans of a program as JSON; None if they are its `own`, without counts.

    `demanded` are the relations that counts selected for a derivation on demand, with the reasons.
    Cost: O(rules), and the size of the plans that differ.
    """
    differing = [rule for rule in program.clauses if plans[rule.number].steps != own[rule.number].steps]
    rules = tuple(_stored_rule(rule, plans[rule.number]) for rule in differing)
    if not rules and not demanded:
        return None
    return json.dumps(encode(StoredPlans(tuple(demanded.items()), rules)), separators=(",", ":"))


def _stored_rule(rule: Rule, plan: RulePlan) -> StoredRule:
    return StoredRule(rule.number, show_rule(rule), tuple(_stored(group.choice) for group in plan.joined))


def _stored(choice: ChosenPlan) -> StoredChoice:
    trees = tuple(nodes(choice.tree))
    estimates = choice.estimates or (None,) * len(trees)
    return StoredChoice(
        tuple(_stored_node(tree, estimate) for tree, estimate in zip(trees, estimates, strict=True)),
        choice.strategy.value,
        choice.sizes,
        choice.costs,
        choice.reasons,
    )


def _stored_node(tree: Tree, estimate: NodeEstimate | None) -> StoredNode:
    atom = tree.atom if isinstance(tree, LeafNode) else None
    orders = tree.orders if isinstance(tree, MultiwayNode) else ()
    if estimate is None:
        return StoredNode(atom, orders)
    return StoredNode(atom, orders, estimate.joined, estimate.rows, estimate.terms)


# --- reading --------------------------------------------------------------------------------------


def read_plans(document: str) -> StoredPlans:
    """Return stored plans from JSON, which can name no function and no other class.

    Raises CheckpointError if the document has another form than this version writes.
    """
    try:
        stored = decode(json.loads(document), DecodeContext(_CLASSES))
        if not isinstance(stored, StoredPlans):
            raise TypeError(f"expected plans, got {type(stored).__name__}")
        for rule in stored.rules:
            for choice in rule.choices:
                Strategy(choice.strategy)
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError, CircuitError) as error:
        raise CheckpointError(
            f"cannot read the plans of the checkpoint ({type(error).__name__}: {error}); continue with the "
            "version of dbsp that wrote it",
            code="checkpoint-unreadable",
        ) from None
    return stored


def restored_plans(stored: StoredPlans, program: CheckedProgram) -> dict[int, RulePlan] | None:
    """Return the stored plans of rules of a program, by number; None if they are not its plans."""
    rules = {rule.number: rule for rule in program.clauses}
    found: list[Rule] = []
    for each in stored.rules:
        rule = rules.get(each.number)
        if rule is None or show_rule(rule) != each.text:
            return None
        found.append(rule)
    choices = (choice for each in stored.rules for choice in each.choices)

    def recorded(conjunction: Conjunction) -> ChosenPlan:
        choice = next(choices, None)
        if choice is None:
            raise _OtherProgramError
        return _choice(choice, conjunction)

    try:
        plans = plan_rules(program, Policy(Statistics.none(), recorded=recorded), found)
    except _OtherProgramError:
        return None
    return plans if next(choices, None) is None else None


def _choice(stored: StoredChoice, conjunction: Conjunction) -> ChosenPlan:
    """Return the choice for a conjunction. Raises _OtherProgramError if it is of another one."""
    atoms = sorted(node.atom for node in stored.nodes if node.atom is not None)
    if atoms != list(range(len(conjunction.atoms))):
        raise _OtherProgramError
    line: list[Tree] = []
    trees: list[Tree] = []
    for node in stored.nodes:
        size = 0 if node.atom is not None else len(node.orders) or 2
        repeated = any(len(set(order)) < len(order) for order in node.orders)
        if len(line) < size or repeated:
            raise _OtherProgramError
        parts = line[len(line) - size :]
        del line[len(line) - size :]
        if node.atom is not None:
            tree: Tree = LeafNode(node.atom)
        elif node.orders:
            tree = multiway(conjunction, parts, node.orders)
        else:
            tree = binary(conjunction, *parts)
        line.append(tree)
        trees.append(tree)
    if len(line) != 1:
        raise _OtherProgramError
    estimates = [
        NodeEstimate(tree, node.joined, node.rows, node.terms)
        for tree, node in zip(trees, stored.nodes, strict=True)
        if node.joined is not None and node.rows is not None
    ]
    return ChosenPlan(
        conjunction,
        line[0],
        Strategy(stored.strategy),
        reduce_ears(conjunction.closed_edges),
        stored.sizes,
        tuple(estimates),
        stored.costs,
        stored.reasons,
    )
