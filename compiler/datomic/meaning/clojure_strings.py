"""Clojure's functions of strings, keywords and regular expressions, for queries.

Regular expressions are those of Python's `re`. A match with groups is a vector, as in Clojure.
"""

from __future__ import annotations

import datetime
import re
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

from dbsp.compiler.datomic.meaning.clojure_order import type_name
from dbsp.edn.edn_values import Char, Keyword, Symbol, Tagged
from dbsp.edn.edn_writer import display_text
from dbsp.errors import EvaluationError, shorten


def text_of(*values: Any) -> str:
    """Return the texts of the values, one after the other; nil has none.

    >>> text_of("a", 1, None, True)
    'a1true'
    """
    return "".join(map(_text, values))


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, Char):
        return value.text
    if isinstance(value, (Decimal, Fraction)):
        return str(value)
    if isinstance(value, datetime.datetime):
        return display_text(value).removeprefix("#inst ").strip('"')
    return value if isinstance(value, str) else display_text(value)


def substring(text: Any, start: Any, end: Any = None) -> str:
    """Return the characters from `start` to `end`, without `end`.

    >>> substring("people", 2), substring("people", 0, 3)
    ('ople', 'peo')
    """
    whole = _string("subs", text)
    stop = len(whole) if end is None else end
    for position in (start, stop):
        if not isinstance(position, int) or isinstance(position, bool):
            raise _wrong("subs", "an integer", position)
    if not 0 <= start <= stop <= len(whole):
        raise EvaluationError(
            f"subs: expected positions in order from 0 to {len(whole)}, the length of "
            f"{shorten(whole)}; got {start} and {stop}",
            code="position-out-of-range",
        )
    return whole[start:stop]


def upper_case(text: Any) -> str:
    """Return the text in capital letters."""
    return _string("clojure.string/upper-case", text).upper()


def lower_case(text: Any) -> str:
    """Return the text in small letters."""
    return _string("clojure.string/lower-case", text).lower()


def capitalize(text: Any) -> str:
    """Return the text with a capital first letter; the other letters are small."""
    return _string("clojure.string/capitalize", text).capitalize()


def starts_with(text: Any, prefix: Any) -> bool:
    """Whether a text starts with another."""
    name = "clojure.string/starts-with?"
    return _string(name, text).startswith(_string(name, prefix))


def ends_with(text: Any, suffix: Any) -> bool:
    """Whether a text ends with another."""
    name = "clojure.string/ends-with?"
    return _string(name, text).endswith(_string(name, suffix))


def includes(text: Any, part: Any) -> bool:
    """Whether a text contains another."""
    name = "clojure.string/includes?"
    return _string(name, part) in _string(name, text)


def is_blank(text: Any) -> bool:
    """Whether a text is nil, empty or white space only."""
    return text is None or not _string("clojure.string/blank?", text).strip()


def trim(text: Any) -> str:
    """Return the text without white space at its ends."""
    return _string("clojure.string/trim", text).strip()


def trim_left(text: Any) -> str:
    """Return the text without white space at its start."""
    return _string("clojure.string/triml", text).lstrip()


def trim_right(text: Any) -> str:
    """Return the text without white space at its end."""
    return _string("clojure.string/trimr", text).rstrip()


def reverse_text(text: Any) -> str:
    """Return the characters in reverse order."""
    return _string("clojure.string/reverse", text)[::-1]


def join_texts(separator: Any, items: Any = None) -> str:
    """Return the texts of the items of a collection, with a separator between them."""
    if items is None:
        separator, items = "", separator
    if not isinstance(items, (list, tuple, frozenset, set)):
        raise _wrong("clojure.string/join", "a collection", items)
    return _string("clojure.string/join", separator).join(map(_text, items))


def split_text(text: Any, separator: Any, limit: Any = 0) -> tuple[str, ...]:
    """Return the parts between the matches of a pattern, without empty parts at the end.

    With a positive limit there are at most so many parts, and empty ones stay.
    """
    whole, pattern = _string("clojure.string/split", text), _pattern("clojure.string/split", separator)
    if not isinstance(limit, int) or isinstance(limit, bool):
        raise _wrong("clojure.string/split", "an integer as limit", limit)
    parts: list[str] = []
    start = 0
    for match in pattern.finditer(whole):
        if limit > 0 and len(parts) == limit - 1:
            break
        # Java drops an empty match at the start.
        if match.end() > 0 and (match.end() > match.start() or match.start() < len(whole)):
            parts.append(whole[start : match.start()])
            start = match.end()
    parts.append(whole[start:])
    while limit == 0 and len(parts) > 1 and not parts[-1]:
        parts.pop()
    return tuple(parts)


def replace_text(text: Any, match: Any, replacement: Any) -> str:
    """Return the text with every match of a text or pattern replaced by a text."""
    name = "clojure.string/replace"
    whole, new = _string(name, text), _string(name, replacement)
    if not isinstance(match, str):
        # `$1` is a group in Java.
        return _pattern(name, match).sub(re.sub(r"\$(\d)", r"\\g<\1>", new), whole)
    return whole.replace(match, new)


def index_of(text: Any, part: Any) -> int | None:
    """Return the position of the first occurrence of a part, or nil."""
    name = "clojure.string/index-of"
    position = _string(name, text).find(_string(name, part))
    return None if position < 0 else position


def last_index_of(text: Any, part: Any) -> int | None:
    """Return the position of the last occurrence of a part, or nil."""
    name = "clojure.string/last-index-of"
    position = _string(name, text).rfind(_string(name, part))
    return None if position < 0 else position


def keyword(*parts: Any) -> Keyword:
    """Return the keyword of a name, or of a namespace and a name.

    >>> keyword("person/name"), keyword("person", "name")
    (:person/name, :person/name)
    """
    if len(parts) == 1 and isinstance(parts[0], Keyword):
        return parts[0]
    return Keyword("/".join(_name("keyword", part) for part in parts))


def symbol(*parts: Any) -> Symbol:
    """Return the symbol of a name, or of a namespace and a name."""
    if len(parts) == 1 and isinstance(parts[0], Symbol):
        return parts[0]
    return Symbol("/".join(_name("symbol", part) for part in parts))


def name_of(value: Any) -> str:
    """Return the name of a keyword or symbol, without its namespace; a string is its own name."""
    if isinstance(value, (Keyword, Symbol)):
        return value.name
    return _string("name", value)


def namespace_of(value: Any) -> str | None:
    """Return the namespace of a keyword or symbol, or nil."""
    if isinstance(value, (Keyword, Symbol)):
        return value.namespace
    raise _wrong("namespace", "a keyword or symbol", value)


def regular_expression(text: Any) -> re.Pattern[str]:
    """Return the compiled pattern of a text."""
    return _pattern("re-pattern", text)


def first_match(pattern: Any, text: Any) -> Any:
    """Return the first match in a text: a string, a vector of groups, or nil.

    >>> first_match("[0-9]+", "a12b3"), first_match("([a-z])([0-9])", "a1")
    ('12', ('a1', 'a', '1'))
    """
    return _groups(_pattern("re-find", pattern).search(_string("re-find", text)))


def whole_match(pattern: Any, text: Any) -> Any:
    """Return the match if the pattern matches the whole text, or nil."""
    return _groups(_pattern("re-matches", pattern).fullmatch(_string("re-matches", text)))


def all_matches(pattern: Any, text: Any) -> tuple[Any, ...] | None:
    """Return all matches, or nil if there are none."""
    found = _pattern("re-seq", pattern).finditer(_string("re-seq", text))
    return tuple(map(_groups, found)) or None


def _groups(match: re.Match[str] | None) -> Any:
    if match is None:
        return None
    return (match[0], *match.groups()) if match.re.groups else match[0]


def _pattern(name: str, pattern: Any) -> re.Pattern[str]:
    if isinstance(pattern, re.Pattern):
        return pattern
    if isinstance(pattern, Tagged) and pattern.tag.text == "regex":  # #"[a-z]+"
        pattern = pattern.value
    try:
        return _compiled(_string(name, pattern))
    except re.error as error:
        raise EvaluationError(
            f"{name}: {shorten(pattern)} is not a regular expression: {error}",
            code="invalid-pattern",
        ) from None


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _name(function: str, value: Any) -> str:
    return value.text if isinstance(value, (Keyword, Symbol)) else _string(function, value)


def _string(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _wrong(name, "a string", value)
    return value


def _wrong(name: str, expected: str, value: Any) -> EvaluationError:
    message = f"{name}: expected {expected}, got {shorten(value)} of type {type_name(value)}"
    return EvaluationError(message, code="wrong-value-type")
