"""Transitive closure from rules: the input is changes of edges, the output exact changes of paths.

Run it with `python examples/01_quickstart.py`. A comment with an arrow shows a printed line.
"""

import dbsp

program = dbsp.compile("""
    .decl edge(x: number, y: number)
    .input edge
    .decl path(x: number, y: number)
    .output path
    path(x, y) :- edge(x, y).
    path(x, z) :- path(x, y), edge(y, z).
""")
run = program.start()

# One tick: insert three edges.
tick = run.step({"edge": [(1, 2), (2, 3), (3, 1)]})
print(len(tick["path"]), "new paths")
# -> 9 new paths

# A delta holds the changed rows, with weight +1 for an inserted and -1 for a retracted row.
tick = run.step({"edge": {(3, 1): -1, (3, 4): +1}})
for row, weight in tick["path"]:
    print(f"{weight:+d} {row}")
# -> -1 (1, 1)
# -> +1 (1, 4)
# -> -1 (2, 1)
# -> -1 (2, 2)
# -> +1 (2, 4)
# -> -1 (3, 1)
# -> -1 (3, 2)
# -> -1 (3, 3)
# -> +1 (3, 4)
