"""The part of a run that others follow: subscriptions to relations and queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dbsp.caller_tracebacks import ends_at_caller
from dbsp.errors import CircuitError
from dbsp.runtime.live_graph import LivePrograms
from dbsp.runtime.observed_run import ObservedRun
from dbsp.runtime.program_update import ProgramUpdates
from dbsp.runtime.stream_lookup import StreamChoice

if TYPE_CHECKING:
    from dbsp.runtime.run_subscription import Receiver, RunSubscription


class Subscribing(ProgramUpdates, ObservedRun):
    """The part of a run that has subscriptions."""

    @property
    def live_program(self) -> LivePrograms | None:
        """The program that subscriptions ask, if the run has one."""
        return self.program

    @ends_at_caller
    def subscribe(self, target: StreamChoice, to: Receiver = None) -> RunSubscription:
        """Follow a relation or a query: get its rows now, and its delta after every tick.

        The target of a run of a program is the name of any of its relations, which need not be an
        output, or a query: the body of a rule over these relations, as for `Program.query`. The
        target of a circuit built by hand is a stream, or its name.

        The first delta has all current rows. After the commit of each tick that changes some, the
        delta of the tick follows, so the deltas always sum to the view. A function or a queue gets
        them in the thread of the run, before `step` returns; otherwise the subscription keeps them
        for its readers. If a function raises, `step` raises UserFunctionError, and the tick
        remains committed. It must not step the run, nor subscribe.

        Subscriptions share what they can. A relation that the run has costs nothing but its deltas.
        Queries that differ only in the constants of their atoms and comparisons have one circuit,
        whose tick costs the changes that concern one of them. Different queries read the same
        traces. Closing a subscription frees what no other uses. The run's own circuit, its
        checkpoint and its other results stay as they are.

        An error in a query, as by a division, ends the subscriptions to it; the tick takes place. A
        subscription continues after `replan`, and after `update`: then it gets the difference of
        its rows in the two programs. It ends if the new program lacks what it follows. It is not
        part of a checkpoint: subscribe again after a restart.

        Cost: compiling a form of queries that the run does not have yet (milliseconds), and the
        rows of the answer; a relation that no trace of the run has in the right order is sorted
        once. A query with an aggregate, and a relation that the run does not compute, read all rows
        of the relations in them once.

        Parameters:
            target: the name of a relation, a query such as `path(1, x), x > 2`, or a stream.
            to: a function of a delta, or a queue, whose `put` gets the deltas.

        Returns:
            The subscription; `close` ends it.

        Raises:
            InputError: the relation or the stream is unknown; or autoinc() numbers its rows, and
                they are not kept.
            CompileError: the query has an error.
            ArgumentError: `to` is neither a function nor a queue.
            CircuitError: the call comes from a function of the circuit or a receiver of deltas, or
                inside a transaction; or the run does not keep what is needed.
            DbspError: the evaluation of the query fails.

        Examples:
            >>> program = dbsp.compile('''
            ...     .decl edge(x: number, y: number) .input edge
            ...     .decl path(x: number, y: number) .output path
            ...     path(x, y) :- edge(x, y).
            ...     path(x, z) :- path(x, y), edge(y, z).
            ... ''')
            >>> run = program.start({"edge": [(1, 2)]})
            >>> from_one = run.subscribe("path(1, x)", lambda delta: print(delta.to_dict()))
            {(2,): 1}
            >>> _ = run.step({"edge": [(2, 3), (7, 8)]})
            {(3,): 1}
            >>> from_one.close()
        """
        from dbsp.runtime.run_subscription import RunSubscription, expect_receiver, shown
        from dbsp.runtime.subscription_hub import SubscriptionHub  # most runs have no subscriptions

        expect_receiver(to)
        self.refuse_inside_tick("subscribe")
        if self.program is None and isinstance(target, str) and "(" in target:
            raise CircuitError(
                "a query needs a run of a compiled program in its physical stage, and this run was started "
                "from a circuit, from another stage, or with circuit=...; subscribe to a stream, or start it "
                "with dbsp.compile(text).start()",
                code="subscribe-refused",
            )
        self._notify()
        if self._live is None:
            self._live = SubscriptionHub(self)
        new = RunSubscription(self._live, target, shown(target), to)
        self._live.subscribe(new)
        return new

    @property
    def subscriptions(self) -> tuple[RunSubscription, ...]:
        """The subscriptions of the run that have not ended, in the order of their beginnings."""
        return () if self._live is None else tuple(self._live.open)
