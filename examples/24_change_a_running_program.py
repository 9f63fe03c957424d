"""Change a running program: state that both programs share is kept, also over a restart."""

import tempfile

import dbsp

shop = """
    .decl order(id: number, customer: symbol, euro: number) .input order
    .decl blocked(customer: symbol) .input blocked
    .decl sale(customer: symbol, euro: number)
    sale(customer, euro) :- order(_, customer, euro), !blocked(customer).
    .decl total(customer: symbol, euro: number) .output total
    total(customer, euro) :- sale(customer, _), euro = sum e : { sale(customer, e) }.
"""
folder = tempfile.mkdtemp()
run = dbsp.compile(shop).start(
    {"order": [(1, "ann", 10), (2, "ann", 25), (3, "ben", 40)], "blocked": [("ben",)]}, checkpoint=folder
)
print(run.view("total").rows())
# -> [('ann', 35)]

# A new output reads what is stored: the orders and their totals are not computed again.
large = shop + ".decl large(customer: symbol) .output large large(customer) :- total(customer, e), e > 30."
done = run.update(dbsp.compile(large))
print({name: delta.to_dict() for name, delta in done.deltas.items()})
# -> {'total': {}, 'large': {('ann',): 1}}
print(dict(done.relations))
# -> {'order': 'kept', 'blocked': 'kept', 'sale': 'kept', 'total': 'kept', 'large': 'added'}

# Another rule for one relation: its readers follow the difference.
loyal = large + 'sale("ben", euro) :- order(_, "ben", euro), euro > 30.'
done = run.update(dbsp.compile(loyal))
print({name: delta.to_dict() for name, delta in done.deltas.items()})
# -> {'total': {('ben', 40): 1}, 'large': {('ben',): 1}}
print(done.names("changed"))
# -> ('large', 'sale', 'total')

# Most programs change with a restart. The folder has the text of its program, so the restart with
# an edited one is an update, too.
run.log.close()
run = dbsp.compile(loyal.replace("e > 30.", "e > 35.")).start(checkpoint=folder, update=True)
print(run.tick, {name: delta.to_dict() for name, delta in run.log.result.items()})
# -> 4 {'total': {}, 'large': {('ann',): -1}}
print(run.step({"order": {(3, "ben", 40): -1}})["large"].to_dict())
# -> {('ben',): -1}
run.log.close()
