"""Parses the clauses of `:where` and of rules."""

from __future__ import annotations

from collections.abc import Sequence

from dbsp.compiler.datomic.text.binding_parser import (
    parse_binding,
    parse_constant,
    parse_variable,
    parse_variables,
    variable_hint,
)
from dbsp.compiler.datomic.text.query_forms import FormKind, QueryForm
from dbsp.compiler.datomic.text.query_report import QueryReport
from dbsp.compiler.datomic.tree.query_tree import (
    Argument,
    Blank,
    Clause,
    Constant,
    Function,
    Not,
    Or,
    Pattern,
    Predicate,
    RuleCall,
    SourceVariable,
    Term,
    Variable,
)
from dbsp.diagnostics import did_you_mean
from dbsp.edn.edn_values import Keyword

OPERATORS = ("not", "not-join", "or", "or-join", "and")
"""Names of clauses that cannot be names of rules."""

READERS = frozenset({"get-else", "get-some", "missing?"})
"""Functions with a source as first argument, and attributes from the third one."""

_CLAUSES = "[?e :attribute ?v], [(predicate ?x)], [(function ?x) ?y], (rule ?x), (not ...) or (or ...)"
_TERMS = ("entity", "attribute", "value", "transaction", "added")


def parse_clauses(forms: Sequence[QueryForm], source: str, report: QueryReport) -> tuple[Clause, ...]:
    """Return the clauses of the forms; `(and ...)` adds its clauses."""
    found: list[Clause] = []
    for form in forms:
        with report.collecting():
            found.extend(_clauses(form, source, report))
    return tuple(found)


def _clauses(form: QueryForm, source: str, report: QueryReport) -> tuple[Clause, ...]:
    if not form.is_sequence or not form.items:
        raise report.mistake(f"expected a clause ({_CLAUSES}), got {form.text}", form, code="invalid-clause")
    items = form.items
    named = items[0].source
    if named is not None:
        source, items = named, items[1:]
        if not items:
            raise report.mistake(
                f"expected a clause after the source {named}, got {form.text}", form, code="invalid-clause"
            )
    if _is_call(form, items[0]):
        if items[0].symbol == "and":
            return parse_clauses(_at_least_one(form, items[1:], report), source, report)
        return (_call(form, items, source, report),)
    if _is_expression(form, items[0]):
        return (_expression(form, named, report),)
    return (_pattern(form, items, source, report),)


def _is_call(form: QueryForm, head: QueryForm) -> bool:
    """Whether the form is a list; of Python data, a sequence that starts with a plain name."""
    if form.kind is FormKind.LOOSE_SEQUENCE:
        return head.symbol is not None and head.variable is None and head.symbol != "_"
    return form.is_list


def _is_expression(form: QueryForm, head: QueryForm) -> bool:
    """Whether a vector is `[(function ...) ...]`; a lookup ref of Python data starts with `:`."""
    if head.kind is FormKind.LOOSE_SEQUENCE and head.items:
        return head.items[0].keyword is None
    return head.is_list


def _at_least_one(form: QueryForm, items: Sequence[QueryForm], report: QueryReport) -> Sequence[QueryForm]:
    if not items:
        raise report.mistake(f"expected at least one clause in {form.text}", form, code="invalid-clause")
    return items


# --- patterns ----------------------------------------------------------------------------------


def _pattern(form: QueryForm, items: Sequence[QueryForm], source: str, report: QueryReport) -> Pattern:
    if len(items) > len(_TERMS):
        raise report.mistake(
            f"expected at most 5 terms ({', '.join(_TERMS)}), got {len(items)}",
            items[len(_TERMS)],
            code="invalid-clause",
        )
    terms = tuple(_term(item, position, report) for position, item in enumerate(items))
    if len(terms) > 1:
        _refuse_reverse(form, items, terms[1], report)
    return Pattern(source, terms, form.span)


def _term(form: QueryForm, position: int, report: QueryReport) -> Term:
    if form.symbol == "_":
        return Blank(form.span)
    name = form.variable
    if name is not None:
        return Variable(name, form.span)
    if form.source is not None:
        raise report.mistake(
            f"expected a term, got the source {form.text}",
            form,
            code="invalid-clause",
            hint="the source is the first item of a clause",
        )
    if form.kind is FormKind.SYMBOL:
        raise report.mistake(
            f"expected a variable, _ or a constant, got the symbol {form.text}",
            form,
            code="invalid-clause",
            hint=variable_hint(form),
        )
    if form.kind is FormKind.VALUE and form.value is None:
        raise report.mistake(
            f"expected a variable, _ or a constant as {_TERMS[position]}, got nil",
            form,
            code="invalid-clause",
            hint="nil is never stored; [(missing? $ ?e :attribute)] finds entities without a value",
        )
    if form.is_list:
        nested = form.kind is FormKind.LIST or (form.items[:1] and form.items[0].keyword is None)
        if nested and position != 2:
            raise report.mistake(
                f"expected a variable, _ or a constant as {_TERMS[position]}, got the list {form.text}",
                form,
                code="invalid-clause",
                hint="a call of a function comes first: [(function ?x) ?y]",
            )
    if position != 2 and form.keyword is not None:
        return Constant(form.keyword, form.span)
    if form.is_vector and form.items and form.items[0].keyword is not None:
        return _lookup_ref(form, report)
    return parse_constant(form, report, "invalid-clause")


def _lookup_ref(form: QueryForm, report: QueryReport) -> Constant:
    """A vector that starts with a keyword: `[:person/email "ada@example.com"]`."""
    for item in form.items:
        if item.variable is not None:
            raise report.mistake(
                f"expected a constant in the lookup ref {form.text}, got the variable {item.text}",
                item,
                code="invalid-clause",
                hint=f"bind the entity by a clause: [?entity {form.items[0].text} {item.text}]",
            )
    first, *others = form.items
    values = (parse_constant(item, report, "invalid-clause").value for item in others)
    return Constant((first.keyword, *values), form.span)


def _refuse_reverse(
    form: QueryForm, items: Sequence[QueryForm], attribute: Term, report: QueryReport
) -> None:
    name = attribute.value if isinstance(attribute, Constant) else None
    if not isinstance(name, Keyword) or not name.name.startswith("_") or name.name == "_":
        return
    forward = Keyword(f"{name.namespace}/{name.name[1:]}" if name.namespace else name.name[1:])
    value = items[2].text if len(items) > 2 else "_"
    raise report.mistake(
        f"a clause has no reverse attribute, got {name}",
        items[1],
        code="reverse-attribute",
        hint=f"write [{value} {forward} {items[0].text}]",
    )


# --- functions ---------------------------------------------------------------------------------


def _expression(form: QueryForm, source: str | None, report: QueryReport) -> Predicate | Function:
    if source is not None:
        raise report.mistake(
            f"a function clause has no source of its own, got {source}",
            form.items[0],
            code="invalid-clause",
            hint="functions that read a source have it as an argument: [(missing? $ ?e :attribute)]",
        )
    call, *bindings = form.items
    if len(bindings) > 1:
        raise report.mistake(
            f"expected one binding after {call.text}, got {len(bindings)}",
            bindings[1],
            code="invalid-clause",
            hint="bind the parts of a tuple by [?a ?b]",
        )
    if not call.items:
        raise report.mistake("expected a function in ()", call, code="invalid-clause")
    function = _function_name(call.items[0], report)
    arguments = tuple(
        _argument(item, position, function, report) for position, item in enumerate(call.items[1:])
    )
    if not bindings:
        return Predicate(function, arguments, form.span)
    return Function(function, arguments, parse_binding(bindings[0], report), form.span)


def _function_name(form: QueryForm, report: QueryReport) -> str | Variable:
    if form.variable is not None:
        return Variable(form.variable, form.span)
    if form.symbol is not None and form.source is None:
        return form.symbol
    raise report.mistake(
        f"expected the name of a function, got {form.text}",
        form,
        code="invalid-clause",
        hint=f"write (get ?map {form.text})" if form.keyword is not None else None,
    )


def _argument(form: QueryForm, position: int, function: str | Variable, report: QueryReport) -> Argument:
    reads = function in READERS
    if form.variable is not None:
        return Variable(form.variable, form.span)
    if form.source is not None and (reads or form.kind is FormKind.SYMBOL):
        return SourceVariable(form.source, form.span)
    if form.kind is FormKind.SYMBOL and form.symbol == "_":
        raise report.mistake(
            "expected a variable or a constant as argument, got _", form, code="invalid-clause"
        )
    if form.kind is FormKind.LIST or (form.kind is FormKind.LOOSE_SEQUENCE and _is_inner_call(form)):
        raise report.mistake(
            f"expected a variable or a constant as argument, got the call {form.text}",
            form,
            code="invalid-clause",
            hint=f"bind the inner call first: [{form.text} ?y], then use ?y",
        )
    if reads and position > 1 and not (function == "get-else" and position == 3):
        if form.keyword is not None:
            return Constant(form.keyword, form.span)
    elif reads and position == 1 and form.is_vector and form.items and form.items[0].keyword is not None:
        return _lookup_ref(form, report)
    return parse_constant(form, report, "invalid-clause")


def _is_inner_call(form: QueryForm) -> bool:
    """Whether a sequence of Python data is a call: a name and at least one variable."""
    head = form.items[0].symbol if form.items else None
    return (
        head is not None
        and form.items[0].variable is None
        and any(item.variable is not None for item in form.items[1:])
    )


# --- not, or, rules ----------------------------------------------------------------------------


def _call(form: QueryForm, items: Sequence[QueryForm], source: str, report: QueryReport) -> Clause:
    head, *arguments = items
    if head.symbol is None or head.variable is not None:
        raise report.mistake(
            f"expected a clause ({_CLAUSES}), got {form.text}",
            form,
            code="invalid-clause",
            hint="a pattern is a vector: [" + " ".join(item.text for item in form.items) + "]",
        )
    match head.symbol:
        case "not":
            _at_least_one(form, arguments, report)
            return Not(source, None, parse_clauses(arguments, source, report), form.span)
        case "not-join":
            variables, clauses = _joined(form, arguments, report)
            required, others = _join_variables(variables, report)
            if required:
                raise report.mistake(
                    "a not-join has no required variables",
                    required[0].span,
                    code="invalid-clause",
                    hint="all variables of a not-join must be bound outside; write [?x ?y]",
                )
            return Not(source, others, parse_clauses(clauses, source, report), form.span)
        case "or":
            _at_least_one(form, arguments, report)
            return Or(source, (), None, _branches(arguments, source, report), form.span)
        case "or-join":
            variables, clauses = _joined(form, arguments, report)
            required, others = _join_variables(variables, report)
            return Or(source, required, others, _branches(clauses, source, report), form.span)
    near = did_you_mean(head.symbol, OPERATORS) if any(map(_is_clause, arguments)) else None
    if near is not None:
        raise report.mistake(f"unknown clause '{head.symbol}'", head, code="invalid-clause", hint=near)
    terms = tuple(_rule_argument(item, report) for item in arguments)
    return RuleCall(source, head.symbol, terms, form.span)


def _is_clause(form: QueryForm) -> bool:
    """Whether a form is a clause, and not an argument of a rule: a constant or a lookup ref."""
    if form.kind is FormKind.LIST:
        return True
    return form.is_vector and any(
        item.variable is not None or item.symbol == "_" or item.is_list for item in form.items
    )


def _rule_argument(form: QueryForm, report: QueryReport) -> Term:
    if form.symbol == "_":
        return Blank(form.span)
    if form.variable is not None:
        return Variable(form.variable, form.span)
    if form.source is not None and form.kind is FormKind.SYMBOL:
        raise report.mistake(
            f"a rule has no source as argument, got {form.text}",
            form,
            code="invalid-clause",
            hint=f"the source is in front of the name: ({form.text} rule ?x)",
        )
    if form.kind is FormKind.LIST:
        raise report.mistake(
            f"expected a variable, _ or a constant as argument of a rule, got {form.text}",
            form,
            code="invalid-clause",
            hint="bind the result of a function first: [(function ?x) ?y]",
        )
    if form.is_vector and form.items and form.items[0].keyword is not None:
        return _lookup_ref(form, report)
    return parse_constant(form, report, "invalid-clause")


def _joined(
    form: QueryForm, arguments: Sequence[QueryForm], report: QueryReport
) -> tuple[QueryForm, Sequence[QueryForm]]:
    """The vector of variables and the clauses of a not-join or or-join."""
    name = "not-join" if any(item.symbol == "not-join" for item in form.items[:2]) else "or-join"
    if not arguments or not arguments[0].is_vector or not _is_variables(arguments[0]):
        raise report.mistake(
            f"expected ({name} [?x ...] clause ...), got {form.text}",
            arguments[0] if arguments else form,
            code="invalid-clause",
            hint=f"name the variables that the {name} shares with the other clauses",
        )
    return arguments[0], _at_least_one(form, arguments[1:], report)


def _is_variables(form: QueryForm) -> bool:
    """Whether a vector is not a pattern: it has variables, and perhaps required ones in front."""
    first, *others = form.items or (form,)
    nested = first.is_vector and first is not form
    return bool(form.items) and all(
        item.symbol is not None and item.keyword is None
        for item in (*(first.items if nested else (first,)), *others)
    )


def _join_variables(
    form: QueryForm, report: QueryReport
) -> tuple[tuple[Variable, ...], tuple[Variable, ...]]:
    """The required variables, in a vector of their own, and the others."""
    required: tuple[Variable, ...] = ()
    items = form.items
    if items[0].is_vector:
        required = parse_variables(items[0], report, "invalid-clause")
        items = items[1:]
    return required, tuple(parse_variable(item, report, "invalid-clause") for item in items)


def _branches(forms: Sequence[QueryForm], source: str, report: QueryReport) -> tuple[tuple[Clause, ...], ...]:
    found = []
    for form in forms:
        with report.collecting():
            found.append(_clauses(form, source, report))
    return tuple(found)
