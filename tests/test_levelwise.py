"""Two ways to maintain a join of many relations: level by level, which is wrong, and delta terms.

Plain Python over dicts. The query is the triangle R(a, b), S(a, c), T(b, c) with the order a, b, c.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import dbsp
from dbsp import Circuit

Row = tuple[Any, ...]
Z = dict[Row, int]
ATOMS = ("ab", "ac", "bc")
WEIGHTS = st.integers(-3, 3).filter(bool)
RELATION = st.dictionaries(st.tuples(st.integers(0, 2), st.integers(0, 2)), WEIGHTS, max_size=6)
TRIPLE = st.tuples(RELATION, RELATION, RELATION).map(list)
ONE_OF_EACH: list[Z] = [{(1, 2): 1}, {(1, 3): 1}, {(2, 3): 1}]


def present(weights: Mapping[Any, int]) -> dict[Any, int]:
    return {key: weight for key, weight in weights.items() if weight}


def plus(left: Mapping[Any, int], right: Mapping[Any, int]) -> dict[Any, int]:
    return present({key: left.get(key, 0) + right.get(key, 0) for key in {**left, **right}})


def negated(z: Z) -> Z:
    return {row: -weight for row, weight in z.items()}


def triangles(relations: Sequence[Z]) -> Z:
    """Apply the definition: for all values of (a, b, c), the product of three weights."""
    r, s, t = relations
    total = {}
    for a, b, c in itertools.product(range(4), repeat=3):
        total[a, b, c] = r.get((a, b), 0) * s.get((a, c), 0) * t.get((b, c), 0)
    return present(total)


def change_of_triangles(old: Sequence[Z], changes: Sequence[Z]) -> Z:
    new = [plus(before, change) for before, change in zip(old, changes, strict=True)]
    return plus(triangles(new), negated(triangles(old)))


# --- one shared variable: right -------------------------------------------------------------------


def product(views: Sequence[Mapping[Any, int]]) -> dict[Any, int]:
    """Return the join of Z-sets of values on the value."""
    keys = set(views[0]).intersection(*views[1:])
    return {key: prod(view[key] for view in views) for key in keys}


def delta_of_product(old: Sequence[Mapping[Any, int]], changes: Sequence[Mapping[Any, int]]) -> Any:
    """D(1..i) = D(1..i-1) x d(i) + D(1..i-1) x old(i) + d(i) x old(1) x ... x old(i-1)."""
    delta: Mapping[Any, int] = changes[0]
    for i in range(1, len(changes)):
        both = product([delta, changes[i]])
        left = product([delta, old[i]])
        right = product([changes[i], *old[:i]])
        delta = plus(plus(both, left), right)
    return delta


VALUES = st.dictionaries(st.integers(0, 2), WEIGHTS, max_size=3)


@given(st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=5))
def test_the_formula_for_one_shared_variable_is_right(pairs: list[tuple[Any, Any]]) -> None:
    old, changes = [before for before, _ in pairs], [change for _, change in pairs]
    new = [plus(before, change) for before, change in pairs]
    expected = plus(product(new), {key: -weight for key, weight in product(old).items()})
    assert delta_of_product(old, changes) == expected


# --- level by level: wrong ------------------------------------------------------------------------


def view(relation: Z, prefix: Row) -> dict[Any, int]:
    """Return the values below a prefix, with weight 1 except at the last level."""
    level = len(prefix)
    below = {row: weight for row, weight in relation.items() if row[:level] == prefix}
    return {row[level]: weight if len(row) == level + 1 else 1 for row, weight in below.items()}


def level_wise(old: Sequence[Z], changes: Sequence[Z]) -> Z:
    """Apply the formula for one variable at each level, to each prefix of the level above."""
    result: Z = {(): 1}
    for level, variable in enumerate("abc"):
        readers = [i for i, names in enumerate(ATOMS) if variable in names]
        extended: Counter[Row] = Counter()
        for prefix, weight in result.items():
            bound = dict(zip("abc"[:level], prefix, strict=True))
            below = [tuple(bound[name] for name in ATOMS[i] if name in bound) for i in readers]
            stored = [view(old[i], at) for i, at in zip(readers, below, strict=True)]
            changed = [view(changes[i], at) for i, at in zip(readers, below, strict=True)]
            for value, factor in delta_of_product(stored, changed).items():
                extended[(*prefix, value)] += weight * factor
        result = present(extended)
    return result


def test_a_change_of_a_relation_without_the_first_variable_is_lost() -> None:
    old: list[Z] = [{(1, 2): 1}, {(1, 3): 1}, {}]
    changes: list[Z] = [{}, {}, {(2, 3): 1}]
    assert change_of_triangles(old, changes) == {(1, 2, 3): 1}
    assert level_wise(old, changes) == {}
    assert delta_terms(old, changes) == {(1, 2, 3): 1}


def test_removing_a_triangle_adds_three() -> None:
    changes = [negated(relation) for relation in ONE_OF_EACH]
    assert change_of_triangles(ONE_OF_EACH, changes) == {(1, 2, 3): -1}
    assert level_wise(ONE_OF_EACH, changes) == {(1, 2, 3): 3}
    assert delta_terms(ONE_OF_EACH, changes) == {(1, 2, 3): -1}


def test_the_factors_of_the_three_levels() -> None:
    """The cause of the 3: a level of keys counts a deletion as an insertion."""
    deleted = [negated(relation) for relation in ONE_OF_EACH]

    def level(*reads: tuple[int, Row]) -> Any:
        return delta_of_product(
            [view(ONE_OF_EACH[i], prefix) for i, prefix in reads],
            [view(deleted[i], prefix) for i, prefix in reads],
        )

    assert level((0, ()), (1, ())) == {1: 3}
    assert level((0, (1,)), (2, ())) == {2: -1}
    assert level((1, (1,)), (2, (2,))) == {3: -1}


def test_the_keys_of_a_sum_are_not_the_sum_of_the_keys() -> None:
    stored, change = {(1, 2): 1}, {(1, 2): -1}
    assert view(plus(stored, change), ()) == {}
    assert plus(view(stored, ()), view(change, ())) == {1: 2}


@given(TRIPLE)
def test_level_by_level_is_right_for_a_load(changes: list[Z]) -> None:
    """Without stored rows it is generic join, so tests that only load do not detect the error."""
    empty: list[Z] = [{}, {}, {}]
    assert level_wise(empty, changes) == triangles(changes)


# --- delta terms: right ---------------------------------------------------------------------------


def delta_terms(old: Sequence[Z], changes: Sequence[Z]) -> Z:
    """Return dQ = dR x S_old x T_old + R_new x dS x T_old + R_new x S_new x dT.

    Each term starts from its changed rows.
    """
    new = [plus(before, change) for before, change in zip(old, changes, strict=True)]
    total: Counter[Row] = Counter()
    for i, names in enumerate(ATOMS):
        others = [(new[j] if j < i else old[j], ATOMS[j]) for j in range(3) if j != i]
        (free,) = set("abc").difference(names)
        for row, weight in changes[i].items():
            bound = dict(zip(names, row, strict=True))
            # Count and propose: the relation with the fewest values. Intersect: the other relation.
            fewest, other = sorted((offers(*read, bound, free) for read in others), key=len)
            for value in fewest & other:
                values = bound | {free: value}
                factors = [relation[values[atom[0]], values[atom[1]]] for relation, atom in others]
                total[values["a"], values["b"], values["c"]] += weight * prod(factors)
    return present(total)


def offers(relation: Z, atom: str, bound: Mapping[str, Any], free: str) -> set[Any]:
    """Return the values of the free variable in rows that match the bound ones; ignore weights."""
    at = atom.index(free)
    return {row[at] for row in relation if row[1 - at] == bound[atom[1 - at]]}


@given(TRIPLE, TRIPLE)
@example([{(1, 2): 1, (1, 3): -1}, {(1, 0): 1}, {}], [{}, {}, {(2, 0): 1, (3, 0): 5}])
def test_delta_terms_are_right(old: list[Z], changes: list[Z]) -> None:
    assert delta_terms(old, changes) == change_of_triangles(old, changes)


def test_weights_belong_to_whole_rows() -> None:
    """a = 1 sums to 0 in R, and still has two triangles."""
    relations: list[Z] = [{(1, 2): 1, (1, 3): -1}, {(1, 0): 1}, {(2, 0): 1, (3, 0): 5}]
    assert triangles(relations) == {(1, 2, 0): 1, (1, 3, 0): -5}
    for order in itertools.permutations(range(3)):  # in every order of loading
        state: list[Z] = [{}, {}, {}]
        total: Z = {}
        for i in order:
            changes = [relations[j] if j == i else {} for j in range(3)]
            total = plus(total, delta_terms(state, changes))
            state[i] = relations[i]
        assert total == triangles(relations)


# --- the operator ---------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", ["query", "incremental", "physical", "distributed"])
def test_the_operator_on_the_counter_examples(stage: str) -> None:
    circuit = Circuit("triangle")
    r, s, t = (circuit.input(name, x=int, y=int) for name in "RST")
    circuit.output("q", dbsp.multiway_join([r("a", "b"), s("a", "c"), t("b", "c")]))
    run = circuit.start(stage)
    run.step({"R": {(1, 2): 1}, "S": {(1, 3): 1}})
    assert run.step({"T": {(2, 3): 1}})["q"] == {(1, 2, 3): 1}
    removed = dict(zip("RST", map(negated, ONE_OF_EACH), strict=True))
    assert run.step(removed)["q"] == {(1, 2, 3): -1}
    run.step({"R": {(1, 2): 1, (1, 3): -1}, "S": {(1, 4): 1}})
    assert run.step({"T": {(2, 4): 1, (3, 4): 5}})["q"] == {(1, 2, 4): 1, (1, 3, 4): -5}
