"""Parses what a query returns: `:find`, `:with`, `:keys`, `:order-by`, `:limit` and `:offset`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from dbsp.compiler.datomic.text.binding_parser import (
    parse_constant,
    parse_variable,
    variable_hint,
)
from dbsp.compiler.datomic.text.query_forms import FormKind, QueryForm
from dbsp.compiler.datomic.text.query_report import QueryReport
from dbsp.compiler.datomic.tree.query_tree import (
    Constant,
    Find,
    FindAggregate,
    FindElement,
    FindPull,
    FindVariable,
    Labels,
    Ordering,
    Variable,
)
from dbsp.diagnostics import SourceSpan

FIND_FORMS = "?x ?y (a relation), [?x ...] (a collection), [?x ?y] (a tuple) or ?x . (a scalar)"


def parse_find(forms: Sequence[QueryForm], key: SourceSpan, report: QueryReport) -> Find:
    """Return the find specification of the forms after `:find`, which is at `key`."""
    if not forms:
        raise report.mistake(f"expected {FIND_FORMS} after :find", key, code="invalid-find")
    span = forms[0].span.to(forms[-1].span)
    if len(forms) == 1 and _is_find_vector(forms[0]):
        items = forms[0].items
        if len(items) == 2 and items[1].symbol == "...":
            return Find("collection", (_element(items[0], report),), span)
        if not items:
            raise report.mistake(f"expected {FIND_FORMS}, got []", forms[0], code="invalid-find")
        return Find("tuple", _elements(items, report), span)
    if forms[-1].symbol == ".":
        if len(forms) != 2:
            raise report.mistake(
                "expected one element before '.'",
                forms[-1],
                code="invalid-find",
                hint="one tuple of several elements is [?x ?y]",
            )
        return Find("scalar", (_element(forms[0], report),), span)
    return Find("relation", _elements(forms, report), span)


def _is_find_vector(form: QueryForm) -> bool:
    """Whether a form is `[...]`, and not an aggregate in Python such as `["count", "?x"]`."""
    if form.kind is FormKind.LOOSE_SEQUENCE and form.items:
        name = form.items[0].symbol
        return name is None or form.items[0].variable is not None
    return form.is_vector


def _elements(forms: Sequence[QueryForm], report: QueryReport) -> tuple[FindElement, ...]:
    found = []
    for form in forms:
        with report.collecting():
            found.append(_element(form, report))
    return tuple(found)


def _element(form: QueryForm, report: QueryReport) -> FindElement:
    name = form.variable
    if name is not None:
        return FindVariable(Variable(name, form.span), form.span)
    if form.is_list and form.items:
        return _pull(form, report) if form.items[0].symbol == "pull" else _aggregate(form, report)
    if form.symbol in (".", "..."):
        hint: str | None = "a scalar is ?x . at the end; a collection is [?x ...]"
    elif form.is_vector:
        hint = "a tuple or collection is the only form after :find"
    else:
        hint = variable_hint(form)
    raise report.mistake(
        f"expected a variable, an aggregate such as (count ?x) or (pull ?e [*]), got {form.text}",
        form,
        code="invalid-find",
        hint=hint,
    )


def _aggregate(form: QueryForm, report: QueryReport) -> FindAggregate:
    head, *arguments = form.items
    function: str | Variable
    if head.symbol == "aggregate" and len(arguments) > 1:
        # DataScript: (aggregate ?f ?x), with the function ?f of :in
        function = parse_variable(arguments[0], report, "invalid-find")
        arguments = arguments[1:]
    elif head.variable is not None:
        function = Variable(head.variable, head.span)
    elif head.symbol is not None and head.source is None:
        function = head.symbol
    else:
        raise report.mistake(f"expected the name of an aggregate, got {head.text}", head, code="invalid-find")
    if not arguments or arguments[-1].variable is None:
        raise report.mistake(
            f"expected a variable as the last argument of {form.text}",
            arguments[-1] if arguments else form,
            code="invalid-find",
            hint=variable_hint(arguments[-1]) if arguments else f"write ({head.text} ?x)",
        )
    *before, last = arguments
    return FindAggregate(
        function,
        tuple(_aggregate_argument(argument, report) for argument in before),
        parse_variable(last, report, "invalid-find"),
        form.span,
    )


def _aggregate_argument(form: QueryForm, report: QueryReport) -> Variable | Constant:
    name = form.variable
    if name is not None:
        return Variable(name, form.span)
    return parse_constant(form, report, "invalid-find")


def _pull(form: QueryForm, report: QueryReport) -> FindPull:
    arguments = form.items[1:]
    source = "$"
    if arguments and arguments[0].source is not None:
        source, arguments = arguments[0].source, arguments[1:]
    if len(arguments) != 2:
        raise report.mistake(
            f"expected (pull ?e pattern) or (pull $source ?e pattern), got {form.text}",
            form,
            code="invalid-find",
        )
    variable = parse_variable(arguments[0], report, "invalid-find")
    pattern = arguments[1]
    name = pattern.symbol
    if name is not None and pattern.source is None:
        return FindPull(source, variable, Variable(name, pattern.span), form.span)
    if not pattern.is_vector:
        raise report.mistake(
            f"expected a pull pattern such as [*] or [:person/name], or a name of :in, got {pattern.text}",
            pattern,
            code="invalid-find",
        )
    return FindPull(source, variable, pattern.value, form.span, pattern)


def parse_labels(
    kind: Literal["keys", "strs", "syms"],
    forms: Sequence[QueryForm],
    key: SourceSpan,
    report: QueryReport,
) -> Labels:
    """Return the names after `:keys`, `:strs` or `:syms`."""
    names = []
    for form in forms:
        if form.symbol is None or form.keyword is not None:
            raise report.mistake(
                f"expected a plain name after :{kind}, got {form.text}", form, code="invalid-find"
            )
        names.append(form.symbol)
    return Labels(kind, tuple(names), key)


def parse_ordering(
    forms: Sequence[QueryForm], find: Find | None, report: QueryReport
) -> tuple[Ordering, ...]:
    """Return the items after `:order-by`: variables of `:find` or positions, with a direction."""
    if len(forms) == 1 and forms[0].is_sequence:
        forms = forms[0].items
    found: list[Ordering] = []
    directed = True
    for form in forms:
        direction = form.keyword
        if direction is not None and direction.text in ("asc", "desc") and not directed:
            last = found.pop()
            found.append(Ordering(last.position, direction.text == "desc", last.span))
            directed = True
            continue
        position = _position(form, find)
        if position is None:
            if find is None:  # it has errors of its own
                continue
            raise report.mistake(
                f"expected a variable of :find, or a position from 0 to {len(find.elements) - 1}, "
                f"got {form.text}",
                form,
                code="invalid-find",
                hint="a direction, :asc or :desc, comes after its variable",
            )
        found.append(Ordering(position, False, form.span))
        directed = False
    return tuple(found)


def _position(form: QueryForm, find: Find | None) -> int | None:
    elements = find.elements if find is not None else ()
    if form.kind is FormKind.VALUE and type(form.value) is int:
        return form.value if 0 <= form.value < len(elements) else None
    for position, element in enumerate(elements):
        if isinstance(element, FindVariable) and element.variable.name == form.variable:
            return position
    return None


def parse_count(name: str, forms: Sequence[QueryForm], key: SourceSpan, report: QueryReport) -> int:
    """Return the number after `:limit` or `:offset`."""
    if len(forms) == 1 and type(forms[0].value) is int and forms[0].value >= 0:
        return forms[0].value
    got = " ".join(form.text for form in forms) or "nothing"
    raise report.mistake(
        f"expected one integer, 0 or more, after :{name}, got {got}",
        forms[0] if forms else key,
        code="invalid-find",
    )
