"""The preprocessor: `#include`, `#define`, `#undef`, `#if`, `#ifdef`, `#ifndef`, `#elif`, `#else`,
`#endif`.

It also executes Soufflé's `.include "file"` and `.once`, and replaces `__LINE__` and `__FILE__` by
the line and file where they are written.

It works on tokens, so that comments and strings stay as they are and every token keeps the file,
line and column where it was written. The lines have the same meaning as for the C preprocessor that
Soufflé runs on its programs. As in Soufflé, `RAM_DOMAIN_SIZE` is a predefined macro, the word size.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from itertools import chain
from pathlib import Path

from dbsp.compiler.datalog.text.annotations import without_annotations
from dbsp.compiler.datalog.text.lexer import Lexer, PlacedToken, escaped, placed
from dbsp.compiler.datalog.text.macros import Expander, Macro
from dbsp.compiler.datalog.text.report import Report
from dbsp.diagnostics import SourceSpan, did_you_mean
from dbsp.errors import expect_present
from dbsp.io.allowed_folders import ALL_FOLDERS, AllowedFolders
from dbsp.lazy_dataclass import dataclass

MAX_DEPTH = 50
"""The limit on nested includes. A file may include itself as long as an `#ifndef` ends that."""

LINES = ("include", "define", "undef", "if", "ifdef", "ifndef", "elif", "else", "endif")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_LINE = re.compile(r"\#[ \t]*([A-Za-z]*)")
_FILE = re.compile(r'[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)\s*(?://.*|/\*.*\*/\s*)?\Z')


@dataclass(frozen=True, slots=True)
class AddedText:
    """A text that is not in a file: its name in messages, and its lines."""

    file: str
    text: str


@dataclass(frozen=True, slots=True)
class Sources:
    """The surroundings of a program's text: its file, the include folders and the given macros.

    `file` is the file of the program; a text without a file includes files of the current
    directory. `folders` are searched after the folder of the including file. Files outside the
    `allowed` folders are not included. `texts` has the texts of the included files by name, for a
    program that was compiled before, maybe in another process; no file is read then. The texts of
    `added` follow the text of the program.
    """

    file: Path | None = None
    folders: tuple[Path, ...] = ()
    macros: Mapping[str, str] = field(default_factory=dict)
    word_size: int = 64
    allowed: AllowedFolders = ALL_FOLDERS
    texts: Mapping[str, str] | None = None
    added: tuple[AddedText, ...] = ()


def preprocess(text: str, report: Report, sources: Sources) -> list[PlacedToken]:
    """The tokens of a program with includes, conditions, macros and annotations processed."""
    preprocessor = _Preprocessor(report, sources)
    for name, value in sources.macros.items():
        preprocessor.define(name, value)
    origin = _File(report.file, sources.file)
    parts = [preprocessor.file(text, origin, ())]
    for added in sources.added:
        report.add_source(added.file, added.text)
        parts.append(preprocessor.file(added.text, _File(added.file, None), ()))
    expanded = Expander(chain.from_iterable(parts), preprocessor.macros, report).expanded()
    tokens = [_replace_place(token) if token[:2] == "__" else token for token, _ in expanded]
    if any(token.type == "AT" for token in tokens):
        return list(without_annotations(tokens, report))
    return tokens


def _replace_place(token: PlacedToken) -> PlacedToken:
    """The token, with `__LINE__` and `__FILE__` replaced by their values."""
    if token.type != "IDENT":
        return token
    kind, text = {
        "__LINE__": ("NUMBER", str(token.span.line)),
        "__FILE__": ("STRING", escaped(token.span.file)),
    }.get(str(token), (token.type, str(token)))
    return placed(kind, text, token.span, token.start, token.end)


@dataclass(frozen=True, slots=True)
class _File:
    """A file's name in messages, and its path."""

    name: str
    path: Path | None

    @property
    def folder(self) -> Path:
        return Path() if self.path is None else self.path.parent


@dataclass(slots=True)
class _ConditionalBlock:
    """An open `#if`.

    `active`: the current lines are used; `outer`: so are the lines around the block; `done`: an
    earlier branch was used; `otherwise`: the span of the `#else`.
    """

    span: SourceSpan
    active: bool
    outer: bool
    done: bool = False
    otherwise: SourceSpan | None = None


class _Preprocessor:
    def __init__(self, report: Report, sources: Sources) -> None:
        self.report = report
        self.sources = sources
        place = SourceSpan("<Soufflé>", 1, 1, 1, 1)
        word_size = placed("NUMBER", str(sources.word_size), place, 0, 2)
        self.macros = {"RAM_DOMAIN_SIZE": Macro("RAM_DOMAIN_SIZE", None, (word_size,), place)}
        self.once: set[Path] = set()

    def define(self, name: str, value: str) -> None:
        """Define a macro from outside of the text."""
        file = f"<macro {name}>"
        self.report.add_source(file, value)
        lexer = Lexer(value, self.report, file)
        if _NAME.match(name) is None:
            hint = "a name consists of letters, digits and '_', and does not start with a digit"
            message = f"expected the name of a macro, got '{name}'"
            self.report.error(lexer.span(0, len(value)), message, hint, code="invalid-macro")
            return
        self.macros[name] = Macro(name, None, tuple(lexer.tokens()), lexer.span(0, len(value)))

    def file(self, text: str, file: _File, includers: tuple[_File, ...]) -> Iterator[PlacedToken]:
        """The tokens of one file and of the files it includes, before macro expansion."""
        lexer = Lexer(text, self.report, file.name)
        open_: list[_ConditionalBlock] = []
        tokens = lexer.tokens()
        for token in tokens:
            if token.type == "INCLUDE":
                name = next(tokens, None)
                if name is None or name.type != "STRING":
                    self._file_name_missing(token.span, ".include")
                else:
                    yield from self._include(token.span.to(name.span), name[1:-1], file, includers)
                continue
            if token.type == "ONCE":
                if file.path is not None:
                    self.once.add(file.path.resolve())
                continue
            if token.type != "HASH_LINE":
                yield token
                continue
            match = expect_present(_LINE.match(token), "a line that begins with '#'")
            start = token.start
            word = lexer.span(start, start + match.end())
            rest = start + match.end(), token.end
            kind = match.group(1)
            if kind in ("ifdef", "ifndef", "if", "else", "elif", "endif"):
                self._condition(kind, word, lexer, rest, open_)
                lexer.skipping = bool(open_) and not open_[-1].active
            elif lexer.skipping:
                continue
            elif kind == "include":
                found = _FILE.match(token, match.end())
                if found is None:
                    self._file_name_missing(token.span, "#include")
                else:
                    yield from self._include(token.span, found[1] or found[2], file, includers)
            elif kind == "define":
                self._define(word, lexer, rest)
            elif kind == "undef":
                undefined = self._name(kind, word, lexer, rest)
                if undefined is not None:
                    self.macros.pop(undefined, None)
            elif kind and token[1] in " \t" and did_you_mean(kind, LINES) is None:
                sign = lexer.span(start, start + 1)
                message = "expected '//' before a comment, got '#'"
                hint = "a line that begins with '#' is for the preprocessor, such as #include"
                self.report.error(sign, message, hint, code="syntax")
            elif kind:
                known = f"known: {', '.join('#' + name for name in LINES)}; a comment begins with '//'"
                message = f"unknown preprocessor directive '{token[: match.end()]}'"
                hint = did_you_mean(kind, LINES) or known
                self.report.error(word, message, hint, code="unknown-directive")
        for condition in open_:
            hint = "add the missing '#endif'"
            self.report.error(condition.span, "this condition is never closed", hint, code="unclosed")

    def _file_name_missing(self, span: SourceSpan, directive: str) -> None:
        message = f"expected a file name after '{directive}'"
        self.report.error(span, message, f'write {directive} "file.dl"', code="syntax")

    # --- conditions -------------------------------------------------------------------------------

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
            self.report.error(word, f"'#{kind}' without an '#if' before it", code="syntax")
        elif kind == "endif":
            open_.pop()
        elif open_[-1].otherwise is not None:
            place = open_[-1].otherwise.place
            message = f"'#{kind}' after the '#else' of the same condition"
            self.report.error(word, message, f"the '#else' is at {place}", code="syntax")
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
        from dbsp.compiler.datalog.text.conditions import holds  # few programs have conditions

        text = lexer.text[slice(*rest)]
        try:
            return holds(text, self.macros)
        except ValueError as error:
            start = rest[0] + len(text) - len(text.lstrip())
            stop = rest[0] + len(text.rstrip())
            span = lexer.span(start, stop) if start < stop else word
            self.report.error(span, str(error), code="invalid-condition")
            return False

    def _name(self, kind: str, word: SourceSpan, lexer: Lexer, rest: tuple[int, int]) -> str | None:
        """The name after `#ifdef`, `#ifndef` or `#undef`."""
        tokens = list(lexer.tokens(*rest))
        if len(tokens) == 1 and _NAME.match(tokens[0]):
            return str(tokens[0])
        extra = tokens[1:] if tokens and _NAME.match(tokens[0]) else tokens
        span = extra[0].span.to(extra[-1].span) if extra else word
        self.report.error(span, f"expected one name after '#{kind}'", code="syntax")
        return None

    # --- macros -----------------------------------------------------------------------------------

    def _define(self, word: SourceSpan, lexer: Lexer, rest: tuple[int, int]) -> None:
        tokens = list(lexer.tokens(*rest))
        if not tokens or not _NAME.match(tokens[0]):
            span = tokens[0].span if tokens else word
            hint = "write #define NAME value"
            self.report.error(span, "expected a name after '#define'", hint, code="invalid-macro")
            return
        name, body = tokens[0], tokens[1:]
        parameters: tuple[str, ...] | None = None
        if body and body[0].type == "LPAREN" and body[0].start == name.end:
            closing = next((at for at, token in enumerate(body) if token.type == "RPAREN"), 0)
            inside = body[1:closing]
            parameters = tuple(map(str, inside[::2]))
            sound = closing > 0 and all(token.type == "COMMA" for token in inside[1::2])
            if not sound or not all(map(_NAME.match, parameters)) or (inside and len(inside) % 2 == 0):
                span = name.span.to(body[closing].span if closing else body[-1].span)
                message = "expected the parameters of the macro as names separated by commas"
                hint = f"write #define {name}(x, y) ..."
                self.report.error(span, message, hint, code="invalid-macro")
                return
            if len(set(parameters)) < len(parameters):
                span = name.span.to(body[closing].span)
                message = "two parameters of this macro have the same name"
                self.report.error(span, message, code="duplicate-definition")
                return
            body = body[closing + 1 :]
        macro = Macro(str(name), parameters, tuple(body), name.span)
        before = self.macros.get(name)
        if before is not None and before != macro:
            hint = f"defined at {before.span.place}; write '#undef {name}' first"
            message = f"macro '{name}' is already defined"
            self.report.warning(name.span, message, hint, code="duplicate-definition")
        self.macros[str(name)] = macro

    # --- files ------------------------------------------------------------------------------------

    def _include(
        self, span: SourceSpan, name: str, file: _File, includers: tuple[_File, ...]
    ) -> Iterator[PlacedToken]:
        candidates = list(self._candidates(name, file))
        # A file outside is not looked for, so that a program cannot find out which files exist.
        allowed = [one for one in candidates if self._allows(one)]
        included = next(filter(self._exists, allowed), None)
        if included is None and not allowed:
            message = f"file '{name}' is outside the folders that this program may use"
            hint = 'allow its folder, as in compile(text, folders=["rules"]) or --folder rules'
            self.report.error(span, message, hint, code="outside-folders")
            return
        if included is None:
            also = ", ".join(map(str, self.sources.folders))
            beside = "searched in the folder of this file" if candidates[0] in allowed else ""
            hint = f"{beside}, and in {also}" if also and beside else beside or f"searched in {also}"
            self.report.error(span, f"file '{name}' not found", hint, code="file-not-found")
            return
        if included.path is not None and included.path.resolve() in self.once:
            return
        inside = (*includers, file)
        if len(inside) > MAX_DEPTH:
            self._report_include_cycle(span, included, inside)
        text = self._read(included, span)
        if text is not None:
            self.report.add_source(included.name, text)
            yield from self.file(text, included, inside)

    def _candidates(self, name: str, file: _File) -> Iterator[_File]:
        """The files that an include may mean, in the order of the search."""
        folder = os.path.dirname(file.name) if file.path is not None else ""
        yield _File(os.path.join(folder, name), file.folder / name)
        for searched in self.sources.folders:
            yield _File(str(searched / name), searched / name)

    def _allows(self, file: _File) -> bool:
        # The files of a program from another process were allowed there.
        if self.sources.texts is not None:
            return True
        return file.path is not None and self.sources.allowed.allow(file.path)

    def _exists(self, file: _File) -> bool:
        if self.sources.texts is not None:
            return file.name in self.sources.texts
        try:
            return file.path is not None and file.path.is_file()
        except OSError:  # a name that is too long
            return False

    def _read(self, file: _File, span: SourceSpan) -> str | None:
        if self.sources.texts is not None:
            return self.sources.texts[file.name]
        path = expect_present(file.path, "the path of an included file")
        try:
            return path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            message = f"cannot read '{file.name}': byte {error.start} is not UTF-8 text"
        except OSError as error:
            message = f"cannot read '{file.name}': {error.strerror}"
        self.report.error(span, message, code="unreadable-file")
        return None

    def _report_include_cycle(self, span: SourceSpan, included: _File, inside: tuple[_File, ...]) -> None:
        """Report a file that includes itself or too deeply nested includes; raise all errors."""
        names = [file.name for file in (*inside, included)]
        real = [file.path and file.path.resolve() for file in (*inside, included)]
        hint = "write '.once' into it, or put '#ifndef NAME', '#define NAME' and '#endif' around its text"
        if real[-1] in real[:-1]:
            cycle = names[-1 - real[-2::-1].index(real[-1]) - 1 :]
            message = f"'{names[-1]}' includes itself: {' -> '.join(cycle)}"
            self.report.error(span, message, hint, code="include-cycle")
        else:
            message = f"includes are nested more than {MAX_DEPTH} levels deep"
            self.report.error(span, message, code="program-too-large")
        self.report.raise_errors()
