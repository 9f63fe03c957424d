"""Well-founded negation: relations that depend on their own negation, in versions by truth value.

    win(x) :- move(x, y), !win(y).     is     win(x) :- move(x, y), !win.possible(y).
                                              win.possible(x) :- move(x, y), !win(y).
                                              win.undefined(x) :- win.possible(x), !win(x).

In the well-founded model of a program, a row is true, false or undefined. A negation holds for
certain if its row is not even possible, and it holds possibly if its row is not true. So a relation
that may have undefined rows becomes two relations, its true rows and its possible rows, and each
negates the other one. The model is the alternating fixpoint of both: the true rows grow from
nothing, the possible rows shrink from all rows that the rules derive if nothing is true (see
`checked.Stratum` and `circuits.alternating_lowering`).

Two kinds of relations may have undefined rows: those that depend on their own negation, and those
that depend on such a relation. For each output among them, `name.undefined` is another output.

An aggregate has no value over rows that may be undefined, and neither has `autoinc()`, a choice, a
subsumption or a limit, which depend on the presence and absence of rows. Such programs are refused.

Sources: Van Gelder, Ross, Schlipf, "The well-founded semantics for general logic programs", JACM
1991; Van Gelder, "The alternating fixpoint of logic programs with negation", JCSS 1993.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from dbsp.compiler.datalog.meaning.checked import Relation, Rule, TruthValue, Version
from dbsp.compiler.datalog.meaning.dependencies import Dependency, dependencies, subsumption_dependencies
from dbsp.compiler.datalog.meaning.numbering import is_number
from dbsp.compiler.datalog.text.report import Report
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.dependency_graph import DependencyGraph
from dbsp.compiler.datalog.tree.traversal import map_children, walk

Versioned = tuple[dict[str, Relation], list[Rule]]


def possible_name(name: str) -> str:
    """The name of the relation of the true and the undefined rows of a relation."""
    return f"{name}.{TruthValue.POSSIBLE}"


def undefined_name(name: str) -> str:
    """The name of the relation of the undefined rows of a relation."""
    return f"{name}.{TruthValue.UNDEFINED}"


def with_versions(
    relations: Mapping[str, Relation], rules: Sequence[Rule], subsumptions: Sequence[Rule], report: Report
) -> Versioned:
    """The relations and rules with versions of the relations that may have undefined rows.

    Reports uses of such relations that have no meaning. The rules keep their numbers, and rules of
    other versions get the numbers after them.
    """
    found = [(rule, use) for rule in rules for use in dependencies(rule)]
    uses = [use for _, use in found]
    uses += [use for rule in subsumptions for use in subsumption_dependencies(rule)]
    causes = _causes(uses)
    if not causes:
        return dict(relations), list(rules)
    _check_rules(found, causes, report)
    _check_relations(relations, rules, causes, report)
    return _versions(relations, rules, causes.keys())


def _causes(uses: Sequence[Dependency]) -> dict[str, Dependency]:
    """The relations that may have undefined rows, each with a negation in a cycle as the cause."""
    graph = DependencyGraph((use.used, use.user) for use in uses)
    component = {name: number for number, names in enumerate(graph.components()) for name in names}
    cyclic = {
        component[use.used]: use
        for use in reversed(uses)
        if use.how == "negates" and component[use.used] == component[use.user]
    }
    causes = {name: cyclic[number] for name, number in component.items() if number in cyclic}
    users: dict[str, list[str]] = {}
    for use in uses:
        users.setdefault(use.used, []).append(use.user)
    waiting = list(causes)
    for name in waiting:
        for user in users.get(name, ()):
            if user not in causes:
                causes[user] = causes[name]
                waiting.append(user)
    return causes


# --- what has no meaning --------------------------------------------------------------------------


def _because(cause: Dependency) -> str:
    subject = "itself" if cause.used == cause.user else f"'{cause.used}', which depends on '{cause.user}'"
    return f"a row may be undefined because '{cause.user}' negates {subject} (line {cause.span.line})"


def _check_rules(
    found: Iterable[tuple[Rule, Dependency]], causes: Mapping[str, Dependency], report: Report
) -> None:
    """Report aggregates over rows that may be undefined, and numbers of such rows."""
    for rule, use in found:
        if use.how == "aggregates over" and use.used in causes:
            message = f"'{rule.head.relation}' aggregates over '{use.used}', which may have undefined rows"
            hint = f"an aggregate needs rows that are true or false; {_because(causes[use.used])}"
            report.error(use.span, message, hint, code="undefined-rows")
    for rule in dict.fromkeys(rule for rule, use in found if use.used in causes):
        for node in filter(is_number, walk(rule)):
            message = f"autoinc() cannot number the rows of '{rule.head.relation}', which may be undefined"
            report.error(node.span, message, _because(causes[rule.head.relation]), code="undefined-rows")


def _check_relations(
    relations: Mapping[str, Relation],
    rules: Iterable[Rule],
    causes: Mapping[str, Dependency],
    report: Report,
) -> None:
    """Report relations with properties that undefined rows cannot have, and names that clash."""
    for name, cause in causes.items():
        relation = relations[name]
        properties = (
            ("a choice-domain", relation.choices),
            ("subsumptions", relation.subsumed),
            ("a limit of rows", relation.limit is not None),
        )
        for noun, present in properties:
            if present:
                message = f"'{name}' may have undefined rows, so it cannot have {noun}"
                report.error(relation.span, message, _because(cause), code="undefined-rows")
        for other in (possible_name(name), undefined_name(name)):
            if other in relations:
                message = f"'{name}' may have undefined rows, so the name '{other}' is taken"
                hint = f"rename one of them; the other one is declared at {relations[other].span.place}"
                report.error(relation.span, message, hint, code="duplicate-definition")


# --- versions -------------------------------------------------------------------------------------


def _versions(relations: Mapping[str, Relation], rules: Sequence[Rule], names: Iterable[str]) -> Versioned:
    names = frozenset(names)
    found: dict[str, Relation] = {}
    changed = [_with_literals(rule, names, TruthValue.TRUE) for rule in rules]
    added = [
        _with_literals(rule, names, TruthValue.POSSIBLE) for rule in rules if rule.head.relation in names
    ]
    for name, relation in relations.items():
        if name not in names:
            found[name] = relation
            continue
        found[name] = replace(relation, version=Version(name, TruthValue.TRUE))
        possible = replace(
            relation,
            name=possible_name(name),
            inputs=(),
            outputs=(),
            sizes=(),
            version=Version(name, TruthValue.POSSIBLE),
        )
        found[possible.name] = possible
        if relation.outputs or relation.sizes:
            undefined = replace(
                possible,
                name=undefined_name(name),
                outputs=tuple(map(_undefined_output, relation.outputs)),
                sizes=relation.sizes,
                equivalence=False,
                version=Version(name, TruthValue.UNDEFINED),
            )
            found[undefined.name] = undefined
            added.append(_undefined_rows(found[name], possible, undefined))
    return found, changed + [replace(rule, number=n) for n, rule in enumerate(added, len(rules) + 1)]


def _with_literals(rule: Rule, names: frozenset[str], truth: TruthValue) -> Rule:
    """The rule for the rows with this truth value.

    Negations read the other version, since `!p` is true if p is not possible.
    """
    possible = truth is TruthValue.POSSIBLE

    def changed(node: Any, negated: bool = False) -> Any:
        if isinstance(node, syntax.Negation):
            return replace(node, atom=changed(node.atom, True))
        if isinstance(node, syntax.Atom) and node.relation in names and possible != negated:
            return replace(node, relation=possible_name(node.relation))
        return node

    return map_children(rule, changed)


def _undefined_rows(true: Relation, possible: Relation, undefined: Relation) -> Rule:
    """The rule for the rows that are possible and not true."""
    span = true.span
    arguments = tuple(syntax.Variable(column.name, span, column.kind) for column in true.attributes)
    head, upper, lower = (
        syntax.Atom(relation.name, arguments, span, span) for relation in (undefined, possible, true)
    )
    return Rule(0, head, (upper, syntax.Negation(lower, span)), span)


def _undefined_output(parameters: Mapping[str, str]) -> dict[str, str]:
    """The parameters of the output of the undefined rows: another file, or table of a database."""
    found = dict(parameters)
    if "name" in found:
        found["name"] = undefined_name(found["name"])
    if "filename" in found and found.get("IO") != "sqlite":
        file = PurePath(found["filename"])
        ending = "".join(file.suffixes[-2:] if file.suffix == ".gz" else file.suffixes[-1:])
        stem = file.name.removesuffix(ending)
        found["filename"] = str(file.with_name(f"{undefined_name(stem)}{ending}"))
    return found
