"""Search for the smallest explanation of a changed row.

An inserted row is explained by one derivation of minimal height in the state after the tick, and a
retracted row by a premise that each of its derivations lost. So rows and premises form a graph of
alternatives. The search visits it from the row down, then labels each visited row with the input
changes of its best explanation, in the order of ranks: levels of relations, then heights. The best
explanation has the fewest input changes; a set of lost premises that ends all derivations of a row
is found greedily, because the smallest one is NP-hard.

Retracted rows can depend on each other, as on a cycle of a graph: a premise with a larger rank than
the row is used for those derivations only that no other premise ends. Together the retracted rows
of an explanation are an unfounded set: every derivation of each of them lost a premise that is
explained outside of the set, or uses another row of the set.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping

from dbsp.compiler.why.change_evidence import Change, Evidence, EvidenceSearch, Expansion
from dbsp.compiler.why.change_reason import INPUT_FACT
from dbsp.compiler.why.tick_sides import ChangedRow
from dbsp.lazy_dataclass import dataclass

SEARCHED = 2_000
"""The maximum number of derivations that are compared to find the smallest explanation."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The chosen derivations of a changed row.

    For an inserted row there is one at most, without a chosen change, because all of its changes
    count. For a retracted row each is chosen with the change that ended it and `others` more.
    """

    row: ChangedRow
    expansion: Expansion
    chosen: tuple[tuple[Evidence, Change | None, int], ...]
    circular: int = 0
    """The number of derivations that are left out, because they used the row itself."""

    def causes(self) -> Iterator[ChangedRow]:
        """Yield the changed rows that the explanation uses."""
        for evidence, change, _ in self.chosen:
            for each in evidence.changes if change is None else (change,):
                yield from each.rows


class ChangeSearch:
    """Finds explanations of changed rows."""

    def __init__(self, evidence: EvidenceSearch) -> None:
        self.evidence = evidence
        self._rank = evidence.rank
        self._expansions: dict[ChangedRow, Expansion] = {}
        self._labels: dict[ChangedRow, int] = {}
        self._bits: dict[ChangedRow, int] = {}

    def explain(self, goal: ChangedRow, depth: int | None) -> dict[ChangedRow, Explanation | None]:
        """Return the explanations of a row and of the rows below it; None beyond `depth`."""
        self._label(goal)
        found: dict[ChangedRow, Explanation | None] = {}
        waiting = deque([(goal, 0)])
        seen = {goal}
        while waiting:
            row, level = waiting.popleft()
            if depth is not None and level >= depth and not self._is_leaf(row):
                found[row] = None
                continue
            found[row] = explanation = self._explanation(row)
            for cause in explanation.causes():
                if cause not in seen:
                    seen.add(cause)
                    waiting.append((cause, level + 1))
        return found

    def expansion(self, row: ChangedRow) -> Expansion:
        """Return the derivations of a changed row."""
        if row not in self._expansions:
            self._expansions[row] = self.evidence.expand(row)
        return self._expansions[row]

    def _is_leaf(self, row: ChangedRow) -> bool:
        expansion = self.expansion(row)
        return expansion.leaf is not None and not expansion.evidences

    # --- labels ----------------------------------------------------------------------------------

    def _label(self, goal: ChangedRow) -> None:
        """Label rows below the goal with the input changes of their best explanations."""
        visited = [goal]
        seen = {goal}
        searched = 0
        for row in visited:
            if searched > SEARCHED:
                break
            for evidence in self.expansion(row).evidences:
                searched += 1
                for change in evidence.changes:
                    for cause in change.rows:
                        if cause not in seen:
                            seen.add(cause)
                            visited.append(cause)
        for row in sorted(self._expansions, key=lambda row: (self._rank(row), row)):
            own = self._own_change(row)
            union = own
            for cause in self._explanation(row).causes():
                union |= self._labels.get(cause, 0)
            self._labels[row] = union

    def _own_change(self, row: ChangedRow) -> int:
        """Return the bit of a row that the tick inserted or retracted as an input fact, else 0."""
        if self.expansion(row).leaf != INPUT_FACT:
            return 0
        return self._bits.setdefault(row, 1 << len(self._bits))

    def _cost(self, rows: Iterable[ChangedRow], known: int) -> int:
        """Return the number of input changes that rows add to known ones; an unvisited row counts
        as one."""
        union = unvisited = 0
        for row in rows:
            label = self._labels.get(row)
            if label is None:
                unvisited += 1
            else:
                union |= label
        return (union & ~known).bit_count() + unvisited

    # --- choices ---------------------------------------------------------------------------------

    def _explanation(self, row: ChangedRow) -> Explanation:
        expansion = self.expansion(row)
        if not expansion.evidences:
            return Explanation(row, expansion, ())
        if not row.inserted:
            return Explanation(row, expansion, tuple(self._lost(row, expansion)))
        best = min(
            expansion.evidences,
            key=lambda each: self._cost([cause for change in each.changes for cause in change.rows], 0),
        )
        return Explanation(row, expansion, ((best, None, 0),))

    def _lost(self, row: ChangedRow, expansion: Expansion) -> Iterator[tuple[Evidence, Change, int]]:
        """Yield lost premises that end all derivations of a retracted row (see the module)."""
        own = self._rank(row)
        ended_by: dict[tuple[ChangedRow, ...], dict[int, Change]] = {}
        for number, evidence in enumerate(expansion.evidences):
            for change in evidence.changes:
                ended_by.setdefault(change.rows, {}).setdefault(number, change)
        lower = {rows: ended for rows, ended in ended_by.items() if self._highest(rows) < own}
        remaining = set(range(len(expansion.evidences)))
        known = self._own_change(row)
        for candidates in (lower, ended_by):
            while remaining:
                rows = self._best_of(candidates, remaining, known)
                if rows is None:
                    break
                ended = {at: change for at, change in candidates[rows].items() if at in remaining}
                remaining -= ended.keys()
                for cause in rows:
                    known |= self._labels.get(cause, 0)
                yield from _by_rule(expansion, ended)

    def _best_of(
        self, candidates: Mapping[tuple[ChangedRow, ...], dict[int, Change]], remaining: set[int], known: int
    ) -> tuple[ChangedRow, ...] | None:
        """Return the rows that add the fewest input changes per ended derivation; None for none."""
        best: tuple[object, ...] | None = None
        chosen = None
        for rows, ended in candidates.items():
            count = len(remaining & ended.keys())
            if count:
                key = (not rows, self._cost(rows, known) / count, -count, self._highest(rows))
                if best is None or key < best:
                    best, chosen = key, rows
        return chosen

    def _highest(self, rows: tuple[ChangedRow, ...]) -> tuple[int, int]:
        return max(map(self._rank, rows), default=(-1, -1))


def _by_rule(expansion: Expansion, ended: Mapping[int, Change]) -> Iterator[tuple[Evidence, Change, int]]:
    """Yield the first of the derivations by each rule, and how many more there are."""
    by_rule: dict[int, list[int]] = {}
    for at in sorted(ended):
        by_rule.setdefault(id(expansion.evidences[at].body), []).append(at)
    for first, *others in by_rule.values():
        yield expansion.evidences[first], ended[first], len(others)
