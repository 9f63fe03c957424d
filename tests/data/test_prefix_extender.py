"""Prefix extenders against brute force, and the generic join built from them."""

from __future__ import annotations

import doctest
import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dbsp.data.prefix_extender
from dbsp import ArgumentError, Circuit, PrefixExtender, SchemaError, ZSet, extend_prefixes, multiway_join
from tests.generic_join import EMPTY_PREFIX, delta_join, generic_join

Rows = dict[tuple[Any, ...], int]
VALUES = st.integers(-1, 2) | st.sampled_from([-(2**63), 2**63 - 1])
WEIGHTS = st.integers(-3, 3).filter(bool)


def zsets(*columns: str, values: st.SearchStrategy[Any] = VALUES) -> st.SearchStrategy[ZSet]:
    rows = st.dictionaries(st.tuples(*[values] * len(columns)), WEIGHTS, max_size=12)
    return rows.map(lambda rows: ZSet(rows, dict.fromkeys(columns, int)))


def offered(relation: ZSet, at: list[int], prefix: tuple[Any, ...]) -> set[Any]:
    """Return the values of column at[-1] in the rows whose columns at[:-1] are the prefix."""
    return {row[at[-1]] for row in relation.rows() if tuple(row[j] for j in at[:-1]) == prefix}


@given(
    zsets("x", "y", "z"), zsets("p", "q"), st.permutations("xyz"), st.permutations("pq"), st.integers(0, 2)
)
def test_the_three_operations_against_brute_force(
    relation: ZSet, prefixes: ZSet, order: list[str], bound: list[str], looked_up: int
) -> None:
    index = relation.index_by(*order[: looked_up + 1])
    extender = PrefixExtender(index, [*bound[:looked_up], "new"])
    at = list(relation.schema.indices(order[: looked_up + 1]))
    where = prefixes.schema.indices(bound[:looked_up])
    counts, proposed = [], {}
    for row in prefixes.schema.decode_rows(prefixes.batch.rows, prefixes.interner):
        values = offered(relation, at, tuple(row[j] for j in where))
        counts.append(len(values))
        proposed.update({(*row, value): prefixes[row] for value in values})
    assert extender.count(prefixes).tolist() == counts
    result = extender.propose(prefixes)
    assert result == proposed
    assert result.schema.names == ("p", "q", "new")
    # Intersect keeps the extended prefixes that it would have proposed and drops the others.
    beside = ZSet({(*row[:2], value): 7 for row in proposed for value in (-5, 0, 1)}, result.schema)
    kept = extender.intersect(beside + result)
    assert kept == {row: (beside + result)[row] for row in proposed if (beside + result)[row]}
    for zset in (result, kept):  # the rows are sorted and different, as in every batch
        codes = zset.batch.rows.tolist()
        assert codes == sorted(codes) and len(set(map(tuple, codes))) == len(codes)


@given(zsets("x", "y", "z"), VALUES)
def test_an_extender_over_a_node_below_a_prefix(relation: ZSet, x: int) -> None:
    extender = PrefixExtender(relation.index_by("x", "y").get_by_prefix(x))
    assert extender.columns == ("y",)
    values = offered(relation, [0, 1], (x,))
    assert extender.count(EMPTY_PREFIX).tolist() == [len(values)]
    assert extender.propose(EMPTY_PREFIX) == {(value,): 1 for value in values}


@given(zsets("a"), zsets("a", "b"), zsets("b", "a"), zsets("b"))
def test_a_level_is_the_intersection_of_all_extenders(prefixes: ZSet, r: ZSet, s: ZSet, t: ZSet) -> None:
    indexes = [r.index_by("a", "b"), s.index_by("a", "b"), t.index_by("b")]
    extended = extend_prefixes(prefixes, [PrefixExtender(index) for index in indexes])
    wanted = {}
    for (a,), weight in prefixes:
        for b in offered(r, [0, 1], (a,)) & offered(s, [1, 0], (a,)) & offered(t, [0], ()):
            wanted[a, b] = weight
    assert extended == wanted


def test_the_smallest_proposes_for_each_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    """The join is worst-case optimal: of two hubs, each prefix uses the side with few values."""
    hub = {(1, y): 1 for y in range(100)} | {(2, 5): 1}
    other = {(2, y): 1 for y in range(100)} | {(1, 5): 1}
    schema = {"a": int, "b": int}
    extenders = [PrefixExtender(ZSet(rows, schema).index_by("a", "b")) for rows in (hub, other)]
    proposed = []
    propose = PrefixExtender.propose

    def counted(self: PrefixExtender, prefixes: ZSet) -> ZSet:
        result = propose(self, prefixes)
        proposed.append(len(result))
        return result

    monkeypatch.setattr(PrefixExtender, "propose", counted)
    assert extend_prefixes(ZSet([(1,), (2,)], {"a": int}), extenders) == {(1, 5): 1, (2, 5): 1}
    assert sum(proposed) == 2


def test_presence_is_a_stored_row_and_not_a_sum_of_weights() -> None:
    r = ZSet({(1, 2): 1, (1, 3): -1}, {"a": int, "b": int})
    start = PrefixExtender(r.index_by("a"))
    assert start.count(EMPTY_PREFIX).tolist() == [1]
    assert start.propose(EMPTY_PREFIX) == {(1,): 1}
    s = ZSet({(1, 4): 1}, {"a": int, "c": int})
    t = ZSet({(2, 4): 1, (3, 4): 5}, {"b": int, "c": int})
    for order in itertools.permutations("abc"):
        result = generic_join(EMPTY_PREFIX, [r, s, t], order)
        assert result.index_by("a", "b", "c").to_zset() == {(1, 2, 4): 1, (1, 3, 4): -5}


def test_strings_of_other_interners() -> None:
    knows = ZSet({("ann", "bob"): 1, ("ann", "cid"): 1, ("dan", "bob"): 1}, {"x": str, "y": str})
    prefixes = ZSet({("dan",): 2, ("ann",): 3, ("eve",): 4}, {"x": str})
    extender = PrefixExtender(knows.index_by("x", "y"))
    rows = prefixes.schema.decode_rows(prefixes.batch.rows, prefixes.interner)
    by_name = dict(zip((name for (name,) in rows), extender.count(prefixes).tolist(), strict=True))
    assert by_name == {"ann": 2, "dan": 1, "eve": 0}
    assert extender.propose(prefixes) == {("ann", "bob"): 3, ("ann", "cid"): 3, ("dan", "bob"): 2}
    wanted = ZSet({("ann", "cid"): 1, ("dan", "cid"): 1, ("eve", "zoe"): 1}, knows.schema)
    assert extender.intersect(wanted) == {("ann", "cid"): 1}


def test_none_is_not_an_int() -> None:
    """The code of None is an int in a column that is not optional."""
    least = -(2**63)
    plain = ZSet({(least, 1): 1, (5, 2): 1}, {"x": int, "y": int})
    optional = ZSet({(None,): 1, (5,): 1}, {"x": int | None})
    extender = PrefixExtender(plain.index_by("x", "y"))
    assert extender.propose(optional) == {(5, 2): 1}
    turned = PrefixExtender(ZSet({(None, 1): 1, (5, 2): 1}, {"x": int | None, "y": int}).index_by("x", "y"))
    assert turned.propose(ZSet({(least,): 1, (5,): 1}, {"x": int})) == {(5, 2): 1}
    assert turned.propose(optional) == {(None, 1): 1, (5, 2): 1}


def test_misuse_of_an_extender() -> None:
    relation = ZSet({(1, 2): 1}, {"x": int, "y": int})
    with pytest.raises(SchemaError, match="the index has no key column"):
        PrefixExtender(relation.index_by())
    with pytest.raises(SchemaError, match=r"expected 2 columns for the key \(x: int, y: int\), got 1"):
        PrefixExtender(relation.index_by("x", "y"), ["a"])
    extender = PrefixExtender(relation.index_by("x", "y"), ["a", "b"])
    with pytest.raises(SchemaError, match="already have a column 'b'; to filter them, call intersect"):
        extender.propose(ZSet({(1, 2): 1}, {"a": int, "b": int}))
    with pytest.raises(SchemaError, match="unknown column 'a'"):
        extender.count(relation)
    with pytest.raises(SchemaError, match="the types differ: 'x: int' of the index and 'a: str' of"):
        extender.count(ZSet({("p",): 1}, {"a": str}))
    with pytest.raises(ArgumentError, match="extenders: expected at least one PrefixExtender"):
        extend_prefixes(EMPTY_PREFIX, [])
    assert repr(extender) == f"<PrefixExtender (a) -> b over {extender.index!r}>"


def test_the_examples_of_the_docstrings() -> None:
    done = doctest.testmod(dbsp.data.prefix_extender)
    assert done.attempted > 5 and not done.failed


# --- generic join ---------------------------------------------------------------------------------

SMALL = st.integers(0, 2)
TRIANGLE = ("ab", "bc", "ac")


def triangles(r: ZSet, s: ZSet, t: ZSet) -> Rows:
    """Return all (a, b, c) by the definition, each with the product of the weights."""
    total: Counter[Any] = Counter()
    for (a, b), x in r:
        for (b2, c), y in s:
            for (a2, c2), z in t:
                if (a, b, c) == (a2, b2, c2):
                    total[a, b, c] += x * y * z
    return {row: weight for row, weight in total.items() if weight}


RELATIONS = st.tuples(*(zsets(*names, values=SMALL) for names in TRIANGLE))


@given(RELATIONS, st.permutations("abc"))
def test_generic_join_in_any_order(relations: tuple[ZSet, ...], order: list[str]) -> None:
    result = generic_join(EMPTY_PREFIX, relations, order)
    assert result.index_by("a", "b", "c").to_zset() == triangles(*relations)


@given(RELATIONS, RELATIONS)
def test_delta_terms_add_up_to_the_change(old: tuple[ZSet, ...], changes: tuple[ZSet, ...]) -> None:
    new = [before + change for before, change in zip(old, changes, strict=True)]
    wanted = ZSet(triangles(*new), dict.fromkeys("abc", int)) - ZSet(
        triangles(*old), dict.fromkeys("abc", int)
    )
    assert delta_join(old, changes, ["c", "a", "b"]) == wanted


@given(st.lists(RELATIONS, min_size=1, max_size=4))
def test_the_fused_operator_computes_the_same_terms(ticks: list[tuple[ZSet, ...]]) -> None:
    circuit = Circuit("triangle")
    streams = [circuit.input(name, schema=dict.fromkeys(name, int)) for name in TRIANGLE]
    circuit.output(
        "q", multiway_join([s(*name) for s, name in zip(streams, TRIANGLE, strict=True)], list("abc"))
    )
    run = circuit.start()
    state = [ZSet({}, dict.fromkeys(name, int)) for name in TRIANGLE]
    for changes in ticks:
        delta = run.step(dict(zip(TRIANGLE, changes, strict=True)))["q"]
        assert delta == delta_join(state, changes, ["c", "a", "b"])
        state = [before + change for before, change in zip(state, changes, strict=True)]


@given(zsets("a", "b", "c", values=SMALL), zsets("c", "d", values=SMALL), zsets("d", "b", values=SMALL))
def test_generic_join_of_other_arities(r: ZSet, s: ZSet, t: ZSet) -> None:
    total: Counter[Any] = Counter()
    for (a, b, c), x in r:
        for (c2, d), y in s:
            if c == c2:
                total[a, b, c, d] += x * y * t[d, b]
    result = generic_join(EMPTY_PREFIX, [r, s, t], "dcba")
    assert result.index_by("a", "b", "c", "d").to_zset() == {k: w for k, w in total.items() if w}


def test_many_prefixes() -> None:
    """A larger case: the counts are a histogram."""
    random = np.random.default_rng(4)
    edges = ZSet.from_numpy(random.integers(0, 500, (20_000, 2)), schema={"x": int, "y": int})
    prefixes = ZSet.from_numpy(np.arange(600)[:, None], schema={"x": int})
    counts = PrefixExtender(edges.index_by("x", "y")).count(prefixes)
    assert counts.tolist() == np.bincount(edges.batch.rows[:, 0], minlength=600).tolist()
