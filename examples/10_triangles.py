"""Triangles among followers, kept up to date: many relations joined at once, by hand and from rules."""

import dbsp
from dbsp import Circuit, col, multiway_join

circuit = Circuit("triangles")
follows = circuit.input("follows", x=str, y=str, kind="set")

# One relation read three times. Names that occur twice are joined on.
found = multiway_join([follows("a", "b"), follows("b", "c"), follows("a", "c")])
circuit.output("triangle", found)

# Rings of three, each once and not from each of its three corners.
ring = multiway_join(
    [follows("a", "b"), follows("b", "c"), follows("c", "a")],
    where=[col("a") < col("b"), col("a") < col("c")],
)
circuit.output("ring", ring)

run = circuit.start()
tick = run.step({"follows": [("ann", "bob"), ("bob", "cid"), ("ann", "cid"), ("cid", "dan")]})
print(tick["triangle"].rows(), tick["ring"].rows())
# -> [('ann', 'bob', 'cid')] []

# One row more, and one less, in the same tick: what changes is what comes out.
tick = run.step({"follows": {("dan", "bob"): 1, ("ann", "cid"): -1}})
print(tick["triangle"].to_dict(), tick["ring"].to_dict())
# -> {('ann', 'bob', 'cid'): -1} {('bob', 'cid', 'dan'): 1}

# The three atoms share two traces: the rows by who follows, and by who is followed.
for line in circuit.explain().splitlines():
    if "trace of Input" in line:
        print(line.strip().partition(", read by")[0])
# -> trace of Input follows (10_triangles.py:7) by (x, y)
# -> trace of Input follows (10_triangles.py:7) by (y, x)

# The same from rules, where the strategy is chosen for you.
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
