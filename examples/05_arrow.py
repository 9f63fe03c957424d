"""Arrow tables as input and output, and arithmetic with Z-sets."""

import pyarrow as pa

from dbsp import Circuit, ZSet, col

circuit = Circuit("readings")
readings = circuit.input("readings", sensor=str, value=float)
circuit.output("high", readings.filter(col("value") > 20.0).select("sensor").distinct())
run = circuit.start()

# A table inserts each row with weight 1; ZSet.from_rows takes other weights.
run.step({"readings": pa.table({"sensor": ["a", "b", "b"], "value": [20.5, 19.0, 21.0]})})
tick = run.step({"readings": ZSet.from_rows([("b", 21.0)], weights=[-1])})
print(tick["high"].to_arrow().to_pylist())
# -> [{'sensor': 'b', 'weight': -1}]

# Z-sets can be added: a view is the sum of all deltas.
before = ZSet({("a",): 1, ("b",): 1})
print(before + ZSet({("b",): -1, ("c",): 2}))
# -> ZSet({('a',): 1, ('c',): 2}, c0: str)
print((before + ZSet({("b",): -1, ("c",): 2})).distinct().rows())
# -> [('a',), ('c',)]
