"""The places of operations in transaction data, and errors that name them.

An operation has a number: the position of its form in the transaction, or a later number for the
forms that a transaction function returned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from dbsp.edn.edn_values import Keyword
from dbsp.edn.edn_writer import display_text
from dbsp.errors import DbspError, InputError
from dbsp.lazy_dataclass import dataclass

_WIDTH = 100


@dataclass(frozen=True, slots=True)
class Element:
    """The element of an operation at a position, as the part that an error is about."""

    position: int


WHOLE: Final = Element(-1)
"""The whole operation, as the part that an error is about; None is the value nil."""


class OperationPlaces:
    """The forms of a transaction by their numbers.

    Parameters:
        forms: the forms of the transaction.
        name: the name of the transaction in messages.
    """

    def __init__(self, forms: Sequence[Any], name: str = "transaction") -> None:
        self._forms = forms
        self._name = name
        self._returned: list[tuple[int, int, Any]] = []

    def returned(self, caller: int, position: int, form: Any) -> int:
        """Return the number of a form that the function called by the form `caller` returned."""
        self._returned.append((caller, position, form))
        return len(self._forms) + len(self._returned) - 1

    def form(self, place: int) -> Any:
        """Return the form with a number."""
        count = len(self._forms)
        return self._forms[place] if place < count else self._returned[place - count][2]

    def path(self, place: int) -> str:
        """Return the path to a form, such as `transaction[3]`.

        The second form that the function called by it returned is `transaction[3][1]`.
        """
        count = len(self._forms)
        if place < count:
            return f"{self._name}[{place}]"
        caller, position, _ = self._returned[place - count]
        return f"{self.path(caller)}[{position}]"

    def located(
        self, place: int, error: DbspError, part: Any = WHOLE, attribute: Keyword | None = None
    ) -> DbspError:
        """Return an error with the path and the text of its operation in front of its message.

        `part` is the value or the `Element` that the error is about; its place is shown if the
        operation is text. A value of an attribute is the one after the name of the `attribute`.
        """
        message = f"{self.path(place)}: {form_text(self.form(place))}: {error.message}"
        return type(error)(message, code=error.code)

    def error(
        self, place: int, message: str, code: str, part: Any = WHOLE, attribute: Keyword | None = None
    ) -> DbspError:
        """Return the InputError for an operation; `part` and `attribute` are as for `located`."""
        return self.located(place, InputError(message, code=code), part, attribute)


def form_text(form: Any) -> str:
    """Return a form as EDN, in at most 100 characters.

    >>> form_text([":db/add", 17, ":person/name", "Ada"])
    '[:db/add 17 :person/name "Ada"]'
    """
    text = " ".join(display_text(_named(form)).split("\n"))
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 4]} ..."


def value_text(value: Any) -> str:
    """Return a value as EDN, in at most 60 characters."""
    text = " ".join(display_text(value).split("\n"))
    return text if len(text) <= 60 else f"{text[:56]} ..."


class _Name:
    """The name of an attribute or an operation in Python data, written without quotes."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _named(value: Any) -> Any:
    """Return a form with its names and functions in place of the texts of Python data."""
    if isinstance(value, str) and value.startswith(":") and " " not in value:
        return _Name(value)
    if isinstance(value, dict):
        return {_named(key): _named(each) for key, each in value.items()}
    if type(value) in (list, tuple):
        return tuple(map(_named, value))
    return _Name(function_name(value)) if callable(value) and not isinstance(value, Keyword) else value


def function_name(function: Callable[..., Any]) -> str:
    """Return the name of a function for messages."""
    return getattr(function, "__qualname__", None) or type(function).__name__


def as_ident(value: Any) -> Keyword | None:
    """Return the keyword that an attribute, an ident or an operation is named by; else None."""
    if isinstance(value, Keyword):
        return value
    if type(value) is str and len(value) > 1 and value[0] == ":":
        return Keyword(value[1:])
    return None
