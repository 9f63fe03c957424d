"""The latest ticks and updates of `dbsp live`, and what undoes them.

A tick is undone by a tick of the opposite changes of the inputs. The outputs then emit the opposite
deltas, since they are functions of the inputs; rules with `autoinc()` are not, and refuse.

An update is undone by an update to the text before. Its facts, and the rows of inputs that the
newer text does not have, are then as before.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from dbsp.cli.program_draft import ProgramDraft
from dbsp.compiler.program import Program
from dbsp.errors import CircuitError, InputError
from dbsp.io.results import literal_of
from dbsp.lazy_dataclass import dataclass
from dbsp.runtime.run import Run
from dbsp.runtime.tick_result import TickResult

Row: TypeAlias = tuple[Any, ...]
Rows: TypeAlias = Mapping[str, Mapping[Row, int]]

MAX_STEPS = 100
"""The history has at most this many ticks and updates."""

MAX_ROWS = 100_000
"""The history has at most this many rows in all."""

_SHOWN = 3


@dataclass(frozen=True)
class TickStep:
    """A tick, by the rows that it changed in each input."""

    number: int
    changes: Rows

    @property
    def size(self) -> int:
        """The number of changed rows."""
        return sum(map(len, self.changes.values()))

    def inverse(self) -> dict[str, dict[Row, int]]:
        """Return the opposite changes."""
        return {name: {row: -weight for row, weight in rows.items()} for name, rows in self.changes.items()}

    def __str__(self) -> str:
        changes = [
            f"{'+' if weight > 0 else '-'}{name}({', '.join(map(literal_of, row))})"
            for name, rows in self.changes.items()
            for row, weight in rows.items()
        ]
        more = [f"{len(changes) - _SHOWN:,} more"] if len(changes) > _SHOWN else []
        return f"tick {self.number}: {', '.join(changes[:_SHOWN] + more) or 'no change'}"


@dataclass(frozen=True)
class UpdateStep:
    """An update, by the program before it."""

    number: int
    what: str
    draft: ProgramDraft
    path: Path
    present: Rows
    """By input, rows that the update may have changed: 1 if present before it, 0 if absent."""

    @property
    def size(self) -> int:
        """The number of rows that the update may have changed."""
        return sum(map(len, self.present.values()))

    def corrections(self, run: Run) -> dict[str, dict[Row, int]]:
        """Return the changes that make the inputs of a run as they were before the update."""
        found: dict[str, dict[Row, int]] = {}
        for name, rows in self.present.items():
            now = run.asserted(name)
            changes = {row: 2 * count - 1 for row, count in rows.items() if count != (row in now)}
            if changes:
                found[name] = changes
        return found

    def __str__(self) -> str:
        return f"tick {self.number}: {self.what}"


class UndoHistory:
    """The latest ticks and updates, the newest last."""

    def __init__(self) -> None:
        self._steps: list[TickStep | UpdateStep] = []
        self._rows = 0
        self._end = "no tick or update of this session is left"
        """Why nothing older can be undone."""

    def tick(self, run: Run, given: Mapping[str, Any], result: TickResult | None) -> None:
        """Add the latest tick of a run, with the changes that it was given, and its result if any.

        If each of these rows changed its input, they are kept as they are. Otherwise, the run tells
        which did.
        """
        if result is not None and not result.absent and not result.present and _are_weights(given):
            self._add(TickStep(run.tick, given))
            return
        try:
            changes = {name: run.changed(name).to_dict() for name in given}
        except CircuitError:  # the run does not keep the rows of a large tick
            self._forget(f"tick {run.tick} changed more than {run.kept_changes:,} rows")
            return
        self._add(TickStep(run.tick, {name: rows for name, rows in changes.items() if rows}))

    def update(self, step: UpdateStep, *, complete: bool) -> None:
        """Add an update; one that is not complete has too many rows and ends the history."""
        if complete:
            self._add(step)
        else:
            self._forget(f"tick {step.number} was an update that dropped more than {MAX_ROWS:,} rows")

    def _add(self, step: TickStep | UpdateStep) -> None:
        self._steps.append(step)
        self._rows += step.size
        while len(self._steps) > MAX_STEPS or self._rows > MAX_ROWS:
            oldest = self._steps.pop(0)
            self._rows -= oldest.size
            self._end = f"the history has at most {MAX_STEPS} steps and {MAX_ROWS:,} changed rows"

    def _forget(self, reason: str) -> None:
        self._steps, self._rows, self._end = [], 0, reason

    @property
    def latest(self) -> TickStep | UpdateStep:
        """The newest step. Raises InputError if there is none."""
        if not self._steps:
            raise InputError(f"cannot undo: {self._end}", code="undo-refused")
        return self._steps[-1]

    def drop_latest(self) -> None:
        """Remove the newest step, which is undone."""
        self._rows -= self._steps.pop().size


def _are_weights(given: Mapping[str, Any]) -> bool:
    """Return whether the changes have a weight for each row, and are not the rows of a table."""
    return all(isinstance(rows, dict) for rows in given.values())


def rows_before(run: Run, old: Program, new: Program) -> dict[str, dict[Row, int]] | None:
    """Return by input the rows that an update to another program may change, as `UpdateStep` does.

    These are the facts that only one of the two has, and all rows of the inputs that end. None for
    more than `MAX_ROWS` of the latter.
    """
    found: dict[str, dict[Row, int]] = {}
    for name in old.inputs:
        if name not in new.inputs:
            ending = run.asserted(name)
            if len(ending) > MAX_ROWS:
                return None
            rows = dict.fromkeys(ending.rows(), 1)
        else:
            changed = set(old.facts.get(name, ())) ^ set(new.facts.get(name, ()))
            now = run.asserted(name) if changed else ()
            rows = {row: int(row in now) for row in changed}
        if rows:
            found[name] = rows
    return found
