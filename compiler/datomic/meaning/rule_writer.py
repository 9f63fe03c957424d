"""From a query to draft rules; `query_body` has the meaning of each clause.

constants, values of :in    variables that the relation `query` binds
collections of :in          relations of their own
rules                       relations; `rule#in` has the arguments that a rule needs bound
"""

from __future__ import annotations

from collections.abc import Sequence

from dbsp.compiler.datomic.meaning.bindable import binding_variables
from dbsp.compiler.datomic.meaning.clause_literals import Scope
from dbsp.compiler.datomic.meaning.draft_rules import RESULT, DraftAtom, DraftLiteral, DraftQuery, Parameter
from dbsp.compiler.datomic.meaning.draft_writer import DraftWriter
from dbsp.compiler.datomic.meaning.possible_rows import add_possible_rules
from dbsp.compiler.datomic.meaning.query_body import write_conjunction
from dbsp.compiler.datomic.meaning.renaming import every_variable, renamed
from dbsp.compiler.datomic.tree import query_tree as tree


def write_rules(writer: DraftWriter, query: tree.Query, output: Sequence[str]) -> DraftQuery:
    """Write the rules of `result`, which has the variables `output` as columns."""
    start: list[DraftLiteral] = []
    bound: set[str] = set()
    for number, given in enumerate(query.inputs):
        if isinstance(given, tree.BindingInput):
            start += _values(writer, given.binding, f"in{number}")
            bound.update(binding_variables(given.binding))
    for element in query.find.elements:
        if isinstance(element, tree.FindPull):
            writer.mark_entity(element.variable.name)
    scope = Scope({name: name for name in writer.catalogs})
    write_conjunction(writer, RESULT, output, query.where, start, bound, scope, query.find.span)
    while writer.unwritten:
        _write_rule(writer, *writer.unwritten.pop())
    for recursive, relations in writer.possible.items():
        add_possible_rules(writer.draft, sorted(relations), writer.relations_of(recursive))
    return writer.draft


def _values(writer: DraftWriter, binding: tree.Binding, name: str) -> list[DraftLiteral]:
    """Declare the values of a binding as an input; return the atom that reads them, if any."""
    variables = [each for each in binding_variables(binding) if each not in writer.functions]
    if is_single(binding):
        for variable in variables:
            writer.single[variable] = len(writer.draft.parameters)
            writer.draft.parameters.append(Parameter(variable))
        return []
    writer.draft.inputs[name] = [Parameter(variable) for variable in variables]
    return [DraftAtom(name, tuple(variables), binding.span)]


def _write_rule(writer: DraftWriter, name: str, source: str) -> None:
    """Write the rules of the relation of a rule over a source."""
    relation = writer.relations[name, source]
    needed = writer.needed_of_rule(name)
    scope = Scope({**{each: each for each in writer.catalogs}, "$": source}, writer.components[name])
    for definition in writer.rules[name]:
        # Variables of :in are not visible in a rule.
        definition = renamed(definition, {each: f"{each} {name}" for each in every_variable(definition)})
        head = [variable.name for variable in definition.head]
        given = tuple(head[at] for at in needed)
        start = [DraftAtom(writer.asked(relation), given, definition.span)] if given else []
        write_conjunction(writer, relation, head, definition.clauses, start, given, scope, definition.span)


def is_single(binding: tree.Binding) -> bool:
    """Whether a binding has exactly one value for each of its variables."""
    match binding:
        case tree.BindTuple(parts=parts):
            return all(map(is_single, parts))
        case tree.BindCollection() | tree.BindRelation():
            return False
    return True
