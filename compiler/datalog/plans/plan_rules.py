"""The plans of all rules of a program."""

from __future__ import annotations

from collections.abc import Iterable

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.plans.bind_groups import GroupBinding
from dbsp.compiler.datalog.plans.join_bodies import Policy
from dbsp.compiler.datalog.plans.merge_aggregates import merge_aggregates
from dbsp.compiler.datalog.plans.normalise import NormalRule, normalise
from dbsp.compiler.datalog.plans.plan import plan
from dbsp.compiler.datalog.plans.plan_steps import RulePlan
from dbsp.compiler.datalog.plans.read_classes import read_classes
from dbsp.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class PlannedProgram:
    """A program with the plan of every rule, by the rule's number."""

    program: checked.CheckedProgram
    plans: dict[int, RulePlan]


def plan_rules(
    program: checked.CheckedProgram, policy: Policy, rules: Iterable[checked.Rule] | None = None
) -> dict[int, RulePlan]:
    """Return the plan of every rule of a program, or of some rules, by the rule's number."""
    equivalences = {name for name, relation in program.relations.items() if relation.equivalence}

    known: dict[int, NormalRule] = {}

    def normal(rule: checked.Rule) -> NormalRule:
        found = known.get(rule.number)
        if found is None:
            found = merge_aggregates(read_classes(normalise(rule), equivalences))
            known[rule.number] = found  # the rules that read its relation in an aggregate need it, too
        return found

    binding = GroupBinding(program, normal)
    return {
        # What is derived from external rows alone must not be stored, so groups do not come first.
        rule.number: plan(normal(rule) if policy.external else binding.rewritten(normal(rule)), policy)
        for rule in (program.clauses if rules is None else rules)
    }
