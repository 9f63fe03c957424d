"""Constructed values in Python: records are tuples, branches are objects of a class.

Both may be nested without bound; a list of 100,000 elements is one example. So comparing, printing
and pickling do not use recursion. The hash of a value is computed once, on construction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn, TypeAlias

from dbsp.errors import wrong_argument


class Record(tuple[Any, ...]):
    """A record in the rows of an output: a tuple with the equality and hash of the plain tuple.

    Write records as tuples; `Record` is the class of the records in results, in which nil is None.

    Examples:
        >>> Record((1, Record((2, None)))) == (1, (2, None))
        True
    """

    _hash: int

    def __new__(cls, fields: Iterable[Any] = ()) -> Record:
        self = super().__new__(cls, fields)
        self.__dict__["_hash"] = tuple.__hash__(self)
        return self

    @classmethod
    def _make(cls, fields: Iterable[Any]) -> Record:
        return cls(fields)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError("a record is immutable")

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, tuple):
            return NotImplemented
        return equal(self, other)

    def __ne__(self, other: object) -> bool:
        if not isinstance(other, tuple):
            return NotImplemented
        return not equal(self, other)

    def __repr__(self) -> str:
        return "".join(_tokens(self, repr, _PYTHON))

    def __str__(self) -> str:
        return repr(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (_flattened(self),)


class Branch:
    """A value of an algebraic data type: the name of its branch, and its arguments.

    Immutable, hashable, and equal to branches of the same name with equal arguments. In a `match`
    statement: `case Branch(name="Add", arguments=(left, right))`.

    Parameters:
        name: the name of the branch, with or without a leading `$`.
        arguments: the values of the fields of the branch.

    Examples:
        >>> Branch("Add", Branch("Number", 1), Branch("Nothing"))
        Branch('Add', Branch('Number', 1), Branch('Nothing'))
        >>> print(Branch("Add", Branch("Number", 1), Branch("Nothing")))
        $Add($Number(1), $Nothing)
    """

    __slots__ = ("__weakref__", "_hash", "arguments", "name")
    __match_args__ = ("name", "arguments")

    name: str
    arguments: tuple[Any, ...]
    _hash: int

    def __init__(self, name: str, *arguments: Any) -> None:
        if not isinstance(name, str):
            raise wrong_argument("name", "the name of a branch", name)
        object.__setattr__(self, "name", name.removeprefix("$"))
        object.__setattr__(self, "arguments", arguments)
        object.__setattr__(self, "_hash", hash((self.name, arguments)))

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError("a branch is immutable")

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return equal(self, other) if isinstance(other, Branch) else NotImplemented

    def __repr__(self) -> str:
        return "".join(_tokens(self, repr, _PYTHON))

    def __str__(self) -> str:
        return term_text(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (_flattened(self),)


Term: TypeAlias = Record | Branch


def parts_of(value: Any) -> tuple[Any, ...]:
    """Return the fields of a record or the arguments of a branch."""
    return value.arguments if isinstance(value, Branch) else tuple(value)


def equal(a: Any, b: Any) -> bool:
    """Return whether two values are equal; compares each pair of shared parts once. O(parts)."""
    stack = [(a, b)]
    compared: set[tuple[int, int]] = set()
    while stack:
        a, b = stack.pop()
        if a is b:
            continue
        if isinstance(a, tuple) and isinstance(b, tuple):
            if len(a) != len(b) or (isinstance(a, Record) and isinstance(b, Record) and hash(a) != hash(b)):
                return False
        elif isinstance(a, Branch) and isinstance(b, Branch):
            if hash(a) != hash(b) or a.name != b.name or len(a.arguments) != len(b.arguments):
                return False
        else:
            if a != b:
                return False
            continue
        if (id(a), id(b)) not in compared:
            compared.add((id(a), id(b)))
            stack.extend(zip(parts_of(a), parts_of(b), strict=True))
    return True


# --- text -----------------------------------------------------------------------------------------

Brackets: TypeAlias = Callable[[Any], tuple[str, str]]


def _python(value: Any) -> tuple[str, str]:
    if isinstance(value, Branch):
        return f"Branch({value.name!r}{', ' if value.arguments else ''}", ")"
    return "(", ",)" if len(value) == 1 else ")"


def _souffle(value: Any) -> tuple[str, str]:
    if isinstance(value, Branch):
        return (f"${value.name}(", ")") if value.arguments else (f"${value.name}", "")
    return "[", "]"


_PYTHON: Brackets = _python


def term_text(value: Any, text_of: Callable[[Any], str] = str) -> str:
    """Return a value as Soufflé writes it: `[1, [2, nil]]`, `$Add($Number(1), $Nothing)`.

    `text_of` writes the other values. O(length of the text).
    """
    return "".join(_tokens(value, lambda part: "nil" if part is None else text_of(part), _souffle))


def _tokens(value: Any, plain: Callable[[Any], str], brackets: Brackets) -> Iterator[str]:
    stack: list[tuple[Iterator[Any], str]] = [(iter((value,)), "")]
    first = True
    while stack:
        parts, closing = stack[-1]
        for part in parts:
            if not first:
                yield ", "
            if isinstance(part, Branch) or (isinstance(part, tuple) and type(part) in (tuple, Record)):
                opening, end = brackets(part)
                yield opening
                stack.append((iter(parts_of(part)), end))
                first = True
                break
            yield plain(part)
            first = False
        else:
            stack.pop()
            yield closing
            first = False


# --- pickling -------------------------------------------------------------------------------------

Cell: TypeAlias = tuple[str | None, tuple[Any, ...], tuple[bool, ...]]
"""The name of a branch or None, the parts, and which parts are indices of earlier cells."""


def _flattened(value: Term) -> list[Cell]:
    """Return the cells of a value, inner values first, so that pickle does not recurse into it."""
    cells: list[Cell] = []
    places: dict[int, int] = {}
    stack: list[Any] = [value]
    while stack:
        node = stack[-1]
        if id(node) in places:
            stack.pop()
            continue
        inner = [isinstance(part, Term) for part in parts_of(node)]
        waiting = [
            part
            for part, nested in zip(parts_of(node), inner, strict=True)
            if nested and id(part) not in places
        ]
        if waiting:
            stack.extend(waiting)
            continue
        stack.pop()
        places[id(node)] = len(cells)
        parts = tuple(
            places[id(part)] if nested else part for part, nested in zip(parts_of(node), inner, strict=True)
        )
        cells.append((node.name if isinstance(node, Branch) else None, parts, tuple(inner)))
    return cells


def _rebuilt(cells: list[Cell]) -> Term:
    terms: list[Term] = []
    for name, parts, inner in cells:
        fields = [terms[part] if nested else part for part, nested in zip(parts, inner, strict=True)]
        terms.append(Record(fields) if name is None else Branch(name, *fields))
    return terms[-1]
