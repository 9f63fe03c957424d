"""What type checkers find in a user's script: every wrong mode, verb and argument, and no more.

mypy is the first checker. The second is basedpyright, whose package has the checker of pyright and
whose dependency has Node.js, so neither downloads anything when it runs.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

# A line with a mistake ends with `# wrong`; the other lines are correct.
SCRIPT = """\
import dbsp
from dbsp import Circuit, Run, Stream, coalesce, col, count, fold, linear, lit, when
from dbsp import sum_  # wrong

circuit = Circuit("shop", strategy="binary")
order = circuit.input("order", id=int, customer=str, euro=float, items=list[str])
customer = circuit.input("customer", kind="set", name=str, city=str, limit=float)
placed: Stream = order.select("id", "customer", euro=order["euro"] * 1.19)
joined = placed.join(customer, left_on="customer", right_on="name", how="left")
poor = placed.join(customer, on=[("customer", "name")], how="semi", where=placed["euro"] > customer["limit"])
euro = joined["euro"]
totals = joined.group_by("city", large=euro > 100).agg(
    n=count(),
    total=euro.sum(),
    spread=euro.max() - euro.min(),
    middle=euro.quantile(0.5),
    mean=linear(lambda total, n: total / n, "euro", count(), type=float),
    values=fold(len, "euro", type=int),
)
good, failed = order.try_map(first=col("items").element(0).str.upper())
word = when(col("id") > 1).then("a").otherwise("b")
items = order.explode("items", keep_empty=False).with_columns(word=word)
circuit.output("totals", totals)
circuit.output("poor", poor.filter(lambda row: row.euro > 1))
run: Run = circuit.start("physical")
rows: list[tuple[object, ...]] = run.view("totals").rows()
picture: str = dbsp.draw.to_dot(circuit)
modules = (dbsp.datomic.connect, dbsp.inspector.serve, dbsp.spark.Pipeline)

Circuit("shop", strategy="hash")  # wrong
circuit.input("other", kind="bag", x=int)  # wrong
circuit.start("fast")  # wrong
circuit.fixpoint("f", recursion="never")  # wrong
dbsp.compile("", negation="maybe")  # wrong
dbsp.compile("", strategy="hash")  # wrong
placed.join(customer, on=[("customer", "name")], how="outer")  # wrong
placed.join(customer, on=[("customer", "name")], howe="left")  # wrong
placed.join(customer, on=3)  # wrong
placed.join("customer", on="id")  # wrong
placed.join(customer, on="id", where="euro > limit")  # wrong
placed.left_join(customer, on="id")  # wrong
placed.antijoin(customer, on="id")  # wrong
placed.project("id")  # wrong
placed.fliter(col("id") > 1)  # wrong
placed.filter("id > 1")  # wrong
placed.select(3)  # wrong
placed.rename(number=3)  # wrong
placed[3]  # wrong
placed.group_by("id").agg(n=3)  # wrong
placed.group_by("id").agg(n=count)  # wrong
placed.group_by("id").aggregate(n=count())  # wrong
placed.group_by(half="id").agg(n=count())  # wrong
placed.top_k("3", by="id")  # wrong
order.explode("items", keep_empty="no")  # wrong
order.try_map(x=col("id")).bad  # wrong
col("euro").summ()  # wrong
col("euro").quantile("half")  # wrong
col("euro").var(population="all")  # wrong
col("euro").round("2")  # wrong
col("euro").between(1, 2, closed="start")  # wrong
col("customer").is_in(["a"])  # wrong
col("customer").str.to_uppercase()  # wrong
col("day").dt.truncate("1mo")  # wrong
col("day").dt.yaer()  # wrong
coalesce()  # wrong
lit()  # wrong
when(col("id") > 1).otherwise(2)  # wrong
dbsp.avg("euro")  # wrong
run.view(3)  # wrong
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("user") / "shop.py"
    path.write_text(SCRIPT, encoding="utf-8")
    settings = {"typeCheckingMode": "standard", "pythonVersion": f"3.{sys.version_info.minor}"}
    (path.parent / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    return path


def wrong_lines() -> set[int]:
    return {number for number, line in enumerate(SCRIPT.splitlines(), 1) if line.endswith("# wrong")}


def described(lines: set[int]) -> list[str]:
    texts = SCRIPT.splitlines()
    return [f"{number}: {texts[number - 1]}" for number in sorted(lines)]


def output(script: Path, *command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *command, script.name], cwd=script.parent, capture_output=True, text=True
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_mypy_finds_every_mistake(script: Path) -> None:
    cache = str(script.parent / "cache")
    found = output(script, "mypy", "--strict", "--no-error-summary", "--cache-dir", cache)
    lines = {int(line.split(":")[1]) for line in found.splitlines() if ": error:" in line}
    assert described(lines - wrong_lines()) == []
    assert described(wrong_lines() - lines) == []


@pytest.mark.slow
def test_pyright_finds_every_mistake(script: Path) -> None:
    report = json.loads(output(script, "basedpyright", "--outputjson", "--pythonpath", sys.executable))
    found = report["generalDiagnostics"]
    assert {Path(each["file"]).name for each in found} == {script.name}
    lines = {each["range"]["start"]["line"] + 1 for each in found if each["severity"] == "error"}
    assert described(lines - wrong_lines()) == []
    assert described(wrong_lines() - lines) == []
