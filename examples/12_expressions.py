"""Expressions as an algebraic data type, evaluated by rules while the variables change."""

import dbsp
from dbsp import Branch

program = dbsp.compile("""
    .type Expr = Number { x: number } | Variable { name: symbol }
               | Add { l: Expr, r: Expr } | Times { l: Expr, r: Expr }
    .decl formula(name: symbol, e: Expr)
    .decl variable(name: symbol, value: number)
    .input formula, variable
    .decl part(e: Expr)
    .decl value(e: Expr, v: number)
    .decl result(name: symbol, v: number)
    .output result

    part(e) :- formula(_, e).
    part(l), part(r) :- part($Add(l, r)); part($Times(l, r)).
    value(e, x) :- part(e), e = $Number(x).
    value(e, v) :- part(e), e = $Variable(name), variable(name, v).
    value(e, a + b) :- part(e), e = $Add(l, r), value(l, a), value(r, b).
    value(e, a * b) :- part(e), e = $Times(l, r), value(l, a), value(r, b).
    result(name, v) :- formula(name, e), value(e, v).
""")


def number(x: int) -> Branch:
    return Branch("Number", x)


price, count = Branch("Variable", "price"), Branch("Variable", "count")
total = Branch("Add", Branch("Times", price, count), number(5))
print(total)
# -> $Add($Times($Variable(price), $Variable(count)), $Number(5))

run = program.start({"formula": [("total", total), ("double", Branch("Times", number(2), total))]})
print(run.step({"variable": [("price", 3), ("count", 4)]})["result"].to_dict())
# -> {('double', 34): 1, ('total', 17): 1}

# Only the values that depend on the price are recomputed.
tick = run.step({"variable": {("price", 3): -1, ("price", 10): 1}})
print(tick["result"].to_dict())
# -> {('double', 34): -1, ('double', 90): 1, ('total', 17): -1, ('total', 45): 1}
