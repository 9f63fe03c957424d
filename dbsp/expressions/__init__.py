"""Expressions over the columns of a row, evaluated over whole columns of codes.

    from dbsp import col, when

    adults = people.filter(col("age") >= 18)
    prices = items.map(name=col("name"), net=when(col("vat").is_null()).then(col("price")).otherwise(0.0))

`col` and `lit` start one; operators and methods build on (`Expression`); `bind` checks it against a
schema and gives a `Bound`, which evaluates.
"""

from dbsp.expressions.bound_expression import Bound, bind
from dbsp.expressions.expression import (
    Call,
    Column,
    Expression,
    Functor,
    FunctorCall,
    Literal,
    as_expression,
    call,
)
from dbsp.expressions.functions import FUNCTIONS
from dbsp.expressions.vocabulary import cat, col, lit, max_of, min_of, when

__all__ = [
    "FUNCTIONS",
    "Bound",
    "Call",
    "Column",
    "Expression",
    "Functor",
    "FunctorCall",
    "Literal",
    "as_expression",
    "bind",
    "call",
    "cat",
    "col",
    "lit",
    "max_of",
    "min_of",
    "when",
]
