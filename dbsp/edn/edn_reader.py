"""Reads EDN text.

>>> read('{:name "Ada", :born #inst "1815-12-10"}')
{:name "Ada", :born #inst "1815-12-10T00:00:00.000Z"}
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from dbsp.edn.edn_atoms import Problem
from dbsp.edn.edn_builders import FormBuilder, ValueBuilder
from dbsp.edn.edn_forms import Form, SourceText, located
from dbsp.edn.edn_parser import STRING_END, TOKEN, Parser
from dbsp.errors import EdnError, wrong_argument

_HALF = re.compile("[\ud800-\udfff]")


def read(text: str, file: str = "<edn>") -> Any:
    """Return the one value of a text.

    Parameters:
        text: EDN.
        file: the name of the text in errors.

    Raises:
        EdnError: the text is not EDN, or has no value, or several. Its message has the file, line
            and column, the line, a caret and a hint.

    Examples:
        >>> from dbsp.edn import read
        >>> read("[:find ?e :where [?e :age 42]]")
        (:find, ?e, :where, (?e, :age, 42))
        >>> try:
        ...     read("[1 2")
        ... except EdnError as error:
        ...     print(error)
        <edn>:1:1: error: the vector that starts here does not end [edn-bracket]
            [1 2
            ^
            hint: end it with ]
    """
    values = read_all(text, file)
    if len(values) == 1:
        return values[0]
    if not values:
        raise _no_value(text, file)
    second = read_forms(text, file)[1]
    raise second.error(
        f"expected one value, got {len(values)}", code="edn-one-value", hint="read_all reads several values"
    )


def read_all(text: str, file: str = "<edn>") -> list[Any]:
    """Return all values of a text.

    Parameters:
        text: EDN.
        file: the name of the text in errors.

    Raises:
        EdnError: the text is not EDN.

    Examples:
        >>> from dbsp.edn import read_all
        >>> read_all("1 (2) ; three")
        [1, (2)]
    """
    if not isinstance(text, str):
        raise wrong_argument("text", "a str of EDN", text)
    parser = Parser(ValueBuilder())
    try:
        if text.isascii() or not _HALF.search(text):
            parser.feed(TOKEN.findall(text))
            parser.finish()
            return parser.results
    except Problem:
        pass
    return [form.value for form in read_forms(text, file)]  # raises the error with its place


def read_forms(text: str, file: str = "<edn>") -> list[Form]:
    """Return all values of a text with their places.

    Parameters:
        text: EDN.
        file: the name of the text in places.

    Raises:
        EdnError: the text is not EDN.

    Examples:
        >>> from dbsp.edn import read_forms
        >>> (form,) = read_forms("[1 (2\\n3)]", "a.edn")
        >>> form.value, form.kind, [str(item.span) for item in form.items]
        ((1, (2 3)), 'vector', ['a.edn:1:2', 'a.edn:1:4'])
    """
    source = SourceText(file)
    for line in text.split("\n"):
        source.append(f"{line}\n")
    builder = FormBuilder(source)
    parser = Parser(builder)
    _check_characters(text, 0, builder)
    parser.feed(builder.tokens(TOKEN.finditer(text), 0))
    parser.finish()
    return parser.results


def read_stream(lines: Iterable[str], file: str = "<edn>") -> Iterator[Form]:
    """Yield the values of a text with their places, each as soon as its last line is read.

    Only the lines of open collections are kept, so a text may be larger than the memory.

    Parameters:
        lines: the lines of the text with their ends, such as an open file.
        file: the name of the text in places.

    Raises:
        EdnError: the text is not EDN. The values before the error are yielded first.

    Examples:
        >>> from dbsp.edn import read_stream
        >>> for form in read_stream(["{:a 1}\\n", "{:a\\n", " 2}\\n"], "a.edn"):
        ...     print(form.span.line, form.value)
        1 {:a 1}
        2 {:a 2}
    """
    if isinstance(lines, str):
        raise wrong_argument("lines", "lines, such as an open file or text.splitlines()", lines)
    builder = FormBuilder(SourceText(file))
    parser = Parser(builder)
    text_start: list[str] = []  # the lines of a string without end
    base = 0
    for number, line in enumerate(lines, 1):
        if not (parser.is_open or text_start):
            builder.source = SourceText(file, number)
        line = line if line.endswith("\n") else f"{line}\n"
        start = builder.source.append(line)
        _check_characters(line, start, builder)
        if text_start:
            text_start.append(line)
            if not STRING_END.match(line):
                continue
            line = "".join(text_start)
            text_start.clear()
        else:
            base = start
        tokens = [match for match in TOKEN.finditer(line) if match[1]]
        rest = len(line)
        # Only a string without end includes the end of its line.
        if tokens and tokens[-1].end() == rest:
            rest = tokens.pop().start(1)
            text_start.append(line[rest:])
        yield from _fed(parser, builder.tokens(tokens, base))
        base += rest
    if text_start:
        yield from _fed(parser, builder.tokens(TOKEN.finditer("".join(text_start)), base))
    parser.finish()


def _fed(parser: Parser, tokens: Iterator[str]) -> Iterator[Form]:
    """Yield the forms that end in these tokens; before an error, the forms before it."""
    try:
        parser.feed(tokens)
    except EdnError:
        yield from parser.results
        raise
    yield from parser.results
    parser.results.clear()


def _check_characters(text: str, base: int, builder: FormBuilder) -> None:
    """Raise EdnError if a text has half of a surrogate pair, which cannot be written anywhere."""
    half = None if text.isascii() else _HALF.search(text)
    if half is not None:
        problem = Problem(
            "expected Unicode text, got half of a surrogate pair",
            code="invalid-encoding",
            hint="read the text with the encoding that it was written with, such as UTF-8",
        )
        raise builder.error(problem, half[0], base + half.start())


def _no_value(text: str, file: str) -> EdnError:
    """Return the error for a text without a value."""
    source = SourceText(file)
    for line in text.rstrip().split("\n"):
        source.append(line)
    message = "expected a value, got the end of the text"
    span = source.span(source.size, source.size)
    return located(message, source.diagnostic(message, span, code="edn-one-value"), "edn-one-value")
