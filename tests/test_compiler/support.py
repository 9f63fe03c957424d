"""Short ways to run the passes on a text."""

from __future__ import annotations

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.check import check
from dbsp.compiler.datalog.plans.normalise import normalise
from dbsp.compiler.datalog.plans.plan import plan
from dbsp.compiler.datalog.plans.steps import RulePlan
from dbsp.compiler.datalog.text import parsed
from dbsp.compiler.datalog.text.parse import parse
from dbsp.compiler.datalog.text.report import Report


def parsed_items(text: str) -> tuple[parsed.Item, ...]:
    return parse(text, Report("t.dl", text)).items


def checked_program(text: str) -> checked.CheckedProgram:
    report = Report("t.dl", text)
    return check(parse(text, report), report)


def plans(text: str) -> list[RulePlan]:
    return [plan(normalise(rule)) for rule in checked_program(text).rules]
