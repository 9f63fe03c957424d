"""Declared types: primitive kinds, subtypes, aliases and unions.

Every type has one primitive kind, and the engine stores that kind. Subtypes exist to catch
mistakes. A variable bound in a column of type A may only be used in columns of type A or of a
supertype of A. A variable bound in two columns has a common subtype of both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dbsp.compiler.datalog.meaning.fields import declare_fields
from dbsp.compiler.datalog.meaning.word_size import range_of
from dbsp.compiler.datalog.text import parsed
from dbsp.compiler.datalog.text.other_languages import type_hint
from dbsp.compiler.datalog.text.report import Report
from dbsp.compiler.datalog.tree.dependency_graph import DependencyGraph
from dbsp.compiler.datalog.tree.kinds import AnyKind, Kind, Structured, type_of
from dbsp.data.types import Constructor, Field, Structure

MOST_NAMES = 8
"""Messages list at most this many types."""

PRIMITIVES: Mapping[str, Kind] = {kind.value: kind for kind in Kind}


class TypeEnvironment:
    """The types of one program, by name, without those whose declaration has an error."""

    def __init__(self, word_size: int = 64, legacy: bool = False) -> None:
        self.word_size = word_size
        """The number of bits of a number; see `word_size`."""
        self.legacy = legacy
        """Whether a head accepts a value that does not belong to the subtype of its column."""
        self.broken: set[str] = set()
        """Types whose declaration has an error; their uses are not reported."""
        self.structured: dict[str, Structured] = {}
        """The record types and algebraic data types."""
        self.branches: dict[str, str] = {}
        """The type of each branch of an algebraic data type."""
        self._kinds: dict[str, AnyKind] = dict(PRIMITIVES)
        self._fields: dict[tuple[str, str], tuple[parsed.AttributeDeclaration, ...]] = {}
        self._aliases: dict[str, str] = {}
        self._bases: dict[str, str] = {}
        # A union has the non-union types in it as its members; any other type has itself.
        self._members: dict[str, frozenset[str]] = {name: frozenset({name}) for name in PRIMITIVES}

    def __contains__(self, name: str) -> bool:
        return name in self._kinds

    def names(self) -> list[str]:
        return list(self._kinds)

    def hint(self, name: str) -> str:
        """Return a hint for an undefined type: a type of another language, or a misspelt name."""
        return type_hint(name, self.names()) or f"the types are {', '.join(self.names()[:MOST_NAMES])}"

    def kind(self, name: str) -> AnyKind:
        return self._kinds[name]

    def fields(self, kind: Structured, constructor: str) -> tuple[parsed.AttributeDeclaration, ...]:
        """The declared fields of a record (its constructor is "") or of a branch."""
        return self._fields[kind.name, constructor]

    def add_structured(self, declaration: parsed.TypeDeclaration) -> None:
        """Add a record type or an algebraic data type; `complete` adds its fields."""
        name = declaration.name.text
        kind = Structured(name, Structure(name))
        self._kinds[name] = self.structured[name] = kind
        self._members[name] = frozenset({name})

    def complete(self, declaration: parsed.TypeDeclaration) -> None:
        """Add the constructors of an added type, when the types of all fields are known."""
        name = declaration.name.text
        constructors = []
        for branch in declaration.branches:
            self._fields[name, branch.name.text] = branch.fields
            kinds = [self.kind(field.type_name) for field in branch.fields]
            fields = (
                Field(field.name, type_of(kind), range_of(kind, self.word_size))
                for field, kind in zip(branch.fields, kinds, strict=True)
            )
            constructors.append(Constructor(branch.name.text, tuple(fields)))
        self.structured[name].structure.constructors = tuple(constructors)

    def add(self, name: str, form: parsed.TypeForm, parents: Sequence[str]) -> None:
        """Add a type whose parents are already known."""
        self._kinds[name] = self._kinds[parents[0]]
        match form:
            case "alias":
                self._aliases[name] = self.resolve(parents[0])
            case "subtype":
                self._bases[name] = self.resolve(parents[0])
                self._members[name] = frozenset({name})
            case "union":
                members = (self._members[self.resolve(parent)] for parent in parents)
                self._members[name] = frozenset().union(*members)

    def remove(self, name: str) -> None:
        """Remove a broken type."""
        kind = self.structured.pop(name)
        # The type itself, and its aliases.
        for alias in [alias for alias, known in self._kinds.items() if known == kind]:
            self.broken.add(alias)
            del self._kinds[alias]

    def resolve(self, name: str) -> str:
        """The type that an alias refers to; any other name itself."""
        return self._aliases.get(name, name)

    def is_union(self, name: str) -> bool:
        name = self.resolve(name)
        return self._members[name] != {name}

    def is_subtype(self, a: str, b: str) -> bool:
        """Whether every value of type a is one of type b."""
        a, b = self.resolve(a), self.resolve(b)
        allowed = self._members[b]
        return a == b or all(self._derives_from(member, allowed) for member in self._members[a])

    def _derives_from(self, name: str, allowed: frozenset[str]) -> bool:
        """Whether a non-union type, or one of its base types, is among the allowed ones."""
        while name not in allowed:
            if name not in self._bases:
                return False
            name = self._bases[name]
        return True

    def common(self, a: str, b: str) -> frozenset[str]:
        """The greatest common subtypes of a and b; empty when they have no value in common."""
        a, b = self.resolve(a), self.resolve(b)
        if self.is_subtype(a, b):
            return frozenset({a})
        if self.is_subtype(b, a):
            return frozenset({b})
        if not (self.is_union(a) and self.is_union(b)):
            return frozenset()
        below_b = {member for member in self._members[a] if self._derives_from(member, self._members[b])}
        below_a = {member for member in self._members[b] if self._derives_from(member, self._members[a])}
        return frozenset(below_a | below_b)


def declare_types(
    declarations: Sequence[parsed.TypeDeclaration],
    report: Report,
    legacy: bool = False,
    word_size: int = 64,
) -> TypeEnvironment:
    """The environment of a program's type declarations, which may come in any order."""
    by_name: dict[str, parsed.TypeDeclaration] = {}
    for declaration in declarations:
        name = declaration.name
        if declaration.deprecated and not legacy:
            hint = f"write '.type {name.text} <: {declaration.parents[0].text}'"
            message = f"this form of the declaration of type '{name.text}' is deprecated"
            report.warning(name.span, message, hint, code="deprecated")
        if name.text in PRIMITIVES:
            message = f"'{name.text}' is a predefined type and cannot be declared again"
            report.error(name.span, message, code="duplicate-definition")
        elif name.text in by_name:
            message = f"type '{name.text}' is declared twice"
            hint = f"first declared at {by_name[name.text].name.span.place}"
            report.error(name.span, message, hint, code="duplicate-definition")
        else:
            by_name[name.text] = declaration
    environment = TypeEnvironment(word_size, legacy)
    for text in by_name:
        if by_name[text].branches:
            environment.add_structured(by_name[text])
    for text in _parents_first(by_name, environment, report):
        if by_name[text].branches:
            continue
        if _is_sound(by_name[text], by_name, environment, report):
            parents = [parent.text for parent in by_name[text].parents]
            environment.add(text, by_name[text].form, parents)
        else:
            environment.broken.add(text)
    structured = [declaration for declaration in by_name.values() if declaration.branches]
    for declaration in structured:
        if not declare_fields(declaration, environment, report):
            environment.broken.add(declaration.name.text)
    _break_with_fields(structured, environment)
    for declaration in structured:
        if declaration.name.text in environment:
            environment.complete(declaration)
    return environment


def _break_with_fields(structured: Sequence[parsed.TypeDeclaration], environment: TypeEnvironment) -> None:
    """Remove the types that are broken or have a field of a broken type."""
    grown = True
    while grown:
        grown = False
        for declaration in structured:
            name = declaration.name.text
            fields = [field.type_name for branch in declaration.branches for field in branch.fields]
            if name in environment and not environment.broken.isdisjoint([name, *fields]):
                environment.remove(name)
                grown = True


def _parents_first(
    by_name: Mapping[str, parsed.TypeDeclaration], environment: TypeEnvironment, report: Report
) -> list[str]:
    """The names in an order in which every type comes after its parents.

    Types defined in terms of themselves are reported, once for each cycle, and omitted.
    """
    graph = DependencyGraph(nodes=by_name)
    for name, declaration in by_name.items():
        for parent in declaration.parents:
            if parent.text in by_name:
                graph.add_edge(parent.text, name)
    recursive: set[str] = set()
    for component in graph.components():
        name = next(iter(component))
        if len(component) > 1 or graph.has_edge(name, name):
            name = min(component, key=list(by_name).index)
            shown = " -> ".join(reversed(_cycle(graph, component, name)))
            message = f"type '{name}' is defined in terms of itself: {shown}"
            report.error(by_name[name].name.span, message, code="recursive-type")
            environment.broken.update(component)
            recursive |= component
    kept = DependencyGraph(
        (edge for edge in graph.edges if recursive.isdisjoint(edge)),
        (name for name in by_name if name not in recursive),
    )
    position = {name: at for at, name in enumerate(by_name)}
    return list(kept.in_order(position.__getitem__))


def _cycle(graph: DependencyGraph[str], component: set[str], name: str) -> list[str]:
    """Return a shortest cycle through a name: from the name to itself."""
    following = [target for source, target in graph.edges if source == name and target in component]
    return min(([name, *graph.path(target, name)] for target in following), key=len)


def _names_values(
    declaration: parsed.TypeDeclaration,
    by_name: Mapping[str, parsed.TypeDeclaration],
    environment: TypeEnvironment,
) -> bool:
    """Whether a union is probably an enumeration, `Red | Green`: no member resembles a type."""
    known = [*environment.names(), *by_name]
    return declaration.form == "union" and all(
        parent.text not in known and type_hint(parent.text, known) is None for parent in declaration.parents
    )


def _is_sound(
    declaration: parsed.TypeDeclaration,
    by_name: Mapping[str, parsed.TypeDeclaration],
    environment: TypeEnvironment,
    report: Report,
) -> bool:
    """Whether a type can be added; its valid parents are already added."""
    name, known = declaration.name, True
    if _names_values(declaration, by_name, environment):
        branches = " | ".join(f"{parent.text} {{}}" for parent in declaration.parents)
        message = "expected the types of a union, got unknown names"
        hint = f"write a type of named values as .type {name.text} = {branches}"
        report.error(declaration.parents[0].span, message, hint, code="unknown-type")
        return False
    for parent in declaration.parents:
        if parent.text not in environment:
            known = False
            if parent.text not in by_name:
                near = type_hint(parent.text, [*environment.names(), *by_name])
                message = f"undefined type '{parent.text}'"
                report.error(parent.span, message, near, code="unknown-type")
    if not known:
        return False
    kinds = {environment.kind(parent.text) for parent in declaration.parents}
    for parent in declaration.parents if declaration.form != "alias" else ():
        if isinstance(environment.kind(parent.text), Structured):
            role = "a member of a union" if declaration.form == "union" else "the base of a subtype"
            message = f"'{parent.text}' is a type of records or branches and cannot be {role}"
            report.error(parent.span, message, code="invalid-type-declaration")
            return False
    if len(kinds) > 1:
        listed = ", ".join(sorted(kind.value for kind in kinds))
        message = f"the members of union type '{name.text}' have different primitive types ({listed})"
        report.error(name.span, message, code="invalid-type-declaration")
        return False
    base = declaration.parents[0]
    if declaration.form == "subtype" and environment.is_union(base.text):
        message = f"'{name.text}' cannot be a subtype of the union type '{base.text}'"
        report.error(base.span, message, code="invalid-type-declaration")
        return False
    return True
