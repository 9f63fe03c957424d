"""Programs with far more matches than result rows, compared with what arithmetic says."""

from __future__ import annotations

import pytest

import dbsp
from tests.compiler.support import AS_WRITTEN

SIZE = 90
"""So that a complete graph has more triangles than a join keeps before it adds equal ones up."""

EDGES = [(x, y) for x in range(SIZE) for y in range(SIZE) if x != y]
DECLARED = """
    .decl e(x: number, y: number)
    .input e
    .decl o(x: number)
    .output o
"""


@pytest.mark.parametrize("strategy", ["wcoj", "binary"])
def test_projected_triangles(strategy: str) -> None:
    program = dbsp.compile(DECLARED + "o(a) :- e(a, b), e(b, c), e(a, c).", strategy=strategy)
    run = program.start({"e": EDGES})
    assert run.view("o").rows() == [(x,) for x in range(SIZE)]
    # All triangles with the vertex 0 go, and all others of its neighbours stay.
    delta = run.step({"e": {(x, y): -1 for x, y in EDGES if 0 in (x, y)}})["o"]
    assert dict(delta.items()) == {(0,): -1}
    delta = run.step({"e": {(x, y): -1 for x, y in EDGES if 0 not in (x, y)}})["o"]
    assert dict(delta.items()) == {(x,): -1 for x in range(1, SIZE)}


@pytest.mark.parametrize("recursion", ["insert-only", "incremental"])
@pytest.mark.parametrize("strategy", ["wcoj", "binary"])
def test_closure_of_a_dense_graph(recursion: str, strategy: str) -> None:
    """A ring with chords: every pair is reached, in many ways."""
    program = dbsp.compile(
        """
        .decl e(x: number, y: number)
        .input e
        .decl path(x: number, y: number)
        .output path
        path(x, y) :- e(x, y).
        path(x, z) :- path(x, y), path(y, z).
        """,
        recursion=recursion,
        strategy=strategy,
        rewrites=AS_WRITTEN,
    )
    run = program.start({"e": [(x, (x + step) % SIZE) for x in range(SIZE) for step in (1, 2, 7)]})
    assert len(run.view("path")) == SIZE**2
    run.step({"e": {(x, (x + step) % SIZE): -1 for x in range(SIZE) for step in (2, 7)}})
    assert len(run.view("path")) == SIZE**2
    delta = run.step({"e": {(0, 1): -1}})["path"]
    chain = {(x, y) for x in range(1, SIZE + 1) for y in range(x + 1, SIZE + 1)}
    assert {(x % SIZE, y % SIZE) for x, y in chain} == set(run.view("path").rows())
    assert len(delta) == SIZE**2 - len(chain)
