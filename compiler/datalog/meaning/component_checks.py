"""Check the components of a program, whether or not they are instantiated.

As in Soufflé: a component and an instance have names that no type, relation, component or other
instance of the program has; bases and instances name components that exist, with the right number
of parameters; no component inherits from itself; `.override` names an overridable relation of a
base.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dbsp.compiler.datalog.text import parsed
from dbsp.compiler.datalog.text.report import Report
from dbsp.compiler.datalog.tree import syntax
from dbsp.diagnostics import did_you_mean
from dbsp.errors import counted


def check_components(items: Sequence[parsed.Item], report: Report) -> None:
    """Report what is wrong with the components among these items of a program.

    A base or an instance that is a type parameter may be any component: as in Soufflé, neither its
    relations nor its parameters are checked.
    """
    _check_names(items, report, in_program=True)
    _ComponentCheck(report).components(items, {}, frozenset(), open_=False)


def check_parameters(use: parsed.ComponentType, component: parsed.Component, report: Report) -> bool:
    """Whether a component gets as many parameters as it declares; reports it otherwise."""
    formal, given = len(component.head.parameters), len(use.parameters)
    if formal == given:
        return True
    name = component.head.name.text
    message = f"component '{name}' has {counted(formal, 'type parameter')}, but {given}"
    message += f" {'is' if given == 1 else 'are'} given"
    report.error(use.span, message, f"declared at {component.span.place}", code="wrong-arity")
    return False


def unknown_component(use: parsed.ComponentType, name: str, known: Iterable[str], report: Report) -> None:
    """Report a component that is not declared."""
    hint = did_you_mean(name, known)
    report.error(use.name.span, f"undefined component '{name}'", hint, code="unknown-component")


# --- names ----------------------------------------------------------------------------------------

Declared = Mapping[str, tuple[str, syntax.Name]]


def _other_names(items: Iterable[parsed.Item]) -> Declared:
    """The types and relations of a program: by name, the noun, and the name as declared."""
    found: dict[str, tuple[str, syntax.Name]] = {}
    for item in items:
        if isinstance(item, parsed.TypeDeclaration):
            found.setdefault(item.name.text, ("type", item.name))
        elif isinstance(item, parsed.RelationDeclaration):
            for name in item.names:
                found.setdefault(name.text, ("relation", name))
    return found


def _check_names(items: Sequence[parsed.Item], report: Report, in_program: bool) -> None:
    """Report two components or two instances of one name, also within components.

    Only in the program itself, as in Soufflé: a name of a component or an instance that anything
    else has.
    """
    others = _other_names(items) if in_program else {}
    components: dict[str, tuple[str, syntax.Name]] = {}
    instances: dict[str, tuple[str, syntax.Name]] = {}
    for item in items:
        if isinstance(item, parsed.Component):
            _check_unique("component", item.head.name, components, others, report)
            _check_names(item.items, report, in_program=False)
    for item in items:
        if isinstance(item, parsed.Instance):
            clashes = {**components, **others} if in_program else {}
            _check_unique("instance", item.name, instances, clashes, report)


def _check_unique(
    noun: str,
    name: syntax.Name,
    seen: dict[str, tuple[str, syntax.Name]],
    others: Declared,
    report: Report,
) -> None:
    first = seen.setdefault(name.text, (noun, name))[1]
    if first is not name:
        message = f"{noun} '{name.text}' is declared twice"
        report.error(name.span, message, f"first declared at {first.span.place}", code="duplicate-definition")
    elif name.text in others:
        other, place = others[name.text]
        message = f"{noun} '{name.text}' has the name of a {other}"
        hint = f"rename one of them; the {other} is declared at {place.span.place}"
        report.error(name.span, message, hint, code="duplicate-definition")


# --- bases, instances and overrides ---------------------------------------------------------------


class _ComponentCheck:
    def __init__(self, report: Report) -> None:
        self.report = report
        self.cyclic: set[int] = set()
        """The `id` of the components in a reported cycle."""

    def components(
        self,
        items: Iterable[parsed.Item],
        outer: dict[str, parsed.Component],
        parameters: frozenset[str],
        open_: bool,
    ) -> None:
        """Check the components and instances among `items`.

        `outer` are the components declared around them. `open_`: a base around them may be any
        component, so that a name that is not declared may be one of its components.
        """
        own: dict[str, parsed.Component] = {}
        for item in items:
            if isinstance(item, parsed.Component):
                own.setdefault(item.head.name.text, item)
        known = outer | own
        for item in items:
            if isinstance(item, parsed.Instance):
                self.reference(item.component, known, parameters, open_)
        for component in own.values():
            hidden = parameters | {name.text for name in component.head.parameters}
            inherited = self.inherited(component, known, hidden, {})
            unknown = open_ or _has_open_base([component, *inherited], known, hidden)
            for base in component.bases:
                self.reference(base, known, hidden, open_)
            self.cycle(component, known, hidden)
            self.overrides(component, known, hidden)
            inside = {
                item.head.name.text: item
                for base in inherited
                for item in base.items
                if isinstance(item, parsed.Component)
            }
            self.components(component.items, known | inside, hidden, unknown)

    def reference(
        self,
        use: parsed.ComponentType,
        known: dict[str, parsed.Component],
        parameters: frozenset[str],
        open_: bool,
    ) -> None:
        """Check that a component exists and gets its parameters."""
        name = use.name.text
        if name in parameters:
            return
        if name in known:
            check_parameters(use, known[name], self.report)
        elif not open_:
            unknown_component(use, name, known, self.report)

    def cycle(
        self,
        component: parsed.Component,
        known: dict[str, parsed.Component],
        parameters: frozenset[str],
    ) -> None:
        """Report a component that inherits from itself, once for each cycle."""
        path = self.path_to(component, component, known, parameters, set())
        if path and self.cyclic.isdisjoint(map(id, path)):
            names = [component.head.name.text, *(base.head.name.text for base in path)]
            hint = f"remove one of these bases: {' : '.join(names)}"
            message = f"component '{names[0]}' inherits from itself"
            self.report.error(component.head.name.span, message, hint, code="recursive-component")
        self.cyclic.update(map(id, path))

    def path_to(
        self,
        target: parsed.Component,
        component: parsed.Component,
        known: dict[str, parsed.Component],
        parameters: frozenset[str],
        seen: set[int],
    ) -> list[parsed.Component]:
        """The bases from a component to `target`, which is the last; empty without one."""
        for base in component.bases:
            other = known.get(base.name.text)
            if other is None or base.name.text in parameters or id(other) in seen:
                continue
            if other is target:
                return [other]
            seen.add(id(other))
            own = frozenset(name.text for name in other.head.parameters)
            found = self.path_to(target, other, known, own, seen)
            if found:
                return [other, *found]
        return []

    def inherited(
        self,
        component: parsed.Component,
        known: dict[str, parsed.Component],
        parameters: frozenset[str],
        found: dict[int, parsed.Component],
    ) -> list[parsed.Component]:
        """The known direct and indirect bases of a component."""
        for base in component.bases:
            other = known.get(base.name.text)
            if base.name.text not in parameters and other is not None and id(other) not in found:
                found[id(other)] = other
                self.inherited(other, known, frozenset(name.text for name in other.head.parameters), found)
        return list(found.values())

    def overrides(
        self,
        component: parsed.Component,
        known: dict[str, parsed.Component],
        parameters: frozenset[str],
    ) -> None:
        bases = self.inherited(component, known, parameters, {})
        own = _relations([component])
        inherited = _relations(bases)
        open_ = _has_open_base([component, *bases], known, parameters)
        for name in (
            name for item in component.items if isinstance(item, parsed.Override) for name in item.names
        ):
            if name.text in own:
                message = f"relation '{name.text}' is declared in this component itself"
                hint = "remove '.override', which is for relations of base components"
                self.report.error(name.span, message, hint, code="invalid-override")
            elif name.text in inherited:
                declaration = inherited[name.text]
                if all(qualifier.text != "overridable" for qualifier in declaration.qualifiers):
                    hint = f"at {declaration.span.place}, write .decl {name.text}(...) overridable"
                    message = f"relation '{name.text}' is not overridable"
                    self.report.error(name.span, message, hint, code="invalid-override")
            elif not open_:
                self.report.error(
                    name.span,
                    f"no base component of '{component.head.name.text}' has a relation '{name.text}'",
                    did_you_mean(name.text, inherited),
                    code="unknown-relation",
                )


def _has_open_base(
    components: Iterable[parsed.Component], known: Mapping[str, parsed.Component], parameters: frozenset[str]
) -> bool:
    """Whether a base of these components may be any component, or does not exist."""
    return any(
        base.name.text not in known or base.name.text in parameters
        for derived in components
        for base in derived.bases
    )


def _relations(components: Iterable[parsed.Component]) -> dict[str, parsed.RelationDeclaration]:
    return {
        name.text: item
        for component in components
        for item in component.items
        if isinstance(item, parsed.RelationDeclaration)
        for name in item.names
    }
