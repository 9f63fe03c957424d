"""Check the `.override` directives of components, whether or not they are instantiated."""

from __future__ import annotations

from collections.abc import Iterable

from dbsp.compiler.datalog.text import parsed
from dbsp.compiler.datalog.text.report import Report
from dbsp.diagnostics import did_you_mean


def check_overrides(items: Iterable[parsed.Item], report: Report) -> None:
    """Report overridden relations that no base component declares, or not as overridable.

    A base that is a type parameter may be any component: as in Soufflé, its relations are not
    checked.
    """
    _OverrideCheck(report).components(items, {}, frozenset())


class _OverrideCheck:
    def __init__(self, report: Report) -> None:
        self.report = report

    def components(
        self,
        items: Iterable[parsed.Item],
        outer: dict[str, parsed.Component],
        parameters: frozenset[str],
    ) -> None:
        own = {item.head.name.text: item for item in items if isinstance(item, parsed.Component)}
        known = outer | own
        for component in own.values():
            hidden = parameters | {name.text for name in component.head.parameters}
            self.component(component, known, hidden)
            inherited = self.inherited(component, known, hidden, {})
            inside = {
                item.head.name.text: item
                for base in inherited
                for item in base.items
                if isinstance(item, parsed.Component)
            }
            self.components(component.items, known | inside, hidden)

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

    def component(
        self,
        component: parsed.Component,
        known: dict[str, parsed.Component],
        parameters: frozenset[str],
    ) -> None:
        bases = self.inherited(component, known, parameters, {})
        own = _relations([component])
        inherited = _relations(bases)
        open_ = any(
            base.name.text not in known or base.name.text in parameters
            for derived in (component, *bases)
            for base in derived.bases
        )
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


def _relations(components: Iterable[parsed.Component]) -> dict[str, parsed.RelationDeclaration]:
    return {
        name.text: item
        for component in components
        for item in component.items
        if isinstance(item, parsed.RelationDeclaration)
        for name in item.names
    }
