"""`dbsp check`: the circuits of a program on random changes, and the report of a difference."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path

import pytest

import dbsp
from dbsp.circuit.stage import Stage
from dbsp.cli import main
from dbsp.runtime.agreement import Disagreement, check_agreement
from dbsp.runtime.run import Run

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.dl"))


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_the_circuits_of_every_program_agree(path: Path) -> None:
    program = dbsp.compile(path)
    check_agreement(lambda stage: program.start(stage=stage, max_iterations=500), 6, values=3)


def test_columns_of_all_types_have_random_values() -> None:
    def build(stage: Stage) -> Run:
        circuit = dbsp.Circuit()
        source = circuit.input(
            "in",
            day=dt.date,
            clock=dt.time,
            at="timestamptz(Europe/Rome)",
            length=dt.timedelta | None,
            price="decimal(18, 2)",
            tags=list[str | None],
            place={"city": str, "zip": int | None},
        )
        late = source.filter(2 * dbsp.col("length") > dt.timedelta(hours=3))
        later = late.map(at=dbsp.col("at") + dbsp.col("length"), city=dbsp.col("place").field("city"))
        circuit.output("later", later.distinct())
        tags = source.explode("tags", into="tag").group_by("tag", "place")
        means = tags.agg(
            total=dbsp.col("price").sum(), mean=dbsp.col("length").mean(), first=dbsp.col("clock").min()
        )
        circuit.output("tags", means)
        return circuit.start(stage)

    assert check_agreement(build, 20, values=5)


def test_a_difference_is_reported_with_the_changes_that_lead_to_it() -> None:
    def build(stage: Stage) -> Run:
        circuit = dbsp.Circuit()
        e = circuit.input("e", x=int, kind="set")
        circuit.output("out", e if stage is Stage.QUERY else e.filter(dbsp.col("x") > 0))
        return circuit.start(stage)

    with pytest.raises(Disagreement, match=r"in tick \d+ the incremental circuit returned\n") as caught:
        check_agreement(build, 20)
    assert "(0,)" in str(caught.value).partition("after the changes")[2]
    assert caught.value.code == "disagreement"


def test_the_command_prints_the_rules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "p.dl"
    program.write_text(
        ".decl e(x: number, y: number)\n.input e\n.decl t(x: number, z: number)\n.output t\n"
        "t(x, z) :- e(x, y), e(y, z).\n"
    )
    with pytest.raises(SystemExit) as stopped:
        main(["check", str(program), "--ticks", "5", "--rules"])
    out = capsys.readouterr().out
    assert not stopped.value.code
    assert f"bilinear   Join at {program}:5:1:  D(a x b) = D(a) x z^-1(I(D(b))) + I(D(a)) x D(b)" in out
    assert "p.dl: the query, incremental, physical and distributed circuits agree in 5 ticks (" in out


def test_explain_shows_the_passes_and_the_traces(capsys: pytest.CaptureFixture[str]) -> None:
    circuit = dbsp.Circuit()
    a = circuit.input("a", x=int, y=int)
    b = circuit.input("b", y=int, z=int)
    circuit.output("out", a.join(b, on=["y"]).filter(dbsp.col("x") > 1))
    text = circuit.explain()
    assert "push_filters: 5 nodes" in text
    assert "Filter at test_agreement.py:" in text and "moved below Join at test_agreement.py:" in text
    assert "bilinear, 1 x:" in text
    assert "trace of Filter" in text and "by (y, x), read by Join" in text


def test_explain_shows_the_orders_of_multiway_joins_and_the_rows_of_a_run() -> None:
    circuit = dbsp.Circuit()
    edge = circuit.input("edge", x=int, y=int)
    circuit.output("out", dbsp.multiway_join([edge("a", "b"), edge("b", "c"), edge("a", "c")]))
    orders = re.findall(r"a change of \((.*)\) binds (\w+)$", circuit.explain(), re.MULTILINE)
    assert orders == [("a, b", "c"), ("b, c", "a"), ("a, c", "b")]
    run = circuit.start()
    run.step({"edge": [(1, 2), (2, 3), (1, 3)]})
    text = circuit.explain(run)
    assert re.search(r"trace of Input edge .* by \(x, y\), .*; 3 rows, 72 bytes", text)
    assert re.findall(r"binds \w; processed (\d+) rows, \w: (\d+)", text) == [
        ("3", "0"),
        ("3", "0"),
        ("3", "1"),
    ]
