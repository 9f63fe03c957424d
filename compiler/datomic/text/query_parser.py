"""Parses a query: from EDN text or Python data to its tree.

>>> query = parse_query("[:find ?n :where [?e :person/name ?n]]")
>>> query.where[0].terms[1].value
:person/name

The Python form has lists or tuples for lists and vectors, and a dict for a map. A string is a
symbol or keyword where the grammar expects one:

>>> query == parse_query({":find": ["?n"], ":where": [["?e", ":person/name", "?n"]]})
True
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

from dbsp.compiler.datomic.text.binding_parser import parse_binding, parse_variable, variable_hint
from dbsp.compiler.datomic.text.clause_parser import parse_clauses
from dbsp.compiler.datomic.text.find_parser import (
    parse_count,
    parse_find,
    parse_labels,
    parse_ordering,
)
from dbsp.compiler.datomic.text.plain_variables import has_plain_variables, with_question_marks
from dbsp.compiler.datomic.text.query_forms import FormKind, QueryForm, form_of
from dbsp.compiler.datomic.text.query_report import QueryReport
from dbsp.compiler.datomic.text.rule_parser import parse_definitions
from dbsp.compiler.datomic.tree.query_tree import (
    BindingInput,
    Find,
    Input,
    Labels,
    Ordering,
    PatternInput,
    Query,
    Rules,
    RulesInput,
    SourceInput,
    Variable,
)
from dbsp.diagnostics import SourceSpan, did_you_mean
from dbsp.lazy_dataclass import dataclass

KEYS = (
    "find",
    "with",
    "in",
    "where",
    "keys",
    "strs",
    "syms",
    "order-by",
    "limit",
    "offset",
    "rules",
)
_LABELS = ("keys", "strs", "syms")


@dataclass(frozen=True)
class _Section:
    """A key of the query and the forms after it."""

    key: SourceSpan
    forms: Sequence[QueryForm]


def parse_query(query: Any, file: str = "query") -> Query:
    """Return the tree of a query in EDN text or in Python data.

    `file` names the text in messages. Raises CompileError with all errors of the syntax, EdnError
    for text that is not EDN.
    """
    if isinstance(query, Query):
        return query
    form, sources = form_of(query, file, "query")
    report = QueryReport(sources)
    sections: Mapping[str, _Section] = {}
    with report.collecting():
        sections = _sections(form, report)
        sections = _with_variables(sections)
    parsed = None if report.diagnostics and not sections else _query(sections, form, report)
    report.raise_errors()
    return cast(Query, parsed)


def _query(sections: Mapping[str, _Section], form: QueryForm, report: QueryReport) -> Query | None:
    find: Find | None = None
    if "find" in sections:
        with report.collecting():
            find = parse_find(sections["find"].forms, sections["find"].key, report)
    else:
        report.error("expected :find in the query", form, code="invalid-query")
    with_ = _with(sections.get("with"), report)
    inputs = _inputs(sections.get("in"), report)
    where = sections.get("where")
    clauses = parse_clauses(where.forms, "$", report) if where is not None else ()
    labels = _labels(sections, report)
    ordering: tuple[Ordering, ...] = ()
    limit, offset = None, 0
    with report.collecting():
        if "order-by" in sections:
            ordering = parse_ordering(sections["order-by"].forms, find, report)
    with report.collecting():
        if "limit" in sections:
            limit = parse_count("limit", sections["limit"].forms, sections["limit"].key, report)
    with report.collecting():
        if "offset" in sections:
            offset = parse_count("offset", sections["offset"].forms, sections["offset"].key, report)
    rules = _rules(sections.get("rules"), inputs, report)
    if find is None:
        return None
    return Query(
        find,
        with_,
        inputs,
        clauses,
        labels,
        report.sources.texts.get(form.span.file, form.text),
        form.span.file,
        report.sources,
        ordering,
        limit,
        offset,
        rules,
    )


# --- the parts of a query ----------------------------------------------------------------------


def _sections(form: QueryForm, report: QueryReport) -> dict[str, _Section]:
    """Return the forms after each key, of a query in vector or in map form."""
    found: dict[str, _Section] = {}
    if form.kind is FormKind.MAP:
        for key, value in zip(form.items[::2], form.items[1::2], strict=True):
            with report.collecting():
                name = _key(key, found, report)
                single = name in ("limit", "offset") and not value.is_sequence
                if not value.is_sequence and not single:
                    raise report.mistake(
                        f"expected a vector after :{name}, got {value.text}",
                        value,
                        code="invalid-query",
                        hint=f":{name} [{value.text}]",
                    )
                # A pattern alone, without a vector around it: {:where [?e :name ?n]}.
                single |= name == "where" and bool(value.items) and not value.items[0].is_sequence
                found[name] = _Section(key.span, (value,) if single else value.items)
        return found
    if not form.is_sequence or not form.items:
        raise report.mistake(
            f"expected a query such as [:find ?x :where [?x :attribute ?v]], got {form.text}",
            form,
            code="invalid-query",
        )
    if form.items[0].keyword is None:
        raise report.mistake(
            f"expected :find at the start of the query, got {form.items[0].text}",
            form.items[0],
            code="invalid-query",
        )
    starts = [place for place, item in enumerate(form.items) if _is_key(form, place, item)]
    for start, end in zip(starts, [*starts[1:], len(form.items)], strict=True):
        with report.collecting():
            name = _key(form.items[start], found, report)
            found[name] = _Section(form.items[start].span, form.items[start + 1 : end])
    return found


def _is_key(form: QueryForm, place: int, item: QueryForm) -> bool:
    """Whether an item of the vector form starts a section; a direction of `:order-by` does not."""
    keyword = item.keyword
    if keyword is None:
        return False
    return keyword.text not in ("asc", "desc") or place == 0


def _key(form: QueryForm, found: Mapping[str, _Section], report: QueryReport) -> str:
    keyword = form.keyword
    name = keyword.text if keyword is not None else None
    if name is None or name not in KEYS:
        text = form.text if name is not None else str(form.value)
        near = did_you_mean(text, [f":{key}" for key in KEYS])
        known = ", ".join(f":{key}" for key in KEYS)
        raise report.mistake(
            f"unknown key {form.text} of a query",
            form,
            code="unknown-query-key",
            hint=near or f"the keys are {known}",
        )
    if name in found:
        raise report.mistake(f"the query has two :{name}", form, code="invalid-query")
    return name


def _with_variables(sections: dict[str, _Section]) -> dict[str, _Section]:
    """Return the sections with question marks before the names of variables, if they have none."""
    if "find" not in sections or not has_plain_variables(sections["find"].forms):
        return sections
    names = ("find", "with", "in", "where", "rules")
    return {
        name: _Section(section.key, with_question_marks(section.forms)) if name in names else section
        for name, section in sections.items()
    }


def _rules(section: _Section | None, inputs: Sequence[Input], report: QueryReport) -> Rules | None:
    """The rules of the query itself."""
    if section is None:
        return None
    for given in inputs:
        if isinstance(given, RulesInput):
            report.error(
                "the query has :rules, and % in :in",
                given.span,
                code="invalid-query",
                hint="pass all rules as %, or write all of them after :rules",
            )
    return Rules(parse_definitions(section.forms, report), report.sources)


def _with(section: _Section | None, report: QueryReport) -> tuple[Variable, ...]:
    if section is None:
        return ()
    found = []
    for form in section.forms:
        with report.collecting():
            found.append(parse_variable(form, report, "invalid-find"))
    if not section.forms:
        report.error("expected variables after :with", section.key, code="invalid-find")
    return tuple(found)


def _inputs(section: _Section | None, report: QueryReport) -> tuple[Input, ...]:
    """The inputs of a query; a query without `:in` has one source, `$`."""
    if section is None:
        return (SourceInput("$", SourceSpan("", 1)),)
    found: list[Input] = []
    for form in section.forms:
        with report.collecting():
            found.append(_input(form, report))
    return tuple(found)


def _input(form: QueryForm, report: QueryReport) -> Input:
    name = form.symbol
    if form.source is not None:
        return SourceInput(form.source, form.span)
    if name == "%":
        return RulesInput(form.span)
    if form.variable is not None or name == "_" or form.is_vector:
        return BindingInput(parse_binding(form, report), form.span)
    if name is not None and name not in (".", "...") and not name.startswith(("?", "%")):
        return PatternInput(name, form.span)
    raise report.mistake(
        f"expected $, %, a binding or the name of a pull pattern in :in, got {form.text}",
        form,
        code="invalid-binding",
        hint=variable_hint(form),
    )


def _labels(sections: Mapping[str, _Section], report: QueryReport) -> Labels | None:
    given = [name for name in _LABELS if name in sections]
    if len(given) > 1:
        report.error(
            f"expected one of :keys, :strs and :syms, got :{given[0]} and :{given[1]}",
            sections[given[1]].key,
            code="invalid-find",
        )
    if not given:
        return None
    name, section = given[0], sections[given[0]]
    with report.collecting():
        return parse_labels(cast(Literal["keys", "strs", "syms"], name), section.forms, section.key, report)
    return None
