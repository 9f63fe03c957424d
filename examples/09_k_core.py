"""The 2-core of a graph by `iterate`: who has fewer than two friends left is dropped, again and again."""

from dbsp import Circuit, Stream, col, count

circuit = Circuit("core")
friends = circuit.input("friends", a=str, b=str, kind="set")
both = friends + friends.map(a=col("b"), b=col("a"))


def peel(left: Stream) -> Stream:
    """The pairs of which both have at least two friends among those that are left."""
    busy = left.group_by("a").agg(n=count()).filter(col("n") >= 2)
    return left.semijoin(busy, on=["a"]).semijoin(busy, on=[("b", "a")])


# The body is plain: it is applied until it changes nothing, and made incremental like everything else.
core = circuit.iterate("peeling", both, peel)
circuit.output("core", core.project("a").distinct())

run = circuit.start()
tick = run.step({"friends": [("ann", "bob"), ("bob", "cid"), ("cid", "dan"), ("dan", "eve")]})
print(tick["core"].rows(), run.iterations())
# -> [] {'peeling': 3}

# One more friendship closes a ring; eve stays outside.
print(run.step({"friends": [("dan", "ann")]})["core"].rows())
# -> [('ann',), ('bob',), ('cid',), ('dan',)]

# And the end of one takes all of it apart, from one person to the next.
print(run.step({"friends": {("bob", "cid"): -1}})["core"].to_dict())
# -> {('ann',): -1, ('bob',): -1, ('cid',): -1, ('dan',): -1}
