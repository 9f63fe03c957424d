"""Comparisons within a multi-way join limit the values that its terms propose."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbsp import Circuit, Run, SchemaError, ValueOutOfRangeError, col, from_json, lit, multiway_join
from dbsp.circuit.graph import Graph
from dbsp.circuit.stage import Stage
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.data.type_inference import as_type
from dbsp.expressions import Expression
from dbsp.kernels.prefix_ranges import AT_LEAST, AT_MOST
from dbsp.kernels.tiers import COMPILED, INTERPRETED, choose_tier
from dbsp.operators.joins.delta_term import ExtendPrefix
from dbsp.operators.joins.multiway_join import DeltaMultiwayJoin, MultiwayJoin
from dbsp.operators.joins.value_limits import Bound, Limit, limit_of
from dbsp.operators.linear.filter import Filter
from tests.harness import view
from tests.operators.joins.test_multiway_join import follow_query
from tests.profiles import examples
from tests.random_conjunctions import LARGEST, LOWEST, Conjunction, Function, conjunctions

A, B, C, D = col("a"), col("b"), col("c"), col("d")

COMPARED = {
    "int": ("less", "at most", "above", "at least", "differ", "equal", "less than next", "above previous",
            "positive", "one or more", "below 2", "not 1"),
    "float": ("less", "differ", "equal"),
}  # fmt: skip


@pytest.fixture(params=[INTERPRETED, COMPILED])
def each_tier(request: pytest.FixtureRequest) -> Iterator[None]:
    choose_tier(request.param)
    yield
    choose_tier(COMPILED)


@st.composite
def limited(draw: st.DrawFn) -> Conjunction:
    """A query with several comparisons of its variables."""
    query = draw(conjunctions(kinds=("int", "int", "int", "int?", "float")))
    where = [*query.where]
    for kind, functions in COMPARED.items():
        names = [name for name in query.variables() if name in "abcde" and kind == "int"]
        names += [name for name in query.variables() if name in "fg" and kind == "float"]
        for _ in range(draw(st.integers(1, 3)) if names else 0):
            name = draw(st.sampled_from(functions))
            arity = 1 if name in ("positive", "one or more", "below 2", "not 1") else 2
            where.append(Function(name, tuple(draw(st.sampled_from(names)) for _ in range(arity))))
    return replace(query, where=tuple(where))


@pytest.mark.slow
@settings(max_examples=examples(120))
@given(st.data())
def test_random_comparisons(data: st.DataObject) -> None:
    """Every stage agrees with nested loops, in every tick, also with deletions and weights."""
    query = data.draw(limited())
    follow_query(query, data.draw(query.ticks()))


@pytest.mark.slow
@settings(max_examples=examples(15))
@given(st.data())
def test_random_comparisons_in_the_interpreted_tier(data: st.DataObject) -> None:
    query = data.draw(limited())
    choose_tier(INTERPRETED)
    try:
        follow_query(query, data.draw(query.ticks()), [Stage.PHYSICAL])
    finally:
        choose_tier(COMPILED)


def ordered(where: Sequence[Expression], select: str = "abc", **types: Any) -> Circuit:
    circuit = Circuit("test")
    e = circuit.input("e", **(types or {"x": int, "y": int}))
    atoms = [e("a", "b"), e("b", "c"), e("a", "c")]
    circuit.output("out", multiway_join(atoms, where=where, select=list(select)))
    return circuit


def prefixes(run: Run) -> list[tuple[int, ...]]:
    (terms,) = run.join_terms().values()
    return [tuple(number for _, number in term.levels) for term in terms]


@pytest.mark.usefixtures("each_tier")
def test_extreme_values() -> None:
    numbers = [LOWEST, LOWEST + 1, -1, 0, LARGEST - 1, LARGEST]
    for where, fits in [
        ([A < B, B < C], lambda a, b, c: a < b < c),
        ([A >= B, C > A], lambda a, b, c: b <= a < c),
        ([A == B, B != C], lambda a, b, c: a == b != c),
        ([B > LARGEST], None),
        ([B >= LARGEST, C <= LOWEST], lambda a, b, c: b >= LARGEST and c <= LOWEST),
        ([B < LOWEST], lambda a, b, c: False),
        ([B <= A, C < LARGEST, C > LOWEST], lambda a, b, c: b <= a and LOWEST < c < LARGEST),
    ]:
        fits = fits or (lambda a, b, c: False)
        run = ordered(where).start()
        rows = [(a, b) for a in numbers for b in numbers]
        random.Random(3).shuffle(rows)
        for at in range(0, len(rows), 5):
            run.step({"e": rows[at : at + 5]})
        expected = {(a, b, c): 1 for a in numbers for b in numbers for c in numbers if fits(a, b, c)}
        assert view(run) == expected, where
        run.step({"e": dict.fromkeys(rows[:30], -1)})
        run.step({"e": dict.fromkeys(rows[30:], -1)})
        assert view(run) == {}


SUMS: list[tuple[Expression, Callable[[int, int, int], bool]]] = [
    (C < A + 2, lambda a, b, c: c < a + 2),
    (A + 2 > C, lambda a, b, c: c < a + 2),
    (C <= 1 + A, lambda a, b, c: c <= a + 1),
    (C > A - 1, lambda a, b, c: c > a - 1),
    (C >= A + 1, lambda a, b, c: c >= a + 1),
    (C < A - 1, lambda a, b, c: c < a - 1),
    (C == B + 1, lambda a, b, c: c == b + 1),
    (C != B - 1, lambda a, b, c: c != b - 1),
]


@pytest.mark.parametrize(("condition", "fits"), SUMS, ids=[repr(condition) for condition, _ in SUMS])
def test_sums(condition: Expression, fits: Callable[[int, int, int], bool]) -> None:
    rng = random.Random(1)
    runs = [ordered([condition]).start(stage) for stage in Stage]
    edges: dict[tuple[int, int], int] = {}
    for _ in range(40):
        rows = {
            (rng.randrange(5), rng.randrange(5)): rng.choice([1, 1, -1, 2]) for _ in range(rng.randrange(4))
        }
        for row, weight in rows.items():
            edges[row] = edges.get(row, 0) + weight
        for run in runs:
            run.step({"e": rows})
        expected = {}
        for (a, b), w in edges.items():
            for (b_, c), v in edges.items():
                if b == b_ and fits(a, b, c) and w * v * edges.get((a, c), 0):
                    expected[a, b, c] = w * v * edges[a, c]
        assert all(view(run) == expected for run in runs)


@pytest.mark.usefixtures("each_tier")
@pytest.mark.parametrize(
    "condition",
    [C < A + 2, C > A + 2, C == A + 2, C != A + 2, A + 2 < C, C <= A + 2],
    ids=repr,
)
@pytest.mark.parametrize("stage", Stage)
@pytest.mark.parametrize("end", [5, LOWEST + 1])  # LARGEST + 2 modulo 2^64 is LOWEST + 1
def test_a_sum_that_overflows_is_an_error_of_its_row(condition: Expression, stage: Stage, end: int) -> None:
    edges = ((LARGEST, 1), (1, end), (LARGEST, end))
    for row in edges:  # the last change completes the row
        run = ordered([condition]).start(stage)
        run.step({"e": {edge: 1 for edge in edges if edge != row}})
        with pytest.raises(ValueOutOfRangeError, match="does not fit in 64 bits"):
            run.step({"e": {row: 1}})
    # Rows that cancel between the terms are not evaluated.
    run = ordered([condition]).start(stage)
    run.step({"e": {(LARGEST, 1): 1, (1, end): 1}})
    run.step({"e": {(LARGEST, 1): -1, (LARGEST, end): 1}})
    assert view(run) == {}


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (dt.date, [dt.date(1960, 1, 1), dt.date(2020, 2, 29), dt.date(2020, 3, 1)]),
        (dt.datetime, [dt.datetime(1960, 1, 1, 3), dt.datetime(2020, 2, 2), dt.datetime(2020, 2, 2, 1)]),
        (float, [-1.5, 0.0, 2.5]),
        ("decimal(18, 2)", [Decimal("-1.50"), Decimal("0.25"), Decimal("3.00")]),
        (bool, [False, True]),
        (str, ["c", "b", "a"]),
        (int | None, [None, 2, 1]),
    ],
    ids=str,
)
def test_types(type_: Any, values: list[Any]) -> None:
    circuits = [ordered(where, x=type_, y=type_) for where in ([A < B, B <= C], [lit(values[1]) > A, B != A])]
    for circuit, fits in zip(
        circuits,
        (
            lambda a, b, c: None not in (a, b, c) and a < b <= c,
            lambda a, b, c: None not in (a, b, values[1]) and a < values[1] and a != b,
        ),
        strict=True,
    ):
        run = circuit.start()
        for a in values:
            run.step({"e": [(a, b) for b in values]})
        expected = {(a, b, c): 1 for a in values for b in values for c in values if fits(a, b, c)}
        assert expected
        assert view(run) == expected


def test_a_change_proposes_no_value_outside_the_limits() -> None:
    """A triangle of two hubs with 200 common neighbours, of which 3 are between the hubs."""
    between = [400, 401, 402]
    nodes = [*range(100), *between, *range(700, 800)]
    hubs = 399, 403
    loads = [(hubs[0], node) for node in nodes] + [(node, hubs[1]) for node in nodes]
    for where, most in [([A < B, B < C], 3), ([B >= A + 2, B <= C - 2], 2), ([B == 401], 1), ([], 203)]:
        run = ordered(where).start()
        run.step({"e": loads})
        before = prefixes(run)
        run.step({"e": [hubs]})
        assert prefixes(run)[2][0] - before[2][0] == (1 if most == 2 else most)
        assert len(view(run)) == (1 if most == 2 else most)


def test_deeper_levels_are_not_reached() -> None:
    circuit = Circuit("test")
    e = circuit.input("e", x=int, y=int)
    atoms = [e("a", "b"), e("b", "c"), e("c", "d"), e("a", "d")]
    orders = [("c", "d"), ("a", "d"), ("a", "b"), ("b", "c")]
    circuit.output("out", multiway_join(atoms, where=[A < B, B < C, C < D], orders=orders))
    run = circuit.start()
    run.step({"e": [(0, b) for b in range(50)] + [(b, c) for b in range(50) for c in range(50) if c < b]})
    run.step({"e": [(0, 100)]})
    assert view(run) == {}
    # No edge of the second part leads from b to a larger c.
    assert prefixes(run)[3][1] <= 1


def test_a_limit_is_no_filter_after_the_join() -> None:
    circuit = ordered([(A < B) & (B < C), C >= 3]).circuit(Stage.PHYSICAL)
    assert not any(isinstance(node.operator, Filter) for node in circuit.nodes)
    # A sum may fail, so a filter evaluates it on the values that the limit leaves.
    circuit = ordered([C < A + 50]).circuit(Stage.PHYSICAL)
    assert sum(isinstance(node.operator, Filter) for node in circuit.nodes) == 1
    (join,) = (node.operator for node in circuit.nodes if isinstance(node.operator, DeltaMultiwayJoin))
    assert [condition.key for condition in join.join.narrowing] == [(C < A + 50).key]
    assert join.label == 'MultiwayJoin (a, b), (b, c), (a, c) where col("c") < col("a") + 50 -> a, b, c'


def test_narrowing_is_a_part_of_the_circuit_file() -> None:
    for stage in (Stage.INCREMENTAL, Stage.PHYSICAL):
        graph: Graph = ordered([C < A + 2, A < B]).circuit(stage)
        again = from_json(graph.to_json())
        assert again.content_hash() == graph.content_hash()
        assert graph.content_hash() != ordered([C < A + 3, A < B]).circuit(stage).content_hash()
        run = Run(again)
        run.step({"e": [(1, 2), (2, 9), (1, 9), (0, 1), (0, 2)]})
        assert view(run) == {}
        run.step({"e": [(1, 1)]})
        assert view(run) == {(0, 1, 1): 1}


@pytest.mark.parametrize("condition", [A + B < C, A < A, A.is_null(), (A < B) | (B < C), lit(1) < 2])
def test_other_conditions_cannot_narrow(condition: Expression) -> None:
    schema = Schema(("x", "y"), (as_type(int), as_type(int)))
    join = MultiwayJoin((("a", "b"), ("b", "c")), ("a",), narrowing=(condition,))
    with pytest.raises(SchemaError, match="expected a condition that limits the values of a variable, got"):
        join.schema(schema, schema)


def test_equal_joins_have_equal_narrowing() -> None:
    atoms = (("a", "b"), ("b", "c"))
    join = MultiwayJoin(atoms, ("a",), narrowing=(A < B + 1,))
    assert join == MultiwayJoin(atoms, ("a",), narrowing=(A < B + 1,))
    assert join != MultiwayJoin(atoms, ("a",), narrowing=(A < B + 2,))


BINDINGS = Schema(tuple("abcdst"), tuple(map(as_type, (int, int, int, int | None, str, dt.date))))


@pytest.mark.parametrize(
    ("condition", "limit"),
    [
        (A < B, Limit("a", "lt", "b")),
        (lit(5) <= A, ("a", "ge", 5)),
        (A != 5, ("a", "ne", 5)),
        (A < B + 3, Limit("a", "lt", "b", 3)),
        (B - 3 == A, Limit("a", "eq", "b", -3)),
        (A < D, None),  # None in d
        (col("s") < "x", None),  # codes of texts are in no order
        (col("t") < lit(dt.date(2020, 1, 1)), ("t", "lt", dt.date(2020, 1, 1))),
        (A < 2.5, None),
        (A < B + 2**62, None),
        (A + 1 < B + 1, None),
        (A < A, None),
    ],
    ids=lambda value: repr(value) if isinstance(value, Expression) else "",
)
def test_which_conditions_limit(condition: Expression, limit: Any) -> None:
    found = limit_of(condition, BINDINGS)
    if isinstance(limit, tuple):
        assert found is not None and (found.variable, found.function, found.other.value) == limit  # type: ignore[union-attr]
    else:
        assert found == limit


@pytest.mark.parametrize("kind", ["int", "date", "float", "time"])
def test_a_variable_that_some_atoms_allow_none_keeps_its_limits(kind: str) -> None:
    join = MultiwayJoin((("v", "k"), ("v", "j"), ("k", "w")), ("v", "w"), conditions=(col("v") < col("w"),))
    optional, required = Schema.of(x=f"{kind}?", y=int), Schema.of(x=kind, y=int)
    last = Schema.of(y=int, x=kind)
    assert join.null_mismatch(optional, required, last) == {"v"}
    terms = list(join.terms((optional, required, last)))
    assert terms == list(join.terms((required, required, last)))
    assert any(isinstance(action, ExtendPrefix) and any(action.bounds) for action in terms[0])


def test_the_bounds_of_both_variables() -> None:
    limit = Limit("a", "lt", "b", 3)
    assert limit.bounds("a") == (Bound(AT_MOST, "b", 3, True),)
    assert limit.bounds("b") == (Bound(AT_LEAST, "a", -3, True),)
    # This bound would exclude values b for which b - 3 overflows.
    assert Limit("a", "lt", "b", -3).bounds("b") == ()


def test_a_limit_holds_where_its_sum_overflows() -> None:
    rows = np.array([[0, LARGEST], [0, LOWEST], [0, 0], [9, 0]])
    interner = Interner()
    above = Limit("a", "gt", "b", 3)
    assert above.holds(rows, "ab", interner).tolist() == [True, True, False, True]
    below = Limit("a", "gt", "b", -3)
    assert below.holds(rows, "ab", interner).tolist() == [False, True, True, True]
    assert Limit("a", "ge", lit(9)).holds(rows, "ab", interner).tolist() == [False, False, False, True]  # type: ignore[arg-type]
