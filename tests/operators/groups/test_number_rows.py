"""Numbers of rows: a row keeps its number while present, and no number is used twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp import Circuit, CircuitError, DbspError, Run, SchemaError, Stream, ValueOutOfRangeError, col
from dbsp.circuit.stage import Stage
from tests.durable.test_store import ended
from tests.harness import start
from tests.reference import Row
from tests.strategies import small, words

Tick = dict[Row, int]
COLUMNS = {"x": int, "s": str}
ticks = st.lists(st.dictionaries(st.tuples(small, words), st.sampled_from([1, -1]), max_size=5), max_size=8)


def numbered(c: Circuit) -> dict[str, Stream]:
    a = c.input("a", schema=COLUMNS, kind="set")
    return {
        "by_text": a.number_rows(by=["s", "x"], name="n", first=1, step=3),
        "by_number": a.number_rows(by="x", name="n"),
        "narrow": a.select("x").number_rows(by="x", name="n"),
    }


class Model:
    """Numbers the rows one by one with a dictionary."""

    def __init__(self, key: tuple[int, ...], first: int, step: int) -> None:
        self.key, self.next, self.step = key, first, step
        self.numbers: dict[Row, int] = {}

    def tick(self, now: set[Row]) -> dict[Row, int]:
        delta = {}
        for row in self.numbers.keys() - now:
            delta[(*row, self.numbers.pop(row))] = -1
        for row in sorted(now - self.numbers.keys(), key=lambda row: [*(row[c] for c in self.key), *row]):
            self.numbers[row] = self.next
            delta[(*row, self.next)] = 1
            self.next += self.step
        return delta


def models() -> dict[str, Model]:
    return {"by_text": Model((1, 0), 1, 3), "by_number": Model((0,), 0, 1), "narrow": Model((0,), 0, 1)}


def follow(run: Run, wanted: dict[str, Model], rows: set[Row], tick: Tick) -> None:
    rows |= {row for row, weight in tick.items() if weight > 0}
    rows -= {row for row, weight in tick.items() if weight < 0}
    result = run.step({"a": tick})
    for name, model in wanted.items():
        now = {row[:1] for row in rows} if name == "narrow" else set(rows)
        assert result[name].to_dict() == model.tick(now), name
        assert run.view(name).to_dict() == {(*row, n): 1 for row, n in model.numbers.items()}


@given(ticks, st.sampled_from(Stage))
def test_every_stage_numbers_rows_in_the_order_of_insertion(changes: list[Tick], stage: Stage) -> None:
    circuit = Circuit("test")
    for name, stream in numbered(circuit).items():
        circuit.output(name, stream)
    run, wanted, rows = circuit.start(stage), models(), set[Row]()
    for tick in changes:
        follow(run, wanted, rows, tick)


def test_a_failed_tick_uses_no_numbers() -> None:
    def build(c: Circuit) -> dict[str, Stream]:
        a = c.input("a", schema=COLUMNS, kind="set")
        one = a.number_rows(by="x", name="n")
        return {"by_number": one, "checked": one.map(y=100 // (col("x") + col("n")))}

    run, wanted, rows = start(build), {"by_number": Model((0,), 0, 1)}, set[Row]()
    follow(run, wanted, rows, {(1, "a"): 1, (2, "a"): 1})
    with pytest.raises(DbspError, match="division by zero"):
        run.step({"a": {(1, "a"): -1, (-2, ""): 1}})
    follow(run, wanted, rows, {(1, "a"): -1, (3, "b"): 1})
    follow(run, wanted, rows, {(1, "a"): 1})
    assert wanted["by_number"].numbers == {(2, "a"): 1, (3, "b"): 2, (1, "a"): 3}


def test_numbers_beyond_64_bits() -> None:
    run = start(lambda c: c.input("a", x=int, kind="set").number_rows(first=2**63 - 2))
    run.step({"a": [(1,), (2,)]})
    with pytest.raises(ValueOutOfRangeError, match=r"NumberRows at .*: the number 9,223,372,036,854,775,808"):
        run.step({"a": [(3,)]})
    assert run.step({"a": {(2,): -1}})["out"].rows() == [(2, 2**63 - 1)]


def test_numbers_survive_a_restart_from_a_checkpoint(tmp_path: Path) -> None:
    circuit = Circuit("test")
    for name, stream in numbered(circuit).items():
        circuit.output(name, stream)
    wanted, rows = models(), set[Row]()
    for tick in ({(1, "b"): 1, (2, "a"): 1}, {(1, "b"): -1}, {(1, "b"): 1, (3, ""): 1}):
        run = circuit.start(checkpoint=tmp_path)
        follow(run, wanted, rows, tick)
        ended(run)


def test_what_cannot_be_numbered() -> None:
    circuit = Circuit("test")
    a = circuit.input("a", schema=COLUMNS, kind="set")
    with pytest.raises(SchemaError, match="got first=0 and step=0"):
        a.number_rows(by="x", step=0)
    with circuit.fixpoint("f") as scope:
        variable = scope.variable("v", COLUMNS)
        numbers = variable.union(a).number_rows(by="x")
        scope.define(variable, numbers.select("x", "s").distinct())
    circuit.output("out", scope.leave(variable))
    with pytest.raises(CircuitError, match="rows cannot be numbered inside a fixpoint"):
        circuit.start()


def test_the_name_of_the_number_must_be_new() -> None:
    a = Circuit("c").input("a", schema=COLUMNS)
    with pytest.raises(SchemaError, match="column 'x' occurs twice"):
        a.number_rows(name="x")
