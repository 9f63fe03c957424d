"""The forms of a query: EDN values with their places, from EDN text or from Python data.

The parser sees one kind of form, whatever the query was written in. In Python data a string may
stand for a symbol or a keyword, so its form is `LOOSE`: where the grammar expects a symbol, `"?x"`
is one, and elsewhere it is a string. A Python list or tuple is `LOOSE` too: it may be a list or a
vector.

The place of a form of Python data is its path, such as `query[:where][2]`, with a column in the
text that messages show for it:

>>> forms, texts = python_forms([":find", "?x", ":where", ["?x", ":name", "Ada"]], "query")
>>> str(forms.items[3].items[1].span), texts["query[3]"]
('query[3]:1:5', '[?x :name "Ada"]')
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from dataclasses import field
from enum import Enum, auto
from typing import Any

from dbsp.diagnostics import ProgramSources, SourceSpan
from dbsp.edn.edn_forms import Form
from dbsp.edn.edn_reader import read, read_forms
from dbsp.edn.edn_values import KEYWORD_TEXT, SYMBOL_TEXT, EdnList, Keyword, Symbol
from dbsp.edn.edn_writer import display_text
from dbsp.errors import ArgumentError, wrong_argument
from dbsp.lazy_dataclass import dataclass


class FormKind(Enum):
    """What a form is; the `LOOSE` kinds are those of Python data."""

    LIST = auto()
    VECTOR = auto()
    LOOSE_SEQUENCE = auto()
    MAP = auto()
    SET = auto()
    SYMBOL = auto()
    KEYWORD = auto()
    LOOSE_TEXT = auto()
    VALUE = auto()


@dataclass(frozen=True, slots=True)
class QueryForm:
    """An EDN value with its place. `items` are the parts of a collection; of a map keys and values.

    `value` is the whole as an EDN value, or the Python value that the caller wrote.
    """

    kind: FormKind
    value: Any
    span: SourceSpan = field(compare=False, repr=False)
    items: tuple[QueryForm, ...] = ()

    @property
    def is_list(self) -> bool:
        """Whether the form can be a list `( )`."""
        return self.kind in (FormKind.LIST, FormKind.LOOSE_SEQUENCE)

    @property
    def is_vector(self) -> bool:
        """Whether the form can be a vector `[ ]`."""
        return self.kind in (FormKind.VECTOR, FormKind.LOOSE_SEQUENCE)

    @property
    def is_sequence(self) -> bool:
        """Whether the form is a list or a vector."""
        return self.is_list or self.is_vector

    @property
    def symbol(self) -> str | None:
        """The text of the symbol that this form is or can be, or None."""
        if self.kind is FormKind.SYMBOL:
            return self.value.text  # type: ignore[no-any-return]
        loose = self.kind is FormKind.LOOSE_TEXT and SYMBOL_TEXT.fullmatch(self.value)
        return self.value if loose else None

    @property
    def keyword(self) -> Keyword | None:
        """The keyword that this form is or can be, or None."""
        if self.kind is FormKind.KEYWORD:
            return self.value  # type: ignore[no-any-return]
        loose = self.kind is FormKind.LOOSE_TEXT and is_keyword_text(self.value)
        return Keyword(self.value[1:]) if loose else None

    @property
    def variable(self) -> str | None:
        """The name of the variable that this form is, or None."""
        name = self.symbol
        return name if name is not None and re.fullmatch(r"\?.+", name) else None

    @property
    def source(self) -> str | None:
        """The name of the source that this form is, or None."""
        name = self.symbol
        return name if name is not None and name.startswith("$") else None

    @property
    def text(self) -> str:
        """The form as messages show it."""
        return shown_text(self)


def is_keyword_text(text: str) -> bool:
    """Whether a string of Python data can be a keyword: `":person/name"`."""
    return text.startswith(":") and KEYWORD_TEXT.fullmatch(text[1:]) is not None


def form_of(data: Any, file: str, what: str) -> tuple[QueryForm, ProgramSources]:
    """Return the form of EDN text or Python data, and the texts that its places refer to.

    `what` names the argument in errors. Raises EdnError for text that is not one EDN value.
    """
    if isinstance(data, str):
        forms = read_forms(data, file)
        if len(forms) != 1:
            read(data, file)  # raises the error
        return _of_edn(forms[0]), ProgramSources({file: data})
    if isinstance(data, (list, tuple, Mapping)):
        if _depth_exceeds(data, MAX_DEPTH):
            raise ArgumentError(f"{what}: expected at most {MAX_DEPTH} nested collections, got more")
        form, texts = python_forms(data, file)
        return form, ProgramSources(texts)
    raise wrong_argument(what, "EDN text, or Python lists and dicts", data)


_KINDS = {
    "list": FormKind.LIST,
    "vector": FormKind.VECTOR,
    "map": FormKind.MAP,
    "set": FormKind.SET,
}


def _of_edn(form: Form) -> QueryForm:
    kind = _KINDS.get(form.kind)
    if kind is not None:
        return QueryForm(kind, form.value, form.span, tuple(map(_of_edn, form.items)))
    if isinstance(form.value, Symbol):
        return QueryForm(FormKind.SYMBOL, form.value, form.span)
    atom = FormKind.KEYWORD if isinstance(form.value, Keyword) else FormKind.VALUE
    return QueryForm(atom, form.value, form.span)


def _depth_exceeds(data: Any, depth: int) -> bool:
    """Whether collections are nested deeper than `depth`; a list may contain itself."""
    if not isinstance(data, (list, tuple, Mapping, Set)):
        return False
    items = (part for pair in data.items() for part in pair) if isinstance(data, Mapping) else data
    return depth == 0 or any(_depth_exceeds(item, depth - 1) for item in items)


# --- Python data -------------------------------------------------------------------------------

MAX_DEPTH = 128
"""How deep collections of Python data may be nested, as in EDN text."""

# Strings of Python data that messages show as symbols and keywords.
_SHOWN_AS_NAME = re.compile(r"\?.+|\$\S*|%|_|\.|\.\.\.")


def python_forms(data: Any, path: str) -> tuple[QueryForm, dict[str, str]]:
    """Return the form of Python data, and the text of each place that its spans name.

    The parts of the query, and of its values in the form of a dict, have a path of their own.
    """
    texts: dict[str, str] = {}
    if isinstance(data, Mapping):
        return _map_of_parts(data, path, texts), texts
    if isinstance(data, (list, tuple)):
        items = _parts(data, path, texts)
        return _collection(FormKind.LOOSE_SEQUENCE, data, path, texts, items), texts
    return _part(data, path, texts), texts


def _map_of_parts(data: Mapping[Any, Any], path: str, texts: dict[str, str]) -> QueryForm:
    """The form of a dict: each value has a path of its own, and each key a column in the whole."""
    items = []
    for key, value in data.items():
        part = f"{path}[{key if isinstance(key, str) else display_text(key)}]"
        items.append(_shape(key))
        if isinstance(value, (list, tuple)):
            inner = _parts(value, part, texts)
            kind = FormKind.LIST if isinstance(value, EdnList) else FormKind.LOOSE_SEQUENCE
            items.append(_collection(kind, value, part, texts, inner))
        else:
            items.append(_part(value, part, texts))
    starts = _layout(FormKind.MAP, tuple(items))[1]
    for place in range(0, len(items), 2):
        items[place] = _placed(items[place], path, 1 + starts[place])[1]
    return _collection(FormKind.MAP, data, path, texts, tuple(items))


def _parts(data: list[Any] | tuple[Any, ...], path: str, texts: dict[str, str]) -> tuple[QueryForm, ...]:
    return tuple(_part(item, f"{path}[{position}]", texts) for position, item in enumerate(data))


def _collection(
    kind: FormKind, data: Any, path: str, texts: dict[str, str], items: tuple[QueryForm, ...]
) -> QueryForm:
    """The form of data whose parts have paths of their own; its text is shown in full."""
    text = texts[path] = _layout(kind, items)[0]
    return QueryForm(kind, data, SourceSpan(path, 1, 1, 1, len(text) + 1), items)


def _part(data: Any, path: str, texts: dict[str, str]) -> QueryForm:
    """The form of one part of a query: its columns count in the text of the part."""
    shape = _shape(data)
    text, placed = _placed(shape, path, 1)
    texts[path] = text
    return placed


def _shape(data: Any) -> QueryForm:
    """The form of Python data without places."""
    nowhere = SourceSpan("", 1)
    if isinstance(data, Keyword):
        return QueryForm(FormKind.KEYWORD, data, nowhere)
    if isinstance(data, Symbol):
        return QueryForm(FormKind.SYMBOL, data, nowhere)
    if isinstance(data, str):
        return QueryForm(FormKind.LOOSE_TEXT, data, nowhere)
    if isinstance(data, (list, tuple)):
        kind = FormKind.LIST if isinstance(data, EdnList) else FormKind.LOOSE_SEQUENCE
        return QueryForm(kind, data, nowhere, tuple(map(_shape, data)))
    if isinstance(data, Mapping):
        items = tuple(_shape(item) for pair in data.items() for item in pair)
        return QueryForm(FormKind.MAP, data, nowhere, items)
    if isinstance(data, Set):
        items = tuple(sorted(map(_shape, data), key=shown_text))
        return QueryForm(FormKind.SET, data, nowhere, items)
    return QueryForm(FormKind.VALUE, data, nowhere)


def _placed(form: QueryForm, path: str, column: int, bare: bool = False) -> tuple[str, QueryForm]:
    """Return the text of a form and the form with its place, which starts at this column.

    A `bare` string has no quotes.
    """
    if _has_items(form):
        text, starts = _layout(form.kind, form.items)
    else:
        text, starts = (form.value if bare else _atom(form)), []
    called = _called(form.kind, form.items)
    items = tuple(
        _placed(item, path, column + start, position == called)[1]
        for position, (item, start) in enumerate(zip(form.items, starts, strict=True))
    )
    span = SourceSpan(path, 1, column, 1, column + len(text))
    return text, QueryForm(form.kind, form.value, span, items)


def _has_items(form: QueryForm) -> bool:
    return form.is_sequence or form.kind in (FormKind.MAP, FormKind.SET)


def shown_text(form: QueryForm) -> str:
    """Return the form as EDN text, for messages."""
    return _layout(form.kind, form.items)[0] if _has_items(form) else _atom(form)


def _atom(form: QueryForm) -> str:
    if form.kind is FormKind.LOOSE_TEXT and (
        _SHOWN_AS_NAME.fullmatch(form.value) or is_keyword_text(form.value)
    ):
        return str(form.value)
    return display_text(form.value)


def _layout(kind: FormKind, items: tuple[QueryForm, ...]) -> tuple[str, list[int]]:
    """Return the text of a collection and where each item starts in it."""
    brackets = {FormKind.LIST: "()", FormKind.MAP: "{}", FormKind.SET: ["#{", "}"]}.get(kind, "[]")
    called = _called(kind, items)
    opening, closing = "()" if called is not None else brackets
    text, starts = opening, []
    for position, item in enumerate(items):
        text += " " if position else ""
        starts.append(len(text))
        text += item.value if position == called else shown_text(item)
    return text + closing, starts


def _called(kind: FormKind, items: tuple[QueryForm, ...]) -> int | None:
    """Return the position of the function, rule or operator in a sequence of Python data.

    It is the first item, or follows a source; None if the sequence is not a call.
    """
    if kind is not FormKind.LOOSE_SEQUENCE:
        return None
    position = 1 if items and items[0].source is not None else 0
    if len(items) <= position or items[position].kind is not FormKind.LOOSE_TEXT:
        return None
    head = items[position]
    return None if head.symbol is None or _SHOWN_AS_NAME.fullmatch(head.value) else position
