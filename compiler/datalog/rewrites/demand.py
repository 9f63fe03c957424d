"""demand: derive only the rows that some rule needs; the magic-set transformation.

    path(x, y) :- edge(x, y).                path(x, y) :- path#demand(x), edge(x, y).
    path(x, z) :- edge(x, y), path(y, z).    path(x, z) :- path#demand(x), edge(x, y), path(y, z).
    near(y) :- start(x), path(x, y).         path#demand(x) :- start(x).
                                             path#demand(y) :- path#demand(x), edge(x, y).

`path#demand` holds the values of the columns that every use of `path` binds when the atoms of a
body are evaluated one after the other (see `sideways`). It is a relation like any other and changes
with the data. Each relation keeps one form, determined by the columns that all uses bind: the
relation never has more rows than before.

All rows of a relation are derived when it is an output, or an input by directive; when some use
binds no column; when it depends on itself through an aggregate; and when iterations or subsumptions
choose rows from it. Negated atoms and aggregates are uses like all others: the rows with demanded
values are complete. A relation is also derived in full when its demand would make the program
unstratifiable: for example, when a rule negates p and derives rows of which the values are demanded
from p.

Sources: Bancilhon, Maier, Sagiv, Ullman, "Magic sets and other strange ways to implement logic
programs", PODS 1986; Beeri and Ramakrishnan, "On the power of magic", PODS 1987.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.dependencies import dependencies, uses
from dbsp.compiler.datalog.meaning.numbering import numbers_rows
from dbsp.compiler.datalog.meaning.show import show_rule
from dbsp.compiler.datalog.rewrites.plain import by_iterations, is_plain
from dbsp.compiler.datalog.rewrites.sideways import passes
from dbsp.compiler.datalog.rewrites.simple_terms import is_simple
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.dependency_graph import DependencyGraph
from dbsp.data.schema import suggestion
from dbsp.errors import CompileError

Columns = Mapping[str, tuple[int, ...]]


def on_demand(program: checked.CheckedProgram, magic: bool | Collection[str] | None) -> set[str]:
    """Return the relations to derive on demand. Raises CompileError for an unknown name.

    These are the relations declared `magic` and the named ones. True and "*" select all relations
    except those declared `no_magic`.
    """
    names = set() if magic is None or isinstance(magic, bool) else set(magic)
    every = magic is True or "*" in names
    for name in names - {"*"}:
        if name not in program.relations:
            hint = suggestion(name, program.relations)
            raise CompileError(f"unknown relation '{name}' in 'magic'{hint}", code="unknown-relation")
    return {
        name
        for name, relation in program.relations.items()
        if name in names or relation.magic or (every and relation.magic is None)
    }


def demand(
    program: checked.CheckedProgram, relations: Collection[str], changes: list[str]
) -> checked.CheckedProgram:
    """Derive on demand those of the relations for which this is possible."""
    why = derived_in_full(program)
    wanted = {rule.head.relation for rule in program.rules if rule.head.relation in relations} - why.keys()
    while True:
        columns = bound_columns(program, wanted, why)
        rules = guarded(program, columns)
        rewritten = replace(program, rules=rules, relations=_with_demands(program, columns))
        unstratified = _unstratified(rules, columns)
        if not unstratified:
            break
        why.update(
            dict.fromkeys(
                unstratified, "the rows to derive would depend on missing rows of the same relation"
            )
        )
        wanted -= unstratified
    for name in sorted(relations):
        if name in columns:
            attributes = program.relations[name].attributes
            column_names = ", ".join(attributes[column].name for column in columns[name])
            changes.append(f"{name}: only rows whose {column_names} is needed are derived")
            changes.extend(
                f"  {show_rule(rule)} (rule {rule.number} at {rule.span})"
                for rule in rules
                if rule.head.relation == demand_name(name)
            )
        elif name in why and any(rule.head.relation == name for rule in program.rules):
            changes.append(f"{name} is derived in full: {why[name]}")
    return rewritten if columns else program


def demand_name(name: str) -> str:
    return f"{name}#demand"  # no name in a source has a `#`


def derived_in_full(program: checked.CheckedProgram) -> dict[str, str]:
    """Return the relations of which all rows are needed, each with the reason."""
    why: dict[str, str] = {}
    for name in (*program.outputs, *program.sizes):
        why[name] = "it is an output"
    for name, relation in program.relations.items():
        if not is_plain(relation):
            why.setdefault(name, "it is an input or has a qualifier")
    for rule in program.rules:
        if numbers_rows(rule):
            why.setdefault(rule.head.relation, f"rule {rule.number} at {rule.span} numbers its rows")
    fixed = by_iterations(program)
    for name in fixed:
        why.setdefault(name, "its rows depend on the order of the iterations")
    for rule in program.clauses:
        if rule.head.relation in fixed or rule.dominating is not None:
            # The relation must be complete before these iterations start.
            for atom in uses(rule):
                why.setdefault(atom.relation, f"rule {rule.number} at {rule.span} needs all of it")
    return why


def bound_columns(program: checked.CheckedProgram, wanted: Collection[str], why: dict[str, str]) -> Columns:
    """Return the columns of each relation that all uses bind, for relations that have such columns.

    Every use removes the columns that it does not bind. Then the rules that use the relation are
    examined again, until nothing changes. Rules are examined before the rules of the relations that
    they use: these then know which columns of their heads are bound.
    """
    columns = {name: tuple(range(program.relations[name].arity)) for name in wanted}
    for rule in program.rules:
        if rule.head.relation in columns:
            # Do not compute an expensive column only to restrict the relation by it.
            easy = (c for c in columns[rule.head.relation] if is_simple(rule.head.arguments[c]))
            columns[rule.head.relation] = tuple(easy)
    columns = {name: every for name, every in columns.items() if every}
    touching: dict[str, list[checked.Rule]] = {}
    for rule in program.rules:
        for name in {rule.head.relation, *(atom.relation for atom in uses(rule))}:
            touching.setdefault(name, []).append(rule)
    graph = DependencyGraph(
        (atom.relation, rule.head.relation) for rule in program.rules for atom in uses(rule)
    )
    place = {name: at for at, names in enumerate(graph.components()) for name in names}
    in_order = sorted(program.rules, key=lambda rule: place.get(rule.head.relation, 0))
    waiting = {rule.number: rule for rule in in_order}
    while waiting:
        rule = waiting.pop(next(iter(waiting)))
        for use in list(passes(rule, _guard(rule, columns), columns)):
            name = use.atom.relation
            bound = tuple(column for column in columns.get(name, ()) if column in use.columns)
            if bound == columns.get(name, ()):
                continue
            columns[name] = bound
            if not bound:
                del columns[name]
                why.setdefault(name, f"rule {rule.number} at {rule.span} binds none of its columns")
            waiting.update((other.number, other) for other in touching[name])
    return columns


def _guard(rule: checked.Rule, columns: Columns) -> syntax.Atom | None:
    """Return the atom that restricts a rule to the needed rows."""
    name = rule.head.relation
    if name not in columns:
        return None
    arguments = tuple(rule.head.arguments[column] for column in columns[name])
    return syntax.Atom(demand_name(name), arguments, rule.head.span, rule.head.name_span)


def _keeps_values(rule: checked.Rule, bound: Sequence[int]) -> bool:
    """Whether a row of the same relation already has the values that the rule must restrict.

    By induction on the derivation, the values of each derived row are then needed.
    """
    return any(
        isinstance(literal, syntax.Atom)
        and literal.relation == rule.head.relation
        and all(literal.arguments[column] == rule.head.arguments[column] for column in bound)
        for literal in rule.body
    )


def guarded(program: checked.CheckedProgram, columns: Columns) -> tuple[checked.Rule, ...]:
    """Return the rules with their guards, followed by the rules of the demands."""
    rules = []
    for rule in program.rules:
        name, guard = rule.head.relation, _guard(rule, columns)
        if guard is not None:
            order = None if rule.order is None else (0, *(place + 1 for place in rule.order))
            # The rows of an input are those of its changes too.
            if name in program.filled or not _keeps_values(rule, columns[name]):
                rule = replace(rule, body=(guard, *rule.body), order=order)
        rules.append(rule)
    number = max((rule.number for rule in program.clauses), default=0)
    found: dict[tuple[syntax.Atom, frozenset[syntax.Literal]], checked.Rule] = {}
    for rule in _demanding(program, columns):
        key = (rule.head, frozenset(rule.body))
        if key not in found and rule.head not in rule.body:
            number += 1
            found[key] = replace(rule, number=number)
    return (*rules, *found.values())


def _demanding(program: checked.CheckedProgram, columns: Columns) -> Iterator[checked.Rule]:
    """Yield the demand rules that follow from each rule."""
    for rule in program.rules:
        for use in passes(rule, _guard(rule, columns), columns):
            arguments = tuple(use.atom.arguments[column] for column in columns[use.atom.relation])
            head = syntax.Atom(demand_name(use.atom.relation), arguments, use.atom.span, use.atom.name_span)
            yield checked.Rule(0, head, use.before, rule.span)


def _with_demands(program: checked.CheckedProgram, columns: Columns) -> dict[str, checked.Relation]:
    relations = dict(program.relations)
    for name, bound in columns.items():
        relation = program.relations[name]
        attributes = tuple(relation.attributes[column] for column in bound)
        relations[demand_name(name)] = checked.Relation(demand_name(name), attributes, relation.span)
    return relations


def _unstratified(rules: tuple[checked.Rule, ...], columns: Columns) -> set[str]:
    """Return relations on demand in a cycle through a negation or an aggregate.

    These are the relations that are negated or aggregated over, if any is on demand: the others of
    the cycle may then stay on demand.
    """
    found = [use for rule in rules for use in dependencies(rule)]
    graph = DependencyGraph((use.used, use.user) for use in found)
    component: dict[str, int] = {}
    for number, names in enumerate(graph.components()):
        component.update(dict.fromkeys(names, number))
    bad = [use for use in found if use.how and component[use.used] == component[use.user]]
    cycles = {component[use.used] for use in bad}
    in_cycle = {name for name in columns if {component.get(name), component.get(demand_name(name))} & cycles}
    return in_cycle & {use.used for use in bad} or in_cycle
