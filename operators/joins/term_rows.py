"""What the delta terms of a multi-way join report (`Run.join_terms`)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TermRows:
    """What one delta term of a multi-way join has met since its step was made.

    `atom` is the input whose changes it takes, `changed` counts their rows. `levels` has for each
    variable that the term binds, in order, how many prefixes were bound up to it.
    """

    atom: int
    changed: int
    levels: tuple[tuple[str, int], ...]
