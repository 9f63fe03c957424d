"""The demo in one process: every edit is a tick of a run."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping

import dbsp
from examples.stdlib_demo.edited_library import Edit, EditedLibrary
from examples.stdlib_demo.recomputed import Comparison, Rows, warm_up
from examples.stdlib_demo.report import Report, Timing, seconds, timed


class LocalDemo:
    """Loads the facts into a run, steps it with every edit, and checks every view."""

    def __init__(self, report: Report, program: dbsp.Program, edited: EditedLibrary) -> None:
        self.report = report
        self.program = program
        self.edited = edited
        self.comparison = Comparison(program, report)
        self.timings: list[Timing] = []

    def play(self, ticks: int) -> int:
        """Run the demo with `ticks` single changes at the end; return the number of differences."""
        report, facts = self.report, self.edited.facts
        # A small run first keeps the compilation of the kernels out of the measurements.
        with report.step(
            "preparing the kernels; the first run on a machine compiles them",
            "kernels ready (compiled once per machine)",
        ):
            warm_up(self.program, facts)
        spent, self.run = timed(lambda: self.program.start(initial=facts.relations()))
        report.line(f"facts loaded, all views computed: {seconds(spent)}\n")
        views = self.views()
        report.show_views(views)
        self.comparison.check(views, facts, "load")
        for edit in self.edited.edits():
            self.apply(edit)
        self.apply(self.edited.restoration())
        report.show_timings(self.timings)
        self.many_small_changes(ticks)
        return self.comparison.differences

    def views(self) -> Mapping[str, Rows]:
        return {name: self.run.view(name).to_dict() for name in self.run.outputs}

    def apply(self, edit: Edit) -> None:
        report = self.report
        report.heading(edit.title)
        reading, changes = timed(lambda: self.edited.apply(edit))
        tick, result = timed(lambda: self.run.step(changes))
        changed = sum(len(rows) for rows in changes.values())
        deltas = {name: delta.to_dict() for name, delta in result.items() if len(delta)}
        report.line(f"read again in {seconds(reading)}; {changed} facts changed; tick {seconds(tick)}")
        report.show_deltas("facts", changes)
        report.show_deltas("view", deltas)
        scratch, naive = self.comparison.check(self.views(), self.edited.facts, edit.title)
        rows = sum(map(len, deltas.values()))
        self.timings.append(Timing(edit.title, changed, rows, tick, scratch, naive))
        report.line()

    def many_small_changes(self, ticks: int) -> None:
        """Retract and insert single facts, to measure ticks with small changes."""
        chooser, facts = random.Random(0), self.edited.facts
        pool = [(name, row) for name in ("calls", "imports") for row in sorted(getattr(facts, name))]
        spent: list[float] = []
        for name, row in chooser.sample(pool, min(len(pool), ticks // 2)):
            for weight in (-1, 1):
                began = time.perf_counter()
                self.run.step({name: {row: weight}})
                spent.append(time.perf_counter() - began)
        self.report.show_spent("ticks of one fact each", spent)
        self.comparison.check(self.views(), self.edited.facts, f"{len(spent)} small ticks")
