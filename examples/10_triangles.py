"""Triangles among followers, kept up to date: multi-way joins as a circuit and as rules."""

import dbsp
from dbsp import Circuit, col, multiway_join

circuit = Circuit("triangles")
follows = circuit.input("follows", x=str, y=str, kind="set")

# One relation is read three times. The join keys are the names that occur twice.
found = multiway_join([follows("a", "b"), follows("b", "c"), follows("a", "c")])
circuit.output("triangle", found)

# Rings of three: the conditions select one of the three rows of each ring.
ring = multiway_join(
    [follows("a", "b"), follows("b", "c"), follows("c", "a")],
    where=[col("a") < col("b"), col("a") < col("c")],
)
circuit.output("ring", ring)

run = circuit.start()
tick = run.step({"follows": [("ann", "bob"), ("bob", "cid"), ("ann", "cid"), ("cid", "dan")]})
print(tick["triangle"].rows(), tick["ring"].rows())
# -> [('ann', 'bob', 'cid')] []

# Insert one row and retract one row in the same tick.
tick = run.step({"follows": {("dan", "bob"): 1, ("ann", "cid"): -1}})
print(tick["triangle"].to_dict(), tick["ring"].to_dict())
# -> {('ann', 'bob', 'cid'): -1} {('bob', 'cid', 'dan'): 1}

# The three atoms share two traces: rows sorted by x, and rows sorted by y.
for line in circuit.explain().splitlines():
    if "trace of Input" in line:
        print(line.strip().partition(", read by")[0])
# -> trace of Input follows (10_triangles.py:7) by (x, y)
# -> trace of Input follows (10_triangles.py:7) by (y, x)

# The same as rules: the planner chooses the join strategy.
program = dbsp.compile("""
    .decl follows(x: symbol, y: symbol)
    .input follows
    .decl triangle(a: symbol, b: symbol, c: symbol)
    .output triangle
    triangle(a, b, c) :- follows(a, b), follows(b, c), follows(a, c).
""")
run = program.start({"follows": [("ann", "bob"), ("bob", "cid"), ("ann", "cid")]})
print(run.view("triangle").rows())
# -> [('ann', 'bob', 'cid')]
print(run.step({"follows": {("bob", "cid"): -1}})["triangle"].to_dict())
# -> {('ann', 'bob', 'cid'): -1}
