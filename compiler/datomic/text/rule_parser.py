"""Parses rules: `[[(ancestor ?a ?b) clause ...] ...]`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dbsp.compiler.datomic.text.binding_parser import parse_variable, parse_variables
from dbsp.compiler.datomic.text.clause_parser import OPERATORS, parse_clauses
from dbsp.compiler.datomic.text.query_forms import FormKind, QueryForm, form_of
from dbsp.compiler.datomic.text.query_report import QueryReport
from dbsp.compiler.datomic.tree.query_tree import RuleDefinition, Rules, Variable

_FORM = "[(rule ?a ?b) clause ...]"


def parse_rules(rules: Any, file: str = "rules") -> Rules:
    """Return the definitions of rules in EDN text or in Python data.

    `file` names the text in messages. Raises CompileError with all errors, EdnError for text that
    is not EDN.

    Examples:
        >>> rules = parse_rules("[[(adult ?p) [?p :person/age ?a] [(<= 18 ?a)]]]")
        >>> [(rule.name, rule.parameters) for rule in rules.definitions]
        [('adult', (Variable(name='?p'),))]
    """
    if isinstance(rules, Rules):
        return rules
    form, sources = form_of(rules, file, "rules")
    report = QueryReport(sources)
    found: tuple[RuleDefinition, ...] = ()
    if not form.is_vector or (form.items and _is_head(form.items[0])):
        hint = "the definitions are in a vector" if form.is_vector else None
        message = f"expected rules, [{_FORM} ...], got {form.text}"
        report.error(message, form, code="invalid-rule", hint=hint)
    else:
        found = parse_definitions(form.items, report)
    report.raise_errors()
    return Rules(found, sources)


def parse_definitions(forms: Sequence[QueryForm], report: QueryReport) -> tuple[RuleDefinition, ...]:
    """Return the definitions of the forms, `[(rule ?a ?b) clause ...]` each."""
    found = []
    for form in forms:
        with report.collecting():
            found.append(_definition(form, report))
    return tuple(found)


def _is_head(form: QueryForm) -> bool:
    """Whether a form is the head of a rule, not a definition that starts with one."""
    return form.kind is FormKind.LIST or (
        form.is_list and bool(form.items) and form.items[0].symbol is not None
    )


def _definition(form: QueryForm, report: QueryReport) -> RuleDefinition:
    if not form.is_vector or not form.items or not form.items[0].is_list:
        hint = f"the rules are in a vector of their own: [{form.text} ...]" if form.is_list else None
        raise report.mistake(
            f"expected a rule, {_FORM}, got {form.text}", form, code="invalid-rule", hint=hint
        )
    head, *clauses = form.items
    name = head.items[0].symbol if head.items else None
    if name is None or name[:1] in ("?", "$", "%"):
        raise report.mistake(
            f"expected the name of a rule and its variables, got {head.text}", head, code="invalid-rule"
        )
    if name in OPERATORS:
        raise report.mistake(
            f"the name of a rule cannot be '{name}', which is a clause",
            head.items[0],
            code="invalid-rule",
        )
    required, parameters = _parameters(head, report)
    if not clauses:
        raise report.mistake(f"expected at least one clause after {head.text}", head, code="invalid-rule")
    return RuleDefinition(name, required, parameters, parse_clauses(clauses, "$", report), form.span)


def _parameters(head: QueryForm, report: QueryReport) -> tuple[tuple[Variable, ...], tuple[Variable, ...]]:
    """The required variables, in a vector of their own, and the others."""
    required: tuple[Variable, ...] = ()
    items = head.items[1:]
    if items and items[0].is_vector:
        required = parse_variables(items[0], report, "invalid-rule")
        items = items[1:]
    parameters = tuple(parse_variable(item, report, "invalid-rule") for item in items)
    if not required and not parameters:
        raise report.mistake(f"expected at least one variable in {head.text}", head, code="invalid-rule")
    return required, parameters
