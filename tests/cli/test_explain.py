"""`dbsp graph` and `dbsp explain`, and the options that change the circuit."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import pytest

from dbsp.compiler.datalog.compiler_passes import COMPILER
from tests.cli.support import PATHS, REACH, Command

pytestmark = pytest.mark.usefixtures("compiled_kernels")


def test_graph(folder: Path, run: Command) -> None:
    done = run("graph", "reach.dl")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("digraph circuit {")
    assert "Fixpoint path" in done.out
    assert "reach.dl:6" in done.out
    assert run("graph", "reach.dl", "-o", "reach.svg").code == 0
    assert "<svg" in (folder / "reach.svg").read_text()
    incremental = run("graph", "reach.dl", "--stage", "incremental")
    assert "Arrange" in incremental.out
    assert "Input edge, " in run("graph", "reach.dl", "--stage", "distributed").out
    done = run("graph", "reach.dl", "-o", "reach.txt")
    assert (done.code, done.err) == (
        1,
        "dbsp: error: reach.txt: expected a file name that ends in one of .dot, .gv, .mmd, .mermaid, "
        ".svg, .png, .pdf, .json, got 'reach.txt' [invalid-argument]\n",
    )


def test_graphs_of_parts_and_stages(folder: Path, run: Command) -> None:
    assert "subgraph cluster_stage_incremental" in run("graph", "reach.dl", "--stages").out
    two = run("graph", "reach.dl", "--stage", "physical", "--stage", "query").out
    assert re.findall(r"cluster_stage_(\w+)", two) == ["physical", "query"]
    overview = run("graph", "reach.dl", "--overview").out
    assert re.findall(r"(\w+) -> (\w+)", overview) == [("r0", "r1"), ("r1", "r1")]
    assert 'label="reach.dl (relations)"' in overview
    assert "Fixpoint path" not in run("graph", "reach.dl", "--only", "edge").out
    near = run("graph", "reach.dl", "--only", "edge", "--readers", "--depth", "1").out
    assert "1 reader not shown" in near
    assert "Output path" not in near
    assert "3 operators" in run("graph", "reach.dl", "--collapse", "rules").out
    assert 'color="#c62828"' in run("graph", "reach.dl", "--critical").out
    assert run("graph", "reach.dl", "-o", "reach.mmd").code == 0
    assert (folder / "reach.mmd").read_text().startswith("flowchart TB\n")


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--overview", "--stages"], 2, "--overview draws relations, and no stage, source or sink"),
        (["--stages", "--stage", "query"], 2, "--stages names the stages itself; leave out --stage"),
        (["--only", "pth"], 1, "got 'pth'; did you mean 'path'? [unknown-relation]"),
        (["--depth", "2"], 2, "--depth selects nodes around a relation; name the relation with --only"),
        (["--readers"], 2, "--readers selects nodes around a relation; name the relation with --only"),
    ],
)
def test_wrong_options_of_graph(
    folder: Path, run: Command, options: list[str], code: int, message: str
) -> None:
    done = run("graph", "reach.dl", *options)
    assert (done.code, done.out) == (code, "")
    assert message in " ".join(done.err.replace("\u2502", " ").split())


def test_a_profile_of_a_run(folder: Path, run: Command) -> None:
    done = run("run", "reach.dl", "-F", "facts", "-D", "out", "--profile", "p.json", "--profile-by", "rows")
    assert (done.code, done.err) == (0, "")
    data = json.loads((folder / "p.json").read_text())
    assert data["title"] == "reach.dl: rows of 1 tick"
    (edge,) = (node for node in data["nodes"] if node["title"] == "Input edge")
    assert edge["measured"]["rows_out"] == 2
    assert data["legend"][0]["text"].startswith("colour: rows emitted")
    refused = run("run", "reach.dl", "-F", "facts", "-D", "out", "--profile", "p.json", "--shards", "2")
    assert refused.code == 2
    assert "--profile measures a run in one process" in refused.err


def test_explain(folder: Path, run: Command) -> None:
    done = run("explain", "reach.dl")
    assert (done.code, done.err) == (0, "")
    assert "path(x, z) :- path(x, y), edge(y, z)." in done.out


def test_explain_with_measurements(folder: Path, run: Command) -> None:
    done = run("explain", "reach.dl", "-F", "facts", "--analyze")
    assert (done.code, done.err) == (0, "")
    assert re.search(r"\noperators\n  Output path +3 rows +[\d.]+ .?s +1 step +reach.dl:3:7\n", done.out)
    for wrong in (("--analyze",), ("-F", "facts", "--analyze", "--after", "prune")):
        done = run("explain", "reach.dl", *wrong)
        assert done.code == 2 and "--analyze needs --fact-dir" in done.err


def test_explain_after_a_pass(folder: Path, run: Command) -> None:
    done = run("explain", "reach.dl", "--after", "stratify")
    assert (done.code, done.err) == (0, "")
    assert "// stratum 1, recursive\npath(x, y) :- edge(x, y).\n" in done.out
    assert "scope path\n    0  Delay path" in run("explain", "reach.dl", "--after", "build").out
    assert "Arrange by" in run("explain", "reach.dl", "--after", "prune", "-F", "facts").out
    unknown = run("explain", "reach.dl", "--after", "fuze")
    assert unknown.code == 2
    for word in ("unknown pass 'fuze'", "did you mean 'fuse'?", "preprocess", "incrementalise"):
        assert word in " ".join(unknown.err.replace("│", " ").split())


def test_explain_lists_the_passes(run: Command) -> None:
    done = run("explain", "--passes")
    assert (done.code, done.err) == (0, "")
    lines = [line.split()[0] for line in done.out.splitlines() if line.startswith("   ")]
    assert lines == [one.name for one in COMPILER]


def test_explain_with_facts_prints_actual_row_counts(folder: Path, run: Command) -> None:
    (folder / "triangles.dl").write_text(
        ".decl edge(x: number, y: number)\n.input edge\n.decl t(x: number, y: number, z: number)\n.output t\n"
        "t(x, y, z) :- edge(x, y), edge(y, z), edge(x, z).\n"
    )
    (folder / "facts" / "edge.facts").write_text("1\t2\n2\t3\n1\t3\n3\t4\n2\t4\n")
    done = run("explain", "triangles.dl", "-F", "facts", "--strategy", "wcoj")
    assert (done.code, done.err) == (0, "")
    assert "a multi-way join, as requested" in done.out
    assert re.search(r"change of edge\(\w, \w\): 5 rows, \w: 2 of \S+ expected\n", done.out)
    assert re.search(r"edge by \(x, y\) .*; 5 rows, 120 bytes\n", done.out)
    missing = run("explain", "triangles.dl", "-F", "nowhere")
    assert missing.code == 1
    assert "edge.facts" in missing.err


@pytest.mark.parametrize("command", [["run", "-F", "facts", "-D", "-"], ["live", "-F", "facts", "--initial"]])
def test_every_strategy_returns_the_same_results(
    folder: Path, run: Command, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    name, *options = command
    results = [
        run(name, "reach.dl", *options, "--strategy", strategy) for strategy in ("auto", "binary", "wcoj")
    ]
    assert {(done.code, done.out) for done in results} == {(0, results[0].out)}
    assert "1\t3" in results[0].out or "path(1, 3)" in results[0].out


def test_the_strategy_shows_in_the_circuit(folder: Path, run: Command) -> None:
    assert "MultiwayJoin" not in run("graph", "reach.dl").out
    assert "MultiwayJoin" in run("graph", "reach.dl", "--strategy", "wcoj").out
    assert run("check", "reach.dl", "--ticks", "5", "--strategy", "wcoj").code == 0
    assert run("run", "reach.dl", "--strategy", "fast").code == 2


def test_relations_on_demand(folder: Path, run: Command) -> None:
    (folder / "near.dl").write_text(
        REACH.replace(".output path", "")
        + ".decl near(x: number)\n.output near\nnear(y) :- path(x, y), edge(_, x)."
    )
    for names in ("*", "path"):
        assert "path: only rows whose x is needed" in run("explain", "near.dl", "-m", names).out
    assert "\n3\n" in run("run", "near.dl", "-F", "facts", "-D", "-", "--magic-transform", "*").out
    unknown = run("explain", "near.dl", "-m", "paths")
    assert (unknown.code, "did you mean 'path'?" in unknown.err) == (1, True)


def test_rewritings_can_be_disabled(folder: Path, run: Command) -> None:
    (folder / "reach.dl").write_text(REACH + ".decl unused(x: number)\nunused(x) :- path(x, y), y = 2.\n")
    dead = "rewritten by drop_dead\n  unused is left out: no output depends on it\n"
    assert dead in run("explain", "reach.dl").out
    assert dead in run("explain", "reach.dl", "-z", "inline_once,propagate_constants").out
    assert "rewritten" not in run("explain", "reach.dl", "-z", "drop_dead, propagate_constants").out
    done = run("run", "reach.dl", "-F", "facts", "-D", "-", "--disable-transformers", "all")
    assert PATHS in done.out
    refused = run("explain", "reach.dl", "-z", "inline")
    assert refused.code == 2
    shown = " ".join(refused.err.replace("│", " ").split())
    assert "expected rewritings (propagate_constants," in shown
    assert "got 'inline'" in shown and "[invalid-option]" in shown
