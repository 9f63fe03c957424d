"""Transitive closure from rule text: changes of the edges in, exact changes of the paths out.

Run it with `python examples/01_quickstart.py`; a comment with an arrow is a line it prints.
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

# One tick: three edges appear.
tick = run.step({"edge": [(1, 2), (2, 3), (3, 1)]})
print(len(tick["path"]), "new paths")
# -> 9 new paths

# A delta says what changed, with weight +1 for a row that came and -1 for one that went.
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
