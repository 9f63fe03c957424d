"""Whole programs as Datalog text, after any of the passes of the compiler.

The text is for readers: additions of the compiler may have no syntax in the language
(`path#demand`, the parts of a record). A variable that is local to an aggregate is written `x'1`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.clause_passes import DeclaredProgram, FlatProgram, TypedProgram
from dbsp.compiler.datalog.meaning.flatten import FlatClause
from dbsp.compiler.datalog.meaning.show import show_body, show_literal, show_rule, show_term
from dbsp.compiler.datalog.text import parsed
from dbsp.compiler.datalog.text.lexer import PlacedToken
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.kinds import Value
from dbsp.compiler.datalog.tree.traversal import rename, variables


def tokens_text(tokens: Sequence[PlacedToken]) -> str:
    """The tokens with blanks between them, each line of the source on a line of its own."""
    lines: list[list[str]] = []
    last = None
    for token in tokens:
        place = (token.span.file, token.span.line)
        if place != last:
            lines.append([])
            last = place
        lines[-1].append(str(token))
    return "\n".join(map(" ".join, lines))


def tree_text(tree: parsed.ParsedProgram) -> str:
    """The items of a syntax tree, one below the other."""
    return "\n".join(line for item in tree.items for line in _item(item))


def declared_text(program: DeclaredProgram) -> str:
    """The relations as declared, and the clauses as written."""
    clauses = (item for item in program.tree.items if isinstance(item, parsed.Clause))
    lines = (line for clause in clauses for line in _item(clause))
    return "\n".join((*_relations(program.declarations.relations), *lines))


def flat_text(program: FlatProgram) -> str:
    """Relations, facts and flat clauses."""
    clauses = ((placed.place, _flat(placed.clause)) for placed in program.clauses)
    return _placed_text(program.declared, program.facts, clauses)


def typed_text(program: TypedProgram) -> str:
    """Relations, facts and the clauses, each followed by the kinds of its variables."""
    clauses = (
        (placed.place, f"{_flat(placed.clause)}{_kinds((typed.head, *typed.body))}")
        for placed, typed in program.clauses
    )
    return _placed_text(program.declared, program.facts, clauses)


def checked_text(program: checked.CheckedProgram) -> str:
    """Relations, facts and rules, by strata."""
    lines = [*_relations(program.relations), *map(_fact, program.facts)]
    known = {rule.number for rule in program.clauses}
    for number, stratum in enumerate(program.strata, 1):
        rules = [rule for rule in (*stratum.rules, *stratum.subsumptions) if rule.number in known]
        if rules:
            how = ", recursive" if stratum.recursive else ""
            lines.append(f"// stratum {number}{how}{' through negation' if stratum.halves else ''}")
            lines += map(show_rule, rules)
    return "\n".join(lines)


def rules_text(program: checked.CheckedProgram) -> str:
    """Relations, facts and rules before the pass `stratify`, which finds the strata."""
    return "\n".join(
        (*_relations(program.relations), *map(_fact, program.facts), *map(show_rule, program.clauses))
    )


# --- parts of programs ----------------------------------------------------------------------------


def _relations(relations: Mapping[str, checked.Relation]) -> Iterator[str]:
    for relation in relations.values():
        columns = ", ".join(f"{column.name}: {column.type_name}" for column in relation.attributes)
        word = {True: " magic", False: " no_magic", None: ""}[relation.magic]
        inserted = "" if relation.rows_of is None else f" // and the rows inserted into {relation.rows_of}"
        yield f".decl {relation.name}({columns}){word}{inserted}"
        for kind, directives in (
            ("input", relation.inputs),
            ("output", relation.outputs),
            ("printsize", relation.sizes),
        ):
            for parameters in directives:
                yield f".{kind} {relation.name}{_parameters(parameters.items())}"
        if relation.limit is not None:
            yield f".limitsize {relation.name}(n={relation.limit})"


def _placed_text(
    declared: DeclaredProgram,
    facts: Iterable[tuple[int, checked.Fact]],
    clauses: Iterable[tuple[int, str]],
) -> str:
    placed = [*((place, _fact(fact)) for place, fact in facts), *clauses]
    placed.sort(key=lambda entry: entry[0])
    return "\n".join((*_relations(declared.declarations.relations), *(text for _, text in placed)))


def _fact(fact: checked.Fact) -> str:
    return f"{fact.relation}({', '.join(map(_value, fact.row))})."


def _value(value: Value) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)


def _flat(clause: FlatClause) -> str:
    """A flat clause; local variables keep their number."""
    names = {name: name.replace("#", "'") for name in variables(clause) if "#" in name}
    head, *body = (rename(literal, names) for literal in (clause.head, *clause.body))
    if clause.subsumes:
        return f"{show_literal(head)} <= {show_literal(body[1])} :- {show_body(body[2:])}."
    return f"{show_literal(head)}{f' :- {show_body(body)}' if body else ''}."


def _kinds(literals: Iterable[syntax.Literal]) -> str:
    """The kinds of the variables outside of aggregates, as a comment."""
    kinds: dict[str, str] = {}
    waiting: list[object] = [*literals]
    while waiting:
        match waiting.pop(0):
            case syntax.Variable(name=name, kind=kind):
                kinds.setdefault(name, kind.value)
            case syntax.Atom(arguments=parts) | syntax.Call(arguments=parts):
                waiting[:0] = parts
            case syntax.Comparison(left=left, right=right):
                waiting[:0] = [left, right]
            case _:
                pass
    return f"  // {', '.join(f'{name}: {kind}' for name, kind in kinds.items())}" if kinds else ""


# --- items of the syntax tree ---------------------------------------------------------------------


def _item(item: parsed.Item) -> Iterator[str]:
    match item:
        case parsed.Clause(heads=heads, body=body, subsumes=subsumes):
            yield _clause(heads, body, subsumes)
        case parsed.RelationDeclaration(names=names, attributes=attributes, qualifiers=qualifiers):
            words = [qualifier.text for qualifier in qualifiers]
            if item.choices:
                words.append(f"choice-domain {', '.join(f'({_names(domain)})' for domain in item.choices)}")
            yield " ".join((f".decl {_names(names)}({_columns(attributes)})", *words))
        case parsed.TypeDeclaration():
            yield f".type {item.name.text}{_type(item)}"
        case parsed.Directive(kind=kind, relations=relations, parameters=parameters):
            yield f".{kind} {_names(relations)}{_parameters(parameters)}"
        case parsed.Pragma(key=key, value=value):
            yield f".pragma {json.dumps(key)}{f' {json.dumps(value)}' if value else ''}"
        case parsed.FunctorDeclaration(name=name, parameters=kinds, result=result):
            types = [
                f"{kind.text}{_join(join)}" for kind, join in zip((*kinds, result), item.joins, strict=True)
            ]
            yield f".functor {name.text}({', '.join(types[:-1])}): {types[-1]}"
        case parsed.LatticeDeclaration():
            parts = ", ".join(f"{key.text} -> {show_term(term)}" for key, term in item.parts)
            yield f".lattice {item.type.text}<> {{ {parts} }}"
        case parsed.PlanDirective(orders=orders):
            shown = (
                f"{order.version.value}: ({', '.join(str(position.value) for position in order.positions)})"
                for order in orders
            )
            yield f".plan {', '.join(shown)}"
        case parsed.Component(head=head, bases=bases, items=items):
            above = f" : {', '.join(map(_component, bases))}" if bases else ""
            yield f".comp {_component(head)}{above} {{"
            yield from (f"    {line}" for inside in items for line in _item(inside))
            yield "}"
        case parsed.Instance(name=name, component=component):
            yield f".init {name.text} = {_component(component)}"
        case parsed.Override(names=names):
            yield f".override {_names(names)}"
        case parsed.ComponentEnd():
            yield "}"


def _clause(heads: Sequence[syntax.Atom], body: syntax.Formula | None, subsumes: bool) -> str:
    head = ", ".join(map(show_literal, heads))
    if body is None:
        return f"{head}."
    parts = body.parts if isinstance(body, syntax.Conjunction) else (body,)
    if subsumes:
        return f"{head} <= {show_literal(parts[1])} :- {show_body(parts[2:])}."
    return f"{head} :- {show_body(parts)}."


def _type(item: parsed.TypeDeclaration) -> str:
    match item.form:
        case "subtype":
            return "" if item.deprecated else f" <: {_names(item.parents)}"
        case "record":
            return f" = [{_columns(item.branches[0].fields)}]"
        case "adt":
            branches = (f"{branch.name.text} {{{_columns(branch.fields)}}}" for branch in item.branches)
            return f" = {' | '.join(branches)}"
        case _:
            return f" = {' | '.join(name.text for name in item.parents)}"


def _component(component: parsed.ComponentType) -> str:
    return f"{component.name.text}{f'<{_names(component.parameters)}>' if component.parameters else ''}"


def _names(names: Iterable[syntax.Name]) -> str:
    return ", ".join(name.text for name in names)


def _columns(attributes: Iterable[parsed.AttributeDeclaration]) -> str:
    return ", ".join(
        f"{attribute.name}: {attribute.type_name}{_join(attribute.join)}" for attribute in attributes
    )


def _join(join: syntax.Name | None) -> str:
    return "" if join is None else f"<{join.text}>"


def _parameters(parameters: Iterable[tuple[str, str]]) -> str:
    shown = ", ".join(f"{key}={json.dumps(value)}" for key, value in parameters)
    return f"({shown})" if shown else ""
