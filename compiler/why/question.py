"""Questions about a program in its own language: a body of literals, or one atom to explain."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.checked import Attribute, Relation
from dbsp.compiler.datalog.meaning.declare import Declarations
from dbsp.compiler.datalog.meaning.dependencies import dependencies
from dbsp.compiler.datalog.meaning.flatten import FlatClause, expand
from dbsp.compiler.datalog.meaning.ground import check_ground
from dbsp.compiler.datalog.meaning.infer import TypedClause, infer
from dbsp.compiler.datalog.meaning.localise import localise
from dbsp.compiler.datalog.meaning.resolve import resolve
from dbsp.compiler.datalog.meaning.subtypes import check_subtypes
from dbsp.compiler.datalog.text import parsed
from dbsp.compiler.datalog.text.parse import parse
from dbsp.compiler.datalog.text.report import Report
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.traversal import find, outer_variables
from dbsp.diagnostics import Diagnostic, SourceSpan, did_you_mean
from dbsp.errors import CompileError, DbspError, InputError, shorten
from dbsp.lazy_dataclass import dataclass

QUESTION_FILE = "<question>"
"""The file that messages about a question name."""

ANSWER = "?"
"""The relation of the answers to a question; no program can declare this name."""

MAX_NAMES = 20
"""Messages list at most this many relations."""


@dataclass(frozen=True, slots=True)
class Question:
    """A checked question: rules for the relation `ANSWER`, one for each alternative of the body.

    The columns are the variables that every alternative binds, except those that begin with `_`.
    """

    answer: Relation
    rules: tuple[checked.Rule, ...]

    @property
    def relations(self) -> tuple[str, ...]:
        """The relations that the question reads."""
        used = (use.used for rule in self.rules for use in dependencies(rule))
        return tuple(dict.fromkeys(used))


def read_question(program: checked.CheckedProgram, text: str, file: str = QUESTION_FILE) -> Question:
    """Read a question, such as `path(1, x), x > 2`. Raises CompileError with every error found."""
    text = text.strip().removesuffix(".")
    # The head is on a line of its own, so that columns match those of the text.
    report = Report(file, f"\n{text}")
    try:
        clause = _clause(parse(f"q() :-\n{text}\n.", report), text, report)
        return _question(program, clause, report)
    except CompileError as error:
        end = text.count("\n") + 2
        # With another error, the one at the end is about the same mistake.
        inside = [found for found in error.diagnostics if found.span.line <= end]
        raise CompileError([_of_text(found, text) for found in inside or error.diagnostics]) from None


def _of_text(found: Diagnostic, text: str) -> Diagnostic:
    """Return the diagnostic with its position relative to the text of the question."""
    lines = text.split("\n")
    line = found.span.line - 1
    if line > len(lines):
        last = len(lines[-1])
        span = replace(found.span, line=len(lines), column=last + 1, end_line=len(lines), end_column=last + 2)
        message = "the question is incomplete: it ends here"
        return Diagnostic(message, span, found.hint, line_text=lines[-1], code=found.code)
    line = max(1, line)
    return replace(found, span=replace(found.span, line=line, end_line=max(1, found.span.end_line - 1)))


def place_in_question(error: DbspError, text: str) -> None:
    """Point an error of the evaluation at its place in the text of the question."""
    found = error.diagnostic
    if found is not None and found.span.file == QUESTION_FILE:
        text = text.strip().removesuffix(".")
        placed = _of_text(replace(found, note=None), text)
        error.locate(replace(placed, line_text=text.split("\n")[placed.span.line - 1]))


def _clause(tree: parsed.ParsedProgram, text: str, report: Report) -> parsed.Clause:
    match tree.items:
        case (parsed.Clause(body=body) as clause,) if body is not None:
            return clause
    place = SourceSpan(report.file, 2, 1, 2, len(text) + 1)
    report.error(
        place,
        "expected the body of a rule",
        "for example: path(1, x), x > 2",
        code="invalid-question",
    )
    report.raise_errors()
    raise AssertionError("unreachable: the report has an error")


def _question(program: checked.CheckedProgram, clause: parsed.Clause, report: Report) -> Question:
    answer = Relation(ANSWER, (), clause.span)
    relations = {**program.relations, ANSWER: answer}
    declarations = Declarations(program.types, relations, frozenset(), frozenset(), program.functors)
    head = replace(clause.heads[0], relation=ANSWER)
    typed: list[TypedClause] = []
    for flat in expand(replace(clause, heads=(head,)), report):
        if not _relations_known(flat, declarations, report) or not resolve(flat, declarations, report):
            continue
        local = localise(flat)
        if check_ground(local, report):
            found = infer(local, declarations, report)
            if found is not None and check_subtypes(local, declarations, found.structured, report):
                typed.append(found)
    report.raise_errors()
    columns = _columns(typed)
    attributes = tuple(Attribute(variable.name, variable.kind.value, variable.kind) for variable in columns)
    rules = tuple(
        checked.Rule(number, replace(clause.head, arguments=columns), clause.body, clause.span)
        for number, clause in enumerate(typed, 1)
    )
    return Question(replace(answer, attributes=attributes), rules)


def _relations_known(clause: FlatClause, declarations: Declarations, report: Report) -> bool:
    """Report the unknown relations of a question; its author cannot declare them."""
    unknown = [
        atom
        for literal in clause.body
        for atom in find(literal, syntax.Atom)
        if atom.relation not in declarations.relations
    ]
    for atom in unknown:
        message, names = unknown_relation(atom.relation, declarations.relations)
        report.error(atom.name_span, message, names, code="unknown-relation")
    return not unknown


def unknown_relation(name: str, relations: Iterable[str]) -> tuple[str, str]:
    """Return the message about an unknown relation, and a list of the relations."""
    names = [relation for relation in relations if relation != ANSWER]
    hint = did_you_mean(name, names) if isinstance(name, str) else None
    shown = ", ".join(names[:MAX_NAMES]) + (", ..." if len(names) > MAX_NAMES else "")
    return f"unknown relation {shorten(name)}" + (
        f"; {hint}" if hint else ""
    ), f"the relations are {shown or 'none'}"


def expect_relation(name: str, relations: Collection[str]) -> None:
    """Raise InputError unless there is a relation of this name."""
    if not isinstance(name, str) or name not in relations:
        message, names = unknown_relation(name, relations)
        raise InputError(f"{message} ({names})", code="unknown-relation")


def _columns(typed: Sequence[TypedClause]) -> tuple[syntax.Variable, ...]:
    """Return the variables bound in every alternative, in the order of the first alternative."""
    by_alternative = [
        {
            variable.name: variable
            for literal in clause.body
            if not isinstance(literal, syntax.Negation)
            for variable in outer_variables(literal)
        }
        for clause in typed
    ]
    if not by_alternative:
        return ()
    first, *others = by_alternative
    return tuple(
        variable
        for name, variable in first.items()
        if not name.startswith("_")
        and all(name in other and other[name].kind is variable.kind for other in others)
    )


def read_goal(program: checked.CheckedProgram, text: str) -> tuple[syntax.Atom, checked.Rule]:
    """Read the atom to explain, such as `path(1, _)`; return it and a rule with this atom as its
    body.

    Raises CompileError with every error found, also if the text is not a single positive atom.
    """
    question = read_question(program, text, "<goal>")
    match question.rules:
        case (checked.Rule(body=(syntax.Atom() as atom,)) as rule,):
            return atom, rule
    stripped = text.strip()
    report = Report("<goal>", stripped)
    place = SourceSpan("<goal>", 1, 1, 1, len(stripped) + 1)
    report.error(
        place,
        "expected a single atom",
        'for example: path(1, "text") or path(1, _)',
        code="invalid-question",
    )
    report.raise_errors()
    raise AssertionError("unreachable: the report has an error")
