"""`compile`: turn the text of a program, or its file, into a `Program`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from dbsp.caller_tracebacks import ends_at_caller
from dbsp.compiler.compile_arguments import (
    expect_folders,
    expect_functors,
    expect_macros,
    expect_names,
)
from dbsp.compiler.datalog.compile_options import CompileOptions
from dbsp.compiler.datalog.compiler_passes import REWRITES, SourceText
from dbsp.compiler.datalog.meaning.negation import Negation, NegationName
from dbsp.compiler.datalog.meaning.word_size import WORD_SIZES
from dbsp.compiler.datalog.text.preprocess import Sources
from dbsp.compiler.program import Program
from dbsp.diagnostics import did_you_mean
from dbsp.errors import ArgumentError, CompileError, broken_link, choice, wrong_argument
from dbsp.io.allowed_folders import AllowedFolders
from dbsp.operators.planner.strategy import Strategy, StrategyName
from dbsp.operators.recursion.modes import Recursion, RecursionName


@ends_at_caller
def compile(
    text_or_path: str | Path,
    strategy: Strategy | StrategyName = Strategy.AUTO,
    *,
    macros: Mapping[str, str | float] | None = None,
    include: Iterable[str | Path] = (),
    rewrites: bool | Iterable[str] = True,
    magic: bool | Iterable[str] | None = None,
    functors: Mapping[str, Callable[..., Any]] | None = None,
    recursion: Recursion | RecursionName = Recursion.AUTO,
    word_size: int | None = None,
    legacy: bool = False,
    negation: Negation | NegationName | None = None,
    folders: Iterable[str | Path] | None = None,
) -> Program:
    """Compile a Datalog program, given as text or as the path of a file.

    A `Path` is a file. So is a string of one line that ends in `.dl`; any other string is the
    program itself. A text includes no files unless you pass `include` or `folders`. Pass `folders`
    with any string from elsewhere, such as a request to a server: a string that names a file is
    then refused if the file is outside.

    Parameters:
        text_or_path: the text of the program, or the path of its file.
        strategy: how to join the atoms of a rule without a `.plan`. "auto" leaves the choice to the
            planner, "binary" joins two relations at a time, "wcoj" joins all connected relations at
            once by a worst-case optimal multi-way join.
        macros: macros that are defined before the text is read, as by `#define NAME value`. A value
            is program text, so a string value needs quotes.
        include: folders in which `#include` looks for files, after the folder of the including file
            (the current directory for a text).
        rewrites: the optional passes to apply to the rules: all, none, or the named ones (see
            `dbsp.compiler.datalog.compiler_passes.REWRITES`). They change the cost of a run, never
            its results.
        magic: relations to derive on demand, only as far as the outputs need them: all for which
            that is possible, none, or the named ones. Errors in rows that are not derived do not
            occur. By default the compiler chooses relations for which this pays, and none whose
            rules can fail other than by overflow.
        functors: by name, the Python functions for the functors that the program declares with
            `.functor f(...)`. A function must depend on its arguments only: results are cached, and
            a retracted row is computed again.
        recursion: how to evaluate recursive relations. "auto" is insert-only until deletions
            cost more than keeping iterations and incremental afterwards, and restarts a tick that
            costs more than a restart. "incremental" never restarts; "insert-only" never keeps
            iterations.
        word_size: the number of bits of a number, 32 or 64. By default 64, unless a pragma of the
            program says otherwise. A result beyond 64 bits is an error; with 32 bits arithmetic
            wraps around as in Soufflé.
        legacy: accept an old Soufflé program, as `.pragma "legacy"` does: a head takes a value of
            another subtype of the same primitive type, and deprecated forms give no warnings.
        negation: the meaning of a relation that depends on its own negation. "stratified", the
            default unless a pragma of the program says otherwise, refuses the program.
            "well-founded" computes its well-founded model: the relation has the true rows, and
            the output `name.undefined` has the rows that are neither true nor false.
        folders: the folders whose files the program may use: with `#include`, and with `.input` and
            `.output` on the command line. The folders of `include` belong to them. `..` and
            symbolic links are followed first. By default none for a text, all for a file.

    Returns:
        The compiled program. `Program.start` runs it.

    Raises:
        CompileError: the program has errors, or a file cannot be read. The text of the exception
            lists every error with its line, a caret and a hint.
        ArgumentError: the strategy, a rewriting, the recursion mode, the word size or the negation
            is unknown, or an argument has the wrong type.

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
        >>> run.view("path").rows()
        [(1, 2), (1, 3), (2, 3)]
        >>> run.step({"edge": {(2, 3): -1}})["path"].to_dict()
        {(1, 3): -1, (2, 3): -1}
    """
    if word_size is not None and (type(word_size) is not int or word_size not in WORD_SIZES):
        raise ArgumentError(f"word_size= expects 32 or 64, got {word_size!r}")
    options = CompileOptions(
        strategy=choice("strategy", Strategy, strategy),
        disabled=_disabled(rewrites),
        magic=None if magic is None else expect_names("magic", magic, "relations"),
        functors=expect_functors(functors),
        recursion=choice("recursion", Recursion, recursion),
        word_size=word_size,
        legacy=legacy,
        negation=None if negation is None else choice("negation", Negation, negation),
    )
    defined = expect_macros(macros)
    confined = None if folders is None else expect_folders("folders", folders)
    searched = expect_folders("include", include)
    if not isinstance(text_or_path, str | Path):
        raise wrong_argument("text_or_path", "the text of a program or the path of a file", text_or_path)
    path = _path(text_or_path)
    if path is not None:
        allowed = AllowedFolders.of(None if confined is None else (*confined, *searched))
        # A Path was chosen by the caller; a string may come from elsewhere.
        if isinstance(text_or_path, str) and not allowed.allow(path):
            raise CompileError(
                f"{path} is outside the folders that a program may use; add its folder to folders=, "
                "or pass a Path",
                code="outside-folders",
            )
        file, text = str(text_or_path), _read(path)
    else:
        file, text = "<program>", str(text_or_path)
        allowed = AllowedFolders.of((*(confined or ()), *searched))
    return Program(
        SourceText(text, file, Sources(path, searched, defined, word_size or 64, allowed)), options
    )


def _path(text_or_path: str | Path) -> Path | None:
    """Return the path of the program's file, or None for a text."""
    if isinstance(text_or_path, Path):
        return text_or_path
    return Path(text_or_path) if "\n" not in text_or_path and text_or_path.endswith(".dl") else None


def _disabled(rewrites: bool | Iterable[str]) -> frozenset[str]:
    """Return the optional passes to skip when all, none or the named ones are requested."""
    names = expect_names("rewrites", rewrites, "rewritings")
    if isinstance(names, bool):
        return frozenset(() if names else REWRITES)
    for name in names:
        if name not in REWRITES:
            hint = did_you_mean(name, REWRITES)
            raise ArgumentError(
                f"rewrites= names an unknown rewriting {name!r}; {f'{hint} ' if hint else ''}"
                f"(the rewritings are {', '.join(REWRITES)})"
            )
    return frozenset(REWRITES).difference(names)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        message = f"cannot read {path}: byte {error.start} is not UTF-8 text"
        raise CompileError(message, code="unreadable-file") from None
    except OSError as error:
        code = "file-not-found" if isinstance(error, FileNotFoundError) else "unreadable-file"
        reason = broken_link(path) or error.strerror
        raise CompileError(f"cannot read {path}: {reason}", code=code) from None
    except ValueError as error:  # the path has a NUL character
        raise CompileError(f"cannot read {str(path)!r}: {error}", code="unreadable-file") from None
