"""Multi-way join: random conjunctive queries beside nested loops, after every tick and in every stage."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbsp import Circuit, EvaluationError, Run, Stream, col, lit, multiway_join
from dbsp.stage import Stage

from ..harness import view
from ..random_conjunctions import Conjunction, canonical, conjunctions
from ..reference import Z, minus
from ..strategies import Tick


def started(query: Conjunction, stage: Stage = Stage.PHYSICAL) -> Run:
    circuit = Circuit("test")
    streams = {name: circuit.input(name, schema=query.schema(name)) for name in query.relations}
    circuit.output("out", query.joined(streams))
    return circuit.start(stage)


def follow_query(
    query: Conjunction, sequence: Sequence[Tick], stages: Sequence[Stage] = tuple(Stage)
) -> None:
    """Views and deltas of the stages after every tick are what the nested loops make of the inputs."""
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


@settings(max_examples=300)
@given(st.data())
def test_random_queries(data: st.DataObject) -> None:
    query = data.draw(conjunctions())
    follow_query(query, data.draw(query.ticks()))


@settings(max_examples=150)
@given(st.data())
def test_random_queries_over_ints_alone(data: st.DataObject) -> None:
    """Variables meet more often than among values of all kinds."""
    query = data.draw(conjunctions(("int",)))
    follow_query(query, data.draw(query.ticks()))


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


# --- functions -------------------------------------------------------------------------------------


def two(circuit: Circuit) -> tuple[Stream, Stream]:
    return circuit.input("e", x=int, y=int), circuit.input("f", x=int, y=int)


@pytest.mark.parametrize("stage", list(Stage))
def test_an_extension_of_an_extension_finds_another_atom(stage: Stage) -> None:
    circuit = Circuit("test")
    e, f = two(circuit)
    let = {"c": col("w") + 1, "w": col("a") + 1}
    circuit.output("out", multiway_join([e("a", "b"), f("c", "d")], select=["a", "w", "d"], let=let))
    run = circuit.start(stage)
    assert run.step({"e": {(1, 2): 1}})["out"].to_dict() == {}
    assert run.step({"f": {(3, 4): 2, (1, 5): 1}})["out"].to_dict() == {(1, 2, 4): 2}
    assert run.step({"e": {(1, 7): -2}})["out"].to_dict() == {(1, 2, 4): -4}


@pytest.mark.parametrize("stage", list(Stage))
def test_what_has_no_value_for_rows_that_cancel_or_are_ruled_out(stage: Stage) -> None:
    """The deltas of e and f meet in one tick and cancel; a condition rules the other row out."""
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
