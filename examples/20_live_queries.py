"""Many live queries over one run: each subscriber gets the exact changes of what it follows."""

import asyncio

import dbsp

run = dbsp.compile("""
    .decl bid(item: symbol, user: symbol, euro: number) .input bid
    .decl best(item: symbol, euro: number)
    best(item, euro) :- bid(item, _, _), euro = max e : { bid(item, _, e) }.
    .decl winner(item: symbol, user: symbol) .output winner
    winner(item, user) :- best(item, euro), bid(item, user, euro).
""").start({"bid": [("lamp", "ann", 10), ("sofa", "ben", 90)]})

# Each user has a query with other constants: all of them are one circuit beside that of the run.
for user in ("ann", "ben", "eve"):
    run.subscribe(
        f'winner(item, "{user}"), best(item, euro)',
        lambda delta, user=user: print(user, delta.to_dict()),
    )
# -> ann {('lamp', 10): 1}
# -> ben {('sofa', 90): 1}
# -> eve {}

_ = run.step({"bid": [("lamp", "eve", 12), ("desk", "ben", 40)]})
# -> ann {('lamp', 10): -1}
# -> ben {('desk', 40): 1}
# -> eve {('lamp', 12): 1}

# Any relation can be followed, too. Without a function, the subscription keeps the deltas.
best = run.subscribe("best(item, euro), euro > 50")


async def read() -> None:
    async for delta in best:
        print("over 50:", delta.to_dict())


async def write() -> None:
    for euro in (45, 60, 75):
        run.step({"bid": [("desk", "joe", euro)]})
        await asyncio.sleep(0)
    best.close()


async def both() -> None:
    await asyncio.gather(read(), write())


for subscription in run.subscriptions[:3]:
    subscription.close()
asyncio.run(both())
# -> over 50: {('sofa', 90): 1}
# -> over 50: {('desk', 60): 1}
# -> over 50: {('desk', 60): -1, ('desk', 75): 1}
print(run.subscriptions, run.tick)
# -> () 5
