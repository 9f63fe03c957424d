"""EDN values as JSON, for programs that have no reader of EDN.

A text that starts with a colon is a keyword, and an object is a map with keyword keys. Values that
JSON does not have are objects with one key, which starts with `#`:

>>> from dbsp.edn import from_json, to_json
>>> from_json('{":db/id": -1, "person/born": {"#inst": "1815-12-10"}, ":person/tags": [":math"]}')
{:db/id -1, :person/born #inst "1815-12-10T00:00:00.000Z", :person/tags [:math]}
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any, Never
from uuid import UUID

from dbsp.edn.edn_atoms import CONSTANTS, Problem, atom_value, check_tag, tagged_value
from dbsp.edn.edn_builders import FormBuilder, map_of, set_of
from dbsp.edn.edn_forms import Form, SourceText, form_at
from dbsp.edn.edn_values import READ_TAGS, Char, EdnList, Keyword, Symbol, Tagged
from dbsp.edn.edn_writer import MAX_DEPTH, write
from dbsp.errors import EdnError, shorten, wrong_argument

_HALF = re.compile("[\ud800-\udfff]")


# Some programs end lines at these.
_LINE_ENDS = re.compile("[\x7f-\x9f\u2028\u2029]")


class _Object(list[tuple[str, Any]]):
    """The members of a JSON object, which may have a name twice."""


def to_json(value: Any) -> str:
    """Return a value as JSON on one line. `from_json` returns an equal value of the same class.

    Parameters:
        value: a value, as for `dbsp.edn.write`.

    Raises:
        EdnError: as `dbsp.edn.write`.

    Examples:
        >>> from dbsp.edn import Keyword, Symbol, to_json
        >>> to_json({Keyword("a"): [1.5, ":b", Symbol("?x"), {2}]})
        '{":a": [1.5, {"#string": ":b"}, {"#symbol": "?x"}, {"#set": [2]}]}'
    """
    text = json.dumps(_json_value(value, 0), ensure_ascii=False)
    return _LINE_ENDS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def from_json(text: str, file: str = "<json>") -> Any:
    """Return the EDN value of a JSON text.

    Parameters:
        text: JSON.
        file: the name of the text in errors.

    Raises:
        EdnError: the text is not JSON, or a keyword or tagged value in it is not valid.

    Examples:
        >>> from dbsp.edn import from_json
        >>> from_json('[":db/add", 1, ":person/name", "Ada"]')
        (:db/add, 1, :person/name, 'Ada')
    """
    if not isinstance(text, str):
        raise wrong_argument("text", "a str of JSON", text)
    source = SourceText(file)
    for line in text.split("\n"):
        source.append(f"{line}\n")
    return _read(text, source)


def read_json_lines(lines: Iterable[str], file: str = "<json>") -> Iterator[Form]:
    """Yield the EDN value of each line of JSON, as a form whose place is the line.

    Empty lines are skipped. The forms of all elements have the place of the line.

    Parameters:
        lines: the lines, such as an open file.
        file: the name of the text in places.

    Raises:
        EdnError: a line is not JSON, or a keyword or tagged value in it is not valid.

    Examples:
        >>> from dbsp.edn import read_json_lines
        >>> for form in read_json_lines(['{":a": 1}', '[":b"]'], "tx.jsonl"):
        ...     print(form.span, form.value)
        tx.jsonl:1:1 {:a 1}
        tx.jsonl:2:1 (:b,)
    """
    if isinstance(lines, str):
        raise wrong_argument("lines", "lines, such as an open file or text.splitlines()", lines)
    for number, line in enumerate(lines, 1):
        text = line.rstrip()
        if text:
            source = SourceText(file, number)
            source.append(f"{text}\n")
            value = _read(text, source)
            yield form_at(value, source, len(text) - len(text.lstrip()), len(text))


def _read(text: str, source: SourceText) -> Any:
    """Return the value of a JSON text. Its errors have places in the source."""
    builder = FormBuilder(source)
    try:
        return _edn_value(_DECODER.decode(text), 0)
    except json.JSONDecodeError as error:
        problem = Problem(f"invalid JSON: {error.msg}", code="invalid-json", length=1)
        raise builder.error(problem, "", error.pos) from None
    except RecursionError:
        raise builder.error(_too_deep(), text.rstrip(), 0) from None
    except Problem as problem:
        start = len(text) - len(text.lstrip())
        problem.start, problem.length = 0, None
        raise builder.error(problem, text.strip(), start) from None


def _constant(name: str) -> Never:
    hint = f'write {{"#float": "{name.replace("Infinity", "Inf")}"}}'
    raise Problem(f"expected JSON, got {name}", code="invalid-json", hint=hint)


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise Problem(f"the number {shorten(text)[1:-1]} is outside the range of a float", code="edn-number")
    return value


def _int(text: str) -> int:
    try:
        return int(text)
    except ValueError:  # the limit of Python
        raise Problem("expected a number of at most 4300 digits", code="edn-number") from None


_DECODER = json.JSONDecoder(
    object_pairs_hook=_Object, parse_constant=_constant, parse_float=_float, parse_int=_int
)


def _too_deep() -> Problem:
    return Problem(f"expected at most {MAX_DEPTH} nested collections, got more", code="edn-depth")


def _edn_value(item: Any, depth: int) -> Any:
    """Return the EDN value of decoded JSON. Raises Problem."""
    if isinstance(item, str):
        if not item.isascii() and _HALF.search(item):
            message = f"the text {shorten(item)} has half of a surrogate pair"
            raise Problem(message, code="edn-escape")
        return _keyword(item) if item[:1] == ":" else item
    if not isinstance(item, list):
        return item
    if isinstance(item, _Object) and len(item) == 1 and item[0][0][:1] == "#":
        return _from_tagged(item[0][0], item[0][1], depth)
    if depth >= MAX_DEPTH:
        raise _too_deep()
    values = []
    if isinstance(item, _Object):
        for name, member in item:
            values.append(_key(name))
            values.append(_edn_value(member, depth + 1))
        return map_of(values)
    return tuple(_edn_values(item, depth + 1))


def _edn_values(items: list[Any], depth: int) -> list[Any]:
    values = []
    for item in items:
        values.append(_edn_value(item, depth))
    return values


def _keyword(text: str) -> Keyword:
    try:
        return Keyword(text[1:])
    except EdnError:
        hint = 'a text that starts with a colon is written as {"#string": ":..."}'
        message = f"expected a keyword, got {shorten(text)}"
        raise Problem(message, code="edn-token", hint=hint) from None


def _key(name: str) -> Keyword:
    try:
        return Keyword(name.removeprefix(":"))
    except EdnError:
        hint = 'a map with other keys than keywords is written as {"#map": [[key, value], ...]}'
        message = f"expected a keyword as name of a member, got {shorten(name)}"
        raise Problem(message, code="edn-token", hint=hint) from None


def _from_tagged(name: str, item: Any, depth: int) -> Any:
    """Return the value of an object `{"#name": item}`."""
    if name in _ATOMS:
        expected, read = _ATOMS[name]
        value = read(item) if isinstance(item, str) else None
        if value is None:
            raise _unexpected(name, expected, item)
        return value
    if depth >= MAX_DEPTH and name[1:] not in READ_TAGS:
        raise _too_deep()
    if name in _COLLECTIONS:
        expected, collect = _COLLECTIONS[name]
        if type(item) is not list:
            raise _unexpected(name, expected, item)
        return collect(name, item, depth + 1)
    return _tagged(name, item, depth + 1)


def _tagged(name: str, item: Any, depth: int) -> Any:
    if name.startswith("#:"):
        hint = "write the namespace in front of each name"
        raise Problem(f"expected a tag, got {shorten(name)}", code="edn-tag", hint=hint)
    check_tag(name)
    return tagged_value(name[1:], _edn_value(item, depth))


def _unexpected(name: str, expected: str, item: Any) -> Problem:
    shown = shorten(json.dumps(item, default=str, ensure_ascii=False))[1:-1]
    return Problem(f"expected {expected} after {name}, got {shown}", code="edn-tag")


def _of_kind(kind: type, text: str) -> Any:
    """Return the EDN value of a text if it has this class, else None."""
    try:
        value = atom_value(text) if text else None
    except Problem:
        return None
    return value if type(value) is kind else None


def _pairs(name: str, items: list[Any], depth: int) -> Any:
    values = []
    for item in items:
        if type(item) is not list or len(item) != 2:
            raise _unexpected(name, "an array of arrays [key, value]", items)
        values.extend(_edn_values(item, depth))
    return map_of(values)


def _any_tag(name: str, items: list[Any], depth: int) -> Any:
    if len(items) != 2 or not isinstance(items[0], str):
        raise _unexpected(name, "an array of a tag and a value", items)
    return _tagged("#" + items[0], items[1], depth)


# What each `#name` expects, and its value; the functions of atoms return None for another text.
_ATOMS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "#string": ("a text", lambda text: text),
    "#symbol": ('the text of a symbol, such as "?x",', lambda text: _of_kind(Symbol, text)),
    "#char": ("a text of one character", lambda text: Char(text) if len(text) == 1 else None),
    "#decimal": ('a text such as "1.50"', lambda text: _of_kind(Decimal, text + "M")),
    "#ratio": ('a text such as "2/3"', lambda text: _of_kind(Fraction, text)),
    "#float": ('"Inf", "-Inf" or "NaN"', lambda text: CONSTANTS.get("##" + text)),
}
_COLLECTIONS: dict[str, tuple[str, Callable[[str, list[Any], int], Any]]] = {
    "#list": ("an array", lambda name, items, depth: EdnList(_edn_values(items, depth))),
    "#set": ("an array", lambda name, items, depth: set_of(_edn_values(items, depth))),
    "#map": ("an array of arrays [key, value]", _pairs),
    "#tag": ("an array of a tag and a value", _any_tag),
}


def _json_value(value: Any, depth: int) -> Any:
    """Return what `json.dumps` writes for an EDN value."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | str | Char | float | Decimal | Fraction | datetime | UUID | bytes):
        return _json_atom(value)
    if isinstance(value, Keyword):
        return repr(value)
    if isinstance(value, Symbol):
        return {"#symbol": value.text}
    if not isinstance(value, tuple | list | frozenset | set | dict | Tagged):
        write(value)  # raises the error for a value that EDN does not have
    if depth >= MAX_DEPTH:
        raise EdnError(_too_deep().message, code="edn-depth")
    inner = depth + 1
    if isinstance(value, Tagged):
        name = f"#{value.tag.text}"
        item = _json_value(value.value, inner)
        return {"#tag": [value.tag.text, item]} if name in _ATOMS or name in _COLLECTIONS else {name: item}
    items = []
    if isinstance(value, dict):
        for key, item in value.items():
            items.append([_json_value(key, inner), _json_value(item, inner)])
        if all(isinstance(key, Keyword) for key in value):
            return dict(items)
        return {"#map": items}
    for item in value:
        items.append(_json_value(item, inner))
    if isinstance(value, frozenset | set):
        return {"#set": sorted(items, key=json.dumps)}
    return {"#list": items} if isinstance(value, EdnList) else items


def _json_atom(value: Any) -> Any:
    """Return what `json.dumps` writes for a value that is not a collection or name."""
    text = write(value)  # and raises the error for a value without text
    if isinstance(value, str):
        return {"#string": str(value)} if value[:1] == ":" else str(value)
    if isinstance(value, Char):
        return {"#char": value.text}
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"#float": text[2:]}
    if isinstance(value, Decimal):
        return {"#decimal": text[:-1]}
    if isinstance(value, Fraction):
        return {"#ratio": text}
    if isinstance(value, int):
        return int(value)
    name, _, quoted = text.partition(" ")
    return {name: quoted[1:-1]}
