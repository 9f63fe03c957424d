"""The chosen plan: it is valid, and it follows the hints."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp.kernels.arrays import Codes
from dbsp.operators.planner.choose import ChosenPlan, choose
from dbsp.operators.planner.conjunction import Atom, Conjunction
from dbsp.operators.planner.estimate import Estimator
from dbsp.operators.planner.statistics import Statistics
from dbsp.operators.planner.strategy import Strategy
from dbsp.operators.planner.tree import BinaryNode, LeafNode, MultiwayNode, Tree, atoms_of, nodes
from tests.operators.planner.planner_support import conjunctions, graph, joined, query, relations


def show(tree: Tree, conjunction: Conjunction) -> str:
    match tree:
        case LeafNode(atom=atom):
            return "".join(name or "_" for name in conjunction.atoms[atom].variables)
        case BinaryNode(left=left, right=right):
            return f"({show(left, conjunction)} * {show(right, conjunction)})"
        case MultiwayNode(parts=parts):
            return f"[{' '.join(show(part, conjunction) for part in parts)}]"


def by_shape(text: str, needed: str | None = None) -> str:
    conjunction = query(text, needed)
    return show(choose(conjunction).tree, conjunction)


def counted(
    conjunction: Conjunction, data: dict[str, Codes], strategy: Strategy = Strategy.AUTO
) -> ChosenPlan:
    return choose(conjunction, Statistics(data.get), strategy)


def check(tree: Tree, conjunction: Conjunction) -> None:
    """Every atom is joined once; each node keeps the needed variables and joins on all shared
    ones."""
    leaves = [node.atom for node in nodes(tree) if isinstance(node, LeafNode)]
    assert sorted(leaves) == list(range(len(conjunction.atoms)))
    for node in nodes(tree):
        if isinstance(node, LeafNode):
            continue
        assert node.keep == conjunction.kept(atoms_of(node))
        below = conjunction.kept
        if isinstance(node, BinaryNode):
            shared = set(below(atoms_of(node.left))) & set(below(atoms_of(node.right)))
            assert set(node.on) == shared
            continue
        kept = [set(below(atoms_of(part))) for part in node.parts]
        for own, order in zip(kept, node.orders, strict=True):
            others = set().union(*kept) - own
            computed = {result for result, _ in conjunction.functions}
            assert len(set(order)) == len(order)
            assert others - computed <= set(order) <= others
    if len(conjunction.atoms) > 1:
        assert not isinstance(tree, LeafNode)
        assert set(tree.keep) == conjunction.needed


@given(conjunctions(), st.one_of(st.none(), relations()), st.sampled_from(Strategy), st.randoms())
def test_every_choice_is_a_plan(
    conjunction: Conjunction, data: dict[str, Codes] | None, strategy: Strategy, random: Random
) -> None:
    statistics = None if data is None else Statistics(data.get)
    order = list(range(len(conjunction.atoms)))
    random.shuffle(order)
    given_order = order if strategy is not Strategy.WCOJ and random.random() < 0.3 else None
    choice = choose(conjunction, statistics, strategy, given_order)
    check(choice.tree, conjunction)
    kinds = {type(node) for node in nodes(choice.tree)}
    if strategy is Strategy.BINARY or given_order:
        assert MultiwayNode not in kinds
    elif strategy is Strategy.WCOJ:
        assert BinaryNode not in kinds
    if given_order:
        assert [node.atom for node in nodes(choice.tree) if isinstance(node, LeafNode)] == order
    assert choice == choose(
        conjunction, None if data is None else Statistics(data.get), strategy, given_order
    )
    assert [estimate.tree for estimate in choice.estimates] == (
        [] if data is None else list(nodes(choice.tree))
    )


@pytest.mark.parametrize(
    ("text", "needed", "plan"),
    [
        ("ab", None, "ab"),
        ("ab bc cd", None, "((ab * bc) * cd)"),
        ("ab cd bc", None, "((ab * bc) * cd)"),
        ("ab ac ad", None, "((ab * ac) * ad)"),
        ("ab bc ac", None, "[ab bc ac]"),
        ("ab bc cd da", "", "[ab bc cd da]"),
        ("ab bc ac cd", None, "([ab bc ac] * cd)"),  # the tail adds d
        ("cd ab bc ac", "abc", "[cd ab bc ac]"),  # the tail only filters
        ("a ab bc ac", None, "[a ab bc ac]"),
        ("ab bc ac cd de ef df", None, "(([ab bc ac] * cd) * [de ef df])"),
        ("ab bc ac abc", None, "(((ab * abc) * bc) * ac)"),  # acyclic
        ("ab bc ac xy yz xz", None, "([ab bc ac] * [xy yz xz])"),
    ],
)
def test_plans_by_shape(text: str, needed: str | None, plan: str) -> None:
    assert by_shape(text, needed) == plan


def test_the_facts_about_a_shape() -> None:
    choice = choose(query("ab bc ac cd"))
    assert (choice.acyclic, choice.kind, choice.reduction.core) == (False, "hybrid", (0, 1, 2))
    assert choice.join_tree == ((3, 1),)
    assert (choice.exponent, choice.width, choice.agm_bound) == (pytest.approx(2), pytest.approx(1.5), None)
    assert choice.reasons == (
        "cyclic: Graham's reduction leaves 3 atoms",
        "a multi-way join of the core, because two-way joins may create more rows than the largest result; "
        "no row counts for e",
    )
    assert choose(query("ab bc")).reasons[0] == "acyclic: Graham's reduction removes every atom"
    assert choose(query("ab cd")).reasons[-1] == "a cross product: some atoms share no variable"


def test_a_triangle_of_a_skewed_graph_is_joined_at_once() -> None:
    conjunction = query("ab bc ac")
    choice = counted(conjunction, {"e": graph(2_000, 20_000, 0.7)})
    assert (choice.kind, sorted(atoms_of(choice.tree))) == ("multiway", [0, 1, 2])
    costs = dict(choice.costs)
    assert costs["multiway"].total < costs["binary"].total
    assert costs["multiway"].kept < costs["binary"].kept
    assert choice.reasons[1].startswith("one multi-way join, the cheapest plan by the row counts (")
    assert choice.agm_bound == pytest.approx(len(graph(2_000, 20_000, 0.7)) ** 1.5)
    (estimate,) = [one for one in choice.estimates if isinstance(one.tree, MultiwayNode)]
    assert [term.order for term in estimate.terms] == list(estimate.tree.orders)


def test_a_chain_of_foreign_keys_is_joined_two_at_a_time() -> None:
    orders = np.array([[order, order % 500] for order in range(5_000)])
    customers = np.array([[customer, customer % 20] for customer in range(500)])
    regions = np.array([[region, region % 3] for region in range(20)])
    conjunction = query("oc cr rn", relations=["orders", "customers", "regions"])
    choice = counted(conjunction, {"orders": orders, "customers": customers, "regions": regions})
    assert (choice.kind, choice.acyclic) == ("binary", True)


def test_a_selective_constant_is_first() -> None:
    data = {"e": graph(500, 5_000, 0.2)}
    atoms = (Atom("e", ("a", "b")), Atom("e", ("b", "c")), Atom("e", ("c", None), ((1, 7),)))
    conjunction = Conjunction(atoms, frozenset("a"))
    choice = choose(conjunction, Statistics(data.get, encode=lambda relation, column, value: value))
    assert show(choice.tree, conjunction) == "(ab * (bc * c_))"


def test_two_triangles_with_a_bridge_become_a_hybrid() -> None:
    conjunction = query("ab bc ac cd de ef df", "cd")
    data = {"e": graph(1_000, 8_000, 0.5)}
    choice = counted(conjunction, data)
    assert choice.kind == "hybrid"
    triangles = {atoms_of(node) for node in nodes(choice.tree) if isinstance(node, MultiwayNode)}
    assert triangles == {frozenset({0, 1, 2}), frozenset({4, 5, 6})}
    costs = dict(choice.costs)
    assert costs["hybrid"].total <= min(costs["binary"].total, costs["multiway"].total)


def test_atoms_attached_to_a_core_may_be_a_part_of_its_node() -> None:
    conjunction = query("ab bc ac cd de", "abc")
    data = {"e": graph(500, 5_000, 0.6)}
    choice = counted(conjunction, data)
    hanging = [part for node in nodes(choice.tree) if isinstance(node, MultiwayNode) for part in node.parts]
    assert frozenset({3, 4}) in set(map(atoms_of, hanging))
    check(choice.tree, conjunction)


@pytest.mark.parametrize(
    "text",
    [
        "ab bc cd de ef fg gh hi ij jk kl lm",
        "ab ac ad ae af ag ah ai aj ak al",
        "ab bc ac cd de ce ef fg eg gh hi gi",
    ],
)
def test_queries_too_large_for_an_exact_search(text: str) -> None:
    conjunction = query(text, "a")
    data = {"e": graph(200, 400, 0.2)}
    for strategy in Strategy:
        check(counted(conjunction, data, strategy).tree, conjunction)
    assert choose(conjunction).tree == choose(conjunction, Statistics.none()).tree


def test_the_chosen_plan_never_costs_more_than_the_pure_ones() -> None:
    data = {"e": graph(500, 4_000, 0.6)}
    for text in ["ab bc ac", "ab bc cd da", "ab bc cd", "ab ac ad", "ab bc ac bd cd", "ab bc ac cd"]:
        costs = dict(counted(query(text), data).costs)
        taken = counted(query(text), data)
        margin = 0.8 if taken.acyclic else 1.0
        assert (
            dict(taken.costs)[taken.kind].total * margin <= min(cost.total for cost in costs.values()) * 1.001
        )


def test_an_unknown_relation_is_planned_by_shape() -> None:
    conjunction = query("ab bc ac", relations=["e", "f", "e"])
    choice = counted(conjunction, {"e": graph(100, 300, 0.2)})
    assert choice.tree == choose(conjunction).tree
    assert choice.reasons[1].endswith("; no row counts for f")
    assert (choice.agm_bound, choice.estimates, choice.costs) == (None, (), ())


@pytest.mark.parametrize(
    ("strategy", "order", "message"),
    [
        (Strategy.AUTO, [0, 1], r"expected an order of the atoms 0 to 2, got \[0, 1\]"),
        (Strategy.WCOJ, [0, 1, 2], "has no order of atoms; use either the order or the strategy"),
    ],
)
def test_invalid_hints(strategy: Strategy, order: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        choose(query("ab bc ac"), None, strategy, order)


def test_a_conjunction_has_atoms_and_binds_the_needed_variables() -> None:
    with pytest.raises(ValueError, match="expected at least one atom in the conjunction, got none"):
        choose(Conjunction(()))
    with pytest.raises(ValueError, match="no atom and no function binds z"):
        query("ab", "az")


def test_computed_variables_replace_their_arguments() -> None:
    atoms = (Atom("e", ("x", "y")), Atom("f", ("y", "u")), Atom("g", ("z", "u")))
    conjunction = Conjunction(atoms, frozenset("u"), functions=(("z", frozenset("xy")),))
    assert conjunction.kept({0}) == ("y", "z")
    assert conjunction.kept({0, 1}) == ("u", "z")
    assert not choose(conjunction).acyclic  # e binds y and z, f y and u, g z and u
    check(choose(conjunction).tree, conjunction)


def test_an_order_names_the_variables_that_the_parts_keep() -> None:
    # The second atom keeps z in place of y.
    atoms = (Atom("e", ("x", "z")), Atom("e", (None, "y")), Atom("e", ("x", "u")))
    conjunction = Conjunction(atoms, frozenset("xu"), functions=(("z", frozenset("y")),))
    assert conjunction.kept({1}) == ("z",)
    for statistics in (Statistics.none(), Statistics({"e": graph(50, 100, 0.1)}.get)):
        tree = choose(conjunction, statistics, Strategy.WCOJ).tree
        assert isinstance(tree, MultiwayNode)
        orders = {
            part.atom: order
            for part, order in zip(tree.parts, tree.orders, strict=True)
            if isinstance(part, LeafNode)
        }
        assert {atom: set(order) for atom, order in orders.items()} == {0: {"u"}, 1: {"x", "u"}, 2: {"z"}}


def test_the_join_is_the_same_by_every_plan() -> None:
    """Joining along the tree, with its projections, yields the result."""
    data = {"e": graph(12, 40, 0.3)}
    conjunction = query("ab bc ac cd", "ad")
    names = conjunction.variables
    wanted = {
        tuple(row[names.index(name)] for name in ("a", "d")) for row in joined(conjunction, data, range(4))
    }

    def evaluate(tree: Tree) -> tuple[tuple[str, ...], set[tuple[int, ...]]]:
        keep = conjunction.kept(atoms_of(tree))
        if isinstance(tree, LeafNode):
            atom = conjunction.atoms[tree.atom]
            return keep, {tuple(row[atom.variables.index(n)] for n in keep) for row in data["e"].tolist()}
        parts = [tree.left, tree.right] if isinstance(tree, BinaryNode) else list(tree.parts)
        found: list[dict[str, int]] = [{}]
        for part in parts:
            columns, rows = evaluate(part)
            found = [
                one | dict(zip(columns, row, strict=True))
                for one in found
                for row in rows
                if all(one.get(name, value) == value for name, value in zip(columns, row, strict=True))
            ]
        return keep, {tuple(one[name] for name in keep) for one in found}

    for strategy in Strategy:
        assert evaluate(counted(conjunction, data, strategy).tree) == (("a", "d"), wanted)


@pytest.mark.parametrize(
    ("parts", "orders", "message"),
    [
        ((LeafNode(0),), ((),), "expected at least two parts of a multi-way join, got 1"),
        ((LeafNode(0), LeafNode(1)), ((),), "expected 2 orders, one for each part, got 1"),
    ],
)
def test_a_multiway_join_has_an_order_for_each_part(
    parts: tuple[Tree, ...], orders: tuple[tuple[str, ...], ...], message: str
) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        MultiwayNode(parts, orders, ())


def clique(size: int) -> str:
    names = "abcdefghijklmnopqrstuvwxyz"[:size]
    return " ".join(a + b for at, a in enumerate(names) for b in names[at + 1 :])


@pytest.mark.parametrize("tail", ["", " lm mn"])
def test_a_large_dense_core_is_joined_at_once_without_a_search(tail: str) -> None:
    """A search by row counts takes 7 s for the 66 atoms of a clique of 12 variables."""
    chosen = counted(query(clique(12) + tail, "a"), {"e": graph(30, 300, 0.5)})
    assert "row counts are not used for cyclic bodies of so many atoms" in str(chosen.reasons)
    assert chosen.costs == ()
    cores = [node for node in nodes(chosen.tree) if isinstance(node, MultiwayNode)]
    assert len(cores) == 1
    assert len(atoms_of(cores[0])) >= 66


LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@pytest.mark.parametrize(("closed", "kind"), [(LETTERS + "a", "multiway"), (LETTERS, "binary")])
def test_a_large_body_is_planned_without_a_search_for_all_plans(closed: str, kind: str) -> None:
    """The terms of a multi-way join are not sampled: they are the largest part of the search."""
    text = " ".join(a + b for a, b in pairwise(closed))
    with patch.object(Estimator, "term", side_effect=AssertionError("expected no sampled term")):
        chosen = counted(query(text, "a"), {"e": graph(30, 60, 0.5)})
    assert chosen.kind == kind
    assert bool(chosen.costs) == (kind == "binary")
    assert ("greedy order" if kind == "binary" else "row counts are not used") in str(chosen.reasons)


CYCLE = " ".join(a + b for a, b in pairwise("abcdefghijklmnopqrstuvwxyzABCDEFGHa"))


@pytest.mark.parametrize("text", [clique(8), CYCLE])
def test_other_cores_are_planned_by_counts(text: str) -> None:
    chosen = counted(query(text, "a"), {"e": graph(30, 60, 0.5)})
    assert "row counts are not used" not in str(chosen.reasons)
    assert chosen.costs
