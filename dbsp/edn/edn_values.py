"""The values of EDN that Python has no class for: keywords, symbols, chars, lists, maps, tags.

All of them are immutable and hashable, and their `repr` is EDN.

>>> Keyword("person/name"), Symbol("?x"), Char("a"), EdnList([1, 2]), EdnMap({Keyword("a"): (1, 2)})
(:person/name, ?x, \\a, (1 2), {:a [1 2]})
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar, Never, Self
from weakref import WeakValueDictionary

from dbsp.errors import EdnError, shorten
from dbsp.lazy_dataclass import dataclass

# A character of a name: all but white space, control characters, and the signs of EDN and Clojure.
_INNER = r"[^\s,()\[\]{}\"\\;@^`~/\x00-\x20\x7f-\x9f\ufeff\ud800-\udfff]"
_KEYWORD_PART = rf"(?![:#']){_INNER}+"
_SYMBOL_PART = rf"(?![:#'\d]|[+\-.]\d){_INNER}+"
KEYWORD_TEXT = re.compile(rf"{_KEYWORD_PART}(?:/{_KEYWORD_PART})?")
SYMBOL_TEXT = re.compile(rf"/|{_SYMBOL_PART}(?:/{_SYMBOL_PART})?")
TAG_TEXT = re.compile(rf"(?=[^\W\d_]){_SYMBOL_PART}(?:/{_SYMBOL_PART})?")

OTHER_LITERALS = frozenset(("nil", "true", "false"))
"""Texts that look like symbols and are other values."""

READ_TAGS = frozenset(("inst", "uuid", "bytes"))
"""Tags whose values have a class of Python: datetime, UUID, bytes."""


class _Name:
    """A name with an optional namespace. Equal names of a class are the same object."""

    __slots__ = ("__weakref__", "name", "namespace", "text")

    text: str
    namespace: str | None
    name: str
    _interned: ClassVar[WeakValueDictionary[str, Any]]
    _lock: ClassVar[Lock] = Lock()

    def __new__(cls, text: str) -> Self:
        found = cls._interned.get(text)
        if found is not None:
            return found  # type: ignore[no-any-return]
        cls._check(text)
        created = object.__new__(cls)
        namespace, slash, name = text.partition("/") if text != "/" else ("", "", "/")
        object.__setattr__(created, "text", text)
        object.__setattr__(created, "namespace", namespace if slash else None)
        object.__setattr__(created, "name", name if slash else text)
        with _Name._lock:  # of two threads, one creates the object
            return cls._interned.setdefault(text, created)  # type: ignore[no-any-return]

    @classmethod
    def _check(cls, text: str) -> None:
        raise NotImplementedError

    def __setattr__(self, name: str, value: object) -> Never:
        raise AttributeError(f"{self!r} is immutable")

    def __delattr__(self, name: str) -> Never:
        raise AttributeError(f"{self!r} is immutable")

    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        return type(self), (self.text,)

    def __lt__(self, other: object) -> bool:
        return self.text < other.text if isinstance(other, type(self)) else NotImplemented

    def __le__(self, other: object) -> bool:
        return self.text <= other.text if isinstance(other, type(self)) else NotImplemented

    def __gt__(self, other: object) -> bool:
        return self.text > other.text if isinstance(other, type(self)) else NotImplemented

    def __ge__(self, other: object) -> bool:
        return self.text >= other.text if isinstance(other, type(self)) else NotImplemented


class Keyword(_Name):
    """A keyword, such as `:person/name`. Keywords are ordered by their text.

    Equal keywords are the same object, so comparing and hashing them is cheap.

    Parameters:
        text: the keyword without its colon.

    Raises:
        EdnError: the text cannot be the name of a keyword.

    Examples:
        >>> name = Keyword("person/name")
        >>> name, name.namespace, name.name, name is Keyword("person/name")
        (:person/name, 'person', 'name', True)
    """

    __slots__ = ()
    _interned: ClassVar[WeakValueDictionary[str, Any]] = WeakValueDictionary()

    if TYPE_CHECKING:  # the reference shows the parameters of `__init__`

        def __init__(self, text: str) -> None: ...

    @classmethod
    def _check(cls, text: str) -> None:
        if not isinstance(text, str) or KEYWORD_TEXT.fullmatch(text) is None:
            colon = isinstance(text, str) and text[:1] == ":"
            advice = "; write it without its colon" if colon else ""
            raise EdnError(
                f"expected the name of a keyword, such as 'person/name', got {shorten(text)}{advice}",
                code="edn-token",
            )

    def __repr__(self) -> str:
        return ":" + self.text


class Symbol(_Name):
    """A symbol, such as `?x`, `$`, `foo/bar` or `/`. Symbols are ordered by their text.

    Equal symbols are the same object.

    Parameters:
        text: the symbol.

    Raises:
        EdnError: the text cannot be a symbol.

    Examples:
        >>> Symbol("?x"), Symbol("clojure.string/join").namespace, Symbol("/").name
        (?x, 'clojure.string', '/')
    """

    __slots__ = ()
    _interned: ClassVar[WeakValueDictionary[str, Any]] = WeakValueDictionary()

    if TYPE_CHECKING:  # the reference shows the parameters of `__init__`

        def __init__(self, text: str) -> None: ...

    @classmethod
    def _check(cls, text: str) -> None:
        if not isinstance(text, str) or text in OTHER_LITERALS or SYMBOL_TEXT.fullmatch(text) is None:
            raise EdnError(
                f"expected a symbol, such as '?x' or 'str/join', got {shorten(text)}", code="edn-token"
            )

    def __repr__(self) -> str:
        return self.text


class ReprIsEdn:
    """Gives a class the `repr` of the EDN writer."""

    __slots__ = ()

    text_of: ClassVar[Callable[[object], str]]
    """The function of the writer, which sets it; the package imports the writer."""

    def __repr__(self) -> str:
        return ReprIsEdn.text_of(self)


@dataclass(frozen=True, slots=True, order=True, repr=False)
class Char(ReprIsEdn):
    """A character, such as `\\a` or `\\newline`.

    Parameters:
        text: a str of length one.

    Raises:
        EdnError: the text is not one character.

    Examples:
        >>> Char("a"), Char("\\n"), Char("a").text
        (\\a, \\newline, 'a')
    """

    text: str

    def __post_init__(self) -> None:
        if not isinstance(self.text, str) or len(self.text) != 1:
            raise EdnError(f"expected one character, got {shorten(self.text)}", code="edn-token")


class EdnList(ReprIsEdn, tuple[Any, ...]):
    """A list, such as `(1 2)`. It is a tuple, and equal to the vector with the same items.

    Examples:
        >>> EdnList([1, 2]), EdnList([1, 2]) == (1, 2)
        ((1 2), True)
    """

    __slots__ = ()


def _immutable(self: object, *args: object, **named: object) -> Never:
    raise TypeError("an EdnMap is immutable; change a copy: dict(the_map)")


class EdnMap(ReprIsEdn, dict[Any, Any]):
    """A map, such as `{:a 1}`: an immutable, hashable dict, in the order of the text.

    Keys and values are hashable, as all values that the reader returns. An EdnMap is equal to a
    dict with the same items.

    Examples:
        >>> point = EdnMap({Keyword("x"): 1, Keyword("y"): 2})
        >>> point, point[Keyword("x")], point == {Keyword("y"): 2, Keyword("x"): 1}
        ({:x 1, :y 2}, 1, True)
        >>> {point: "found"}[EdnMap(point)]
        'found'
    """

    __slots__ = ()

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[type[EdnMap], tuple[dict[Any, Any]]]:
        return EdnMap, (dict(self),)

    def __or__(self, other: Mapping[Any, Any]) -> EdnMap:
        return EdnMap({**self, **other})

    __setitem__ = __delitem__ = __ior__ = _immutable
    clear = pop = popitem = setdefault = update = _immutable


@dataclass(frozen=True, slots=True, repr=False)
class Tagged(ReprIsEdn):
    """A value with a tag that EDN does not define, such as `#point [1 2]`.

    Parameters:
        tag: the tag, a symbol that starts with a letter, or its text.
        value: the value after the tag.

    Raises:
        EdnError: the text cannot be a tag, or the tag is `inst`, `uuid` or `bytes`: those values
            are datetimes, UUIDs and bytes.

    Examples:
        >>> Tagged("point", (1, 2)), Tagged("my.app/point", 3).tag.namespace
        (#point [1 2], 'my.app')
    """

    tag: Symbol
    value: Hashable

    def __init__(self, tag: Symbol | str, value: Any) -> None:
        text = tag.text if isinstance(tag, Symbol) else tag
        if not isinstance(text, str) or TAG_TEXT.fullmatch(text) is None:
            raise EdnError(
                f"expected a tag, which starts with a letter, such as 'my.app/point', got {shorten(text)}",
                code="edn-tag",
            )
        if text in READ_TAGS:
            kind = {"inst": "an aware datetime", "uuid": "a uuid.UUID", "bytes": "bytes"}[text]
            raise EdnError(f"the value of #{text} is {kind}; use that instead of Tagged", code="edn-tag")
        object.__setattr__(self, "tag", Symbol(text))
        object.__setattr__(self, "value", value)
