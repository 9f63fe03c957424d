"""`start(shards=)` of circuits and programs, and questions and reports about sharded runs."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import dbsp
from dbsp import ArgumentError, CheckpointError, Circuit, CircuitError, DbspError, col
from dbsp.circuit.node_numbers import numbered
from dbsp.circuit.stage import Stage
from dbsp.compiler.program_planner import ProgramPlanner
from dbsp.durable import Store
from dbsp.operators.shards.exchange import Placing
from dbsp.operators.stages.passes.distribute import distribute
from dbsp.shards.shard_folder import ShardFolder
from dbsp.shards.shard_report import skew
from dbsp.shards.sharded_run import ShardedRun

GRAPH = """
    .decl edge(x: number, y: number) .input edge
    .decl path(x: number, y: number) .output path
    path(x, y) :- edge(x, y).
    path(x, z) :- path(x, y), edge(y, z).
    .decl ring(x: number, y: number, z: number) .output ring
    ring(x, y, z) :- edge(x, y), edge(y, z), edge(z, x).
    edge(1, 2).
"""
EDGES = [(2, 3), (3, 1), (3, 4), (10, 11)]

CHAIN = """
    .decl a(x: number, y: number) .input a
    .decl b(x: number, y: number) .input b
    .decl c(x: number, y: number) .input c
    .decl chain(x: number, z: number) .output chain
    chain(x, z) :- a(x, y), b(y, w), c(w, z).
"""


def sales() -> Circuit:
    circuit = Circuit("sales")
    sold = circuit.input("sold", shop=str, amount=int, kind="set")
    shops = circuit.input("shops", shop=str, region=str, open=bool)
    opened = sold.join(shops, on=["shop"]).filter(col("open"))
    circuit.output("totals", opened.group_by("region").agg(total=col("amount").sum()))
    return circuit


SHOPS = [(f"s{n}", f"r{n % 3}", True) for n in range(10)]
SOLD = [(f"s{n % 10 if n % 3 else 9}", n) for n in range(300)]


@pytest.fixture(scope="module")
def program() -> dbsp.Program:
    return dbsp.compile(GRAPH)


@pytest.fixture(scope="module")
def run(program: dbsp.Program) -> Iterator[ShardedRun]:
    with program.start({"edge": EDGES}, shards=2) as started:
        yield started


@pytest.fixture(scope="module")
def sold() -> Iterator[ShardedRun]:
    with sales().start(shards=2) as started:
        started.step({"shops": SHOPS, "sold": SOLD})
        yield started


def test_a_circuit_on_shards_has_the_views_of_one_process(sold: ShardedRun) -> None:
    one = sales().start()
    one.step({"shops": SHOPS, "sold": SOLD})
    assert sold.view("totals") == one.view("totals")
    assert repr(sold) == "<run of 'sales' on 2 shards: (sold, shops) -> (totals), 1 tick>"
    assert sold.graph.same_as(sales().circuit("distributed"))


def test_facts_and_initial_changes_are_the_first_tick(program: dbsp.Program, run: ShardedRun) -> None:
    one = program.start({"edge": EDGES})
    assert run.tick == one.tick == 1
    assert {name: run.view(name) for name in run.outputs} == {name: one.view(name) for name in one.outputs}
    assert len(run.view("path")) == 13


def test_without_facts_there_is_no_first_tick() -> None:
    with dbsp.compile(CHAIN).start(shards=1, stage="distributed") as run:
        assert run.tick == 0


def test_the_first_tick_is_planned_for_its_rows() -> None:
    """The join order is that of one process, which depends on the number of rows."""
    program = dbsp.compile(CHAIN)
    orders = set()
    for repeated in "ac":
        rows = {name: [(n % 5 if name == repeated else n, n) for n in range(300)] for name in "abc"}
        one = program.start(rows)
        with program.start(rows, shards=1) as run:
            assert run.graph.same_as(distribute(one.graph))
            assert isinstance(run.planner, ProgramPlanner)
            assert isinstance(one.planner, ProgramPlanner)
            assert run.planner.plans.keys() == one.planner.plans.keys()
            assert run.view("chain") == one.view("chain")
            orders.add(run.graph.content_hash())
    assert len(orders) == 2, "the plans are the same for all rows"


@pytest.mark.parametrize("given", [0, -1, True, 1.0, "2"])
def test_the_number_of_shards_is_checked(given: Any) -> None:
    for start in (sales().start, dbsp.compile(GRAPH).start):
        with pytest.raises(ArgumentError, match="shards: expected a number of processes, 1 or more, got"):
            start(shards=given)


@pytest.mark.parametrize("stage", [Stage.QUERY, "incremental"])
def test_other_stages_have_no_shards(stage: Any) -> None:
    for start in (sales().start, dbsp.compile(GRAPH).start):
        with pytest.raises(
            ArgumentError,
            match=f"shards= needs the stage 'physical' or 'distributed', got '{stage}'; the other stages "
            "compute with whole relations",
        ):
            start(shards=2, stage=stage)


def test_a_checkpoint_continues_on_as_many_shards(tmp_path: Path) -> None:
    program = dbsp.compile(GRAPH)
    with program.start({"edge": EDGES}, shards=2, checkpoint=tmp_path) as run:
        run.step({"edge": [(4, 5)]})
    with program.start({"edge": [(7, 8)]}, shards=2, checkpoint=tmp_path) as run:
        assert run.tick == 2
        one = program.start({"edge": [*EDGES, (4, 5)]})
        assert run.view("path") == one.view("path")
        assert run.asserted("edge") == one.asserted("edge")
    with pytest.raises(CheckpointError) as caught:
        program.start(shards=1, checkpoint=tmp_path)
    assert caught.value.code == "checkpoint-other-shards"
    with pytest.raises(CheckpointError) as caught:
        dbsp.compile(CHAIN).start(shards=2, checkpoint=tmp_path)
    assert caught.value.code == "checkpoint-other-program"
    with program.start(shards=2, checkpoint=ShardFolder(tmp_path)) as run:
        assert run.tick == 2


def test_a_checkpoint_continues_on_another_number_of_shards(tmp_path: Path) -> None:
    program = dbsp.compile(GRAPH)
    with program.start({"edge": EDGES}, shards=2, checkpoint=tmp_path):
        pass
    with program.start(shards=1, checkpoint=ShardFolder(tmp_path, reshard=True)) as run:
        assert run.tick == 1
        assert run.view("path") == program.start({"edge": EDGES}).view("path")


def test_a_circuit_continues_from_its_checkpoint(tmp_path: Path) -> None:
    for tick in range(2):
        with sales().start(shards=1, checkpoint=str(tmp_path)) as run:
            assert run.tick == tick
            run.step({"shops": SHOPS[tick : tick + 1], "sold": SOLD[tick::2]})


def test_a_store_is_no_checkpoint_of_shards(tmp_path: Path) -> None:
    store: Any = Store(tmp_path)
    for start in (sales().start, dbsp.compile(GRAPH).start):
        with pytest.raises(ArgumentError, match="checkpoint: expected a folder or a ShardFolder, since"):
            start(shards=1, checkpoint=store)


def test_a_first_tick_that_fails_ends_the_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[ShardedRun] = []
    monkeypatch.setattr(ShardedRun, "close", _noting(ShardedRun.close, closed))
    program = dbsp.compile(".decl n(x: number) .input n .decl q(x: number) .output q q(100 / x) :- n(x).")
    with pytest.raises(DbspError, match="division by zero"):
        program.start({"n": [(0,)]}, shards=1)
    assert len(closed) == 1


def _noting(method: Callable[[ShardedRun], None], calls: list[ShardedRun]) -> Callable[[ShardedRun], None]:
    def called(run: ShardedRun) -> None:
        calls.append(run)
        method(run)

    return called


def test_the_ranges_of_columns_are_checked() -> None:
    program = dbsp.compile(GRAPH, word_size=32)
    with program.start(shards=1) as run:
        errors = []
        for each in (run, program.start()):
            with pytest.raises(DbspError) as caught:
                each.step({"edge": [(2**31, 1)]})
            errors.append(str(caught.value))
    assert errors[0] == errors[1]
    assert "32 bits" in errors[0]


def test_questions_are_answered(program: dbsp.Program, run: ShardedRun) -> None:
    one = program.start({"edge": EDGES})
    for row in ((1, 4), (2, 1)):
        assert str(program.why(run, "path", row)) == str(program.why(one, "path", row))
    assert program.why(run, "path", (1, 10)) is None
    assert str(program.why_not(run, "path", (1, 10))) == str(program.why_not(one, "path", (1, 10)))
    assert program.query(run, "path(1, x), ring(x, _, _)") == program.query(one, "path(1, x), ring(x, _, _)")
    run.step({"edge": [(11, 12)]})
    assert program.why(run, "path", (10, 12)) is not None
    run.step({"edge": {(11, 12): -1}})
    assert program.why(run, "path", (10, 12)) is None


def test_rows_that_no_shard_keeps(sold: ShardedRun) -> None:
    unkept = Circuit("unkept")
    unkept.output("large", unkept.input("n", x=int).filter(col("x") > 5))
    with (
        unkept.start(shards=1) as run,
        pytest.raises(CircuitError, match="does not keep the rows of its input 'n'") as caught,
    ):
        run.asserted("n")
    assert caught.value.code == "rows-not-kept"
    assert sold.asserted("sold").to_dict() == dict.fromkeys(SOLD, 1)


def test_the_reports_are_sums_over_the_shards(program: dbsp.Program, run: ShardedRun) -> None:
    one = program.start({"edge": EDGES})
    assert run.iterations().keys() == one.iterations().keys()
    assert len(run.evaluations()) == 1
    stats = run.stats()
    assert run.state_rows == sum(each.rows for each in stats) >= one.state_rows
    assert run.state_bytes == sum(each.bytes for each in stats)
    assert run.file_bytes == 0
    rows, _ = max(run.kept().values())
    assert rows >= 13
    assert "\non several shards\n  " in program.explain(run)


def test_the_counts_of_multiway_joins_are_summed(monkeypatch: pytest.MonkeyPatch) -> None:
    text = ".decl e(x: number, y: number) .input e .decl p(x: number, y: number) .output p\n"
    program = dbsp.compile(text + "p(x, y) :- e(x, y). p(x, z) :- p(x, y), p(y, z), x != z.", "wcoj")
    rows = {"e": [(n, n + 1) for n in range(20)]}
    with program.start(rows, shards=2) as run:
        ((*expected,),) = program.start(rows).join_terms().values()
        assert [*run.join_terms().values()] == [tuple(expected)]
        assert f"change of p(x, y): {expected[0].changed} rows, z: " in program.explain(run)
        ask = run.ask
        monkeypatch.setattr(run, "ask", lambda question: ask(question) * 2)
        ((*doubled,),) = run.join_terms().values()
        assert [term.changed for term in doubled] == [2 * term.changed for term in expected]
        levels = [[(name, 2 * count) for name, count in term.levels] for term in expected]
        assert [[*term.levels] for term in doubled] == levels


def test_the_report_names_skew_and_heavy_keys(sold: ShardedRun) -> None:
    lines = sold.explain().splitlines()
    rows = [one.rows for one in sold.stats()]
    assert lines[0] == f"2 shards, {sum(rows)} rows in all"
    assert lines[1].startswith(f"  shard 0: {rows[0]} rows, ")
    assert lines[3] == f"  the largest has {max(rows) / (sum(rows) / 2):.2f} times the mean"
    assert lines[4] == "exchanges since the start"
    between = "Exchange by (region) of Partial sums of Aggregate total for Aggregate total at "
    assert lines[5].startswith(f"  node 7, {between}test_start_on_shards.py:")
    assert "6 rows, " in lines[5], "each shard sends a row for each of 3 regions"
    assert lines[-2] == "heavy keys: all rows of a key are on one shard"
    assert lines[-1].endswith("shop = 's9' has 40% of 300 rows")


def test_exchanges_of_one_line_are_counted_apart() -> None:
    circuit = Circuit("pairs")
    pairs = circuit.input("pairs", x=int, y=int)
    totals = [pairs.group_by(key).agg(total=col("x").sum()) for key in ("x", "y")]
    for number, total in enumerate(totals):
        circuit.output(f"total {number}", total)
    walks = """
        .decl e(x: number, y: number) .input e
        .decl walk(x: number, y: number) .output walk
        walk(x, y) :- e(x, y). walk(x, z) :- walk(x, y), walk(y, z).
        .decl back(x: number, y: number) .output back
        back(x, y) :- e(y, x). back(x, z) :- back(x, y), back(y, z).
    """
    scopes = distribute(dbsp.compile(walks, "binary").circuit("physical"), scopes="exchange")
    rows = [(n, n + 1) for n in range(9)]
    for graph, changes in ((circuit.circuit("distributed"), {"pairs": rows}), (scopes, {"e": rows})):
        expected = {numbered(node) for node in graph.walk() if isinstance(node.operator, Placing)}
        assert len(expected) == sum(isinstance(node.operator, Placing) for node in graph.walk())
        with ShardedRun(graph, 2) as run:
            run.step(changes)
            assert {name for one in run.stats() for name in one.exchanges} == expected
            text = run.explain()
        assert all(f"\n  node {name.rpartition(' ')[2]}, " in text for name in expected), text


def test_displays(sold: ShardedRun) -> None:
    shown = sold._repr_mimebundle_()
    assert shown["text/plain"] == repr(sold)
    for words in ("run of sales", "2 shards, 1 tick", "sold", "Exchange at", "to other shards"):
        assert words in shown["text/html"]
    stats = sold.stats()
    assert [one.shard for one in stats] == [0, 1]
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(stats)
    text = console.export_text()
    assert f"{max(one.rows for one in stats):,}" in text
    assert "times the mean" in text


def test_the_display_of_a_closed_run_says_so() -> None:
    circuit = Circuit("ended")
    circuit.output("out", circuit.input("a", x=int))
    with circuit.start(shards=1) as run:
        pass
    assert "was called on a closed run" in run._repr_html_()


def test_explain_of_the_circuit_gives_the_reasons_of_exchanges(sold: ShardedRun) -> None:
    circuit = sales()
    reason = "  Exchange of Join -> region, total (test_start_on_shards.py:"
    for report in (circuit.explain(), circuit.explain(sold)):
        after = report.split("\non several shards\n")[1]
        stays, moves, *_ = after.splitlines()
        assert stays.startswith("  No exchange for Join -> region, total (test_start_on_shards.py:")
        assert moves.startswith(reason)
        assert "(region)" in moves
    assert "distributed circuit: " in circuit.explain(sold)
    assert "300 rows, " in circuit.explain(sold)
    assert "distributed circuit: " not in circuit.explain()
    alone = Circuit("alone")
    alone.output("out", alone.input("a", x=int))
    assert alone.explain().splitlines()[-1] == "on several shards, no row moves"


def test_skew() -> None:
    assert skew([3, 1]) == 1.5
    assert skew([2, 2, 2]) == 1.0
    assert skew([0, 0]) == 1.0
