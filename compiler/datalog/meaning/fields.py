"""Check the fields and branches of record types and algebraic data types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dbsp.compiler.datalog.text import parsed
from dbsp.compiler.datalog.text.report import Report

if TYPE_CHECKING:
    from dbsp.compiler.datalog.meaning.declared_types import TypeEnvironment


def declare_fields(declaration: parsed.TypeDeclaration, environment: TypeEnvironment, report: Report) -> bool:
    """Whether fields have known types, records unique fields, and branches unique names.

    As in Soufflé a branch belongs to one type only: its name alone determines the type. Two fields
    of a branch can have one name, as arguments have no names.
    """
    errors = report.error_count
    type_name = declaration.name.text
    for branch in declaration.branches:
        name = branch.name.text
        if declaration.form == "adt":
            other = environment.branches.setdefault(name, type_name)
            if other != type_name or [sibling.name.text for sibling in declaration.branches].count(name) > 1:
                reason = f"'{other}' also declares it" if other != type_name else "it is declared twice"
                message = f"branch '{name}' of '{type_name}' is not unique: {reason}"
                report.error(branch.name.span, message, code="duplicate-definition")
        seen: set[str] = set()
        for field in branch.fields:
            if field.name in seen and declaration.form == "record":
                message = f"field '{field.name}' of '{type_name}' is declared twice"
                report.error(field.span, message, code="duplicate-definition")
            seen.add(field.name)
            if field.type_name not in environment and field.type_name not in environment.broken:
                hint = environment.hint(field.type_name)
                message = f"undefined type '{field.type_name}'"
                report.error(field.type_span, message, hint, code="unknown-type")
    return report.error_count == errors
