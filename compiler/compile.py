"""`compile`: from the text of a program, or its file, to a `Program`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from dbsp.compiler.datalog.compile_options import CompileOptions
from dbsp.compiler.datalog.compiler_passes import REWRITES, SourceText
from dbsp.compiler.datalog.meaning.word_size import WORD_SIZES
from dbsp.compiler.datalog.text.preprocess import Sources
from dbsp.compiler.planner.strategy import Strategy
from dbsp.compiler.program import Program
from dbsp.errors import CompileError
from dbsp.operators.recursion.modes import Recursion


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

    `rewrites` are the optional passes to apply to the rules: all, none, or those named (see
    `dbsp.compiler.datalog.compiler_passes.REWRITES`). They change what a run costs and never what it
    emits. `magic` are relations that are
    to be derived on demand, only as far as the outputs need them: all for which that is possible, or those
    named. (A row that is not derived is no error either, if one would come of it.)

    `functors` are the Python functions for the functors that the program declares, `.functor f(...)`, by
    name. Each must be a function of its arguments alone: a row is computed again when it is retracted, and
    results are remembered.
    `recursion` is how recursive relations are evaluated: "auto" is insert-only until a row is deleted and
    incremental from then on, except for ticks that cost more than a restart. "incremental" and
    "insert-only" are these alone; "insert-only" restarts at every deletion (see
    `dbsp.operators.recursion.modes`).

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
        disabled=_disabled(rewrites),
        magic=magic if isinstance(magic, bool) else tuple(magic),
        functors=dict(functors or {}),
        recursion=Recursion(recursion),
        word_size=word_size,
    )
    defined = {name: str(value) for name, value in (macros or {}).items()}
    folders = tuple(map(Path, include))
    if isinstance(text_or_path, Path) or ("\n" not in text_or_path and text_or_path.endswith(".dl")):
        path = Path(text_or_path)
        source = SourceText(_read(path), str(text_or_path), Sources(path, folders, defined, word_size or 64))
    else:
        source = SourceText(text_or_path, "<program>", Sources(None, folders, defined, word_size or 64))
    return Program(source, options)


def _disabled(rewrites: bool | Iterable[str]) -> frozenset[str]:
    """The rewritings that are left out when all are wanted, none, or those named."""
    if isinstance(rewrites, bool):
        return frozenset(() if rewrites else REWRITES)
    names = tuple(rewrites)
    for name in names:
        if name not in REWRITES:
            raise ValueError(f"{name!r} is no rewriting; there are {', '.join(REWRITES)}")
    return frozenset(REWRITES).difference(names)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        message = f"cannot read {path}: byte {error.start} is not UTF-8 text"
        raise CompileError(message, code="unreadable-file") from None
    except OSError as error:
        raise CompileError(f"cannot read {path}: {error.strerror}", code="unreadable-file") from None
