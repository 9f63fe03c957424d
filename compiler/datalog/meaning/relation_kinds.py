"""What a relation is declared to be besides a set of rows: an equivalence, a choice, limited in size.

.decl same(x: T, y: T) eqrel              an equivalence on the values that occur in it
.decl advisor(s: S, p: P) choice-domain s, (s, p)     at most one row for each value of each domain
.limitsize r(n=100)                       the recursion ends when r has that many rows
r(x, a) <= r(x, b) :- b < a.              rows that others dominate are left out
"""

from __future__ import annotations

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


def check_qualifiers(item: parsed.RelationDeclaration, report: Report, legacy: bool) -> None:
    """Every qualifier once, and one that says how rows are stored; old ones with a warning."""
    seen: set[str] = set()
    for qualifier in item.qualifiers:
        text = qualifier.text
        if text in seen:
            report.error(qualifier.span, f"'{text}' is written twice")
        elif text in REPRESENTATIONS and not seen.isdisjoint(REPRESENTATIONS):
            first = next(representation for representation in REPRESENTATIONS if representation in seen)
            message = f"the relation is '{first}' already, which leaves no room for '{text}'"
            report.error(qualifier.span, message)
        elif text in DEPRECATED and not legacy:
            message = f"qualifier '{text}' is deprecated"
            report.warning(qualifier.span, message, f"write '.{text} {item.names[0].text}'")
        seen.add(text)


def is_equivalence(
    item: parsed.RelationDeclaration,
    attributes: tuple[Attribute, ...],
    types: TypeEnvironment,
    report: Report,
) -> bool:
    """Whether the relation is declared `eqrel`, which takes two columns of one type."""
    qualifier = next((candidate for candidate in item.qualifiers if candidate.text == "eqrel"), None)
    if qualifier is None:
        return False
    name = item.names[0].text
    if len(attributes) != 2:
        number = f"{len(attributes)} column{'' if len(attributes) == 1 else 's'}"
        message = f"equivalence relation '{name}' has {number}"
        report.error(qualifier.span, message, "it relates two values: .decl r(x: T, y: T) eqrel")
        return False
    first, second = (attribute.type_name for attribute in attributes)
    if {first, second} <= set(types.names()) and types.resolve(first) != types.resolve(second):
        message = f"the columns of equivalence relation '{name}' are of different types, {first} and {second}"
        report.error(qualifier.span, message, "any value stands on either side")
        return False
    return True


def choice_domains(
    item: parsed.RelationDeclaration, attributes: tuple[Attribute, ...], report: Report
) -> tuple[tuple[int, ...], ...]:
    """The domains of a relation as columns, each column once and no domain twice."""
    names = [attribute.name for attribute in attributes]
    domains: dict[tuple[int, ...], None] = {}
    for domain in item.choices:
        columns: set[int] = set()
        for column in domain:
            if column.text in names:
                columns.add(names.index(column.text))
            else:
                message = f"relation '{item.names[0].text}' has no column '{column.text}' to choose by"
                report.error(column.span, message, did_you_mean(column.text, names))
        domains.setdefault(tuple(sorted(columns)))
    for qualifier in item.qualifiers if item.choices else ():
        if qualifier.text in ("eqrel", "inline"):
            message = f"a relation with a choice-domain cannot be '{qualifier.text}'"
            report.error(qualifier.span, message)
    return tuple(domains)


def limit_size(directive: parsed.Directive, relation: Relation, report: Report) -> Relation:
    """The relation with the limit of a `.limitsize`."""
    parameters = dict(directive.parameters)
    text = parameters.pop("n", None)
    if parameters or text is None or not text.isdecimal() or int(text) < 1:
        message = ".limitsize takes one parameter n, a number of rows from 1 on"
        report.error(directive.span, message, f"write '.limitsize {relation.name}(n=1000)'")
        return relation
    if relation.limit is not None:
        report.error(directive.span, f"the size of '{relation.name}' is limited already")
        return relation
    return replace(relation, limit=int(text))


def check_subsumptions(items: Sequence[parsed.Item], report: Report) -> frozenset[str]:
    """The relations with subsumptions, whose declarations have to allow them."""
    clauses = [item for item in items if isinstance(item, parsed.Clause) and item.subsumes]
    subsumed = {item.heads[0].relation: item for item in reversed(clauses)}
    for item in items:
        if not isinstance(item, parsed.RelationDeclaration):
            continue
        qualifiers = {qualifier.text: qualifier for qualifier in item.qualifiers}
        for name in item.names:
            if name.text not in subsumed:
                if "btree_delete" in qualifiers:
                    message = f"relation '{name.text}' is 'btree_delete' and has no subsumption"
                    hint = "rows are only left out by clauses 'r(...) <= r(...) :- ...'"
                    report.warning(qualifiers["btree_delete"].span, message, hint)
                continue
            span = subsumed[name.text].span
            for other in ("eqrel", "btree", "brie", "inline"):
                if other in qualifiers:
                    message = f"there is a subsumption for '{name.text}', which is declared '{other}'"
                    hint = f"declared at {name.span.place}; only 'btree_delete' goes with subsumption"
                    report.error(span, message, hint)
            if item.choices:
                message = f"there is a subsumption for '{name.text}', which has a choice-domain"
                hint = "which rows are left would depend on which of the two came first; use two relations"
                report.error(span, message, hint)
            if not item.attributes:
                message = f"there is a subsumption for '{name.text}', which has no columns"
                report.error(span, message, "it has one row at most")
    for clause in clauses:
        dominated = clause.heads[0]
        body = expect_type(clause.body, syntax.Conjunction, "the body of a subsumption")
        dominating = expect_type(body.parts[1], syntax.Atom, "the dominating atom")
        if dominating.relation != dominated.relation:
            message = "subsumption compares rows of one relation,"
            message += f" but these are of '{dominated.relation}' and '{dominating.relation}'"
            report.error(dominated.span.to(dominating.span), message)
    return frozenset(subsumed)
