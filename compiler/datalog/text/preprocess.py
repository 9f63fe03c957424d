"""The preprocessor: `#include`, `#define`, `#undef`, `#if`, `#ifdef`, `#ifndef`, `#elif`, `#else`, `#endif`.

Soufflé's own `.include "file"` and `.once` are acted on here as well, and `__LINE__` and `__FILE__` stand for
the place where they are written.

It works on tokens, so that comments and strings are left alone and every token keeps the file, line and
column where it was written. The lines mean what they mean to a C preprocessor, which Souffle runs over its
programs. `RAM_DOMAIN_SIZE` is a macro from the beginning, as there: the size of a word.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dbsp.compiler.datalog.text.annotations import without_annotations
from dbsp.compiler.datalog.text.conditions import holds
from dbsp.compiler.datalog.text.lexer import Lexer, PlacedToken, escaped, placed
from dbsp.compiler.datalog.text.macros import Expander, Macro
from dbsp.compiler.datalog.text.report import Report
from dbsp.diagnostics import SourceSpan, did_you_mean
from dbsp.errors import expect_present

MAX_DEPTH = 50
"""Files within files. One may come back within itself as long as an `#ifndef` ends that at some time."""

LINES = ("include", "define", "undef", "if", "ifdef", "ifndef", "elif", "else", "endif")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_LINE = re.compile(r"\#[ \t]*([A-Za-z]*)")
_FILE = re.compile(r'[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)\s*(?://.*|/\*.*\*/\s*)?\Z')


@dataclass(frozen=True, slots=True)
class Sources:
    """What a program's text does not say: where it stands, where else to look, and what is defined.

    `file` is the program's own, None for a text from elsewhere, which includes files of the present
    folder. `folders` are looked into after the folder of the file that includes another one.
    """

    file: Path | None = None
    folders: tuple[Path, ...] = ()
    macros: Mapping[str, str] = field(default_factory=dict)
    word_size: int = 64


def preprocess(text: str, report: Report, sources: Sources) -> list[PlacedToken]:
    """The tokens of a program: files included, conditions decided, macros expanded, annotations dropped."""
    preprocessor = _Preprocessor(report, sources)
    for name, value in sources.macros.items():
        preprocessor.given(name, value)
    origin = _File(report.file, sources.file)
    expanded = Expander(preprocessor.file(text, origin, ()), preprocessor.macros, report).tokens()
    return list(without_annotations(map(_place_word, expanded), report))


def _place_word(token: PlacedToken) -> PlacedToken:
    """The token; in place of `__LINE__` and `__FILE__` what they stand for."""
    if token.type != "IDENT" or not token.startswith("__"):
        return token
    kind, text = {
        "__LINE__": ("NUMBER", str(token.span.line)),
        "__FILE__": ("STRING", escaped(token.span.file)),
    }.get(str(token), (token.type, str(token)))
    return placed(kind, text, token.span, token.start_pos or 0, token.end_pos or 0)


@dataclass(frozen=True, slots=True)
class _File:
    """A file as it is called in messages, and where it is."""

    name: str
    path: Path | None

    @property
    def folder(self) -> Path:
        return Path() if self.path is None else self.path.parent


@dataclass(slots=True)
class _ConditionalBlock:
    """An `#if` that is open: whether its lines count, or did before, and where its `#else` was."""

    span: SourceSpan
    active: bool
    outer: bool
    done: bool = False
    otherwise: SourceSpan | None = None


class _Preprocessor:
    def __init__(self, report: Report, sources: Sources) -> None:
        self.report = report
        self.sources = sources
        place = SourceSpan("<Souffle>", 1, 1, 1, 1)
        word_size = placed("NUMBER", str(sources.word_size), place, 0, 2)
        self.macros = {"RAM_DOMAIN_SIZE": Macro("RAM_DOMAIN_SIZE", None, (word_size,), place)}
        self.once: set[Path] = set()

    def given(self, name: str, value: str) -> None:
        """A macro from outside of the text."""
        file = f"<macro {name}>"
        self.report.add_source(file, value)
        lexer = Lexer(value, self.report, file)
        if _NAME.match(name) is None:
            self.report.error(lexer.span(0, len(value)), f"'{name}' cannot be the name of a macro")
            return
        self.macros[name] = Macro(name, None, tuple(lexer.tokens()), lexer.span(0, len(value)))

    def file(self, text: str, file: _File, around: tuple[_File, ...]) -> Iterator[PlacedToken]:
        """The tokens of one file and of those it includes, with macros left to be expanded."""
        lexer = Lexer(text, self.report, file.name)
        open_: list[_ConditionalBlock] = []
        tokens = lexer.tokens()
        for token in tokens:
            if token.type == "INCLUDE":
                name = next(tokens, None)
                if name is None or name.type != "STRING":
                    self.report.error(token.span, "'.include' is followed by a file", '.include "file.dl"')
                else:
                    yield from self._include(token.span.to(name.span), name[1:-1], file, around)
                continue
            if token.type == "ONCE":
                if file.path is not None:
                    self.once.add(file.path.resolve())
                continue
            if token.type != "HASH_LINE":
                yield token
                continue
            match = expect_present(_LINE.match(token), "a line that begins with '#'")
            start = token.start_pos or 0
            word = lexer.span(start, start + match.end())
            rest = start + match.end(), token.end_pos or 0
            kind = match.group(1)
            if kind in ("ifdef", "ifndef", "if", "else", "elif", "endif"):
                self._condition(kind, word, lexer, rest, open_)
                lexer.skipping = bool(open_) and not open_[-1].active
            elif lexer.skipping:
                continue
            elif kind == "include":
                found = _FILE.match(token, match.end())
                if found is None:
                    self.report.error(token.span, "'#include' is followed by a file", '#include "file.dl"')
                else:
                    yield from self._include(token.span, found[1] or found[2], file, around)
            elif kind == "define":
                self._define(word, lexer, rest)
            elif kind == "undef":
                undefined = self._name(kind, word, lexer, rest)
                if undefined is not None:
                    self.macros.pop(undefined, None)
            elif kind:
                self.report.error(word, f"unknown line '#{kind}'", did_you_mean(kind, LINES) or _known())
        for condition in open_:
            self.report.error(condition.span, "this condition is never closed", "add the missing '#endif'")

    # --- conditions --------------------------------------------------------------------------------

    def _condition(
        self, kind: str, word: SourceSpan, lexer: Lexer, rest: tuple[int, int], open_: list[_ConditionalBlock]
    ) -> None:
        outer = not lexer.skipping
        if kind in ("ifdef", "ifndef"):
            name = self._name(kind, word, lexer, rest) if outer else None
            open_.append(_ConditionalBlock(word, outer and (name in self.macros) == (kind == "ifdef"), outer))
        elif kind == "if":
            open_.append(_ConditionalBlock(word, outer and self._holds(word, lexer, rest), outer))
        elif not open_:
            self.report.error(word, f"there is no '#if' before this '#{kind}'")
        elif kind == "endif":
            open_.pop()
        elif open_[-1].otherwise is not None:
            place = open_[-1].otherwise.place
            self.report.error(word, "this condition has an '#else' already", f"the first is at {place}")
        else:
            condition = open_[-1]
            condition.done |= condition.active
            reachable = condition.outer and not condition.done
            if kind == "else":
                condition.otherwise = word
                condition.active = reachable
            else:
                condition.active = reachable and self._holds(word, lexer, rest)

    def _holds(self, word: SourceSpan, lexer: Lexer, rest: tuple[int, int]) -> bool:
        text = lexer.text[slice(*rest)]
        try:
            return holds(text, self.macros)
        except ValueError as error:
            start = rest[0] + len(text) - len(text.lstrip())
            stop = rest[0] + len(text.rstrip())
            self.report.error(lexer.span(start, stop) if start < stop else word, str(error))
            return False

    def _name(self, kind: str, word: SourceSpan, lexer: Lexer, rest: tuple[int, int]) -> str | None:
        """The only word behind the line's own."""
        tokens = list(lexer.tokens(*rest))
        if len(tokens) == 1 and _NAME.match(tokens[0]):
            return str(tokens[0])
        extra = tokens[1:] if tokens and _NAME.match(tokens[0]) else tokens
        span = extra[0].span.to(extra[-1].span) if extra else word
        self.report.error(span, f"'#{kind}' is followed by one name")
        return None

    # --- macros ------------------------------------------------------------------------------------

    def _define(self, word: SourceSpan, lexer: Lexer, rest: tuple[int, int]) -> None:
        tokens = list(lexer.tokens(*rest))
        if not tokens or not _NAME.match(tokens[0]):
            span = tokens[0].span if tokens else word
            self.report.error(span, "'#define' is followed by a name", "#define NAME value")
            return
        name, body = tokens[0], tokens[1:]
        parameters: tuple[str, ...] | None = None
        if body and body[0].type == "LPAREN" and body[0].start_pos == name.end_pos:
            closing = next((at for at, token in enumerate(body) if token.type == "RPAREN"), 0)
            inside = body[1:closing]
            parameters = tuple(map(str, inside[::2]))
            sound = closing > 0 and all(token.type == "COMMA" for token in inside[1::2])
            if not sound or not all(map(_NAME.match, parameters)) or (inside and len(inside) % 2 == 0):
                span = name.span.to(body[closing].span if closing else body[-1].span)
                hint = f"#define {name}(x, y) ..."
                self.report.error(span, "the parameters of a macro are names with commas between", hint)
                return
            if len(set(parameters)) < len(parameters):
                self.report.error(
                    name.span.to(body[closing].span), "a parameter of this macro is there twice"
                )
                return
            body = body[closing + 1 :]
        macro = Macro(str(name), parameters, tuple(body), name.span)
        before = self.macros.get(name)
        if before is not None and before != macro:
            hint = f"defined at {before.span.place}; '#undef {name}' ends that"
            self.report.warning(name.span, f"macro '{name}' is defined already", hint)
        self.macros[str(name)] = macro

    # --- files -------------------------------------------------------------------------------------

    def _include(
        self, span: SourceSpan, name: str, file: _File, around: tuple[_File, ...]
    ) -> Iterator[PlacedToken]:
        included = self._found(name, file)
        if included is None:
            also = ", ".join(map(str, self.sources.folders))
            hint = f"looked also in {also}" if also else "it is looked for where this file is"
            self.report.error(span, f"there is no file '{name}'", hint)
            return
        if included.path is not None and included.path.resolve() in self.once:
            return
        inside = (*around, file)
        if len(inside) > MAX_DEPTH:
            self._report_include_cycle(span, included, inside)
        text = self._read(included, span)
        if text is not None:
            self.report.add_source(included.name, text)
            yield from self.file(text, included, inside)

    def _found(self, name: str, file: _File) -> _File | None:
        path = file.folder / name
        if path.is_file():
            folder = os.path.dirname(file.name) if file.path is not None else ""
            return _File(os.path.join(folder, name), path)
        paths = [folder / name for folder in self.sources.folders]
        return next((_File(str(path), path) for path in paths if path.is_file()), None)

    def _read(self, file: _File, span: SourceSpan) -> str | None:
        path = expect_present(file.path, "the path of an included file")
        try:
            return path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            self.report.error(span, f"cannot read '{file.name}': byte {error.start} is not UTF-8 text")
        except OSError as error:
            self.report.error(span, f"cannot read '{file.name}': {error.strerror}")
        return None

    def _report_include_cycle(self, span: SourceSpan, included: _File, inside: tuple[_File, ...]) -> None:
        """Ends the run: a file that is within itself without end, or very many within each other."""
        names = [file.name for file in (*inside, included)]
        real = [file.path and file.path.resolve() for file in (*inside, included)]
        hint = "write '.once' into it, or '#ifndef NAME', '#define NAME' before its text and '#endif' behind"
        if real[-1] in real[:-1]:
            cycle = names[-1 - real[-2::-1].index(real[-1]) - 1 :]
            message = f"'{names[-1]}' includes itself without end: {' -> '.join(cycle)}"
            self.report.error(span, message, hint)
        else:
            self.report.error(span, f"more than {MAX_DEPTH} files are within each other")
        self.report.raise_errors()


def _known() -> str:
    return f"known are {', '.join('#' + name for name in LINES)}"
