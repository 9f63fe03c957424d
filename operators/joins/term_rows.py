"""The counts that the delta terms of a multi-way join report (`Run.join_terms`)."""

from __future__ import annotations

from dbsp.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class TermRows:
    """The rows and prefixes that one delta term of a multi-way join has processed so far.

    `atom` is the input of its changes, `changed` the number of changed rows. `levels` has, for each
    variable in binding order, the number of prefixes bound up to this variable.
    """

    atom: int
    changed: int
    levels: tuple[tuple[str, int], ...]

    def __add__(self, other: TermRows) -> TermRows:
        """Return the sum of the counts of the same term in two runs."""
        levels = zip(self.levels, other.levels, strict=True)
        return TermRows(
            self.atom,
            self.changed + other.changed,
            tuple((name, count + more) for (name, count), (_, more) in levels),
        )
