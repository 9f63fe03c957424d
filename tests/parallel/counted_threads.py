"""A circuit whose rows hold the number of threads of the process that computes them."""

from __future__ import annotations

from typing import Any

import dbsp


def threads(row: Any) -> tuple[int, int]:
    return (row.x, dbsp.threads())


def counted() -> dbsp.Circuit:
    circuit = dbsp.Circuit("counted")
    numbers = circuit.input("numbers", x=int).distinct()
    circuit.output("out", numbers.map(threads, {"x": int, "threads": int}))
    return circuit
