"""Time travel: a run keeps its past, and any tick of it can be asked like the present."""

import tempfile

import dbsp
from dbsp.durable import Store

program = dbsp.compile("""
    .decl road(a: symbol, b: symbol)
    .input road
    .decl reach(a: symbol, b: symbol)
    .output reach
    reach(a, b) :- road(a, b).
    reach(a, c) :- reach(a, b), road(b, c).
""")
folder = tempfile.mkdtemp()
run = program.start(checkpoint=Store(folder, keep="1 day", snapshot_every=2))

roads = [("Aachen", "Bonn"), ("Bonn", "Celle"), ("Celle", "Dessau")]
for road in roads:
    run.step({"road": [road]}, label=f"built {road[0]}-{road[1]}")
run.step({"road": {("Bonn", "Celle"): -1}}, label="flood")

print(run.view("reach").rows())
# -> [('Aachen', 'Bonn'), ('Celle', 'Dessau')]

# Any process opens the past, and needs no lock, while the run continues.
before = program.open(folder, as_of=3)
print(before.label, len(before.view("reach")))
# -> built Celle-Dessau 6

# Every question works on the past: was Dessau within reach, and why?
print(program.why(before, "reach", ("Aachen", "Dessau")))
# -> reach("Aachen", "Dessau")
# -> │  <program>:7: reach(a, c) :- reach(a, b), road(b, c).
# -> ├─ reach("Aachen", "Celle")
# -> │  │  <program>:7: reach(a, c) :- reach(a, b), road(b, c).
# -> │  ├─ reach("Aachen", "Bonn")
# -> │  │  │  <program>:6: reach(a, b) :- road(a, b).
# -> │  │  └─ road("Aachen", "Bonn")   input fact
# -> │  └─ road("Bonn", "Celle")   input fact
# -> └─ road("Celle", "Dessau")   input fact

# What did the flood change? One delta, or tick by tick.
now = program.open(folder)
for (a, b), weight in now.deltas("reach", since=3).items():
    print(a, b, weight)
# -> Aachen Celle -1
# -> Aachen Dessau -1
# -> Bonn Celle -1
# -> Bonn Dessau -1
for result in now.ticks(since=1):
    delta = result["reach"].to_dict()
    print(result.number, sum(delta.values()), min(delta))
# -> 2 2 ('Aachen', 'Celle')
# -> 3 3 ('Aachen', 'Dessau')
# -> 4 -4 ('Aachen', 'Celle')
