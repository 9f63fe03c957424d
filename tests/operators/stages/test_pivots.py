"""Recursive scopes on shards: which columns are pivots, and agreement with one process."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dbsp
from dbsp import ArgumentError, Circuit, Run, Stream, col
from dbsp.circuit.graph import Graph
from dbsp.operators.ports.constant import Constant
from dbsp.operators.recursion.fixpoint import Fixpoint
from dbsp.operators.shards.exchange import Broadcast, Exchange, Gather
from dbsp.operators.stages.passes.distribute import distribute
from dbsp.operators.stages.placing import placed_scopes
from tests.operators.recursion.nested_scopes import PAIR, alternating, longer
from tests.profiles import examples
from tests.random_datalog import INPUTS, programs
from tests.shards.compared_shards import ComparedShards
from tests.shards.thread_link import ThreadShards

HEADER = """
.decl edge(x: number, y: number)
.decl shut(x: number)
.decl tall(g: number, x: number, y: number)
.decl path(x: number, y: number)
.input edge, shut, tall
.output path
"""
BREAKING = {
    "both linear": (65, 27),
    "non-linear": (27, 27),
    "same generation": (39, 39),
    "swapped": (27, 27),
}
"""By column of path, the position of the rule that does not keep it."""
DECLARATIONS = {
    "odd": ".decl odd(x: number, y: number)\n.decl even(x: number, y: number)\n.output odd, even\n",
    "walk": ".decl walk(g: number, x: number, y: number)\n.output walk\n",
}
PIVOTED = {
    "left linear": (
        "path(x, y) :- edge(x, y). path(x, z) :- path(x, y), edge(y, z).",
        "path is divided with no exchange inside, because every recursive rule keeps these columns: "
        "path by its column x; on every shard: edge; not path's column y, which ",
    ),
    "transitive": (
        "path(x, y) :- edge(x, y). path(x, z) :- path(x, y), path(y, z).",
        "path by its column x; on every shard: edge",
    ),
    "right linear": (
        "path(x, y) :- edge(x, y). path(x, z) :- edge(x, y), path(y, z).",
        "path by its column y; on every shard: edge",
    ),
    "three atoms": (
        "path(x, y) :- edge(x, y). path(x, w) :- path(x, y), edge(y, z), edge(z, w), y != w.",
        "path by its column x; on every shard: ",
    ),
    "negation inside": (
        "path(x, y) :- edge(x, y), !shut(x). path(x, z) :- path(x, y), edge(y, z), !shut(z).",
        "path by its column x; on every shard: ",
    ),
    "a column of all atoms": (
        "walk(g, x, y) :- tall(g, x, y). walk(g, x, z) :- walk(g, x, y), walk(g, y, z). "
        "path(x, y) :- walk(_, x, y).",
        "walk is divided with no exchange inside, because every recursive rule keeps these columns: "
        "walk by its column g",
    ),
    "mutual recursion": (
        "odd(x, y) :- edge(x, y). odd(z, x) :- even(x, y), edge(y, z). even(x, z) :- odd(y, x), edge(y, z). "
        "path(x, y) :- odd(x, y), even(x, y).",
        "odd by its column y, even by its column x; on every shard: edge",
    ),
}
GATHERED = {
    "both linear": "path(x, y) :- edge(x, y). path(x, z) :- path(x, y), edge(y, z). "
    "path(x, z) :- edge(x, y), path(y, z).",
    "non-linear": "path(x, y) :- edge(x, y). path(x, z) :- path(x, y), path(y, z), x != z.",
    "same generation": "path(x, y) :- edge(p, x), edge(p, y). "
    "path(x, y) :- edge(a, x), path(a, b), edge(b, y).",
    "swapped": "path(x, y) :- edge(x, y). path(y, z) :- path(x, y), edge(x, z).",
}


def compiled(rules: str, mode: Any = "auto", strategy: Any = "binary") -> Graph:
    declarations = "".join(text for name, text in DECLARATIONS.items() if f"{name}(" in rules)
    return dbsp.compile(HEADER + declarations + rules, strategy, recursion=mode).circuit("physical")


def exchanges_inside(graph: Graph) -> list[str]:
    return [
        inside.label
        for node in graph.nodes
        for body in node.operator.children()
        for inside in body.walk()
        if isinstance(inside.operator, Exchange | Gather | Broadcast)
    ]


class ScopeShards(ComparedShards):
    """A run of a physical circuit beside its distributed form, with a choice for the scopes."""

    def __init__(self, physical: Graph, shards: int, scopes: str = "gather") -> None:
        self.reasons: list[str] = []
        self.one = Run(physical)
        self.graph = distribute(physical, self.reasons, scopes=scopes, checked=True)
        self.many = ThreadShards(self.graph, shards, arrival=random.Random(shards))

    def check_modes(self) -> None:
        """Assert that every shard evaluates the scopes as the one process does."""
        expected = list(self.one.evaluations().values())
        assert expected
        assert [list(run.evaluations().values()) for run in self.many.runs] == [expected] * len(
            self.many.runs
        )


def follow(compared: ScopeShards, seed: int, ticks: int = 6, size: int = 9) -> ScopeShards:
    """Apply random ticks, the first three without retractions."""
    draw = random.Random(seed)
    for number in range(ticks):
        signs = [1] if number < 3 else [1, -1]
        tick: dict[str, dict[Any, int]] = {}
        for name, schema in compared.one.inputs.items():
            rows = [tuple(draw.randrange(8) for _ in schema.names) for _ in range(size)]
            tick[name] = {row: draw.choice(signs) for row in (rows[:1] if name == "shut" else rows)}
        compared.tick(tick)
    return compared


# --- the choice -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PIVOTED)
@pytest.mark.parametrize("strategy", ["binary", "wcoj"])
def test_scopes_with_pivots(name: str, strategy: str) -> None:
    rules, reason = PIVOTED[name]
    compared = ScopeShards(compiled(rules, strategy=strategy), 3)
    assert any(reason in line for line in compared.reasons), compared.reasons
    assert not exchanges_inside(compared.graph)
    follow(compared, 1)
    assert sum(bool(run.view("path")) for run in compared.many.runs) > 1, "the rows are on several shards"


@pytest.mark.parametrize("name", GATHERED)
@pytest.mark.parametrize("scopes", ["gather", "exchange"])
@pytest.mark.parametrize("strategy", ["binary", "wcoj"])
def test_scopes_without_pivots(name: str, scopes: str, strategy: str) -> None:
    compared = ScopeShards(compiled(GATHERED[name], strategy=strategy), 3, scopes)
    outcome = {
        "gather": "it runs on the first shard",
        "exchange": "it runs in supersteps, with exchanges inside",
    }
    (line,) = (line for line in compared.reasons if line.startswith("path has no pivot"))
    reason, _, end = line.rpartition("; ")
    assert end == outcome[scopes]
    start, breaking = reason.split(": ", 1)
    assert start == "path has no pivot, because no column of path passes unchanged through all rules"
    for column, place in zip("xy", BREAKING[name], strict=True):
        assert re.search(rf"not path's column {column}, which [^;]*? \(<program>:8:{place}\) does", breaking)
    assert bool(exchanges_inside(compared.graph)) == (scopes == "exchange")
    follow(compared, 2)
    if scopes == "exchange":
        compared.check_modes()


def test_the_reasons_name_the_rule_that_does_not_keep_a_column() -> None:
    reasons: list[str] = []
    distribute(compiled(PIVOTED["left linear"][0]), reasons)
    assert reasons[-1].endswith("not path's column y, which Join -> x, z (<program>:8:27) does not keep")
    rules = "path(x, y) :- edge(x, y). path(x, y) :- path(x, y), tall(x, y, _)."
    reasons = []
    distribute(compiled(rules), reasons)
    other = "not path's column y, since no fewer streams would be on every shard"
    assert any(line.endswith(f"path by its column x; {other}") for line in reasons), reasons


def test_a_stream_enters_twice_if_rules_read_it_in_two_placements() -> None:
    graph = distribute(compiled(PIVOTED["left linear"][0]))
    (fixpoint,) = (node for node in graph.nodes if isinstance(node.operator, Fixpoint))
    broadcast, dealt = (stream.node for stream in fixpoint.inputs)
    assert isinstance(broadcast.inputs[0].node.operator, Broadcast)
    assert dealt.label == "Input edge, dealt by x", "the input is dealt as the scope wants it"


def test_a_pivot_needs_few_messages() -> None:
    compared = ScopeShards(compiled(PIVOTED["left linear"][0]), 2)
    compared.tick({"edge": [(i, i + 1) for i in range(40)]})
    assert compared.one.iterations() == {"path": 41}
    assert compared.many.links[0].calls == 2, "one broadcast, and the commit"


def test_unknown_choices_are_refused() -> None:
    with pytest.raises(ArgumentError, match="scopes= expects one of 'gather', 'exchange', got 'spread'"):
        distribute(Graph("empty"), scopes="spread")


# --- circuits -------------------------------------------------------------------------------------


def shortest(circuit: Circuit) -> Stream:
    """The length of the shortest path between two nodes: a minimum in the recursion."""
    edge = circuit.input("edge", x=int, y=int, w=int, kind="set").filter(col("w") > 0)
    with circuit.fixpoint("distances", max_iterations=500) as scope:
        far = scope.variable("far", {"x": int, "y": int, "w": int})
        step = far.join(edge, on=[("y", "x")], select=["x", "y_right", "w", "w_right"])
        ways = step.map(x=col("x"), y=col("y_right"), w=col("w") + col("w_right"))
        scope.define(far, (edge + ways).group_by("x", "y").agg(w=col("w").min()))
    return scope.leave(far)


def from_constants(circuit: Circuit) -> Stream:
    edge = circuit.input("edge", schema=PAIR, kind="set")
    with circuit.fixpoint("path") as scope:
        path = scope.variable("path", PAIR)
        pairs = tuple(((n, n), 1) for n in range(4))
        start = scope.graph.add_source(Constant(pairs, path.schema))
        scope.define(path, (start + longer(path, edge)).distinct())
    return scope.leave(path)


def nested(circuit: Circuit) -> Stream:
    return alternating(circuit)


@pytest.mark.parametrize("build", [shortest, from_constants, nested])
@pytest.mark.parametrize("shards", [1, 2, 5])
@pytest.mark.parametrize("pivots", [True, False])
def test_circuits(
    build: Callable[[Circuit], Stream], shards: int, pivots: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not pivots:
        monkeypatch.setattr(placed_scopes, "pivoted_scope", lambda body: None)
    circuit = Circuit("test")
    circuit.output("out", build(circuit))
    compared = ScopeShards(circuit.circuit("physical"), shards, "exchange")
    assert bool(exchanges_inside(compared.graph)) == (not pivots)
    follow(compared, 3)
    if not pivots:
        compared.check_modes()


# --- random programs ------------------------------------------------------------------------------


def sets(arity: int) -> st.SearchStrategy[dict[tuple[int, ...], int]]:
    return st.dictionaries(st.tuples(*[st.integers(0, 3)] * arity), st.sampled_from([1, 1, -1]), max_size=10)


TICKS = st.lists(
    st.fixed_dictionaries({}, optional={name: sets(arity) for name, arity in INPUTS.items()}),
    min_size=2,
    max_size=5,
)


@settings(max_examples=examples(12), suppress_health_check=[HealthCheck.too_slow])
@given(
    programs() | programs(cyclic=True) | programs(kinds=True),
    st.sampled_from(["auto", "binary", "wcoj"]),
    st.sampled_from(["auto", "incremental", "insert-only"]),
    TICKS,
    st.sampled_from([2, 3]),
    st.sampled_from(["gather", "exchange"]),
)
def test_random_programs(
    text: str, strategy: Any, mode: Any, ticks: list[Any], shards: int, scopes: str
) -> None:
    program = dbsp.compile(text, strategy, recursion=mode)
    compared = ScopeShards(program.circuit("physical"), shards, scopes)
    for tick in [program.facts, *ticks]:
        compared.tick(tick)


ATOMS = ["edge({}, {})", "path({}, {})", "tall({}, {}, {})"]


@st.composite
def linear_rules(draw: st.DrawFn) -> str:
    """Recursive rules of one relation, many of which keep a column."""
    rules = ["path(x, y) :- edge(x, y)."]
    for _ in range(draw(st.integers(1, 2))):
        head = draw(st.sampled_from(["x, z", "x, y", "z, x", "x, x"]))
        body = draw(st.sampled_from(["path(x, y)", "path(x, y), edge(x, _)", "path(x, y), path(x, w)"]))
        other = draw(
            st.sampled_from(["edge(y, z)", "tall(y, z, x)", "edge(z, y), !shut(y)", "tall(x, y, z)"])
        )
        rules.append(f"path({head}) :- {body}, {other}.")
    return " ".join(rules)


@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.too_slow])
@given(
    linear_rules(),
    st.sampled_from(["auto", "incremental", "insert-only"]),
    st.sampled_from(["binary", "wcoj"]),
    st.integers(0, 99),
    st.sampled_from([2, 3]),
)
def test_rules_that_keep_columns(rules: str, mode: Any, strategy: str, seed: int, shards: int) -> None:
    follow(ScopeShards(compiled(rules, mode, strategy), shards, "exchange"), seed)
