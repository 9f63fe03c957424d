"""The subscriptions of a run: who follows what, and the deltas of each tick for them.

Subscriptions to the same relation are one group, and so are queries that differ in constants only
(see `dbsp.runtime.live_graph`). A tick computes the change of each group once, and divides it by
the constants. A new subscription adds its constants to its group: one step of one small circuit.

A tick steps the circuits of the subscriptions before its decision, and both become final together.
An error in a query undoes its step, ends its subscriptions, and leaves the tick as it is.

When the run switches to another circuit, or undoes a transaction, the circuits are made again from
the state of the run. After an update, each subscription gets the difference of its rows before and
after it.
"""

from __future__ import annotations

import threading
import warnings
import weakref
from collections import deque
from collections.abc import Hashable
from typing import Protocol, TypeAlias

import numpy as np

from dbsp.data.batch import Batch, combine
from dbsp.data.schema import Schema
from dbsp.data.values import encode_value
from dbsp.data.view import View
from dbsp.data.zset import ZSet
from dbsp.deferred_signals import call_undisturbed
from dbsp.errors import CircuitError, DbspError, expect_present
from dbsp.runtime.live_graph import LivePrograms, LiveQuery, Source
from dbsp.runtime.live_part import LivePart
from dbsp.runtime.live_parts import LiveParts, PartOwner
from dbsp.runtime.run_subscription import RunSubscription
from dbsp.runtime.scope import Scope
from dbsp.runtime.stream_lookup import StreamLookup
from dbsp.runtime.subscription_group import SubscriptionGroup

Delivery: TypeAlias = "tuple[RunSubscription, ZSet | DbspError]"
"""A delta for a subscription, or the error that ends it."""


class SubscribedRun(PartOwner, Protocol):
    """What the subscriptions need of their run."""

    _ticks: int

    @property
    def live_program(self) -> LivePrograms | None:
        """The program of the run, if it has one."""

    def lookup(self) -> StreamLookup: ...

    @property
    def in_work(self) -> bool:
        """Whether a tick, a transaction or other work runs."""

    def recover(self) -> None: ...


class SubscriptionHub:
    """The subscriptions of one run."""

    def __init__(self, run: SubscribedRun) -> None:
        self._run_of = weakref.ref(run)
        self._members: dict[RunSubscription, None] = {}
        """The subscriptions in the order of their beginnings; the rest can be made from them."""
        self._parts = LiveParts(run, run.live_program)
        self._groups: dict[Hashable, SubscriptionGroup] = {}
        """The groups; the key of one that follows a source is the source."""
        self._stale = False
        """Whether the parts and groups have to be made again."""
        self._before: dict[RunSubscription, Batch] | None = None
        """The rows of each subscription before an update that is final."""
        self._sums: dict[Hashable, list[Batch]] = {}
        """By group, the changes of the steps of an open transaction."""
        self._failed: dict[Hashable, DbspError] = {}
        """By key, the errors of parts whose state is not up to date any more."""
        self._computed: deque[Delivery] = deque()
        """What the tick that has been computed is going to deliver."""
        self._ready: dict[int, deque[Delivery]] = {}
        """By tick, the deliveries that have not been made."""
        self._closing: deque[RunSubscription] = deque()
        self._latest = 0
        self._lock = threading.RLock()
        self._thread = threading.get_ident()

    @property
    def _run(self) -> SubscribedRun:
        return expect_present(self._run_of(), "the run of a subscription")

    @property
    def tick(self) -> int:
        """The number of the latest tick of the run."""
        run = self._run_of()
        if run is not None:
            self._latest = run._ticks
        return self._latest

    @property
    def open(self) -> list[RunSubscription]:
        """The subscriptions that have not ended."""
        return [each for each in self._members if not each.closed]

    @property
    def scopes(self) -> list[Scope]:
        """The scopes of the circuits of the subscriptions."""
        return self._parts.scopes

    # --- subscribing ------------------------------------------------------------------------------

    def subscribe(self, new: RunSubscription) -> None:
        """Add a subscription, and deliver its rows. Raises DbspError, and adds nothing."""
        self.refresh()
        self._stale = True  # in case of an interrupt
        try:
            rows = self._attach(new)
        except DbspError:
            self._stale = False
            raise
        self._members[new] = None
        self._stale = False
        try:
            new.receive(self.tick, ZSet.wrap(new.columns, self._run.interner, rows))
        except BaseException:
            self.close(new)
            raise

    def _attach(self, new: RunSubscription) -> Batch:
        """Add a subscription to its group; return its rows. All or nothing for a DbspError."""
        run = self._run
        program = run.live_program
        if isinstance(new.choice, str) and program is not None:
            if not program.has_relation(new.choice):
                return self._attach_query(new, program, program.query_of(new.choice))
            source = Source("relation", new.choice)
            columns = program.columns_of(source)
        else:
            found = run.lookup().find(new.choice)
            source, columns = Source("node", found.node), found.columns
        group = self._groups.get(source)
        try:
            if group is None:
                self._parts.use(run, source, source)
            rows = self._parts.integral(source)
            new.begin(source, (), columns)
        except DbspError:
            if group is None:
                self._parts.disuse(source, source)
            raise
        if group is None:
            group = self._groups[source] = SubscriptionGroup(source, source, 0)
        group.add(new)
        return rows

    def _attach_query(self, new: RunSubscription, program: LivePrograms, query: LiveQuery) -> Batch:
        run = self._run
        constants = tuple(
            encode_value(type_, value, run.interner)
            for type_, value in zip(query.given.types, query.constants, strict=True)
        )
        new.begin(query.form, constants, query.columns)
        group = self._groups.get(query.form)
        if group is not None and constants in group.members:
            rows = group.views(self._parts).get(constants)
        else:
            part = (
                self._parts.add(run, query.form, program.query_graph(query))
                if group is None
                else _expect_part(group.followed)
            )
            group = group or SubscriptionGroup(query.form, part, len(constants))
            try:
                rows = self._change_constants(group, constants, 1)
            except DbspError:
                if query.form not in self._groups:
                    self._parts.remove(query.form)
                raise
            self._groups[query.form] = group
        group.add(new)
        return Batch.empty(query.columns.arity) if rows is None else rows

    def _change_constants(
        self, group: SubscriptionGroup, constants: tuple[int, ...], weight: int
    ) -> Batch | None:
        """Insert or retract constants of a form, between ticks; return the change of their rows."""
        part = _expect_part(group.followed)
        rows = np.array([constants], np.int64)
        try:
            part.step({part.live.given: Batch(rows, np.full(1, weight, np.int64))})
            part.settle()
        except BaseException:
            part.undo()
            raise
        change = part.delta(part.live.output)
        found = None if change is None else dict(group.pieces(change)).get(constants)
        part.merge()
        part.forget()
        return found

    # --- closing ----------------------------------------------------------------------------------

    def close(self, ended: RunSubscription) -> None:
        """End a subscription; free what only it used, or let the next use of the run do that."""
        with self._lock:
            if not ended.closed:
                self._closing.append(ended)  # first: if an interrupt comes, it is closed again
                ended.end(None, self.tick)
            run = self._run_of()
            if run is not None and self._thread == threading.get_ident() and not run.in_work:
                self.refresh()

    def _collect(self) -> None:
        """Free what only closed subscriptions used."""
        while self._closing:
            self._stale = True  # in case of an interrupt
            ended = self._closing[0]
            if ended in self._members:
                try:
                    self._detach(ended)
                except DbspError:
                    return  # the parts are made again at the next use
                del self._members[ended]
            self._closing.popleft()
            self._stale = False

    def _detach(self, ended: RunSubscription) -> None:
        key, constants = ended.place
        group = self._groups.get(key)
        if group is None or ended not in group.members.get(constants, ()) or group.remove(ended):
            return
        if group.members and key not in self._failed:
            self._change_constants(group, constants, -1)
        elif not group.members:
            del self._groups[key]
            self._failed.pop(key, None)
            if isinstance(group.followed, Source):
                self._parts.disuse(group.followed, key)
            else:
                self._parts.remove(key)

    def end(self) -> None:
        """End all subscriptions, because the run has ended."""
        for each in self.open:
            each.end(None, self._latest)
        self._parts.release()

    # --- ticks ------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Prepare for a tick in this thread."""
        with self._lock:
            self._thread = threading.get_ident()
        self.refresh()

    def step(self, final: bool) -> None:
        """Step the parts with what the run has computed; not `final` inside a transaction."""
        self._computed.clear()
        changes = self._parts.step(self._failed)
        self._failed.update(changes.failed)
        touched = (*changes.deltas, *changes.stepped)
        groups = dict.fromkeys(key for key in touched if key in self._groups and key not in self._failed)
        for key in groups:
            change = self._groups[key].change(changes)
            if change is not None:
                self._sums.setdefault(key, []).append(change)
        if not final:
            return
        interner = self._run.interner
        for key, parts in self._sums.items():
            total = parts[0] if len(parts) == 1 else combine([(each.rows, each.weights) for each in parts])
            group = self._groups.get(key)
            if total is None or group is None or key in self._failed:
                continue
            for members, rows in group.split(total):
                for member in members:
                    self._computed.append((member, ZSet.wrap(member.columns, interner, rows)))
        self._sums.clear()
        for key, error in self._failed.items():
            failed = self._groups.get(key)
            for member in () if failed is None else failed.subscriptions():
                self._computed.append((member, error))

    def settle_part(self, release: bool) -> None:
        """Make the step of a part of a transaction final."""
        self._parts.settle()
        self._parts.close_tick(release)

    def commit(self, number: int) -> None:
        """Make the steps of a decided tick final. If this is interrupted, call it again."""
        self._latest = number
        self._parts.settle()
        if self._computed:
            self._ready.setdefault(number, self._computed)

    def close_tick(self, release: bool) -> None:
        """Merge what a committed tick has changed; release its deltas if they are many."""
        self._computed = deque()
        self._parts.close_tick(release)

    def rollback(self) -> None:
        """Undo the steps of an undecided tick. If this is interrupted, call it again."""
        self._parts.undo()
        self._computed.clear()
        self._sums.clear()
        self._failed.clear()

    def repair(self) -> None:
        """Make the traces usable after an interrupt. If this is interrupted, call it again."""
        for scope in self._parts.scopes:
            scope.repair()

    def invalidate(self) -> None:
        """Make the parts again before their next use: the run returns to an earlier state."""
        self._stale = True

    # --- deliveries -------------------------------------------------------------------------------

    @property
    def waiting(self) -> bool:
        """Whether there are deliveries to make."""
        return bool(self._ready)

    def deliver(self) -> list[DbspError]:
        """Make the deliveries of all ticks; return the errors of receivers."""
        failures: list[DbspError] = []
        for number in list(self._ready):
            left = self._ready[number]
            while left:
                member, item = left[0]
                if isinstance(item, ZSet) and member.keeps:
                    member.receive(number, item)  # twice if an interrupt comes, which is once
                    left.popleft()
                    continue
                left.popleft()  # a function is not called again
                if isinstance(item, ZSet):
                    try:
                        member.receive(number, item)
                    except DbspError as error:
                        failures.append(error)
                    continue
                self._closing.append(member)
                member.end(item, number)
                if not member.keeps:
                    warnings.warn(
                        f"the subscription to {member.target} has ended at tick {number}: {item}",
                        UserWarning,
                        stacklevel=2,
                    )
            del self._ready[number]
        self.refresh()
        self._failed.clear()  # everything that depends on these parts has ended
        return failures

    def view(self, member: RunSubscription) -> View:
        """Return all rows of a subscription."""
        run = self._run
        run.recover()
        if not run.in_work:
            self.refresh()
        key, constants = member.place
        rows = self._groups[key].views(self._parts).get(constants)
        columns = member.columns
        return View.wrap(columns, run.interner, Batch.empty(columns.arity) if rows is None else rows)

    # --- other circuits of the run ----------------------------------------------------------------

    def refresh(self) -> None:
        """Make the parts fit the circuit of the run, and free what is not used any more."""
        run = self._run
        if not self._stale and run._scope is not self._parts.scope:
            self._stale = True
            if run.graph is self._parts.graph:
                self._parts.follow(run._scope, run.interner)  # only values were freed
                self._stale = False
        if self._stale:
            self._make_again()
        self._collect()

    def capture(self) -> dict[RunSubscription, Batch]:
        """Return the rows of every subscription."""
        self.refresh()
        found: dict[RunSubscription, Batch] = {}
        for group in self._groups.values():
            views = group.views(self._parts)
            for constants, members in group.members.items():
                rows = views.get(constants)
                for member in members:
                    found[member] = Batch.empty(member.columns.arity) if rows is None else rows
        return found

    def switch(self, before: dict[RunSubscription, Batch]) -> None:
        """Follow another program; `before` are the rows of all subscriptions until now."""
        self._before = before
        self._stale = True

    def _make_again(self) -> None:
        """Make the parts and groups again. If this is interrupted, call it again."""
        run, before = self._run, self._before
        self._groups, self._sums, self._failed = {}, {}, {}
        self._parts.release()  # first: it ends the hold on deltas, which the new parts may begin again
        self._parts = LiveParts(run, run.live_program)
        deliveries: deque[Delivery] = deque()
        members = dict.fromkeys(each for each in self._members if not each.closed)
        for member in members:
            columns = member.columns
            try:
                rows = self._attach(member)
            except DbspError as error:
                deliveries.append((member, error))
                continue
            if member.columns.types != columns.types:
                deliveries.append((member, _changed_columns(member, columns)))
            elif before is not None:
                change = rows.plus(before[member], -1)
                if change:
                    deliveries.append((member, ZSet.wrap(member.columns, run.interner, change)))
        call_undisturbed(self._made_again, members, deliveries)

    def _made_again(self, members: dict[RunSubscription, None], deliveries: deque[Delivery]) -> None:
        self._members = members
        if deliveries:
            self._ready.setdefault(self.tick, deque()).extend(deliveries)
        self._before = None
        self._stale = False
        self._closing.clear()


def _expect_part(followed: Source | LivePart) -> LivePart:
    """Return the part of a form of queries."""
    if not isinstance(followed, LivePart):
        raise AssertionError("a relation has no constants")
    return followed


def _changed_columns(member: RunSubscription, before: Schema) -> CircuitError:
    return CircuitError(
        f"the subscription to {member.target} has ended, because an update changed its columns: expected "
        f"({before.describe()}), got ({member.columns.describe()}); subscribe again",
        code="subscription-ended",
    )
