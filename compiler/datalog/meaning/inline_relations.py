"""Relations declared `inline`: the bodies of their rules replace their uses.

    .decl near(x: number, y: number) inline
    near(x, y) :- edge(x, y), x < y.
    near(x, x) :- node(x).

    p(a) :- q(a, b), near(a, b).     is     p(a) :- q(a, b), (edge(a, b), a < b; a = b, node(a)).

Variables of a rule that are not in its head get new names. Under a negation the rule would have to
fail for all of their values, which a negated formula cannot express: as in Soufflé, such a rule is
an error there. So is an inline relation in an aggregate (which would count the derivations of a
row, not the rows), one that depends on itself through inline relations only, and one with
directives.

The rules of an inline relation need not bind all variables; the rules that use the relation must.

The columns of an inline relation disappear before types are inferred. So its arguments, in heads
and in uses, get the kinds of their columns here: `nil` has no other type.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import count
from typing import Any

from dbsp.compiler.datalog.meaning.checked import Relation
from dbsp.compiler.datalog.text import parsed
from dbsp.compiler.datalog.text.report import Report
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.dependency_graph import DependencyGraph
from dbsp.compiler.datalog.tree.kinds import AnyKind
from dbsp.compiler.datalog.tree.traversal import find, map_children

MAX_COPIES = 10_000


class Inlining:
    """The rules of the inline relations of a program."""

    def __init__(self, relations: Iterable[Relation], report: Report) -> None:
        self.kinds = {one.name: tuple(column.kind for column in one.attributes) for one in relations}
        self.names = frozenset(self.kinds)
        self.report = report
        self.rules: dict[str, list[tuple[syntax.Atom, syntax.Formula | None]]] = {n: [] for n in self.names}
        self.broken: set[str] = set()
        self.numbers = count(1)

    def add(self, clause: parsed.Clause) -> None:
        """Record a clause with inline heads."""
        for head in clause.heads:
            if head.relation in self.names:
                self.rules[head.relation].append((head, clause.body))

    def without(self, clause: parsed.Clause) -> parsed.Clause | None:
        """The clause with its heads that are not inline, if there are any."""
        heads = tuple(head for head in clause.heads if head.relation not in self.names)
        return replace(clause, heads=heads) if heads else None

    def check(self) -> None:
        """Report recursive inline relations; they count as broken from then on."""
        uses: DependencyGraph[str] = DependencyGraph()
        places: dict[tuple[str, str], syntax.Atom] = {}
        for name in sorted(self.names):
            for _, body in self.rules[name]:
                for atom in _atoms(body):
                    if atom.relation in self.names:
                        uses.add_edge(name, atom.relation)
                        places.setdefault((name, atom.relation), atom)
        for component in uses.components():
            edges = sorted(edge for edge in places if edge[0] in component and edge[1] in component)
            if not edges:
                continue
            self.broken |= component
            first = places[min(edges, key=lambda edge: places[edge].name_span)]
            others = ", ".join(f"'{name}'" for name in sorted(component - {first.relation}))
            self.report.error(
                first.name_span,
                f"inline relation '{first.relation}' is recursive" + (f" through {others}" if others else ""),
                "recursion needs a relation that is not inline",
                code="invalid-inline",
            )

    def uses(self, clause: parsed.Clause) -> frozenset[str]:
        """The inline relations that a clause uses, also through the rules of inline relations."""
        found: set[str] = set()
        left: list[syntax.Node | None] = [clause.body]
        left += [term for head in clause.heads for term in find(head, syntax.Aggregate)]
        while left:
            for atom in _atoms(left.pop()):
                if atom.relation in self.names and atom.relation not in found:
                    found.add(atom.relation)
                    left += [body for _, body in self.rules[atom.relation]]
        return frozenset(found)

    def apply(self, clause: parsed.Clause) -> parsed.Clause | None:
        """The clause without inline relations; None after an error."""
        errors = self.report.error_count
        copier = _Copier(self, clause)
        heads = tuple(map_children(head, copier.part) for head in clause.heads)
        body = None if clause.body is None else copier.part(clause.body)
        return None if self.report.error_count > errors else replace(clause, heads=heads, body=body)


def _atoms(formula: syntax.Node | None) -> Iterator[syntax.Atom]:
    return iter(()) if formula is None else find(formula, syntax.Atom)


class _Copier:
    """Inserts the rules of inline relations into one clause."""

    def __init__(self, inlining: Inlining, clause: parsed.Clause) -> None:
        self.inlining = inlining
        self.report = inlining.report
        self.clause = clause
        self.positive = True
        self.copies = 0

    def part(self, node: Any) -> Any:
        """A formula or a term in which rules replace the atoms of inline relations."""
        match node:
            case syntax.Not():
                self.positive = not self.positive
                inside = map_children(node, self.part)
                self.positive = not self.positive
                return inside
            case syntax.Atom(relation=name) if name in self.inlining.names:
                return self.copied(map_children(node, self.part))
            case syntax.Aggregate():
                self.report_inlined(node)
                return node
            case _:
                return map_children(node, self.part)

    def report_inlined(self, aggregate: syntax.Aggregate) -> None:
        for atom in find(aggregate, syntax.Atom):
            if atom.relation in self.inlining.names:
                message = f"inline relation '{atom.relation}' cannot be used in an aggregate"
                hint = "aggregate over a relation that is not inline"
                self.report.error(atom.name_span, message, hint, code="invalid-inline")

    def copied(self, atom: syntax.Atom) -> syntax.Formula:
        """The disjunction of the rules of an inline relation for these arguments."""
        rules = self.inlining.rules[atom.relation]
        atom = replace(atom, arguments=tuple(map(self.without_wildcards, atom.arguments)))
        self.copies += len(rules)
        if self.copies > MAX_COPIES:
            message = f"more than {MAX_COPIES:,} rules of inline relations are inserted into this rule"
            self.report.error(self.clause.span, message, code="program-too-large")
            return atom
        parts = tuple(self.copy(atom, head, body) for head, body in rules)
        return syntax.Disjunction(parts, atom.span) if parts else syntax.Truth(False, atom.span)

    def without_wildcards(self, term: syntax.Term) -> syntax.Term:
        """A record or branch with variables for its wildcards: copies must share their values."""
        if not isinstance(term, syntax.Construct):
            return term
        return replace(
            term,
            arguments=tuple(
                syntax.Variable(f"_#w{next(self.inlining.numbers)}", part.span)
                if isinstance(part, syntax.Wildcard)
                else self.without_wildcards(part)
                for part in term.arguments
            ),
        )

    def copy(self, atom: syntax.Atom, head: syntax.Atom, body: syntax.Formula | None) -> syntax.Formula:
        number = next(self.inlining.numbers)
        names: dict[str, syntax.Term] = {}
        equal: list[tuple[syntax.Term, syntax.Term]] = []
        without_aggregate = body is None or not any(find(body, syntax.Aggregate))
        columns = self.inlining.kinds[atom.relation]
        kinds: dict[str, AnyKind] = {}
        for formal, given, kind in zip(head.arguments, atom.arguments, columns, strict=True):
            if isinstance(formal, syntax.Variable):
                kinds[formal.name] = kind
            if isinstance(given, syntax.Wildcard):
                continue  # a variable there gets a new name like all others; a term has no condition
            formal, given = _of_kind(formal, kind), _of_kind(given, kind)
            simple = isinstance(given, syntax.Variable) or without_aggregate
            if isinstance(formal, syntax.Variable) and formal.name not in names and simple:
                names[formal.name] = given
            else:
                equal.append((formal, given))
        renamer = _Renamer(names, kinds, number)
        parts: list[syntax.Formula] = [
            syntax.Comparison("=", renamer.part(formal), given, atom.span) for formal, given in equal
        ]
        if body is not None:
            parts.append(self.part(renamer.part(body)))
        if not self.positive and (renamer.fresh or not without_aggregate):
            name = min(renamer.fresh, default=None)
            reason = "an aggregate" if name is None else f"'{name}', which has no value in the negated atom"
            self.report.error(
                atom.span,
                f"inline relation '{atom.relation}' cannot be negated here: its rule contains {reason}",
                f"the rule is at {head.span.place}; negate a relation that is not inline",
                code="invalid-inline",
            )
        return syntax.Conjunction(tuple(parts), atom.span)


def _of_kind(term: syntax.Term, kind: AnyKind) -> syntax.Term:
    """The term with the kind of its column; a constant has the kind of its form."""
    return term if isinstance(term, syntax.Constant) else replace(term, kind=kind)


class _Renamer:
    """Replaces the variables of a rule's head by terms, and gives all others new names.

    `kinds` has the kinds of the columns whose argument in the head is a variable.
    """

    def __init__(self, names: Mapping[str, syntax.Term], kinds: Mapping[str, AnyKind], number: int) -> None:
        self.names = names
        self.kinds = kinds
        self.number = number
        self.fresh: set[str] = set()

    def part(self, node: Any) -> Any:
        if not isinstance(node, syntax.Variable):
            return map_children(node, self.part)
        if node.name in self.names:
            return self.names[node.name]
        self.fresh.add(node.name.split("#")[0])
        kind = self.kinds.get(node.name, node.kind)
        return replace(node, name=f"{node.name}#i{self.number}", kind=kind)
