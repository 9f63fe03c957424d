"""Parses variables, bindings and constants: `?x`, `[?a ?b]`, `[?x ...]`, `[[?a ?b]]`."""

from __future__ import annotations

from typing import Any

from dbsp.compiler.datomic.text.query_forms import FormKind, QueryForm, is_keyword_text
from dbsp.compiler.datomic.text.query_report import QueryReport
from dbsp.compiler.datomic.tree.query_tree import (
    BindBlank,
    BindCollection,
    Binding,
    BindRelation,
    BindScalar,
    BindTuple,
    Constant,
    Variable,
)
from dbsp.edn.edn_values import EdnList, EdnMap

_FORMS = "?x, _, [?a ?b], [?x ...] or [[?a ?b]]"


def parse_variable(form: QueryForm, report: QueryReport, code: str) -> Variable:
    """Return the variable of a form that must be one."""
    name = form.variable
    if name is not None:
        return Variable(name, form.span)
    raise report.mistake(
        f"expected a variable such as ?x, got {form.text}", form, code=code, hint=variable_hint(form)
    )


def variable_hint(form: QueryForm) -> str | None:
    """Return the hint for a name whose question mark is missing, or None."""
    name = form.symbol
    plain = name is not None and name[0] not in "$%_.?:"
    return f"a variable starts with a question mark: ?{name}" if plain else None


def parse_variables(form: QueryForm, report: QueryReport, code: str) -> tuple[Variable, ...]:
    """Return the variables of a vector."""
    return tuple(parse_variable(item, report, code) for item in form.items)


def parse_binding(form: QueryForm, report: QueryReport) -> Binding:
    """Return the binding of a form: of a result, or of an input."""
    if form.symbol == "_":
        return BindBlank(form.span)
    name = form.variable
    if name is not None:
        return BindScalar(Variable(name, form.span), form.span)
    if not form.is_vector:
        raise report.mistake(
            f"expected a binding ({_FORMS}), got {form.text}",
            form,
            code="invalid-binding",
            hint=variable_hint(form),
        )
    if not form.items:
        raise report.mistake(f"expected a binding ({_FORMS}), got []", form, code="invalid-binding")
    return _nested(form, report)


def _nested(form: QueryForm, report: QueryReport) -> Binding:
    items = form.items
    if any(item.symbol == "..." for item in items):
        if len(items) != 2 or items[1].symbol != "...":
            raise report.mistake(
                f"expected one binding before '...', got {form.text}",
                form,
                code="invalid-binding",
                hint="a collection is [?x ...]; a collection of tuples is [[?a ?b]]",
            )
        return BindCollection(parse_binding(items[0], report), form.span)
    if len(items) == 1 and items[0].is_vector:
        row = parse_binding(items[0], report)
        if isinstance(row, BindTuple):
            return BindRelation(row.parts, form.span)
        raise report.mistake(
            f"expected the binding of a tuple in {form.text}, got {items[0].text}",
            items[0],
            code="invalid-binding",
            hint=f"each item of a collection is bound by [{items[0].text} ...]",
        )
    return BindTuple(tuple(parse_binding(item, report) for item in items), form.span)


def parse_constant(form: QueryForm, report: QueryReport, code: str) -> Constant:
    """Return the constant of a form, which has no variables inside."""
    loose = form.kind is FormKind.LOOSE_TEXT and is_keyword_text(form.value)
    return Constant(constant_value(form, report, code), form.span, quoted=not loose)


def constant_value(form: QueryForm, report: QueryReport, code: str) -> Any:
    """Return the EDN value of a form; Python lists become tuples. Symbols are refused."""
    if form.kind is FormKind.SYMBOL:
        kind = "a variable" if form.variable else "a symbol"
        raise report.mistake(
            f"expected a constant, got {kind}, {form.text}",
            form,
            code=code,
            hint="make a collection with variables by a function: [(tuple ?a ?b) ?t]"
            if form.variable
            else variable_hint(form),
        )
    parts = [constant_value(item, report, code) for item in form.items]
    if form.kind is FormKind.LIST:
        return EdnList(parts)
    if form.is_vector:
        return tuple(parts)
    if form.kind is FormKind.MAP:
        return EdnMap(zip(parts[::2], parts[1::2], strict=True))
    return frozenset(parts) if form.kind is FormKind.SET else form.value
