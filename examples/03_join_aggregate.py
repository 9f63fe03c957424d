"""Orders and customers: a join, totals per region, and an input with one row per key."""

from dbsp import Circuit, col, count

circuit = Circuit("shop")
orders = circuit.input("orders", number=int, customer=str, amount=float)
customers = circuit.input("customers", name=str, region=str, key=("name",))

sales = orders.join(customers, on=[("customer", "name")])
totals = sales.group_by("region").agg(orders=count(), total=col("amount").sum())
circuit.output("totals", totals)

large = sales.filter(col("amount") >= 100).map(what=col("customer").str.upper(), amount=col("amount"))
circuit.output("large", large)

run = circuit.start()
run.input("customers").upsert([("ann", "north"), ("bob", "south")])
run.input("orders").insert([(1, "ann", 120.0), (2, "ann", 30.5), (3, "bob", 8.0)])
tick = run.step()
print(tick["totals"].rows())
# -> [('north', 2, 150.5), ('south', 1, 8.0)]
print(tick["large"].rows())
# -> [('ANN', 120.0)]

# Ann moves: an upsert replaces the row with her name, and only the dependent results change.
run.input("customers").upsert([("ann", "south")])
print(run.step()["totals"].to_dict())
# -> {('north', 2, 150.5): -1, ('south', 1, 8.0): -1, ('south', 3, 158.5): 1}
