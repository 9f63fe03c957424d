"""`compile`: the text of a program to a `Program` that can be explained and started."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from dbsp.circuit.graph import Graph
from dbsp.circuit.stage import Stage
from dbsp.compiler.compile_options import CompileOptions
from dbsp.compiler.datalog.circuits.lower import lower, schema_of
from dbsp.compiler.datalog.circuits.program_report import explain
from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.check import check
from dbsp.compiler.datalog.meaning.word_size import WORD_SIZES, range_of
from dbsp.compiler.datalog.plans.join_bodies import Policy
from dbsp.compiler.datalog.plans.merge_aggregates import merge_aggregates
from dbsp.compiler.datalog.plans.normalise import normalise
from dbsp.compiler.datalog.plans.plan import plan
from dbsp.compiler.datalog.plans.read_classes import read_classes
from dbsp.compiler.datalog.plans.steps import RulePlan
from dbsp.compiler.datalog.rewrites import AppliedRewrite, chosen_passes, rewrite
from dbsp.compiler.datalog.rewrites.checked_terms import numbers_rows
from dbsp.compiler.datalog.rewrites.demand import on_demand
from dbsp.compiler.datalog.text.parse import parse
from dbsp.compiler.datalog.text.preprocess import Sources
from dbsp.compiler.datalog.text.report import Report
from dbsp.compiler.planner.statistics import Statistics
from dbsp.compiler.planner.strategy import Strategy
from dbsp.compiler.program_planner import ProgramPlanner, statistics
from dbsp.compiler.why.proof import Proof
from dbsp.compiler.why.refusal import Refusal
from dbsp.compiler.why.session import Progress, WhySession
from dbsp.data.batch import Batch
from dbsp.data.int_ranges import IntRange
from dbsp.data.schema import Schema
from dbsp.data.zset import ZSet
from dbsp.diagnostics import Diagnostic
from dbsp.durable import Store, as_store
from dbsp.errors import CompileError
from dbsp.kernels.arrays import Codes
from dbsp.operators.recursion.modes import Recursion
from dbsp.operators.streams.builder import Circuit
from dbsp.operators.streams.circuit_reader import from_json
from dbsp.runtime.changes import InputChange
from dbsp.runtime.run import Run

MAX_ITERATIONS = 100_000


def compile(
    text_or_path: str | Path,
    strategy: Strategy | str = Strategy.AUTO,
    *,
    macros: Mapping[str, str | float] | None = None,
    include: Iterable[str | Path] = (),
    rewrites: bool | Iterable[str] = True,
    magic: bool | Iterable[str] = False,
    functors: Mapping[str, Callable[..., Any]] | None = None,
    recursion: Recursion | str = Recursion.AUTO,
    word_size: int | None = None,
) -> Program:
    """Compiles a Datalog program, given as text or as the path of a file.

    A `Path` is a file, and so is a string of one line that ends in `.dl`; any other string is the
    program itself. `strategy` says how rules are joined that do not say it themselves by `.plan`:
    "auto" leaves it to the planner, "binary" takes two relations at a time, "wcoj" all that hang
    together at once, by a worst-case optimal multi-way join.

    `macros` are defined before the text is read, as by `#define NAME value`: a value is program text, so
    one that is to be a string has quotes in it. `#include` looks for files where the file that includes
    them stands, the present folder for a text, and then in the folders of `include`.

    `rewrites` are the passes of `compiler.datalog.rewrites` to apply to the rules: all, none or those named.
    They change what a run costs and never what it hands out. `magic` are relations that are to be derived on
    demand, only as far as the outputs need them: all for which that is possible, or those named. (A row that
    is not derived is no error either, if one would come of it.)

    `functors` are the Python functions for the functors that the program declares, `.functor f(...)`, by
    name. Each must be a function of its arguments alone: a row is computed again when it is retracted, and
    results are remembered.
    `recursion` is how recursive relations are evaluated: "auto" is insert-only until something is deleted,
    and incremental from then on except for ticks that cost more than to begin anew; "incremental" and
    "insert-only" are these alone, the latter begins anew at every deletion (see `operators.recursion`).

    `word_size` is the number of bits of a number, 64 unless a pragma says otherwise. What leaves 64 bits is
    an error; in 32, which Soufflé has by default, arithmetic wraps around as it does there.

    Raises CompileError with every error found in the program, each with its line, a caret and a hint;
    also when the file cannot be read. ValueError for an unknown strategy, rewriting,
    mode of recursion or word size.

    >>> program = compile('''
    ...     .decl edge(x: number, y: number)
    ...     .decl path(x: number, y: number)
    ...     .input edge
    ...     .output path
    ...     path(x, y) :- edge(x, y).
    ...     path(x, z) :- path(x, y), edge(y, z).
    ... ''')
    >>> run = program.start(initial={"edge": [(1, 2), (2, 3)]})
    >>> run.view("path").rows()
    [(1, 2), (1, 3), (2, 3)]
    >>> run.step({"edge": {(2, 3): -1}})["path"].to_dict()
    {(1, 3): -1, (2, 3): -1}
    """
    if word_size not in (None, *WORD_SIZES):
        raise ValueError(f"word_size is 32 or 64, not {word_size!r}")
    options = CompileOptions(
        strategy=Strategy(strategy),
        passes=chosen_passes(rewrites),
        magic=magic if isinstance(magic, bool) else tuple(magic),
        functors=dict(functors or {}),
        recursion=Recursion(recursion),
        word_size=word_size,
    )
    defined = {name: str(value) for name, value in (macros or {}).items()}
    folders = tuple(map(Path, include))
    if isinstance(text_or_path, Path) or ("\n" not in text_or_path and text_or_path.endswith(".dl")):
        path = Path(text_or_path)
        text, file, sources = _read(path), str(text_or_path), Sources(path, folders, defined, word_size or 64)
    else:
        text, file, sources = text_or_path, "<program>", Sources(None, folders, defined, word_size or 64)
    return Program(text, file, sources, options)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise CompileError(f"cannot read {path}: byte {error.start} is not UTF-8 text") from None
    except OSError as error:
        raise CompileError(f"cannot read {path}: {error.strerror}") from None


class Program:
    """A compiled program. It holds no data: `start` makes a run, as many as wanted."""

    def __init__(self, text: str, file: str, sources: Sources, options: CompileOptions) -> None:
        self.text = text
        self.file = file
        self.options = options
        report = Report(file, text)
        self.checked: checked.CheckedProgram = check(
            parse(text, report, sources), report, options.functors, options.word_size
        )
        """The program's meaning: resolved, typed, in strata (see `compiler.datalog.checked`)."""
        self.rewritten: checked.CheckedProgram
        """What is planned and run: rules for the same outputs that cost less (see `datalog.rewrites`)."""
        self.rewrites: tuple[AppliedRewrite, ...]
        """What was changed on the way there, and why."""
        self.rewritten, self.rewrites = rewrite(
            self.checked, options.passes, on_demand(self.checked, options.magic)
        )
        self._all_text = "\0".join(report.sources.values())
        self.plans: dict[int, RulePlan] = self.plans_for(Statistics.none())
        """The plan of every rule, by the rule's number, made by the shape of the rules alone."""
        self._states: weakref.WeakKeyDictionary[Run, WhySession] = weakref.WeakKeyDictionary()

    def plans_for(
        self, statistics: Statistics, rules: Iterable[checked.Rule] | None = None
    ) -> dict[int, RulePlan]:
        """The plan of every rule, or of some, by its number, for data of which these are the counts."""
        policy = Policy(statistics, self.options.strategy)
        chosen = self.rewritten.clauses if rules is None else rules
        equivalences = {name for name, relation in self.relations.items() if relation.equivalence}
        return {
            rule.number: plan(merge_aggregates(read_classes(normalise(rule), equivalences)), policy)
            for rule in chosen
        }

    def circuit_for(self, plans: Mapping[int, RulePlan], max_iterations: int = MAX_ITERATIONS) -> Circuit:
        """The query circuit in which the rules are evaluated by these plans; see `plans_for`."""
        return lower(self.rewritten, plans, Path(self.file).stem, max_iterations, self.options.recursion)

    @property
    def relations(self) -> Mapping[str, checked.Relation]:
        """Every declared relation: columns, directives, position."""
        return self.checked.relations

    def columns(self, relation: str) -> Schema:
        """The columns of a relation as the engine stores them."""
        return schema_of(self.rewritten.relations[relation])

    @property
    def inputs(self) -> dict[str, Schema]:
        """The relations that take changes, and their columns."""
        return {name: schema_of(self.relations[name]) for name in self.checked.inputs}

    @property
    def ranges(self) -> dict[str, dict[str, IntRange]]:
        """By relation, the columns that hold fewer ints than there are of 64 bits, and which."""
        word = self.checked.types.word_size
        return {
            name: {one.name: found for one in relation.attributes if (found := range_of(one.kind, word))}
            for name, relation in self.relations.items()
        }

    @property
    def outputs(self) -> dict[str, Schema]:
        """The relations that hand out deltas, those that are only counted (.printsize) included."""
        names = dict.fromkeys((*self.checked.outputs, *self.checked.sizes))
        return {name: schema_of(self.relations[name]) for name in names}

    @property
    def sizes(self) -> tuple[str, ...]:
        """The relations with a .printsize directive."""
        return self.checked.sizes

    @property
    def facts(self) -> dict[str, list[tuple[Any, ...]]]:
        """The facts written in the program, by relation."""
        found: dict[str, list[tuple[Any, ...]]] = {}
        for fact in self.checked.facts:
            found.setdefault(fact.relation, []).append(fact.row)
        return found

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """What is legal and yet probably a mistake."""
        return self.checked.warnings

    def circuit(self, stage: Stage | str = Stage.QUERY) -> Graph:
        """The circuit of the program in one of its forms: "query", "incremental" or "physical"."""
        return self._query.circuit(stage)

    @cached_property
    def _query(self) -> Circuit:
        return self.circuit_for(self.plans)

    def start(
        self,
        initial: Mapping[str, InputChange] | None = None,
        *,
        max_iterations: int = MAX_ITERATIONS,
        stage: Stage | str = Stage.PHYSICAL,
        plans: Mapping[int, RulePlan] | None = None,
        circuit: Circuit | None = None,
        checkpoint: str | Path | Store | None = None,
    ) -> Run:
        """A new run of the program.

        The program's facts and the `initial` changes are its first tick, which has happened when
        this returns (there is none when there is nothing to do); a fact may be retracted later like
        any other row. A tick in which a recursion takes more than `max_iterations` iterations raises
        IterationLimitError. `stage` says which form of the circuit is run (see `circuit`); the slow
        "query" recomputes everything in every tick and is there to check the others against.

        Rules of three atoms or more over inputs are planned for the counts of the first tick, except where
        all of a body is one cyclic core: that is joined at once, which is never far off. All rules are
        planned again whenever `run.replan()` is called. `plans` are other plans to begin with, such as
        those of `plans_for`; `circuit` is a query circuit of this program, such as one of `circuit_for` to
        which other inputs and outputs were bound; it is run as it is and not planned again.

        With a `checkpoint`, a folder, every tick is durable when `step` returns, and a run started on
        the same folder goes on after the last of them: then there is no first tick again, and `initial`
        is left alone (see `dbsp.durable`). Raises CheckpointError.
        """
        planner = None
        # Rows that are numbered keep their numbers, so the circuit keeps its plans.
        fixed = any(map(numbers_rows, self.rewritten.rules))
        if circuit is None and Stage(stage) is Stage.PHYSICAL and not fixed:
            planner = ProgramPlanner(self, self.plans if plans is None else plans, max_iterations)
        if circuit is None and plans is None and max_iterations == MAX_ITERATIONS:
            circuit = self._query
        elif circuit is None:
            circuit = self.circuit_for(self.plans if plans is None else plans, max_iterations)
        store = as_store(checkpoint)
        run = circuit.start(stage) if store is None else self._durable(circuit, stage, store)
        run.planner = planner
        run.ranges = {name: found for name, found in self.ranges.items() if name in run.inputs}
        if run.tick:
            if planner is not None:
                planner.restored = True
            return run
        try:
            return self._loaded(run, initial, planner if plans is None else None)
        except BaseException:
            if store is not None:
                store.close()
            raise

    def counted(
        self, initial: Mapping[str, InputChange] | None = None, *, max_iterations: int = MAX_ITERATIONS
    ) -> Statistics:
        """The counts of all relations of the rules, derived ones included, over the facts and these changes.

        They come from a run in which every relation is an output. Costs what starting one costs.
        """
        derived = (name for stratum in self.rewritten.strata for name in stratum.relations)
        names = tuple(dict.fromkeys((*self.rewritten.inputs, *derived)))
        everything = replace(self.rewritten, outputs=names, sizes=())
        run = self._loaded(lower(everything, self.plans, self.file, max_iterations).start(), initial)

        def rows(name: str) -> Codes | None:
            return run.view(name).batch.rows if name in names else None

        return statistics(self, run, rows)

    def _loaded(
        self, run: Run, initial: Mapping[str, InputChange] | None, planner: ProgramPlanner | None = None
    ) -> Run:
        """The run after its first tick, if there is anything to do in it, planned for the rows of it."""
        for name, rows in self.facts.items():
            run.input(name).insert(rows)
        if not (initial or self.facts or self._has_constants):
            return run
        staged = run.prepare(initial)
        if planner is not None:
            proposal = planner.propose_to_begin(run, lambda name: _inserted(staged.get(name)))
            if proposal is not None:
                run.switch_to(proposal)
                planner.adopt(proposal)
        run.step_staged(staged)
        run.record_sizes()
        return run

    def _durable(self, circuit: Circuit, stage: Stage | str, store: Store) -> Run:
        """A run that is where the checkpoint is, and goes on writing it."""
        word = "" if self.checked.types.word_size == 64 else "\0words of 32 bits"
        query = hashlib.sha256((self._all_text + word).encode(errors="surrogatepass")).hexdigest()
        store.check(query)
        # The circuit is taken as it was: by now another plan might be chosen.
        if store.circuit is None:
            run = circuit.start(stage)
        else:
            run = Run(from_json(store.circuit, self.options.functors))
        store.attach(run, query)
        return run

    def why(self, run: Run, relation: str, row: tuple[Any, ...], *, depth: int | None = None) -> Proof | None:
        """A proof that a row is in a relation of a run, None if it is not there.

        The proof has the smallest height there is: the fewest rules on the longest way from the row down to
        rows that were put in. `depth` is how many rows down it is followed (all by default).

        The first question after a tick derives all relations that the row depends on anew from the present
        inputs, which costs what starting the program over them costs; further ones cost the proof alone.
        Raises InputError for an unknown relation or a row that does not fit.

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

        >>> program = compile(".decl edge(x: number, y: number) .input edge .output edge")
        >>> run = program.start({"edge": [(1, 2), (2, 3)]})
        >>> program.query(run, "edge(x, y), edge(y, z), n = count : { edge(_, _) }").rows()
        [(1, 2, 3, 2)]
        """
        return self.state(run).ask(body)

    def state(self, run: Run, progress: Progress | None = None) -> WhySession:
        """What a run of the program holds now: every relation, proofs of rows, answers to questions.

        `progress` is told of the rounds and rows so far while relations are derived anew.
        """
        state = self._states.get(run)
        if state is None or not state.current:
            state = self._states[run] = WhySession(self.checked, run)
        state.progress = progress
        return state

    def explain(self, run: Run | None = None, plans: Mapping[int, RulePlan] | None = None) -> str:
        """How the program is evaluated, in words.

        Strata, rules with their positions, the steps of each; of every join whether it is acyclic, how
        many rows it makes at most, how it is chosen to be made and in which order the changes of each
        atom bind the variables; traces and who reads them. With a `run`, also the prefixes and rows that
        its multi-way joins have met, against those expected, and how large its traces are; the plans are
        those that the run goes by, unless others are given.
        """
        if plans is None:
            planner = None if run is None else run.planner
            plans = planner.plans if isinstance(planner, ProgramPlanner) else self.plans
        circuit = run.graph if run else self.circuit_for(plans).circuit(Stage.PHYSICAL)
        return explain(self.rewritten, plans, circuit, run, self.rewrites)

    @property
    def _has_constants(self) -> bool:
        """Whether a rule without positive atoms makes something hold from the first tick on."""
        return any(not rule.body or _starts_from_nothing(rule) for rule in self.checked.rules)

    def __repr__(self) -> str:
        inputs, outputs = ", ".join(self.inputs), ", ".join(self.outputs)
        return f"<program {self.file}: {len(self.checked.rules)} rules, ({inputs}) -> ({outputs})>"


def _inserted(batch: Batch | None) -> Codes | None:
    """The rows that a change inserts."""
    return None if batch is None else batch.rows[batch.weights > 0]


def _starts_from_nothing(rule: checked.Rule) -> bool:
    return not any(isinstance(literal, checked.Atom) for literal in rule.body)
