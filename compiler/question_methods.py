"""What a run of a program can be asked: proofs of rows, why rows are missing, and queries."""

from __future__ import annotations

import weakref
from typing import Any

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.why.proof import Proof
from dbsp.compiler.why.refusal import Refusal
from dbsp.compiler.why.session import Progress, WhySession
from dbsp.data.zset import ZSet
from dbsp.runtime.run import Run


class QuestionMethods:
    """The methods of a program about what a run of it holds."""

    def __init__(self, meaning: checked.CheckedProgram) -> None:
        self.checked = meaning
        """The program's meaning: resolved, typed, in strata (see `compiler.datalog.meaning.checked`)."""
        self._states: weakref.WeakKeyDictionary[Run, WhySession] = weakref.WeakKeyDictionary()

    def why(self, run: Run, relation: str, row: tuple[Any, ...], *, depth: int | None = None) -> Proof | None:
        """A proof that a row is in a relation of a run, None if it is not there.

        The proof has the smallest height there is: the fewest rules on the longest way from the row down to
        rows that were put in. `depth` is how many rows down it is followed (all by default).

        The first question after a tick recomputes all relations that the row depends on from the current
        inputs, at the cost of starting the program over them; further questions cost the proof alone.
        Raises InputError for an unknown relation or a row that does not fit.

        >>> from dbsp import compile
        >>> program = compile('''
        ...     .decl edge(x: number, y: number)
        ...     .decl path(x: number, y: number)
        ...     .input edge
        ...     .output path
        ...     path(x, y) :- edge(x, y).
        ...     path(x, z) :- path(x, y), edge(y, z).
        ... ''')
        >>> run = program.start(initial={"edge": [(1, 2), (2, 3)]})
        >>> print(program.why(run, "path", (1, 3)))
        path(1, 3)
        │  <program>:7: path(x, z) :- path(x, y), edge(y, z).
        ├─ path(1, 2)
        │  │  <program>:6: path(x, y) :- edge(x, y).
        │  └─ edge(1, 2)   put in
        └─ edge(2, 3)   put in
        """
        return self.state(run).prover(relation).prove(relation, row, depth)

    def why_not(self, run: Run, relation: str, row: tuple[Any, ...], *, depth: int = 1) -> Refusal | None:
        """Why a row is not in a relation of a run, None if it is there.

        For every rule of the relation, the matches that satisfy as much of it as can be, and what they lack;
        `...` in the row stands for any value. With a `depth` of more than 1 also why rows that they lack are
        not there, and so on. Cost and errors as `why`.
        """
        prover = self.state(run).prover(relation)
        return prover.refute(relation, prover.codes(relation, row), depth)

    def query(self, run: Run, body: str) -> ZSet:
        """The answers to a question about what a run holds now, such as `path(1, x), x > 2`.

        The body of a rule; its columns are the variables that it binds, without those that begin with `_`
        and those of aggregates. All relations may be asked. It is answered by a circuit made for it, which
        reads every row of the relations it names. Raises CompileError, and what evaluating it raises.

        >>> from dbsp import compile
        >>> program = compile(".decl edge(x: number, y: number) .input edge .output edge")
        >>> run = program.start({"edge": [(1, 2), (2, 3)]})
        >>> program.query(run, "edge(x, y), edge(y, z), n = count : { edge(_, _) }").rows()
        [(1, 2, 3, 2)]
        """
        return self.state(run).ask(body)

    def state(self, run: Run, progress: Progress | None = None) -> WhySession:
        """What a run of the program holds now: every relation, proofs of rows, answers to questions.

        `progress` is called with the rounds and rows so far while relations are recomputed.
        """
        state = self._states.get(run)
        if state is None or not state.current:
            state = self._states[run] = WhySession(self.checked, run)
        state.progress = progress
        return state
