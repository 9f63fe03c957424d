"""The relations of a run after its latest tick, also those that its circuit does not keep."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from dbsp.circuit.graph import Graph
from dbsp.circuit.stage import Stage
from dbsp.compiler.datalog.circuits.lower import lower_program
from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.dependencies import needed_by
from dbsp.compiler.datalog.plans.join_bodies import Policy
from dbsp.compiler.datalog.plans.merge_aggregates import merge_aggregates
from dbsp.compiler.datalog.plans.normalise import normalise
from dbsp.compiler.datalog.plans.plan import plan
from dbsp.compiler.why.change_evidence import EvidenceSearch
from dbsp.compiler.why.change_reason import ChangeReason
from dbsp.compiler.why.change_search import ChangeSearch
from dbsp.compiler.why.change_steps import ChangeSteps
from dbsp.compiler.why.fact_table import FactTable
from dbsp.compiler.why.heights import heights
from dbsp.compiler.why.opaque_relations import opaque_relations, selected_relations, without_rules
from dbsp.compiler.why.proof import Proof
from dbsp.compiler.why.prove import Prover
from dbsp.compiler.why.question import (
    ANSWER,
    Question,
    expect_relation,
    place_in_question,
    read_goal,
    read_question,
)
from dbsp.compiler.why.refusal import Refusal
from dbsp.compiler.why.rule_body import Row, pattern_text
from dbsp.compiler.why.run_before import RunBefore
from dbsp.compiler.why.tick_sides import ChangedRow, sides
from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.zset import ZSet
from dbsp.errors import DbspError, InputError
from dbsp.operators.planner.statistics import Statistics
from dbsp.operators.planner.strategy import Strategy
from dbsp.runtime.run import Run

if TYPE_CHECKING:
    from dbsp.shards.sharded_run import ShardedRun

MAX_ITERATIONS = 2**62
"""The run has reached its fixpoints, so recomputing them terminates as well."""

Progress = Callable[[int, int], None]


class WhySession:
    """The relations of a program as they are after one tick of a run.

    Inputs and outputs are read from the run. The first question recomputes all other relations that
    it depends on, and the heights of all rows, from the current inputs by the rules as written.
    This costs as much as starting the run on the current inputs. Later questions reuse the result.
    """

    def __init__(
        self,
        program: checked.CheckedProgram,
        run: Run | ShardedRun | RunBefore,
        interner: Interner | None = None,
        circuits: dict[tuple[str, ...], Graph] | None = None,
    ) -> None:
        missing = [name for name in program.inputs if name not in run.inputs]
        if missing:
            raise InputError(
                f"the run belongs to another program: it has no input '{missing[0]}'",
                code="different-program",
            )
        self.program = program
        self._run = weakref.ref(run)
        self.tick = run.tick
        self._interner = Interner() if interner is None else interner
        self._circuits: dict[tuple[str, ...], Graph] = {} if circuits is None else circuits
        """The circuits that recompute relations, which the sessions of a program share."""
        self._opaque = opaque_relations(program)
        self._plain = without_rules(program, self._opaque)
        self._tables: dict[str, FactTable] = {}
        self._prover: Prover | None = None
        self._recomputed: Run | None = None
        self._before: tuple[RunBefore, WhySession] | None = None
        self.progress: Progress | None = None
        """A callback that receives the rounds and rows so far while relations are recomputed."""
        self._with_rules = {rule.head.relation for rule in program.rules}

    @property
    def run(self) -> Run | ShardedRun | RunBefore:
        """The run; a session does not keep it alive."""
        run = self._run()
        if run is None:
            raise InputError(
                "the run of this session no longer exists; keep a reference to the run", code="run-closed"
            )
        return run

    @property
    def current(self) -> bool:
        """Whether the run has made no tick since."""
        return self.run.tick == self.tick

    def rows(self, name: str) -> ZSet:
        """Return the rows of any relation of the program."""
        self._check(name)
        if name in self.run.outputs:
            return self.run.view(name)
        if name not in self._with_rules and self.program.relations[name].is_plain:
            return self.run.asserted(name)
        table = self.tables([name])[name]
        return ZSet.wrap(table.schema, self._interner, Batch(table.rows, np.ones(len(table), np.int64)))

    def tables(self, names: Iterable[str]) -> Mapping[str, FactTable]:
        """Return the tables of these relations and of all their dependencies."""
        if not self._tables.keys() >= set(names):
            # A refusal also tries the rules of an opaque relation, so their bodies need tables.
            known = self._tables.keys() & self.program.relations.keys()
            wanted = needed_by(self.program.clauses, [*known, *names])
            self._prover = None
            self._tables = heights(
                self._plain,
                self._input_rows,
                self._kept_rows,
                self._interner,
                wanted,
                self._report_progress,
                self._circuits,
            )
        return self._tables

    def _input_rows(self, name: str) -> ZSet:
        """Return the facts of an input, or the rows of an opaque relation."""
        if name not in self._opaque:
            return self.run.asserted(name)
        if name in self.run.outputs:
            return self.run.view(name)
        raise self._not_kept(name, f"autoinc() numbers them, and '{name}' is not an output")

    def _not_kept(self, name: str, cause: str) -> InputError:
        return InputError(
            f"the run does not keep the rows of '{name}': {cause}; add '.output {name}' to the program",
            code="rows-not-kept",
        )

    def _kept_rows(self, name: str) -> ZSet:
        """Return the rows of a selected relation, or of one that is recursive through negation."""
        if name in self.run.outputs:
            return self.run.view(name)
        numbered = needed_by(self.program.clauses, [name]) & self._opaque.keys()
        if numbered:
            cause = f"they depend on the numbers of '{min(numbered)}', and '{name}' is not an output"
            raise self._not_kept(name, cause)
        if self._recomputed is None:
            self._recomputed = Run(self._whole_circuit())
            self._recomputed.step({relation: self.run.asserted(relation) for relation in self.program.inputs})
        return self._recomputed.view(name)

    def _whole_circuit(self) -> Graph:
        """Return the circuit of all rules whose outputs are the relations of `_kept_rows`."""
        circuit = self._circuits.get(())
        if circuit is None:
            names = selected_relations(self.program) | self.program.alternating
            everything = replace(self.program, outputs=tuple(sorted(names)), sizes=())
            policy = Policy(Statistics.none(), Strategy.AUTO)
            plans = {
                rule.number: plan(merge_aggregates(normalise(rule)), policy) for rule in self.program.clauses
            }
            again = lower_program(everything, plans, "again", MAX_ITERATIONS)
            circuit = self._circuits[()] = again.runnable(Stage.PHYSICAL)
        return circuit

    def _report_progress(self, rounds: int, rows: int) -> None:
        if self.progress is not None:
            self.progress(rounds, rows)

    def prover(self, relation: str) -> Prover:
        """Return the prover for the rows of a relation."""
        self._check(relation)
        tables = self.tables([relation])
        if self._prover is None:
            self._prover = Prover(self.program, tables, self._interner, self._opaque)
        return self._prover

    def _check(self, name: str) -> None:
        expect_relation(name, self.program.relations)

    def why(self, goal: str, *, limit: int, depth: int | None = None) -> list[Proof]:
        """Return proofs of at most `limit` rows that match a goal such as `path(1, _)`.

        Rows of small height come first. Raises CompileError if the goal is not a single atom of the
        program.
        """
        atom, rule = read_goal(self.program, goal)
        prover = self.prover(atom.relation)
        found = (prover.prove(atom.relation, row, depth) for row in prover.matching(rule, limit))
        return [proof for proof in found if proof is not None]

    def why_not(self, goal: str, *, depth: int = 1) -> Refusal | None:
        """Explain why no row matches a goal; None if a row does. Raises the errors of `why`."""
        atom, rule = read_goal(self.program, goal)
        return self.prover(atom.relation).refuse(rule, depth)

    # --- changes ---------------------------------------------------------------------------------

    def why_changed(self, goal: str, *, limit: int, depth: int | None = None) -> list[ChangeReason]:
        """Return the reasons of at most `limit` rows that match a goal such as `path(1, _)`.

        Rows that the latest tick changed come first, then rows that it did not change. Raises
        CompileError if the goal is not a single atom, CircuitError as `Program.why_changed`.
        """
        atom, rule = read_goal(self.program, goal)
        before, after = self._provers(atom.relation)
        rows_before = dict.fromkeys(before.matching(rule, len(before.tables[atom.relation])))
        rows_after = dict.fromkeys(after.matching(rule, len(after.tables[atom.relation])))
        changed = [row for row in (*rows_after, *rows_before) if (row in rows_after) != (row in rows_before)]
        rows = [*changed, *(row for row in rows_after if row in rows_before)][:limit]
        return [self._reason(atom.relation, row, before, after, depth) for row in rows]

    def change_of(self, relation: str, row: Row, depth: int | None) -> ChangeReason:
        """Return why the latest tick changed a row, or did not; see `Program.why_changed`."""
        return self._reason(relation, row, *self._provers(relation), depth)

    def _provers(self, relation: str) -> tuple[Prover, Prover]:
        """Return the provers of the states before and after the latest tick."""
        self._check(relation)
        through_negation = needed_by(self.program.clauses, [relation]) & self.program.alternating
        if through_negation:
            raise InputError(
                f"'{relation}' depends on '{min(through_negation)}', which is recursive through negation; "
                "a change of such a relation may be a reason of itself, so ask why or why not instead",
                code="undefined-rows",
            )
        after = self.prover(relation)
        if self._before is None:
            run_before = RunBefore(cast("Run | ShardedRun", self.run))
            self._before = run_before, WhySession(self.program, run_before, self._interner, self._circuits)
        run_before, session = self._before
        session.progress = self.progress
        if run_before.tick:
            session.tables([name for name in after.tables if name in self.program.relations])  # at once
            return session.prover(relation), after
        # Nothing was derived before the first tick, not even by rules without atoms.
        nothing = {name: table.empty() for name, table in after.tables.items()}
        return Prover(self.program, nothing, self._interner, self._opaque), after

    def _reason(
        self, relation: str, row: Row, before: Prover, after: Prover, depth: int | None
    ) -> ChangeReason:
        pattern = after.codes(relation, row)
        text = pattern_text(self.program.relations[relation], row)
        if None in pattern:
            raise InputError(f"expected a row without '...', got {text}", code="invalid-row")
        was, is_ = (prover.find(relation, pattern) for prover in (before, after))
        goal = (relation, row)
        if bool(len(was)) == bool(len(is_)):
            if len(is_):
                proof = after.prove(relation, row, depth)
                return ChangeReason(goal, text, self.tick, "unchanged", {}, proof)
            return ChangeReason(goal, text, self.tick, "missing", {}, None, after.refute(relation, pattern))
        first, second = sides(self.program, before, after)
        search = ChangeSearch(EvidenceSearch(self.program, first, second, self.tick == 1))
        changed = ChangedRow(bool(len(is_)), relation, int((is_ if len(is_) else was)[0]))
        steps = ChangeSteps(self.program, search).steps(changed, depth)
        if changed.inserted:
            return ChangeReason(goal, text, self.tick, "inserted", steps)
        return ChangeReason(goal, text, self.tick, "retracted", steps, None, after.refute(relation, pattern))

    # --- queries ---------------------------------------------------------------------------------

    def ask(self, body: str) -> ZSet:
        """Return the answers to a question; see `Program.query`."""
        question = read_question(self.program, body)
        try:
            return self.answer(question)
        except DbspError as error:
            place_in_question(error, body)
            raise

    def answer(self, question: Question) -> ZSet:
        """Evaluate a question by a circuit of its own. Raises the errors of a tick of this
        circuit."""
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
