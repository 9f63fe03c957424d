"""Lattice columns: `T<join>` in a declaration, and `.lattice T<> { Lub -> ... }`.

.decl dist(x: symbol, y: symbol, d: number<min>)     for each x, y one row, with the least d

The rows of a relation that agree in all other columns are joined to one row. A join must be
associative, commutative and idempotent; this is not checked for the functors of the user.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from dbsp.compiler.datalog.meaning.checked import Attribute, Relation
from dbsp.compiler.datalog.meaning.declared_types import TypeEnvironment
from dbsp.compiler.datalog.text import parsed
from dbsp.compiler.datalog.text.report import Report
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.kinds import (
    ORDERS,
    AnyKind,
    FunctorSignature,
    Kind,
    Lattice,
    flat_top,
)
from dbsp.diagnostics import SourceSpan, did_you_mean

FORMS = "write T<min>, T<max>, T<bor>, T<band>, T<flat> or T<@f>, where T is the type"

_PARTS = ("Bottom", "Lub", "Glb", "Top")


def declare_joins(
    program: parsed.ParsedProgram, types: TypeEnvironment, report: Report
) -> dict[str, syntax.Name]:
    """The joins of the `.lattice` declarations, by type."""
    found: dict[str, syntax.Name] = {}
    for place, item in enumerate(program.items):
        if not isinstance(item, parsed.LatticeDeclaration):
            continue
        report.note = program.notes.get(place)
        name = item.type
        if name.text not in types:
            if name.text not in types.broken:
                message = f"undefined type '{name.text}'"
                report.error(name.span, message, types.hint(name.text), code="unknown-type")
            continue
        if types.resolve(name.text) in found:
            message = f"the lattice of type '{name.text}' is declared twice"
            report.error(name.span, message, code="duplicate-definition")
            continue
        join = _least_upper_bound(item, report)
        if join is not None:
            found[types.resolve(name.text)] = join
    report.note = None
    return found


def _least_upper_bound(item: parsed.LatticeDeclaration, report: Report) -> syntax.Name | None:
    """The join that a `.lattice` declares; None after an error."""
    parts: dict[str, syntax.Term] = {}
    for key, term in item.parts:
        if key.text not in _PARTS or key.text in parts:
            message = f"'{key.text}' is written twice in the lattice of '{item.type.text}'"
            hint = None
            if key.text not in _PARTS:
                message = f"unknown part '{key.text}' of a lattice"
                hint = did_you_mean(key.text, _PARTS) or f"the parts are {', '.join(_PARTS)}"
            report.error(key.span, message, hint, code="invalid-lattice")
            return None
        parts[key.text] = term
    hint = "write Lub -> @f(_, _), Lub -> min(_, _) or Lub -> max(_, _)"
    if "Lub" not in parts:
        message = f"the lattice of '{item.type.text}' has no least upper bound"
        report.error(item.span, message, hint, code="invalid-lattice")
        return None
    unused = [key for key, _ in item.parts if key.text != "Lub"]
    if unused:
        listed = " and ".join(f"'{key.text}'" for key in unused)
        message = f"{listed} of the lattice of '{item.type.text}' {'has' if len(unused) == 1 else 'have'}"
        message += " no effect"
        why = "only 'Lub' is used: rows with the bottom value are kept, and two uses of a variable are equal"
        report.warning(unused[0].span, message, why, code="no-effect")
    match parts["Lub"]:
        case syntax.Call(function=function, arguments=(syntax.Wildcard(), syntax.Wildcard()), span=span) if (
            function in ("min", "max") or function.startswith("@")
        ):
            return syntax.Name(function, span)
        case other:
            message = "expected a function of two values as the least upper bound"
            report.error(other.span, message, hint, code="invalid-lattice")
            return None


def lattice_of(
    type_name: str,
    join: syntax.Name | None,
    types: TypeEnvironment,
    joins: Mapping[str, syntax.Name],
    report: Report,
) -> Lattice | None:
    """The lattice of a column, parameter or result of a known type; None without one."""
    if join is None:
        return None
    kind, name = types.kind(type_name), join.text
    if not name:
        declared = joins.get(types.resolve(type_name))
        if declared is None:
            message = f"type '{type_name}' has no lattice"
            hint = f"declare one: .lattice {type_name}<> {{ Lub -> @f(_, _) }}; or {FORMS}"
            report.error(join.span, message, hint, code="invalid-lattice")
            return None
        name = declared.text
    if name.startswith("@"):
        return Lattice(name, kind)
    if name not in ORDERS and name != "flat":
        message = f"unknown lattice '{name}'"
        hint = did_you_mean(name, (*ORDERS, "flat")) or FORMS
        report.error(join.span, message, hint, code="invalid-lattice")
        return None
    problem = _misfit(name, kind)
    if problem is not None:
        message = f"'{name}' is not a lattice of type '{type_name}'"
        report.error(join.span, message, problem, code="invalid-lattice")
        return None
    return Lattice(name, kind)


def _misfit(join: str, kind: AnyKind) -> str | None:
    """Why a built-in lattice does not fit a kind."""
    if join == "flat":
        known = flat_top(kind) is not None
        return None if known else "a flat lattice needs a type with a branch 'Top {}' for conflicting values"
    if join in ("min", "max"):
        return None if isinstance(kind, Kind) else "min and max need a type of numbers or symbols"
    bits = kind in (Kind.NUMBER, Kind.UNSIGNED)
    return None if bits else "bor and band need a type based on number or unsigned"


def refuse_joins(program: parsed.ParsedProgram, report: Report) -> None:
    """Report the lattices of fields: only columns of relations have one."""
    for place, item in enumerate(program.items):
        if isinstance(item, parsed.TypeDeclaration):
            report.note = program.notes.get(place)
            for field in (field for branch in item.branches for field in branch.fields):
                if field.join is not None:
                    message = f"field '{field.name}' of type '{item.name.text}' cannot have a lattice"
                    hint = "only columns of relations and parameters of functors have one"
                    report.error(field.join.span, message, hint, code="invalid-lattice")
    report.note = None


def check_functors_of_joins(
    program: parsed.ParsedProgram,
    relations: Mapping[str, Relation],
    functors: Mapping[str, FunctorSignature],
    broken: Collection[str],
    report: Report,
) -> None:
    """Report joins by functors that are not declared, or do not fit the type of the column."""
    for place, item in enumerate(program.items):
        if not isinstance(item, parsed.RelationDeclaration) or item.names[0].text not in relations:
            continue
        report.note = program.notes.get(place)
        columns = relations[item.names[0].text].attributes
        for written, column in zip(item.attributes, columns, strict=False):
            if column.lattice is not None and column.lattice.join.startswith("@"):
                span = written.span if written.join is None else written.join.span
                _check_functor(column, span, functors, broken, report)
    report.note = None


def _check_functor(
    column: Attribute,
    span: SourceSpan,
    functors: Mapping[str, FunctorSignature],
    broken: Collection[str],
    report: Report,
) -> None:
    lattice = column.lattice
    name = "" if lattice is None else lattice.join
    functor = functors.get(name)
    declaration = f".functor {name[1:]}(a: {column.type_name}, b: {column.type_name}): {column.type_name}"
    if functor is None:
        if name not in broken:
            message = f"undefined functor '{name}' as the join of column '{column.name}'"
            report.error(span, message, f"declare it: {declaration}", code="unknown-functor")
    elif (*functor.parameters, functor.result) != (column.kind,) * 3:
        message = f"the join of column '{column.name}' must have two parameters and a result of type "
        message += f"'{column.type_name}'"
        report.error(span, message, f"declare it: {declaration}", code="invalid-lattice")


def joins_in_use(relations: Mapping[str, Relation]) -> set[str]:
    """The functors that join the values of columns."""
    lattices = (column.lattice for relation in relations.values() for column in relation.attributes)
    return {lattice.join for lattice in lattices if lattice is not None and lattice.join.startswith("@")}


def check_kinds_of_lattices(
    items: Sequence[parsed.Item], relations: Mapping[str, Relation], report: Report
) -> None:
    """Report relations with lattice columns that are also declared to be of another kind."""
    for item in items:
        if not isinstance(item, parsed.RelationDeclaration):
            continue
        for name in item.names:
            relation = relations.get(name.text)
            if relation is None or not relation.lattice_columns:
                continue
            qualifiers = {qualifier.text for qualifier in item.qualifiers}
            others = {
                "a choice-domain": bool(relation.choices),
                "a subsumption": relation.subsumed,
                "a limit": relation.limit is not None,
                "the qualifier 'eqrel'": relation.equivalence,
                "the qualifier 'inline'": "inline" in qualifiers,
            }
            for what in (what for what, has in others.items() if has):
                message = f"relation '{name.text}' has a lattice column and cannot have {what}"
                hint = "use two relations, of which one reads the other"
                report.error(name.span, message, hint, code="conflicting-qualifiers")
