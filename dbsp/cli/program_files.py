"""The files that commands read: a program, its facts, and ticks from change scripts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from dbsp.cli.console import announce_kernels, loading, remark
from dbsp.cli.functor_files import load_functors
from dbsp.cli.options import Compilation
from dbsp.compiler.compile import compile
from dbsp.compiler.datalog.compiler_passes import REWRITES
from dbsp.compiler.datalog.meaning.directives import fact_source
from dbsp.compiler.datalog.plans.plan_steps import RulePlan
from dbsp.compiler.program import Program
from dbsp.errors import DbspError, InputError
from dbsp.io import ChangeScriptReader, Place, ScriptTick, read_change_script, read_place
from dbsp.runtime.run import Run
from dbsp.runtime.tick_result import TickResult

# One NAME=VALUE; a blank inside quotes or after a backslash belongs to it.
_MACRO = re.compile(r'(?:[^\s"\\]|\\.|"(?:\\.|[^"\\])*"?)+')


def load_program(path: Path, compilation: Compilation) -> Program:
    """Compile the program; print its warnings on stderr unless the options disable them.

    Macros are the values of `-M`; a name without a value is defined as 1.
    """
    defined: dict[str, str] = {}
    for macro in (macro for option in compilation.macros or () for macro in _MACRO.findall(option)):
        name, equals, value = macro.partition("=")
        defined[name] = value.replace("\\ ", " ") if equals else "1"
    program = compile(
        path,
        compilation.strategy,
        macros=defined,
        include=compilation.include or (),
        rewrites=_rewrites(compilation.disabled),
        magic=_names(compilation.magic),
        functors=load_functors(compilation.functors or ()),
        recursion=compilation.recursion,
        word_size=None if compilation.word_size is None else int(compilation.word_size),
    )
    for warning in () if compilation.no_warn else program.warnings:
        remark(warning.render())
    return program


def _names(options: Sequence[str] | None) -> list[str]:
    """Names with commas between them, in one option or in several."""
    return [name.strip() for option in options or () for name in option.split(",")]


def _rewrites(disabled: Sequence[str] | None) -> Sequence[str]:
    """The rewritings without the disabled ones."""
    names = _names(disabled)
    unknown = sorted({*names} - {*REWRITES, "all"})
    if unknown:
        raise typer.BadParameter(f"no rewriting is called {unknown[0]}; there are {', '.join(REWRITES)}")
    return [name for name in REWRITES if name not in names and "all" not in names]


def start(program: Program, folder: Path, max_iterations: int, *, changes_from_stdin: bool = False) -> Run:
    """A run of the program over the facts of all its `.input` relations."""
    with facts_of(program, folder, changes_from_stdin) as initial:
        return program.start(initial, max_iterations=max_iterations)


def start_counted(program: Program, folder: Path, max_iterations: int) -> tuple[Run, dict[int, RulePlan]]:
    """A run over the facts by the best plans for them, and these plans."""
    with facts_of(program, folder) as initial:
        plans = program.plans_for(program.counted(initial, max_iterations=max_iterations))
        return program.start(initial, max_iterations=max_iterations, plans=plans), plans


@contextmanager
def facts_of(program: Program, folder: Path, changes_from_stdin: bool = False) -> Iterator[dict[str, Any]]:
    """The facts of all `.input` relations, for the first tick to be computed while progress is shown.

    Raises one error for everything that is wrong with the fact files.
    """
    sources = _sources(program, folder, changes_from_stdin)
    total = sum(path.stat().st_size for _, source in sources if (path := _file(source)))
    initial: dict[str, Any] = {}
    errors: list[InputError] = []
    with loading(total) as advance:
        for name, source in sources:
            try:
                facts = read_place(source, program.inputs[name], name, program.ranges[name])
            except InputError as error:
                errors.append(error)
                continue
            initial[name] = _concatenate(initial[name], facts) if name in initial else facts
            if path := _file(source):
                advance(path, f"reading {path.name}")
        if len(errors) == 1:
            raise errors[0]
        if errors:
            raise InputError("\n".join(map(str, errors)))
        advance(None, "computing the first tick")
        announce_kernels()
        yield initial


def read_place_of(program: Program, name: str, place: Place) -> Any:
    """The rows of an input that are in a place."""
    return read_place(place, program.inputs[name], name, program.ranges[name])


def _sources(program: Program, folder: Path, changes_from_stdin: bool) -> list[tuple[str, Place]]:
    """Where the facts of each relation are, for every `.input`."""
    sources = [
        (name, fact_source(name, parameters, folder))
        for name, relation in program.relations.items()
        for parameters in relation.inputs
    ]
    from_stdin = [name for name, source in sources if source.path is None]
    if from_stdin and changes_from_stdin:
        raise InputError(
            f"relation '{from_stdin[0]}' cannot be read from standard input, where the changes come from"
        )
    if len(from_stdin) > 1:
        names = " and ".join(f"'{name}'" for name in from_stdin[:2])
        raise InputError(f"relations {names} are both read from standard input, which can be read once")
    return sources


def _file(source: Place) -> Path | None:
    return source.path if source.path is not None and source.path.is_file() else None


def start_empty(program: Program, max_iterations: int) -> Run:
    """A run of the program over its own facts alone."""
    announce_kernels()
    return program.start(max_iterations=max_iterations)


def _concatenate(first: Any, second: Any) -> Any:
    """The facts of two files of one relation."""
    if isinstance(first, list):
        return [*first, *second]
    import pyarrow as pa

    return pa.concat_tables([first, second])


def change_reader(program: Program, file: str) -> ChangeScriptReader:
    """A reader for changes of the program's inputs."""
    derived = program.relations.keys() - program.inputs.keys()
    return ChangeScriptReader(
        program.inputs, file, derived=derived, ranges=program.ranges, type_names=program.type_names
    )


def read_changes(program: Program, path: Path) -> list[ScriptTick]:
    """The ticks of the change script at `path`."""
    derived = program.relations.keys() - program.inputs.keys()
    return read_change_script(
        path, program.inputs, derived=derived, ranges=program.ranges, type_names=program.type_names
    )


def apply_tick(run: Run, tick: ScriptTick, file: str) -> TickResult:
    """Step the run by one tick of a script; says on stderr which changes had no effect.

    Raises DbspError naming the lines of the tick; the run then is as it was before.
    """
    try:
        result = run.step(tick.changes)
    except DbspError as error:
        raise DbspError(
            f"tick {run.tick + 1} was not applied and nothing has changed: {error}",
            where=f"{file}:{tick.lines}",
        ) from error
    _warn(file, tick, result.absent, lambda n, r: f"{n} deleted {_rows(n)} not in '{r}' anyway")
    _warn(file, tick, result.present, lambda n, r: f"{n} inserted {_rows(n)} in '{r}' already")
    return result


def _warn(file: str, tick: ScriptTick, counts: dict[str, int], describe: Callable[[int, str], str]) -> None:
    for relation, number in counts.items():
        remark(f"{file}:{tick.lines}: warning: {describe(number, relation)}")


def _rows(number: int) -> str:
    return "row was" if number == 1 else "rows were"
