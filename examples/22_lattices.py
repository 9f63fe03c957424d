"""Lattices: the cheapest route, the rights of a user, and constants, kept up to date."""

import dbsp
from dbsp import Branch

TOP = Branch("Top")


def add(a: Branch, b: Branch) -> Branch:
    """Add two values that may be unknown; a sum with the top is the top, so the sum is monotone."""
    return TOP if TOP in (a, b) else Branch("Known", a.arguments[0] + b.arguments[0])


program = dbsp.compile(
    """
    // One row per pair of towns, with the least price.
    .decl fare(from: symbol, to: symbol, euro: number)
    .input fare
    .decl route(from: symbol, to: symbol, euro: number<min>)
    route(x, y, e) :- fare(x, y, e).
    route(x, z, d + e) :- route(x, y, d), fare(y, z, e).

    // Rights are bits (1 read, 2 write, 4 share); members have the rights of their groups.
    .decl grant(who: symbol, rights: unsigned)
    .decl member(who: symbol, group: symbol)
    .input grant, member
    .decl allowed(who: symbol, rights: unsigned<bor>)
    allowed(w, r) :- grant(w, r).
    allowed(w, r) :- member(w, g), allowed(g, r).

    // A variable of a program is a constant, or unknown after assignments of different values.
    .type Value = Top {} | Known { n: number }
    .functor add(a: Value<flat>, b: Value<flat>): Value<flat>
    .decl set(x: symbol, n: number)
    .decl plus(x: symbol, a: symbol, b: symbol)
    .input set, plus
    .decl value(x: symbol, v: Value<flat>)
    value(x, $Known(n)) :- set(x, n).
    value(x, @add(v, w)) :- plus(x, a, b), value(a, v), value(b, w).

    .output route, allowed, value
    """,
    functors={"add": add},
)
run = program.start(
    {
        "fare": [("Aa", "Bo", 4), ("Bo", "Ci", 3), ("Aa", "Ci", 9), ("Ci", "Bo", 1)],
        "grant": [("ann", 1), ("staff", 2), ("all", 1), ("all", 4)],
        "member": [("ann", "staff"), ("staff", "all"), ("all", "staff")],
        "set": [("x", 1), ("y", 2), ("y", 3)],
        "plus": [("z", "x", "y")],
    }
)
print(run.view("route").rows()[:2])
# -> [('Aa', 'Bo', 4), ('Aa', 'Ci', 7)]
print(run.view("allowed").rows())
# -> [('all', 7), ('ann', 7), ('staff', 7)]
print(run.view("value").rows())
# -> [('x', Branch('Known', 1)), ('y', Branch('Top')), ('z', Branch('Top'))]

# Deletions are exact: the next cheapest route takes the place of the deleted one, and the two
# groups, each a member of the other, do not keep the lost right for each other.
delta = run.step(
    {
        "fare": {("Aa", "Bo", 4): -1},
        "grant": {("all", 4): -1},
        "set": {("y", 3): -1},
    }
)
print(delta["route"].to_dict())
# -> {('Aa', 'Bo', 4): -1, ('Aa', 'Bo', 10): 1, ('Aa', 'Ci', 7): -1, ('Aa', 'Ci', 9): 1}
print(run.view("allowed").rows())
# -> [('all', 3), ('ann', 3), ('staff', 3)]
print(run.view("value").rows())
# -> [('x', Branch('Known', 1)), ('y', Branch('Known', 2)), ('z', Branch('Known', 3))]

print(program.why(run, "route", ("Aa", "Ci", 9)))
# -> route("Aa", "Ci", 9)
# -> │  <program>:6: route(x, y, e) :- fare(x, y, e).
# -> ├─ fare("Aa", "Ci", 9)   input fact
# -> └─ is the least upper bound with
# ->       route("Aa", "Ci", 13)
