"""Groups of subscriptions that follow the same relation, or queries of the same form."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from dbsp.data.batch import Batch
from dbsp.runtime.live_graph import Source
from dbsp.runtime.live_part import LivePart
from dbsp.runtime.live_parts import Changes, LiveParts, rows_by_prefix
from dbsp.runtime.run_subscription import RunSubscription


class SubscriptionGroup:
    """Subscriptions by their constants, which are the first columns of the rows of the group.

    A group follows a source, or the output of the part of a form of queries.
    """

    def __init__(self, key: Hashable, followed: Source | LivePart, width: int) -> None:
        self.key = key
        self.followed = followed
        self.members: dict[tuple[int, ...], list[RunSubscription]] = {}
        self._width = width

    def add(self, member: RunSubscription) -> None:
        """Add a subscription, at the place that it has in this group."""
        self.members.setdefault(member.place[1], []).append(member)

    def remove(self, member: RunSubscription) -> bool:
        """Remove a subscription; return whether others with its constants are left."""
        constants = member.place[1]
        self.members[constants].remove(member)
        if not self.members[constants]:
            del self.members[constants]
        return constants in self.members

    def subscriptions(self) -> Iterator[RunSubscription]:
        """Yield all subscriptions of the group."""
        for members in self.members.values():
            yield from members

    def change(self, changes: Changes) -> Batch | None:
        """Return the change of the rows of the group; None if there is none."""
        if isinstance(self.followed, Source):
            return changes.deltas.get(self.followed)
        if self.key not in changes.stepped:
            return None
        delta = self.followed.delta(self.followed.live.output)
        return delta if delta is not None and len(delta) else None

    def split(self, change: Batch) -> Iterator[tuple[Sequence[RunSubscription], Batch]]:
        """Yield the subscriptions that a change concerns, each with its rows. O(change)."""
        for constants, rows in self.pieces(change):
            found = self.members.get(constants)
            if found is not None:
                yield found, rows

    def pieces(self, rows: Batch) -> Iterator[tuple[tuple[int, ...], Batch]]:
        """Yield rows of the group by their constants, without these. O(rows)."""
        if self._width:
            yield from rows_by_prefix(rows, self._width)
        else:
            yield (), rows

    def views(self, parts: LiveParts) -> dict[tuple[int, ...], Batch]:
        """Return the rows for all constants that have some."""
        if isinstance(self.followed, Source):
            return dict(self.pieces(parts.integral(self.followed)))
        return dict(self.pieces(self.followed.view(self.followed.live.output)))
