"""Random circuits over the builder, for tests that compare forms of any circuit.

A circuit is drawn as a `Plan`, a tree of plain values, from which tests build it several times.
Every stream of a plan has the columns x and y, so any step fits any stream. A step refers to its
inputs by their distance from the newest stream, so a plan stays valid while hypothesis shrinks it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st

from dbsp import Circuit, Stream, col, count, lit, multiway_join, when

from .reference import Row
from .strategies import Tick, nullable, resplit

COLUMNS = {"x": int | None, "y": int | None}
KINDS = {"bag": "zset", "set": "set", "key": "key"}
"""The inputs of every plan: name and kind."""

HEAVY = 24
"""A stream whose weights may exceed this power of two becomes a set before the next product."""

X, Y = col("x"), col("y")

FILTERS: tuple[Callable[[Stream], Stream], ...] = (
    lambda s: s.filter(X < 2),
    lambda s: s.filter(X != Y),
    lambda s: s.filter((X > 0) & (Y < 3) | Y.is_null()),
    lambda s: s.filter((X + Y) % 3 != 1),  # can overflow, so no pass may move it
    lambda s: s.filter(lambda row: row.x is None or row.x <= (row.y or 0)),
)
MAPS: tuple[Callable[[Stream], Stream], ...] = (
    lambda s: s.map(x=Y, y=X),
    lambda s: s.map(x=(X + 1) % 5, y=Y),
    lambda s: s.map(x=X, y=when(X < Y).then((X + Y) % 5).otherwise(1)),
    lambda s: s.map(x=Y, y=lit(2)),
    lambda s: s.rename(x="y", y="x").select("x", "y"),
    lambda s: s.select("x").map(x=X, y=X),
    lambda s: s.map(lambda row: (row.y, row.x), COLUMNS),
    lambda s: s.flat_map(lambda row: [(row.x, row.y), (row.y, 4)], COLUMNS),
)
JOINS: tuple[Callable[[Stream, Stream], Stream], ...] = (
    lambda s, t: s.join(t, on=[("y", "x")], select=["x", "y_right"]).rename(y="y_right"),
    lambda s, t: s.join(t, on=["x"], select=["y", "y_right"]).rename(x="y", y="y_right"),
    lambda s, t: s.join(t, on=["x", "y"]),
    lambda s, t: s.join(t, on=[("x", "x"), ("x", "y")], select=["x", "y"]),
    lambda s, t: s.join(t, on=[], select=["x", "x_right"]).map(x=X, y=col("x_right")),
)
MULTIWAY_JOINS: tuple[Callable[[Stream, Stream], Stream], ...] = (
    lambda s, t: multiway_join([s("x", "y"), t("y", "z"), s("x", "z")], ["x", "z"]).rename(y="z"),
    lambda s, t: multiway_join([s("x", "y"), s("y", "x"), t("x", None)], ["x", "y"]),
    lambda s, t: multiway_join([s("x", 2), t("x", "y"), t("y", "y")]),
    lambda s, t: multiway_join(
        [s("x", "z"), t("y", "w"), s("w", "z")], ["x", "y"], let={"w": (X + 1) % 5}, where=Y != X
    ),
    lambda s, t: (
        multiway_join([s("a", "b"), t("b", "c")], let={"x": col("c")}).select("a", "x").rename(x="x", y="a")
    ),
    lambda s, t: multiway_join([t("x", "y"), s("x", "y"), t("x", "y")]).filter(X < 3),
    lambda s, t: multiway_join([s("x", "y")], where=[X < Y, Y != 3]),
    lambda s, t: multiway_join([s("x", "_"), t("_", "y"), t("x", "y")], ["y", "x"]).select("x", "y"),
)
HALF_JOINS: tuple[Callable[[Stream, Stream], Stream], ...] = (
    lambda s, t: s.join(t, on=["x"], how="semi"),
    lambda s, t: s.join(t, on=[("y", "x")], how="semi"),
    lambda s, t: s.join(t, on=["x", "y"], how="anti"),
    lambda s, t: s.join(t, on=[("y", "x"), ("x", "x")], how="anti"),
    lambda s, t: s.join(t, on=[], how="anti"),
)
AGGREGATES: tuple[Callable[[Stream], Stream], ...] = (
    lambda s: s.group_by("x").agg(n=count()).map(x=X, y=col("n") % 5),
    lambda s: s.group_by("x").agg(y=col("y").min()),
    lambda s: s.group_by("y").agg(x=col("x").max()).map(x=X, y=Y),
    lambda s: s.group_by("x").agg(total=(Y + 1).sum()).map(x=X, y=col("total") % 5),
    lambda s: (
        s.group_by("x").agg(mean=col("y").mean(), y=col("y").max()).filter(col("mean") > 1.0).map(x=X, y=Y)
    ),
    lambda s: s.group_by().agg(x=col("x").min(), y=col("x").max()),
    lambda s: s.group_by().agg(n=count()).map(x=lit(0), y=col("n") % 5),
)
FAILING: tuple[Callable[[Stream], Stream], ...] = (
    lambda s: s.filter(lit(4) // X > 1),
    lambda s: s.map(x=X, y=lit(4) // Y),
    lambda s: s.map(lambda row: (row.y, 4 // (row.x or 1 if row.x is None else row.x)), COLUMNS),
)
CONSTANTS: tuple[dict[Row, int], ...] = ({(0, 1): 1, (1, 2): 1}, {(2, None): 3, (1, 1): -1}, {})


@dataclass(frozen=True)
class OperatorStep:
    """One operator of a plan: its `kind`, the variety of the kind, and its two inputs."""

    kind: str
    variety: int
    left: int
    right: int


@dataclass(frozen=True)
class FixpointStep:
    """A fixpoint: its body, the streams that define its variables, and its results.

    A variable is a pair: a stream from outside and a stream of the body.
    """

    body: tuple[OperatorStep | FixpointStep, ...]
    variables: tuple[tuple[int, int], ...]
    leaving: tuple[int, ...]


@dataclass(frozen=True)
class IterateStep:
    """`circuit.iterate` from a stream, with a body and an optional condition."""

    begin: int
    body: tuple[OperatorStep, ...]
    condition: int | None


Plan = tuple["OperatorStep | FixpointStep | IterateStep", ...]


@dataclass
class Building:
    """The streams of a plan so far, in one scope of the circuit; outer streams come first."""

    circuit: Circuit
    cap: int
    streams: list[Stream]
    bits: dict[Any, int] = field(default_factory=dict)
    """A power of two that bounds the weights of a stream, by node."""
    scope: Any = None
    left: list[Stream] = field(default_factory=list)
    """The results of the scopes within this one."""
    disguised: frozenset[int] = frozenset()
    """The numbers of the streams that get another form with the same rows."""

    def pick(self, back: int) -> Stream:
        return self.streams[len(self.streams) - 1 - back % len(self.streams)]

    def light(self, stream: Stream, bits: int = HEAVY) -> Stream:
        return stream.distinct() if self.bits.get(stream.node, 0) > bits else stream

    def add(self, stream: Stream, bits: int) -> None:
        if len(self.streams) in self.disguised:
            stream = stream + self.circuit.constant([], stream.schema)
        self.streams.append(stream)
        self.bits[stream.node] = bits

    def follow(self, steps: Iterable[OperatorStep | FixpointStep | IterateStep]) -> None:
        for step in steps:
            if isinstance(step, OperatorStep):
                self._add_operator(step)
            elif isinstance(step, FixpointStep):
                self._add_fixpoint(step)
            else:
                self._add_iterate(step)

    def _add_operator(self, step: OperatorStep) -> None:
        s, t, n = self.light(self.pick(step.left)), self.light(self.pick(step.right)), step.variety
        a, b = self.bits.get(s.node, 0), self.bits.get(t.node, 0)
        most = max(a, b)
        match step.kind:
            case "filter":
                self.add(FILTERS[n % len(FILTERS)](s), a)
            case "map":
                self.add(MAPS[n % len(MAPS)](s), a + 4)
            case "join":
                self.add(JOINS[n % len(JOINS)](s, t), a + b + 4)
            case "multiway join":
                s, t = self.light(s, HEAVY // 2), self.light(t, HEAVY // 2)
                most = max(self.bits.get(s.node, 0), self.bits.get(t.node, 0))
                self.add(MULTIWAY_JOINS[n % len(MULTIWAY_JOINS)](s, t), 3 * most + 8)
            case "half join":
                self.add(HALF_JOINS[n % len(HALF_JOINS)](s, t), a)
            case "aggregate":
                self.add(AGGREGATES[n % len(AGGREGATES)](s), 3)
            case "failing":
                self.add(FAILING[n % len(FAILING)](s), a)
            case "distinct":
                self.add(s.distinct(), 0)
            case "linear":
                self.add((s + t, s - t, -s, s.union(t, s))[n % 4], most + 2)
            case "constant":
                self.add(self.circuit.constant(CONSTANTS[n % len(CONSTANTS)], COLUMNS), 2)
            case "delay":
                # In a scope, the delay is over iterations; a stream from outside has none.
                self.add(s.delay() if self.scope is None or s.graph.parent is not None else s, a)
            case "over time":
                self.add((s.integrate(), s.differentiate())[n % 2], a + 4)
            case "running sum":
                before = self.circuit.feedback(COLUMNS)
                total = before + s
                self.circuit.connect(before, total)
                self.add(total, a + 4)
            case _:  # a set that grows over the ticks
                assert step.kind == "feedback"
                before = self.circuit.feedback(COLUMNS)
                following = (
                    before.join(t, on=[("y", "x")], select=["x", "y_right"]).rename(y="y_right") + s
                ).distinct()
                self.circuit.connect(before, following)
                self.add(following, 0)

    def _add_fixpoint(self, step: FixpointStep) -> None:
        opened = self.circuit if self.scope is None else self.scope
        with opened.fixpoint(f"scope{len(self.streams)}", max_iterations=self.cap) as scope:
            inside = Building(
                self.circuit, self.cap, list(self.streams), dict(self.bits), scope, [], self.disguised
            )
            variables = [scope.variable(f"v{n}", COLUMNS) for n in range(len(step.variables))]
            inside.streams += variables
            inside.follow(step.body)
            for variable, (base, result) in zip(variables, step.variables, strict=True):
                # The base comes from outside, so that the variable has rows at the start.
                scope.define(variable, (self.pick(base) + inside.pick(result)).distinct())
        for stream in (*variables, *map(inside.pick, step.leaving)):
            self.add(scope.leave(stream), inside.bits.get(stream.node, 0))
            self.left.append(self.streams[-1])

    def _add_iterate(self, step: IterateStep) -> None:
        def body(x: Stream) -> Stream:
            inside = Building(self.circuit, self.cap, [*self.streams, x], self.bits)
            inside.follow(step.body)
            return inside.pick(0).distinct()

        def condition(x: Stream) -> Stream:
            return FILTERS[(step.condition or 0) % len(FILTERS)](x)

        while_ = None if step.condition is None else condition
        name = f"iterate{len(self.streams)}"
        # The body may produce None, so the columns at the start must be optional.
        begin = self.pick(step.begin) + self.circuit.constant([], COLUMNS)
        result = self.circuit.iterate(name, begin, body, while_=while_, max_iterations=self.cap)
        self.add(result, self.bits.get(begin.node, 0))
        self.left.append(result)


def build(plan: Plan, outputs: Iterable[int], cap: int, disguised: frozenset[int] = frozenset()) -> Circuit:
    """Build the circuit of a plan; `outputs` selects its outputs, `cap` limits its iterations.

    Circuits that differ only in `disguised` compute the same query.
    """
    circuit = Circuit("random")
    building = Building(circuit, cap, [], disguised=disguised)
    for name, kind in KINDS.items():
        if kind == "key":
            stream = circuit.input(name, schema=COLUMNS, key=("x",))
        else:
            stream = circuit.input(name, schema=COLUMNS, kind=kind)
        building.add(stream, 6)
    building.follow(plan)
    for number, back in enumerate(outputs):
        circuit.output(f"out{number}", building.pick(back))
    for number, stream in enumerate(building.left):
        circuit.output(f"left{number}", stream)
    return circuit


TIMELESS = (
    "filter",
    "map",
    "join",
    "multiway join",
    "half join",
    "aggregate",
    "distinct",
    "linear",
    "constant",
)
"""Operators whose result depends on the integral of the inputs, not on the ticks."""
OVER_TIME = ("delay", "over time", "running sum", "feedback")

_back = st.sampled_from([0, 0, 1, 1, 2, 3, 4, 5])
_variety = st.integers(0, 7)


def _operator_steps(
    kinds: Iterable[str], back: st.SearchStrategy[int] = _back
) -> st.SearchStrategy[OperatorStep]:
    return st.builds(OperatorStep, st.sampled_from(tuple(kinds)), _variety, back, _back)


# A scope has no ticks, so it has no integrals; its delays are over iterations.
_inside = _operator_steps((*TIMELESS, "delay"))
# Most recursions should need several iterations: their first step changes a variable.
_moving = st.builds(
    OperatorStep,
    st.sampled_from(["join", "join", "multiway join"]),
    st.sampled_from([0, 0, 1]),
    st.integers(0, 1),
    st.integers(1, 4),
) | st.builds(OperatorStep, st.just("map"), st.integers(1, 2), st.integers(0, 1), st.just(0))


def _fixpoints(body: st.SearchStrategy[Any], most: int) -> st.SearchStrategy[FixpointStep]:
    steps = st.tuples(_moving, st.lists(body, max_size=most)).map(lambda parts: (parts[0], *parts[1]))
    return st.builds(
        FixpointStep,
        steps,
        st.lists(st.tuples(_back, st.sampled_from([0, 0, 0, 1, 2])), min_size=1, max_size=2).map(tuple),
        st.lists(_back, max_size=1).map(tuple),
    )


recursions = _fixpoints(_inside, 3)
nested_recursions = st.builds(
    lambda outer, inner, place: replace(outer, body=(*outer.body[:place], inner, *outer.body[place:])),
    recursions,
    _fixpoints(_inside, 2),
    st.integers(0, 2),
)
iterations = st.builds(
    IterateStep,
    _back,
    st.lists(_operator_steps(TIMELESS), min_size=1, max_size=3).map(tuple),
    st.none() | _variety,
)


def plans(*, timeless: bool = False, scopes: bool = True, failing: bool = False) -> st.SearchStrategy[Plan]:
    """Draw plans of up to a dozen steps, one of which is a (nested) fixpoint or an iteration."""
    steps = st.lists(_operator_steps(TIMELESS if timeless else TIMELESS + OVER_TIME), max_size=5)
    if failing:
        fails = st.tuples(_operator_steps(["failing"]))
        steps = st.tuples(steps, fails, steps).map(lambda parts: (*parts[0], *parts[1], *parts[2]))
    if not scopes:
        return st.tuples(steps, steps).map(lambda parts: (*parts[0], *parts[1]))
    scope = recursions | nested_recursions | iterations
    return st.tuples(steps, scope, steps).map(lambda parts: (*parts[0], parts[1], *parts[2]))


outputs = st.lists(st.integers(1, 5), max_size=2, unique=True).map(lambda backs: [0, *backs])


@st.composite
def regrouped(draw: st.DrawFn, sequence: Sequence[Tick]) -> list[list[tuple[str, Row, int]]]:
    """Draw other ticks of the same changes: those of the bag in any order, the others in order."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    bag = draw(resplit([{name: delta for name, delta in tick.items() if name == "bag"} for tick in sequence]))
    dealt = [[("bag", row, w) for row, w in tick.get("bag", {}).items()] for tick in bag]
    ordered = [
        (name, row, w)
        for tick in sequence
        for name, delta in tick.items()
        if name != "bag"
        for row, w in delta.items()
    ]
    places = sorted(rng.randrange(len(dealt)) for _ in ordered)
    for place, change in zip(places, ordered, strict=True):
        dealt[place].append(change)
    return dealt


@st.composite
def changes(draw: st.DrawFn, max_ticks: int = 5) -> list[Tick]:
    """Draw ticks for the inputs of a plan; a keyed input gets one change per key in a tick."""
    row = st.tuples(nullable, nullable)
    weighted = st.dictionaries(row, st.sampled_from([1, 1, 1, 1, -1, -1, 2, -3]), max_size=8)
    dense = st.dictionaries(row, st.sampled_from([1, 1, 2]), min_size=3, max_size=8)
    by_key = st.dictionaries(nullable, st.tuples(nullable, st.sampled_from([1, 1, -1])), max_size=4)
    keyed = by_key.map(lambda drawn: {(x, y): weight for x, (y, weight) in drawn.items()})
    every = {"bag": weighted, "set": weighted, "key": keyed}
    begin = {"bag": dense, "set": dense, "key": keyed}
    later = st.lists(st.fixed_dictionaries({}, optional=every), min_size=1, max_size=max_ticks - 1)
    return [draw(st.fixed_dictionaries(begin)), *draw(later)]
