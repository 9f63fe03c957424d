"""Clauses as EDN text, with the values of their variables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dbsp.compiler.datomic.meaning.bindable import binding_variables, shared_variables, variables_of
from dbsp.compiler.datomic.meaning.binding_values import binding_text
from dbsp.compiler.datomic.meaning.checked_rules import NIL
from dbsp.compiler.datomic.tree import query_tree as tree
from dbsp.datomic.proofs.clause_search import Given, Part, RuleRow, visible
from dbsp.datomic.proofs.rule_rows import UNBOUND
from dbsp.datomic.proofs.same_values import Environment
from dbsp.datomic.proofs.source_rows import FoundRow
from dbsp.edn.edn_writer import display_text


def value_text(value: Any) -> str:
    """Return a value as EDN; `_` for one that may be any."""
    if value is UNBOUND or value is ...:
        return "_"
    return display_text(None if value is NIL else value)


def row_text(values: Iterable[Any]) -> str:
    """Return a row of a query as EDN."""
    return f"[{' '.join(map(value_text, values))}]"


def found_text(row: FoundRow) -> str:
    """Return a datom or a tuple of a source as EDN."""
    return _with_source(row.source, row_text(row.values))


def rule_row_text(row: RuleRow) -> str:
    """Return a row of a rule as a call."""
    return _call_text(row.source, row.name, map(value_text, row.values))


def part_text(part: Part, known: Environment) -> str:
    """Return a clause with the values that its variables have."""
    match part:
        case Given(binding=binding):
            values = [
                f"{name} = {value_text(known[name])}" for name in binding_variables(binding) if name in known
            ]
            return f":in {binding_text(binding)}" + (f" with {', '.join(values)}" if values else "")
        case tree.Pattern(source=source, terms=terms):
            return _with_source(source, f"[{' '.join(_term(term, known) for term in terms)}]")
        case tree.Predicate():
            return f"[{_function(part, known)}]"
        case tree.Function(binding=binding):
            return f"[{_function(part, known)} {_binding(binding, known)}]"
        case tree.RuleCall(source=source, name=name, arguments=arguments):
            return _call_text(source, name, (_term(term, known) for term in arguments))
        case tree.Not(variables=variables, clauses=clauses):
            shown = visible(known, variables_of(part))
            head = "not" if variables is None else f"not-join {_names(variables, shown)}"
            return f"({head} {' '.join(part_text(each, shown) for each in clauses)})"
        case tree.Or():
            return _or(part, known)


def _or(clause: tree.Or, known: Environment) -> str:
    shown = visible(known, shared_variables(clause))
    branches = []
    for branch in clause.branches:
        texts = [part_text(each, shown) for each in branch]
        branches.append(texts[0] if len(texts) == 1 else f"(and {' '.join(texts)})")
    head = "or"
    if clause.variables is not None:
        head = f"or-join {_names((*clause.required, *clause.variables), shown)}"
    return f"({head} {' '.join(branches)})"


def _names(variables: Iterable[tree.Variable], known: Environment) -> str:
    return f"[{' '.join(_term(variable, known) for variable in variables)}]"


def _function(clause: tree.Predicate | tree.Function, known: Environment) -> str:
    name = tree.called_name(clause.function)
    return f"({' '.join((name, *(_term(argument, known) for argument in clause.arguments)))})"


def _binding(binding: tree.Binding, known: Environment) -> str:
    match binding:
        case tree.BindScalar(variable=variable):
            return _term(variable, known)
        case tree.BindBlank():
            return "_"
        case tree.BindCollection(part=part):
            return f"[{_binding(part, known)} ...]"
        case tree.BindTuple(parts=parts):
            return f"[{' '.join(_binding(part, known) for part in parts)}]"
        case tree.BindRelation(parts=parts):
            return f"[[{' '.join(_binding(part, known) for part in parts)}]]"


def _term(term: tree.Term | tree.Argument, known: Environment) -> str:
    match term:
        case tree.Variable(name=name):
            return value_text(known[name]) if name in known else name
        case tree.Constant(value=value, quoted=quoted):
            return value_text(value) if quoted else str(value)
        case tree.SourceVariable(name=name):
            return name
    return "_"


def _call_text(source: str, name: str, arguments: Iterable[str]) -> str:
    start = "" if source == "$" else f"{source} "
    return f"({start}{' '.join((name, *arguments))})"


def _with_source(source: str, text: str) -> str:
    return text if source == "$" else f"[{source} {text[1:]}"
