"""The benchmarks are comparable: deterministic data, and equal results. Times are not tested."""

from __future__ import annotations

import importlib.util
import io
import itertools
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from rich.console import Console

from benchmarks.__main__ import ENTRIES
from benchmarks.bulk_load import ROWS as BULK
from benchmarks.bulk_load import WAYS, measure_bulk_loads
from benchmarks.changes import Codes, Row
from benchmarks.checkpoints import ROWS as CHECKPOINTS
from benchmarks.checkpoints import measure_openings, measure_snapshots, print_checkpoints
from benchmarks.circuits import measure_circuit
from benchmarks.contest import Outcome, Phase, Result, checksum, checksum_of, net, play
from benchmarks.data_routes import ROWS as ROUTES
from benchmarks.data_routes import measure_routes
from benchmarks.fault_circuits import CIRCUITS as FAULT_CIRCUITS
from benchmarks.faults import inject
from benchmarks.freed_values import measure_churn, measure_strings, print_churn, print_strings
from benchmarks.graphs import power_law, uniform
from benchmarks.group_sizes import CASES as GROUP_CASES
from benchmarks.group_sizes import DECADES as GROUPS
from benchmarks.group_sizes import Case as GroupCase
from benchmarks.group_sizes import measure_group_sizes, one_row
from benchmarks.growth import CASES, DECADES, Case, measure_growth
from benchmarks.hand import create
from benchmarks.hand_patterns import Matches
from benchmarks.inspected import ShownCircuit, measure_inspected_ticks, print_inspected
from benchmarks.kernels import measure_kernels
from benchmarks.kills import measure_kills
from benchmarks.limited_memory import LIMITS, measure_limits
from benchmarks.load_widths import CASES as LOAD_CASES
from benchmarks.load_widths import ROWS as LOADS
from benchmarks.load_widths import measure_load_widths
from benchmarks.patterns import PATTERNS
from benchmarks.patterns import WORKLOADS as PATTERNS_OF
from benchmarks.pauses import TICKS as AGES
from benchmarks.pauses import measure_age, measure_pauses, print_age, print_pauses
from benchmarks.peers import compare_workload, measure_closures, print_closures, print_comparisons
from benchmarks.planner import SHARES, Planned, Times, measure_planner
from benchmarks.program_edits import ROWS as EDITED
from benchmarks.program_edits import measure_edits, print_edits
from benchmarks.report import (
    print_bulk_loads,
    print_costs,
    print_faults,
    print_group_sizes,
    print_growth,
    print_kills,
    print_limits,
    print_load_widths,
    print_planner,
    print_rates,
    print_results,
    print_rewrites,
    print_routes,
    print_scaling,
    print_shapes,
    print_soak,
    print_startup,
    print_threads,
    print_usage,
    print_windows,
)
from benchmarks.rewrites import SHARES as REWRITES
from benchmarks.rewrites import compared, measure_rewrites
from benchmarks.scaling import POWERS, Scaling, measure_scaling, tripartite, two_hubs
from benchmarks.shapes import SHAPES, measure_shapes
from benchmarks.shapes import SHARES as SHAPE_SHARES
from benchmarks.shard_kills import ShardsKilled, measure_shard_kills
from benchmarks.sharded import measure_shards
from benchmarks.sharded_report import print_shard_kills, print_shards
from benchmarks.soak import measure_soak
from benchmarks.startup import Start, measure_startup
from benchmarks.subscriptions import COUNTS as SUBSCRIPTIONS
from benchmarks.subscriptions import KINDS as SUBSCRIPTION_KINDS
from benchmarks.subscriptions import another, measure_subscriptions, print_subscriptions
from benchmarks.thread_counts import measure_threads
from benchmarks.usage import ROWS as USAGE
from benchmarks.usage import measure_usage
from benchmarks.windows import measure_windows
from benchmarks.workloads import COLUMNS, SIZES, Workload, find_folder, make, read_folder, read_graph
from dbsp.compiler.datalog.compiler_passes import REWRITES as REWRITING_PASSES
from dbsp.state.trace_limit import TraceLimit

WORKLOADS = list(SIZES)
GRAPHS = list(PATTERNS_OF)
INSTALLED = [e for e in ENTRIES if e.module != "benchmarks.duck" or importlib.util.find_spec("duckdb")]


def played(workload: Workload, entry_name: str, seconds: float = 60.0) -> Result:
    entry = next(entry for entry in ENTRIES if entry.name == entry_name)
    result = Result(entry.name)
    play(entry.create(workload.name), workload, result, seconds=seconds)
    return result


@pytest.mark.parametrize("name", WORKLOADS)
def test_data_is_the_same_every_time(name: str) -> None:
    once, again = make(name, "tiny"), make(name, "tiny")
    assert once.ticks == again.ticks
    assert once.batches == again.batches
    assert once.bulks == again.bulks
    assert all(np.array_equal(once.base[relation], again.base[relation]) for relation in COLUMNS[name])


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_change_has_an_effect(name: str) -> None:
    """Deleted rows are present, and inserted rows are absent."""
    workload = make(name, "tiny")
    present = {relation: set(map(tuple, rows.tolist())) for relation, rows in workload.base.items()}
    assert all(len(present[relation]) == len(rows) for relation, rows in workload.base.items())
    for changes in [*workload.ticks, *workload.batches, *workload.bulks]:
        for relation, sign, row in changes:
            assert (row in present[relation]) == (sign < 0)
            (present[relation].add if sign > 0 else present[relation].remove)(row)


def test_one_component_has_a_cycle_and_edges_stay_inside_components() -> None:
    edges = {tuple(row) for row in make("w3dag", "small").base["e"].tolist()}
    assert all(x // 250 == y // 250 for x, y in edges)
    assert sum(x > y for x, y in edges) == 1


@pytest.mark.parametrize("name", WORKLOADS)
def test_contestants_agree(name: str) -> None:
    workload = make(name, "tiny")
    entries = [entry for entry in INSTALLED if entry.workloads is None or name in entry.workloads]
    results = [played(workload, entry.name) for entry in entries]
    assert len({(result.loaded, result.final) for result in results}) == 1
    assert results[0].final is not None
    assert results[0].final.rows > 0


@pytest.mark.parametrize("make_graph", [power_law, uniform])
def test_graphs_have_the_number_of_edges_and_no_loops(make_graph: Callable[..., Codes]) -> None:
    edges = make_graph(3_000, np.random.default_rng(7))
    assert len(set(map(tuple, edges.tolist()))) == len(edges) == 3_000
    assert (edges[:, 0] != edges[:, 1]).all()


def test_small_graphs_have_the_number_of_edges() -> None:
    """Also those with too few paths to close."""
    for number in range(40):
        assert len(power_law(number, np.random.default_rng(number))) == number


def test_degrees_are_skewed_and_paths_are_closed() -> None:
    skewed, even = (make(20_000, np.random.default_rng(7)) for make in (power_law, uniform))
    assert np.bincount(skewed.ravel()).max() > 10 * np.bincount(even.ravel()).max()
    assert len(matches("w2", skewed)) > 5 * len(matches("w2", even))


@pytest.mark.parametrize("name", GRAPHS)
def test_matches_by_hand_are_those_by_definition(name: str) -> None:
    """Compare with all tuples of nodes of a small dense graph."""
    edges = uniform(60, np.random.default_rng(3))
    present = set(map(tuple, edges.tolist()))
    pattern = PATTERNS_OF[name]
    expected = {
        row
        for row in itertools.product(range(18), repeat=len(pattern.variables))
        if all(
            (row[pattern.variables.index(x)], row[pattern.variables.index(y)]) in present
            for x, y in pattern.edges
        )
    }
    assert matches(name, edges) == expected
    assert expected


def matches(name: str, edges: Codes) -> set[Row]:
    by_hand = create(name)
    assert isinstance(by_hand, Matches)
    by_hand.load({"e": edges})
    return by_hand.found


@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_is_read_and_its_own_edges_change(name: str, tmp_path: Path) -> None:
    edges = uniform(400, np.random.default_rng(3), degree=12)
    file = tmp_path / "tiny.txt"
    file.write_text("# from to\n\n" + "".join(f"{x} {y} a\n" for x, y in edges.tolist()) + "0 0 loop\n")
    undirected = {tuple(sorted(edge)) for edge in edges.tolist()}
    workload = read_graph(file, name)
    own = set(map(tuple, workload.base["e"].tolist()))
    assert {tuple(sorted(edge)) for edge in own} == undirected
    assert len(own) == len(undirected)
    assert (own == undirected) == (name != "w5")
    changes = [change for tick in [*workload.ticks, *workload.batches] for change in tick]
    assert {row for _, _, row in changes} <= own
    assert {sign for _, sign, _ in changes} == {1, -1}
    assert len(read_graph(file, name, 100).base["e"]) == 100
    results = [played(workload, entry) for entry in ("engine (streams)", "plain Python")]
    assert results[0].final == results[1].final


def test_other_workloads_have_no_graph(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"expected a workload with a graph \(w2, .*, diamond\), got w1"):
        read_graph(tmp_path / "tiny.txt", "w1")


def test_ticks_without_time_are_applied_together() -> None:
    workload = make("w1", "tiny")
    hurried, patient = played(workload, "plain Python", seconds=0.0), played(workload, "plain Python")
    assert len(hurried.ticks.wall) == len(hurried.batches.wall) == 1
    assert len(patient.ticks.wall) == len(workload.ticks)
    assert hurried.final == patient.final


def test_net_changes_cancel_and_delete_first() -> None:
    changes = [("e", 1, (1, 2)), ("e", -1, (3, 4)), ("e", -1, (1, 2)), ("e", 1, (5, 6)), ("f", 1, (7,))]
    assert {name: list(rows.items()) for name, rows in net(changes).items()} == {
        "e": [((3, 4), -1), ((5, 6), 1)],
        "f": [((7,), 1)],
    }


def test_checksum_is_exact_where_sixty_four_bits_are_not() -> None:
    rows: list[Row] = [(9_000_000_000_000 - n, n, 1) for n in range(100)]
    expected = sum(a * 1_000_003 + b * 10_007 + c for a, b, c in rows) % ((1 << 61) - 1)
    assert checksum(rows) == Outcome(100, expected)
    assert checksum_of(np.empty((0, 2), np.int64)) == Outcome(0, 0)
    assert checksum([(1, 2, 3, 4), (0, 0, 0, 5)]) == Outcome(2, 1_020_020, 9)


def test_phase_statistics() -> None:
    phase = Phase(wall=[3.0, 1.0, 2.0], cpu=[1.0, 1.0, 4.0])
    assert (phase.median, phase.cpu_median, phase.late, phase.cpu_late) == (2.0, 1.0, 3.0, 4.0)
    assert Phase().median is None
    assert Phase().late is None


def test_a_folder_of_logs_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "w1_small"
    folder.mkdir()
    (folder / "meta.json").write_text(json.dumps({"k1": 1, "k2": 1}))
    (folder / "orders.csv").write_text("1,0,0,7,10\n1,0,1,7,20\n1,2,2,8,5\n-1,2,0,7,10\n")
    (folder / "customers.csv").write_text("1,0,7,3\n1,0,8,3\n-1,1,7,3\n1,1,7,4\n")
    assert find_folder(tmp_path, "w1", "small") == find_folder(folder, "w1", "small") == folder
    workload = read_folder(folder)
    assert workload.base["orders"].tolist() == [[0, 7, 10], [1, 7, 20]]
    assert workload.ticks == [[("customers", -1, (7, 3)), ("customers", 1, (7, 4))]]
    assert workload.batches == [[("orders", 1, (2, 8, 5)), ("orders", -1, (0, 7, 10))]]
    results = [played(workload, entry.name) for entry in INSTALLED if entry.workloads is None]
    assert {result.final for result in results} == {checksum([(3, 1, 5), (4, 1, 20)])}


def test_an_invalid_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "w9_small").mkdir()
    with pytest.raises(ValueError, match=r"expected a workload of w1, w3dag, .*, diamond, got 'w9'"):
        read_folder(tmp_path / "w9_small")
    folder = tmp_path / "w3dag_small"
    folder.mkdir()
    (folder / "meta.json").write_text('{"k1": 0, "k2": 0}')
    (folder / "e.csv").write_text("1,0,1\n")
    with pytest.raises(ValueError, match=r"e\.csv: expected 4 columns, got 3"):
        read_folder(folder)


def test_the_report_marks_different_results() -> None:
    workload = make("w3chain", "tiny")
    results = [played(workload, "engine (rules)"), played(workload, "plain Python")]
    results.append(Result("absent", note="not installed"))
    console = Console(file=io.StringIO(), width=165)
    assert print_results(console, "w3chain tiny", results)
    results[1].final = Outcome(1, 1)
    assert not print_results(console, "w3chain tiny", results)
    results[1].final = results[0].final
    results[2].failed = True
    assert not print_results(console, "w3chain tiny", results)
    assert isinstance(console.file, io.StringIO)
    printed = console.file.getvalue()
    assert "DIFFERS" in printed
    assert "not installed" in printed


def test_peers_are_compared() -> None:
    workload = make("w3chain", "tiny")
    entries = [played(workload, "engine (rules)"), played(workload, "plain Python")]
    contestants = [*entries, Result("pathway", note="not installed")]
    for result, load, tick in zip(entries, (2.0, 1.0), (1e-3, 4e-3), strict=True):
        result.load_cpu, result.ticks, result.peak = load, Phase([tick], [tick]), 1_000_000
    entries[1].contestant = "duckdb, from scratch"
    found = list(compare_workload("w3chain tiny", contestants))
    assert [(one.what, one.quantity, one.ratio, one.aim) for one in found] == [
        ("w3chain tiny, rules", "load", 2.0, 1.0),
        ("w3chain tiny, rules", "tick", 0.25, None),
        ("w3chain tiny, rules", "peak memory", 1.0, None),
    ]
    with patch("benchmarks.peers.in_new_process", lambda function, *given: function(*given)):
        closures = list(measure_closures("tiny"))
    assert [one.what for one in closures] == [
        "closure of a chain of 20 edges",
        "closure of a chain of 40 edges",
        "closure of the dag of 359 edges",
    ]
    assert [one.rows for one in closures][:2] == [210, 820]
    console = Console(file=io.StringIO(), width=165)
    print_closures(console, closures)
    print_comparisons(console, [*found, *closures[0].compared()])
    assert isinstance(console.file, io.StringIO)
    aims = 1 + len([one for one in closures[0].compared() if one.aim])
    assert re.search(rf"\d of {aims} aims reached", console.file.getvalue())


def test_kernel_rates_are_printed() -> None:
    rates = list(measure_kernels(2_000, repeat=1))
    assert all(rate.rows > 0 and rate.seconds > 0 for rate in rates)
    console = Console(file=io.StringIO(), width=100)
    print_rates(console, rates)
    assert isinstance(console.file, io.StringIO)
    assert all(rate.what in console.file.getvalue() for rate in rates)


@pytest.mark.slow
def test_the_growth_of_every_operator_is_printed() -> None:
    growths = list(measure_growth(DECADES["tiny"], ticks=4))
    assert [growth.name for growth in growths] == [case.name for case in CASES]
    assert all(len(growth.factors) == 1 and min(growth.median) > 0 for growth in growths)
    console = Console(file=io.StringIO(), width=120)
    print_growth(console, growths)
    assert isinstance(console.file, io.StringIO)
    printed = console.file.getvalue()
    assert "1,000 rows" in printed
    assert all(growth.name in printed for growth in growths)


@pytest.mark.slow
def test_ticks_of_one_row_are_printed_by_the_size_of_their_group() -> None:
    measured = dict(measure_group_sizes(GROUPS["tiny"], ticks=4))
    assert list(measured) == [case.name for case in GROUP_CASES]
    assert all([one.rows for one in sizes] == [100, 1000] for sizes in measured.values())
    console = Console(file=io.StringIO(), width=120)
    print_group_sizes(console, measured)
    assert isinstance(console.file, io.StringIO)
    printed = console.file.getvalue()
    assert "1,000 rows" in printed
    assert all(name in printed for name in measured)


@pytest.mark.parametrize("case", GROUP_CASES, ids=lambda case: case.name)
def test_every_change_of_a_group_has_an_effect(case: GroupCase) -> None:
    """A retracted row is one of the group, an inserted row is a new one."""
    values = [case.value(number) for number in range(50)]
    held = {(0, number, value) for number, value in enumerate(values)}
    for change in itertools.islice(one_row(values, np.random.default_rng(2)), 60):
        ((row, weight),) = change.items()
        assert (row in held) == (weight < 0)
        (held.discard if weight < 0 else held.add)(row)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_change_of_the_growth_benchmark_has_an_effect(case: Case) -> None:
    """Deleted rows are present, inserted rows are absent, and the state keeps its size."""
    rows = 1_000
    keyed = case.name == "keyed input"
    present = {name: set(map(tuple, codes.tolist())) for name, codes in case.base(rows).items()}
    sizes = {name: len(rows_of) for name, rows_of in present.items()}
    ticks = case.ticks(rows, np.random.default_rng(1))
    for tick in itertools.islice(ticks, 20):
        for name, change in tick.items():
            for row, weight in change.items():
                assert keyed or (row in present[name]) == (weight < 0)
                (present[name].add if weight > 0 else present[name].discard)(row)
    assert keyed or all(abs(len(made) - sizes[name]) <= 1 for name, made in present.items())


def test_the_costs_of_a_circuit_are_printed() -> None:
    costs = measure_circuit(200, ticks=5)
    assert 180 <= costs.operators <= 220
    assert costs.nodes > 100
    console = Console(file=io.StringIO(), width=100)
    print_costs(console, costs)
    assert isinstance(console.file, io.StringIO)
    assert "per node" in console.file.getvalue()


def test_two_hubs_have_few_triangles_and_many_paths() -> None:
    edges = two_hubs(64)
    assert len(set(map(tuple, edges.tolist()))) == len(edges) == 66
    assert len(matches("w2", edges)) == 32
    ways_in, ways_out = np.bincount(edges[:, 1]), np.bincount(edges[:, 0])
    for paths in (ways_in * ways_out, ways_in**2, ways_out**2):
        assert paths.sum() >= 64 * 64 / 8


def test_three_parts_have_all_triangles_that_their_edges_allow() -> None:
    edges = tripartite(3 * 6 * 6)
    assert len(set(map(tuple, edges.tolist()))) == len(edges) == 108
    assert len(matches("w2", edges)) == 36**1.5


@pytest.mark.slow
def test_exponents_are_fitted_and_printed() -> None:
    sizes = (10, 20, 40)
    squares = Scaling("g", "p", "load", sizes, sizes, tuple(3e-9 * n**2 for n in sizes))
    assert squares.exponent == pytest.approx(2)
    assert Scaling("g", "p", "load", (10,), (1,), (0.1,)).exponent is None
    measured = list(measure_scaling(POWERS["tiny"], most_pairs=2**18 / 8))
    assert {(s.graph, s.plan, s.phase): len(s.edges) for s in measured} == {
        (graph, plan, phase): 1 if (graph, plan) == ("two hubs", "binary") else 2
        for graph in ("two hubs", "tripartite")
        for plan in ("multi-way", "binary")
        for phase in ("load", "stream")
    }
    found = {(scaling.graph, scaling.results[0]) for scaling in measured}
    assert found == {("two hubs", 256), ("tripartite", 13**3)}
    console = Console(file=io.StringIO(), width=160)
    print_scaling(console, measured)
    assert isinstance(console.file, io.StringIO)
    printed = console.file.getvalue()
    assert "2^10 edges" in printed
    assert f"{measured[0].exponent:.2f}" in printed


def test_rewritings_are_compared_with_runs_without_them() -> None:
    measured = list(measure_rewrites(REWRITES["tiny"], ticks=3, repeat=1))
    assert {one.case.rewriting for one in measured} == {*REWRITING_PASSES, "demand"}
    for one in measured:
        if one.case.rewriting in ("specialise", "demand"):
            assert one.ratios[2] < 1
    console = Console(file=io.StringIO(), width=190)
    print_rewrites(console, measured)
    assert isinstance(console.file, io.StringIO)
    assert all(one.case.what in console.file.getvalue() for one in measured)
    with pytest.raises(ValueError, match="share changes the result of x"):
        case = replace(measured[0].case, rewriting="share", what="x")
        with patch("benchmarks.rewrites.play", lambda case, on, base, changes: (measured[0].with_it, on)):
            compared(case, uniform(10, np.random.default_rng(1)), [], 1)


def test_every_shape_is_measured_and_has_results() -> None:
    measured = list(measure_shapes(SHAPE_SHARES["tiny"], ticks=3))
    assert [one.shape for one in measured] == list(SHAPES)
    console = Console(file=io.StringIO(), width=190)
    print_shapes(console, measured)
    assert isinstance(console.file, io.StringIO)
    assert all(one.shape.name in console.file.getvalue() for one in measured)
    assert [one.shape.name for one in measured if not one.rows] == ["a cycle of 105 atoms"]


@pytest.mark.slow
def test_loads_with_and_without_a_memory_limit() -> None:
    free, limited = measure_limits(LIMITS["tiny"])
    assert (free.files, free.total) == (0, limited.total)
    assert limited.files > 3 * LIMITS["tiny"]
    console = Console(file=io.StringIO(), width=190)
    print_limits(console, [free, limited])
    assert isinstance(console.file, io.StringIO)
    assert "1 MB" in console.file.getvalue()
    assert not print_limits(console, [free, replace(limited, total=0)])
    assert not print_limits(console, [free, replace(limited, peak=2 * LIMITS["tiny"])])
    assert print_limits(console, [free, replace(limited, peak=LIMITS["tiny"])])


@pytest.mark.slow
def test_several_processes_and_one_have_the_same_results() -> None:
    ((alone, shards),) = measure_shards({"w1": "tiny"}, ways=(0, 2), ticks={1: 1, 100: 1}, loads=1)
    assert (len(alone.rows), len(shards.rows)) == (1, 2)
    assert alone.outcome == shards.outcome
    assert [len(phase.by_process) for phase in shards.ticks.values()] == [3, 3]
    console = Console(file=io.StringIO(), width=190)
    assert print_shards(console, [alone, shards])
    assert isinstance(console.file, io.StringIO)
    assert "2 shards" in console.file.getvalue()
    assert not print_shards(console, [alone, replace(shards, outcome=None)])


@pytest.mark.slow
def test_loads_by_one_thread_and_by_two() -> None:
    loads = list(measure_threads("tiny", only="w2"))
    assert [load.threads for load in loads[0]][:2] == [1, 2]
    console = Console(file=io.StringIO(), width=190)
    assert print_threads(console, loads)
    loads[0][1].agreed = False
    assert not print_threads(console, loads)


@pytest.mark.slow
def test_what_the_choices_of_a_caller_cost() -> None:
    costs = list(measure_usage(USAGE["tiny"], repeat=1))
    assert [cost.choice for cost in costs if cost.question == "kind of the input"] == ["zset", "set", "key"]
    state = {cost.choice: cost.state_bytes for cost in costs}
    assert state["set"] > state["zset"] > 0
    console = Console(file=io.StringIO(), width=190)
    print_usage(console, costs)
    assert isinstance(console.file, io.StringIO)
    assert all(cost.choice in console.file.getvalue() for cost in costs)


@pytest.mark.slow
def test_the_costs_of_subscriptions() -> None:
    console = Console(file=io.StringIO(), width=190)
    measured = list(measure_subscriptions(SUBSCRIPTIONS["tiny"]))
    assert [(each.kind, each.number) for each in measured] == [
        (kind, n) for kind in SUBSCRIPTION_KINDS for n in (1, 5)
    ]
    assert [each.circuits for each in measured[:4]] == [measured[0].circuits] * 4
    assert len({another(number) for number in range(300)}) == 300
    print_subscriptions(console, measured)
    assert isinstance(console.file, io.StringIO)
    assert "other constants" in console.file.getvalue()


def test_the_cost_of_an_inspector() -> None:
    ticks = list(measure_inspected_ticks("tiny"))
    assert [each.workload for each in ticks] == ["w1", "w1", "w3dag", "w3chain"]
    assert all(min(each.seconds.values()) > 0 for each in ticks)
    console = Console(file=io.StringIO(), width=190)
    print_inspected(console, ticks, ShownCircuit(500, 600, 1.5))
    assert isinstance(console.file, io.StringIO)
    assert "a circuit of 500 operators and 600 streams is shown after 1.50 s" in console.file.getvalue()


@pytest.mark.slow
def test_loads_by_width(capsys: pytest.CaptureFixture[str]) -> None:
    loads = list(measure_load_widths(LOADS["tiny"]))
    assert [load.case for load in loads] == list(LOAD_CASES)
    assert all(set(load.seconds) == {"narrow", "wide"} for load in loads)
    assert loads[0].results == {"narrow": LOADS["tiny"], "wide": LOADS["tiny"]}
    assert all(load.results["wide"] for load in loads)
    print_load_widths(Console(), LOADS["tiny"], loads)
    printed = capsys.readouterr().out
    assert all(case in printed for case in LOAD_CASES)
    assert [load.case for load in measure_load_widths(9, only="top")] == ["top 3 of a group"]


def test_the_ways_to_load_many_rows() -> None:
    loads = list(measure_bulk_loads(BULK["tiny"], parts=10))
    assert [load.way for load in loads] == list(WAYS)
    assert {load.totals for load in loads} == {1_000}
    assert all(load.seconds > 0 and load.kept > 0 for load in loads)
    console = Console(file=io.StringIO(), width=190)
    print_bulk_loads(console, BULK["tiny"], loads)
    assert isinstance(console.file, io.StringIO)
    assert all(load.way in console.file.getvalue() for load in loads)


@pytest.mark.slow
def test_the_edits_of_a_program() -> None:
    edits = list(measure_edits(EDITED["tiny"]))
    assert [(each.edit, each.replayed_rows == 0, each.changed > 0) for each in edits] == [
        ("nothing", True, False),
        ("add a rule over the graph", False, False),
        ("replace the recursive rule", False, False),
        ("replace the filter of large orders", False, True),
        ("change one of two rules, with readers", False, True),
        ("drop one of two rules, with readers", False, True),
        ("replace one of two rules, with readers", False, True),
        ("replace a filter, with readers", False, True),
        ("replace the recursive rule, with readers", False, False),
        ("replace the join of all orders", False, True),
    ]
    console = Console(file=io.StringIO(), width=190)
    print_edits(console, EDITED["tiny"], edits)
    assert isinstance(console.file, io.StringIO)
    assert all(each.edit in console.file.getvalue() for each in edits)


@pytest.mark.slow
def test_the_routes_of_data() -> None:
    measured = list(measure_routes(ROUTES["tiny"], repeat=1))
    assert {one.shape for one in measured} == {"(int, int)", "(int, str, float)"}
    assert [one.route for one in measured].count("2-D NumPy array") == 1
    console = Console(file=io.StringIO(), width=190)
    print_routes(console, ROUTES["tiny"], measured)
    assert isinstance(console.file, io.StringIO)
    assert all(one.route in console.file.getvalue() for one in measured)


def test_the_planner_is_compared_with_the_strategies_it_chooses_from() -> None:
    planned = list(measure_planner(SHARES["tiny"], ticks=3, batches=1, repeat=1))
    assert {one.query for one in planned} == set(PATTERNS)
    assert len(planned) == 2 * len(PATTERNS)
    assert all(list(one.times) == ["auto", "binary", "wcoj"] for one in planned)
    console = Console(file=io.StringIO(), width=190)
    print_planner(console, planned)
    assert isinstance(console.file, io.StringIO)
    assert all(query in console.file.getvalue() for query in PATTERNS)
    times = {"auto": Times(3.0, 1.0, 2.0), "binary": Times(2.0, 4.0, 2.0), "wcoj": Times(4.0, 2.0, 5.0)}
    assert Planned("triangle", "uniform", 1, 1, times).ratios == (1.5, 0.5, 1.0)
    print_planner(console, [Planned("triangle", "uniform", 1, 1, times)])
    assert "the worst is 1.50, 1 of 3 are above 1.2" in console.file.getvalue()


# --- faults, kills and the soak test --------------------------------------------------------------


def test_kills_of_shards_report_what_they_did() -> None:
    printed = io.StringIO()
    console = Console(file=printed, width=190)
    assert print_shard_kills(console, measure_shard_kills(2))
    assert re.match(r"\d kills of shards, \d of coordinators, \d+ ticks, .* 0 wrong, ", printed.getvalue())
    wrong = ShardsKilled(problems=["2 ticks were durable, found 1"])
    assert not print_shard_kills(console, wrong)
    assert printed.getvalue().endswith("2 ticks were durable, found 1\n")


def test_campaigns_report_what_they_did(tmp_path: Path) -> None:
    printed = io.StringIO()
    console = Console(file=printed, width=190)
    assert print_faults(console, [inject(FAULT_CIRCUITS[0], KeyboardInterrupt, stride=211)])
    assert print_kills(console, measure_kills(2, only="multiway"))
    assert print_soak(console, measure_soak(2.0, tmp_path, reports=2))
    lines = printed.getvalue().splitlines()
    assert lines[0].startswith("joins ") and lines[1].endswith("faults, 0 wrong")
    assert lines[2].startswith("multiway ") and lines[3] == "2 kills, 0 wrong"
    assert [line.split()[1] for line in lines[4:]] == ["s", "s"]


def test_a_soak_test_notices_a_wrong_view(tmp_path: Path) -> None:
    with patch("benchmarks.soak._apply", lambda rows, change: None):
        *_, last = measure_soak(60.0, tmp_path)
    assert "differs in" in last.problem
    console = Console(file=io.StringIO(), width=190)
    assert not print_soak(console, [last])


def test_windows_stay_flat(tmp_path: Path) -> None:
    reports = list(measure_windows(1200, tmp_path, reports=3))
    assert [report.ticks for report in reports] == [400, 800, 1200]
    assert reports[-1].state_rows < 2 * reports[0].state_rows
    console = Console(file=io.StringIO(), width=190)
    assert print_windows(console, reports)


def test_windows_that_forget_too_much_are_noticed(tmp_path: Path) -> None:
    right = TraceLimit.threshold
    with patch.object(TraceLimit, "threshold", lambda limit: right(limit) + 60):
        *_, last = measure_windows(2000, tmp_path, reports=4)
    assert "differs from a run over the latest" in last.problem
    assert not print_windows(Console(file=io.StringIO(), width=190), [last])


@pytest.mark.slow
def test_startup() -> None:
    starts = list(measure_startup(1, cold=False))
    steps = {(start.step, start.system) for start in starts}
    assert steps >= {("import", "numpy and pyarrow"), ("version", "dbsp"), ("run on two rows", "souffle")}
    ours = [start for start in starts if start.system == "dbsp"]
    assert all(start.processor and start.elapsed and start.megabytes > 5 for start in ours)
    sizes = {start.system: start for start in starts if start.step == "installed"}
    assert sizes["dbsp-circuits"].megabytes > 50
    console = Console(record=True, width=120)
    print_startup(console, [*starts, Start("version", "another")])
    text = console.export_text()
    assert "run on two rows" in text
    assert "not installed" in text


def test_checkpoints_are_measured(tmp_path: Path) -> None:
    rows = CHECKPOINTS["tiny"]
    first, second = measure_snapshots(rows, tmp_path)
    assert (first.changed, second.changed) == (rows, rows // 100)
    assert 8 * rows < first.written == first.state < 10 * rows  # 32 bits a code
    assert 0 < second.written < 0.1 * second.state
    openings = list(measure_openings(tmp_path))
    assert [(one.rows >= rows, one.processor > 0, one.tick > 0) for one in openings] == [(True,) * 3] * 2
    console = Console(file=io.StringIO(), width=120)
    print_checkpoints(console, rows, [first, second], openings)
    assert isinstance(console.file, io.StringIO)
    assert "opening 20,000 rows" in console.file.getvalue()


def test_pauses_are_measured() -> None:
    pauses = list(measure_pauses(20_000, ticks=60, every=20))
    assert [(each.mode, each.snapshots > 0) for each in pauses] == [
        ("no checkpoint", False),
        *(("journal", False), ("background", True), ("in the tick", True)) * 2,
    ]
    for each in pauses:
        assert 0 < each.median <= each.slow <= each.slowest
        assert (each.beginning > 0) == (each.snapshots > 0)
    ages = list(measure_age(AGES["tiny"], parts=2, every=20))
    console = Console(file=io.StringIO(), width=120)
    print_pauses(console, 20_000, pauses)
    print_age(console, ages)
    assert isinstance(console.file, io.StringIO)
    assert "Single-row ticks of a state of 20,000 rows" in console.file.getvalue()


def test_values_come_and_go() -> None:
    phases = {each.phase: each for each in measure_strings(20_000)}
    start, load, end = (phases[name] for name in ("start", "load", "compaction"))
    assert (start.values, load.values, end.values) == (0, 20_000, 0)
    assert end.files <= start.files + 2 and end.size < start.size + 1_000
    ages = list(measure_churn(2_000, parts=4, every=20))
    assert max(age.files for age in ages) < 40
    assert max(age.manifest for age in ages) < 8_000
    console = Console(file=io.StringIO(), width=120)
    print_strings(console, 20_000, list(phases.values()))
    print_churn(console, ages)
    assert isinstance(console.file, io.StringIO)
    assert "20,000 different strings" in console.file.getvalue()


def test_the_files_of_a_long_run_stay_the_same() -> None:
    ages = list(measure_age(2_000, parts=5, every=10))
    files, sizes, manifests = zip(*((age.files, age.size, age.manifest) for age in ages), strict=True)
    assert max(files) < 40
    assert max(manifests) < 6_000
    assert max(sizes) < 2 * min(sizes)
