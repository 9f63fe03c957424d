"""A circuit in a Spark Declarative Pipeline: a sink feeds it, a streaming table reads it."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import dbsp

folder = Path(tempfile.mkdtemp())
for name in ("arriving", "reaches", "flows"):
    (folder / name).mkdir()

# The declarative pipeline. Its query functions only describe flows; Spark runs them in an update.
(folder / "spark-pipeline.yml").write_text(
    f"name: payments\nstorage: file://{folder}/storage\nlibraries:\n  - glob:\n      include: flows/**\n"
)
(folder / "flows" / "payments.py").write_text(f"""
from pyspark import pipelines
from pyspark.sql import SparkSession, functions

spark = SparkSession.active()
pipelines.create_sink("pays", "parquet", {{"path": "{folder}/pays"}})  # the circuit's input


@pipelines.append_flow(target="pays")
def valid_payments():
    arriving = spark.readStream.schema("payer string, payee string").json("{folder}/arriving")
    return arriving.where("payer <> payee")


@pipelines.table  # a streaming table of the circuit's output
def reaches():
    columns = "x string, y string, weight long, tick long"
    return spark.readStream.schema(columns).parquet("{folder}/reaches")


@pipelines.materialized_view
def reached():
    return spark.read.table("reaches").groupBy("x").agg(functions.sum("weight").alias("n"))
""")

program = dbsp.compile("""
    .decl pays(payer: symbol, payee: symbol)
    .input pays
    .decl reaches(x: symbol, y: symbol)
    .output reaches
    reaches(x, y) :- pays(x, y).
    reaches(x, z) :- reaches(x, y), pays(y, z).
""")

# The pipeline and the circuit are clients of one server of Spark Connect.
settings = {"spark.sql.warehouse.dir": f"{folder}/warehouse", "spark.log.level": "OFF"}
spark = dbsp.spark.session("payments", remote="local[2]", settings=settings)


def update():
    """Run the flows on all new data, as the command `spark-pipelines run` does."""
    done = subprocess.run(
        [sys.executable, "-m", "pyspark.pipelines.cli", "run"],
        cwd=folder,
        env=os.environ | {"SPARK_REMOTE": "sc://localhost:15002"},
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise SystemExit(done.stdout + done.stderr)


def step():
    """Step the circuit with what the sink has received; the state is in the checkpoint."""
    (
        dbsp.spark.stream(program)
        .source("pays", spark.readStream.schema("payer string, payee string").parquet(f"{folder}/pays"))
        .sink("reaches", folder / "reaches")
        .option("checkpointLocation", folder / "checkpoint")
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )


def arrive(name, *pairs):
    rows = [json.dumps({"payer": payer, "payee": payee}) for payer, payee in pairs]
    (folder / "arriving" / name).write_text("\n".join(rows))


for name, pairs in [
    ("monday.json", [("ann", "bob"), ("bob", "cid"), ("cid", "cid")]),
    ("tuesday.json", [("cid", "dan")]),
]:
    arrive(name, *pairs)
    update()  # arriving -> pays
    step()  # pays -> the circuit -> reaches
    update()  # reaches -> its table and view
    spark.catalog.refreshTable("reached")  # another client has replaced its files
    print(name, *sorted((row.x, row.n) for row in spark.table("reached").collect()))
# -> monday.json ('ann', 2) ('bob', 1)
# -> tuesday.json ('ann', 3) ('bob', 2) ('cid', 1)
spark.stop()
