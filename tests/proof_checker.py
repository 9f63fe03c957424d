"""Check proofs against the stored rows with the rules of the program.

The checker shares only the checked program with the proof search: the reference evaluator applies
the rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.why.opaque_relations import selected_relations
from dbsp.compiler.why.proof import Proof, ProofStep

from .reference_datalog.bodies import choices, settled
from .reference_datalog.evaluation import uses, with_head
from .reference_datalog.matching import match_row, without_ranges
from .reference_datalog.values import Bindings, EmptyError, NoValueError, Relations, Row


def heights(
    program: checked.CheckedProgram, inputs: Mapping[str, set[Row]], complete: Relations
) -> dict[str, dict[Row, int]]:
    """Return the round in which each row is first derived, 0 for inputs; a round applies all rules.

    Negations and aggregates read the `complete` relations. Rows that are not `complete` are removed
    rows. An equivalence takes a round to follow from its pairs. Rows without a height are derived
    from removed rows only.
    """
    selected = selected_relations(program)
    found = {
        name: {row: 0 for row in inputs.get(name, ()) if row in complete[name]} for name in program.relations
    }
    pairs = {name: set(found[name]) for name in program.relations if program.relations[name].equivalence}
    height = 0
    while True:
        height += 1
        so_far = {name: set(rows) for name, rows in found.items()}
        followed = {(name, row) for name in pairs for row in closure(pairs[name])}
        new = {
            (rule.head.relation, row)
            for rule in program.rules
            for row in derived(rule, so_far, complete)
            if row in complete[rule.head.relation] or rule.head.relation not in selected
        }
        for name in pairs:
            pairs[name] |= {row for relation, row in new if relation == name}
        new = {(name, row) for name, row in new | followed if row not in found[name]}
        if not new:
            return found
        for name, row in new:
            found[name][row] = height


def closure(pairs: set[Row]) -> set[Row]:
    """Return the least equivalence that contains the pairs."""
    rows = {(value, value) for pair in pairs for value in pair} | pairs | {(y, x) for x, y in pairs}
    while True:
        more = {(x, z) for x, y in rows for other, z in rows if y == other} - rows
        if not more:
            return rows
        rows |= more


def derived(rule: checked.Rule, so_far: Relations, complete: Relations) -> Iterator[Row]:
    """Yield the rows that a rule derives if its atoms read `so_far` and the rest `complete`."""
    for found, conditions in choices(atoms_of(rule), {}, so_far):
        yield from head_rows(rule, found, conditions, complete)


def atoms_of(rule: checked.Rule) -> list[syntax.Atom]:
    """Return the atoms of a rule for matching with rows: a variable replaces each range."""
    body, _ = without_ranges(rule.body)
    return [literal for literal in body if isinstance(literal, syntax.Atom)]


def head_rows(rule: checked.Rule, found: Bindings, conditions: list, complete: Relations) -> list[Row]:
    """Return the head rows for a choice of body rows: none if another literal does not hold."""
    head, literals = with_head(rule)
    body, ranges = without_ranges(literals)
    others = [literal for literal in body if not isinstance(literal, syntax.Atom)]
    try:
        bindings = list(settled(found, [*others, *conditions], ranges, complete))
    except (EmptyError, NoValueError):
        return []
    return [tuple(binding[name] for name in head) for binding in bindings]


def check_proof(
    program: checked.CheckedProgram, proof: Proof, inputs: Mapping[str, set[Row]], complete: Relations
) -> None:
    """Check that each step is an instance of its rule and uses lower rows only, down to inputs."""
    assert proof.complete
    selected = selected_relations(program)
    reached = {proof.goal}
    for key, step in proof.steps.items():
        assert step.key == key
        relation, row = key
        assert row in complete[relation]
        if step.rule is None:
            assert step.premises == ()
            assert step.height or row in inputs[relation]
            assert not step.height or relation in selected
            continue
        assert step.premises is not None
        rows = [premise.key for premise in step.premises if premise.kind == "row"]
        reached.update(rows)
        assert step.height == 1 + max((proof.steps[below].height for below in rows), default=0)
        check_step(program, step, rows, complete)
    assert reached == set(proof.steps)


def check_step(
    program: checked.CheckedProgram, step: ProofStep, rows: list[tuple[str, Row]], complete: Relations
) -> None:
    if step.number is None:
        assert program.relations[step.key[0]].equivalence
        assert {name for name, _ in rows} == {step.key[0]}
        assert step.key[1] in closure({row for _, row in rows})
        return
    (rule,) = (rule for rule in program.rules if rule.number == step.number)
    atoms = atoms_of(rule)
    assert [atom.relation for atom in atoms] == [name for name, _ in rows]
    found: Bindings = {}
    conditions: list = []
    for atom, (_, row) in zip(atoms, rows, strict=True):
        matched = match_row(atom, row, found)
        assert matched is not None, f"{row} does not fit {atom}"
        found, more = matched
        conditions += more
    assert rule.head.relation == step.key[0]
    assert step.key[1] in head_rows(rule, found, conditions, complete)


def is_positive(program: checked.CheckedProgram) -> bool:
    """Whether the program has no negation and no aggregate."""
    return not any(strictly for rule in program.rules for _, strictly in uses(rule))
