"""The verbs and expressions of Polars, pandas and ibis, over orders that change."""

from datetime import date
from typing import Any

from dbsp import Circuit, col

circuit = Circuit("shop")
order = circuit.input("order", id=int, customer=str, day=date, items="list[{item: str, cent: int}]")
customer = circuit.input("customer", name=str, city=str, limit=int)

# One row for each element of the list, one column for each field of the struct.
line = order.explode("items").unnest("items").with_columns(month=col("day").dt.truncate("month"))
circuit.output("line", line.select("id", "item", "cent"))

# Aggregates are methods of expressions, and agg takes expressions over aggregates.
cent = col("cent")
spent = line.group_by("customer", "month").agg(
    orders=col("id").count_distinct(),
    total=cent.sum().fill_null(0),
    spread=cent.max() - cent.min(),
    large=(cent >= 1000).sum(),
)

# As with ON in SQL, a group within the limit stays, without a city.
over = spent.join(
    customer, left_on="customer", right_on="name", how="left", where=spent["total"] > customer["limit"]
)
circuit.output("over", over.select("customer", "total", "spread", "city"))
silent = customer.join(order, left_on="name", right_on="customer", how="anti")
circuit.output("silent", silent.select("name"))

run = circuit.start()
orders: list[Any] = [
    (1, "Ada", date(2026, 5, 6), [("tea", 1250), ("pen", 120)]),
    (2, "Ben", date(2026, 5, 7), [("desk", 8000)]),
    (3, "Ben", date(2026, 5, 9), []),
]
limits = [("Ada", "Rome", 2000), ("Ben", "Bonn", 9000), ("Cyd", "Oslo", 500)]
first = run.step({"customer": limits, "order": orders})
print(first["line"].rows())
# -> [(1, 'pen', 120), (1, 'tea', 1250), (2, 'desk', 8000), (3, None, None)]
print(first["over"].rows())
# -> [('Ada', 1370, 1130, None), ('Ben', 8000, 0, None)]
print(first["silent"].rows())
# -> [('Cyd',)]

# An order changes one group, which is now over its limit.
second = run.step({"order": [(4, "Ada", date(2026, 5, 20), [("mug", 900)])]})
print(second["over"].to_dict())
# -> {('Ada', 1370, 1130, None): -1, ('Ada', 2270, 1130, 'Rome'): 1}
