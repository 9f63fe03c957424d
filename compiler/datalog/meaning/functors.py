"""User-defined functors: `.functor f(x: number): symbol`, called as `@f(x)`: Python functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from dbsp.compiler.datalog.meaning.declared_types import TypeEnvironment
from dbsp.compiler.datalog.meaning.flatten import FlatClause
from dbsp.compiler.datalog.meaning.lattices import lattice_of
from dbsp.compiler.datalog.text import parsed
from dbsp.compiler.datalog.text.report import Report
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.kinds import AnyKind, FunctorSignature, Value
from dbsp.compiler.datalog.tree.traversal import find
from dbsp.diagnostics import did_you_mean

Function: TypeAlias = Callable[..., Value]


def declare_functors(
    program: parsed.ParsedProgram,
    types: TypeEnvironment,
    functions: Mapping[str, Function],
    joins: Mapping[str, syntax.Name],
    report: Report,
) -> dict[str, FunctorSignature]:
    """The functors with a valid declaration, by their names with a leading `@`."""
    found: dict[str, FunctorSignature] = {}
    first: dict[str, syntax.Name] = {}
    for place, item in enumerate(program.items):
        if not isinstance(item, parsed.FunctorDeclaration):
            continue
        report.note = program.notes.get(place)
        name = item.name
        if first.setdefault(name.text, name) is not name:
            message = f"functor '{name.text}' is declared twice"
            hint = f"first declared at {first[name.text].span.place}"
            report.error(name.span, message, hint, code="duplicate-definition")
            continue
        known = [_kind(type_name, types, report) for type_name in (*item.parameters, item.result)]
        if None not in known:
            *kinds, result = (kind for kind in known if kind is not None)
            function = functions.get(name.text, _Missing())
            typed = zip((*item.parameters, item.result), item.joins, strict=True)
            lattices = tuple(lattice_of(known.text, join, types, joins, report) for known, join in typed)
            found[f"@{name.text}"] = FunctorSignature(name.text, tuple(kinds), result, function, lattices)
    report.note = None
    return found


class _Missing:
    """The placeholder for the missing function of a functor."""

    def __call__(self, *arguments: Value) -> Value:
        raise AssertionError("check_functions reports the use of a functor without a function")


def check_functions(
    program: parsed.ParsedProgram,
    used: set[str],
    functors: Mapping[str, FunctorSignature],
    report: Report,
) -> None:
    """Report the functors that are used and have no function."""
    waiting = set(used)
    for place, item in enumerate(program.items):
        if isinstance(item, parsed.FunctorDeclaration) and f"@{item.name.text}" in waiting:
            waiting.discard(f"@{item.name.text}")
            functor = functors.get(f"@{item.name.text}")
            if functor is not None and isinstance(functor.function, _Missing):
                report.note = program.notes.get(place)
                report.error(
                    item.name.span,
                    f"functor '{functor.name}' has no Python function",
                    f'pass compile(text, functors={{"{functor.name}": function}}) or --functors FILE.py',
                    code="missing-function",
                )
    report.note = None


def functors_in(clause: FlatClause) -> Iterator[str]:
    """The functors that a clause calls."""
    return (call.function for call in find(clause, syntax.Call) if call.function.startswith("@"))


def _kind(name: syntax.Name, types: TypeEnvironment, report: Report) -> AnyKind | None:
    """The kind of a parameter or a result of a functor; None after an error."""
    if name.text in types:
        return types.kind(name.text)
    if name.text not in types.broken:
        near = did_you_mean(name.text, types.names())
        report.error(name.span, f"undefined type '{name.text}'", near, code="unknown-type")
    return None
