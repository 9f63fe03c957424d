"""Functions of constants, computed at compile time by the evaluator that a run uses."""

from __future__ import annotations

import math

import numpy as np

from dbsp.compiler.datalog.meaning.term_expressions import expression, predicate
from dbsp.compiler.datalog.rewrites.simple_terms import SINGLE_VALUED
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.kinds import Value
from dbsp.compiler.datalog.tree.traversal import map_children
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.data.values import decode_value
from dbsp.errors import DbspError
from dbsp.expressions import Expression, bind

# The ordinal number of a text differs between runs.
_FOLDED = SINGLE_VALUED - {"ord", "as"}


def fold(term: syntax.Term) -> syntax.Term:
    """Replace every function of constants by its value, also in the bodies of aggregates.

    A function without a value stays: it is an error of the ticks that evaluate it.
    """
    term = map_children(term, fold)
    if not isinstance(term, syntax.Call) or term.function not in _FOLDED:
        return term
    if not all(isinstance(argument, syntax.Constant) for argument in term.arguments):
        return term
    value = _value(expression(term))
    return term if value is None else syntax.Constant(value, term.span, term.kind)


def holds(comparison: syntax.Comparison) -> bool | None:
    """Return whether a comparison of constants holds; None for other comparisons."""
    if isinstance(comparison.left, syntax.Constant) and isinstance(comparison.right, syntax.Constant):
        value = _value(predicate(comparison))
        return None if value is None else bool(value)
    return None


def _value(expression: Expression) -> Value | None:
    interner = Interner()
    bound = bind(expression, Schema((), ()))
    try:
        (code,) = bound.evaluate(np.zeros((1, 0), np.int64), interner).tolist()
    except DbspError:
        return None
    value: Value = decode_value(bound.type, code, interner)
    return None if isinstance(value, float) and math.isnan(value) else value
