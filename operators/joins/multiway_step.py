"""The step of the incremental multi-way join: the sum of the matches of its delta terms.

A match belongs to the latest time of the rows in it. Matches of later iterations wait on an agenda.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dbsp.circuit.step_roles import ReportingStep
from dbsp.circuit.step_scope import StepScope
from dbsp.data.batch import combine
from dbsp.data.masks import rows_where
from dbsp.kernels import extend_by_levels, sum_terms
from dbsp.kernels.arrays import Codes, Mask
from dbsp.kernels.jit import expect_calls
from dbsp.operators.joins.match_budget import MatchBudget
from dbsp.operators.joins.merged_runs import MergedRuns
from dbsp.operators.joins.multiway_term import TermStep
from dbsp.operators.joins.small_terms import SmallTerms
from dbsp.operators.joins.term_rows import TermRows
from dbsp.operators.traces.agenda import Agenda, AgendaStep


class MultiwayJoinStep(AgendaStep, ReportingStep):
    __slots__ = ("_agenda", "_budget", "_scope", "_small", "terms")

    def __init__(self, terms: Sequence[TermStep], columns: int, scope: StepScope) -> None:
        super().__init__()
        self.terms = tuple(terms)
        self._scope = scope
        self._agenda = Agenda(scope)
        self._budget = scope.shared(MatchBudget)
        self._small = SmallTerms.of(self.terms, columns, scope)
        expect_calls(extend_by_levels, sum_terms)

    def report(self) -> Mapping[str, tuple[TermRows, ...]]:
        return {"join terms": tuple(term.rows for term in self.terms)} if self.terms else {}

    def step(self) -> None:
        if self._small is not None:
            some, few = self._small.changed()
            if few:
                self.out = self._small.matches() if some else None
                return
        parts = self._agenda.take()
        depth = self._scope.depth
        merged = None if self._scope.nested else MergedRuns()
        for term in self.terms:
            if term.delta.out is None:
                continue
            found = term.found if depth else 0
            for rows, weights in term.matches(term.delta.out, merged):
                if depth:
                    before, found = found, term.found
                    self._budget.spend(found - before)
                    rows, weights = self._ready(rows, weights, depth)
                if len(weights):
                    parts.append((rows, weights))
        self.out = combine(parts)

    def _ready(self, rows: Codes, weights: Codes, depth: int) -> tuple[Codes, Codes]:
        """Return the rows of the current time; later rows wait. The last columns hold the time."""
        times = rows[:, -depth:]
        now = self._scope.now
        later: Mask = times[:, 0] > now[0] if depth == 1 else np.logical_or.reduce(times > now, axis=1)
        rows = np.ascontiguousarray(rows[:, :-depth])
        if later.any():
            self._agenda.put(*rows_where(later, rows, weights), times.compress(later, 0))
            rows, weights = rows_where(~later, rows, weights)
        return rows, weights
