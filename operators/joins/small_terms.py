"""Deltas of few rows: all delta terms of a multi-way join at the top level by one kernel call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dbsp.circuit.step_scope import StepScope
from dbsp.data.batch import Batch
from dbsp.kernels import sum_terms
from dbsp.kernels.arrays import Codes
from dbsp.kernels.term_sum import SOURCE, TERM
from dbsp.operators.joins.multiway_term import TermStep
from dbsp.operators.traces.arrange import ArrangeStep

FEW = 64
"""The most rows of a delta: a term for more rows takes longer than its calls."""


class SmallTerms:
    """The delta terms of one join, described for the kernel (see `dbsp.kernels.term_sum`)."""

    __slots__ = ("_columns", "_counts", "_descriptions", "_numbers", "_sources", "_tables", "_traces")

    def __init__(self, terms: Sequence[TermStep], sources: Sequence[ArrangeStep], columns: int) -> None:
        """Every source is an arrangement that some term reads; the terms only extend prefixes."""
        self._columns = columns
        self._sources = tuple(sources)
        self._traces = tuple(source.trace for source in sources)
        self._numbers = np.zeros(SOURCE * len(sources), np.int64)
        self._numbers[SOURCE - 1 :: SOURCE] = [source.trace.width for source in sources]
        self._tables: list[Codes | None] = [None] * len(sources)
        self._counts = np.zeros(sum(2 + len(term.levels) for term in terms), np.int64)
        numbers: list[int] = []
        first = 0
        for term in terms:
            after = first + 2 + len(term.levels)
            extending = term.count_into(self._counts[first:after])
            uses = [n for side, new in extending.sides for n in (sources.index(side), int(new))]
            plan = extending.plan.tolist()
            size = TERM + len(uses) + len(plan)
            numbers += [size, sources.index(term.delta), len(uses) // 2, first, *uses, *plan]
            first = after
        self._descriptions = np.array(numbers, np.int64)

    @staticmethod
    def of(terms: Sequence[TermStep], columns: int, scope: StepScope) -> SmallTerms | None:
        """Return the terms for one call; None if a kernel alone cannot run them."""
        if scope.nested or not terms or not all(term.only_extends for term in terms):
            return None
        readers = dict.fromkeys(step for term in terms for step in term.reads)
        sources = [step for step in readers if isinstance(step, ArrangeStep)]
        return SmallTerms(terms, sources, columns) if len(sources) == len(readers) else None

    def changed(self) -> tuple[bool, bool]:
        """Return whether a source has changed, and whether the change of each has few rows, in one
        run."""
        some = False
        for source, trace in zip(self._sources, self._traces, strict=True):
            if trace.fresh > 1:  # an update shows all runs as the delta; the kernel reads one
                return True, False
            delta = source.out
            if delta is not None:
                some = True
                if len(delta.weights) > FEW:
                    return True, False
        return some, True

    def matches(self) -> Batch | None:
        """Return the sum of the matches of all terms; None if it is empty."""
        numbers = self._numbers
        at = 0
        for place, trace in enumerate(self._traces):
            if trace.table is not self._tables[place]:
                self._tables[place] = trace.table
                numbers[at] = trace.table.ctypes.data
            count = trace.count
            numbers[at + 1] = count - trace.fresh  # as `before`, without a call
            numbers[at + 2] = count
            at += SOURCE
        rows, weights = sum_terms(self._descriptions, numbers, self._columns, self._counts)
        return Batch(rows, weights) if len(weights) else None
