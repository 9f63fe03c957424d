"""The forms of a transaction, from EDN text or Python data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from dbsp.datomic.operation_places import WHOLE, Element, OperationPlaces
from dbsp.datomic.value_codes import described
from dbsp.edn.edn_forms import Form
from dbsp.edn.edn_reader import read, read_forms
from dbsp.edn.edn_values import Keyword
from dbsp.errors import DbspError, InputError
from dbsp.lazy_dataclass import dataclass


class TextPlaces(OperationPlaces):
    """The operations of EDN text as places. Errors show their line with a caret.

    The text is read again with its places for an error only.
    """

    def __init__(self, forms: Sequence[Any], text: str, file: str) -> None:
        super().__init__(forms)
        self._text = text
        self._file = file

    def path(self, place: int) -> str:
        return str(read_forms(self._text, self._file)[0].items[place].span)

    def located(
        self, place: int, error: DbspError, part: Any = WHOLE, attribute: Keyword | None = None
    ) -> DbspError:
        (transaction,) = read_forms(self._text, self._file)
        return at_form(_part(transaction.items[place], part, attribute), error)


class FormPlaces(OperationPlaces):
    """Operations that were read with their places. Errors show their line with a caret."""

    def __init__(self, values: Sequence[Any], forms: Sequence[Form]) -> None:
        super().__init__(values)
        self._placed = forms

    def path(self, place: int) -> str:
        return str(self._placed[place].span)

    def located(
        self, place: int, error: DbspError, part: Any = WHOLE, attribute: Keyword | None = None
    ) -> DbspError:
        return at_form(_part(self._placed[place], part, attribute), error)


@dataclass(frozen=True, slots=True)
class PlacedForms:
    """The forms of a transaction, and for each of them the text that errors about it show."""

    values: Sequence[Any]
    forms: Sequence[Form]


def at_form(form: Form, error: DbspError) -> DbspError:
    """Return an error at the place of a form."""
    found = type(error)(error.message, code=error.code)
    found.locate(form.diagnostic(error.message, code=error.code or ""))
    return found


def _part(form: Form, value: Any, attribute: Keyword | None) -> Form:
    """Return the first form in a form with a value, if possible after an attribute; else the form.

    Numbers and booleans are never equal.
    """
    if value is WHOLE:
        return form
    if isinstance(value, Element):
        return form.items[value.position]
    forms = list(_nested(form))
    places = [at for at, each in enumerate(forms) if type(each.value) is type(value) and each.value == value]
    named = (at for at, each in enumerate(forms) if each.value is attribute)
    start = 0 if attribute is None else next(named, 0)
    after = [at for at in places if at > start]
    return forms[(after or places)[0]] if places else form


def _nested(form: Form) -> Iterator[Form]:
    """Yield a form and the forms in it, in the order of the text."""
    waiting = [form]
    while waiting:
        each = waiting.pop()
        yield each
        waiting.extend(reversed(each.items))


def forms_of(tx_data: Any, file: str) -> tuple[Sequence[Any], OperationPlaces]:
    """Return the forms of a transaction and their places, for errors.

    Raises EdnError if text is not EDN, InputError if the data is not a list of forms.
    """
    if isinstance(tx_data, str):
        forms = read(tx_data, file)
        problem = _problem(forms)
        if problem is not None:
            raise at_form(read_forms(tx_data, file)[0], problem)
        return forms, TextPlaces(forms, tx_data, file)
    if isinstance(tx_data, Form):
        problem = _problem(tx_data.value)
        if problem is not None:
            raise at_form(tx_data, problem)
        tx_data = PlacedForms([form.value for form in tx_data.items], tx_data.items)
    if isinstance(tx_data, PlacedForms):
        return tx_data.values, FormPlaces(tx_data.values, tx_data.forms)
    problem = _problem(tx_data)
    if problem is not None:
        raise problem
    forms = tx_data if isinstance(tx_data, list | tuple) else list(tx_data)
    return forms, OperationPlaces(forms)


def _problem(tx_data: Any) -> DbspError | None:
    """Return the error if data is not a list of forms."""
    hint = ""
    if isinstance(tx_data, Mapping):
        hint = "; put the map into a list: [{...}]"
    elif isinstance(tx_data, list | tuple):
        if not tx_data or not (isinstance(tx_data[0], str | Keyword) or callable(tx_data[0])):
            return None
        hint = "; put the operation into a list: [[...]]"
    elif isinstance(tx_data, Iterable) and not isinstance(tx_data, str | bytes):
        return None
    return InputError(
        f"expected a list of operations and maps, or EDN text, got {described(tx_data)}{hint}",
        code="invalid-transaction",
    )
