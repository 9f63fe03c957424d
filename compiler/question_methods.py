"""Questions about a run of a program: proofs of rows, reasons for missing rows, and queries."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from dbsp.caller_tracebacks import methods_end_at_caller
from dbsp.compiler.datalog.meaning import checked
from dbsp.data.zset import ZSet
from dbsp.errors import wrong_argument
from dbsp.runtime.ticks import Ticks

if TYPE_CHECKING:  # most runs ask nothing
    from dbsp.circuit.graph import Graph
    from dbsp.compiler.why.change_reason import ChangeReason
    from dbsp.compiler.why.proof import Proof
    from dbsp.compiler.why.refusal import Refusal
    from dbsp.compiler.why.session import Progress, WhySession
    from dbsp.runtime.run import Run
    from dbsp.shards.sharded_run import ShardedRun


@methods_end_at_caller
class QuestionMethods:
    """The methods of a program that answer questions about the state of a run."""

    def __init__(self, meaning: checked.CheckedProgram) -> None:
        self.checked = meaning
        """The checked program: resolved, typed, in strata (see
        `compiler.datalog.meaning.checked`)."""
        self._states: weakref.WeakKeyDictionary[Run | ShardedRun, WhySession] = weakref.WeakKeyDictionary()
        self._circuits: dict[tuple[str, ...], Graph] = {}

    def why(
        self, run: Run | ShardedRun, relation: str, row: tuple[Any, ...], *, depth: int | None = None
    ) -> Proof | None:
        """Return a proof that a relation of a run contains a row; None if it does not.

        The proof has the smallest possible height: the fewest rules on the longest path from the
        row down to an input fact. The first question after a tick recomputes all relations that the
        row depends on, from the current inputs. This costs as much as starting the program on them.
        Later questions cost the proof alone. Of a sharded run, the inputs of the program are
        gathered in this process.

        Parameters:
            run: a run of this program.
            relation: the name of a relation, which need not be an output.
            row: the values of the row, in the order of the columns.
            depth: the number of rules to follow from the row down; by default all.

        Returns:
            A proof tree, or None if the row is missing (see `why_not`). `print(proof)` draws it.

        Raises:
            InputError: the relation is unknown, the row does not fit its columns, or the run
                belongs
                to another program.

        Examples:
            >>> program = compile('''
            ...     .decl edge(x: number, y: number)
            ...     .decl path(x: number, y: number)
            ...     .input edge
            ...     .output path
            ...     path(x, y) :- edge(x, y).
            ...     path(x, z) :- path(x, y), edge(y, z).
            ... ''')
            >>> run = program.start({"edge": [(1, 2), (2, 3)]})
            >>> print(program.why(run, "path", (1, 3)))
            path(1, 3)
            │  <program>:7: path(x, z) :- path(x, y), edge(y, z).
            ├─ path(1, 2)
            │  │  <program>:6: path(x, y) :- edge(x, y).
            │  └─ edge(1, 2)   input fact
            └─ edge(2, 3)   input fact
        """
        if depth is not None:
            _expect_depth(depth)
        return self.state(run).prover(relation).prove(relation, row, depth)

    def why_not(
        self, run: Run | ShardedRun, relation: str, row: tuple[Any, ...], *, depth: int = 1
    ) -> Refusal | None:
        """Explain why a relation of a run does not contain a row; return None if it does.

        For every rule of the relation, the explanation shows the matches that satisfy as many
        literals as possible, and the literals that fail. The cost is that of `why`.

        Parameters:
            run: a run of this program.
            relation: the name of a relation, which need not be an output.
            row: the values of the row, in the order of the columns; `...` matches any value.
            depth: with 2 or more, also explain the missing rows of the matches, down to this depth.

        Returns:
            The explanation, or None if a row matches (see `why`). `print` shows it.

        Raises:
            InputError: the relation is unknown, the row does not fit its columns, or the run
                belongs
                to another program.

        Examples:
            >>> program = compile('''
            ...     .decl edge(x: number, y: number) .input edge
            ...     .decl loop(x: number) .output loop
            ...     loop(x) :- edge(x, y), edge(y, x).
            ... ''')
            >>> run = program.start({"edge": [(1, 2)]})
            >>> print(program.why_not(run, "loop", (1,)))
            loop(1)   is missing
               <program>:4: loop(x) :- edge(x, y), edge(y, x).
                  + edge(1, 2)
                  - edge(2, 1)   is missing
        """
        _expect_depth(depth)
        prover = self.state(run).prover(relation)
        return prover.refute(relation, prover.codes(relation, row), depth)

    def why_changed(
        self, run: Run | ShardedRun, relation: str, row: tuple[Any, ...], *, depth: int | None = None
    ) -> ChangeReason:
        """Explain why the latest tick of a run inserted or retracted a row, or why it did not.

        For an inserted row, the reason is a proof of minimal height in the state after the tick,
        with the premises that the tick changed: input facts, other rows, negations that became true
        and aggregates with another value. For a retracted row, it is a premise that each of its
        derivations lost, and the refusal of `why_not`: no other derivation is left. Each changed
        premise is explained down to changes of inputs. Of several explanations, the one with the
        fewest input changes is chosen, among up to 2,000 derivations.

        The first question after a tick recomputes the relations that the row depends on twice: from
        the inputs after the tick and from those before it, which are the inputs without the changes
        of the tick. This costs twice as much as the first `why`. Later questions cost the
        derivations of the rows in the explanation.

        Parameters:
            run: a run of this program. It keeps the changes of its latest tick, if these have at
                most `run.kept_changes` rows.
            relation: the name of a relation, which need not be an output.
            row: the values of the row, in the order of the columns.
            depth: the number of rules to follow from the row down; by default all.

        Returns:
            The reason: its `change` is "inserted", "retracted", "unchanged" or "missing", its
            `changes` are the cited changes of inputs. `print(reason)` draws it.

        Raises:
            InputError: the relation is unknown, the row does not fit its columns, or the run
                belongs to another program.
            CircuitError: the run has made no tick, or does not keep the changes of the latest one:
                they have too many rows, or the run was restored from a checkpoint after the tick.

        Examples:
            >>> program = compile('''
            ...     .decl edge(x: number, y: number)
            ...     .decl path(x: number, y: number)
            ...     .input edge
            ...     .output path
            ...     path(x, y) :- edge(x, y).
            ...     path(x, z) :- path(x, y), edge(y, z).
            ... ''')
            >>> run = program.start({"edge": [(1, 2)]})
            >>> _ = run.step({"edge": [(2, 3)]})
            >>> reason = program.why_changed(run, "path", (1, 3))
            >>> print(reason)
            path(1, 3)   inserted in tick 2
            │  <program>:7: path(x, z) :- path(x, y), edge(y, z).
            ├─ path(1, 2)   unchanged
            └─ edge(2, 3)   input fact, inserted
            >>> reason.changes
            {'edge': {(2, 3): 1}}
        """
        if depth is not None:
            _expect_depth(depth)
        return self.state(run).change_of(relation, row, depth)

    def query(self, run: Run | ShardedRun, body: str) -> ZSet:
        """Return the answers to a question about the current state of a run.

        The question is the body of a rule and may use every relation of the program. It is
        evaluated by a circuit of its own, which reads every row of the relations in the question.

        Parameters:
            run: a run of this program.
            body: the body of a rule, such as `path(1, x), x > 2`.

        Returns:
            A Z-set whose columns are the variables of the body, except those that begin with `_`
            and those inside of aggregates.

        Raises:
            CompileError: the body has an error, such as an unknown relation.
            InputError: the run belongs to another program.
            EvaluationError: an expression has no value for a row.

        Examples:
            >>> program = compile(".decl edge(x: number, y: number) .input edge .output edge")
            >>> run = program.start({"edge": [(1, 2), (2, 3)]})
            >>> program.query(run, "edge(x, y), edge(y, z), n = count : { edge(_, _) }").rows()
            [(1, 2, 3, 2)]
        """
        state = self.state(run)
        if not isinstance(body, str):
            raise wrong_argument("body", "the body of a rule as a text", body)
        return state.ask(body)

    def state(self, run: Run | ShardedRun, progress: Progress | None = None) -> WhySession:
        """Return a session of questions about the current state of a run.

        `progress` receives the rounds and rows so far while relations are recomputed.
        """
        if not isinstance(run, Ticks):
            raise wrong_argument("run", "a run of this program", run)
        state = self._states.get(run)
        if state is None or not state.current:
            from dbsp.compiler.why.session import WhySession

            state = self._states[run] = WhySession(self.checked, run, circuits=self._circuits)
        state.progress = progress
        return state


def _expect_depth(depth: object) -> None:
    """Raise ArgumentError unless the depth of an explanation is an int."""
    if not isinstance(depth, int):
        raise wrong_argument("depth", "a number of rules", depth)
