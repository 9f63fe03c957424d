"""A circuit whose functions end, delay or fail the process that calls them, and its changes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dbsp import Circuit, MemoryLimitError, col, count
from dbsp.runtime.scope import Scope

FAILS = 13
ENDS = 666
SLEEPS = 1000
EXITS = 77
"""The function calls sys.exit."""
FULL = 99
"""The work after the commit of the tick fails, as for a full disk."""


class OddError(Exception):
    """An exception that pickle cannot read back: its constructor has two arguments."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__(f"{text} {number}")


def act(row: Any) -> tuple[int, int]:
    """Return the row, or do what its number means."""
    number = row[0]
    if number == FAILS:
        raise ValueError("thirteen")
    if number == FAILS + 1:
        raise OddError(number, "odd")
    if number == ENDS:
        os.kill(os.getpid(), signal.SIGKILL)
    if number == EXITS:
        raise SystemExit(4)
    if number == FULL:
        fail_after_commit()
    if number == SLEEPS:
        Path(os.environ.get("DBSP_TEST_MARK", os.devnull)).write_text("sleeps")
        time.sleep(600)
    return number, number % 3


def fail_after_commit() -> None:
    """Let the next merge of this process fail."""
    merge = Scope.merge

    def fail(scope: Scope) -> None:
        Scope.merge = merge  # type: ignore[method-assign]
        raise MemoryLimitError("no space to merge")

    Scope.merge = fail  # type: ignore[method-assign]


def shop() -> Circuit:
    """Inputs of all kinds, a join, an aggregate, a recursion and a function."""
    circuit = Circuit("shop")
    sale = circuit.input("sale", id=int, item=str, kind="set")
    price = circuit.input("price", item=str, cents=int, key=["item"])
    visit = circuit.input("visit", number=int)
    circuit.output("large", sale.filter(col("id") > 5))
    circuit.output("counts", sale.group_by("item").agg(n=count()))
    circuit.output("paid", sale.join(price, on="item"))
    circuit.output("seen", sale.join(visit.map(id=col("number")), on="id"))
    link = circuit.input("link", x=int, y=int, kind="set")
    with circuit.fixpoint("reach") as scope:
        reach = scope.variable("reach", {"x": int, "y": int})
        step = reach.map(x=col("x"), z=col("y")).join(link.map(z=col("x"), y=col("y")), on="z")
        scope.define(reach, (link + step.map(x=col("x"), y=col("y"))).distinct())
    circuit.output("reached", scope.leave(reach).group_by("y").agg(n=count()))
    circuit.output("visits", visit.map(act, {"number": int, "rest": int}))
    return circuit


CHANGES: list[Mapping[str, Any]] = [
    {"sale": [(1, "pear"), (7, "apple"), (8, "fig")], "price": [("pear", 20), ("apple", 30)]},
    {"link": [(1, 2), (2, 3), (3, 1), (3, 4)], "visit": [(7,), (8,), (8,)]},
    {"sale": {(1, "pear"): -1, (9, "pear"): 1, (7, "apple"): 1, (99, "fig"): -1}, "visit": {(3,): 2}},
    {"link": {(2, 3): -1, (4, 5): 1, (5, 6): 1}},
    {},
    {"price": [("pear", 25), ("fig", 5)], "visit": [(number,) for number in range(100, 140)]},
    {"sale": [(number, f"item {number % 7}") for number in range(20, 60)], "visit": {(3,): -1}},
]
