"""Declared types: primitive kinds, subtypes, aliases and unions.

Every type stands on one primitive kind, and the engine stores that kind. Subtypes exist to catch
mistakes: a variable bound in a column of type A may only flow into a column whose type A is a
subtype of, and one bound in two columns has a type below both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dbsp.compiler.datalog import syntax
from dbsp.compiler.datalog.checked import Kind
from dbsp.compiler.datalog.report import Report
from dbsp.diagnostics import did_you_mean

PRIMITIVES: Mapping[str, Kind] = {kind.value: kind for kind in Kind}


@dataclass(frozen=True, slots=True)
class _Declared:
    form: syntax.TypeForm
    parents: tuple[str, ...]


class TypeEnvironment:
    """The types of one program, by name. Only sound declarations are in it."""

    def __init__(self) -> None:
        self.broken: set[str] = set()
        """Types whose declaration has an error; using them is no further error."""
        self._declared: dict[str, _Declared] = {}
        self._kinds: dict[str, Kind] = dict(PRIMITIVES)
        # Unions of unions would be compared over and over otherwise.
        self._subtypes: dict[tuple[str, str], bool] = {}
        self._common: dict[tuple[str, str], frozenset[str]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._kinds

    def names(self) -> list[str]:
        return list(self._kinds)

    def kind(self, name: str) -> Kind:
        return self._kinds[name]

    def add(self, name: str, form: syntax.TypeForm, parents: tuple[str, ...]) -> None:
        """Adds a type over types that are known already."""
        self._declared[name] = _Declared(form, parents)
        self._kinds[name] = self._kinds[parents[0]]

    def resolve(self, name: str) -> str:
        """The name behind aliases."""
        while name in self._declared and self._declared[name].form == "alias":
            name = self._declared[name].parents[0]
        return name

    def is_union(self, name: str) -> bool:
        declared = self._declared.get(self.resolve(name))
        return declared is not None and declared.form == "union"

    def is_subtype(self, a: str, b: str) -> bool:
        """Whether every value of type a is one of type b."""
        key = (self.resolve(a), self.resolve(b))
        if key not in self._subtypes:
            self._subtypes[key] = self._is_subtype(*key)
        return self._subtypes[key]

    def _is_subtype(self, a: str, b: str) -> bool:
        if a == b:
            return True
        own = self._declared.get(a)
        if own is not None and own.form == "union" and all(self.is_subtype(m, b) for m in own.parents):
            return True
        if own is not None and own.form == "subtype" and self.is_subtype(own.parents[0], b):
            return True
        other = self._declared.get(b)
        return (
            other is not None
            and other.form == "union"
            and any(self.is_subtype(a, member) for member in other.parents)
        )

    def common(self, a: str, b: str) -> frozenset[str]:
        """The greatest types below both a and b; empty when they have no value in common."""
        key = (self.resolve(a), self.resolve(b))
        if key not in self._common:
            self._common[key] = self._find_common(*key)
        return self._common[key]

    def _find_common(self, a: str, b: str) -> frozenset[str]:
        if self.is_subtype(a, b):
            return frozenset({a})
        if self.is_subtype(b, a):
            return frozenset({b})
        if self.is_union(a) and self.is_union(b):
            members = self._declared[a].parents
            return frozenset().union(*(self.common(member, b) for member in members))
        return frozenset()


def declare_types(declarations: list[syntax.TypeDeclaration], report: Report) -> TypeEnvironment:
    """The environment of a program's type declarations, which may come in any order."""
    by_name: dict[str, syntax.TypeDeclaration] = {}
    for declaration in declarations:
        name = declaration.name
        if name.text in PRIMITIVES:
            report.error(name.span, f"'{name.text}' is a predefined type and cannot be declared again")
        elif name.text in by_name:
            first = by_name[name.text].name.span
            report.error(
                name.span, f"type '{name.text}' is declared twice", f"first declared at {first.place}"
            )
        else:
            by_name[name.text] = declaration
    environment = TypeEnvironment()
    for declaration in by_name.values():
        _declare(declaration, by_name, environment, report, [])
    return environment


def _declare(
    declaration: syntax.TypeDeclaration,
    by_name: Mapping[str, syntax.TypeDeclaration],
    environment: TypeEnvironment,
    report: Report,
    path: list[str],
) -> bool:
    """Declares a type after the types it stands on; `path` leads to it, for cycles."""
    name = declaration.name.text
    if name in path:
        cycle = " -> ".join([*path[path.index(name) :], name])
        report.error(declaration.name.span, f"type '{name}' is defined by itself: {cycle}")
        return False
    if name in environment or name in environment.broken:
        return name in environment
    environment.broken.add(name)  # until its declaration is found to be sound
    for parent in declaration.parents:
        if parent.text in environment:
            continue
        if parent.text not in by_name:
            hint = did_you_mean(parent.text, [*environment.names(), *by_name])
            report.error(parent.span, f"undefined type '{parent.text}'", hint)
            return False
        if not _declare(by_name[parent.text], by_name, environment, report, [*path, name]):
            return False
    kinds = {environment.kind(parent.text) for parent in declaration.parents}
    if len(kinds) > 1:
        listed = ", ".join(sorted(kind.value for kind in kinds))
        report.error(
            declaration.name.span,
            f"the members of union type '{name}' have different primitive types ({listed})",
        )
        return False
    base = declaration.parents[0]
    if declaration.form == "subtype" and environment.is_union(base.text):
        report.error(base.span, f"'{name}' cannot be a subtype of the union type '{base.text}'")
        return False
    environment.broken.discard(name)
    environment.add(name, declaration.form, tuple(parent.text for parent in declaration.parents))
    return True
