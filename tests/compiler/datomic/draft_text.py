"""The draft rules of a query as text, for tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dbsp.compiler.datalog.tree.kinds import VALUE, AnyKind, Kind
from dbsp.compiler.datomic.meaning.base_relations import KnownAttribute
from dbsp.compiler.datomic.meaning.draft_rules import DraftAtom, DraftCall, DraftLiteral, DraftQuery
from dbsp.compiler.datomic.meaning.draft_writer import DraftWriter
from dbsp.compiler.datomic.meaning.rule_writer import write_rules
from dbsp.compiler.datomic.text.query_parser import parse_query
from dbsp.compiler.datomic.text.query_report import QueryReport
from dbsp.compiler.datomic.text.rule_parser import parse_rules
from dbsp.diagnostics import ProgramSources
from dbsp.errors import SchemaError

ATTRIBUTES: dict[str, AnyKind] = {
    "db/ident": VALUE,
    "a": Kind.NUMBER,
    "b": Kind.NUMBER,
    "c": Kind.SYMBOL,
    "ref": Kind.NUMBER,
    "key": VALUE,
}


class TestCatalog:
    """A database with the attributes of `ATTRIBUTES`; an open one may get more."""

    __test__ = False

    def __init__(self, is_history: bool = False, is_open: bool = False, is_database: bool = True) -> None:
        self.is_history = is_history
        self.is_database = is_database
        self.is_open = is_open

    def attribute(self, name: Any) -> KnownAttribute | None:
        text = name.removeprefix(":") if isinstance(name, str) else str(name)[1:]
        if text in ATTRIBUTES:
            number = 100 + list(ATTRIBUTES).index(text)
            keyword = text in ("ref", "key", "db/ident")
            return KnownAttribute(number, f":{text}", ATTRIBUTES[text], text == "ref", keyword)
        if self.is_open:
            return None
        raise SchemaError(f"unknown attribute :{text}; did you mean :a?", code="unknown-attribute")


def written(
    query: Any,
    rules: Any = "",
    functions: dict[str, Callable[..., Any]] | None = None,
    **sources: TestCatalog,
) -> DraftQuery:
    """Return the draft of a query; `sources` are those beside `$`, named `s2` for `$2`."""
    parsed = parse_query(query)
    catalogs = {"$": TestCatalog(), **{name.replace("s", "$", 1): given for name, given in sources.items()}}
    definitions = parse_rules(f"[{rules}]" if isinstance(rules, str) else rules).definitions if rules else ()
    report = QueryReport(ProgramSources({"query": query if isinstance(query, str) else "", "rules": "x"}))
    writer = DraftWriter(definitions, catalogs, functions or {}, report)
    return write_rules(writer, parsed, [element.variable.name for element in parsed.find.elements])


def draft(query: Any, rules: Any = "", **options: Any) -> list[str]:
    """Return the draft rules as text, with the constants by their values."""
    found = written(query, rules, **options)
    constants = {
        parameter.name: repr(parameter.constant) for parameter in found.parameters if parameter.is_constant
    }
    lines = []
    for rule in found.rules:
        body = ", ".join(literal_text(literal) for literal in rule.body)
        lines.append(f"{rule.head}({', '.join(rule.arguments)}) :- {body}")
    for name, value in constants.items():
        lines = [line.replace(name, value) for line in lines]
    return lines


def literal_text(literal: DraftLiteral) -> str:
    if isinstance(literal, DraftAtom):
        arguments = ", ".join("_" if name.startswith("_#") else name for name in literal.arguments)
        return f"{'!' if literal.negated else ''}{literal.relation}({arguments})"
    if isinstance(literal, DraftCall):
        called = f"[{literal.function}({', '.join(literal.arguments)})]"
        return called if literal.result is None else f"{literal.result} = {called}"
    return f"{literal.variable} < {literal.size}"
