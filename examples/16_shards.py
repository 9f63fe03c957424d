"""Shards: one circuit in several processes, each with a part of the rows."""

from itertools import pairwise

import dbsp

program = dbsp.compile("""
    .decl follows(a: symbol, b: symbol)
    .input follows
    .decl region(person: symbol, name: symbol)
    .input region
    .decl reach(a: symbol, b: symbol)
    reach(a, b) :- follows(a, b).
    reach(a, c) :- reach(a, b), follows(b, c).
    .decl audience(name: symbol, pairs: number)
    .output audience
    audience(name, count : { region(a, name), reach(a, _) }) :- region(_, name).
""")


def main() -> None:
    people = ["Ada", "Bo", "Cy", "Di", "Eva", "Fay"]
    chain = list(pairwise(people))
    regions = [(person, "north" if number % 2 else "south") for number, person in enumerate(people)]

    # The processes end with the block. Each has a part of the rows; a tick is all or nothing.
    with program.start({"follows": chain, "region": regions}, shards=2) as run:
        print(run.view("audience").rows())
        # -> [('north', 6), ('south', 9)]

        # A tick returns what one process would return.
        delta = run.step({"follows": {("Cy", "Di"): -1}})["audience"]
        print(delta.to_dict())
        # -> {('north', 3): 1, ('north', 6): -1, ('south', 3): 1, ('south', 9): -1}

        # Questions are answered as for any run: the rows that they need are gathered here.
        print(program.why(run, "reach", ("Di", "Fay")))
        # -> reach("Di", "Fay")
        # -> │  <program>:8: reach(a, c) :- reach(a, b), follows(b, c).
        # -> ├─ reach("Di", "Eva")
        # -> │  │  <program>:7: reach(a, b) :- follows(a, b).
        # -> │  └─ follows("Di", "Eva")   input fact
        # -> └─ follows("Eva", "Fay")   input fact
        stored = [stats.rows for stats in run.stats()]
        print(len(stored), min(stored) > 0)
        # -> 2 True
        print(run.explain().splitlines()[0].partition(",")[0])
        # -> 2 shards


if __name__ == "__main__":
    main()
