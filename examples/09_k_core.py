"""The 2-core of a graph by `iterate`: drop nodes with fewer than two friends until none is left."""

from dbsp import Circuit, Stream, col, count

circuit = Circuit("core")
friends = circuit.input("friends", a=str, b=str, kind="set")
both = friends + friends.map(a=col("b"), b=col("a"))


def peel(pairs: Stream) -> Stream:
    """Return the pairs in which both persons have at least two friends among the given pairs."""
    busy = pairs.group_by("a").agg(n=count()).filter(col("n") >= 2)
    return pairs.join(busy, on=["a"], how="semi").join(busy, on=[("b", "a")], how="semi")


# The body is applied until it changes nothing; it is made incremental like every other operator.
core = circuit.iterate("peeling", both, peel)
circuit.output("core", core.select("a").distinct())

run = circuit.start()
tick = run.step({"friends": [("ann", "bob"), ("bob", "cid"), ("cid", "dan"), ("dan", "eve")]})
print(tick["core"].rows(), run.iterations())
# -> [] {'peeling': 3}

# One more friendship closes a ring; eve is not in it.
print(run.step({"friends": [("dan", "ann")]})["core"].rows())
# -> [('ann',), ('bob',), ('cid',), ('dan',)]

# The end of one friendship empties the core, one person after the other.
print(run.step({"friends": {("bob", "cid"): -1}})["core"].to_dict())
# -> {('ann',): -1, ('bob',): -1, ('cid',): -1, ('dan',): -1}
