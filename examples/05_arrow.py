"""Arrow tables in and out, and Z-sets as values: what a delta is when it is not a stream."""

import pyarrow as pa

from dbsp import Circuit, ZSet, col

circuit = Circuit("readings")
readings = circuit.input("readings", sensor=str, value=float)
circuit.output("high", readings.filter(col("value") > 20.0).project("sensor").distinct())
run = circuit.start()

# A table is a change with weight 1 for each row; a column of weights can be named instead.
run.step({"readings": pa.table({"sensor": ["a", "b", "b"], "value": [20.5, 19.0, 21.0]})})
tick = run.step({"readings": ZSet.from_rows([("b", 21.0)], weights=[-1])})
print(tick["high"].to_arrow().to_pylist())
# -> [{'sensor': 'b', 'weight': -1}]

# Z-sets add up: a view is the sum of all its deltas.
before = ZSet({("a",): 1, ("b",): 1})
print(before + ZSet({("b",): -1, ("c",): 2}))
# -> ZSet({('a',): 1, ('c',): 2}, c0: str)
print((before + ZSet({("b",): -1, ("c",): 2})).distinct().rows())
# -> [('a',), ('c',)]
