"""What a run holds now, relation by relation, whether its circuit keeps it or not."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np

from dbsp.compiler.datalog.circuits.lower import lower_program
from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.dependencies import needed_by
from dbsp.compiler.datalog.plans.join_bodies import Policy
from dbsp.compiler.datalog.plans.merge_aggregates import merge_aggregates
from dbsp.compiler.datalog.plans.normalise import normalise
from dbsp.compiler.datalog.plans.plan import plan
from dbsp.compiler.planner.statistics import Statistics
from dbsp.compiler.planner.strategy import Strategy
from dbsp.compiler.why.fact_table import FactTable
from dbsp.compiler.why.heights import heights
from dbsp.compiler.why.proof import Proof
from dbsp.compiler.why.prove import Prover
from dbsp.compiler.why.question import ANSWER, Question, place_in_question, read_goal, read_question
from dbsp.compiler.why.refusal import Refusal
from dbsp.compiler.why.whole_rules import NUMBERED, wholes, without_rules
from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.schema import suggestion
from dbsp.data.zset import ZSet
from dbsp.errors import DbspError, InputError
from dbsp.runtime.run import Run

MAX_ITERATIONS = 2**62
"""What the run has derived ends, and so does the same once more."""

Progress = Callable[[int, int], None]


class WhySession:
    """The relations of a program as they are after one tick of a run.

    Outputs and inputs are those of the run. Every other relation, and the heights of all rows, are derived
    anew from the inputs by the rules as they were written, when they are first asked for: that costs what
    starting the run over the present inputs costs, and is kept for as long as the state.
    """

    def __init__(self, program: checked.CheckedProgram, run: Run) -> None:
        missing = [name for name in program.inputs if name not in run.inputs]
        if missing:
            raise InputError(f"this is no run of the program: it has no input '{missing[0]}'")
        self.program = program
        self._run = weakref.ref(run)
        self.tick = run.tick
        self._interner = Interner()
        self._wholes = wholes(program)
        self._plain = without_rules(program, self._wholes)
        self._tables: dict[str, FactTable] = {}
        self._prover: Prover | None = None
        self._recomputed: Run | None = None
        self.progress: Progress | None = None
        """Called with the rounds and rows so far while relations are derived."""
        self._with_rules = {rule.head.relation for rule in program.rules}

    @property
    def run(self) -> Run:
        """The run; a state does not keep it alive."""
        run = self._run()
        if run is None:
            raise InputError("the run of this state is gone")
        return run

    @property
    def current(self) -> bool:
        """Whether this is still what the run holds."""
        return self.run.tick == self.tick

    def rows(self, name: str) -> ZSet:
        """The rows of any relation of the program."""
        self._check(name)
        if name in self.run.outputs:
            return self.run.view(name)
        if name not in self._with_rules and self.program.relations[name].is_plain:
            return self.run.asserted(name)
        table = self.tables([name])[name]
        return ZSet.wrap(table.schema, self._interner, Batch(table.rows, np.ones(len(table), np.int64)))

    def tables(self, names: Iterable[str]) -> Mapping[str, FactTable]:
        """Tables of these relations and all that they depend on."""
        if not self._tables.keys() >= set(names):
            # The rules of a relation taken as a whole are looked at, too, for rows that are not there.
            wanted = needed_by(self.program.rules, [*self._tables, *names])
            self._prover = None
            self._tables = heights(self._plain, self._put_in, self._interner, wanted, self._report_progress)
        return self._tables

    def _put_in(self, name: str) -> ZSet:
        """What was put into an input, or the rows of a relation that is taken as a whole."""
        if name not in self._wholes:
            return self.run.asserted(name)
        if name in self.run.outputs:
            return self.run.view(name)
        if self._wholes[name] == NUMBERED:
            raise InputError(
                f"the numbers that autoinc() gave are not kept of '{name}', which is no output; "
                "give it an .output directive to ask for its rows"
            )
        if self._recomputed is None:
            everything = replace(self.program, outputs=tuple(self._wholes), sizes=())
            policy = Policy(Statistics.none(), Strategy.AUTO)
            plans = {
                rule.number: plan(merge_aggregates(normalise(rule)), policy) for rule in self.program.clauses
            }
            self._recomputed = lower_program(everything, plans, "again", MAX_ITERATIONS).start()
            self._recomputed.step({relation: self.run.asserted(relation) for relation in self.program.inputs})
        return self._recomputed.view(name)

    def _report_progress(self, rounds: int, rows: int) -> None:
        if self.progress is not None:
            self.progress(rounds, rows)

    def prover(self, relation: str) -> Prover:
        """What proves rows of a relation."""
        self._check(relation)
        tables = self.tables([relation])
        if self._prover is None:
            self._prover = Prover(self.program, tables, self._interner, self._wholes)
        return self._prover

    def _check(self, name: str) -> None:
        if name not in self.program.relations:
            raise InputError(f"there is no relation '{name}'{suggestion(name, self.program.relations)}")

    def why(self, goal: str, *, limit: int, depth: int | None = None) -> list[Proof]:
        """Proofs of rows that a goal such as `path(1, _)` fits, at most so many; those of small height first.

        Raises CompileError for a goal that is no single atom of the program.
        """
        atom, rule = read_goal(self.program, goal)
        prover = self.prover(atom.relation)
        found = (prover.prove(atom.relation, row, depth) for row in prover.matching(rule, limit))
        return [proof for proof in found if proof is not None]

    def why_not(self, goal: str, *, depth: int = 1) -> Refusal | None:
        """Why no row fits a goal; None if one does. Raises as `why`."""
        atom, rule = read_goal(self.program, goal)
        return self.prover(atom.relation).refuse(rule, depth)

    def ask(self, body: str) -> ZSet:
        """The answers to a question; see `Program.query`."""
        question = read_question(self.program, body)
        try:
            return self.answer(question)
        except DbspError as error:
            place_in_question(error, body)
            raise

    def answer(self, question: Question) -> ZSet:
        """The answers to a question, by a circuit made for it. Raises what a tick of it raises."""
        used = {name: self.program.relations[name] for name in question.relations}
        rows = {name: self.rows(name) for name in used}
        policy = Policy(Statistics.none(), Strategy.AUTO)
        plans = {rule.number: plan(merge_aggregates(normalise(rule)), policy) for rule in question.rules}
        question_program = replace(
            self.program,
            relations={**used, ANSWER: question.answer},
            facts=(),
            rules=question.rules,
            strata=(checked.Stratum((ANSWER,), question.rules, False),),
            inputs=tuple(used),
            outputs=(ANSWER,),
            sizes=(),
        )
        run = lower_program(question_program, plans, "question", 1).start()
        run.step({name: zset for name, zset in rows.items() if zset})
        return run.view(ANSWER)
