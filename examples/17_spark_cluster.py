"""A pipeline on Spark's executors: each shard has a part of the state, and writes its deltas."""

import json
import tempfile
from pathlib import Path

import dbsp

folder = Path(tempfile.mkdtemp())  # on a cluster: a folder that all machines share
(folder / "arriving").mkdir()
# Two executors, which are processes of their own, with one core and 1,024 MB each.
spark = dbsp.spark.session("on shards", master="local-cluster[2,1,1024]")

program = dbsp.compile("""
    .decl pays(payer: symbol, payee: symbol)
    .input pays
    .decl reaches(x: symbol, y: symbol)
    .output reaches
    reaches(x, y) :- pays(x, y).
    reaches(x, z) :- reaches(x, y), pays(y, z).
""")


def arrive(name, *changes):
    """Write a file of changes atomically."""
    rows = [{"op": op, "payer": payer, "payee": payee} for op, payer, payee in changes]
    draft = folder / "arriving" / f".{name}"
    draft.write_text("".join(json.dumps(row) + "\n" for row in rows))
    draft.rename(folder / "arriving" / name)


def process_what_has_arrived():
    payments = spark.readStream.schema("op string, payer string, payee string").json(f"{folder}/arriving")
    query = (
        dbsp.spark.stream(program)
        .source("pays", payments, encoding="operations", column="op")
        .sink("reaches", folder / "reaches")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .option("shards", 2)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return dbsp.spark.ticks(query)


arrive("monday.json", ("insert", "ann", "bob"), ("insert", "bob", "cid"), ("insert", "cid", "ann"))
(tick,) = process_what_has_arrived()
print(f"{tick['rows_in']} rows in, {tick['rows_out']} rows out")
# -> 3 rows in, 9 rows out
for facts in tick["segments"]:
    if facts["rows_out"]:
        print(f"shard {facts['shard']}: {facts['rows_out']} rows out")
# -> shard 0: 3 rows out
# -> shard 1: 6 rows out

# The next start continues from the state in the checkpoint.
arrive("tuesday.json", ("delete", "bob", "cid"), ("insert", "bob", "dan"))
process_what_has_arrived()

reaches = spark.read.parquet(f"{folder}/reaches")  # the parts of all ticks, written by executors
reaches.groupBy("tick", "weight").count().orderBy("tick", "weight").show()
# -> +----+------+-----+
# -> |tick|weight|count|
# -> +----+------+-----+
# -> |   1|     1|    9|
# -> |   2|    -1|    6|
# -> |   2|     1|    3|
# -> +----+------+-----+
# ->
holds = reaches.groupBy("x", "y").agg({"weight": "sum"}).where("sum(weight) > 0")
print(sorted(row.y for row in holds.where("x = 'cid'").collect()))
# -> ['ann', 'bob', 'dan']
spark.stop()
