"""Hand-written Python for one query: dictionaries and sets.

The baseline for the cost of generality, and an independent result for comparison.
"""

from __future__ import annotations

from collections import defaultdict

from benchmarks.changes import Change, Codes
from benchmarks.contest import Outcome, checksum
from benchmarks.hand_patterns import MATCHES, Matches


class Regions:
    """w1: totals per customer and per region."""

    def load(self, base: dict[str, Codes]) -> None:
        self.region: dict[int, int] = dict(map(tuple, base["customers"].tolist()))
        self.customers: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0])
        self.totals: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0])
        for _, customer, amount in base["orders"].tolist():
            had = self.customers[customer]
            had[0] += 1
            had[1] += amount
        for customer, (orders, amount) in self.customers.items():
            self.add(self.region.get(customer), orders, amount)

    def add(self, region: int | None, orders: int, amount: int) -> None:
        if region is not None:
            total = self.totals[region]
            total[0] += orders
            total[1] += amount

    def prepare(self, changes: list[Change]) -> list[Change]:
        return changes

    def tick(self, changes: list[Change]) -> None:
        for relation, sign, row in changes:
            if relation == "orders":
                _, customer, amount = row
                had = self.customers[customer]
                had[0] += sign
                had[1] += sign * amount
                self.add(self.region.get(customer), sign, sign * amount)
            else:
                customer, region = row
                orders, amount = self.customers[customer]
                self.add(region, sign * orders, sign * amount)
                if sign > 0:
                    self.region[customer] = region
                elif self.region.get(customer) == region:
                    del self.region[customer]

    def outcome(self) -> Outcome:
        return checksum([(region, n, amount) for region, (n, amount) in self.totals.items() if n])


class Closure:
    """w3: the nodes that each node reaches.

    An inserted edge extends the sets of all nodes that reach its tail; a deleted edge makes these
    nodes search again.
    """

    def load(self, base: dict[str, Codes]) -> None:
        self.out: defaultdict[int, set[int]] = defaultdict(set)
        self.into: defaultdict[int, set[int]] = defaultdict(set)
        for tail, head in base["e"].tolist():
            self.out[tail].add(head)
            self.into[head].add(tail)
        self.reached = {node: search(self.out, node) for node in list(self.out)}

    def prepare(self, changes: list[Change]) -> list[Change]:
        return changes

    def tick(self, changes: list[Change]) -> None:
        out, into, reached = self.out, self.into, self.reached
        for _, sign, (tail, head) in changes:
            sources = search(into, tail) | {tail}
            if sign > 0:
                out[tail].add(head)
                into[head].add(tail)
                gained = search(out, head) | {head}
                for source in sources:
                    reached.setdefault(source, set()).update(gained)
            else:
                out[tail].discard(head)
                into[head].discard(tail)
                for source in sources:
                    reached[source] = search(out, source)

    def outcome(self) -> Outcome:
        return checksum([(tail, head) for tail, heads in self.reached.items() for head in heads])


def search(neighbours: dict[int, set[int]], start: int) -> set[int]:
    """Return the nodes reachable in one or more steps."""
    found: set[int] = set()
    todo = [start]
    while todo:
        fresh = neighbours.get(todo.pop(), set()) - found
        found |= fresh
        todo.extend(fresh)
    return found


def create(workload: str) -> Regions | Closure | Matches:
    if workload in MATCHES:
        return MATCHES[workload]()
    return Regions() if workload == "w1" else Closure()
