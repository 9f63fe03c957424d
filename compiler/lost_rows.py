"""The rows that a run loses by an update: those of inputs that the new program does not have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from dbsp.runtime.run import Run


class ProgramWithFacts(Protocol):
    """The inputs and the facts of a program."""

    @property
    def inputs(self) -> Mapping[str, Any]: ...

    @property
    def facts(self) -> Mapping[str, list[tuple[Any, ...]]]: ...


def lost_rows(run: Run, old: ProgramWithFacts, new: ProgramWithFacts) -> dict[str, int]:
    """Return by dropped input the number of its rows that are not facts of the old program."""
    found: dict[str, int] = {}
    for name in old.inputs:
        if name not in new.inputs:
            rows = run.asserted(name)
            facts = sum(row in rows for row in dict.fromkeys(old.facts.get(name, ())))
            if len(rows) > facts:
                found[name] = len(rows) - facts
    return found
