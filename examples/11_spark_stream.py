"""Payments arrive as files and stream through Spark: reachability, and rings of three payments."""

import json
import tempfile
import threading
from pathlib import Path

from pyspark.sql.functions import col, count_if
from pyspark.sql.streaming import StreamingQueryListener

import dbsp

folder = Path(tempfile.mkdtemp())
(folder / "arriving").mkdir()
spark = dbsp.spark.session("payments")  # or an existing session

program = dbsp.compile("""
    .decl pays(payer: symbol, payee: symbol)
    .input pays
    .decl reaches(x: symbol, y: symbol)
    .output reaches
    reaches(x, y) :- pays(x, y).
    reaches(x, z) :- reaches(x, y), pays(y, z).
    .decl ring(a: symbol, b: symbol, c: symbol)
    .output ring
    ring(a, b, c) :- pays(a, b), pays(b, c), pays(c, a), a < b, a < c.
""")


def arrive(name, *changes):
    """Write a file of changes atomically."""
    rows = [{"op": op, "payer": payer, "payee": payee} for op, payer, payee in changes]
    draft = folder / "arriving" / f".{name}"
    draft.write_text("".join(json.dumps(row) + "\n" for row in rows))
    draft.rename(folder / "arriving" / name)


def show(delta, tick):
    """A function as a sink: print the rings inserted (+1) and retracted (-1) in a tick."""
    print(f"rings, tick {tick}")
    delta.orderBy("a", "b", "c").show()


def start():
    payments = spark.readStream.schema("op string, payer string, payee string").json(f"{folder}/arriving")
    return (
        dbsp.spark.stream(program)
        .source("pays", payments, encoding="operations", column="op")
        .sink("ring", show)
        .sink("reaches", folder / "reaches")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .queryName("payments")
        .start()
    )


class Metrics(StreamingQueryListener):
    """Collects Spark's metrics of every micro-batch and the circuit's metrics of its tick."""

    def __init__(self):
        self.lines, self.ended = [], threading.Event()

    def onQueryStarted(self, event):
        self.ended.clear()

    def onQueryProgress(self, event):
        rows = event.progress.observedMetrics.get(dbsp.spark.METRICS)
        ticks = {tick["batch"]: tick for tick in dbsp.spark.ticks(event.progress.id)}
        if rows is not None and (tick := ticks.get(event.progress.batchId)):
            numbers = f"{rows.rows_in} rows in, {tick['rows_out']} out"
            self.lines.append(f"micro-batch {tick['batch']}, tick {tick['tick']}: {numbers}")

    def onQueryTerminated(self, event):
        self.ended.set()


metrics = Metrics()
spark.streams.addListener(metrics)

query = start()
arrive("monday.json", ("insert", "ann", "bob"), ("insert", "bob", "cid"), ("insert", "cid", "ann"))
query.processAllAvailable()
# -> rings, tick 1
# -> +---+---+---+------+
# -> |  a|  b|  c|weight|
# -> +---+---+---+------+
# -> |ann|bob|cid|     1|
# -> +---+---+---+------+
# ->

arrive("tuesday.json", ("delete", "bob", "cid"), ("insert", "bob", "dan"), ("insert", "dan", "ann"))
query.processAllAvailable()
# -> rings, tick 2
# -> +---+---+---+------+
# -> |  a|  b|  c|weight|
# -> +---+---+---+------+
# -> |ann|bob|cid|    -1|
# -> |ann|bob|dan|     1|
# -> +---+---+---+------+
# ->

# The process could end here, even by a crash, while files continue to arrive.
query.stop()
metrics.ended.wait(60)
arrive("wednesday.json", ("insert", "bob", "cid"), ("delete", "dan", "ann"))

# After a restart the query continues: every change is applied exactly once.
query = start()
query.processAllAvailable()
query.stop()
metrics.ended.wait(60)
# -> rings, tick 3
# -> +---+---+---+------+
# -> |  a|  b|  c|weight|
# -> +---+---+---+------+
# -> |ann|bob|cid|     1|
# -> |ann|bob|dan|    -1|
# -> +---+---+---+------+
# ->

# The deltas in the folder, tick by tick. The sum of the weights is the current view.
reaches = spark.read.parquet(f"{folder}/reaches")
new, gone = (count_if(col("weight") == weight) for weight in (1, -1))
reaches.groupBy("tick").agg(new.alias("new"), gone.alias("gone")).orderBy("tick").show()
# -> +----+---+----+
# -> |tick|new|gone|
# -> +----+---+----+
# -> |   1|  9|   0|
# -> |   2|  6|   3|
# -> |   3|  3|   3|
# -> +----+---+----+
# ->
holds = reaches.groupBy("x", "y").agg({"weight": "sum"}).where("sum(weight) > 0")
print(sorted(row.y for row in holds.where("x = 'ann'").collect()))
# -> ['ann', 'bob', 'cid', 'dan']

print(*metrics.lines, sep="\n")
# -> micro-batch 0, tick 1: 3 rows in, 10 out
# -> micro-batch 1, tick 2: 3 rows in, 11 out
# -> micro-batch 2, tick 3: 2 rows in, 8 out
spark.stop()
