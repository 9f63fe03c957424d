"""Compare views with their recomputation from scratch, in two ways."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dbsp
from examples.stdlib_demo import plain
from examples.stdlib_demo.extract import Facts
from examples.stdlib_demo.report import Report, timed

Rows = Mapping[tuple[Any, ...], int]
"""Rows with their weights."""


class Comparison:
    """Recomputes the views of a program, prints how others differ from them, and counts it."""

    def __init__(self, program: dbsp.Program, report: Report) -> None:
        self.program = program
        self.report = report
        self.differences = 0

    def check(self, views: Mapping[str, Rows], facts: Facts, when: str) -> tuple[float, float]:
        """Compare every view with a fresh run of the program and with plain Python.

        Return the seconds of the two recomputations.
        """
        scratch, fresh = timed(lambda: self.program.start(initial=facts.relations()))
        naive, expected = timed(lambda: plain.recompute(facts))
        for name in fresh.outputs:
            rows = dict.fromkeys(expected[name], 1)
            self.compare(f"{name} after {when}", views[name], fresh.view(name).to_dict(), "a fresh run")
            self.compare(f"{name} after {when}", views[name], rows, "plain Python")
        return scratch, naive

    def compare(self, what: str, found: Rows, expected: Rows, where: str) -> None:
        """Report a difference between rows and those of `where`."""
        if found == expected:
            return
        wrong = sorted(
            row for row in found.keys() | expected.keys() if found.get(row, 0) != expected.get(row, 0)
        )
        row = wrong[0]
        self.differences += 1
        self.report.line(
            f"{what} differs from {where} in {len(wrong)} rows: {row} has the weight {found.get(row, 0)},"
            f" expected {expected.get(row, 0)}",
            "red",
        )


def warm_up(program: dbsp.Program, facts: Facts) -> None:
    """Run a few ticks of all operators, which compiles the kernels once per machine."""
    few = {name: sorted(rows)[:50] for name, rows in facts.relations().items()}
    run = program.start(initial=few)
    for weight in (-1, 1):
        run.step({name: dict.fromkeys(rows[:5], weight) for name, rows in few.items()})
