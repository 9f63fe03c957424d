"""A multi-way join and the equal circuit of elementary operators: the same deltas in every tick."""

from __future__ import annotations

from collections.abc import Sequence
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbsp import Circuit, EvaluationError, SchemaError, col, multiway_join
from dbsp.circuit.stage import Stage
from dbsp.operators.joins.delta_term import column_sets
from tests.delta_terms import delta_terms
from tests.harness import view
from tests.profiles import examples
from tests.random_conjunctions import Conjunction, canonical, conjunctions
from tests.reference import minus
from tests.strategies import Tick


def follow_both(query: Conjunction, sequence: Sequence[Tick]) -> None:
    """The terms emit the change of the join; their sum over ticks is the join."""
    circuit = Circuit("test")
    streams = {name: circuit.input(name, schema=query.schema(name)) for name in query.relations}
    terms = query.delta(streams)
    circuit.output("terms", terms)
    circuit.output("sum", terms.integrate())
    circuit.output("join", query.joined(streams))
    runs = [circuit.start(stage) for stage in Stage]
    assert len({str(run.outputs[name]) for run in runs for name in run.outputs}) == 1  # types included
    for number, tick in enumerate(sequence, 1):
        for run in runs:
            before = canonical(view(run, "join"))
            result = run.step(tick)
            told = f"tick {number} of {sequence}"
            delta = canonical(result["join"].to_dict())
            assert canonical(view(run, "terms")) == delta, told
            assert canonical(result["sum"].to_dict()) == delta, told
            assert canonical(view(run, "sum")) == canonical(view(run, "join")), told
            assert minus(canonical(view(run, "join")), before) == delta, told


@pytest.mark.slow
@settings(max_examples=examples(100))
@given(st.data())
def test_random_queries(data: st.DataObject) -> None:
    query = data.draw(conjunctions(most=4))
    follow_both(query, data.draw(query.ticks()))


def test_its_operators_are_elementary() -> None:
    circuit = Circuit("test")
    edge = circuit.input("edge", x=int, y=int)
    atoms = [edge("a", "b"), edge("b", "c"), edge("a", "c")]
    where, let = (col("a") < col("b")) & (col("c") != 5), {"d": col("a") + 1}
    circuit.output("changes", delta_terms(atoms, ["d", "c"], where=where, let=let))
    names = {node.operator.name for node in circuit.nodes}
    assert names <= {"Input", "Output", "Differentiate", "Delay", "Project", "Join", "Union", "Map", "Filter"}
    run = circuit.start()
    run.step({"edge": {(1, 2): 1, (2, 3): 1, (1, 3): 1}})
    assert view(run, "changes") == {(2, 3): 1}
    run.step({})
    assert view(run, "changes") == {}
    run.step({"edge": {(1, 3): 2, (2, 3): -1}})
    assert view(run, "changes") == {(2, 3): -1}


def test_the_counter_examples_of_the_level_by_level_formula() -> None:
    circuit = Circuit("test")
    r, s, t = (circuit.input(name, x=int, y=int) for name in "rst")
    atoms = [r("a", "b"), s("a", "c"), t("b", "c")]
    circuit.output("terms", delta_terms(atoms))
    circuit.output("join", multiway_join(atoms))
    run = circuit.start()
    run.step({"r": {(1, 2): 1}, "s": {(1, 3): 1}})
    assert run.step({"t": {(2, 3): 1}})["join"].to_dict() == view(run, "terms") == {(1, 2, 3): 1}
    gone: Tick = {"r": {(1, 2): -1}, "s": {(1, 3): -1}, "t": {(2, 3): -1}}
    assert run.step(gone)["join"].to_dict() == view(run, "terms") == {(1, 2, 3): -1}


def test_rows_that_cancel_between_the_terms_are_not_evaluated() -> None:
    circuit = Circuit("test")
    e, f = circuit.input("e", x=int), circuit.input("f", x=int)
    circuit.output("out", delta_terms([e("a"), f("b")], let={"z": 10 // col("a")}))
    run = circuit.start()
    run.step({"f": {(2,): 1}})
    run.step({"e": {(0,): 1}, "f": {(2,): -1}})
    assert view(run) == {}
    with pytest.raises(EvaluationError, match="division by zero"):
        run.step({"f": {(2,): 1}})


def test_errors() -> None:
    circuit = Circuit("test")
    edge = circuit.input("edge", x=int, y=int)
    word = circuit.input("word", s=str)
    with pytest.raises(SchemaError, match="variable 'b' has type int in one place and str in another"):
        delta_terms([edge("a", "b"), word("b")])
    with pytest.raises(SchemaError, match="at least one atom"):
        delta_terms([])


def test_the_terms_of_a_long_cycle_are_read_once_per_check() -> None:
    """The sets of columns of all atoms are computed together, not in a pass for each atom."""
    size = 30
    names = [f"v{at}" for at in range(size)]
    circuit = Circuit("cycle")
    edge = circuit.input("edge", x=int, y=int)
    atoms = [edge(name, names[(at + 1) % size]) for at, name in enumerate(names)]
    circuit.output("found", multiway_join(atoms, select=names[:2]))
    with patch("dbsp.operators.joins.multiway_join.column_sets", wraps=column_sets) as reads:
        run = circuit.start()
    assert reads.call_count <= 4 * size  # not size ** 2
    run.step({"edge": [(0, 0), (1, 2), (2, 1)]})
    assert run.view("found").to_dict() == {(0, 0): 1, (1, 2): 1, (2, 1): 1}
