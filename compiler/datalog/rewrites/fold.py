"""The value of a function of constants, computed at compile time by what computes it in a run."""

from __future__ import annotations

import math

import numpy as np

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.term_expressions import expression, predicate
from dbsp.compiler.datalog.meaning.traversal import map_parts
from dbsp.compiler.datalog.rewrites.simple_terms import SINGLE_VALUED
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.data.values import decode_value
from dbsp.errors import DbspError
from dbsp.expressions import Expression

# Which number stands for a text is a matter of the run.
_FOLDED = SINGLE_VALUED - {"ord", "as"}


def fold(term: checked.Term) -> checked.Term:
    """The term with every function of constants replaced by its value, also in the bodies of aggregates.

    A function without a value is left as it is: it is an error of the ticks that ask for it.
    """
    term = map_parts(term, fold)
    if not isinstance(term, checked.Call) or term.function not in _FOLDED:
        return term
    if not all(isinstance(argument, checked.Constant) for argument in term.arguments):
        return term
    value = _value(expression(term))
    return term if value is None else checked.Constant(value, term.kind, term.span)


def holds(comparison: checked.Comparison) -> bool | None:
    """Whether a comparison of constants holds; None for any other."""
    if isinstance(comparison.left, checked.Constant) and isinstance(comparison.right, checked.Constant):
        value = _value(predicate(comparison))
        return None if value is None else bool(value)
    return None


def _value(expression: Expression) -> checked.Value | None:
    interner = Interner()
    bound = expression.bind(Schema((), ()))
    try:
        (code,) = bound.evaluate(np.zeros((1, 0), np.int64), interner).tolist()
    except DbspError:
        return None
    value: checked.Value = decode_value(bound.type, code, interner)
    return None if isinstance(value, float) and math.isnan(value) else value
