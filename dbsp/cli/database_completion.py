"""Completion and colours at the prompt of `dbsp db console`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.lexers import Lexer

from dbsp.cli.database_console import DatabaseConsole
from dbsp.compiler.datomic.meaning.query_aggregates import AGGREGATES
from dbsp.compiler.datomic.meaning.query_functions import BUILT_IN
from dbsp.compiler.datomic.text.clause_parser import OPERATORS, READERS
from dbsp.compiler.datomic.text.query_parser import KEYS
from dbsp.datomic import system_idents as system

_WORD = re.compile(r"[^\s,()\[\]{}\"#]*$")
_VARIABLE = re.compile(r"\?[\w.-]+")
_TOKEN = re.compile(
    r'(?P<remark>;.*)|(?P<text>"(?:[^"\\]|\\.)*"?)|(?P<keyword>:[^\s,()\[\]{}"]+)'
    r"|(?P<number>(?<![\w?.-])[+-]?\d[\w./]*)|[^\s,()\[\]{}\"]+|\s+|."
)


class DatabaseCompleter(Completer):
    """Completes commands, keywords, attributes, and the variables and functions of queries."""

    def __init__(self, console: DatabaseConsole) -> None:
        self._console = console
        self._paths = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        before = document.text_before_cursor
        command, blank, argument = before.lstrip().partition(" ")
        if command == ":rules" and blank and not argument.startswith("["):
            yield from self._paths.get_completions(Document(argument.lstrip()), complete_event)
            return
        found = _WORD.search(before)
        word = found[0] if found else ""
        if word.startswith("?"):
            known = dict.fromkeys(_VARIABLE.findall(self._console.entry + before[: -len(word)]))
            yield from _words(word, known)
        elif word.startswith(":") and not before.strip().removesuffix(word) and not self._console.entry:
            yield from _words(word, self._console.names, " ")
        elif word.startswith(":"):
            yield from _words(word, self._keywords())
        elif word and before[: -len(word)].endswith("("):
            names = {*AGGREGATES, *BUILT_IN, *OPERATORS, *READERS, "pull"}
            yield from _words(word, sorted(names), " ")

    def _keywords(self) -> Iterator[str]:
        """Yield the attributes of the user, then the keywords of queries and of the system."""
        schema = self._console.connection.db().schema
        yield from sorted(str(each) for each in schema.by_id.values() if each.id >= system.FIRST_ATTRIBUTE)
        yield from (f":{name}" for name in (*KEYS, "db/id", *system.SYSTEM_NAMES.values()))


def _words(typed: str, words: Iterable[str], suffix: str = "") -> Iterator[Completion]:
    for word in words:
        if word.startswith(typed) and word != typed:
            yield Completion(word + suffix, start_position=-len(typed), display=word)


class DatabaseLexer(Lexer):
    """Colours commands, attributes, texts and numbers."""

    def __init__(self, console: DatabaseConsole) -> None:
        self._console = console

    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        lines = document.lines

        def line(number: int) -> StyleAndTextTuples:
            text = lines[number]
            return [(self._style(match, text), match[0]) for match in _TOKEN.finditer(text)]

        return line

    def _style(self, match: re.Match[str], line: str) -> str:
        kind = match.lastgroup
        if kind != "keyword":
            return f"class:{kind}" if kind else ""
        if not line[: match.start()].strip() and match[0] in self._console.names:
            return "class:command"
        known = map(str, self._console.connection.db().schema.by_ident)
        return "class:relation" if match[0] in known else ""
