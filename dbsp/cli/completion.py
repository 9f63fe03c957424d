"""Completion and colours at the prompt of `dbsp live`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.lexers import Lexer

from dbsp.cli.commands import ConsoleCommands
from dbsp.compiler.datalog.text.lexer import DIRECTIVES
from dbsp.data.zset import ZSet
from dbsp.errors import expect_present
from dbsp.io.results import literal_of

_FILES = ("load", "save", "graph", "update")
_RELATIONS = ("show", "rels", "relations", "explain", "rules")
_BODIES = ("why", "query", "watch", "drop")
_COLUMN = re.compile(r'([A-Za-z_?][\w?.]*)\(((?:"(?:[^"\\]|\\.)*"|[^()"])*("(?:[^"\\]|\\.)*)?)$')
_VALUES = 50
_MANY = 50_000
"""Columns of larger relations are not completed: collecting their values would take too long."""


class LiveCompleter(Completer):
    """Completes commands, relations where one is expected, and column values inside parentheses."""

    def __init__(self, commands: ConsoleCommands) -> None:
        self._commands = commands
        self._paths = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        before = document.text_before_cursor.lstrip()
        word, blank, argument = before.partition(" ")
        program = self._commands.program
        if word in _FILES and blank:
            yield from self._paths.get_completions(Document(argument.lstrip()), complete_event)
        elif column := _COLUMN.search(before):
            yield from self._values(column[1], column[2])
        elif before[:1] in ("+", "-"):
            yield from _words(before[1:].lstrip(), program.inputs, "(")
        elif before.startswith(".") and not blank:
            yield from _words(word, DIRECTIVES, " ")
        elif ":-" in before or self._commands.in_entry or before.startswith("."):
            in_directive = before.startswith(".") and ":-" not in before
            yield from _words(_last_word(before), program.relations, "" if in_directive else "(")
        elif not blank and not before.startswith("?"):
            yield from _words(word, self._commands.names, " ")
            if word:
                yield from _words(word, program.relations, "(")
        elif word in _RELATIONS:
            yield from _words(before.rsplit(" ", 1)[-1], program.relations, "")
        elif word in _BODIES or before.startswith("?"):
            last = _last_word(before.removeprefix("?"))
            if word == "why" and argument == last:
                yield from _words(last, ["not", "tick"], " ")
            yield from _words(last, program.relations, "(")

    def _values(self, relation: str, arguments: str) -> Iterator[Completion]:
        """Yield values of the column at the cursor."""
        run = self._commands.run
        if relation in run.outputs:
            rows: ZSet = run.view(relation)
        elif relation in run.inputs:
            rows = run.asserted(relation)
        else:
            return
        pieces = re.findall(r'(?:"(?:[^"\\]|\\.)*"?|[^",])+|(?<=,)(?=$)', arguments)
        column = max(0, len(pieces) - 1)
        if column >= rows.schema.arity or len(rows) > _MANY:
            return
        typed = pieces[-1].lstrip() if pieces else ""
        values = sorted({literal_of(row[column]) for row in rows.rows()})
        matching = [value for value in values if value.startswith(typed)]
        for value in matching[:_VALUES]:
            yield Completion(value, start_position=-len(typed))


def _last_word(text: str) -> str:
    return expect_present(re.search(r"[\w?.]*$", text), "a last word, which may be empty")[0]


def _words(typed: str, words: Iterable[str], suffix: str) -> Iterator[Completion]:
    for word in words:
        if word.startswith(typed):
            yield Completion(word + suffix, start_position=-len(typed), display=word)


_TOKEN = re.compile(
    r'(?P<remark>//.*|#.*)|(?P<text>"(?:[^"\\]|\\.)*"?)|(?P<number>\b\d[\w.]*)|(?P<word>[A-Za-z_?][\w?.]*)|\s+|.'
)


class LiveLexer(Lexer):
    """Colours commands, relations, texts and numbers."""

    def __init__(self, commands: ConsoleCommands) -> None:
        self._commands = commands

    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        lines = document.lines

        def line(number: int) -> StyleAndTextTuples:
            return [(self._style(match, lines[number]), match[0]) for match in _TOKEN.finditer(lines[number])]

        return line

    def _style(self, match: re.Match[str], line: str) -> str:
        kind = match.lastgroup
        if kind != "word":
            return f"class:{kind}" if kind else ""
        if not line[: match.start()].strip() and match[0] in self._commands.names:
            return "class:command"
        return "class:relation" if match[0] in self._commands.program.relations else ""
