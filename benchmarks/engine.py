"""This engine as a contestant: live from rules, live from streams, and from scratch every tick."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

import dbsp
from benchmarks.changes import Change, Codes, Row
from benchmarks.contest import Outcome, Sizes, checksum_of, net
from benchmarks.patterns import WORKLOADS as GRAPHS
from benchmarks.workloads import COLUMNS
from dbsp import Circuit, col, count
from dbsp.kernels.tiers import COMPILED, choose_tier

RULES = {
    "w1": """
        .decl orders(o: number, c: number, amount: number)
        .decl customers(c: number, region: number)
        .input orders, customers
        .decl sale(o: number, region: number, amount: number)
        sale(o, region, amount) :- orders(o, c, amount), customers(c, region).
        .decl result(region: number, orders: number, total: number)
        .output result
        result(region, n, total) :-
            customers(_, region),
            n = count : { sale(_, region, _) },
            total = sum amount : { sale(_, region, amount) },
            n > 0.
    """,
    "w3dag": """
        .decl e(x: number, y: number)
        .input e
        .decl result(x: number, y: number)
        .output result
        result(x, y) :- e(x, y).
        result(x, z) :- result(x, y), e(y, z).
    """,
}
RULES["w3chain"] = RULES["w3dag"]
RULES |= {name: pattern.rules() for name, pattern in GRAPHS.items()}


def regions() -> Circuit:
    circuit = Circuit("regions")
    orders = circuit.input("orders", o=int, c=int, amount=int)
    customers = circuit.input("customers", c=int, region=int)
    sales = orders.join(customers, on=["c"])
    circuit.output("result", sales.group_by("region").agg(orders=count(), total=col("amount").sum()))
    return circuit


def closure() -> Circuit:
    circuit = Circuit("closure")
    edge = circuit.input("e", x=int, y=int)
    with circuit.fixpoint("path") as scope:
        path = scope.variable("path", edge.schema)
        longer = path.join(edge, on=[("y", "x")], select=["x", "y_right"]).rename(y="y_right")
        scope.define(path, (edge + longer).distinct())
    circuit.output("result", scope.leave(path))
    return circuit


class Live:
    """One step per tick. The base is loaded as Arrow tables, a tick as {row: weight}."""

    strategy = "auto"

    def __init__(self, workload: str) -> None:
        self.workload = workload

    def warm_up(self) -> None:
        """Compile or load each kernel at its first call; small calls would be interpreted."""
        choose_tier(COMPILED)

    def start(self) -> dbsp.Run:
        return dbsp.compile(RULES[self.workload], strategy=self.strategy).start()

    def load(self, base: dict[str, Codes]) -> None:
        self.run = self.start()
        self.run.step(tables(self.workload, base))
        self.rows = {name: len(rows) for name, rows in base.items()}

    def prepare(self, changes: list[Change]) -> dict[str, dict[Row, int]]:
        netted = net(changes)
        for name, rows in netted.items():
            self.rows[name] += sum(rows.values())
        return netted

    def tick(self, changes: dict[str, dict[Row, int]]) -> None:
        self.run.step(changes)

    def outcome(self) -> Outcome:
        return outcome_of(self.run)

    def sizes(self) -> Sizes:
        inputs = sum(rows * len(COLUMNS[self.workload][name]) for name, rows in self.rows.items())
        result = len(self.run.view("result")) * self.run.outputs["result"].arity
        return Sizes(self.run.state_bytes, 8 * (inputs + result))


class LiveStreams(Live):
    """The same with a circuit of streams; a pattern in a graph is one multi-way join."""

    def start(self) -> dbsp.Run:
        if self.workload in GRAPHS:
            return GRAPHS[self.workload].multiway().start()
        return (regions() if self.workload == "w1" else closure()).start()


class LiveJoins(Live):
    """The pattern as a chain of joins of two streams, which the planner may replace."""

    def start(self) -> dbsp.Run:
        return GRAPHS[self.workload].joins(self.strategy).start()


class LiveWrittenJoins(LiveJoins):
    """The same chain, as it is written."""

    strategy = "as-written"


class LiveBinary(Live):
    """Rules with binary joins."""

    strategy = "binary"


class LiveMultiway(Live):
    """Rules with multi-way joins."""

    strategy = "wcoj"


class FromScratch:
    """A fresh run of the program for every tick; applying changes to the base is not timed."""

    def __init__(self, workload: str) -> None:
        self.workload = workload
        self.program = dbsp.compile(RULES[workload])

    warm_up = Live.warm_up

    def load(self, base: dict[str, Codes]) -> None:
        self.rows: dict[str, dict[Row, None]] = {}
        self.tick(tables(self.workload, base))
        self.base = base

    def prepare(self, changes: list[Change]) -> dict[str, pa.Table]:
        if not self.rows:
            self.rows = {n: dict.fromkeys(map(tuple, rows.tolist())) for n, rows in self.base.items()}
        for name, rows in net(changes).items():
            for row, weight in rows.items():
                if weight > 0:
                    self.rows[name][row] = None
                else:
                    del self.rows[name][row]
        arrays = {name: np.array(list(rows), np.int64) for name, rows in self.rows.items()}
        return tables(self.workload, arrays)

    def tick(self, whole: dict[str, pa.Table]) -> None:
        self.run = self.program.start()
        self.run.step(whole)

    def outcome(self) -> Outcome:
        return outcome_of(self.run)


def tables(workload: str, base: dict[str, Codes]) -> dict[str, pa.Table]:
    return {
        name: pa.table({column: rows[:, place] for place, column in enumerate(COLUMNS[workload][name])})
        for name, rows in base.items()
    }


def outcome_of(run: dbsp.Run) -> Outcome:
    table: Any = run.view("result").to_arrow()
    columns = [table.column(name).to_numpy() for name in run.outputs["result"].names]
    if not (table.column("weight").to_numpy() == 1).all():
        raise ValueError("expected result rows of weight 1, got other weights")
    return checksum_of(np.stack(columns, axis=1) if len(table) else np.empty((0, len(columns)), np.int64))
