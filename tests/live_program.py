"""A compiled program and the reference evaluator: every tick is compared with recomputation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

import dbsp
from dbsp.compiler.datalog.tree.kinds import Kind
from dbsp.data.terms import Branch, Record
from dbsp.kernels.arrays import Codes
from dbsp.operators.planner.statistics import Statistics

from .reference_datalog.evaluation import evaluate
from .reference_datalog.unfounded_sets import typed_program, well_founded_model
from .reference_datalog.values import NoValueError, Row, TooLargeError

Change: TypeAlias = tuple[str, Row, int]
"""(relation, row, weight): a positive weight asserts the row, a negative one retracts it."""

FORMS = ("mapping", "staged", "zset", "mixed")
"""The forms of the changes that a run accepts."""

PYTHON_TYPES = {Kind.NUMBER: int, Kind.UNSIGNED: int, Kind.FLOAT: float, Kind.SYMBOL: str}


class Subject:
    """A program, and the result of the reference evaluator for given inputs (cached)."""

    def __init__(
        self,
        text: str,
        limit: int = 400,
        strategy: str = "auto",
        magic: bool | None = False,
        functors: Mapping[str, Callable[..., Any]] | None = None,
        recursion: str = "auto",
        negation: str | None = None,
        rewrites: bool | Sequence[str] = True,
    ) -> None:
        self.text = text
        self.functors = functors
        folder = Path(__file__).parent / "programs"
        self.program = dbsp.compile(
            text,
            strategy,
            include=[folder],
            magic=magic,
            functors=functors,
            recursion=recursion,
            negation=negation,
            rewrites=rewrites,
        )
        self.typed = typed_program(text) if negation == "well-founded" else None
        """The program for the reference of three-valued models."""
        self.limit = limit
        self.outputs = list(self.program.outputs)
        self._known: dict[object, dict[str, frozenset[Row]]] = {}

    def expected(self, inputs: Mapping[str, set[Row]]) -> dict[str, frozenset[Row]]:
        """Return the rows of every output. Raises NoValueError or TooLargeError."""
        key = tuple(frozenset(inputs[name]) for name in self.program.inputs)
        if key not in self._known:
            everything = self._evaluated(inputs)
            self._known[key] = {name: everything[name] for name in self.outputs}
        return self._known[key]

    def _evaluated(self, inputs: Mapping[str, set[Row]]) -> Mapping[str, frozenset[Row]]:
        if self.typed is None:
            return evaluate(self.program.checked, inputs, self.limit)
        model = well_founded_model(self.typed, inputs, self.limit)
        return {
            output: rows
            for name in self.typed.declared.declarations.relations
            for output, rows in model.rows(name).items()
        }

    def planned(self, strategy: str) -> Subject:
        """Return the same program with joins of one kind."""
        other = Subject(self.text, self.limit, strategy, functors=self.functors)
        other._known = self._known
        return other

    def counted(self, initial: Iterable[Change]) -> Subject:
        """Return the same program, planned for the rows that exist after these changes."""
        inputs: dict[str, set[Row]] = {name: set() for name in self.program.inputs}
        for name, rows in self.program.facts.items():
            inputs[name].update(rows)
        apply(inputs, initial)
        rows_of = {**inputs, **self.expected(inputs)}

        def source(name: str) -> Codes:
            arity = self.program.relations[name].arity
            return np.array(sorted(rows_of[name]), np.int64).reshape(-1, arity)

        other = self.planned("auto")
        other.program.plans = other.program.plans_for(Statistics(source))
        return other

    def start(self, initial: Iterable[Change] = (), max_iterations: int | None = None) -> LiveProgram:
        return LiveProgram(self, list(initial), max_iterations)


class LiveProgram:
    """A run of a subject. `tick` applies changes and compares deltas, views and counts.

    With `max_iterations`, a tick that exceeds the limit is rejected too.
    """

    def __init__(self, subject: Subject, initial: Sequence[Change], max_iterations: int | None) -> None:
        self.subject = subject
        self.inputs: dict[str, set[Row]] = {name: set() for name in subject.program.inputs}
        for name, rows in subject.program.facts.items():
            self.inputs[name].update(rows)
        apply(self.inputs, initial)
        self.views = subject.expected(self.inputs)
        self.capped = max_iterations is not None
        self.refused = 0
        options = {} if max_iterations is None else {"max_iterations": max_iterations}
        self.run = subject.program.start(as_mappings(initial) or None, **options)
        self.check_views()

    def tick(self, changes: Sequence[Change], form: str = "mapping") -> None:
        """Apply one tick and check it; changes without a result must raise an error.

        Skips the tick if the reference finds the result too large to compare.
        """
        after = {name: set(rows) for name, rows in self.inputs.items()}
        apply(after, changes)
        try:
            views = self.subject.expected(after)
        except TooLargeError:
            return
        except NoValueError:
            self.check_refused(changes, form, dbsp.EvaluationError, dbsp.ValueOutOfRangeError)
            return
        try:
            delta = self.step(changes, form)
        except dbsp.errors.IterationLimitError:
            if not self.capped:
                raise
            self.check_refused(changes, form, dbsp.errors.IterationLimitError)
            return
        for name in self.subject.outputs:
            wanted = dict.fromkeys(views[name] - self.views[name], 1)
            wanted.update(dict.fromkeys(self.views[name] - views[name], -1))
            assert delta[name].to_dict() == wanted, f"delta of {name} at tick {delta.number}"
        assert set(delta) == set(self.subject.outputs)
        self.check_counts(delta, changes)
        self.inputs, self.views = after, views
        self.check_views()

    def check_refused(self, changes: Sequence[Change], form: str, *errors: type[Exception]) -> None:
        """Check that the tick raises an error and leaves the run unchanged."""
        ticks = self.run.tick
        with pytest.raises(errors):
            self.step(changes, form)
        assert self.run.tick == ticks
        self.check_views()
        self.refused += 1

    def step(self, changes: Sequence[Change], form: str) -> dbsp.TickResult:
        """Step the run with the changes in one of FORMS. All forms mean the same.

        If the step raises, drop the staged changes.
        """
        try:
            return self.step_as(changes, form)
        except dbsp.DbspError:
            for name in self.run.inputs:
                self.run.input(name).clear()
            raise

    def step_as(self, changes: Sequence[Change], form: str) -> dbsp.TickResult:
        run = self.run
        if form == "staged":
            for name, row, weight in changes:
                (run.input(name).insert if weight > 0 else run.input(name).delete)([row])
            return run.step()
        mappings = as_mappings(changes)
        if form == "zset":
            return run.step({name: dbsp.ZSet(rows, run.inputs[name]) for name, rows in mappings.items()})
        if form == "mixed":
            # Insertions as lists with every row twice, the rest staged before.
            for name, rows in mappings.items():
                run.input(name).add({row: weight for row, weight in rows.items() if weight < 0})
            return run.step(
                {name: [row for row in rows if rows[row] > 0] * 2 for name, rows in mappings.items()}
            )
        return run.step(mappings)

    def check_views(self) -> None:
        for name in self.subject.outputs:
            view = self.run.view(name).to_dict()
            assert view == dict.fromkeys(self.views[name], 1), f"view of {name} at tick {self.run.tick}"
            for attribute, values in zip(
                self.subject.program.relations[name].attributes, zip(*view, strict=True), strict=False
            ):
                if isinstance(attribute.kind, Kind):
                    assert {type(value) for value in values} <= {PYTHON_TYPES[attribute.kind]}
                else:
                    assert {type(value) for value in values} <= {Branch, Record, type(None)}

    def check_counts(self, delta: dbsp.TickResult, changes: Sequence[Change]) -> None:
        """Check the counts of ineffective changes: present rows inserted, absent rows retracted."""
        mappings = as_mappings(changes)
        for sign, counted in ((1, delta.present), (-1, delta.absent)):
            wanted = {
                name: sum(
                    (row in self.inputs[name]) == (sign > 0)
                    for row, weight in rows.items()
                    if weight * sign > 0
                )
                for name, rows in mappings.items()
            }
            assert counted == {name: number for name, number in wanted.items() if number}


def apply(inputs: Mapping[str, set[Row]], changes: Iterable[Change]) -> None:
    for name, row, weight in changes:
        (inputs[name].add if weight > 0 else inputs[name].discard)(row)


def as_mappings(changes: Iterable[Change]) -> dict[str, dict[Row, int]]:
    """Return, by relation, every row with the weight of its last change."""
    mappings: dict[str, dict[Row, int]] = {}
    for name, row, weight in changes:
        mappings.setdefault(name, {})[row] = weight
    return mappings
