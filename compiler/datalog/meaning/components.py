"""Components: replace every `.init` by the declarations and clauses of the instance.

    .comp Graph<N> {                         .decl g.edge(x: number, y: number)
        .decl edge(x: N, y: N)               .decl g.path(x: number, y: number)
        .decl path(x: N, y: N)        is     g.path(x, y) :- g.edge(x, y).
        path(x, y) :- edge(x, y).
    }
    .init g = Graph<number>

As in Soufflé, an instance has the items of its base components, its own items, and the items of the
instances within it; then every name declared in them gets the name of the instance as a prefix. A
name that is not declared in them refers to the surroundings of the `.init`. A component name refers
to a component declared in this component, in its bases, or around it; a type parameter may be bound
to a component, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from dbsp.compiler.datalog.meaning.component_checks import (
    check_components,
    check_parameters,
    unknown_component,
)
from dbsp.compiler.datalog.text import parsed
from dbsp.compiler.datalog.text.report import Report
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.traversal import map_children
from dbsp.diagnostics import SourceSpan
from dbsp.errors import expect_present
from dbsp.lazy_dataclass import dataclass

MAX_DEPTH = 100
MAX_INSTANCES = 100_000


def instantiate(program: parsed.ParsedProgram, report: Report) -> parsed.ParsedProgram:
    """The program without components; raises CompileError if an instance cannot be created."""
    kinds = (parsed.Component, parsed.Instance, parsed.Override)
    if not any(isinstance(item, kinds) for item in program.items):
        return program
    instantiator = _Instantiator(report)
    outermost = _ComponentScope(None, None, program.items)
    check_components(program.items, report)
    found = instantiator.content(program.items, outermost, {}, frozenset(), "", 0, None)
    report.raise_errors()
    notes = {place: note for place, (_, note) in enumerate(found) if note is not None}
    return parsed.ParsedProgram(tuple(item for item, _ in found), notes)


@dataclass(eq=False)
class _ComponentScope:
    """The components visible in a component (None: in the program), and the enclosing scope."""

    component: parsed.Component | None
    outer: _ComponentScope | None
    items: Sequence[parsed.Item]
    bases: list[_ComponentScope] = field(default_factory=list)

    def find(self, name: str) -> _ComponentScope | None:
        scope: _ComponentScope | None = self
        while scope is not None:
            found = scope.inside(name)
            if found is not None:
                return found
            scope = scope.outer
        return None

    def inside(self, name: str) -> _ComponentScope | None:
        for item in self.items:
            if isinstance(item, parsed.Component) and item.head.name.text == name:
                return _ComponentScope(item, self, item.items)
        return next((found for base in self.bases if (found := base.inside(name)) is not None), None)

    def names(self) -> Iterable[str]:
        scope: _ComponentScope | None = self
        while scope is not None:
            yield from (item.head.name.text for item in scope.items if isinstance(item, parsed.Component))
            scope = scope.outer


Binding = Mapping[str, str]
Noted = tuple[parsed.Item, str | None]


class _Instantiator:
    def __init__(self, report: Report) -> None:
        self.report = report
        self.instances = 0
        self.open: list[parsed.Component] = []
        """The components of the instances around the one that is created."""

    def content(
        self,
        items: Sequence[parsed.Item],
        scope: _ComponentScope,
        binding: Binding,
        overridden: frozenset[str],
        path: str,
        depth: int,
        note: str | None,
    ) -> list[Noted]:
        """The plain items among these, and those of the instances among them."""
        found: list[Noted] = []
        dropped = False  # whether the clause before a .plan is overridden
        for item in items:
            match item:
                case parsed.Component() | parsed.ComponentEnd():
                    continue
                case parsed.Instance():
                    found.extend(self.instance(item, scope, binding, path, depth))
                case parsed.Override(span=span):
                    if scope.component is None:
                        message = ".override outside of a component"
                        hint = "write it inside a .comp with a base component"
                        self.report.error(span, message, hint, code="invalid-override")
                case parsed.Clause(heads=heads):
                    kept = tuple(head for head in heads if head.relation not in overridden)
                    dropped = not kept
                    if kept:
                        namer = _Namer({}, binding, parameters=True)
                        found.append((namer.item(replace(item, heads=kept)), note))
                case parsed.PlanDirective() if dropped:
                    continue
                case _:
                    found.append((_Namer({}, binding, parameters=True).item(item), note))
        return found

    def instance(
        self, init: parsed.Instance, scope: _ComponentScope, binding: Binding, path: str, depth: int
    ) -> list[Noted]:
        self.instances += 1
        if depth > MAX_DEPTH:
            hint = f"there are more than {MAX_DEPTH} levels of instances"
            self.endless(init.span, self.open[-1], hint)
        if self.instances > MAX_INSTANCES:
            message = f"the program has more than {MAX_INSTANCES:,} component instances"
            self.report.error(init.span, message, code="recursive-component")
            self.report.raise_errors()
        found = self.find(init.component, scope, binding)
        if found is None:
            return []
        component, inner = found
        name = init.name.text
        full_name = f"{path}{name}"
        note = (
            f"in instance '{full_name}' of component '{_component_of(component).head.name.text}', "
            f"created at {init.span.place}"
        )
        self.open.append(_component_of(component))
        content = self.collect(component, inner, frozenset(), f"{full_name}.", depth + 1, note, ())
        self.open.pop()
        relations = [
            declared_name.text
            for item, _ in content
            if isinstance(item, parsed.RelationDeclaration)
            for declared_name in item.names
        ]
        declared = [item for item, _ in content if isinstance(item, parsed.TypeDeclaration)]
        types = [item.name.text for item in declared]
        types += [branch.name.text for item in declared if item.form == "adt" for branch in item.branches]
        namer = _Namer(
            {relation: f"{name}.{relation}" for relation in relations},
            {type_name: f"{name}.{type_name}" for type_name in types},
        )
        return [(namer.item(item), note) for item, note in content]

    def endless(self, span: SourceSpan, component: parsed.Component, hint: str) -> None:
        """Report a component that would be instantiated within itself again and again."""
        name = component.head.name.text
        message = f"endless instantiation: component '{name}' contains an instance of itself"
        self.report.error(span, message, hint, code="recursive-component")
        self.report.raise_errors()

    def collect(
        self,
        scope: _ComponentScope,
        binding: Binding,
        overridden: frozenset[str],
        path: str,
        depth: int,
        note: str,
        below: tuple[parsed.Component, ...],
    ) -> list[Noted]:
        """The items of a component: those of its bases and its own."""
        component = _component_of(scope)
        found: list[Noted] = []
        if any(component is other for other in below):
            name = component.head.name
            message = f"component '{name.text}' inherits from itself"
            self.report.error(name.span, message, code="recursive-component")
            self.report.raise_errors()
        own = [name for item in component.items if isinstance(item, parsed.Override) for name in item.names]
        hidden = overridden | {name.text for name in own}
        for base in component.bases:
            bound = self.find(base, scope, binding)
            if bound is not None:
                scope.bases.append(bound[0])
                found += self.collect(*bound, hidden, path, depth, note, (*below, component))
        return found + self.content(component.items, scope, binding, overridden, path, depth, note)

    def find(
        self, kind: parsed.ComponentType, scope: _ComponentScope, binding: Binding
    ) -> tuple[_ComponentScope, Binding] | None:
        """The component with this name, and the bindings of its parameters."""
        name = binding.get(kind.name.text, kind.name.text)
        found = scope.find(name)
        if found is None:
            unknown_component(kind, name, scope.names(), self.report)
            return None
        component = _component_of(found)
        if name != kind.name.text and component in self.open and not _fits(kind, component):
            self.endless(kind.span, component, f"type parameter '{kind.name.text}' stands for '{name}'")
        if not check_parameters(kind, component, self.report):
            return None
        formal = component.head.parameters
        given = (binding.get(parameter.text, parameter.text) for parameter in kind.parameters)
        return found, {**dict(zip((parameter.text for parameter in formal), given, strict=True))}


def _fits(use: parsed.ComponentType, component: parsed.Component) -> bool:
    return len(use.parameters) == len(component.head.parameters)


def _component_of(scope: _ComponentScope) -> parsed.Component:
    return expect_present(scope.component, "a component that was found by its name")


class _Namer:
    """Renames the relations and types of an item.

    With `parameters`, it replaces type parameters by the types they are bound to. A component may
    declare a type with the name of a parameter: the type then has the name given by the instance.
    """

    def __init__(
        self, relations: Mapping[str, str], types: Mapping[str, str], parameters: bool = False
    ) -> None:
        self.parameters = parameters
        self.relations = relations
        self.types = types

    def item(self, item: parsed.Item) -> parsed.Item:
        match item:
            case parsed.Clause():
                return map_children(item, self.part)
            case parsed.RelationDeclaration(names=names, attributes=attributes):
                columns = self.columns(attributes)
                return replace(item, names=self.named(names, self.relations), attributes=columns)
            case parsed.TypeDeclaration(name=name, parents=parents):
                (own,) = self.named((name,), self.types)
                if self.parameters and own.text in {
                    parent.text for parent in self.named(parents, self.types)
                }:
                    own = name  # it would be its own parent
                branches = tuple(map(self.branch, item.branches))
                return replace(item, name=own, parents=self.named(parents, self.types), branches=branches)
            case parsed.FunctorDeclaration(parameters=parameters, result=result):
                (result,) = self.named((result,), self.types)
                return replace(item, parameters=self.named(parameters, self.types), result=result)
            case parsed.Directive(relations=names):
                return replace(item, relations=self.named(names, self.relations))
            case _:
                return item

    def columns(
        self, attributes: tuple[parsed.AttributeDeclaration, ...]
    ) -> tuple[parsed.AttributeDeclaration, ...]:
        return tuple(
            replace(attribute, type_name=self.types.get(attribute.type_name, attribute.type_name))
            for attribute in attributes
        )

    def branch(self, branch: parsed.BranchDeclaration) -> parsed.BranchDeclaration:
        name = branch.name if self.parameters else self.named((branch.name,), self.types)[0]
        return parsed.BranchDeclaration(name, self.columns(branch.fields))

    @staticmethod
    def named(names: tuple[syntax.Name, ...], new: Mapping[str, str]) -> tuple[syntax.Name, ...]:
        return tuple(replace(name, text=new.get(name.text, name.text)) for name in names)

    def part(self, node: Any) -> Any:
        """A formula or a term under these names."""
        node = map_children(node, self.part)
        match node:
            case syntax.Atom(relation=name) if name in self.relations:
                return replace(node, relation=self.relations[name])
            case syntax.Construct(constructor=name) if name in self.types and not self.parameters:
                return replace(node, function=f"${self.types[name]}")
            case syntax.Call(target=syntax.Name() as target):
                return replace(node, target=self.named((target,), self.types)[0])
            case _:
                return node
