"""Dead files of a build: negation of a recursive relation, and an aggregate, kept up to date."""

import dbsp

program = dbsp.compile("""
    .decl uses(file: symbol, other: symbol)
    .decl entry(file: symbol)
    .decl size(file: symbol, bytes: number)
    .input uses, entry, size

    .decl needed(file: symbol)
    needed(f) :- entry(f).
    needed(g) :- needed(f), uses(f, g).

    .decl dead(file: symbol)
    .output dead
    dead(f) :- size(f, _), !needed(f).

    .decl total(bytes: number)
    .output total
    total(n) :- n = sum b : { needed(f), size(f, b) }.
""")
run = program.start(
    initial={
        "uses": [("main", "net"), ("net", "log"), ("tool", "log")],
        "entry": [("main",)],
        "size": [("main", 10), ("net", 20), ("log", 5), ("tool", 7)],
    }
)
print(run.view("dead").rows(), run.view("total").rows())
# -> [('tool',)] [(35,)]

# The main file stops using the network file: two files are now dead, and the total decreases.
tick = run.step({"uses": {("main", "net"): -1}})
print(tick["dead"].to_dict(), tick["total"].to_dict())
# -> {('log',): 1, ('net',): 1} {(10,): 1, (35,): -1}

# The tool becomes an entry point, so the files that it uses are needed again.
tick = run.step({"entry": [("tool",)]})
print(tick["dead"].to_dict(), tick["total"].to_dict())
# -> {('log',): -1, ('tool',): -1} {(10,): -1, (22,): 1}
