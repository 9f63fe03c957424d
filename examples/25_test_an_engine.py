"""The test kit checks any incremental engine, and shows the smallest changes that fail."""

import dbsp
from dbsp.testing import check_incremental, random_changes

program = dbsp.compile("""
    .decl edge(x: number, y: number) .input edge
    .decl path(x: number, y: number) .output path
    path(x, y) :- edge(x, y).
    path(x, z) :- path(x, y), edge(y, z).
""")


def closure(inputs):
    """The query, from scratch."""
    paths = set(inputs["edge"])
    while new := {(x, z) for x, y in paths for w, z in inputs["edge"] if w == y} - paths:
        paths |= new
    return {"path": paths}


changes = random_changes({"edge": (range(4), range(4))}, ticks=10, sets=["edge"], seed=7)
print(check_incremental(program, closure, changes, sets=["edge"]).runs, "runs agree")
# -> 4 runs agree


class Forgetful:
    """An engine that keeps each path once it has found it."""

    def __init__(self):
        self.edges, self.paths = set(), set()

    @classmethod
    def start(cls):
        return cls()

    def step(self, changes):
        for row, weight in changes.get("edge", {}).items():
            (self.edges.add if weight > 0 else self.edges.discard)(row)
        new = closure({"edge": self.edges})["path"] - self.paths
        self.paths |= new
        return {"path": dict.fromkeys(new, 1)}


try:
    check_incremental(Forgetful, closure, changes, sets=["edge"])
except AssertionError as error:
    print(error)
# -> the change of 'path': expected {(2, 0): -1}, got nothing; tick 2 of these changes:
# -> changes = [
# ->     {'edge': {(2, 0): 1}},
# ->     {'edge': {(2, 0): -1}},
# -> ]
