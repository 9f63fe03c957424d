"""Updates of circuits with lateness and windows: state that forgets rows is never carried."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbsp import Circuit, CircuitError, Run, col, count
from dbsp.circuit.operator_roles import Forgetful
from dbsp.runtime.program_update import ProposedUpdate
from dbsp.runtime.update_report import Updated
from dbsp.state import trace_limit
from tests.compiler.test_program_update import changed
from tests.harness import deltas_of, views
from tests.profiles import examples

TICKS: Any = [{"sale": [(tick * 4 + row, row % 3, tick + row) for row in range(4)]} for tick in range(6)]
LATER: Any = [
    {"sale": {(19, 2, 9): 1, (2, 0, 9): 1, (24, 1, 8): 1, (23, 0, 8): -1}},
    {"sale": {(22, 2, 7): -1, (31, 1, 1): 1}},
    {"sale": [(45, 2, 7)]},
]
"""Changes of rows on time, a late row, and a jump that closes all windows."""


@pytest.fixture(autouse=True, scope="module")
def _forget_at_once() -> Iterator[None]:
    """Let small traces drop rows, too, and all of them after the tick."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace_limit, "SMALL", 0)
        patch.setattr(trace_limit, "PER_TICK", 10**9)
        yield


def shop(place: str, limit: int, keep: bool = True) -> Circuit:
    """Return a circuit with a filter before a watermark, between it and windows, or behind them.

    With `keep`, an output keeps all rows that were on time.
    """
    circuit = Circuit("shop")
    sale = circuit.input("sale", t=int, k=int, n=int, kind="set")
    marked = (sale.filter(col("n") > limit) if place == "before" else sale).watermark("t", 5)
    rows = timely = marked.on_time
    if keep:
        circuit.output("timely", timely)
    recent = timely.recent(marked.watermark, "t").select("k").distinct()
    windows = timely.window("t", 10).group_by("window_end", "k")
    circuit.output("recent", recent)
    circuit.output("final", windows.final(marked.watermark, "window_end", n=count()))
    if place == "between":
        rows = rows.filter(col("n") > limit)
    totals = rows.window("t", 10).group_by("window_start", "k").agg(total=col("n").sum())
    circuit.output("totals", totals)
    largest = rows.group_by("t").agg(most=col("n").max())
    circuit.output("largest", largest.select("most").distinct())
    circuit.named |= {"rows": rows, "totals": totals, "largest": largest}  # as relations of a program
    if place == "behind":
        totals = totals.filter(col("total") > limit)
    circuit.output("big", totals.select("k", "total").distinct())
    return circuit


def started(circuit: Circuit, ticks: Any = TICKS) -> Run:
    run = circuit.start()
    for tick in ticks:
        run.step(tick)
    return run


def update(run: Run, circuit: Circuit) -> Updated:
    proposed = ProposedUpdate(circuit.circuit("physical"), "edited", {}, None, {}, lambda: None)
    return run.switch_program(proposed, lambda: None)


def expect_as(run: Run, other: Run, ticks: Any = LATER) -> None:
    """Compare the views and the next ticks of two runs."""
    assert views(run) == views(other)
    for tick in ticks:
        assert deltas_of(run.step(tick)) == deltas_of(other.step(tick))
        assert views(run) == views(other)


def test_an_edit_behind_windows_keeps_them() -> None:
    run = started(shop("behind", 3))
    done = update(run, shop("behind", 12))
    kept = dict.fromkeys(("sale", "rows", "timely", "totals", "recent", "final", "largest"), "kept")
    assert dict(done.relations) == {**kept, "big": "rebuilt"}
    assert done.deltas["big"].to_dict()
    expect_as(run, started(shop("behind", 12)))


def test_an_edit_before_windows_rebuilds_them_from_all_rows() -> None:
    circuit = shop("between", 6)
    forgetful = [node for node in circuit.circuit("physical").nodes if isinstance(node.operator, Forgetful)]
    assert forgetful
    run = started(shop("between", 3))
    done = update(run, circuit)
    kept = dict.fromkeys(("sale", "timely", "recent", "final"), "kept")
    rebuilt = dict.fromkeys(("rows", "totals", "largest"), "rebuilt")
    assert dict(done.relations) == {**kept, **rebuilt, "big": "changed"}
    expect_as(run, started(circuit))


def test_an_edit_before_windows_needs_the_rows_that_they_have_forgotten() -> None:
    run, other = (started(shop("between", 3, keep=False)) for _ in range(2))
    with pytest.raises(CircuitError, match="needs all past rows of this node, and") as error:
        update(run, shop("between", 6, keep=False))
    assert error.value.code == "rows-not-kept"
    expect_as(run, other)


def test_an_edit_before_a_watermark_is_refused() -> None:
    run, other = (started(shop("before", 3)) for _ in range(2))
    with pytest.raises(CircuitError, match=r"Watermark at .* depends on the past ticks") as error:
        update(run, shop("before", 6))
    assert error.value.code == "different-circuits"
    expect_as(run, other)


rows = st.tuples(st.integers(0, 40), st.integers(0, 2), st.integers(0, 9))
ticks_of = st.lists(
    st.fixed_dictionaries({"sale": st.dictionaries(rows, st.sampled_from([1, 1, -1]), max_size=6)}),
    min_size=1,
    max_size=5,
)


@settings(max_examples=examples(60))
@given(st.sampled_from(["between", "behind"]), st.tuples(*[st.integers(0, 9)] * 2), ticks_of, ticks_of)
def test_random_edits_equal_a_new_run_with_the_same_ticks(
    place: str, limits: tuple[int, int], before: Any, after: Any
) -> None:
    old, new = (shop(place, limit) for limit in limits)
    run, other = started(old, before), started(new, before)
    held = views(run)
    done = update(run, new)
    assert deltas_of(done.deltas) == changed(held, views(other))
    expect_as(run, other, after)
