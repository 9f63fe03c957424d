"""Expressions over the columns of a row, evaluated over whole columns of codes.

    from dbsp import col, when

    adults = people.filter(col("age") >= 18)
    prices = items.map(price=when(col("vat").is_null()).then(col("net")).otherwise(0.0))

`col` and `lit` return expressions; their operators and methods build larger ones (`Expression`).
`bind` checks an expression against a schema and returns a `Bound`, which evaluates it.
"""

from dbsp.expressions.bound_expression import Bound, bind
from dbsp.expressions.expression import (
    AggregateCall,
    Call,
    Column,
    Expression,
    Functor,
    FunctorCall,
    Literal,
    StreamColumn,
    as_expression,
    call,
)
from dbsp.expressions.functions import FUNCTIONS
from dbsp.expressions.vocabulary import cat, coalesce, col, lit, max_of, min_of, when

__all__ = [
    "FUNCTIONS",
    "AggregateCall",
    "Bound",
    "Call",
    "Column",
    "Expression",
    "Functor",
    "FunctorCall",
    "Literal",
    "StreamColumn",
    "as_expression",
    "bind",
    "call",
    "cat",
    "coalesce",
    "col",
    "lit",
    "max_of",
    "min_of",
    "when",
]
