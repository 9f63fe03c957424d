"""Remark on a variable of a question that is also a text of the data: quotes were forgotten.

`why person(alice)` selects every person, since `alice` is a variable.
"""

from __future__ import annotations

from collections.abc import Iterable

from dbsp.cli.console import remark
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.why.question import read_goal
from dbsp.compiler.why.session import WhySession
from dbsp.data.zset import ZSet


def remark_in_answers(answers: ZSet) -> None:
    """Remark on the variables of a query, which are the columns of its answers."""
    _remark(answers, answers.schema.names)


def remark_in_goal(state: WhySession, goal: str) -> None:
    """Remark on the variables of an atom to explain."""
    atom, _ = read_goal(state.program, goal)
    names = [term.name if isinstance(term, syntax.Variable) else None for term in atom.arguments]
    if any(names):
        _remark(state.rows(atom.relation), names)


def _remark(rows: ZSet, names: Iterable[str | None]) -> None:
    for place, (name, type_) in enumerate(zip(names, rows.schema.types, strict=True)):
        if name is None or type_.kind != "str":
            continue
        stored = rows.interner.find(name)
        if stored is not None and (rows.stored.rows[:, place] == stored).any():
            remark(f'note: {name} is a variable, which stands for any value; write "{name}" for the text')
