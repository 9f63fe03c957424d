"""Reports that refute each other: recursion through negation, with true, false, undefined rows."""

import dbsp

program = dbsp.compile(
    """
    .decl report(id: symbol)
    .decl refutes(id: symbol, other: symbol)
    .input report, refutes

    // A report holds unless a report that holds refutes it.
    .decl holds(id: symbol)
    .output holds
    holds(r) :- report(r), !refuted(r).

    .decl refuted(id: symbol)
    .output refuted
    refuted(r) :- refutes(s, r), holds(s).
    """,
    negation="well-founded",
)
run = program.start(
    {
        "report": [("ann",), ("bob",), ("cat",), ("dan",), ("eve",)],
        "refutes": [("ann", "bob"), ("bob", "cat"), ("dan", "eve"), ("eve", "dan")],
    }
)

# Nothing refutes ann, so bob is refuted, and cat holds. Dan and eve refute each other: undefined.
for name in program.outputs:
    print(name, run.view(name).rows())
# -> holds [('ann',), ('cat',)]
# -> holds.undefined [('dan',), ('eve',)]
# -> refuted [('bob',)]
# -> refuted.undefined [('dan',), ('eve',)]

# Ann refutes dan, too: the report of dan is now false, and that of eve is true.
tick = run.step({"refutes": [("ann", "dan")]})
print(tick["holds"].to_dict(), tick["holds.undefined"].to_dict())
# -> {('eve',): 1} {('dan',): -1, ('eve',): -1}

# Ann refutes herself: whatever her report would decide is undefined.
tick = run.step({"refutes": [("ann", "ann")]})
print(run.view("holds").rows(), run.view("holds.undefined").rows())
# -> [] [('ann',), ('bob',), ('cat',), ('dan',), ('eve',)]

# A retraction undoes all of it.
tick = run.step({"refutes": {("ann", "ann"): -1}})
print(run.view("holds").rows(), run.view("holds.undefined").rows())
# -> [('ann',), ('cat',), ('eve',)] []

# Why a row is true: the negation reads the rows that are possible, that is, true or undefined.
print(program.why(run, "refuted", ("bob",)))
# -> refuted("bob")
# -> │  <program>:13: refuted(r) :- refutes(s, r), holds(s).
# -> ├─ refutes("ann", "bob")   input fact
# -> └─ holds("ann")
# ->    │  <program>:9: holds(r) :- report(r), !refuted.possible(r).
# ->    ├─ report("ann")   input fact
# ->    └─ !refuted.possible("ann")   no row matches
