"""choose_demand: select the recursive relations to derive on demand.

    hit(y) :- path(1, y).                    Every use of path binds its first column by a constant:
    hit(y) :- path(2, y).                    at most two values are ever demanded.
    path(x, y) :- edge(x, y).
    path(x, z) :- path(x, y), edge(y, z).

A derivation on demand costs more if most values are demanded. Therefore only relations of which all
demanded values are constants of the program are selected without data. If the demanded values come
from inputs, as in `near(y) :- start(x), path(x, y)`, this pass records how to count them, and the
planner decides for the rows of the first tick and of a replanning (see `demanded_keys`).

Relations with rules that can fail are not selected: the error must still occur. Neither are
relations that depend on more than the values of inputs, so the strata stay as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field, replace

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.dependencies import reads_any
from dbsp.compiler.datalog.rewrites.demand import (
    Columns,
    bound_columns,
    demand_name,
    derived_in_full,
    guarded,
)
from dbsp.compiler.datalog.rewrites.plain import recursive_groups
from dbsp.compiler.datalog.rewrites.simple_terms import is_simple
from dbsp.compiler.datalog.tree import syntax
from dbsp.lazy_dataclass import dataclass

Fixed = tuple[tuple[int, syntax.Constant], ...]


@dataclass(frozen=True, slots=True)
class InputColumn:
    """A column of an input, of the rows with these constants."""

    relation: str
    column: int
    fixed: Fixed = ()


@dataclass(frozen=True, slots=True)
class DemandStep:
    """Values in the column `given` demand the values of `found` in the same rows of an input.

    `user` and `used` are the relations of the demanded values. Without columns the values are the
    same.
    """

    user: str
    used: str
    given: InputColumn | None = None
    found: int = 0


@dataclass(frozen=True)
class DemandSearch:
    """How to find the demanded values of relations that depend on each other, from inputs alone."""

    columns: Mapping[str, str]
    """The relations, each with the name of the column whose values are demanded."""
    seeds: tuple[tuple[str, InputColumn], ...]
    constants: tuple[tuple[str, syntax.Constant], ...]
    steps: tuple[DemandStep, ...]
    bases: tuple[tuple[str, InputColumn], ...]
    """For each rule without recursion, the input column with the values of its head."""


@dataclass
class DemandChoice:
    """The selected relations with the reasons, and the searches to decide by counts."""

    selected: dict[str, str] = field(default_factory=dict)
    searches: list[DemandSearch] = field(default_factory=list)


def choose_demand(program: checked.CheckedProgram) -> DemandChoice:
    """Return the relations to derive on demand. O(rules)."""
    choice = DemandChoice()
    full: dict[str, str] | None = None
    groups: dict[int, set[str]] = {}
    for name, number in recursive_groups(program).items():
        groups.setdefault(number, set()).add(name)
    taken = {name for name, relation in program.relations.items() if relation.magic}
    for names in groups.values():
        rules = [rule for rule in program.rules if _mentions(rule, names)]
        # Demands of the same rules depend on each other, and would have to be counted together.
        if any(_mentions(rule, taken) for rule in rules):
            continue
        if full is None:
            full = derived_in_full(program)
        if any(name in full or program.relations[name].magic is not None for name in names) or not all(
            is_simple(part)
            for rule in rules
            if rule.head.relation in names
            for part in (*rule.head.arguments, *rule.body)
        ):
            continue
        touching = replace(program, rules=tuple(rules))
        columns = bound_columns(touching, names, {})
        if columns.keys() != names:
            continue
        demands = [rule for rule in guarded(touching, columns)[len(rules) :] if not _is_copy(rule)]
        if not any(rule.body for rule in demands):
            for name in sorted(names):
                attributes = program.relations[name].attributes
                shown = ", ".join(attributes[column].name for column in columns[name])
                choice.selected[name] = f"all uses bind {shown} by constants"
            taken |= names
        elif (search := _search(program, rules, demands, columns)) is not None:
            choice.searches.append(search)
            taken |= names
    return choice


def _mentions(rule: checked.Rule, names: Collection[str]) -> bool:
    return rule.head.relation in names or reads_any(rule, names)


def _is_copy(rule: checked.Rule) -> bool:
    return rule.head in rule.body


def _search(
    program: checked.CheckedProgram,
    rules: Collection[checked.Rule],
    demands: Collection[checked.Rule],
    columns: Columns,
) -> DemandSearch | None:
    """Return how to find the demanded values; None if they are not simply those of inputs."""
    if any(len(bound) != 1 for bound in columns.values()):
        return None
    derived = {rule.head.relation for rule in program.rules}
    inputs = {name for name in program.inputs if name not in derived and program.relations[name].is_plain}
    relations = {demand_name(name): name for name in columns}
    seeds, constants, steps, bases = [], [], [], []
    for rule in demands:
        name, (value,) = relations[rule.head.relation], rule.head.arguments
        atoms = [literal for literal in rule.body if isinstance(literal, syntax.Atom)]
        given = [atom for atom in atoms if atom.relation in relations]
        others = [atom for atom in atoms if atom.relation not in relations]
        if not given and not others and isinstance(value, syntax.Constant):
            constants.append((name, value))
        elif not given and len(others) == 1:
            found = _column(others[0], value, inputs)
            if found is None:
                return None
            seeds.append((name, found))
        elif len(given) == 1 and len(others) <= 1:
            user, (key,) = relations[given[0].relation], given[0].arguments
            if not others and key == value:
                steps.append(DemandStep(user, name))
                continue
            start = _column(others[0], key, inputs) if others else None
            found = _column(others[0], value, inputs) if others else None
            if start is None or found is None:
                return None
            steps.append(DemandStep(user, name, start, found.column))
        else:
            return None
    for rule in rules:
        name = rule.head.relation
        if name not in columns or reads_any(rule, columns):
            continue
        value = rule.head.arguments[columns[name][0]]
        read = [literal for literal in rule.body if isinstance(literal, syntax.Atom)]
        base = next(filter(None, (_column(atom, value, inputs) for atom in read)), None)
        if base is None:
            return None
        bases.append((name, base))
    # The codes of constants are those of a column of an input.
    if not {name for name, _ in constants} <= {name for name, _ in bases}:
        return None
    shown = {name: program.relations[name].attributes[bound[0]].name for name, bound in columns.items()}
    return DemandSearch(shown, tuple(seeds), tuple(constants), tuple(steps), tuple(bases))


def _column(atom: syntax.Atom, value: syntax.Term, inputs: Collection[str]) -> InputColumn | None:
    """Return the column of an input that binds a variable."""
    if atom.relation not in inputs or not isinstance(value, syntax.Variable) or value not in atom.arguments:
        return None
    fixed = tuple(
        (column, term) for column, term in enumerate(atom.arguments) if isinstance(term, syntax.Constant)
    )
    return InputColumn(atom.relation, atom.arguments.index(value), fixed)
