"""Read the files of a command: a program, its facts, and ticks from change scripts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dbsp.cli.console import loading, remark
from dbsp.cli.functor_files import load_functors
from dbsp.cli.options import Compilation, invalid_option
from dbsp.cli.program_words import declared_types
from dbsp.compiler.compile import compile
from dbsp.compiler.datalog.compiler_passes import REWRITES
from dbsp.compiler.datalog.meaning.directives import fact_source
from dbsp.compiler.datalog.plans.plan_steps import RulePlan
from dbsp.compiler.program import Program
from dbsp.data.table_forms import ListedRows, gathered
from dbsp.diagnostics import did_you_mean
from dbsp.errors import CompileError, DbspError, InputError
from dbsp.io.change_script import ChangeScriptReader, ScriptTick, read_change_script
from dbsp.io.file_rows import FileRows
from dbsp.io.places import Place, read_place
from dbsp.io.table_places import found_beside
from dbsp.runtime.run import Run
from dbsp.runtime.tick_result import TickResult
from dbsp.runtime.ticks import Ticks

if TYPE_CHECKING:
    from dbsp.durable.store import Store
    from dbsp.shards.sharded_run import ShardedRun

# One NAME=VALUE; the value may contain spaces inside quotes or after a backslash.
_MACRO = re.compile(r'(?:[^\s"\\]|\\.|"(?:\\.|[^"\\])*"?)+')


def load_program(path: Path, compilation: Compilation) -> Program:
    """Compile the program; print its warnings on stderr unless the options disable them.

    A macro of `-M` without a value is defined as 1.
    """
    defined: dict[str, str] = {}
    for macro in (macro for option in compilation.macros or () for macro in _MACRO.findall(option)):
        name, equals, value = macro.partition("=")
        defined[name] = value.replace("\\ ", " ") if equals else "1"
    program = _compiled(path, compilation, defined)
    for warning in () if compilation.no_warn else program.warnings:
        remark(warning.render())
    return program


def _compiled(path: Path, compilation: Compilation, defined: Mapping[str, str]) -> Program:
    """Compile the program. An error has the warnings, too, unless the options disable them."""
    try:
        return compile(
            path,
            compilation.strategy,
            macros=defined,
            include=compilation.include or (),
            rewrites=_rewrites(compilation.disabled),
            magic=None if compilation.magic is None else _names(compilation.magic),
            functors=load_functors(compilation.functors or ()),
            recursion=compilation.recursion,
            word_size=None if compilation.word_size is None else int(compilation.word_size),
            legacy=compilation.legacy,
            negation=compilation.negation,
            folders=compilation.folders,
        )
    except CompileError as error:
        if compilation.no_warn:
            raise CompileError([found for found in error.diagnostics if found.severity == "error"]) from None
        raise


def _names(options: Sequence[str] | None) -> list[str]:
    """Return the comma-separated names of all uses of an option."""
    return [name.strip() for option in options or () for name in option.split(",")]


def _rewrites(disabled: Sequence[str] | None) -> Sequence[str]:
    """Return the names of the enabled rewritings."""
    names = _names(disabled)
    unknown = sorted({*names} - {*REWRITES, "all"})
    if unknown:
        known = [*REWRITES, "all"]
        hint = did_you_mean(unknown[0], known)
        suggested = f"; {hint}" if hint else ""
        raise invalid_option(f"expected rewritings ({', '.join(known)}), got '{unknown[0]}'{suggested}")
    return [name for name in REWRITES if name not in names and "all" not in names]


def start(
    program: Program,
    folder: Path | None,
    max_iterations: int,
    memory_limit: str | None = None,
    *,
    changes_from_stdin: bool = False,
    observe: bool = False,
    checkpoint: Store | None = None,
) -> Run:
    """Start a run of the program with the facts of its `.input` relations; without a folder, empty.

    With `observe`, it collects statistics from the first tick on. A checkpoint that has ticks
    continues, and the facts are not read.
    """
    with ExitStack() as files:
        initial = None
        if folder is not None:
            initial = FirstFacts(lambda: files.enter_context(facts_of(program, folder, changes_from_stdin)))
        return program.start(
            initial,
            max_iterations=max_iterations,
            memory_limit=memory_limit,
            observe=observe,
            checkpoint=checkpoint,
        )


def start_sharded(
    program: Program, folder: Path, shards: int, max_iterations: int, memory_limit: str | None = None
) -> ShardedRun:
    """Start a run on shards with the facts of all `.input` relations of the program.

    The processes of the shards end with this one.
    """
    with facts_of(program, folder) as initial:
        return program.start(initial, max_iterations=max_iterations, memory_limit=memory_limit, shards=shards)


def start_counted(
    program: Program, folder: Path, max_iterations: int, *, observe: bool = False
) -> tuple[Run, dict[int, RulePlan]]:
    """Start a run with the facts and the plans chosen for their counts; return both."""
    with facts_of(program, folder) as initial:
        plans = program.plans_for(program.counted(initial, max_iterations=max_iterations))
        run = program.start(initial, max_iterations=max_iterations, plans=plans, observe=observe)
        return run, plans


class FirstFacts(Mapping[str, Any]):
    """The facts of the first tick, which are read when they are used."""

    def __init__(self, read: Callable[[], Mapping[str, Any]]) -> None:
        self._read = read

    @cached_property
    def _facts(self) -> Mapping[str, Any]:
        return self._read()

    def __getitem__(self, name: str) -> Any:
        return self._facts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._facts)

    def __len__(self) -> int:
        return len(self._facts)


class FactFileErrors(InputError):
    """The errors of several fact files; each has its own code."""

    def __init__(self, errors: Sequence[InputError]) -> None:
        super().__init__("\n".join(map(str, errors)))
        self.errors = tuple(errors)


@contextmanager
def facts_of(program: Program, folder: Path, changes_from_stdin: bool = False) -> Iterator[dict[str, Any]]:
    """Read the facts of all `.input` relations; show progress until the block ends.

    Raises FactFileErrors, which lists all problems in the fact files.
    """
    sources = _sources(program, folder, changes_from_stdin)
    total = sum(_size(source) for _, source in sources)
    initial: dict[str, Any] = {}
    errors: list[InputError] = []
    tables: set[str] = set()
    with loading(total) as advance:
        for name, source in sources:
            try:
                facts = read_place_of(program, name, source)
            except InputError as error:
                errors.append(error)
                continue
            initial[name] = _concatenate(initial[name], facts) if name in initial else facts
            text = f"reading {name if source.path is None else source.path.name}"
            if isinstance(facts, FileRows):  # the tick reads it
                tables.add(name)
                facts.watcher = partial(_advance, advance, text)
            else:
                advance(_size(source), text)
        if len(errors) == 1:
            raise errors[0]
        if errors:
            raise FactFileErrors(errors)
        advance(None, "computing the first tick")
        with declared_types(program, tables):
            yield initial


def _advance(advance: Callable[[int | None, str], None], text: str, size: int) -> None:
    advance(size, text)


def read_place_of(program: Program, name: str, place: Place) -> Any:
    """Read the rows of an input from a place.

    Raises InputError if a file of a glob or folder is outside of the allowed folders.
    """
    rows = read_place(place, program.inputs[name], name, program.ranges[name], program.type_names[name])
    if isinstance(rows, FileRows):
        for path in rows.local_paths():
            program.source.sources.allowed.check(path, f".input {name}")
    return rows


def _sources(program: Program, folder: Path, changes_from_stdin: bool) -> list[tuple[str, Place]]:
    """Return the place of the facts of every `.input`, with the relation's name."""
    sources = [
        (name, _source(name, parameters, folder))
        for name, relation in program.relations.items()
        for parameters in relation.inputs
    ]
    for name, source in sources:
        program.source.sources.allowed.check(source.path, f".input {name}")
    from_stdin = [name for name, source in sources if source.path is None]
    if from_stdin and changes_from_stdin:
        raise InputError(
            f"cannot read relation '{from_stdin[0]}' from standard input, which carries the changes",
            code="stdin-in-use",
        )
    if len(from_stdin) > 1:
        names = " and ".join(f"'{name}'" for name in from_stdin[:2])
        raise InputError(
            f"cannot read both relations {names} from standard input; read one of them from a file",
            code="stdin-in-use",
        )
    return sources


def _source(name: str, parameters: Mapping[str, str], folder: Path) -> Place:
    """Return the place of an input; a table beside a missing fact file takes its place."""
    place = fact_source(name, parameters, folder)
    if place.path is None or not parameters.keys() <= {"name"}:
        return place
    table = found_beside(place.path, name)
    if table is None:
        return place
    path, format_ = table
    return fact_source(name, {**parameters, "IO": format_, "filename": path.name}, folder)


def _size(source: Place) -> int:
    """Return the number of bytes of the file or folder of a place; 0 for a standard stream."""
    path = source.path
    if path is None:
        return 0
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


def _concatenate(first: Any, second: Any) -> Any:
    """Concatenate the facts of two places of one relation."""
    if isinstance(first, list) and isinstance(second, list):
        return [*first, *second]
    return gathered([_table(first), _table(second)])


def _table(facts: Any) -> Any:
    return ListedRows(facts) if isinstance(facts, list) else facts


def change_reader(program: Program, file: str) -> ChangeScriptReader:
    """Return a reader of changes to the program's inputs."""
    derived = program.relations.keys() - program.inputs.keys()
    return ChangeScriptReader(
        program.inputs, file, derived=derived, ranges=program.ranges, type_names=program.type_names
    )


def read_changes(program: Program, path: Path) -> list[ScriptTick]:
    """Read the ticks of the change script at `path`."""
    derived = program.relations.keys() - program.inputs.keys()
    return read_change_script(
        path, program.inputs, derived=derived, ranges=program.ranges, type_names=program.type_names
    )


def apply_tick(run: Ticks, tick: ScriptTick, file: str) -> TickResult:
    """Apply one tick of a script; print a warning on stderr for changes without effect.

    Raises DbspError naming the lines of the tick; the run is then unchanged.
    """
    try:
        result = run.step(tick.changes)
    except DbspError as error:
        if error.diagnostic is not None:
            note = f"tick {run.tick + 1} is at {file}:{tick.lines}"
            error.diagnostic = error.diagnostic.with_note(note)
            raise
        cause = f"{error.where}: {error.message}" if error.where else error.message
        raise DbspError(
            f"tick {run.tick + 1} was not applied and changed nothing: {cause}",
            where=f"{file}:{tick.lines}",
            code=error.code,
        ) from error
    _warn(file, tick, result.absent, lambda n, r: f"{n} deleted {_rows(n)} not in '{r}'")
    _warn(file, tick, result.present, lambda n, r: f"{n} inserted {_rows(n)} already in '{r}'")
    return result


def _warn(file: str, tick: ScriptTick, counts: dict[str, int], describe: Callable[[int, str], str]) -> None:
    for relation, number in counts.items():
        remark(f"{file}:{tick.lines}: warning: {describe(number, relation)}")


def _rows(number: int) -> str:
    return "row was" if number == 1 else "rows were"
