"""Binding: check an expression against a schema and prepare its evaluation over code rows."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from dbsp.data.interner import Interner
from dbsp.data.schema import Schema, suggestion
from dbsp.data.type_inference import as_type, infer_type
from dbsp.data.types import INT, OBJECT, Type
from dbsp.data.values import decode_value, decoder, encode_value, encoder
from dbsp.errors import DbspError, EvaluationError, InputError, SchemaError, shorten
from dbsp.expressions import (  # noqa: F401  (each enters its functions into the table)
    arithmetic,
    bits,
    comparison,
    constructors,
    decimal_arithmetic,
    hash_values,
    membership,
    regex,
    rounding,
    series,
    string_edits,
    strings,
    struct_parts,
    time_units,
    times,
)
from dbsp.expressions.expression import (
    AggregateCall,
    Call,
    Column,
    Expression,
    Functor,
    FunctorCall,
    Literal,
    StreamColumn,
)
from dbsp.expressions.functions import FUNCTIONS, Function, Overload, overloads, refuse
from dbsp.expressions.nodes import (
    CallFailed,
    ColumnNode,
    ConstantNode,
    ExpressionNode,
    Mask,
    Operation,
    Scalar,
    StrictNode,
    VectorFn,
    fold,
    to_codes,
)
from dbsp.expressions.origin import Origin, failure_text
from dbsp.expressions.substitution import substitute
from dbsp.kernels.arrays import Codes
from dbsp.kernels.limits import NULL

_FEW = 8
"""Up to this many rows, the scalar functions are faster than the fixed cost of numpy per call."""


class Bound:
    """An expression bound to a schema; `type` is the type of its result.

    A bound expression keeps the evaluators that it prepared for its latest interner.
    """

    def __init__(self, expression: Expression, schema: Schema, node: ExpressionNode) -> None:
        self.expression = expression
        self.schema = schema
        self.node = node
        self._interner: Interner | None = None
        self._scalar: Scalar
        self._vector: VectorFn
        self._encode: Callable[[Any, Interner], int] = _encoder(node.type)
        # An int column needs no decoding; None in an optional one does.
        self._decoders = [
            (j, _decoder(schema.types[j])) for j in sorted(node.columns) if schema.types[j] != INT
        ]

    @property
    def type(self) -> Type:
        """The type of the result."""
        return self.node.type

    @property
    def columns(self) -> tuple[int, ...]:
        """The positions of the columns used, ascending."""
        return tuple(sorted(self.node.columns))

    def __repr__(self) -> str:
        return f"<{self.expression!r}: {self.type} over ({self.schema.describe()})>"

    def evaluate(self, rows: Codes, interner: Interner) -> Codes:
        """Return the codes of the result, int64[n], for rows int64[n, k]; of a column, a view.

        Strings are computed once per distinct value. Raises ValueOutOfRangeError if an int is
        outside the 64-bit range, and EvaluationError if a row has no result. Both name the part of
        the expression that failed, its place in a program, and the values of its variables.
        """
        node = self.node
        if isinstance(node, ColumnNode):
            column: Codes = rows[:, node.position]
            return column
        self._prepare(interner)
        if len(rows) <= _FEW:
            return self._evaluate_by_row(rows, interner)
        try:
            with np.errstate(all="ignore"):
                return to_codes(self._vector(rows), node.type)
        except DbspError:
            # The same rows one by one: that finds the first that has no result, and names it.
            return self._evaluate_by_row(rows, interner)

    def mask(self, rows: Codes, interner: Interner) -> Mask:
        """Return the mask of the rows for which a condition is true; None counts as false."""
        return np.equal(self.evaluate(rows, interner), 1)

    def _prepare(self, interner: Interner) -> None:
        if interner is not self._interner:
            self._scalar = self.node.scalar(interner)
            self._vector = self.node.vector(interner)
            self._interner = interner

    def _evaluate_by_row(self, rows: Codes, interner: Interner) -> Codes:
        scalar, encode, decoders = self._scalar, self._encode, self._decoders
        result = []
        for i, codes in enumerate(rows.tolist()):
            values = codes
            for j, decode in decoders:
                values[j] = decode(values[j], interner)
            try:
                result.append(encode(scalar(values), interner))
            except CallFailed as failed:
                error = self._located(failed.error, failed.call, rows[i : i + 1], interner)
                raise error from failed.error.__cause__
            except DbspError as failure:
                error = self._located(failure, self.expression, rows[i : i + 1], interner)
                raise error from failure.__cause__
        return np.array(result, np.int64)

    def _located(self, error: DbspError, part: Expression, row: Codes, interner: Interner) -> DbspError:
        """Return the error with the part that failed and the values of its variables."""
        origin = _origin(self.expression, part)
        if origin is None:
            columns = [(name, Column(name)) for name in part.columns]
            text = failure_text(error.message, repr(part), self._values(columns, row, interner), shorten)
            return type(error)(text, code=error.code)
        variables = (
            (name, functools.reduce(substitute, origin.definitions, variable))
            for name, variable in origin.variables()
        )
        diagnostic = origin.diagnostic(error.message, error.code, self._values(variables, row, interner))
        located = type(error)(diagnostic.message, code=error.code)
        located.locate(diagnostic)
        return located

    def _values(
        self, variables: Iterable[tuple[str, Expression]], row: Codes, interner: Interner
    ) -> list[tuple[str, Any]]:
        """Return the variables with their values in one row, without those that have no value."""
        found = []
        for name, variable in variables:
            try:
                bound = bind(variable, self.schema)
                (code,) = bound.evaluate(row, interner).tolist()
            except DbspError:
                continue
            found.append((name, decode_value(bound.type, code, interner)))
        return found


def _origin(expression: Expression, part: Expression) -> Origin[Expression] | None:
    """Return the origin of a part of the expression, or of the smallest call around it with one."""
    if not isinstance(expression, Call):
        return None
    if expression is part:
        return expression.origin
    for argument in expression.arguments:
        if _contains(argument, part):
            return _origin(argument, part) or expression.origin
    return None


def _contains(expression: Expression, part: Expression) -> bool:
    if expression is part:
        return True
    return isinstance(expression, Call) and any(_contains(a, part) for a in expression.arguments)


def _encoder(type_: Type) -> Callable[[Any, Interner], int]:
    """Return the encoder of a type within expressions, where constructed values are their codes."""
    if type_.structure is None:
        return encoder(type_)
    return lambda value, interner: NULL if value is None else value


def _decoder(type_: Type) -> Callable[[int, Interner], Any]:
    if type_.structure is None:
        return decoder(type_)
    return lambda code, interner: None if code == NULL else code


def bind(expression: Expression, schema: Schema) -> Bound:
    """Check an expression against a schema. Raises SchemaError with the columns and their types."""
    try:
        return Bound(expression, schema, _bind(expression, schema))
    except SchemaError as error:
        raise SchemaError(f"{expression!r}: {error.message}", code=error.code) from None


def _bind(expression: Expression, schema: Schema) -> ExpressionNode:
    if isinstance(expression, StreamColumn):
        raise SchemaError(
            f"{expression!r} is a column of one stream, which only the methods of that stream and its joins "
            f'read; write col("{expression.name}")',
            code="invalid-expression",
        )
    if isinstance(expression, Column):
        position = schema.index(expression.name)
        return ColumnNode(schema.types[position], position)
    if isinstance(expression, Literal):
        return _constant(expression)
    if not isinstance(expression, Call):
        raise SchemaError(
            f"expected an expression over columns, got {expression!r} of type {type(expression).__name__}",
            code="invalid-expression",
        )
    if isinstance(expression, AggregateCall):
        raise SchemaError(
            f"{expression!r} is an aggregate and has no value for one row; use it in "
            "group_by(...).agg(...) or rolling(...)",
            code="invalid-expression",
        )
    if isinstance(expression, FunctorCall):
        return _functor_node(expression, [_bind(argument, schema) for argument in expression.arguments])
    function = FUNCTIONS.get(expression.function)
    if function is None:
        message = f"unknown function {expression.function!r}{suggestion(expression.function, FUNCTIONS)}"
        raise SchemaError(message, code="invalid-expression")
    arguments = [_bind(argument, schema) for argument in expression.arguments]
    node = function.resolve(arguments)
    if node is None:
        raise refuse(function, list(map(repr, expression.arguments)), arguments)
    return _named(fold(node), expression)


def _named(node: ExpressionNode, call: Call) -> ExpressionNode:
    """Set the call that errors of the node name."""
    if isinstance(node, StrictNode) and node.call is None:
        node.call = call
    return node


def _functor_node(call: FunctorCall, arguments: Sequence[ExpressionNode]) -> ExpressionNode:
    functor = call.functor
    types = (*functor.parameters, functor.result)
    operation = Operation(functor, fallible=True)
    if any(type_.structure is not None for type_ in types):
        operation = Operation(
            functools.partial(_call_with_structures, functor), fallible=True, with_interner=True
        )
    signature = Overload(functor.parameters, functor.result, operation)
    node = overloads(signature)(arguments)
    if node is None:
        expected = ", ".join(map(str, functor.parameters))
        function = Function(call.function, f"{call.function} expects ({expected})", overloads(signature))
        raise refuse(function, list(map(repr, call.arguments)), arguments)
    return _named(node, call)


def _call_with_structures(functor: Functor, interner: Interner, *arguments: Any) -> Any:
    """Call a functor with constructed values, which are their codes within expressions."""
    values = [
        value if type_.structure is None or value is None else decode_value(type_, value, interner)
        for type_, value in zip(functor.parameters, arguments, strict=True)
    ]
    result = functor(*values)
    if functor.result.structure is None:
        return result
    try:
        code = encode_value(functor.result, result, interner)
    except InputError as error:
        message = f"functor '@{functor.name}' returned {shorten(result)}: {error.message}"
        raise EvaluationError(message, code="user-function") from error
    return None if code == NULL else code


def _constant(literal: Literal) -> ConstantNode:
    value, type_ = literal.value, literal.type
    if value is None:
        return ConstantNode((type_ or OBJECT).optional(), None)
    interner = Interner()
    type_ = infer_type([value]) if type_ is None else as_type(type_).required()
    # Encoded and decoded, so that the constant equals the value that a column would store.
    return ConstantNode(type_, decode_value(type_, encode_value(type_, value, interner), interner))
