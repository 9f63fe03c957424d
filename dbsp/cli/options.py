"""Arguments and options that several commands share."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from dbsp.compiler.datalog.meaning.negation import Negation
from dbsp.errors import ArgumentError
from dbsp.io import unpack
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.planner.strategy import Strategy
from dbsp.operators.recursion.modes import Recursion
from dbsp.runtime import memory


def invalid_option(message: str) -> typer.BadParameter:
    """Return a usage error that ends with its code, as all errors do."""
    return typer.BadParameter(f"{message} [invalid-option]")


def _jobs(text: str | None) -> str | None:
    if text is None:
        return None
    if text != "auto" and not (text.isdecimal() and text.strip("0")):
        raise invalid_option(f"expected a number of threads or 'auto', got '{text}'")
    from dbsp.kernels.thread_count import set_threads
    from dbsp.kernels.thread_pool import MOST_THREADS

    set_threads(None if text == "auto" else min(MOST_THREADS, int(text.lstrip("0")[:9])))
    return text


def _size(text: str) -> int | None:
    """Return the bytes of `8G`; None for a percentage if the installed memory is unknown."""
    try:
        return memory.capacity(text)
    except ValueError as error:
        raise invalid_option(str(error)) from None


def _max_memory(text: str) -> str:
    size = _size(text)
    if size is not None:
        memory.limit(size)
    return text


def _memory_limit(text: str | None) -> str | None:
    try:
        memory.capacity_of(text)
    except ArgumentError as error:
        raise invalid_option(error.message.removeprefix("memory_limit: ")) from None
    return text


def _max_unpacked(text: str | None) -> str | None:
    unpack.set_limit(None if text is None else _size(text))
    return text


ProgramPath = Annotated[
    Path, typer.Argument(metavar="PROGRAM.dl", help="The program file.", show_default=False)
]
FactFolder = Annotated[
    Path,
    typer.Option(
        "--fact-dir",
        "-F",
        metavar="DIR",
        help="Read RELATION.facts (or .parquet, .csv, .ndjson) from this folder for each .input.",
    ),
]
FirstFacts = Annotated[
    Path | None,
    typer.Option(
        "--fact-dir",
        "-F",
        metavar="DIR",
        help="Load RELATION.facts from this folder first; without it, start empty.",
        show_default=False,
    ),
]
Port = Annotated[
    int, typer.Option("--port", min=0, max=65535, metavar="N", help="The port; 0 is a free one.")
]
OpenPage = Annotated[bool, typer.Option("--open", help="Open the page in a browser.")]
Macros = Annotated[
    list[str] | None,
    typer.Option(
        "--macro",
        "-M",
        metavar="NAME=VALUE ...",
        help="Define preprocessor macros, separated by spaces; can be repeated.",
        show_default=False,
    ),
]
IncludeFolders = Annotated[
    list[Path] | None,
    typer.Option(
        "--include-dir",
        "-I",
        metavar="DIR",
        help="Another folder in which #include looks for files; can be repeated.",
        show_default=False,
    ),
]
Folders = Annotated[
    list[Path] | None,
    typer.Option(
        "--folder",
        metavar="DIR",
        help="Let the program use only files in this folder, for #include, .input and .output; can be "
        "repeated. Default: all files.",
        show_default=False,
    ),
]
NoWarnings = Annotated[bool, typer.Option("--no-warn", "-w", help="Hide warnings about the program.")]
NoPreprocessor = Annotated[
    bool,
    typer.Option(
        "--no-preprocessor",
        help="No effect; accepted for Soufflé scripts. The built-in preprocessor only acts on lines that "
        "begin with #.",
    ),
]
Threads = Annotated[
    str | None,
    typer.Option(
        "--jobs",
        "-j",
        "--threads",
        metavar="N|auto",
        help="Compute large ticks with N threads. Default: all cores, or the environment variable "
        "DBSP_THREADS. --shards divides the rows over processes.",
        callback=_jobs,
        show_default=False,
    ),
]
JoinStrategy = Annotated[
    Strategy,
    typer.Option(
        "--strategy",
        help="Join algorithm of rules without a .plan: chosen by the planner, binary joins, or "
        "worst-case optimal joins.",
    ),
]
RecursionMode = Annotated[
    Recursion,
    typer.Option(
        "--recursion",
        help="Evaluation of recursive relations: insert-only until deletions cost too much and "
        "incremental afterwards (auto), or only one of the two.",
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
        help="Bits of a number: with 64, overflow is an error; with 32, arithmetic wraps around as in "
        "Soufflé by default. Default: the .pragma of the program, or else 64.",
        show_default=False,
    ),
]
NegationMeaning = Annotated[
    Negation | None,
    typer.Option(
        "--negation",
        help="Meaning of a relation that depends on its own negation: an error (stratified), or rows that "
        "are true, false or undefined (well-founded). Default: the .pragma of the program, or else "
        "stratified.",
        show_default=False,
    ),
]
Legacy = Annotated[
    bool,
    typer.Option(
        "--legacy",
        help="Accept old programs as Soufflé does: a head takes a symbol where its column has a subtype "
        "of symbol, and deprecated forms give no warnings.",
    ),
]
Magic = Annotated[
    list[str] | None,
    typer.Option(
        "--magic-transform",
        "-m",
        metavar="NAME,...",
        help="Derive these relations on demand: only the rows that the outputs need. '*' selects all "
        "relations for which this is possible.",
        show_default=False,
    ),
]
Disabled = Annotated[
    list[str] | None,
    typer.Option(
        "--disable-transformers",
        "-z",
        metavar="NAME,...",
        help="Disable rewritings of the rules, by the names that 'dbsp explain' prints; 'all' disables "
        "every rewriting.",
        show_default=False,
    ),
]
Functors = Annotated[
    list[str] | None,
    typer.Option(
        "--functors",
        metavar="FILE.py|MODULE",
        help="File or module with the Python functions for the program's functors; can be repeated.",
        show_default=False,
    ),
]

MaxIterations = Annotated[
    int,
    typer.Option(
        "--max-iterations", min=1, metavar="N", help="Stop a recursion after N iterations with an error."
    ),
]
MaxMemory = Annotated[
    str,
    typer.Option(
        "--max-memory",
        metavar="SIZE",
        help="Stop with an error when more memory is needed: 8G, 500M, or 50% of the machine's memory.",
        callback=_max_memory,
    ),
]
MemoryLimit = Annotated[
    str | None,
    typer.Option(
        "--memory-limit",
        metavar="SIZE",
        help="Keep the state within this much memory, such as 8G, 500M, or 25% of the machine's memory; the "
        "rest is stored in temporary files. The run becomes slower, where --max-memory ends it.",
        callback=_memory_limit,
        show_default=False,
    ),
]
CheckpointFolder = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint",
        metavar="DIR",
        help="Store every tick in this folder, and continue from it if it has ticks; --fact-dir is then not "
        "read.",
        show_default=False,
    ),
]
Keep = Annotated[
    str | None,
    typer.Option(
        "--keep",
        metavar="N|TIME",
        help="With --checkpoint: keep the latest N ticks, or those of a time such as '7 days', to look at "
        "them later. Default: the folder's setting, which is 0 at first.",
        show_default=False,
    ),
]
Shards = Annotated[
    int | None,
    typer.Option(
        "--shards",
        min=1,
        metavar="N",
        help="Run in N processes, each with a part of the rows. The memory limit is that of all together.",
        show_default=False,
    ),
]
MaxUnpacked = Annotated[
    str | None,
    typer.Option(
        "--max-unpacked",
        metavar="SIZE",
        help="Read compressed files up to this size after decompression, such as 8G. Default: 256M, or 100 "
        "times the compressed size if that is more.",
        callback=_max_unpacked,
        show_default=False,
    ),
]
AllowPickle = Annotated[
    bool, typer.Option("--allow-pickle", help="Read pickled values, which can run any code.")
]
Timing = Annotated[bool, typer.Option("--time", help="Print the duration of each tick.")]


@dataclass(frozen=True, slots=True)
class Compilation:
    """The options of all commands that compile a program; `expanded` adds them to a signature."""

    macros: Macros = None
    include: IncludeFolders = None
    folders: Folders = None
    no_warn: NoWarnings = False
    strategy: JoinStrategy = Strategy.AUTO
    recursion: RecursionMode = Recursion.AUTO
    disabled: Disabled = None
    magic: Magic = None
    functors: Functors = None
    word_size: Bits = None
    legacy: Legacy = False
    negation: NegationMeaning = None


@cache
def _compilation_options() -> dict[str, Any]:
    return get_type_hints(Compilation, include_extras=True)


def expanded(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with its `Compilation` parameter replaced by one parameter per field.

    The fields take the position of that parameter, in their order, so that typer sees single
    options; the command itself receives one `Compilation`. A command without such a parameter is
    returned as is.
    """
    hints = get_type_hints(command, include_extras=True)
    group = next((name for name, hint in hints.items() if hint is Compilation), None)
    if group is None:
        return command
    options = _compilation_options()
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
