"""Joins that add up pairs by groups: each tick equals the batch join, in any number of threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dbsp
from dbsp import Circuit, Run, Stream, kernels
from dbsp.kernels import consolidate, register_run
from dbsp.operators.joins import join, pair_groups
from dbsp.parallel import probe_pieces
from tests import reference
from tests.compiler.support import AS_WRITTEN
from tests.everywhere import follow_everywhere
from tests.harness import follow
from tests.parallel.small_pieces import THREADS, small_pieces
from tests.reference import Z, project
from tests.strategies import Tick, rows, small, ticks

PAIR = rows(small, small)

ROWS = 60
"""The square of it is more than `pair_groups.FEW`."""


@pytest.mark.parametrize("threads", THREADS)
@given(sequence=ticks({"a": PAIR, "b": PAIR}))
def test_projecting_joins(threads: int, sequence: list[Tick]) -> None:
    sides = {"x": (0, 0), "y": (0, 1), "z": (1, 1)}

    def check(*select: str) -> None:
        def natural(circuit: Circuit) -> Stream:
            a, b = circuit.input("a", x=int, y=int), circuit.input("b", y=int, z=int)
            return a.join(b, on=["y"], select=select)

        columns = [sides[name] for name in select]
        follow(natural, lambda inputs: reference.join(inputs["a"], inputs["b"], [(1, 0)], columns), sequence)

    with small_pieces(threads):
        for select in (["x", "z"], ["z", "x"], ["x"], ["z"], ["z", "y"]):
            check(*select)


@pytest.mark.parametrize("threads", THREADS)
@given(sequence=ticks({"a": PAIR}))
def test_projecting_self_join_within_iterations(threads: int, sequence: list[Tick]) -> None:
    def model(a: Z) -> Z:
        return project(reference.join(a, a, [(1, 1)], [(0, 0), (1, 0), (0, 1)]), [0, 1])

    with small_pieces(threads):
        follow_everywhere(
            lambda a: a.join(a, on=["y"], select=["x", "x_right"]), model, {"x": int, "y": int}, "x", sequence
        )


def pairs_circuit(select: Sequence[str] = ("x", "z")) -> Run:
    circuit = Circuit("pairs")
    a, b = circuit.input("a", x=int, y=int), circuit.input("b", y=int, z=int)
    circuit.output("out", a.join(b, on=["y"], select=select))
    return circuit.start()


def grouped_calls(run: Run, tick: Any) -> int:
    """Step; return how many calls of joins added up pairs by groups."""
    calls = 0
    add_up = kernels.join_by_groups

    def counted(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        return add_up(*arguments)

    with mock.patch.object(kernels, "join_by_groups", counted):
        run.step(tick)
    return calls


def test_pairs_whose_sums_may_not_fit_are_listed() -> None:
    """The weights of later pairs cancel those of earlier ones."""
    run = pairs_circuit()
    run.step({"b": {(y, 5): 3 for y in range(ROWS)}})
    tick: Any = {(x, y): 1 for x in range(ROWS) for y in range(ROWS)}
    tick |= {(7, 0): 2**61 - 1, (7, 1): -(2**61), (7, 2): 2**60}
    with mock.patch.object(join, "grouped_delta", lambda given, size, *_: given(slice(0, size))):
        assert grouped_calls(run, {"a": tick}) == 1
    expected = {(x, 5): 3 * ROWS for x in range(ROWS)} | {(7, 5): 3 * (ROWS - 4 + 2**60)}
    assert run.view("out").to_dict() == expected


# --- the choice ----------------------------------------------------------------------------------

PATHS = """
.decl e(x: number, y: number)
.input e
.decl path(x: number, y: number)
.output path
path(x, y) :- e(x, y).
path(x, z) :- path(x, y), e(y, w), path(w, z).
"""


def odd_walks(edges: Z, nodes: int) -> Z:
    """Return (x, z) for each walk of an odd number of edges from x to z."""
    one = np.zeros((nodes, nodes), np.int64)
    for x, y in edges:
        one[x, y] = 1
    found = one
    while True:
        longer = found | (found @ one @ one > 0)
        if (longer == found).all():
            return {(int(x), int(z)): 1 for x, z in np.argwhere(found)}
        found = longer


@pytest.mark.parametrize("recursion", ["insert-only", "incremental"])
@pytest.mark.parametrize("threads", [1, 2])
def test_recursion_with_many_pairs_for_a_row(
    recursion: Literal["insert-only", "incremental"], threads: int
) -> None:
    nodes = 2 * ROWS
    program = dbsp.compile(PATHS, recursion=recursion, rewrites=AS_WRITTEN, strategy="binary")
    ring = {(x, (x + step) % nodes): 1 for x in range(nodes) for step in (1, 7)}
    dbsp.set_threads(threads)
    try:
        run = program.start()
        assert grouped_calls(run, {"e": ring})
        present: Z = dict(ring)
        assert run.view("path").to_dict() == odd_walks(present, nodes)
        for x in (0, 6, 30):
            for gone in ((x, x + 1), (x, x + 7)):
                run.step({"e": {gone: -1}})
                del present[gone]
                assert run.view("path").to_dict() == odd_walks(present, nodes)
    finally:
        dbsp.set_threads(None)


@pytest.mark.parametrize(
    ("select", "stored", "grouped"),
    [
        (["x", "z"], 4 * ROWS, True),
        (["x", "z"], 2, False),  # few pairs for each row
        (["x", "y", "z"], 4 * ROWS, False),  # no two pairs are equal
    ],
)
def test_joins_that_add_up_by_groups(select: list[str], stored: int, grouped: bool) -> None:
    run = pairs_circuit(select)
    run.step({"b": {(y, z): 1 for y in range(ROWS) for z in range(stored)}})
    tick: Any = {"a": {(x, y): 1 for x in range(ROWS) for y in range(ROWS)}}
    assert (grouped_calls(run, tick) > 0) == grouped
    weight = ROWS if select == ["x", "z"] else 1
    assert set(run.view("out").to_dict().values()) == {weight}


def test_few_rows_are_not_sampled() -> None:
    with mock.patch.object(join, "grouped_delta", side_effect=AssertionError):
        run = pairs_circuit()
        run.step({"b": {(y, z): 1 for y in range(4) for z in range(9)}})
        run.step({"a": {(x, x % 4): 1 for x in range(pair_groups.FEW - 1)}})


def test_threads_share_the_groups() -> None:
    run = pairs_circuit()
    run.step({"b": {(y, z): 1 for y in range(ROWS) for z in range(4 * ROWS)}})
    dbsp.set_threads(2)
    try:
        with mock.patch.object(probe_pieces, "LARGE", pair_groups.FEW):
            # For the sample, and for two parts.
            assert grouped_calls(run, {"a": {(x, y): 1 for x in range(ROWS) for y in range(ROWS)}}) == 3
    finally:
        dbsp.set_threads(None)
    assert run.view("out").to_dict() == {(x, z): ROWS for x in range(ROWS) for z in range(4 * ROWS)}


# --- the parts of a delta ------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)), min_size=1))
def test_parts_have_all_rows_of_a_group(given_rows: list[tuple[int, int, int]]) -> None:
    delta, weights = consolidate(np.array(given_rows), np.ones(len(given_rows), np.int64))
    for threads in THREADS:
        for columns in ([2], [2, 1], []):
            with small_pieces(threads):
                parts = pair_groups.in_groups(
                    delta, weights, np.array(columns, np.int64), lambda rows, weights: (rows, weights)
                )
            found = [list(zip(map(tuple, part.tolist()), of.tolist(), strict=True)) for part, of in parts]
            assert all(part == sorted(part) for part in found)
            expected = list(zip(map(tuple, delta.tolist()), weights.tolist(), strict=True))
            assert sorted(pair for part in found for pair in part) == expected
            groups = [{tuple(row[c] for c in columns) for row, _ in part} for part in found]
            assert sum(map(len, groups)) == len(set().union(*groups))


@pytest.mark.parametrize(
    ("groups", "rows_of_key", "columns", "expected"),
    [
        (100, 100, [1, -2], True),
        (100, 1, [1, -2], False),  # few pairs
        (4000, 100, [1, -2], False),  # many pairs, all different
        (1, 100, [1, -2], True),  # one group
        (4000, 100, [-2], True),  # no group
    ],
)
def test_samples(groups: int, rows_of_key: int, columns: list[int], expected: bool) -> None:
    """Rows with equal keys are neighbours, and their partners count once."""
    keys = 40 if rows_of_key == 100 else 4000
    delta = np.column_stack((np.repeat(np.arange(keys), rows_of_key), np.arange(keys * rows_of_key) % groups))
    stored = np.column_stack((np.repeat(np.arange(keys), 10), np.tile(np.arange(10), keys)))
    weights, ones = np.ones(len(delta), np.int64), np.ones(len(stored), np.int64)
    table = np.zeros((1, 3), np.int64)
    register_run(table, 0, stored, ones)
    none = np.empty(0, np.int64)
    chosen = pair_groups.grouped_delta(
        lambda part: [delta[part], weights[part], 1], len(delta), table, 1, 2, np.array(columns), none, 0
    )
    assert (chosen is not None) == expected
    assert chosen is None or ((chosen[0] == delta).all() and chosen[2] == 1)
