"""Relations that are more than a set of rows: equivalences, choices, limits, subsumption.

.decl same(x: T, y: T) eqrel              an equivalence on the values that occur in it
.decl advisor(s: S, p: P) choice-domain s, (s, p)     at most one row for each value of each domain
.limitsize r(n=100)                       the recursion ends when r has that many rows
r(x, a) <= r(x, b) :- b < a.              dominated rows are removed
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from dbsp.compiler.datalog.meaning.checked import Attribute, Relation
from dbsp.compiler.datalog.meaning.declared_types import TypeEnvironment
from dbsp.compiler.datalog.text import parsed
from dbsp.compiler.datalog.text.report import Report
from dbsp.compiler.datalog.tree import syntax
from dbsp.diagnostics import did_you_mean
from dbsp.errors import expect_type

REPRESENTATIONS = ("btree", "brie", "btree_delete", "eqrel")
DEPRECATED = ("input", "output", "printsize")


_POSITIVE = re.compile(r"0*[1-9][0-9]{0,17}")


def check_qualifiers(item: parsed.RelationDeclaration, report: Report, legacy: bool) -> None:
    """Report repeated qualifiers and two storage qualifiers; warn of deprecated qualifiers."""
    seen: set[str] = set()
    for qualifier in item.qualifiers:
        text = qualifier.text
        if text in seen:
            message = f"qualifier '{text}' is written twice"
            report.error(qualifier.span, message, code="duplicate-directive")
        elif text in REPRESENTATIONS and not seen.isdisjoint(REPRESENTATIONS):
            first = next(representation for representation in REPRESENTATIONS if representation in seen)
            message = f"qualifiers '{first}' and '{text}' exclude each other"
            report.error(qualifier.span, message, code="conflicting-qualifiers")
        elif text in DEPRECATED and not legacy:
            message = f"qualifier '{text}' is deprecated"
            hint = f"write '.{text} {item.names[0].text}'"
            report.warning(qualifier.span, message, hint, code="deprecated")
        seen.add(text)


def is_equivalence(
    item: parsed.RelationDeclaration,
    attributes: tuple[Attribute, ...],
    types: TypeEnvironment,
    report: Report,
) -> bool:
    """Whether the relation is declared `eqrel`, which needs two columns of one type."""
    qualifier = next((candidate for candidate in item.qualifiers if candidate.text == "eqrel"), None)
    if qualifier is None:
        return False
    name = item.names[0].text
    if len(attributes) != 2:
        message = f"expected 2 columns for equivalence relation '{name}', got {len(attributes)}"
        hint = f"write .decl {name}(x: T, y: T) eqrel"
        report.error(qualifier.span, message, hint, code="invalid-equivalence")
        return False
    first, second = (attribute.type_name for attribute in attributes)
    if {first, second} <= set(types.names()) and types.resolve(first) != types.resolve(second):
        message = f"the columns of equivalence relation '{name}' have different types, {first} and {second}"
        hint = "give both columns the same type"
        report.error(qualifier.span, message, hint, code="invalid-equivalence")
        return False
    return True


def choice_domains(
    item: parsed.RelationDeclaration, attributes: tuple[Attribute, ...], report: Report
) -> tuple[tuple[int, ...], ...]:
    """The domains of a relation as positions of columns, without duplicates."""
    names = [attribute.name for attribute in attributes]
    domains: dict[tuple[int, ...], None] = {}
    for domain in item.choices:
        columns: set[int] = set()
        for column in domain:
            if column.text in names:
                columns.add(names.index(column.text))
            else:
                message = f"unknown column '{column.text}' in the choice-domain of '{item.names[0].text}'"
                hint = did_you_mean(column.text, names)
                report.error(column.span, message, hint, code="unknown-column")
        domains.setdefault(tuple(sorted(columns)))
    for qualifier in item.qualifiers if item.choices else ():
        if qualifier.text in ("eqrel", "inline"):
            message = f"a relation with a choice-domain cannot be '{qualifier.text}'"
            report.error(qualifier.span, message, code="conflicting-qualifiers")
    return tuple(domains)


def limit_size(directive: parsed.Directive, relation: Relation, report: Report) -> Relation:
    """The relation with the limit of a `.limitsize`."""
    parameters = dict(directive.parameters)
    text = parameters.pop("n", None)
    if parameters or text is None or not _POSITIVE.fullmatch(text):
        message = "expected a single parameter n in .limitsize, a number of rows from 1"
        hint = f"write '.limitsize {relation.name}(n=1000)'"
        report.error(directive.span, message, hint, code="invalid-directive")
        return relation
    if relation.limit is not None:
        message = f"'.limitsize {relation.name}' is written twice"
        report.error(directive.span, message, code="duplicate-directive")
        return relation
    return replace(relation, limit=int(text))


def check_subsumptions(items: Sequence[parsed.Item], report: Report) -> frozenset[str]:
    """The relations with subsumptions; reports those whose declaration does not allow them."""
    clauses = [item for item in items if isinstance(item, parsed.Clause) and item.subsumes]
    subsumed = {item.heads[0].relation: item for item in reversed(clauses)}
    for item in items:
        if not isinstance(item, parsed.RelationDeclaration):
            continue
        qualifiers = {qualifier.text: qualifier for qualifier in item.qualifiers}
        for name in item.names:
            if name.text not in subsumed:
                if "btree_delete" in qualifiers:
                    message = f"relation '{name.text}' is 'btree_delete' but has no subsumption"
                    hint = "only clauses 'r(...) <= r(...) :- ...' remove rows"
                    report.warning(qualifiers["btree_delete"].span, message, hint, code="no-effect")
                continue
            span = subsumed[name.text].span
            for other in ("eqrel", "btree", "brie", "inline"):
                if other in qualifiers:
                    message = f"relation '{name.text}' has a subsumption and cannot be '{other}'"
                    hint = f"declared at {name.span.place}; only 'btree_delete' is allowed with subsumption"
                    report.error(span, message, hint, code="conflicting-qualifiers")
            if item.choices:
                message = f"relation '{name.text}' has a choice-domain and cannot have a subsumption"
                hint = "the result would depend on which of the two is applied first; use two relations"
                report.error(span, message, hint, code="conflicting-qualifiers")
            if not item.attributes:
                message = f"relation '{name.text}' has no columns and cannot have a subsumption"
                hint = "a relation without columns has at most one row"
                report.error(span, message, hint, code="invalid-subsumption")
    for clause in clauses:
        dominated = clause.heads[0]
        body = expect_type(clause.body, syntax.Conjunction, "the body of a subsumption")
        dominating = expect_type(body.parts[1], syntax.Atom, "the dominating atom")
        if dominating.relation != dominated.relation:
            message = "expected two rows of one relation in a subsumption,"
            message += f" got '{dominated.relation}' and '{dominating.relation}'"
            report.error(dominated.span.to(dominating.span), message, code="invalid-subsumption")
    return frozenset(subsumed)
