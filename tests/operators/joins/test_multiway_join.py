"""Multi-way join: random conjunctive queries against nested loops, in every tick and stage."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbsp import (
    Circuit,
    CircuitError,
    EvaluationError,
    Run,
    SchemaError,
    Stream,
    WeightOverflowError,
    col,
    lit,
    multiway_join,
)
from dbsp.circuit.stage import Stage
from dbsp.data.schema import Schema
from dbsp.data.types import INT
from dbsp.operators.joins.multiway_join import MultiwayJoin
from tests.harness import view
from tests.profiles import examples
from tests.random_conjunctions import Conjunction, Function, canonical, conjunctions
from tests.reference import Z, minus
from tests.strategies import Tick


def started(query: Conjunction, stage: Stage = Stage.PHYSICAL) -> Run:
    circuit = Circuit("test")
    streams = {name: circuit.input(name, schema=query.schema(name)) for name in query.relations}
    circuit.output("out", query.joined(streams))
    return circuit.start(stage)


def follow_query(
    query: Conjunction, sequence: Sequence[Tick], stages: Sequence[Stage] = tuple(Stage)
) -> None:
    """Views and deltas of all stages agree with nested loops over the inputs in every tick."""
    runs = {stage: started(query, stage) for stage in stages}
    inputs: dict[str, Z] = {name: {} for name in query.relations}
    before: Z = {}
    for number, tick in enumerate(sequence, 1):
        inputs = {name: minus(rows, minus({}, tick.get(name, {}))) for name, rows in inputs.items()}
        after = query.evaluate(inputs)
        for stage, run in runs.items():
            told = f"{stage}, tick {number} of {sequence}"
            delta = canonical(run.step(tick)["out"].to_dict())
            assert canonical(view(run)) == after, told
            assert delta == minus(after, before), told
        before = after


@pytest.mark.slow
@settings(max_examples=examples(300))
@given(st.data())
def test_random_queries(data: st.DataObject) -> None:
    query = data.draw(conjunctions())
    follow_query(query, data.draw(query.ticks()))


@pytest.mark.slow
@settings(max_examples=examples(150))
@given(st.data())
def test_random_queries_over_ints_alone(data: st.DataObject) -> None:
    """Values match more often than among values of all types."""
    query = data.draw(conjunctions(("int",)))
    follow_query(query, data.draw(query.ticks()))


def test_answers_belong_to_the_inputs_of_the_call() -> None:
    """A join keeps the results for the last inputs, and other inputs have others."""
    join = MultiwayJoin((("x", "y"), ("y", "z")), ("x", "z"), conditions=(col("y") < 5,))
    given = [Schema.of(a=int, b=b) for b in (int, int | None, str)]
    pairs = [(first, second) for first in given[:2] for second in (Schema.of(b=int, c=int), given[0])]
    for first, second in [*pairs, *reversed(pairs)]:
        fresh = replace(join)
        inputs = [first, second]
        assert join.bindings(*inputs) == fresh._bindings(*inputs)
        assert join.null_mismatch(*inputs) == fresh._null_mismatch(*inputs)
        assert join.null_mismatch(*inputs) == ({"y"} if first is given[1] else set())
        assert join.terms(inputs) == fresh._terms(*inputs)
    with pytest.raises(SchemaError, match="variable 'y' has type str in one place and int in another"):
        join.bindings(given[2], given[0])
    assert join.bindings(given[0], given[0]) == Schema.of(x=int, y=int, z=int)


OPTIONAL: dict[str, tuple[Any, ...]] = {
    "str": ("a", "m"),
    "bytes": (b"a", b"m"),
    "bool": (False, True),
    "float": (-1.0, 2.0),
    "date": (date(1970, 1, 1), date(2024, 2, 29)),
    "time": (time(1), time(23, 59)),
    "timestamp": (datetime(1970, 1, 1), datetime(2024, 2, 29, 12)),
    "duration": (timedelta(0), timedelta(days=3)),
    "decimal(18, 2)": (Decimal("-0.01"), Decimal("12.30")),
    "int": (0, 7),
}


@pytest.mark.parametrize("stage", Stage)
@pytest.mark.parametrize("kind", OPTIONAL)
def test_none_where_only_some_atoms_are_optional(kind: str, stage: Stage) -> None:
    """None matches nothing in the other atoms, so no condition sees it."""
    circuit = Circuit("test")
    first, last = OPTIONAL[kind]
    a, b = circuit.input("a", x=f"{kind}?"), circuit.input("b", x=kind)
    for name, atoms in (("ab", [a("x"), b("x")]), ("ba", [b("x"), a("x")])):
        circuit.output(name, multiway_join(atoms, where=col("x") < last))
        circuit.output(f"{name} again", multiway_join(atoms, where=col("x") != last, let={"y": col("x")}))
    run = circuit.start(stage)
    run.step({"a": [(None,), (first,)]})
    run.step({"b": [(first,), (last,)]})
    run.step({"a": {(last,): 1, (None,): 1}})
    assert view(run, "ab") == view(run, "ba") == {(first,): 1}
    assert view(run, "ab again") == view(run, "ba again") == {(first, first): 1}


@given(st.data())
def test_extreme_values(data: st.DataObject) -> None:
    query = data.draw(conjunctions(("int", "int", "int?"), extremes=True))
    follow_query(query, data.draw(query.ticks(extremes=True)))


@pytest.mark.parametrize("stage", list(Stage))
def test_the_lowest_int_as_a_constant_is_not_none(stage: Stage) -> None:
    circuit = Circuit("test")
    a = circuit.input("a", x=int, y=int | None)
    b = circuit.input("b", x=int, y=int)
    circuit.output("optional", multiway_join([a("v", lit(-(2**63)))]))
    circuit.output("first", multiway_join([a("v", lit(-(2**63))), b("v", "w")]))
    circuit.output("last", multiway_join([b("v", "w"), a("v", lit(-(2**63)))]))
    circuit.output("plain", multiway_join([b("v", lit(-(2**63)))]))
    run = circuit.start(stage)
    run.step({"a": {(1, None): 1, (1, 5): 1}, "b": {(1, -(2**63)): 1}})
    assert view(run, "optional") == view(run, "first") == view(run, "last") == {}
    assert view(run, "plain") == {(1,): 1}


# --- functions ------------------------------------------------------------------------------------


def two(circuit: Circuit) -> tuple[Stream, Stream]:
    return circuit.input("e", x=int, y=int), circuit.input("f", x=int, y=int)


@pytest.mark.parametrize("stage", list(Stage))
def test_an_extension_of_an_extension_looks_up_another_atom(stage: Stage) -> None:
    circuit = Circuit("test")
    e, f = two(circuit)
    let = {"c": col("w") + 1, "w": col("a") + 1}
    circuit.output("out", multiway_join([e("a", "b"), f("c", "d")], select=["a", "w", "d"], let=let))
    run = circuit.start(stage)
    assert run.step({"e": {(1, 2): 1}})["out"].to_dict() == {}
    assert run.step({"f": {(3, 4): 2, (1, 5): 1}})["out"].to_dict() == {(1, 2, 4): 2}
    assert run.step({"e": {(1, 7): -2}})["out"].to_dict() == {(1, 2, 4): -4}


@pytest.mark.parametrize("stage", list(Stage))
def test_partial_functions_on_rows_that_cancel_or_are_rejected(stage: Stage) -> None:
    """The deltas of e and f match in one tick and cancel; a condition rejects the other row."""
    circuit = Circuit("test")
    e, f = two(circuit)
    let = {"z": 10 // col("a"), "zz": col("z") + 1}
    atoms = [e("a", "b"), f("b", "c")]
    joined = multiway_join(atoms, ["a", "zz"], let=let, where=[(col("c") == 0) | (col("a") != 0)])
    circuit.output("out", joined)
    circuit.output("tested", multiway_join(atoms, ["a"], where=(10 // col("a") > 2) & (col("c") == 0)))
    run = circuit.start(stage)
    run.step({"f": {(2, 0): 1, (3, 1): 1}})
    result = run.step({"e": {(0, 2): 1, (0, 3): 1, (5, 3): 1}, "f": {(2, 0): -1}})
    assert (result["out"].to_dict(), result["tested"].to_dict()) == ({(5, 3): 1}, {})
    before = {name: view(run, name) for name in run.outputs}
    with pytest.raises(EvaluationError, match=r"at test_multiway_join\.py:\d+: .*division by zero"):
        run.step({"f": {(2, 0): 1}})
    assert {name: view(run, name) for name in run.outputs} == before and run.tick == 2
    assert run.step({"f": {(3, 0): 1}, "e": {(0, 3): -1}})["tested"].to_dict() == {}
    assert view(run) == {(5, 3): 2}


# --- errors ---------------------------------------------------------------------------------------


def wrong(build: Callable[[Stream, Stream], object], error: str) -> None:
    circuit = Circuit("test")
    e, s = circuit.input("e", x=int, y=int), circuit.input("s", s=str)
    nodes = len(circuit.nodes)
    with pytest.raises(SchemaError, match=rf"^{error}( \[[a-z-]+\])?$"):
        build(e, s)
    assert len(circuit.nodes) == nodes


HERE = r"MultiwayJoin at test_multiway_join\.py:\d+: "


@pytest.mark.parametrize(
    ("build", "error"),
    [
        (
            lambda e, s: e("a"),
            r"an atom of \(x: int, y: int\) needs one term per column, got 1 \[wrong-arity\]",
        ),
        (
            lambda e, s: e("a", col("b")),
            r'a term of an atom is a variable or a constant, got col\("b"\); name .* \[invalid-expression\]',
        ),
        (
            lambda e, s: multiway_join([e("a", "b"), s("b")]),
            "variable 'b' has type int in one place and str in another",
        ),
        (
            lambda e, s: multiway_join([e("a", "b"), s("t")], let={"t": col("a") + 1}),
            "variable 't' has type str in one place and int in another",
        ),
        (
            lambda e, s: multiway_join([e("a", lit("w"))]),
            "expected a constant of type int for column 'y', got 'w'",
        ),
        (lambda e, s: multiway_join([s(5)]), "expected a constant of type str for column 's', got 5"),
        (
            lambda e, s: multiway_join([e("a", "b")], where=col("q") > 1),
            r"""col\("q"\) > 1: unknown column 'q'; the columns are \(a: int, b: int\)""",
        ),
        (
            lambda e, s: multiway_join([e("a", "b")], let={"z": col("q") + 1}),
            r"""'z = col\("q"\) \+ 1' needs q, which no atom binds""",
        ),
        (
            lambda e, s: multiway_join([e("a", "b")], let={"z": col("z") + 1}),
            r"""'z = col\("z"\) \+ 1' needs z, which no atom binds""",
        ),
        (
            lambda e, s: multiway_join([e("a", "b")], select=["q"]),
            r"unknown column 'q'; the columns are \(a: int, b: int\)",
        ),
        (lambda e, s: multiway_join([e("a", "b")], select=["a", "a"]), r"column 'a' occurs twice in .*"),
        (
            lambda e, s: multiway_join([e("a", "b")], where=col("a") + 1),
            r"""expected a condition, got col\("a"\) \+ 1 of type int""",
        ),
        (
            lambda e, s: multiway_join([e("a", "b")], where=[col("a") > 1, "b"]),
            r"where= expects conditions such as .*, got 'b' \[invalid-expression\]",
        ),
        (
            lambda e, s: multiway_join([e("a", "b"), e("b", "c")], orders=[["c"]]),
            "expected 2 orders of variables, one for each atom, got 1",
        ),
        (
            lambda e, s: multiway_join([e("a", "b"), e("b", "c")], orders=[["c"], []]),
            r"expected an order that names each of \(a\) once, got \(\)",
        ),
        (
            lambda e, s: multiway_join([e("a", "b"), e("b", "c")], orders=[["c", "c"], ["a"]]),
            r"expected an order that names each of \(c\) once, got \(c, c\)",
        ),
        (
            lambda e, s: multiway_join([e("a", "b"), e("b", "c")], orders=[["c", "b"], ["a"]]),
            r"expected an order that names each of \(c\) once, got \(c, b\)",
        ),
        (
            lambda e, s: multiway_join(
                [e("a", "b"), e("c", "d")],
                let={"c": col("d") + 1, "d": col("c") - 1},
                orders=[[], ["a", "b"]],
            ),
            r"expected an order that names each of \(c, d\) once, got \(\)",
        ),
    ],
)
def test_errors(build: Callable[[Stream, Stream], object], error: str) -> None:
    wrong(build, HERE + error)


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ([], "expected one stream for each of the 1 atoms, and at least one, got 0 [wrong-arity]"),
        (["x"], "expected 1 terms for the columns (x: int), got 2 [wrong-arity]"),
    ],
)
def test_an_operator_whose_atoms_do_not_fit_its_inputs(columns: list[str], error: str) -> None:
    join = MultiwayJoin((("a", "b"),), ("a",))
    with pytest.raises(SchemaError) as refused:
        join.schema(*(Schema((name,), (INT,)) for name in columns))
    assert str(refused.value) == error


def test_no_atoms() -> None:
    wrong(
        lambda e, s: multiway_join([]),
        r"a multi-way join needs at least one atom, such as edge\('a', 'b'\) \[.*\]",
    )
    wrong(lambda e, s: multiway_join([e]), "a multi-way join expects a list of atoms, .*; got .*")  # type: ignore[list-item]
    wrong(
        lambda e, s: multiway_join([e("a", "b"), "b"]),
        "a multi-way join expects a list of atoms, .*; got 'b' .*",
    )  # type: ignore[list-item]


def test_an_order_may_omit_computed_variables() -> None:
    query = Conjunction(
        {"p": ("int", "int"), "q": ("int", "int")},
        (("p", ("a", "b")), ("q", ("c", "d"))),
        {"c": Function("next", ("b",))},
        (),
        ("a", "d"),
    )
    sequence: list[Tick] = [
        {"p": {(1, 2): 1, (2, 2): -1, (3, 4): 1}},
        {"q": {(3, 7): 2, (4, 8): 1}},
        {"p": {(1, 2): 1}, "q": {(3, 7): -2, (5, 9): 1}},
    ]
    for orders_ in [(("d",), ("b", "a")), (("d", "c"), ("a", "b")), (("c", "d"), ("b", "a"))]:
        follow_query(replace(query, orders=orders_), sequence)


def test_streams_of_two_circuits() -> None:
    one, other = Circuit("one"), Circuit("other")
    with pytest.raises(
        CircuitError, match=f"^{HERE}the inputs belong to different circuits, 'other' and 'one'"
    ):
        multiway_join([one.input("e", x=int)("a"), other.input("e", x=int)("a")])


TRIANGLE = Conjunction(
    {"p": ("int", "int"), "q": ("int", "int"), "r": ("int", "int")},
    (("p", ("a", "b")), ("q", ("b", "c")), ("r", ("a", "c"))),
    {},
    (),
    ("a", "b", "c"),
)


@pytest.mark.parametrize("stage", list(Stage))
@pytest.mark.parametrize(
    "weights", [(2**30, 2**30, 8), (2**62, -1, 2**62), (-(2**63), 1, -1), (2**21, 2**21, 2**21)]
)
def test_a_product_of_weights_that_overflows(weights: tuple[int, int, int], stage: Stage) -> None:
    run = started(TRIANGLE, stage)
    first, second, third = weights
    run.step({"p": {(1, 1): first}, "r": {(1, 1): third}})
    with pytest.raises(
        WeightOverflowError,
        match=r"MultiwayJoin at random_conjunctions\.py:\d+: the product of weights is outside",
    ):
        run.step({"q": {(1, 1): second}})
    assert view(run) == {} and run.tick == 1
    run.step({"r": {(1, 1): 1 - third}})
    if abs(first * second) < 2**63:
        run.step({"q": {(1, 1): second}})
        assert view(run) == {(1, 1, 1): first * second}


@pytest.mark.parametrize("stage", list(Stage))
def test_a_sum_of_weights_that_overflows(stage: Stage) -> None:
    run = started(replace(TRIANGLE, select=("a",)), stage)
    run.step({"p": {(1, 1): 2**62}, "q": {(1, 1): 1, (1, 2): 1}})
    with pytest.raises(
        WeightOverflowError,
        match=r"(MultiwayJoin|Project) at random_conjunctions\.py:\d+: the sum of weights is outside",
    ):
        run.step({"r": {(1, 1): 1, (1, 2): 1}})
    assert view(run) == {} and run.tick == 1
    run.step({"r": {(1, 1): 1, (1, 2): -1}})
    assert view(run) == {}
    run.step({"r": {(1, 2): 1}})
    assert view(run) == {(1,): 2**62}


def test_the_module_can_be_imported_first() -> None:
    for module in ("dbsp.operators.streams.multiway_atoms", "dbsp.operators.joins.delta_term"):
        subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
