"""Short ways to run the passes on a text."""

from __future__ import annotations

from dbsp.compiler.datalog import checked, syntax
from dbsp.compiler.datalog.check import check
from dbsp.compiler.datalog.normalise import normalise
from dbsp.compiler.datalog.parse import parse
from dbsp.compiler.datalog.plan import plan
from dbsp.compiler.datalog.report import Report
from dbsp.compiler.datalog.steps import RulePlan


def parsed(text: str) -> tuple[syntax.Item, ...]:
    return parse(text, Report("t.dl", text)).items


def checked_program(text: str) -> checked.Program:
    report = Report("t.dl", text)
    return check(parse(text, report), report)


def plans(text: str) -> list[RulePlan]:
    return [plan(normalise(rule)) for rule in checked_program(text).rules]
