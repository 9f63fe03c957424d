"""What the parser builds: values alone, or forms with their places."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from dbsp.edn.edn_atoms import CONSTANTS, Problem, atom_value, duplicate, shown, tagged_value
from dbsp.edn.edn_forms import Form, SourceText, located
from dbsp.edn.edn_values import EdnList, EdnMap, Keyword, Symbol
from dbsp.errors import EdnError

_LARGEST_MEMO = 1 << 16
_MISSING = object()


class ValueBuilder:
    """Builds values. Its exceptions are Problems, without places."""

    def __init__(self) -> None:
        self.known = dict(CONSTANTS)
        self.start = 0

    def atom(self, token: str) -> Any:
        first = token[0]
        if first == '"':
            return atom_value(token)
        value = atom_value(token)
        # Numbers and texts are rarely repeated; names are.
        if not "0" <= first <= "9" and len(self.known) < _LARGEST_MEMO:
            self.known[token] = value
        return value

    def collection(self, opener: str, items: list[Any], start: int) -> Any:
        return _COLLECTIONS[opener](items)

    def tagged(self, tag: str, item: Any, start: int) -> Any:
        if tag[1] != ":":
            return tagged_value(tag[1:], item)
        if type(item) is not EdnMap:
            raise _not_a_map(tag, item)
        return map_of([part for key, value in item.items() for part in (qualified(tag[2:], key), value)])

    def error(self, problem: Problem, token: str, start: int, opened: int | None = None) -> Problem:
        return problem


class FormBuilder:
    """Builds forms. Its exceptions are EdnErrors with places in the source."""

    def __init__(self, source: SourceText) -> None:
        self.source = source
        self.known: dict[str, Any] = {}
        self.start = 0
        self._values = dict(CONSTANTS)

    def tokens(self, matches: Iterable[re.Match[str]], base: int) -> Iterator[str]:
        """Yield the tokens of a text that starts at an offset; `start` is that of each."""
        for match in matches:
            self.start = base + match.start(1)
            yield match[1]

    def atom(self, token: str) -> Form:
        start = self.start
        value = self._values.get(token, _MISSING)
        if value is _MISSING:
            try:
                value = atom_value(token)
            except Problem as problem:
                raise self.error(problem, token, start) from None
            if token[0] == ":" and len(self._values) < _LARGEST_MEMO:
                self._values[token] = value
        return Form(value, self.source, start, start + len(token))

    def collection(self, opener: str, items: list[Form], start: int) -> Form:
        end = self.start + 1
        try:
            value = _COLLECTIONS[opener]([item.value for item in items])
        except Problem as problem:
            raise self._problem_of(problem, start, end, items) from None
        return Form(value, self.source, start, end, tuple(items))

    def tagged(self, tag: str, item: Form, start: int) -> Form:
        items = [item]
        try:
            if tag[1] != ":":
                value = tagged_value(tag[1:], item.value)
            elif item.kind != "map":
                raise _not_a_map(tag, item.value)
            else:
                items = list(item.items)
                for index, key in enumerate(items[::2]):
                    name = qualified(tag[2:], key.value)
                    items[2 * index] = Form(name, self.source, key.start, key.end, key.items)
                value = map_of([part.value for part in items])
        except Problem as problem:
            raise self._problem_of(problem, item.start, item.end, items) from None
        return Form(value, self.source, start, item.end, tuple(items))

    def error(self, problem: Problem, token: str, start: int, opened: int | None = None) -> EdnError:
        note = None if opened is None else f"the open bracket is at {self.source.span(opened, opened + 1)}"
        length = len(token) if problem.length is None else problem.length
        start += problem.start
        return self._error_at(problem, start, start + length, note)

    def _problem_of(self, problem: Problem, start: int, end: int, items: list[Form]) -> EdnError:
        """Return the error for a problem of a collection or one of its elements."""
        note = None
        if problem.at is not None:
            start, end = items[problem.at].start, items[problem.at].end
        if problem.first is not None:
            note = f"the first is at {items[problem.first].span}"
        return self._error_at(problem, start, end, note)

    def _error_at(self, problem: Problem, start: int, end: int, note: str | None) -> EdnError:
        span = self.source.span(start, end)
        found = self.source.diagnostic(problem.message, span, code=problem.code, hint=problem.hint, note=note)
        return located(problem.message, found, problem.code)


def _not_a_map(tag: str, value: Any) -> Problem:
    return Problem(f"expected a map after {tag}, got {shown(value)}", code="edn-tag")


def map_of(items: list[Any]) -> EdnMap:
    """Return the map of keys and values in turn. Raises Problem for a duplicate key."""
    parts = iter(items)
    if len(items) % 2:
        message = f"expected a value for each key of the map, got {len(items)} keys and values"
        hint = f"the key {shown(items[-1])} has no value"
        raise Problem(message, code="edn-map", hint=hint, at=len(items) - 1)
    value = EdnMap(zip(parts, parts, strict=True))
    if len(value) * 2 != len(items):
        raise duplicate(items, "key", 2)
    return value


def set_of(items: list[Any]) -> frozenset[Any]:
    """Return the set of elements. Raises Problem for a duplicate."""
    value = frozenset(items)
    if len(value) != len(items):
        raise duplicate(items, "element")
    return value


_COLLECTIONS: dict[str, Callable[[list[Any]], Any]] = {"[": tuple, "(": EdnList, "{": map_of, "#{": set_of}


def qualified(namespace: str, key: Any) -> Any:
    """Return a key of a map `#:namespace{...}`; `_/name` has no namespace. Raises Problem."""
    if not isinstance(key, Keyword | Symbol) or key.namespace not in (None, "_"):
        return key
    text = key.name if key.namespace else f"{namespace}/{key.name}"
    try:
        return type(key)(text)
    except EdnError as error:
        raise Problem(error.message, code="edn-token") from None
