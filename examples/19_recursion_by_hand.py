"""Recursion by hand: the semi-naive circuit of the DBSP paper, built of delta_0, I, D and z^-1."""

from dbsp import Circuit, Stream

EDGES = {"x": int, "y": int}

circuit = Circuit("paths")
edge = circuit.input("edge", schema=EDGES, kind="set")


def longer(paths: Stream) -> Stream:
    return paths.join(edge, on=[("y", "x")], select=["x", "y_right"]).rename(y="y_right")


# The recursion of the engine: a variable, and its next value.
with circuit.fixpoint("engine") as scope:
    path = scope.variable("path", EDGES)
    scope.define(path, (edge + longer(path)).distinct())
circuit.output("path", scope.leave(path))

# The same by hand: each iteration extends only the rows that the one before it has found.
#     new = D(distinct(I(delta_0(edge) + z^-1(new) x edge))),   result = the sum of new
with circuit.fixpoint("by hand") as scope:
    fresh = scope.variable("fresh", EDGES)
    found = scope.delta0(edge) + longer(fresh)
    new = found.integrate().distinct().differentiate()
    scope.define(fresh, new)
    total = new.integrate()
circuit.output("by hand", scope.leave(total))

run = circuit.start()
recording = run.record(ticks=10)
print(run.step({"edge": [(1, 2), (2, 3), (3, 4)]})["by hand"].rows())
# -> [(1, 2), (1, 3), (1, 4), (2, 3), (2, 4), (3, 4)]

# What every iteration found: paths of one edge, then of two, then of three.
for time, delta in recording.by_iteration(new, summed=True).items():
    print(time, delta.rows())
# -> (0,) [(1, 2), (2, 3), (3, 4)]
# -> (1,) [(1, 3), (2, 4)]
# -> (2,) [(1, 4)]

# The engine makes both incremental over ticks, so deletions are exact.
for changes in ({(2, 3): -1}, {(2, 3): 1, (1, 2): -1}):
    result = run.step({"edge": changes})
    print(result["by hand"] == result["path"], result["by hand"].to_dict())
# -> True {(1, 3): -1, (1, 4): -1, (2, 3): -1, (2, 4): -1}
# -> True {(1, 2): -1, (2, 3): 1, (2, 4): 1}

# Any stream as of any recorded tick, without a checkpoint.
print([len(recording.integral(total, tick)) for tick in recording.ticks])
# -> [6, 2, 3]
