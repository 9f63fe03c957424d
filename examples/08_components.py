"""Connected components: every node takes the smallest label of its neighbours to a fixpoint."""

from dbsp import Circuit, col, count

circuit = Circuit("components")
link = circuit.input("link", a=int, b=int, kind="set")
both = link + link.map(a=col("b"), b=col("a"))
nodes = both.select("a").distinct()

with circuit.fixpoint("labels") as scope:
    label = scope.variable("label", {"node": int, "label": int})
    spread = label.join(both, on=[("node", "a")], select=["b", "label"]).rename(node="b")
    own = nodes.map(node=col("a"), label=col("a"))
    scope.define(label, (own + spread).group_by("node").agg(label=col("label").min()))
labels = scope.leave(label)
circuit.output("labels", labels)
circuit.output("sizes", labels.group_by("label").agg(nodes=count()))

run = circuit.start()
tick = run.step({"link": [(1, 2), (2, 3), (3, 4), (4, 1), (7, 8)]})
print(tick["sizes"].rows())
# -> [(1, 4), (7, 2)]

# Retract one link of the ring: the nodes stay connected, and the deltas are empty.
print(run.step({"link": {(2, 3): -1}}))
# -> <tick 2: no change>

# Retract a second link: the ring becomes two components.
print(run.step({"link": {(4, 1): -1}})["labels"].to_dict())
# -> {(3, 1): -1, (3, 3): 1, (4, 1): -1, (4, 3): 1}

# Insert a link between two components: they become one.
print(run.step({"link": {(4, 8): 1}})["sizes"].to_dict())
# -> {(3, 2): -1, (3, 4): 1, (7, 2): -1}
