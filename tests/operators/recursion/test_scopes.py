"""Scopes within scopes, and recursion through aggregates, compared with plain loops after every tick."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbsp import Circuit, IterationLimitError, Stream, col, count, lit, max_, min_, sum_, when
from dbsp.circuit.stage import Stage
from dbsp.runtime.run import Run
from tests.harness import apply_set, deltas_of, view
from tests.reference import Row, Z, minus
from tests.strategies import Tick, rows, set_ticks, small

pytestmark = pytest.mark.usefixtures("every_recursion")

X, Y = col("x"), col("y")
PAIR = {"x": int, "y": int}
FAST = (Stage.PHYSICAL,)
ALL = tuple(Stage)


def follow(
    build: Callable[[Circuit], Stream],
    model: Callable[..., Iterable[Row]],
    sequence: list[Tick],
    stages: Iterable[Stage] = FAST,
) -> list[Run]:
    """Runs of the stages through the ticks; view and delta must be what the loops make of the inputs.

    `model` gets the sets of rows of the inputs in the order of their names.
    """
    runs = []
    for stage in stages:
        circuit = Circuit("test")
        circuit.output("out", build(circuit))
        runs.append(circuit.start(stage))
    inputs: dict[str, Z] = {name: {} for name in sorted(runs[0].inputs)}
    before: Z = {}
    for number, tick in enumerate(sequence, 1):
        for name, delta in tick.items():
            inputs[name] = apply_set(inputs[name], delta)
        after = dict.fromkeys(model(*(set(rows) for rows in inputs.values())), 1)
        for run in runs:
            told = f"tick {number} of {sequence}"
            assert run.step(tick)["out"].to_dict() == minus(after, before), told
            assert view(run) == after, told
        before = after
    return runs


def graph_ticks(nodes: int, edges: int, ticks: int, seed: int, weight: int | None = None) -> list[Tick]:
    """A random graph, then ticks that replace some of its edges; with a third column below `weight`."""
    draw = random.Random(seed)

    def edge() -> Row:
        pair = (draw.randrange(nodes), draw.randrange(nodes))
        return pair if weight is None else (*pair, draw.randrange(1, weight))

    present = {edge() for _ in range(edges)}
    sequence: list[Tick] = [{"edge": dict.fromkeys(present, 1)}]
    for _ in range(ticks):
        gone = draw.sample(sorted(present), min(len(present), draw.randint(0, 4)))
        come = {edge() for _ in range(draw.randint(0, 4))} - present - set(gone)
        present = (present - set(gone)) | come
        sequence.append({"edge": dict.fromkeys(gone, -1) | dict.fromkeys(come, 1)})
    return sequence


def closed(pairs: Iterable[Row], step: Iterable[Row]) -> set[Row]:
    """All (x, z) with (x, y) among the pairs and a walk of steps from y to z."""
    found, new = set(pairs), set(pairs)
    while new:
        new = {(x, z) for x, y in new for w, z in step if w == y} - found
        found |= new
    return found


def longer(path: Stream, edge: Stream) -> Stream:
    return path.join(edge, on=[("y", "x")], select=["x", "y_right"]).rename(y="y_right")


# --- two and three deep ----------------------------------------------------------------------------


def alternating(circuit: Circuit) -> Stream:
    """Pairs connected by turns: any number of steps of a, then one of b, and so on.

    The inner scope closes under a; the outer one adds a step of b to what the inner one made.
    """
    a, b = (circuit.input(name, schema=PAIR, kind="set") for name in "ab")
    with circuit.fixpoint("turns") as outer:
        begun = outer.variable("begun", PAIR)
        with outer.fixpoint("steps") as inner:
            made = inner.variable("made", PAIR)
            inner.define(made, (begun + a + longer(made, a)).distinct())
        reached = inner.leave(made)
        outer.define(begun, longer(reached, b).distinct())
    return outer.leave(reached)


def alternating_model(a: set[Row], b: set[Row]) -> set[Row]:
    begun: set[Row] = set()
    while True:
        reached = closed(begun | a, a)
        following = {(x, z) for x, y in reached for w, z in b if w == y}
        if following == begun:
            return reached
        begun = following


two = set_ticks({"a": rows(small, small), "b": rows(small, small)}, max_ticks=5)


@settings(max_examples=40)
@given(two)
def test_two_deep(sequence: list[Tick]) -> None:
    follow(alternating, alternating_model, sequence, ALL)


def nonlinear(circuit: Circuit) -> Stream:
    """As `alternating`, but the inner scope joins its variable with itself.

    Both sides of that join change at every iteration of both scopes, so the delta and the row of a match
    have times of which neither need be the later one: (2, 0) and (1, 3) meet at (2, 3).
    """
    a, b = (circuit.input(name, schema=PAIR, kind="set") for name in "ab")
    with circuit.fixpoint("turns", max_iterations=100) as outer:
        begun = outer.variable("begun", PAIR)
        with outer.fixpoint("steps", max_iterations=100) as inner:
            made = inner.variable("made", PAIR)
            inner.define(made, (begun + a + longer(made, made)).distinct())
        reached = inner.leave(made)
        outer.define(begun, longer(reached, b).distinct())
    return outer.leave(reached)


def nonlinear_model(a: set[Row], b: set[Row]) -> set[Row]:
    begun: set[Row] = set()
    while True:
        reached = closed(begun | a, begun | a)
        following = {(x, z) for x, y in reached for w, z in b if w == y}
        if following == begun:
            return reached
        begun = following


@pytest.mark.parametrize("seed", range(4))
def test_a_join_of_an_inner_variable_with_itself(seed: int) -> None:
    draw = random.Random(seed)
    sequence: list[Tick] = []
    for _ in range(4):
        tick: Tick = {}
        for name in "ab":
            pairs = [(draw.randrange(8), draw.randrange(8)) for _ in range(5)]
            tick[name] = {pair: draw.choice([1, 1, -1]) for pair in pairs}
        sequence.append(tick)
    follow(nonlinear, nonlinear_model, sequence, ALL)


@settings(max_examples=25)
@given(two)
def test_nonlinear_two_deep(sequence: list[Tick]) -> None:
    follow(nonlinear, nonlinear_model, sequence)


def three_deep(circuit: Circuit) -> Stream:
    """The same with one more scope around it, which turns round what the two inside it made."""
    a, b, c = (circuit.input(name, schema=PAIR, kind="set") for name in "abc")
    with circuit.fixpoint("one") as one:
        first = one.variable("first", PAIR)
        with one.fixpoint("two") as two_:
            second = two_.variable("second", PAIR)
            with two_.fixpoint("three") as three:
                third = three.variable("third", PAIR)
                three.define(third, (first + second + a + longer(third, a)).distinct())
            inside = three.leave(third)
            two_.define(second, longer(inside, b).distinct())
        middle = two_.leave(inside)
        one.define(first, middle.map(x=Y, y=X).semijoin(c, on=["x", "y"]).distinct())
    return one.leave(middle)


def three_model(a: set[Row], b: set[Row], c: set[Row]) -> set[Row]:
    first: set[Row] = set()
    while True:
        second: set[Row] = set()
        while True:
            inside = closed(first | second | a, a)
            following = {(x, z) for x, y in inside for w, z in b if w == y}
            if following == second:
                break
            second = following
        turned = {(y, x) for x, y in inside} & c
        if turned == first:
            return inside
        first = turned


three = set_ticks(dict.fromkeys("abc", rows(st.integers(0, 3), st.integers(0, 3))), max_ticks=4)


@settings(max_examples=25)
@given(three)
def test_three_deep(sequence: list[Tick]) -> None:
    follow(three_deep, three_model, sequence)


@settings(max_examples=8)
@given(three)
def test_three_deep_in_every_stage(sequence: list[Tick]) -> None:
    follow(three_deep, three_model, sequence, ALL)


@pytest.mark.parametrize("seed", range(4))
def test_deep_scopes_on_denser_graphs(seed: int) -> None:
    draw = random.Random(seed)
    sequence: list[Tick] = []
    for _ in range(12):
        tick: Tick = {}
        for name in "abc":
            pairs = [(draw.randrange(5), draw.randrange(5)) for _ in range(draw.randrange(4))]
            tick[name] = {pair: draw.choice([1, 1, -1]) for pair in pairs}
        sequence.append(tick)
    follow(three_deep, three_model, sequence)
    follow(alternating, alternating_model, [{n: t[n] for n in "ab"} for t in sequence])


@settings(max_examples=25)
@given(two)
def test_negation_of_an_inner_result(sequence: list[Tick]) -> None:
    """A round keeps the pairs that the inner scope, begun with those of the round before, misses."""

    def build(circuit: Circuit) -> Stream:
        a, b = (circuit.input(name, schema=PAIR, kind="set") for name in "ab")
        with circuit.fixpoint("rounds") as outer:
            rounds = outer.variable("rounds", {"n": int, "x": int, "y": int})
            last = rounds.filter(col("n") < 4)
            with outer.fixpoint("paths") as inner:
                path = inner.variable("path", {"n": int, "x": int, "y": int})
                step = path.join(a, on=[("y", "x")], select=["n", "x", "y_right"]).rename(y="y_right")
                inner.define(path, (last + step).distinct())
            open_ = b.join(last.project("n").distinct(), on=[]).antijoin(
                inner.leave(path), on=[("x", "y"), "n"]
            )
            following = open_.map(n=col("n") + 1, x=X, y=Y)
            outer.define(rounds, (b.map(n=lit(0), x=X, y=Y) + following).distinct())
        return outer.leave(rounds)

    def model(a: set[Row], b: set[Row]) -> set[Row]:
        made, now = {(0, *pair) for pair in b}, set(b)
        for n in range(4):
            ends = {y for _, y in closed(now, a)}
            now = {(x, y) for x, y in b if x not in ends} if now else set()
            made |= {(n + 1, *pair) for pair in now}
        return made

    follow(build, model, sequence, ALL)


# --- aggregates in recursion -----------------------------------------------------------------------

EDGE = {"x": int, "y": int, "w": int}


def shortest(circuit: Circuit) -> Stream:
    """The length of the shortest way from node 0 to every node: min in recursion."""
    edge = circuit.input("edge", schema=EDGE, kind="set")
    with circuit.fixpoint("distances", max_iterations=500) as scope:
        far = scope.variable("far", {"node": int, "d": int})
        step = far.join(edge, on=[("node", "x")], select=["y", "d", "w"])
        ways = step.map(node=Y, d=col("d") + col("w"))
        start = circuit.constant([(0, 0)], {"node": int, "d": int})
        scope.define(far, (start + ways).group_by("node").agg(d=min_("d")))
    return scope.leave(far)


def shortest_model(edge: set[Row]) -> set[Row]:
    far = {0: 0}
    while True:
        best = dict(far)
        for x, y, w in edge:
            if x in far:
                best[y] = min(best.get(y, far[x] + w), far[x] + w)
        if best == far:
            return set(far.items())
        far = best


@settings(max_examples=40)
@given(set_ticks({"edge": rows(small, small, st.integers(1, 3))}, max_ticks=5, max_size=8))
def test_shortest_paths(sequence: list[Tick]) -> None:
    follow(shortest, shortest_model, sequence)


@pytest.mark.parametrize("seed", range(3))
def test_shortest_paths_on_larger_graphs(seed: int) -> None:
    """Edges that many shortest ways take are cut, and put back."""
    follow(shortest, shortest_model, graph_ticks(25, 45, 25, seed, weight=9))


def test_shortest_paths_in_every_stage() -> None:
    follow(shortest, shortest_model, graph_ticks(8, 14, 8, 5, weight=5), ALL)


def test_a_cut_off_cycle_has_no_shortest_path() -> None:
    """Its nodes name each other as the way, one longer each time; they must go at once, not count up."""
    cycle = {(1, 2, 1): 1, (2, 3, 1): 1, (3, 1, 1): 1}
    (run,) = follow(
        shortest, shortest_model, [{"edge": {(0, 1, 1): 1} | cycle}, {"edge": {(0, 1, 1): -1}}, {}]
    )
    assert run.view("out").rows() == [(0, 0)]


def components(circuit: Circuit) -> Stream:
    """The least node of the component of every node, by labels that spread along the edges."""
    edge = circuit.input("edge", schema=PAIR, kind="set")
    both = (edge + edge.map(x=Y, y=X)).distinct()
    nodes = both.project("x").distinct().map(node=X, label=X)
    with circuit.fixpoint("labels") as scope:
        labels = scope.variable("labels", {"node": int, "label": int})
        spread = labels.join(both, on=[("node", "x")], select=["y", "label"]).rename(node="y")
        scope.define(labels, (nodes + spread).group_by("node").agg(label=min_("label")))
    return scope.leave(labels)


def components_model(edge: set[Row]) -> set[Row]:
    label = {node: node for pair in edge for node in pair}
    changed = True
    while changed:
        changed = False
        for x, y in edge:
            least = min(label[x], label[y])
            if (label[x], label[y]) != (least, least):
                label[x] = label[y] = least
                changed = True
    return set(label.items())


@settings(max_examples=40)
@given(set_ticks({"edge": rows(st.integers(0, 6), st.integers(0, 6))}, max_ticks=6))
def test_components(sequence: list[Tick]) -> None:
    follow(components, components_model, sequence)


@pytest.mark.parametrize("seed", range(3))
def test_components_that_fall_apart_and_grow_together(seed: int) -> None:
    follow(components, components_model, graph_ticks(40, 45, 25, seed))


def test_components_in_every_stage() -> None:
    follow(components, components_model, graph_ticks(9, 10, 8, 2), ALL)


@settings(max_examples=25)
@given(set_ticks({"edge": rows(small, small)}, max_ticks=5))
def test_several_aggregates_inside_a_scope(sequence: list[Tick]) -> None:
    """Rounds of totals: a count, a sum and a maximum of what the round before made."""

    def build(circuit: Circuit) -> Stream:
        edge = circuit.input("edge", schema=PAIR, kind="set")
        schema = {"round": int, "x": int, "v": int}
        with circuit.fixpoint("totals") as scope:
            totals = scope.variable("totals", schema)
            sent = totals.filter(col("round") < 3).join(edge, on=["x"], select=["round", "y", "v"])
            received = sent.group_by("round", "y").agg(n=count(), t=sum_("v"), top=max_("v"))
            v = (col("n") + col("t").fill_null(0) + col("top")) % 7
            following = received.map(round=col("round") + 1, x=Y, v=v)
            begin = edge.project("x").distinct().map(round=lit(0), x=X, v=X)
            scope.define(totals, (begin + following).distinct())
        return scope.leave(totals)

    def model(edge: set[Row]) -> set[Row]:
        now = {x: x for x, _ in edge}
        made = {(0, x, v) for x, v in now.items()}
        for n in range(1, 4):
            sent: dict[int, list[int]] = {}
            for x, y in edge:
                if x in now:
                    sent.setdefault(y, []).append(now[x])
            now = {y: (len(vs) + sum(vs) + max(vs)) % 7 for y, vs in sent.items()}
            made |= {(n, x, v) for x, v in now.items()}
        return made

    follow(build, model, sequence, ALL)


# --- iterate ---------------------------------------------------------------------------------------


def core(k: int) -> Callable[[Circuit], Stream]:
    """The k-core: edges are dropped as long as an end of theirs has fewer than k."""

    def build(circuit: Circuit) -> Stream:
        edge = circuit.input("edge", schema=PAIR, kind="set")
        both = (edge + edge.map(x=Y, y=X)).filter(X != Y).distinct()

        def peel(left: Stream) -> Stream:
            busy = left.group_by("x").agg(n=count()).filter(col("n") >= k)
            return left.semijoin(busy, on=["x"]).semijoin(busy, on=[("y", "x")])

        return circuit.iterate("core", both, peel)

    return build


def core_model(k: int) -> Callable[[set[Row]], set[Row]]:
    def model(edge: set[Row]) -> set[Row]:
        left = {pair for x, y in edge if x != y for pair in ((x, y), (y, x))}
        while True:
            degree: dict[int, int] = {}
            for x, _ in left:
                degree[x] = degree.get(x, 0) + 1
            kept = {(x, y) for x, y in left if degree[x] >= k and degree[y] >= k}
            if kept == left:
                return left
            left = kept

    return model


@settings(max_examples=30)
@given(set_ticks({"edge": rows(st.integers(0, 5), st.integers(0, 5))}, max_ticks=5, max_size=10))
def test_the_core_of_a_graph(sequence: list[Tick]) -> None:
    follow(core(2), core_model(2), sequence)


@pytest.mark.parametrize("seed", range(3))
def test_the_core_of_larger_graphs(seed: int) -> None:
    follow(core(3), core_model(3), graph_ticks(22, 48, 20, seed))


def test_the_core_in_every_stage() -> None:
    follow(core(2), core_model(2), graph_ticks(7, 10, 8, 1), ALL)


@settings(max_examples=25)
@given(set_ticks({"a": rows(st.integers(0, 30))}, max_ticks=5))
def test_iterate_stops_with_its_condition(sequence: list[Tick]) -> None:
    """Collatz steps while some number is over ten: all go on together, and all stop together."""

    def build(circuit: Circuit) -> Stream:
        a = circuit.input("a", x=int, kind="set")
        return circuit.iterate(
            "steps",
            a,
            lambda x: x.map(x=when(X % 2 == 0).then(X // 2).otherwise(3 * X + 1)).distinct(),
            while_=lambda x: x.filter(X > 10),
            max_iterations=300,
        )

    def model(a: set[Row]) -> set[Row]:
        now = {x for (x,) in a}
        while any(x > 10 for x in now):
            now = {x // 2 if x % 2 == 0 else 3 * x + 1 for x in now}
        return {(x,) for x in now}

    follow(build, model, sequence, (Stage.QUERY, Stage.PHYSICAL))


# --- caps and reports ------------------------------------------------------------------------------


def test_iterations_are_counted_by_scope() -> None:
    circuit = Circuit("chain")
    circuit.output("out", alternating(circuit))
    run = circuit.start()
    assert run.iterations() == {"turns": 0, "turns/steps": 0}
    run.step({"a": {(n, n + 1): 1 for n in range(6)}})
    # From 0 to 6 in steps of one: six iterations find something, and one more finds nothing.
    assert run.iterations()["turns/steps"] in (6, 7)
    assert run.iterations()["turns"] in (1, 2)
    run.step({})
    assert run.iterations()["turns"] == 0
    run.step({"b": {(6, 0): 1}})
    again = run.iterations()
    assert again["turns"] in (2, 3)
    run.step({"a": {(100, 101): 1}})
    assert run.iterations()["turns/steps"] <= 2


@pytest.mark.parametrize("deep", [False, True])
def test_the_cap_is_for_each_scope_and_each_of_its_runs(deep: bool) -> None:
    circuit = Circuit("caps")
    a = circuit.input("a", schema=PAIR, kind="set")
    with circuit.fixpoint("wide", max_iterations=6 if not deep else 100) as outer:
        begun = outer.variable("begun", PAIR)
        with outer.fixpoint("deep", max_iterations=6 if deep else 100) as inner:
            made = inner.variable("made", PAIR)
            inner.define(made, (begun + a + (longer(made, a) if deep else made)).distinct())
        reached = inner.leave(made)
        outer.define(begun, reached if deep else longer(reached, a).distinct())
    circuit.output("out", outer.leave(reached))
    run = circuit.start()
    short = {(n, n + 1): 1 for n in range(4)}
    run.step({"a": short})
    before = view(run)
    assert len(before) == 10
    with pytest.raises(IterationLimitError, match=f"scope '{'deep' if deep else 'wide'}' has not converged"):
        run.step({"a": {(n, n + 1): 1 for n in range(4, 30)}})
    assert view(run) == before
    assert run.tick == 1
    # The next tick goes on from there as if nothing had been tried.
    assert deltas_of(run.step({"a": {(0, 1): -1}})) == {"out": {(0, n): -1 for n in range(1, 5)}}
    run.step({"a": {(0, 1): 1}})
    assert view(run) == before
