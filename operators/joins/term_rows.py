"""The counts that the delta terms of a multi-way join report (`Run.join_terms`)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TermRows:
    """The rows and prefixes that one delta term of a multi-way join has processed so far.

    `atom` is the input of its changes, `changed` the number of changed rows. `levels` has, for each
    variable in binding order, the number of prefixes bound up to this variable.
    """

    atom: int
    changed: int
    levels: tuple[tuple[str, int], ...]
