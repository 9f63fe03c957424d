"""Arguments and options that several commands have."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from dbsp.compiler.planner.strategy import Strategy
from dbsp.operators.recursion.modes import Recursion
from dbsp.runtime import memory


def _jobs(text: str) -> str:
    if text != "auto" and not (text.isdecimal() and int(text) > 0):
        raise typer.BadParameter("a number of threads, or auto")
    return text


def _max_memory(text: str) -> str:
    try:
        size = memory.capacity(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if size is not None:
        memory.limit(size)
    return text


ProgramPath = Annotated[Path, typer.Argument(metavar="PROGRAM.dl", help="The program.", show_default=False)]
FactFolder = Annotated[
    Path,
    typer.Option("--fact-dir", "-F", metavar="DIR", help="Where RELATION.facts is read for each .input."),
]
Macros = Annotated[
    list[str] | None,
    typer.Option(
        "--macro",
        "-M",
        metavar="NAME=VALUE ...",
        help="Define macros for the preprocessor, with blanks between them; may be given several times.",
        show_default=False,
    ),
]
IncludeFolders = Annotated[
    list[Path] | None,
    typer.Option(
        "--include-dir",
        "-I",
        metavar="DIR",
        help="Where else #include looks for files; may be given several times.",
        show_default=False,
    ),
]
NoWarnings = Annotated[bool, typer.Option("--no-warn", "-w", help="Do not show warnings about the program.")]
NoPreprocessor = Annotated[
    bool,
    typer.Option(
        "--no-preprocessor",
        help="Without effect: the preprocessor is built in and acts on lines that begin with # alone.",
    ),
]
Jobs = Annotated[
    str,
    typer.Option(
        "--jobs",
        "-j",
        metavar="N|auto",
        help="Without effect, for scripts written for Soufflé: the engine runs on one core.",
        callback=_jobs,
    ),
]
JoinStrategy = Annotated[
    Strategy,
    typer.Option(
        "--strategy",
        help="How rules without a .plan are joined: as the planner chooses, two relations at a time, or "
        "all at once by worst-case optimal joins.",
    ),
]
RecursionMode = Annotated[
    Recursion,
    typer.Option(
        "--recursion",
        help="How recursive relations are evaluated: insert-only until something is deleted and incremental "
        "from then on, or one of these alone.",
    ),
]


class WordSize(enum.StrEnum):
    """The values of `--word-size`."""

    BITS_32 = "32"
    BITS_64 = "64"


Bits = Annotated[
    WordSize | None,
    typer.Option(
        "--word-size",
        help="How many bits a number has: 64, and what leaves them is an error, or 32, in which arithmetic "
        "wraps around as Soufflé's does by default. A program may say it itself; else it is 64.",
        show_default=False,
    ),
]
Magic = Annotated[
    list[str] | None,
    typer.Option(
        "--magic-transform",
        "-m",
        metavar="NAME,...",
        help="Derive these relations on demand, only as far as the outputs need them; '*' for all for "
        "which that is possible.",
        show_default=False,
    ),
]
Disabled = Annotated[
    list[str] | None,
    typer.Option(
        "--disable-transformers",
        "-z",
        metavar="NAME,...",
        help="Leave out rewritings of the rules, those that 'dbsp explain' names; 'all' for every one.",
        show_default=False,
    ),
]
Functors = Annotated[
    list[str] | None,
    typer.Option(
        "--functors",
        metavar="FILE.py|MODULE",
        help="Where the Python functions for the program's functors are; may be given several times.",
        show_default=False,
    ),
]

MaxIterations = Annotated[
    int,
    typer.Option(
        "--max-iterations", min=1, metavar="N", help="Give up a recursion that takes more iterations."
    ),
]
MaxMemory = Annotated[
    str,
    typer.Option(
        "--max-memory",
        metavar="SIZE",
        help="Give up what needs more memory, such as 8G, 500M or 50% of the machine's.",
        callback=_max_memory,
    ),
]
Timing = Annotated[bool, typer.Option("--time", help="Say how long each tick took.")]


@dataclass(frozen=True, slots=True)
class Compilation:
    """The options of every command that compiles a program; `expanded` puts them into its signature."""

    macros: Macros = None
    include: IncludeFolders = None
    no_warn: NoWarnings = False
    strategy: JoinStrategy = Strategy.AUTO
    recursion: RecursionMode = Recursion.AUTO
    disabled: Disabled = None
    magic: Magic = None
    functors: Functors = None
    word_size: Bits = None


def expanded(command: Callable[..., None]) -> Callable[..., None]:
    """The command as typer is to see it: with the fields of `Compilation` for its parameter of that type.

    They stand where the parameter does, in the order of the fields; the command itself gets one value. A
    command without such a parameter is returned as it is.
    """
    hints = get_type_hints(command, include_extras=True)
    group = next((name for name, hint in hints.items() if hint is Compilation), None)
    if group is None:
        return command
    options = get_type_hints(Compilation, include_extras=True)
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name == group:
            parameters += [
                inspect.Parameter(
                    field.name, parameter.kind, default=field.default, annotation=options[field.name]
                )
                for field in fields(Compilation)
            ]
        else:
            parameters.append(parameter.replace(annotation=hints[name]))

    def with_compilation(**values: Any) -> None:
        chosen = {name: values.pop(name) for name in options}
        command(**values, **{group: Compilation(**chosen)})

    with_compilation.__name__, with_compilation.__doc__ = command.__name__, command.__doc__
    with_compilation.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    with_compilation.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return with_compilation
