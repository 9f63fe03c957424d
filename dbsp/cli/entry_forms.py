"""What an EDN form is: a query, a transaction, or one form of a transaction."""

from __future__ import annotations

from typing import Any

from dbsp.compiler.datomic.text.query_parser import KEYS
from dbsp.datomic.transaction_text import PlacedForms
from dbsp.edn import EdnMap, Form, Keyword, read_forms
from dbsp.errors import EdnError

_QUERY_KEYS = frozenset(map(Keyword, KEYS))
_FIND = Keyword("find")


def is_complete(text: str) -> bool:
    """Whether every collection and string of a text ends; a text with another error is complete."""
    try:
        read_forms(text)
    except EdnError as error:
        ends = ("does not end", "got the end of the text")
        return error.code != "edn-bracket" or not error.message.endswith(ends)
    return True


def is_query(value: Any) -> bool:
    """Whether a form is a query, and not a transaction."""
    if isinstance(value, EdnMap):
        return _FIND in value
    return isinstance(value, tuple) and len(value) > 0 and value[0] in _QUERY_KEYS


def is_one_form(value: Any) -> bool:
    """Whether a value is a form of a transaction, and not a whole transaction."""
    if isinstance(value, EdnMap):
        return True
    return isinstance(value, tuple) and len(value) > 0 and isinstance(value[0], Keyword)


def whole_transaction(form: Form) -> Form | PlacedForms:
    """Return a transaction: the form, or one with only this map or operation."""
    return PlacedForms([form.value], [form]) if is_one_form(form.value) else form
