"""Hand-written Python for one pattern in a graph: sets of neighbours."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator

from benchmarks.changes import Change, Codes, Row
from benchmarks.contest import Outcome, checksum


class Matches(ABC):
    """The set of all matches; a changed edge adds or removes the matches that contain it."""

    def load(self, base: dict[str, Codes]) -> None:
        self.out: defaultdict[int, set[int]] = defaultdict(set)
        self.into: defaultdict[int, set[int]] = defaultdict(set)
        edges = base["e"].tolist()
        for tail, head in edges:
            self.out[tail].add(head)
            self.into[head].add(tail)
        self.found: set[Row] = {match for tail, head in edges for match in self.starting(tail, head)}

    def prepare(self, changes: list[Change]) -> list[Change]:
        return changes

    def tick(self, changes: list[Change]) -> None:
        for _, sign, (tail, head) in changes:
            if sign > 0:
                self.out[tail].add(head)
                self.into[head].add(tail)
                self.found.update(self.through(tail, head))
            else:
                self.found.difference_update(self.through(tail, head))
                self.out[tail].remove(head)
                self.into[head].remove(tail)

    def outcome(self) -> Outcome:
        return checksum(list(self.found))

    @abstractmethod
    def starting(self, a: int, b: int) -> Iterator[Row]:
        """Yield the matches that start with these two nodes."""

    @abstractmethod
    def through(self, u: int, v: int) -> Iterator[Row]:
        """Yield the matches that contain the edge from u to v; some more than once."""


class Triangles(Matches):
    def starting(self, a: int, b: int) -> Iterator[Row]:
        return ((a, b, c) for c in self.out[a] & self.out[b])

    def through(self, u: int, v: int) -> Iterator[Row]:
        yield from ((u, v, c) for c in self.out[u] & self.out[v])
        yield from ((a, u, v) for a in self.into[u] & self.into[v])
        yield from ((u, b, v) for b in self.out[u] & self.into[v])


class Cycles(Matches):
    def starting(self, a: int, b: int) -> Iterator[Row]:
        before = self.into[a]
        return ((a, b, c, d) for c in self.out[b] for d in self.out[c] & before)

    def through(self, u: int, v: int) -> Iterator[Row]:
        for a, b, c, d in self.starting(u, v):
            yield from ((a, b, c, d), (b, c, d, a), (c, d, a, b), (d, a, b, c))


class Cliques(Matches):
    def starting(self, a: int, b: int) -> Iterator[Row]:
        after = self.out[a] & self.out[b]
        return ((a, b, c, d) for c in after for d in self.out[c] & after)

    def through(self, u: int, v: int) -> Iterator[Row]:
        """Place each of the two other nodes before u, between u and v, or after v."""
        out = self.out
        before, between, after = self.into[u] & self.into[v], out[u] & self.into[v], out[u] & out[v]
        for a in before:
            yield from ((a, b, u, v) for b in out[a] & before)
            yield from ((a, u, c, v) for c in out[a] & between)
            yield from ((a, u, v, d) for d in out[a] & after)
        for b in between:
            yield from ((u, b, c, v) for c in out[b] & between)
            yield from ((u, b, v, d) for d in out[b] & after)
        for c in after:
            yield from ((u, v, c, d) for d in out[c] & after)


class Diamonds(Matches):
    def starting(self, a: int, b: int) -> Iterator[Row]:
        both = self.out[a] & self.out[b]
        return ((a, b, c, d) for c in both for d in both)

    def through(self, u: int, v: int) -> Iterator[Row]:
        """Use the edge as the shared one, or as a side of one or both triangles."""
        yield from self.starting(u, v)
        for b in self.out[u] & self.into[v]:
            yield from self.tips(u, b, v)
        for a in self.into[u] & self.into[v]:
            yield from self.tips(a, u, v)

    def tips(self, a: int, b: int, c: int) -> Iterator[Row]:
        for d in self.out[a] & self.out[b]:
            yield from ((a, b, c, d), (a, b, d, c))


MATCHES: dict[str, type[Matches]] = {
    "w2": Triangles,
    "w5": Cycles,
    "clique4": Cliques,
    "diamond": Diamonds,
}
