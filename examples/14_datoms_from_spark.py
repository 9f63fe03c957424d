"""Readings arrive as files and become datoms; a live query goes to Spark, its history is kept."""

import json
import tempfile
from pathlib import Path

import dbsp
from dbsp.datomic import connect

folder = Path(tempfile.mkdtemp())
(folder / "arriving").mkdir()
spark = dbsp.spark.session("readings")  # or an existing session

conn = connect(
    folder / "database",
    schema={
        ":sensor/name": {":db/valueType": ":db.type/string", ":db/unique": ":db.unique/identity"},
        ":sensor/celsius": {":db/valueType": ":db.type/double"},
        ":sensor/tag": {":db/valueType": ":db.type/string", ":db/cardinality": ":db.cardinality/many"},
    },
)
# The query is an argument of `subscribe` and of `query_frame`.
HOT = """
    [:find ?name ?celsius
     :in $ ?limit
     :where [?s :sensor/name ?name]
            [?s :sensor/celsius ?celsius]
            [(> ?celsius ?limit)]]
"""


def arrive(name, *readings):
    """Write a file of readings atomically."""
    draft = folder / "arriving" / f".{name}"
    draft.write_text("".join(json.dumps(reading) + "\n" for reading in readings))
    draft.rename(folder / "arriving" / name)


def run():
    """Transact all files that have arrived, and deliver the changes of the query."""
    columns = "`sensor/name` string, `sensor/celsius` double, `sensor/tag` array<string>"
    readings = spark.readStream.schema(columns).option("maxFilesPerTrigger", 1).json(f"{folder}/arriving")
    with dbsp.spark.subscribe(conn, HOT, 30.0, target=folder / "hot", checkpoint=folder / "sink"):
        query = (
            readings.writeStream.foreachBatch(dbsp.spark.feed_database(conn))
            .option("checkpointLocation", f"{folder}/checkpoint")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()


def reading(name, celsius, *tags):
    return {"sensor/name": name, "sensor/celsius": celsius, "sensor/tag": tags}


arrive("monday.json", reading("roof", 31.5, "outside"), reading("cellar", 12.0))
run()
noon = conn.db()

# The process could end here, even by a crash, while files continue to arrive.
arrive("tuesday.json", reading("roof", 28.0), reading("oven", 180.0, "inside", "hot"))
arrive("friday.json", reading("oven", 21.0))
run()

# The changes of the query: each tick is a transaction, which is a micro-batch of Spark.
spark.read.parquet(f"{folder}/hot").orderBy("tick", "weight").show()
# -> +----+-------+------+----+
# -> |name|celsius|weight|tick|
# -> +----+-------+------+----+
# -> |roof|   31.5|     1|   3|
# -> |roof|   31.5|    -1|   4|
# -> |oven|  180.0|     1|   4|
# -> |oven|  180.0|    -1|   5|
# -> +----+-------+------+----+
# ->

# The database as it was on Monday, and all values that the oven has had.
dbsp.spark.query_frame(spark, HOT, noon, 30.0).show()
# -> +----+-------+
# -> |name|celsius|
# -> +----+-------+
# -> |roof|   31.5|
# -> +----+-------+
# ->
oven = conn.db().entid((":sensor/name", "oven"))
datoms = conn.db().history().datoms(":eavt", oven, ":sensor/celsius")
frame = dbsp.spark.datoms_frame(spark, datoms)
frame.select("a", "v_double", "added").orderBy("tx", "added").show()
# -> +---------------+--------+-----+
# -> |              a|v_double|added|
# -> +---------------+--------+-----+
# -> |:sensor/celsius|   180.0| true|
# -> |:sensor/celsius|   180.0|false|
# -> |:sensor/celsius|    21.0| true|
# -> +---------------+--------+-----+
# ->

# Every transaction knows its micro-batch.
BATCHES = "[:find ?batch (count ?s) :where [?tx :dbsp.spark/batch ?batch] [?s :sensor/celsius _ ?tx]]"
print(dbsp.datomic.q(BATCHES, conn.db().history()))
# -> [(0, 2), (1, 2), (2, 1)]
spark.stop()
