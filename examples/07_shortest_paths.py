"""Shortest paths: the distance of every town, kept up to date while roads open and close."""

from dbsp import Circuit, col

circuit = Circuit("distances")
road = circuit.input("road", start=str, end=str, km=int, kind="set")
home = circuit.input("home", town=str, kind="set")

# A minimum inside the recursion: each iteration continues only the shortest path to a town.
with circuit.fixpoint("distances") as scope:
    far = scope.variable("far", {"town": str, "km": int})
    further = far.join(road, on=[("town", "start")], select=["end", "km", "km_right"])
    ways = further.map(town=col("end"), km=col("km") + col("km_right"))
    begin = home.map(town=col("town"), km=0)
    scope.define(far, (begin + ways).group_by("town").agg(km=col("km").min()))
circuit.output("far", scope.leave(far))

run = circuit.start()
run.input("home").insert([("Aa",)])
run.input("road").insert(
    [("Aa", "Bo", 4), ("Bo", "Ci", 3), ("Aa", "Ci", 9), ("Ci", "Da", 2), ("Da", "Bo", 1)]
)
print(run.step()["far"].rows())
# -> [('Aa', 0), ('Bo', 4), ('Ci', 7), ('Da', 9)]

# A closed road makes the paths longer; the path to Bo now goes through Ci and Da.
run.input("road").delete([("Aa", "Bo", 4)])
print(run.step()["far"].to_dict())
# -> {('Bo', 4): -1, ('Bo', 12): 1, ('Ci', 7): -1, ('Ci', 9): 1, ('Da', 9): -1, ('Da', 11): 1}

# The ring Bo, Ci, Da is cut off from home: all its rows are retracted, although they form a cycle.
# So much changes that the recursion starts again.
run.input("road").delete([("Aa", "Ci", 9)])
run.step()
print(run.view("far").rows(), run.iterations())
# -> [('Aa', 0)] {'distances': 2}
