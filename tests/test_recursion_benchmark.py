"""The benchmark of recursive programs compares results and targets. Times are not tested."""

from __future__ import annotations

import importlib.util
import io
import zipfile
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import dbsp
from benchmarks.__main__ import app
from benchmarks.contest import Outcome
from benchmarks.recursion import (
    FEWEST,
    MODES,
    PEER,
    SAMPLES,
    Measured,
    Phase,
    changes,
    contestants,
    measure_in_process,
    measure_recursion,
    phases,
    play,
    play_peer,
    results,
    without,
)
from benchmarks.recursion_report import print_recursion, targets
from benchmarks.recursive_programs import (
    CASES,
    GALEN,
    GALEN_ROWS,
    W3,
    Case,
    Relations,
    chain,
    families,
    galen,
    statements,
)
from benchmarks.workloads import make

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
pytestmark = pytest.mark.slow

INSTALLED = importlib.util.find_spec("duckdb") is not None


def tiny(case: Case) -> Relations:
    return case.base(case.sizes["tiny"])


def rows_of(relations: Relations) -> dict[str, set[tuple[int, ...]]]:
    return {name: set(map(tuple, rows.tolist())) for name, rows in relations.items()}


def printed(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@each_case
def test_data_is_the_same_every_time_and_a_set(case: Case) -> None:
    once, again = tiny(case), tiny(case)
    assert all(np.array_equal(once[name], again[name]) for name in case.columns)
    assert {name: len(rows) for name, rows in once.items()} == {n: len(r) for n, r in rows_of(once).items()}


@each_case
def test_changes_delete_present_rows_and_insert_them_again(case: Case) -> None:
    base = tiny(case)
    total = sum(map(len, base.values()))
    for phase, picks in phases(case, base):
        for picked in picks:
            assert len(set(picked.tolist())) == phase.rows <= total
            left = rows_of(without(base, picked))
            assert sum(map(len, left.values())) == total - phase.rows
            run = dbsp.compile(case.rules).start({name: rows.tolist() for name, rows in base.items()})
            run.step(changes(case, base, picked, -1))
            for name, rows in left.items():
                assert set(map(tuple, (run.rows(name) if rows else np.empty((0, 2))).tolist())) == rows
            run.step(changes(case, base, picked, 1))
            break


@each_case
def test_the_picks_of_a_phase_do_not_depend_on_earlier_phases(case: Case) -> None:
    base = tiny(case)
    first = [next(picks).tolist() for _, picks in phases(case, base)]
    every = [[picked.tolist() for picked in picks] for _, picks in phases(case, base)]
    assert first == [picks[0] for picks in every]
    assert all(1 < len(picks) <= SAMPLES for picks in every)


@each_case
def test_the_result_is_that_of_the_peer(case: Case) -> None:
    own = play(case, "auto", tiny(case), seconds=0.0)
    assert own.rows > 0
    if case.sql and INSTALLED:
        assert play_peer(case, PEER, tiny(case), seconds=0.0).result == own.result


@pytest.mark.parametrize("name", [W3, "reach along a chain", "points-to", "same generation, dags"])
def test_every_mode_returns_the_same_result(name: str) -> None:
    case = next(case for case in CASES if case.name == name)
    measured = [play(case, mode, tiny(case), seconds=1e-9) for mode in MODES]
    if case.sql and INSTALLED:
        measured.append(play_peer(case, PEER, tiny(case), seconds=0.0))
    assert all(one.rows == measured[0].rows > 0 for one in measured)
    assert [len(one.deletions) for one in measured[0].phases] == [FEWEST] * len(measured[0].phases)
    console = Console(file=io.StringIO(), width=200)
    assert print_recursion(console, "tiny", measured)
    assert all(phase.name in printed(console) for phase in measured[0].phases)
    measured[1].phases[0].result = (Outcome(1, 1),)
    assert not print_recursion(console, "tiny", measured)
    assert "DIFFERS" in printed(console)


@pytest.mark.parametrize("graph", ["closure of the dag", "closure of a chain"])
def test_every_form_of_a_closure_is_the_same(graph: str) -> None:
    forms = [case for case in CASES if case.name.startswith(graph)]
    found = {play(case, "auto", tiny(forms[0]), seconds=0.0).result for case in forms}
    assert len(forms) == 3
    assert len(found) == 1


def test_the_dag_is_that_of_the_workload() -> None:
    case = next(case for case in CASES if case.name == W3)
    assert np.array_equal(case.base(case.sizes["small"])["e"], make("w3dag", "small").base["e"])


def test_same_generation_is_that_by_definition() -> None:
    """Compare with the depth of each node below the root, for trees."""
    base = families(480, second=0.0)
    parent = dict(base["up"].tolist())
    flat = rows_of(base)["flat"]

    def line(node: int) -> list[int]:
        return [node] if node not in parent else [*line(parent[node]), node]

    lines = [line(node) for node in range(480)]
    expected = sum(len(a) == len(b) and (a[0], b[0]) in flat for a in lines for b in lines)
    case = next(case for case in CASES if case.name == "same generation, trees")
    assert play(case, "auto", base, seconds=0.0).rows == expected
    ways = families(480, second=0.5)["up"]
    assert len(ways) > 1.2 * len(base["up"])
    assert len(np.unique(ways[:, 0])) == len(np.unique(base["up"][:, 0]))


def test_the_number_of_statements_and_their_modules() -> None:
    base = statements(5_000)
    assert 4_000 < sum(map(len, base.values())) <= 5_000
    for name in ("assign", "load", "store"):
        assert (base[name][:, 0] // 300 == base[name][:, 1] // 300).all()
    called = np.bincount(base["assign"][:, 0])
    assert called.max() > 5 * called[called > 0].mean()
    case = next(case for case in CASES if case.name == "points-to")
    assert play(case, "auto", base, seconds=0.0).rows > 5 * 5_000


def test_a_result_unlike_that_of_a_fresh_run_is_an_error() -> None:
    case = next(case for case in CASES if case.name == "reach along a chain")
    with (
        patch("benchmarks.recursion.fresh_run", return_value=(1.0, (Outcome(1, 1),))),
        pytest.raises(
            ValueError, match=r"reach along a chain: the load: expected the result of a fresh run, .*, got"
        ),
    ):
        play(case, "auto", chain(20), seconds=1.0)


def test_a_row_with_weight_two_is_an_error() -> None:
    circuit = dbsp.Circuit("twice")
    circuit.output("result", circuit.input("e", x=int, y=int))
    run = circuit.start()
    run.step({"e": {(1, 2): 1}})
    assert results(CASES[0], run) == (Outcome(1, 1_000_003 + 2 * 10_007),)
    run.step({"e": {(1, 2): 1}})
    with pytest.raises(ValueError, match="expected rows of weight 1 in result, got other weights"):
        results(CASES[0], run)


def test_ratios_are_to_the_fresh_run_of_the_same_change() -> None:
    phase = Phase("1 row", 1, [4.0, 2.0, 2.0], [1.0, 3.0, 2.0], [1.0, 4.0])
    assert phase.ratios(2.0) == (0.8, 4.0, 1.0, 1.5)


def test_a_missed_target_is_marked() -> None:
    phase = Phase("1 row", 1, [1e-3, 1e-3, 4.0], [3e-3], [2.0])
    result = (Outcome(1_000, 7),)
    own = Measured(
        W3,
        "auto",
        load=0.5,
        fresh=[2.0],
        compacted=101_000,
        peak=190_000,
        phases=[phase],
        result=result,
    )
    found = {target.what: (target.text, target.missed) for target in targets("medium", [own])}
    assert found == {
        "load": ("500 ms of 1 s", False),
        "bytes per row compacted": ("101 of 100", True),
        "bytes per row at the peak": ("190 of 200", False),
        "delete an edge, median": ("1 ms of 2 ms", False),
        "insert an edge, median": ("3 ms of 2 ms", True),
        "slowest tick / fresh run": ("2.00 of 1.5 (1 row)", True),
    }
    assert [target.what for target in targets("small", [own])] == ["slowest tick / fresh run"]
    assert not list(targets("medium", [replace(own, contestant="incremental")]))
    ontology = Measured(GALEN, "auto", load=301.0, fresh=[301.0], before=300_000_000, peak=7_700_000_001)
    assert [(target.text, target.missed) for target in targets("medium", [ontology])] == [
        ("301 s of 300 s", True),
        ("8.0 of 8 GB", True),
    ]
    console = Console(file=io.StringIO(), width=200)
    assert print_recursion(console, "medium", [own])
    assert "bytes per row compacted: 101 of 100, MISSED" in printed(console)
    assert "2.000" in printed(console)


def test_galen_is_right_only_with_the_rows_of_its_least_model() -> None:
    right = Measured(
        GALEN, "auto", load=1.0, fresh=[1.0], result=tuple(Outcome(rows, 0) for rows in GALEN_ROWS)
    )
    console = Console(file=io.StringIO(), width=200)
    assert print_recursion(console, "medium", [right])
    assert not print_recursion(console, "medium", [replace(right, result=(Outcome(1, 0), Outcome(1, 0)))])
    assert not print_recursion(console, "medium", [Measured(GALEN, "auto", note="it died", failed=True)])
    assert "it died" in printed(console)


def test_galen_is_read_from_a_folder_and_from_a_zip_file(tmp_path: Path) -> None:
    rows = {"p": "1,2\n2,3\n", "q": "3,9,4\n", "c": "1,2,3\n", "r": "7,8,9\n", "s": "9,10\n", "u": "1,2,3\n"}
    packed = tmp_path / "ontology.zip"
    with zipfile.ZipFile(packed, "w") as file:
        for name, text in rows.items():
            (tmp_path / f"{name}.txt").write_text(text)
            file.writestr(f"data/{name}.txt", text)
    for source in (tmp_path, packed):
        case = galen(source)
        measured = play(case, "auto", case.base(0), seconds=0.0)
        assert [outcome.rows for outcome in measured.result] == [3, 6]
        assert measured.inputs == 7
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr("p.txt", rows["p"])
    with pytest.raises(FileNotFoundError, match=r"expected q\.txt in .*ontology\.zip"):
        galen(packed).base(0)
    assert contestants(case, MODES) == ["auto"]


def test_a_failure_in_the_process_is_reported() -> None:
    failed = measure_in_process("no program", "auto", "tiny", None, 1.0)
    assert failed.failed
    assert "StopIteration" in failed.note


def test_a_program_is_measured_in_a_new_process() -> None:
    (measured,) = measure_recursion("tiny", modes=["auto"], only="points-to", seconds=0.1)
    assert [(one.contestant, one.failed) for one in measured] == [("auto", False)]
    assert measured[0].rows == 46
    assert measured[0].before > measured[0].stored > 0
    assert not list(measure_recursion("large", only="closure of a chain, left"))


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    for options, text in (
        (["--size", "huge"], "recursion expects a size of small, medium, large, got 'huge'"),
        (["--only", "nonesuch"], "expected a part of a program's name"),
        (["--galen", str(tmp_path / "none")], "does not exist"),
    ):
        answer = CliRunner().invoke(app, ["recursion", *options], env={"COLUMNS": "200"})
        assert answer.exit_code == 2
        assert text in answer.output


def test_the_peer_is_a_contestant_where_it_has_a_query() -> None:
    found = [contestants(case, MODES)[-1] == PEER for case in CASES]
    assert found == [bool(case.sql) and INSTALLED for case in CASES]
