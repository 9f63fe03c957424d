"""The forms of a transaction, from EDN text or Python data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dbsp.datomic.operation_places import OperationPlaces
from dbsp.datomic.value_codes import described
from dbsp.errors import InputError


def forms_of(tx_data: Any, file: str) -> tuple[Sequence[Any], OperationPlaces]:
    """Return the forms of a transaction and their places, for errors.

    Raises EdnError if text is not EDN, InputError if the data is not a list of forms.
    """
    if isinstance(tx_data, Mapping):
        raise _not_a_list(tx_data, "; put the map into a list: [{...}]")
    if isinstance(tx_data, str | bytes) or not isinstance(tx_data, Iterable):
        raise _not_a_list(tx_data, "")
    forms = tx_data if isinstance(tx_data, list | tuple) else list(tx_data)
    if forms and (type(forms[0]) is str or callable(forms[0])):
        raise _not_a_list(tx_data, "; put the operation into a list: [[...]]")
    return forms, OperationPlaces(forms)


def _not_a_list(tx_data: Any, hint: str) -> InputError:
    return InputError(
        f"expected a list of operations and maps, or EDN text, got {described(tx_data)}{hint}",
        code="invalid-transaction",
    )
