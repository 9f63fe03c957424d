"""Collect the declarations of a program: its types, its relations and their directives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dbsp.compiler.datalog.meaning.checked import Attribute, Relation
from dbsp.compiler.datalog.meaning.declared_types import PRIMITIVES, TypeEnvironment, declare_types
from dbsp.compiler.datalog.meaning.functors import Function, declare_functors
from dbsp.compiler.datalog.meaning.lattices import (
    check_functors_of_joins,
    check_kinds_of_lattices,
    declare_joins,
    lattice_of,
    refuse_joins,
)
from dbsp.compiler.datalog.meaning.negation import Negation
from dbsp.compiler.datalog.meaning.pragmas import Pragmas
from dbsp.compiler.datalog.meaning.relation_kinds import (
    DEPRECATED,
    check_qualifiers,
    check_subsumptions,
    choice_domains,
    is_equivalence,
    limit_size,
)
from dbsp.compiler.datalog.meaning.signatures import Signature, signatures_of
from dbsp.compiler.datalog.text import parsed
from dbsp.compiler.datalog.text.other_languages import relation_hint
from dbsp.compiler.datalog.text.report import Report
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.kinds import FunctorSignature, Kind
from dbsp.diagnostics import SourceSpan
from dbsp.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Declarations:
    """The declarations of a program. `relations` keep the order of their declarations.

    `broken` names the relations, and with `@` the functors, whose declarations have errors.
    `inlined` names the inline relations, whose rules replace their uses.
    """

    types: TypeEnvironment
    relations: Mapping[str, Relation]
    broken: frozenset[str]
    inlined: frozenset[str]
    functors: Mapping[str, FunctorSignature]
    """The functors of the user, by their names with a leading `@`."""
    negation: Negation = Negation.STRATIFIED

    def signatures(self, function: str) -> tuple[Signature, ...]:
        """The signatures of a function or a declared functor."""
        functor = self.functors.get(function)
        if functor is not None:
            return (Signature(functor.parameters, functor.result),)
        return signatures_of(function, self.types.structured.values())


def declare(
    program: parsed.ParsedProgram,
    functions: Mapping[str, Function],
    pragmas: Pragmas,
    report: Report,
) -> Declarations:
    """The declarations of a program. A relation with an undefined type is known but broken.

    `functions` are the Python functions of functors, by name.
    """
    types = declare_types(
        [item for item in program.items if isinstance(item, parsed.TypeDeclaration)],
        report,
        pragmas.legacy,
        pragmas.word_size or 64,
    )
    refuse_joins(program, report)
    joins = declare_joins(program, types, report)
    relations: dict[str, Relation] = {}
    broken: set[str] = set()
    for place, item in enumerate(program.items):
        report.note = program.notes.get(place)
        if isinstance(item, parsed.RelationDeclaration):
            check_qualifiers(item, report, pragmas.legacy)
            _declare_relations(item, types, joins, relations, broken, report)
    for place, item in enumerate(program.items):
        report.note = program.notes.get(place)
        if isinstance(item, parsed.Directive):
            _apply(item, relations, report)
    report.note = None
    for name, relation in relations.items():
        if relation.magic is None and name in pragmas.no_magic:
            relations[name] = replace(relation, magic=False)
        elif relation.magic is None and not pragmas.magic.isdisjoint((name, "*")):
            relations[name] = replace(relation, magic=True)
    for name in check_subsumptions(program.items, report) & relations.keys():
        relations[name] = replace(relations[name], subsumed=True)
    check_kinds_of_lattices(program.items, relations, report)
    inlined = _inlined(program, pragmas.not_inlined, report)
    functors = declare_functors(program, types, functions, joins, report)
    named = {f"@{item.name.text}" for item in program.items if isinstance(item, parsed.FunctorDeclaration)}
    broken |= named - functors.keys()
    check_functors_of_joins(program, relations, functors, broken, report)
    negation = pragmas.negation or Negation.STRATIFIED
    return Declarations(types, relations, frozenset(broken), inlined, functors, negation)


def _inlined(program: parsed.ParsedProgram, excluded: frozenset[str], report: Report) -> frozenset[str]:
    """The relations to inline; reports those with directives, as they store no rows."""
    names: set[str] = set()
    hint = "remove 'inline', or read and write another relation"
    for item in program.items:
        if isinstance(item, parsed.RelationDeclaration):
            qualifiers = {qualifier.text: qualifier for qualifier in item.qualifiers}
            if "inline" in qualifiers and "no_inline" not in qualifiers:  # no_inline wins
                names.update(name.text for name in item.names if name.text not in excluded)
                for kind in qualifiers.keys() & {"input", "output", "printsize"}:
                    message = f"an inline relation cannot be declared '{kind}'"
                    report.error(qualifiers[kind].span, message, hint, code="invalid-inline")
    for item in program.items:
        if isinstance(item, parsed.Directive):
            for name in item.relations:
                if name.text in names:
                    message = f"inline relation '{name.text}' cannot have .{item.kind}"
                    report.error(name.span, message, hint, code="invalid-inline")
    return frozenset(names)


def _declare_relations(
    item: parsed.RelationDeclaration,
    types: TypeEnvironment,
    joins: Mapping[str, syntax.Name],
    relations: dict[str, Relation],
    broken: set[str],
    report: Report,
) -> None:
    attributes: list[Attribute] = []
    sound = True
    seen: set[str] = set()
    for attribute in item.attributes:
        if attribute.name in seen:
            message = f"column '{attribute.name}' is declared twice"
            report.error(attribute.span, message, code="duplicate-column")
        seen.add(attribute.name)
        if attribute.type_name in types:
            kind = types.kind(attribute.type_name)
            lattice = lattice_of(attribute.type_name, attribute.join, types, joins, report)
            attributes.append(Attribute(attribute.name, attribute.type_name, kind, lattice))
            continue
        if attribute.type_name not in types.broken:
            hint = types.hint(attribute.type_name)
            message = f"undefined type '{attribute.type_name}'"
            report.error(attribute.type_span, message, hint, code="unknown-type")
        # Any kind, so that the number of columns is right; no clause is typed with it.
        attributes.append(Attribute(attribute.name, attribute.type_name, Kind.NUMBER))
        sound = False
    equivalence = is_equivalence(item, tuple(attributes), types, report)
    choices = choice_domains(item, tuple(attributes), report)
    for name in item.names:
        if name.text in relations:
            first = relations[name.text].span
            message = f"relation '{name.text}' is declared twice"
            hint = f"first declared at {first.place}"
            report.error(name.span, message, hint, code="duplicate-definition")
            continue
        if name.text in types and name.text not in PRIMITIVES:
            message = f"'{name.text}' is already the name of a type"
            report.error(name.span, message, code="duplicate-definition")
        relations[name.text] = Relation(
            name.text, tuple(attributes), name.span, equivalence=equivalence, choices=choices
        )
        if not sound:
            broken.add(name.text)
        words = {qualifier.text for qualifier in item.qualifiers}
        if words & {"magic", "no_magic"}:
            relations[name.text] = replace(relations[name.text], magic="no_magic" not in words)
        for qualifier in item.qualifiers:
            # Old programs write `.decl r(...) input`; storage qualifiers (btree, brie) are ignored.
            if qualifier.text in DEPRECATED:
                _add_directive(relations, name.text, qualifier.text, {})


def _apply(directive: parsed.Directive, relations: dict[str, Relation], report: Report) -> None:
    for name in directive.relations:
        if name.text not in relations:
            report_undefined(name.text, name.span, f" in .{directive.kind}", relations, report)
        elif directive.kind == "printsize" and relations[name.text].sizes:
            message = f"'.printsize {name.text}' is written twice"
            report.error(name.span, message, code="duplicate-directive")
        elif directive.kind == "limitsize":
            relations[name.text] = limit_size(directive, relations[name.text], report)
        else:
            if directive.parameters:
                _check_parameters(directive, relations[name.text].arity, report)
            _add_directive(relations, name.text, directive.kind, dict(directive.parameters))


def _check_parameters(directive: parsed.Directive, arity: int, report: Report) -> None:
    # Imported here because the readers of files load slowly, and many programs have no parameters.
    from dbsp.compiler.datalog.meaning.directives import unknown_parameters, wrong_parameters

    parameters = dict(directive.parameters)
    for message, hint in wrong_parameters(directive.kind, parameters, arity):
        report.error(directive.span, message, hint, code="invalid-directive")
    for message, hint in unknown_parameters(directive.kind, parameters):
        report.warning(directive.span, message, hint, code="no-effect")


def report_undefined(
    name: str, span: SourceSpan, where: str, relations: Mapping[str, Relation], report: Report
) -> None:
    """Report a relation that is not declared: a misspelt one everywhere, another one once."""
    hint = relation_hint(name, relations)
    if hint is None and name in report.undeclared:
        return
    if hint is None:
        report.undeclared.add(name)
        hint = f"declare it first: .decl {name}(...)"
    report.error(span, f"undefined relation '{name}'{where}", hint, code="unknown-relation")


def _add_directive(
    relations: dict[str, Relation], name: str, kind: str, parameters: Mapping[str, str]
) -> None:
    relation = relations[name]
    match kind:
        case "input":
            relation = replace(relation, inputs=(*relation.inputs, parameters))
        case "output":
            relation = replace(relation, outputs=(*relation.outputs, parameters))
        case _:
            relation = replace(relation, sizes=(*relation.sizes, parameters))
    relations[name] = relation
