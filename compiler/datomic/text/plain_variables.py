"""Queries whose variables have no question marks: `{:find [p] :where [[p :name n]]}`.

XTDB writes variables so, and some texts about Datalog. `:find` decides: a plain name there can only
be a variable. Then every plain name in the place of a term is one, and the names of rules and
functions, the first items of lists, are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dbsp.compiler.datomic.text.query_forms import FormKind, QueryForm
from dbsp.edn.edn_values import Symbol

Forms = Sequence[QueryForm]


def has_plain_variables(find: Forms) -> bool:
    """Whether an element of `:find`, or an item of its vector, is a plain name."""
    items = find[0].items if len(find) == 1 and find[0].kind is FormKind.VECTOR else find
    return any(_is_plain(item) for item in items)


def with_question_marks(forms: Forms) -> tuple[QueryForm, ...]:
    """Return forms with a question mark before the name of every variable."""
    return tuple(map(_marked, forms))


def _is_plain(form: QueryForm) -> bool:
    return form.kind is FormKind.SYMBOL and form.value.text[0] not in "?$%_."


def _marked(form: QueryForm) -> QueryForm:
    if _is_plain(form):
        return replace(form, value=Symbol(f"?{form.value.text}"))
    match form.kind:
        case FormKind.VECTOR:
            return replace(form, items=with_question_marks(form.items))
        case FormKind.LIST if form.items:
            # Before the name of a rule can be a source: ($2 rule x).
            names = 2 if form.items[0].source is not None else 1
            pulled = form.items[0].symbol == "pull"
            marked = with_question_marks(form.items[names:])
            rest = (*marked[:-1], form.items[-1]) if pulled else marked
            return replace(form, items=(*form.items[:names], *rest))
    return form
