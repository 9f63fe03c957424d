"""Errors: messages with the place in the program, and ticks that are all or nothing."""

import dbsp

try:
    dbsp.compile("""
.decl edge(x: number, y: number)
.decl path(x: number, y: number)
path(x, y) :- edge(x, z), egde(z, y).
""")
except dbsp.CompileError as error:
    print(error)
# -> <program>:4:27: error: undefined relation 'egde' [unknown-relation]
# ->     path(x, y) :- edge(x, z), egde(z, y).
# ->                               ^^^^
# ->     hint: did you mean 'edge'?

program = dbsp.compile("""
.decl score(name: symbol, n: number)
.input score
.decl share(name: symbol, part: number)
.output share
share(name, 100 / n) :- score(name, n).
""")
run = program.start(initial={"score": [("ann", 5)]})

# Division by zero: the tick is rolled back.
try:
    run.step({"score": {("bob", 4): 1, ("eve", 0): 1}})
except dbsp.EvaluationError as error:
    print(error)
# -> <program>:6:13: error: division by zero: 100 / n with n = 0 [division-by-zero]
# ->     share(name, 100 / n) :- score(name, n).
# ->                 ^^^^^^^
# ->     note: the tick was rolled back
print(run.view("share").rows(), run.tick)
# -> [('ann', 20)] 1

# Invalid rows are rejected before the tick starts.
try:
    run.step({"score": {("b", "x"): 1}})
except dbsp.DbspError as error:
    print(error)
# -> relation 'score': row ('b', 'x'), column 'n': expected int, got 'x' of type str [wrong-type]
