"""The closure of 01_quickstart.py as a circuit built from operators."""

from dbsp import Circuit

circuit = Circuit("closure")
edge = circuit.input("edge", x=int, y=int)

# A scope iterates its body until nothing changes. The body can use streams from outside.
with circuit.fixpoint("paths") as scope:
    path = scope.variable("path", edge.schema)
    longer = path.join(edge, on=[("y", "x")], select=["x", "y_right"]).rename(y="y_right")
    scope.define(path, (edge + longer).distinct())
circuit.output("path", scope.leave(path))

run = circuit.start()
print(run.step({"edge": {(1, 2): 1, (2, 3): 1}})["path"].to_dict())
# -> {(1, 2): 1, (1, 3): 1, (2, 3): 1}
print(run.step({"edge": {(1, 2): -1}})["path"].to_dict())
# -> {(1, 2): -1, (1, 3): -1}
print(run.view("path").rows())
# -> [(2, 3)]
